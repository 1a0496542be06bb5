/*
 * refused_places.c - what was refused, each place once
 *
 * A sandbox chooses the paths, and a person may paste what is made of them into a shell and into a
 * rule. So a segment is kept only if it has plain bytes, no star and no quote, and does not look
 * like a key. A path that no rule names exactly has no pattern: one of two stars would open what
 * was never asked for. A sandbox that asks for a thousand paths of a host gets one place for them:
 * from the fourth on they are one pattern.
 */
#include <keyhole/audit/refused_places.h>

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/guess.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/path.h>

enum { APART_MOST = 3, PATTERN_BYTES = 240, ID_LEAST_BYTES = 12 };

void kh_refused_places_init(struct kh_refused_places *places, const char *const *hidden,
			    size_t n_hidden)
{
	*places = (struct kh_refused_places){ .hidden = hidden, .n_hidden = n_hidden };
}

static void place_fini(struct kh_refused_place *place)
{
	free(place->methods);
	free(place->scheme);
	free(place->host);
	free(place->path);
	free(place->example);
	free(place->denied_by);
	free(place->rule_at);
	free(place->model);
	free(place->detail);
	free(place->credential);
	*place = (struct kh_refused_place){ 0 };
}

void kh_refused_places_fini(struct kh_refused_places *places)
{
	for (size_t i = 0; i < places->count; i++)
		place_fini(&places->list[i]);
	free(places->list);
	*places = (struct kh_refused_places){ 0 };
}

/* ---- patterns ---- */

static bool is_plain(struct kh_slice segment)
{
	for (size_t i = 0; i < segment.len; i++) {
		char c = segment.ptr[i];
		if (!kh_is_alpha(c) && !kh_is_digit(c) && !memchr("-._~:@+,=%", c, 10))
			return false;
	}
	return true;
}

/* Some servers read an escape as a '/', a '?' or a '*', or decode it twice, and so do rules. A
 * blank and bytes that are not ASCII have one reading. */
static bool has_one_reading(struct kh_slice segment)
{
	for (size_t i = 0; i < segment.len; i++) {
		if (segment.ptr[i] != '%')
			continue;
		int high = i + 2 < segment.len ? kh_hex_value(segment.ptr[i + 1]) : -1;
		int low = i + 2 < segment.len ? kh_hex_value(segment.ptr[i + 2]) : -1;
		if (low < 0 || (high < 8 && (high != 2 || low != 0)))
			return false;
	}
	return true;
}

/* A number, a UUID, a digest: another one the next time. */
static bool is_id(struct kh_slice segment)
{
	size_t digits = 0, hex = 0;
	for (size_t i = 0; i < segment.len; i++) {
		digits += kh_is_digit(segment.ptr[i]);
		hex += kh_hex_value(segment.ptr[i]) >= 0 || segment.ptr[i] == '-';
	}
	return (digits > 0 && digits == segment.len) ||
	       (digits > 0 && hex == segment.len && segment.len >= ID_LEAST_BYTES) ||
	       kh_guess_is_hard(segment);
}

/* In any case: a host is in lower case. */
static bool contains(struct kh_slice text, struct kh_slice part)
{
	for (size_t at = 0; part.len > 0 && at + part.len <= text.len; at++)
		if (kh_slice_eq_nocase(kh_slice_sub(text, at, at + part.len), part))
			return true;
	return false;
}

static bool has_hidden(const struct kh_refused_places *places, struct kh_slice text)
{
	for (size_t i = 0; i < places->n_hidden; i++)
		if (contains(text, kh_slice_str(places->hidden[i])))
			return true;
	return false;
}

/* Return: the pattern on the heap; NULL: there is none, a pattern would open more than this path
 * and those that differ from it in a segment, or no memory. */
