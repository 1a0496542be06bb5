/*
 * exec_output.c - parses what a command printed: the value and its expiry
 *
 * Plain text is the value itself. Output that begins with a brace or bracket is JSON, so that
 * truncated JSON or an error document is not used as a value, unless the configuration says that it
 * is text. The value is the member that the configuration names, or that of a known format:
 *
 *   aws configure export-credentials   Version, AccessKeyId, SecretAccessKey, Expiration: the whole
 *                                      document is the value (for what signs with it)
 *   gcloud config config-helper        credential.access_token, credential.token_expiry
 *   OAuth 2.0 (RFC 6749 section 5.1)   access_token, expires_in
 *   Kubernetes' ExecCredential         status.token, status.expirationTimestamp
 *   vault kv get, vault read           data.data or data with one member, lease_duration
 *   vault token create                 auth.client_token, auth.lease_duration
 *   op item get --fields               value
 *   others                             token, expires_at
 *
 * The operator chose the command, so it is trusted; but its output may not be what was expected. No
 * message contains any of it.
 */

#include "vault_internal.h"

#include <string.h>

#include <jansson.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/json_load.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/timestamp.h>

enum { DEPTH_MOST = 16 };

/* --- time ------------------------------------------------------------------------------------- */

/* A small number is a time from now on, a larger one since the epoch, in seconds or milliseconds.
 */
static uint64_t number_time(uint64_t number, uint64_t now_ms)
{
	const uint64_t year_2001 = 1000000000;
	if (number < year_2001)
		return now_ms + number * 1000;
	return number < year_2001 * 1000 ? number * 1000 : number;
}

/* Return: 0: it is none. */
static uint64_t time_of(const json_t *value, uint64_t now_ms)
{
	if (json_is_integer(value) && json_integer_value(value) > 0)
		return number_time((uint64_t)json_integer_value(value), now_ms);
	if (!json_is_string(value))
		return 0;
	struct kh_slice text = kh_slice_of(json_string_value(value), json_string_length(value));
	uint64_t number, ms;
	if (kh_slice_to_u64(text, &number) && number > 0)
		return number_time(number, now_ms);
	return kh_timestamp_read(text, KH_TIMESTAMP_LOOSE, &ms) ? ms : 0;
}

/* --- members ---------------------------------------------------------------------------------- */

/* "data.keys.0.value" */
static json_t *walk(json_t *from, const char *path)
{
	for (unsigned depth = 0; from && depth < DEPTH_MOST; depth++) {
		char name[256];
		size_t len = strcspn(path, ".");
		uint64_t index;
		if (len == 0 || len >= sizeof(name))
			return NULL;
		memcpy(name, path, len);
		name[len] = '\0';
		if (json_is_array(from) && kh_slice_to_u64(kh_slice_of(path, len), &index))
			from = json_array_get(from, (size_t)index);
		else
			from = json_object_get(from, name);
		if (path[len] == '\0')
			return from;
		path += len + 1;
	}
	return NULL;
}

static bool put(struct kh_exec_output *out, const json_t *value)
{
	if (json_is_string(value))
		return kh_buf_append(&out->value, json_string_value(value),
				     json_string_length(value));
	return json_is_integer(value) && json_integer_value(value) >= 0 &&
	       kh_buf_append_u64(&out->value, (unsigned long long)json_integer_value(value));
}

struct shape {
	const char *value;
	const char *expires[4];
};

static const struct shape shapes[] = {
	{ "access_token", { "expires_in", "token_expiry", "expiry", "expires_at" } },
	{ "credential.access_token", { "credential.token_expiry" } },
	{ "status.token", { "status.expirationTimestamp" } },
	{ "auth.client_token", { "auth.lease_duration" } },
	{ "token", { "expires_at", "expirationTimestamp", "expires_in" } },
	{ "value", { NULL } },
};

/* Return: NULL: it is none of these. */
static json_t *find_shape(json_t *root, json_t **expires)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		json_t *value = walk(root, shapes[i].value);
		if (!json_is_string(value))
			continue;
		for (size_t j = 0; j < 4 && shapes[i].expires[j] && !*expires; j++)
			*expires = walk(root, shapes[i].expires[j]);
		return value;
	}
	json_t *data = walk(root, "data.data");
	if (!json_is_object(data))
		data = walk(root, "data");
	if (!json_is_object(data) || json_object_size(data) != 1)
		return NULL;
	json_t *lease = walk(root, "lease_duration");
	/* Of what has no lease it is 0. */
	*expires = json_integer_value(lease) > 0 ? lease : NULL;
	return json_object_iter_value(json_object_iter(data));
}

