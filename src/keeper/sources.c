/* sources.c - reads one credential's value from where the configuration says */

#include "keeper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/cleanup.h>
#include <keyhole/escape.h>
#include <keyhole/file.h>
#include <keyhole/limits.h>
#include <keyhole/log.h>

static struct kh_slice without_newline(struct kh_slice value)
{
	if (value.len > 0 && value.ptr[value.len - 1] == '\n')
		value.len--;
	if (value.len > 0 && value.ptr[value.len - 1] == '\r')
		value.len--;
	return value;
}

/* Why this can't go into a header field as it is; NULL when it can. */
static const char *unfit(const struct kh_credential_config *credential, struct kh_slice value)
{
	if (value.len > KH_LIMIT_SECRET_BYTES)
		return "is longer than 64 KiB (is that the right file?)";
	for (size_t i = 0; i < value.len; i++) {
		unsigned char c = (unsigned char)value.ptr[i];
		if (kh_derives(credential) && (c == '\n' || c == '\r' || c == '\t'))
			continue;
		if (c == '\n' || c == '\r')
			return "has more than one line (write the value alone)";
		if (c < 0x20 || c == 0x7f)
			return "holds a control byte (is that the right value?)";
	}
	if (credential->placement && !credential->allow_short && value.len < KH_SECRET_LEAST_BYTES)
		return "has fewer than 8 bytes, and can't be told from other text (is that the "
		       "whole value? allow_short: true takes it)";
	if (value.ptr[0] == ' ' || value.ptr[value.len - 1] == ' ')
		return "begins or ends with a blank (take it away)";
	return NULL;
}

/* `where` is "variable X" or "file X". Overwrites `value`. */
static enum kh_source_result take(const struct kh_credential_config *credential, const char *where,
				  char *bytes, struct kh_slice value, struct kh_secret **out,
				  struct kh_err *err)
{
	if (value.len == 0) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "credential %s: %s %s is empty",
			   credential->name, where, kh_esc_str(credential->source_name));
		return KH_SOURCE_ABSENT;
	}
	const char *why = unfit(credential, value);
	if (why) {
		kh_err_set(err, KH_ERR_CONFIG, "credential %s: %s %s %s", credential->name, where,
			   kh_esc_str(credential->source_name), why);
		return KH_SOURCE_REFUSED;
	}
	*out = kh_secret_new(bytes, value.len, err);
	if (!*out) {
		kh_err_wrap(err, "credential %s", credential->name);
		return KH_SOURCE_REFUSED;
	}
	return KH_SOURCE_GOT;
}

/* The value behind "NAME=", NULL when the entry is another's. */
static char *entry_value(char *entry, const char *name)
{
	size_t len = strlen(name);
	return strncmp(entry, name, len) == 0 && entry[len] == '=' ? entry + len + 1 : NULL;
}

static void forget(const char *name)
{
	for (char **entry = environ; entry && *entry; entry++) {
		char *value = entry_value(*entry, name);
		if (value)
			kh_wipe(value, strlen(value));
	}
}

static enum kh_source_result read_env(const struct kh_credential_config *credential,
				      struct kh_secret **out, struct kh_err *err)
{
	char *value = NULL;
	for (char **entry = environ; entry && *entry && !value; entry++)
		value = entry_value(*entry, credential->source_name);
	if (!value) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: the variable %s is not set", credential->name,
			   kh_esc_str(credential->source_name));
		return KH_SOURCE_ABSENT;
	}
	enum kh_source_result result =
		take(credential, "the variable", value, kh_slice_str(value), out, err);
	forget(credential->source_name);
	return result;
}

static void warn_of_mode(const struct kh_credential_config *credential)
{
	struct stat st;
	if (stat(credential->source_name, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0007))
		kh_log_warn("credential %s: everybody on this host may use the file %s (mode %04o; "
			    "chmod 600 it)",
			    credential->name, kh_esc_str(credential->source_name),
			    (unsigned)(st.st_mode & 07777));
}

static enum kh_source_result read_file(const struct kh_credential_config *credential,
				       struct kh_secret **out, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf content;
	/* Room for one byte more than is good and a line's end, so that too long is seen as such.
	 */
	kh_buf_init_wiping(&content, KH_LIMIT_SECRET_BYTES + 3);
	struct kh_err why = KH_ERR_INIT;
	if (!kh_file_read(credential->source_name, &content, &why)) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "credential %s: %s",
			   credential->name, why.text);
		return why.sys == ENOENT ? KH_SOURCE_ABSENT : KH_SOURCE_REFUSED;
	}
	warn_of_mode(credential);
	struct kh_slice value = without_newline(kh_buf_view(&content));
	return take(credential, "the file", content.data ? content.data + content.head : NULL,
		    value, out, err);
}

enum kh_source_result kh_source_read(const struct kh_credential_config *credential,
				     struct kh_secret **out, struct kh_err *err)
{
	*out = NULL;
	switch (credential->source) {
	case KH_SOURCE_ENV:
		return read_env(credential, out, err);
	case KH_SOURCE_FILE:
		return read_file(credential, out, err);
	case KH_SOURCE_NONE:
		break;
	}
	kh_err_set(err, KH_ERR_CONFIG, "credential %s: no source is given", credential->name);
	return KH_SOURCE_REFUSED;
}

void kh_keeper_forget_sources(const struct kh_config *config)
{
	for (size_t i = 0; i < config->n_credentials; i++) {
		if (config->credentials[i].source == KH_SOURCE_ENV)
			forget(config->credentials[i].source_name);
	}
}
