/*
 * forms.c - the forms of a path that a deny rule is compared with
 *
 * A deny rule matches leniently: it treats as equal what some server treats as equal. Case is
 * ignored. Escapes are decoded, however often and in whatever form they are escaped (spelling.h). A
 * '+' is a blank: some servers decode a path as they decode a query (object stores do), and all of
 * them take a '+' for what its escape stands for.
 * Several '/' count as one, and one at the end is optional. Optional at the end of a segment are
 * also parameters (after a ';'), dots and blanks, and the name of an NTFS stream ("::$DATA",
 * "::$INDEX_ALLOCATION"). A path that begins with two or more slashes is also read as authority and
 * path, since some servers read the target as a reference (RFC 3986 §4.2). So no spelling bypasses
 * a deny rule, while an allow rule matches only the exact normal form. An escaped slash does not
 * separate segments here: another reading of the request has it as '/'.
 *
 * The forms of a path are computed once, those of a pattern when the policy is compiled, so that
 * they are compared byte by byte.
 */
#include "policy_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/spelling.h>

/* Bytes that no path has: an escaped slash, and a '*' that is one. */
enum { ESCAPED_SLASH = 1, LITERAL_STAR = 2 };

/* The letters in lower case, the digits of an escape in upper case as the normal form has them. */
static size_t fold(struct kh_slice text, char *to)
{
	for (size_t at = 0; at < text.len; at++) {
		to[at] = kh_lower(text.ptr[at]);
		if (text.ptr[at] != '%' || kh_percent_byte(text, at) < 0)
			continue;
		memcpy(to + at + 1, text.ptr + at + 1, 2);
		at += 2;
	}
	return text.len;
}

/* Escapes undone, in lower case, with one slash for several. `star`: what a '*' becomes. */
static size_t decode(struct kh_slice text, char star, char *to)
{
	size_t len = 0;
	for (size_t at = 0; at < text.len;) {
		char c = text.ptr[at];
		if (c != '%' && (unsigned char)c < 0x80) {
			at++;
			if (c != '/' || len == 0 || to[len - 1] != '/')
				to[len++] = c == '*' ? star : kh_lower(c);
			continue;
		}
		struct kh_character of = kh_spelling_at(text, at, KH_PLUS_IS_PLUS);
		bool slash = of.byte == '/' || of.byte == '\\';
		at += of.width;
		to[len++] = slash	     ? ESCAPED_SLASH
			    : of.byte == '*' ? LITERAL_STAR
					     : kh_lower((char)of.byte);
	}
	return len;
}

/* Return: there was one. */
static bool blank_pluses(char *text, size_t len)
{
	char *plus = memchr(text, '+', len);
	if (!plus)
		return false;
	for (; plus; plus = memchr(plus, '+', len - (size_t)(plus - text)))
		*plus = ' ';
	return true;
}

static bool is_dropped(char c)
{
	return c == '.' || c == ' ';
}

/* Where the run of dots and blanks ends, if the segment does; else `at`. */
static size_t skip_dropped(struct kh_slice text, size_t at)
{
	size_t next = at;
	while (next < text.len && is_dropped(text.ptr[next]))
		next++;
	return next == text.len || text.ptr[next] == '/' || text.ptr[next] == ';' ? next : at;
}

/* Where the name of a stream ends that begins at this ':'; `at` where none does, and *none_before
 * is the segment's end then. */
static size_t skip_stream(struct kh_slice text, size_t at, size_t *none_before)
{
	if (at < *none_before)
		return at;
	size_t end = kh_slice_find(text, '/', at);
	if (memmem(text.ptr + at, end - at, ":$", 2))
		return end;
	*none_before = end;
	return at;
}

/* Of a decoded path: without what a segment's end may carry that does not count. */
static size_t bare(struct kh_slice text, char *to)
{
	size_t len = 0, no_stream_before = 0;
	for (size_t at = 0; at < text.len;) {
		char c = to[len++] = text.ptr[at++];
		for (size_t next = at; next < text.len; at = next) {
			if (!is_dropped(c))
				next = skip_dropped(text, at);
			if (next > at)
				continue;
			if (text.ptr[at] == ';')
				next = kh_slice_find(text, '/', at);
			else if (text.ptr[at] == ':')
				next = skip_stream(text, at, &no_stream_before);
			else if (c == '/' && text.ptr[at] == '/')
				next = at + 1;
			if (next == at)
				break;
		}
	}
	return len;
}

size_t kh_policy_pattern_fold(struct kh_slice pattern, char *to)
{
	size_t len = fold(pattern, to);
	return len > 1 && to[len - 1] == '/' ? len - 1 : len;
}

