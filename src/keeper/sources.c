/* sources.c - reads a credential's value from a variable, a file or a systemd credential */

#include "keeper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

struct kh_slice kh_source_without_mark(struct kh_slice value)
{
	static const struct kh_slice mark = KH_SLICE_INIT("\357\273\277");
	return kh_slice_has_prefix(value, mark) ? kh_slice_sub(value, mark.len, value.len) : value;
}

static bool is_utf16(struct kh_slice value)
{
	return kh_slice_has_prefix(value, KH_SLICE("\377\376")) ||
	       kh_slice_has_prefix(value, KH_SLICE("\376\377"));
}

static struct kh_slice without_newline(struct kh_slice value)
{
	if (value.len > 0 && value.ptr[value.len - 1] == '\n')
		value.len--;
	if (value.len > 0 && value.ptr[value.len - 1] == '\r')
		value.len--;
	return value;
}

/* Why this can't go into a header field as it is; NULL when it can. */
static const char *unfit(struct kh_slice value)
{
	for (size_t i = 0; i < value.len; i++) {
		unsigned char c = (unsigned char)value.ptr[i];
		if (c == '\n' || c == '\r')
			return "has more than one line (write the value alone)";
		if (c < 0x20 || c == 0x7f)
			return "contains a control byte (is that the right value?)";
	}
	if (value.ptr[0] == ' ' || value.ptr[value.len - 1] == ' ')
		return "begins or ends with a blank (take it away)";
	return NULL;
}

static const char *fault(const struct kh_source *source, struct kh_slice value,
			 enum kh_value_form form)
{
	if (value.len > KH_LIMIT_SECRET_BYTES)
		return "is longer than 64 KiB (is that the right file?)";
	if (is_utf16(value))
		return "is in UTF-16, which editors and PowerShell write (write it in UTF-8)";
	const char *why = form == KH_VALUE_LINE ? unfit(value) : NULL;
	if (why)
		return why;
	/* What is so short is found in any text, and could not be told from it. */
	if (value.len < KH_SECRET_LEAST_BYTES && !source->allow_short)
		return "has fewer than 8 bytes, and can't be told from other text (is that the "
		       "whole value? allow_short: true takes it)";
	return NULL;
}

enum kh_source_result kh_source_take(const char *credential, const struct kh_source *source,
				     const char *what, char *bytes, size_t len,
				     enum kh_value_form form, struct kh_secret **out,
				     struct kh_err *err)
{
	struct kh_slice value =
		bytes ? without_newline(kh_source_without_mark(kh_slice_of(bytes, len)))
		      : KH_SLICE("");
	*out = NULL;
	if (value.len == 0) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "credential %s: %s is empty",
			   credential, what);
		return KH_SOURCE_ABSENT;
	}
	const char *why = fault(source, value, form);
	if (why) {
		kh_err_set(err, KH_ERR_CONFIG, "credential %s: %s %s", credential, what, why);
		return KH_SOURCE_REFUSED;
	}
	*out = kh_secret_new(bytes + (value.ptr - bytes), value.len, err);
	if (!*out) {
		kh_err_wrap(err, "credential %s", credential);
		return KH_SOURCE_REFUSED;
	}
	return KH_SOURCE_GOT;
}

struct judgement {
	const struct kh_source *source;
	enum kh_value_form form;
	const char *why;
};

static bool judge(struct kh_slice value, void *arg)
{
	struct judgement *j = arg;
	j->why = fault(j->source, value, j->form);
	return !j->why;
}

enum kh_source_result kh_source_judge(const char *credential, const struct kh_source *source,
				      enum kh_value_form form, const struct kh_secret *secret,
				      struct kh_err *err)
{
	struct judgement j = { source, form, "can't be read" };
	if (kh_secret_expose(secret, judge, &j))
		return KH_SOURCE_GOT;
	kh_err_set(err, KH_ERR_CONFIG, "credential %s: the variable %s %s", credential,
		   kh_esc_str(source->name), j.why);
	return KH_SOURCE_REFUSED;
}

/* The value behind "NAME=", NULL when the entry is another's. */
static char *entry_value(char *entry, const char *name)
{
	size_t len = strlen(name);
	return strncmp(entry, name, len) == 0 && entry[len] == '=' ? entry + len + 1 : NULL;
}

void kh_source_forget(const char *name)
{
	for (char **entry = environ; entry && *entry; entry++) {
		char *value = entry_value(*entry, name);
		if (value)
			kh_secret_wipe(value, strlen(value));
	}
}

static enum kh_source_result read_env(const char *credential, const struct kh_source *source,
				      enum kh_value_form form, struct kh_secret **out,
				      struct kh_err *err)
{
	char what[KH_ERR_TEXT_BYTES / 2];
	char *value = NULL;
	for (char **entry = environ; entry && *entry && !value; entry++)
		value = entry_value(*entry, source->name);
	if (!value) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: the variable %s is not set", credential,
			   kh_esc_str(source->name));
		return KH_SOURCE_ABSENT;
	}
	(void)snprintf(what, sizeof(what), "the variable %s", kh_esc_str(source->name));
	enum kh_source_result result =
		kh_source_take(credential, source, what, value, strlen(value), form, out, err);
	kh_source_forget(source->name);
	return result;
}

bool kh_source_is_for_all(const struct kh_source *source, struct stat *st)
{
	return source->kind == KH_SOURCE_FILE && stat(source->name, st) == 0 &&
	       S_ISREG(st->st_mode) && (st->st_mode & 0007) != 0;
}

