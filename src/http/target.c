/*
 * target.c - parses a request's target once (RFC 9112 §3.2, RFC 3986)
 *
 * The path is matched in its normal form (base/path.c) and sent as received. The query is checked
 * byte by byte. It is only used for conditions and overrides, and to find parameters that carry
 * authentication.
 */
#include <keyhole/http/target.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/path.h>

/* Errors are logged and audited: what may be a password or a value of the query is not in them. */
static bool refuse(struct kh_err *err, struct kh_slice text, const char *why)
{
	size_t end = 0;

	while (end < text.len && text.ptr[end] != '?' && text.ptr[end] != '#')
		end++;
	return kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "target \"%s\": %s",
			  kh_esc(kh_authority_shown(kh_slice_sub(text, 0, end))), why);
}

/* RFC 3986's query, and what browsers, curl and Node's fetch send in it as it is (WHATWG URL); no
 * rule looks into it. */
static bool is_query_byte(char c)
{
	return kh_is_alpha(c) || kh_is_digit(c) ||
	       (c != '\0' && strchr("-._~!$&'()*+,;=:@/?%[]|{}^`", c) != NULL);
}

static bool check_query(struct kh_slice query, struct kh_slice target, struct kh_err *err)
{
	for (size_t i = 0; i < query.len; i++) {
		char c = query.ptr[i];

		if (c == '#')
			return refuse(err, target, "a fragment is never sent");
		if (!is_query_byte(c)) {
			char why[KH_MISPLACED_BYTES];
			return refuse(err, target, kh_path_misplaced(why, c, "query"));
		}
		if (c == '%' && kh_percent_byte(query, i) < 0)
			return refuse(err, target, "'%' must be followed by two hex digits");
	}
	return true;
}

/* "http://authority" in front; the rest of *target is origin-form, empty for "/" . */
static bool take_absolute(struct kh_target *out, struct kh_slice *target, struct kh_err *err)
{
	static const enum kh_scheme schemes[] = { KH_SCHEME_HTTP, KH_SCHEME_HTTPS };

	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++) {
		struct kh_slice name = kh_slice_str(kh_scheme_name(schemes[i]));
		struct kh_slice given = kh_slice_sub(*target, 0, name.len);
		struct kh_slice mark = kh_slice_sub(*target, name.len, name.len + 3);

		if (!kh_slice_eq_nocase(given, name) || !kh_slice_eq(mark, KH_SLICE("://")))
			continue;
		size_t start = name.len + 3, end = start;
		while (end < target->len && !strchr("/?#", target->ptr[end]))
			end++;
		if (!kh_authority_parse(&out->authority, kh_slice_sub(*target, start, end),
					kh_scheme_port(schemes[i]), err))
			return false;
		out->absolute = true;
		out->scheme = schemes[i];
		*target = kh_slice_sub(*target, end, target->len);
		return true;
	}
	return refuse(err, *target, "neither begins with '/' nor with 'http://' or 'https://'");
}

static bool normalise(struct kh_target *out, struct kh_err *err)
{
	bool slashed, decoded, cut;

	if (!kh_path_normalise(out->raw_path, &out->store, err))
		return false;
	size_t len = kh_buf_len(&out->store);
	bool ok = kh_path_slashed(kh_buf_view(&out->store), &out->store, &slashed);
	size_t both = kh_buf_len(&out->store);
	ok = ok &&
	     kh_path_decoded(kh_slice_sub(kh_buf_view(&out->store), 0, len), &out->store, &decoded);
	size_t all_paths = kh_buf_len(&out->store);
	if (!ok ||
	    !kh_path_cut_query(kh_slice_sub(kh_buf_view(&out->store), 0, len), &out->store, &cut))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "path of %zu bytes: no room", len);
	struct kh_slice all = kh_buf_view(&out->store);
	out->path = kh_slice_sub(all, 0, len);
	if (slashed)
		out->path_slashed = kh_slice_sub(all, len, both);
	if (decoded)
		out->path_decoded = kh_slice_sub(all, both, all_paths);
	if (!cut)
		return true;
	out->path_cuts.query = kh_slice_sub(all, all_paths, all.len);
	kh_path_cuts_add(&out->path_cuts, out->path);
	kh_path_cuts_add(&out->path_cuts, out->path_slashed);
	kh_path_cuts_add(&out->path_cuts, out->path_decoded);
	return true;
}

/* "http://host?x=1" names "/?x=1" (RFC 9112 §3.2.1). `query` begins with '?'. */
static bool put_root(struct kh_target *out, struct kh_slice query, struct kh_err *err)
{
	if (!kh_buf_append(&out->store, "/", 1) ||
	    !kh_buf_append(&out->store, query.ptr, query.len))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "query of %zu bytes: no room", query.len);
	out->raw = kh_buf_view(&out->store);
	out->raw_path = out->path = kh_slice_sub(out->raw, 0, 1);
	out->query = kh_slice_sub(out->raw, 2, out->raw.len);
	return true;
}

bool kh_target_parse(struct kh_target *out, struct kh_slice method, struct kh_slice target,
		     struct kh_err *err)
{
	struct kh_slice rest = target;

	memset(out, 0, sizeof(*out));
	kh_buf_init(&out->store, 4 * (size_t)KH_LIMIT_LINE_BYTES);
	if (kh_slice_eq(target, KH_SLICE("*"))) {
		if (!kh_slice_eq(method, KH_SLICE("OPTIONS")))
			return refuse(err, target, "'*' goes with OPTIONS only");
		out->raw = out->raw_path = out->path = target;
		return true;
	}
	if (target.len == 0)
		return refuse(err, target, "is empty");
	if (target.ptr[0] != '/' && !take_absolute(out, &rest, err))
		return false;

	size_t mark = kh_slice_find(rest, '?', 0);
	out->raw = rest;
	out->raw_path = kh_slice_sub(rest, 0, mark);
	if (kh_slice_find(out->raw_path, '#', 0) < out->raw_path.len)
		return refuse(err, target, "a fragment is never sent");
	if (mark < rest.len) {
		out->query = kh_slice_sub(rest, mark + 1, rest.len);
		if (!check_query(out->query, target, err))
			return false;
	}
	if (out->raw_path.len == 0) {
		/* "http://host": '/' (or '*' for OPTIONS, RFC 9112 §3.2.4) is what is sent. */
		if (mark < rest.len)
			return put_root(out, rest, err);
		out->raw = kh_slice_eq(method, KH_SLICE("OPTIONS")) ? KH_SLICE("*") : KH_SLICE("/");
		out->raw_path = out->path = out->raw;
		return true;
	}
	return normalise(out, err);
}

void kh_target_fini(struct kh_target *target)
{
	kh_buf_fini(&target->store);
}

bool kh_query_next(struct kh_slice *rest, struct kh_slice *name, struct kh_slice *value)
{
	if (!rest->ptr)
		return false;
	size_t end = 0;
	while (end < rest->len && rest->ptr[end] != '&' && rest->ptr[end] != ';')
		end++;
	struct kh_slice parameter = kh_slice_sub(*rest, 0, end);
	size_t equals = kh_slice_find(parameter, '=', 0);
	*name = kh_slice_sub(parameter, 0, equals);
	*value = kh_slice_sub(parameter, equals + 1, parameter.len);
	*rest = end < rest->len ? kh_slice_sub(*rest, end + 1, rest->len) : kh_slice_of(NULL, 0);
	return true;
}
