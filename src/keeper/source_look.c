/* source_look.c - would the daemon accept the value that a source has now? (`keyhole check`) */

#include "keeper_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/keeper/keeper.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/program.h>

/* On a copy: the variable is to be there for the next who looks. */
static bool look_at_variable(const char *credential, const struct kh_source *source,
			     enum kh_value_form form, struct kh_secret **secret, struct kh_err *err)
{
	const char *value = getenv(source->name);
	kh_cleanup(kh_buf_fini) struct kh_buf copy;

	/* Too long is seen as such by what fits. */
	kh_buf_init_wiping(&copy, KH_LIMIT_SECRET_BYTES + 6);
	if (!value)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "credential %s: the variable %s is not set", credential,
				  kh_esc_str(source->name));
	kh_auto_free char *what = kh_strf("the variable %s", kh_esc_str(source->name));
	size_t len = strlen(value);
	len = len < KH_LIMIT_SECRET_BYTES + 6 ? len : KH_LIMIT_SECRET_BYTES + 6;
	if (!what || !kh_buf_append_slice(&copy, kh_slice_of(value, len)))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "credential %s: no memory", credential);
	return kh_source_take(credential, source, what, copy.data ? copy.data + copy.head : NULL,
			      kh_buf_len(&copy), form, secret, err) == KH_SOURCE_GOT;
}

/* It is found as at its start, and not run. What this user may not look at may be the daemon's. */
static bool look_at_program(const char *credential, const char *program, struct kh_err *err)
{
	struct stat st;
	kh_auto_free char *found = strchr(program, '/') ? NULL : kh_program_find(program);

	if (!found && !strchr(program, '/'))
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "credential %s: the program %s is not there (PATH has none of "
				  "this name: install it, or write its whole path)",
				  credential, kh_esc_str(program));
	if (stat(found ? found : program, &st) != 0)
		return errno == EACCES ||
		       kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "credential %s: the program %s is not there (%s)", credential,
				  kh_esc_str(program), strerror(errno));
	return (S_ISREG(st.st_mode) && (st.st_mode & 0111)) ||
	       kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "credential %s: the program %s may not be executed (chmod +x it? or is "
			  "it no program?)",
			  credential, kh_esc_str(program));
}

bool kh_source_can_be_used(const struct kh_credential_config *credential,
			   const struct kh_source *source, struct kh_err *err)
{
	bool own = !credential->mint || source != &credential->mint->client_secret;
	enum kh_value_form form = own ? kh_vault_form(credential) : KH_VALUE_LINE;
	struct kh_secret *secret = NULL;
	bool good = true;

	if (source->kind == KH_SOURCE_ENV)
		good = look_at_variable(credential->name, source, form, &secret, err);
	else if (source->kind == KH_SOURCE_FILE && !kh_source_is_pipe(source))
		good = kh_source_read(credential->name, source, form, 0, &secret, err) ==
		       KH_SOURCE_GOT;
	else if (source->kind == KH_SOURCE_EXEC)
		good = look_at_program(credential->name, source->exec->argv[0], err);
	kh_secret_unref(secret);
	return good;
}