void kh_source_warn_of_mode(const char *credential, const struct kh_source *source,
			    struct kh_warned *warned)
{
	const struct kh_warned before = *warned;
	struct stat st;
	*warned = (struct kh_warned){ .mode = 0 };
	if (!kh_source_is_for_all(source, &st))
		return;
	*warned = (struct kh_warned){ st.st_dev, st.st_ino, st.st_mode };
	if (warned->device == before.device && warned->inode == before.inode &&
	    warned->mode == before.mode)
		return;
	kh_log_warn("credential %s: everybody on this host may use the file %s (mode %04o; "
		    "chmod 600 %s)",
		    credential, kh_esc_str(source->name), (unsigned)(st.st_mode & 07777),
		    kh_esc_str(source->name));
}

bool kh_source_is_pipe(const struct kh_source *source)
{
	struct stat st;
	return source->kind == KH_SOURCE_FILE && stat(source->name, &st) == 0 &&
	       S_ISFIFO(st.st_mode);
}

/* Why a file can't be read, and what to do. */
static void say_unreadable(const char *credential, const struct kh_source *source, const char *path,
			   const struct kh_err *why, struct kh_err *err)
{
	const char *file = kh_esc_str(path);
	switch (why->sys) {
	case ETIMEDOUT:
		kh_err_set(
			err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			"credential %s: the writer of the pipe %s held it open for too long (let "
			"it write the value and close it at once)",
			credential, file);
		if (err)
			err->sys = ETIMEDOUT;
		return;
	case ENOENT:
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: the file %s is not there (%s)", credential, file,
			   source->kind == KH_SOURCE_SYSTEMD
				   ? "name it in the unit's LoadCredential="
				   : "put the value into it, and it is read");
		return;
	case EACCES:
	case EPERM:
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: uid %lu may not read the file %s (give it to that user, "
			   "and let it pass the folders above)",
			   credential, (unsigned long)geteuid(), file);
		return;
	case ELOOP:
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: a link on the way to the file %s is another user's than "
			   "the file that it leads to (give the link to root)",
			   credential, file);
		return;
	case EFBIG:
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: the file %s is longer than 64 KiB (is that the right "
			   "file?)",
			   credential, file);
		return;
	case EISDIR:
	case ENOTDIR:
	case EINVAL:
	case ENXIO:
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: %s is no file (name the one that contains the value)",
			   credential, file);
		return;
	default:
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "credential %s: %s", credential,
			   why->text);
	}
}

static enum kh_source_result read_path(const char *credential, const struct kh_source *source,
				       const char *path, enum kh_value_form form, uint32_t pipe_ms,
				       struct kh_secret **out, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf content;
	char what[KH_ERR_TEXT_BYTES / 2];
	/* Room for one byte more than is good, a mark and a line's end, so that too long is seen as
	 * such. */
	kh_buf_init_wiping(&content, KH_LIMIT_SECRET_BYTES + 6);
	struct kh_err why = KH_ERR_INIT;
	if (!kh_file_read_within(path, pipe_ms, &content, &why)) {
		say_unreadable(credential, source, path, &why, err);
		return why.sys == ENOENT ? KH_SOURCE_ABSENT : KH_SOURCE_REFUSED;
	}
	(void)snprintf(what, sizeof(what), "the file %s", kh_esc_str(path));
	return kh_source_take(credential, source, what,
			      content.data ? content.data + content.head : NULL,
			      kh_buf_len(&content), form, out, err);
}

char *kh_source_systemd_path(const struct kh_source *source)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY");
	return folder && folder[0] == '/' ? kh_strf("%s/%s", folder, source->name) : NULL;
}

static enum kh_source_result read_systemd(const char *credential, const struct kh_source *source,
					  enum kh_value_form form, uint32_t pipe_ms,
					  struct kh_secret **out, struct kh_err *err)
{
	kh_auto_free char *path = kh_source_systemd_path(source);
	if (path)
		return read_path(credential, source, path, form, pipe_ms, out, err);
	kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
		   "credential %s: CREDENTIALS_DIRECTORY is not set (write LoadCredential=%s:PATH "
		   "into the unit)",
		   credential, kh_esc_str(source->name));
	return KH_SOURCE_ABSENT;
}

enum kh_source_result kh_source_read(const char *credential, const struct kh_source *source,
				     enum kh_value_form form, uint32_t pipe_ms,
				     struct kh_secret **out, struct kh_err *err)
{
	*out = NULL;
	switch (source->kind) {
	case KH_SOURCE_ENV:
		return read_env(credential, source, form, out, err);
	case KH_SOURCE_FILE:
		return read_path(credential, source, source->name, form, pipe_ms, out, err);
	case KH_SOURCE_SYSTEMD:
		return read_systemd(credential, source, form, pipe_ms, out, err);
	case KH_SOURCE_EXEC:
	case KH_SOURCE_NONE:
		break;
	}
	kh_err_set(err, KH_ERR_CONFIG, "credential %s: no source is given", credential);
	return KH_SOURCE_REFUSED;
}

static void forget_commands(const struct kh_exec *exec)
{
	for (size_t i = 0; i < exec->n_environment; i++)
		if (kh_exec_is_secret_variable(exec->environment[i]))
			kh_source_forget(exec->environment[i]);
}

void kh_keeper_forget_sources(const struct kh_config *config)
{
	for (size_t i = 0; i < config->n_credentials; i++) {
		const struct kh_source *source;
		for (size_t j = 0; (source = kh_source_of_credential(&config->credentials[i], j));
		     j++)
			if (source->kind == KH_SOURCE_ENV) {
				kh_source_forget(source->name);
				kh_account_forget(&config->credentials[i]);
			} else if (source->kind == KH_SOURCE_EXEC) {
				forget_commands(source->exec);
			}
	}
}
