/* pattern.c - parses and matches patterns of hosts; finds brackets in patterns of paths, which are
 * not special there */
#include <keyhole/base/escape.h>

#include "config_internal.h"

static bool parse_range(struct kh_host_pattern *out, struct kh_slice text, struct kh_err *err)
{
	out->match = KH_MATCH_RANGE;
	return kh_cidr_parse(&out->range, text, err);
}

static bool parse_suffix(struct kh_host_pattern *out, struct kh_slice text, struct kh_err *err)
{
	struct kh_slice rest = kh_slice_sub(text, 2, text.len);
	if (!kh_host_parse(&out->host, rest, err))
		return false;
	if (out->host.kind != KH_HOST_NAME)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "host \"%s\": an address has no names below it", kh_esc(text));
	if (kh_slice_find(rest, '.', 0) == rest.len)
		return kh_err_set(
			err, KH_ERR_CONFIG,
			"host \"%s\": a wildcard over one label covers names of strangers "
			"(name at least two labels, as in \"*.example.com\")",
			kh_esc(text));
	out->match = KH_MATCH_SUFFIX;
	return true;
}

bool kh_host_pattern_parse(struct kh_host_pattern *out, struct kh_slice text, struct kh_err *err)
{
	*out = (struct kh_host_pattern){ 0 };
	struct kh_host_pattern made = { 0 };
	bool ok;
	if (kh_slice_eq(text, KH_SLICE("**"))) {
		made.match = KH_MATCH_ANY;
		ok = true;
	} else if (text.len > 2 && text.ptr[0] == '[' && text.ptr[text.len - 1] == ']') {
		ok = parse_range(&made, kh_slice_sub(text, 1, text.len - 1), err);
	} else if (kh_slice_has_prefix(text, KH_SLICE("*."))) {
		ok = parse_suffix(&made, text, err);
	} else if (kh_slice_find(text, '*', 0) < text.len) {
		ok = kh_err_set(err, KH_ERR_CONFIG,
				"host \"%s\": a star stands for whole labels in front, as in "
				"\"*.example.com\", or for any host: \"**\"",
				kh_esc(text));
	} else if (kh_slice_find(text, '/', 0) < text.len) {
		ok = parse_range(&made, text, err);
	} else if (!kh_host_parse(&made.host, text, err)) {
		ok = false;
	} else if (made.host.kind == KH_HOST_NAME) {
		made.match = KH_MATCH_EXACT;
		ok = true;
	} else {
		made.host = (struct kh_host){ 0 };
		ok = parse_range(&made, text, err);
	}
	if (ok)
		*out = made;
	return ok;
}

/* One label or more in front of the suffix, and never the suffix itself. */
static bool is_below(const struct kh_host *suffix, const struct kh_host *host)
{
	if (host->kind != KH_HOST_NAME || host->len < suffix->len + 2)
		return false;
	size_t front = (size_t)(host->len - suffix->len);
	return host->text[front - 1] == '.' &&
	       memcmp(host->text + front, suffix->text, suffix->len) == 0;
}

bool kh_host_pattern_matches(const struct kh_host_pattern *pattern, const struct kh_host *host)
{
	if (host->kind == KH_HOST_NONE)
		return false;
	switch (pattern->match) {
	case KH_MATCH_EXACT:
		return kh_host_eq(&pattern->host, host);
	case KH_MATCH_SUFFIX:
		return is_below(&pattern->host, host);
	case KH_MATCH_ANY:
		return true;
	case KH_MATCH_RANGE:
		if (host->kind == KH_HOST_NAME)
			return false;
		return kh_cidr_has(&pattern->range, host->kind == KH_HOST_IPV4 ? 4 : 6, host->addr);
	case KH_MATCH_NOTHING:
	case KH_MATCH_KINDS:
		break;
	}
	return false;
}

bool kh_host_pattern_covers(const struct kh_host_pattern *outer,
			    const struct kh_host_pattern *inner)
{
	if (outer->match == KH_MATCH_NOTHING || inner->match == KH_MATCH_NOTHING)
		return false;
	if (outer->match == KH_MATCH_ANY)
		return true;
	switch (inner->match) {
	case KH_MATCH_EXACT:
		return kh_host_pattern_matches(outer, &inner->host);
	case KH_MATCH_SUFFIX:
		return outer->match == KH_MATCH_SUFFIX && (kh_host_eq(&outer->host, &inner->host) ||
							   is_below(&outer->host, &inner->host));
	case KH_MATCH_RANGE:
		return outer->match == KH_MATCH_RANGE &&
		       outer->range.prefix_bits <= inner->range.prefix_bits &&
		       kh_cidr_has(&outer->range, inner->range.family, inner->range.addr);
	case KH_MATCH_ANY:
	case KH_MATCH_NOTHING:
	case KH_MATCH_KINDS:
		break;
	}
	return false;
}

const char kh_pattern_brackets_text[] =
	"[ and ] in a path are these two characters themselves, and no set of characters as in a "
	"shell (write * for the part that varies, or a rule for each path)";

bool kh_pattern_has_brackets(struct kh_slice path)
{
	size_t open = kh_slice_find(path, '[', 0);
	size_t close = kh_slice_find(path, ']', open);
	return close < path.len && close > open + 1;
}