static char *pattern_of(const struct kh_refused_places *places, struct kh_slice path)
{
	kh_cleanup(kh_buf_fini) struct kh_buf normal;
	kh_cleanup(kh_buf_fini) struct kh_buf out;
	bool ok = true;
	kh_buf_init(&normal, path.len + 1);
	kh_buf_init(&out, PATTERN_BYTES);
	if (path.len == 0 || !kh_path_normalise(path, &normal, NULL))
		return NULL;
	struct kh_slice all = kh_buf_view(&normal);
	for (size_t at = 0; ok && at < all.len;) {
		size_t end = kh_slice_find(all, '/', at + 1);
		struct kh_slice segment = kh_slice_sub(all, at + 1, end);
		if (!has_one_reading(segment))
			return NULL;
		bool shown = is_plain(segment) && !is_id(segment) && !has_hidden(places, segment);
		ok = kh_buf_append_char(&out, '/') &&
		     kh_buf_append_slice(&out, shown ? segment : KH_SLICE("*"));
		at = end;
	}
	return ok ? kh_slice_dup(kh_buf_view(&out)) : NULL;
}

/* How much of two different patterns is one: up to the '/' behind which two stars cover both. */
static size_t common(struct kh_slice a, struct kh_slice b)
{
	size_t at = 0;
	for (;;) {
		size_t end = kh_slice_find(a, '/', at + 1), other = kh_slice_find(b, '/', at + 1);
		struct kh_slice segment = kh_slice_sub(a, at + 1, end);
		if (end != other || end == a.len || end == b.len ||
		    !kh_slice_eq(segment, kh_slice_sub(b, at + 1, other)) ||
		    kh_slice_eq(segment, KH_SLICE("**")))
			return at;
		at = end;
	}
}

/* Return: false without memory, and nothing has changed. */
static bool widen(char **pattern, const char *by)
{
	if (strcmp(*pattern, by) == 0)
		return true;
	char *wide =
		kh_strf("%.*s/**", (int)common(kh_slice_str(*pattern), kh_slice_str(by)), *pattern);
	if (!wide)
		return false;
	free(*pattern);
	*pattern = wide;
	return true;
}

/* ---- places ---- */

static bool is(const char *text, struct kh_slice other)
{
	return kh_slice_eq(kh_slice_str(text), other);
}

/* But for the path. */
static bool is_alike(const struct kh_refused_place *place, const struct kh_refused_request *r,
		     bool has_path)
{
	return place->port == r->port && place->reason == r->reason &&
	       (place->path != NULL) == has_path && is(place->methods, r->method) &&
	       is(place->scheme, r->scheme) && is(place->host, r->host) &&
	       is(place->denied_by, r->denied_by) && is(place->rule_at, r->rule_at) &&
	       is(place->model, r->model) && place->status == r->status &&
	       is(place->credential, r->credential);
}

static void drop(struct kh_refused_places *places, size_t i)
{
	place_fini(&places->list[i]);
	places->count--;
	memmove(&places->list[i], &places->list[i + 1],
		(places->count - i) * sizeof(places->list[i]));
}

/* All that are like the first of them become that one, which covers `pattern` too. */
static void join(struct kh_refused_places *places, size_t first, const char *pattern,
		 const struct kh_refused_request *r)
{
	struct kh_refused_place *into = &places->list[first];
	bool ok = widen(&into->path, pattern);
	for (size_t i = places->count; ok && i > first + 1; i--) {
		const struct kh_refused_place *one = &places->list[i - 1];
		if (!is_alike(one, r, true) || !widen(&into->path, one->path))
			continue;
		into->count += one->count;
		drop(places, i - 1);
	}
	into->count++;
}

static bool is_open(const char *pattern)
{
	return kh_slice_has_suffix(kh_slice_str(pattern), KH_SLICE("/**"));
}

static void add_new(struct kh_refused_places *places, const struct kh_refused_request *r,
		    char **pattern)
{
	struct kh_refused_place *more =
		places->count < KH_LIMIT_REFUSED_PLACES
			? reallocarray(places->list, places->count + 1, sizeof(*more))
			: NULL;
	if (!more) {
		places->others++;
		return;
	}
	places->list = more;
	struct kh_refused_place one = { .methods = kh_slice_dup(r->method),
					.scheme = kh_slice_dup(r->scheme),
					.host = kh_slice_dup(r->host),
					.port = r->port,
					.example = kh_slice_dup(r->path),
					.reason = r->reason,
					.denied_by = kh_slice_dup(r->denied_by),
					.rule_at = kh_slice_dup(r->rule_at),
					.model = kh_slice_dup(r->model),
					.detail = kh_slice_dup(r->detail),
					.status = r->status,
					.credential = kh_slice_dup(r->credential),
					.count = 1 };
	if (!one.methods || !one.scheme || !one.host || !one.example || !one.denied_by ||
	    !one.rule_at || !one.model || !one.detail || !one.credential) {
		place_fini(&one);
		places->others++;
		return;
	}
	one.path = kh_steal_ptr(pattern);
	more[places->count++] = one;
}

