/*
 * parts.c - the parts of a credential's value that are as valuable as the whole
 *
 * A line of a private key is searched for by itself, since keys are sent line by line, or as JSON
 * with escaped line ends. The first line of an OpenSSH key is skipped, since it is the same in all
 * keys of that kind.
 */
#include <keyhole/credential/parts.h>

#include <keyhole/base/guess.h>
#include <keyhole/credential/hmac.h>
#include <keyhole/base/limits.h>
#include <keyhole/credential/re_sign.h>

#include "credential_internal.h"

enum { LINE_LEAST_BYTES = 32 };

struct job {
	bool (*use)(struct kh_slice part, bool line, void *arg);
	void *arg;
};

static bool use_key(struct kh_slice key, void *arg)
{
	const struct job *job = arg;

	return job->use(key, false, job->arg);
}

/* The end of the line: its break, also one that JSON has escaped. */
static size_t line_end(struct kh_slice text, size_t *next)
{
	for (size_t i = 0; i < text.len; i++) {
		bool escaped = text.ptr[i] == '\\' && i + 1 < text.len &&
			       (text.ptr[i + 1] == 'n' || text.ptr[i + 1] == 'r');
		if (!escaped && text.ptr[i] != '\n' && text.ptr[i] != '\r')
			continue;
		*next = i + 1 + escaped;
		return i;
	}
	*next = text.len;
	return text.len;
}

/* A line of base64, and no `Proc-Type:` or `-----END`. */
static bool is_content(struct kh_slice line)
{
	for (size_t i = 0; i < line.len; i++)
		if (!kh_is_alpha(line.ptr[i]) && !kh_is_digit(line.ptr[i]) && line.ptr[i] != '+' &&
		    line.ptr[i] != '/' && line.ptr[i] != '=')
			return false;
	return line.len >= LINE_LEAST_BYTES;
}

static size_t find(struct kh_slice text, const char *what)
{
	const char *found = memmem(text.ptr, text.len, what, strlen(what));

	return found ? (size_t)(found - text.ptr) : text.len;
}

/* All private keys that stand in it (RFC 7468). */
static bool each_line(const struct job *job, struct kh_slice text)
{
	bool ok = true;

	for (size_t at; ok && (at = find(text, "-----BEGIN ")) < text.len;) {
		text = kh_slice_sub(text, at, text.len);
		size_t next, end = line_end(text, &next);
		struct kh_slice begin = kh_slice_sub(text, 0, end);
		bool is_key = find(begin, "PRIVATE KEY") < begin.len;
		bool skip = find(begin, "OPENSSH") < begin.len;
		text = kh_slice_sub(text, next, text.len);
		struct kh_slice within = kh_slice_sub(text, 0, find(text, "-----END"));
		text = kh_slice_sub(text, within.len, text.len);
		while (ok && is_key && within.len > 0) {
			end = line_end(within, &next);
			struct kh_slice line = kh_slice_sub(within, 0, end);
			ok = skip || !is_content(line) || job->use(line, true, job->arg);
			skip = skip && line.len == 0;
			within = kh_slice_sub(within, next, within.len);
		}
	}
	return ok;
}

static bool each_of_fields(const struct job *job, const struct kh_placement *placement,
			   struct kh_slice value)
{
	for (size_t i = 0; i < placement->n_fields; i++) {
		const struct kh_credential_field *field = &placement->fields[i];
		size_t colon = kh_slice_find(value, ':', 0);
		if (field->form == KH_FIELD_BASIC && !field->username && colon < value.len)
			return job->use(kh_slice_sub(value, colon + 1, value.len), false, job->arg);
	}
	return true;
}

static bool each_of_placement(struct job *job, const struct kh_placement *placement,
			      struct kh_slice value)
{
	switch (placement->kind) {
	case KH_PLACEMENT_SIGV4:
		return kh_sigv4_each_key(value, use_key, job);
	case KH_PLACEMENT_HMAC:
		return kh_hmac_use_key(placement->hmac, value, use_key, job);
	case KH_PLACEMENT_FIELDS:
		return each_of_fields(job, placement, value);
	case KH_PLACEMENT_NONE:
	case KH_PLACEMENT_QUERY:
	case KH_PLACEMENT_COOKIE:
	case KH_PLACEMENT_BODY:
	case KH_PLACEMENT_MTLS:
	case KH_PLACEMENT_KINDS:
		break; /* the whole value is the secret */
	}
	return true;
}

bool kh_parts_each(const struct kh_credential_config *credential, struct kh_slice value,
		   bool (*use)(struct kh_slice part, bool line, void *arg), void *arg)
{
	struct job job = { use, arg };

	return use(value, false, arg) && each_line(&job, value) &&
	       (!credential->placement || each_of_placement(&job, credential->placement, value));
}

static bool count_line(struct kh_slice part, bool line, void *arg)
{
	size_t *lines = arg;
	(void)part;
	*lines += line;
	return true;
}

size_t kh_parts_lines(const struct kh_credential_config *credential, struct kh_slice value)
{
	size_t lines = 0;

	(void)kh_parts_each(credential, value, count_line, &lines);
	return lines;
}

static bool note_easy(struct kh_slice part, bool line, void *arg)
{
	bool *easy = arg;

	*easy = *easy || (!line && !kh_guess_is_hard(part));
	return true;
}

bool kh_parts_guessable(const struct kh_credential_config *credential, struct kh_slice value)
{
	bool signs = kh_placement_signs(credential->placement);
	bool easy = false;

	/* Of what signs, the id of a key is no secret. */
	return signs ? !kh_guess_is_hard(value)
		     : !kh_parts_each(credential, value, note_easy, &easy) || easy;
}
