/*
 * account.c - the keys of an AWS account, from several variables
 *
 * If the source is a variable with only the secret access key, the key's id and the session token
 * are variables too (AWS_ACCESS_KEY_ID, AWS_SESSION_TOKEN unless aws_sigv4 names others). The three
 * become one value with one line each.
 */
#include "keeper_internal.h"

#include <keyhole/base/limits.h>
#include <keyhole/config/signing.h>

struct text {
	struct kh_buf *out;
	bool is_whole; /* it is JSON, or the lines already */
};

static bool look(struct kh_slice value, void *arg)
{
	struct text *text = arg;
	text->is_whole =
		value.len > 0 && (value.ptr[0] == '{' || kh_slice_find(value, '\n', 0) < value.len);
	return true;
}

static bool append_line(struct kh_slice value, void *arg)
{
	struct kh_buf *out = arg;
	return kh_buf_append_slice(out, value) && kh_buf_append_char(out, '\n');
}

/* NULL where it is not set; `err` says why. */
static struct kh_secret *read_variable(struct kh_vault *vault, const char *credential, char *name,
				       struct kh_err *err)
{
	const struct kh_source source = { .kind = KH_SOURCE_ENV, .name = name };
	enum kh_source_result result;
	return kh_variables_get(vault, credential, &source, KH_VALUE_LINE, &result, err);
}

static char default_id[] = "AWS_ACCESS_KEY_ID", default_token[] = "AWS_SESSION_TOKEN";

void kh_account_forget(const struct kh_credential_config *credential)
{
	const struct kh_sigv4_config *config =
		credential->placement ? credential->placement->sigv4 : NULL;
	if (!config)
		return;
	kh_source_forget(config->access_key_id ? config->access_key_id : default_id);
	kh_source_forget(config->session_token ? config->session_token : default_token);
}

bool kh_account_complete(struct kh_vault *vault, const struct kh_credential_config *credential,
			 const struct kh_source *source, struct kh_secret **secret,
			 struct kh_err *err)
{
	const struct kh_sigv4_config *config =
		credential->placement ? credential->placement->sigv4 : NULL;
	struct text text = { .is_whole = true };
	if (!config || source->kind != KH_SOURCE_ENV || !kh_secret_expose(*secret, look, &text) ||
	    text.is_whole)
		return true;
	struct kh_secret *id =
		read_variable(vault, credential->name,
			      config->access_key_id ? config->access_key_id : default_id, err);
	if (!id)
		return false;
	struct kh_secret *token =
		read_variable(vault, credential->name,
			      config->session_token ? config->session_token : default_token, NULL);
	struct kh_buf lines;
	kh_buf_init_wiping(&lines, KH_LIMIT_SECRET_BYTES);
	bool ok = kh_secret_expose(id, append_line, &lines) &&
		  kh_secret_expose(*secret, append_line, &lines) &&
		  (!token || kh_secret_expose(token, append_line, &lines));
	struct kh_secret *all =
		ok ? kh_secret_new(lines.data + lines.head, kh_buf_len(&lines), err) : NULL;
	kh_buf_fini(&lines);
	kh_secret_unref(id);
	kh_secret_unref(token);
	if (!all)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "credential %s: id, key and token do not fit", credential->name);
	kh_secret_unref(*secret);
	*secret = all;
	return true;
}