size_t kh_policy_pattern_decode(struct kh_slice pattern, char *to)
{
	size_t len = decode(pattern, '*', to);
	(void)blank_pluses(to, len);
	return len > 1 && to[len - 1] == '/' ? len - 1 : len;
}

enum kh_plainness kh_path_plainness(struct kh_slice path)
{
	enum kh_plainness plain = KH_PLAIN;
	for (size_t i = 0; i < path.len; i++) {
		char c = path.ptr[i];
		if (c == '%' || c == ';' || c == '+' ||
		    (c == '$' && i > 0 && path.ptr[i - 1] == ':') ||
		    (c == '.' && (i + 1 == path.len || path.ptr[i + 1] == '/')) ||
		    (c == '/' && i + 1 < path.len && path.ptr[i + 1] == '/'))
			return KH_NOT_PLAIN;
		if (c >= 'A' && c <= 'Z')
			plain = KH_PLAIN_BUT_CASE;
	}
	return plain;
}

static bool put(struct kh_path_forms *forms, char **to, size_t len)
{
	struct kh_slice text = kh_slice_of(*to, len);
	/* The first one is compared with another form of the pattern. */
	for (size_t i = 1; i < forms->n; i++)
		if (kh_slice_eq(forms->texts[i], text))
			return false;
	forms->texts[forms->n++] = text;
	*to += len;
	return true;
}

/* Of a path that begins with two slashes or more (the URL standard skips all of them before a
 * host): what is behind the authority. ptr NULL: it does not. */
static struct kh_slice behind_authority(struct kh_slice path, struct kh_slice decoded)
{
	if (!kh_slice_has_prefix(path, KH_SLICE("//")) || path.len < 3)
		return (struct kh_slice){ NULL, 0 };
	size_t end = kh_slice_find(decoded, '/', 1);
	struct kh_slice behind = kh_slice_sub(decoded, end, decoded.len);
	return behind.len > 0 ? behind : KH_SLICE("/");
}

bool kh_forms_fill(struct kh_path_forms *forms, struct kh_slice path, struct kh_steps *steps)
{
	enum { TEXTS = 4, WITH_PLUS = 6 };
	if (forms->n > 0)
		return true;
	bool may_have_plus = !kh_spelling_is_plain(path) || memchr(path.ptr, '+', path.len);
	size_t texts = may_have_plus ? WITH_PLUS : TEXTS;
	char *to = forms->room;
	if (path.len > sizeof(forms->room) / texts)
		to = forms->heap = malloc(texts * path.len);
	if (!to)
		return false;
	steps->done += texts * path.len;
	(void)put(forms, &to, fold(path, to));
	char *first = to;
	(void)put(forms, &to, decode(path, LITERAL_STAR, to));
	struct kh_slice decoded = forms->texts[1];
	(void)put(forms, &to, bare(decoded, to));
	struct kh_slice behind = behind_authority(path, decoded);
	if (behind.ptr) {
		forms->texts[forms->n++] = behind;
		(void)put(forms, &to, bare(behind, to));
	}
	/* A '+' at the end of a segment may be one of its name, or a blank that does not count. */
	if (may_have_plus && blank_pluses(first, (size_t)(to - first))) {
		(void)put(forms, &to, bare(decoded, to));
		if (behind.ptr)
			(void)put(forms, &to, bare(behind, to));
	}
	forms->same = kh_slice_eq(forms->texts[0], forms->texts[1]);
	return true;
}

bool kh_forms_match(const struct kh_path_forms *forms, struct kh_slice folded,
		    struct kh_slice decoded, struct kh_steps *steps)
{
	bool same = forms->same && folded.ptr == decoded.ptr;
	for (size_t i = 0; i < forms->n; i++)
		if (!(i == 1 && same) && kh_path_search(i == 0 ? folded : decoded, forms->texts[i],
							KH_END_LOOSELY, steps))
			return true;
	return false;
}

bool kh_path_matches_leniently(struct kh_slice pattern, struct kh_slice path)
{
	struct kh_steps steps = { .most = UINT64_MAX };
	struct kh_path_forms forms;
	char *texts = malloc(2 * pattern.len + 1);
	kh_forms_begin(&forms);
	bool matches = true; /* without memory */
	if (texts && kh_forms_fill(&forms, path, &steps)) {
		char *decoded = texts + pattern.len;
		matches = kh_forms_match(
			&forms, kh_slice_of(texts, kh_policy_pattern_fold(pattern, texts)),
			kh_slice_of(decoded, kh_policy_pattern_decode(pattern, decoded)), &steps);
	}
	kh_forms_end(&forms);
	free(texts);
	return matches;
}