static bool is_aws(json_t *root)
{
	return json_is_string(json_object_get(root, "AccessKeyId")) &&
	       json_is_string(json_object_get(root, "SecretAccessKey"));
}

static bool take_end(struct kh_exec_output *out, const json_t *expires, uint64_t now_ms,
		     struct kh_err *err)
{
	if (!expires || json_is_null(expires))
		return true;
	out->expires_ms = time_of(expires, now_ms);
	if (!out->expires_ms)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "says until when it is good, but not in words that are known "
				  "(2026-01-02T03:04:05Z, or seconds)");
	return out->expires_ms > now_ms ||
	       kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "gives a value that has ended already (is this host's clock right?)");
}

static bool read_json(struct kh_exec_output *out, json_t *root, struct kh_slice said,
		      const struct kh_exec *exec, bool form_text, uint64_t now_ms,
		      struct kh_err *err)
{
	json_t *expires = exec->expires ? walk(root, exec->expires) : NULL;
	if (exec->expires && !expires)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "prints JSON without the member that `expires` names");
	json_t *value = NULL;
	if (json_is_string(root)) { /* format: json */
		value = root;
	} else if (exec->json) {
		value = walk(root, exec->json);
		if (!value)
			return kh_err_set(err, KH_ERR_CONFIG,
					  "prints JSON without the member that `json` names");
	} else if (is_aws(root)) {
		if (!form_text)
			return kh_err_set(err, KH_ERR_CONFIG,
					  "prints credentials of AWS, which nothing but a "
					  "signature can use");
		expires = expires ? expires : json_object_get(root, "Expiration");
	} else if (!form_text || exec->expires) {
		json_t *ends = NULL;
		value = find_shape(root, &ends);
		expires = expires ? expires : ends;
		if (!value)
			return kh_err_set(err, KH_ERR_CONFIG,
					  "prints JSON of a shape that is not known (name the "
					  "member that is the value: `json: data.key`)");
	}
	if (value ? !put(out, value) : !kh_buf_append_slice(&out->value, said))
		return kh_err_set(err, KH_ERR_CONFIG, "prints JSON whose value is no text");
	return take_end(out, expires, now_ms, err);
}

static bool is_for_json(const struct kh_exec *exec)
{
	return exec->json || exec->expires || exec->format == KH_EXEC_JSON;
}

static bool looks_like_json(const struct kh_exec *exec, struct kh_slice said)
{
	size_t at = 0;
	while (at < said.len && memchr(" \t\r\n", said.ptr[at], 4))
		at++;
	return !exec->first_line && at < said.len && (said.ptr[at] == '{' || said.ptr[at] == '[');
}

static bool refuse_json(const struct kh_exec *exec, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_CONFIG,
			  is_for_json(exec)
				  ? "prints what is no JSON, or has a member twice"
				  : "prints what begins like JSON and is none, or has a member "
				    "twice (is it cut off? where the text itself is the value, "
				    "write format: text)");
}

bool kh_exec_output_read(struct kh_exec_output *out, struct kh_slice said,
			 const struct kh_exec *exec, bool form_text, uint64_t now_ms,
			 struct kh_err *err)
{
	*out = (struct kh_exec_output){ .expires_ms = 0 };
	kh_buf_init_wiping(&out->value, KH_LIMIT_SECRET_BYTES);
	said = kh_slice_chomp(kh_source_without_mark(said));
	if (said.len == 0)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "prints nothing (run it by hand)");
	if (is_for_json(exec) || (exec->format == KH_EXEC_AUTO && looks_like_json(exec, said))) {
		size_t flags = JSON_REJECT_DUPLICATES;
		if (exec->format == KH_EXEC_JSON && !exec->json && !exec->expires)
			flags |= JSON_DECODE_ANY;
		json_t *root = kh_json_load(said, flags, NULL);
		bool ok = root ? read_json(out, root, said, exec, form_text, now_ms, err)
			       : refuse_json(exec, err);
		json_decref(root);
		return ok;
	}
	const char *end = exec->first_line ? memchr(said.ptr, '\n', said.len) : NULL;
	if (end)
		said = kh_slice_chomp(kh_slice_of(said.ptr, (size_t)(end - said.ptr)));
	return kh_buf_append_slice(&out->value, said) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
}

void kh_exec_output_fini(struct kh_exec_output *exec_output)
{
	kh_buf_fini(&exec_output->value);
}