void kh_refused_places_add(struct kh_refused_places *places,
			   const struct kh_refused_request *request)
{
	struct kh_refused_request shown = *request, *r = &shown;
	if (has_hidden(places, r->host))
		r->host = KH_SLICE("*");
	if (has_hidden(places, r->method))
		r->method = KH_SLICE("*");
	if (has_hidden(places, r->model))
		r->model = KH_SLICE("*");
	if (has_hidden(places, r->detail))
		r->detail = KH_SLICE("*");
	kh_auto_free char *pattern = pattern_of(places, r->path);
	size_t alike = 0, first = 0;
	for (size_t i = 0; i < places->count; i++) {
		struct kh_refused_place *one = &places->list[i];
		if (!is_alike(one, r, pattern != NULL))
			continue;
		if (!pattern || strcmp(one->path, pattern) == 0) {
			one->count++;
			return;
		}
		first = alike++ == 0 ? i : first;
	}
	bool full = places->count == KH_LIMIT_REFUSED_PLACES;
	if (alike > 0 && (alike >= APART_MOST || full || is_open(places->list[first].path)))
		join(places, first, pattern, r);
	else
		add_new(places, r, &pattern);
}

/* ---- the end ---- */

static bool is_same_place(const struct kh_refused_place *a, const struct kh_refused_place *b)
{
	return a->port == b->port && a->reason == b->reason && a->path && b->path &&
	       strcmp(a->path, b->path) == 0 && strcmp(a->scheme, b->scheme) == 0 &&
	       strcmp(a->host, b->host) == 0 && strcmp(a->denied_by, b->denied_by) == 0 &&
	       strcmp(a->rule_at, b->rule_at) == 0 && strcmp(a->model, b->model) == 0 &&
	       a->status == b->status && strcmp(a->credential, b->credential) == 0;
}

/* Those of most requests. Another one, which a rule may not be able to name, stands by itself. */
static bool is_common(struct kh_slice method)
{
	static const char *const common_methods[] = { "GET",   "HEAD",	 "POST",   "PUT",
						      "PATCH", "DELETE", "OPTIONS" };
	for (size_t i = 0; i < sizeof(common_methods) / sizeof(common_methods[0]); i++)
		if (kh_slice_eq(method, kh_slice_str(common_methods[i])))
			return true;
	return false;
}

/* Return: false where they don't go together, and nothing has changed. */
static bool add_method(struct kh_refused_place *to, const char *method)
{
	struct kh_slice first = kh_slice_str(to->methods);
	first = kh_slice_sub(first, 0, kh_slice_find(first, ',', 0));
	if (!is_common(first) || !is_common(kh_slice_str(method)))
		return false;
	char *both = kh_strf("%s,%s", to->methods, method);
	if (!both)
		return false;
	free(to->methods);
	to->methods = both;
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct kh_refused_place *one = a, *other = b;
	if (one->count != other->count)
		return one->count < other->count ? 1 : -1;
	int order = strcmp(one->host, other->host);
	order = order ? order : (int)one->port - (int)other->port;
	order = order ? order : strcmp(one->example, other->example);
	return order ? order : strcmp(one->methods, other->methods);
}

void kh_refused_places_settle(struct kh_refused_places *places)
{
	for (size_t i = 0; i < places->count; i++)
		for (size_t j = i + 1; j < places->count;) {
			struct kh_refused_place *one = &places->list[i], *two = &places->list[j];
			if (is_same_place(one, two) && add_method(one, two->methods)) {
				one->count += two->count;
				drop(places, j);
			} else {
				j++;
			}
		}
	if (places->count > 1)
		qsort(places->list, places->count, sizeof(*places->list), compare);
}
