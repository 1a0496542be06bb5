/*
 * allow_text.c - a rule as it is written on a command line (`keyhole run --allow`)
 *
 * It is the text of a rule, with stricter checks: somebody types it once, in a hurry, and nobody
 * reviews it. So a method must be one that HTTP knows, and the host may not be any host. Each
 * mistake has its place in the text, so that the program that was called can point there.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/escape.h>

#include "config_internal.h"

/* Return: false, always; *at: where in the text. */
static bool wrong(size_t *at, size_t place, struct kh_err *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static bool wrong(size_t *at, size_t place, struct kh_err *err, const char *fmt, ...)
{
	char text[KH_ERR_TEXT_BYTES];
	va_list args;
	va_start(args, fmt);
	if (vsnprintf(text, sizeof(text), fmt, args) >= (int)sizeof(text))
		kh_esc_mark_cut(text);
	va_end(args);
	*at = place;
	return kh_err_set(err, KH_ERR_CONFIG, "%s", text);
}

static bool check_method(struct kh_slice method, size_t place, size_t *at, struct kh_err *err)
{
	char hint[KH_NEAREST_BYTES];
	if (method.len == 0)
		return wrong(at, place, err,
			     "a method is missing (GET,POST: one comma between two, and no blank)");
	if (kh_method_is_known(method))
		return true;
	return wrong(at, place, err,
		     "\"%s\" is no method of HTTP%s: methods are written in capitals, as in GET or "
		     "GET,POST",
		     kh_esc(method), kh_method_hint(method, hint));
}

static bool check_methods(struct kh_slice list, size_t *at, struct kh_err *err)
{
	if (kh_slice_eq(list, KH_SLICE("*")))
		return true;
	for (size_t from = 0; from <= list.len;) {
		size_t comma = kh_slice_find(list, ',', from);
		if (!check_method(kh_slice_sub(list, from, comma), from, at, err))
			return false;
		from = comma + 1;
	}
	return true;
}

/* Where "://" is; text.len: nowhere. */
static size_t find_mark(struct kh_slice text)
{
	const char *mark = text.len > 0 ? memmem(text.ptr, text.len, "://", 3) : NULL;
	return mark ? (size_t)(mark - text.ptr) : text.len;
}

static bool is_scheme(struct kh_slice text)
{
	return kh_slice_eq(text, KH_SLICE("https")) || kh_slice_eq(text, KH_SLICE("http")) ||
	       kh_slice_eq(text, KH_SLICE("tcp"));
}

/* "https://HOST[:PORT][/PATH]", which begins at `base` of the text. *path: where its path begins.
 */
static bool check_url(struct kh_slice url, size_t base, size_t *path, size_t *at,
		      struct kh_err *err)
{
	size_t mark = find_mark(url);
	struct kh_slice scheme = kh_slice_sub(url, 0, mark);
	if (url.len > 0 && url.ptr[0] == ' ')
		return wrong(at, base, err, "one blank comes after the methods, and no other");
	if (mark == url.len)
		return wrong(at, base, err,
			     "a scheme is missing in front of \"%s\" (write https://%s)",
			     kh_esc(url), kh_esc(url));
	if (!is_scheme(scheme))
		return wrong(at, base, err, "scheme \"%s\": expected https, http or tcp",
			     kh_esc(scheme));
	size_t begin = mark + 3;
	size_t from =
		begin < url.len && url.ptr[begin] == '[' ? kh_slice_find(url, ']', begin) : begin;
	size_t end = kh_slice_find(url, '/', from);
	struct kh_slice host = kh_slice_sub(url, begin, kh_slice_find(url, ':', from));
	host.len = host.len < end - begin ? host.len : end - begin;
	*path = base + end;
	if (host.len == 0)
		return wrong(at, base + begin, err, "a host is missing after \"%s://\"",
			     kh_esc(scheme));
	if (kh_slice_eq(host, KH_SLICE("*")) || kh_slice_eq(host, KH_SLICE("**")))
		return wrong(at, base + begin, err,
			     "\"%s\" names no host: write one, or all below a name of yours as in "
			     "https://*.example.com (--observe lets everything pass, and says "
			     "what to allow)",
			     kh_esc(host));
	for (size_t i = end; i < url.len; i++)
		if (strchr("?# ", url.ptr[i]))
			return wrong(
				at, base + i, err,
				"a rule ends with the path: neither a query, a '#' nor a blank "
				"has a place in it");
	return true;
}

/* What the grammar of rules says; of the two parts that are left, which one it means. */
static bool parse(struct kh_rule *out, struct kh_slice text, size_t host, size_t path, size_t *at,
		  struct kh_err *err)
{
	struct kh_rule without;
	if (kh_rule_parse(out, text, err))
		return true;
	bool good = kh_rule_parse(&without, kh_slice_sub(text, 0, path), NULL);
	if (good)
		kh_rule_fini(&without);
	*at = good ? path : host;
	return false;
}

bool kh_allow_text_parse(struct kh_rule *out, struct kh_slice text, size_t *at, struct kh_err *err)
{
	size_t blank = kh_slice_find(text, ' ', 0), path = 0;
	struct kh_slice first = kh_slice_sub(text, 0, blank);
	bool has_methods = blank < text.len && find_mark(first) == first.len;
	size_t base = has_methods ? blank + 1 : 0;
	*out = (struct kh_rule){ 0 };
	*at = 0;
	if (text.len == 0)
		return wrong(at, 0, err,
			     "expected [METHODS] SCHEME://HOST/PATH, as in 'GET "
			     "https://api.example.com/v1/*'");
	if (kh_method_is_known(first) && blank + 1 >= text.len)
		return wrong(at, text.len, err, "what the method is for is missing: '%s %s'",
			     kh_esc(first), "https://api.example.com/v1/*");
	if (has_methods && !check_methods(first, at, err))
		return false;
	if (!check_url(kh_slice_sub(text, base, text.len), base, &path, at, err))
		return false;
	size_t host = base + find_mark(kh_slice_sub(text, base, text.len)) + 3;
	return parse(out, text, host, path, at, err);
}

static bool find_file(struct kh_config *config, const char *name, uint32_t *index)
{
	for (size_t i = 0; i < config->n_files; i++)
		if (strcmp(config->files[i], name) == 0) {
			*index = (uint32_t)i;
			return true;
		}
	return kh_config_add_file(config, name, index);
}

/* Return: false when it can't be one, which was said. */
static bool read_rule(struct kh_reader *reader, const char *text, struct kh_rules *rules)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_rule rule;
	size_t at;
	if (!kh_allow_text_parse(&rule, kh_slice_trim(kh_slice_str(text)), &at, &err)) {
		kh_reader_error(reader, NULL, "\"%s\": %s", kh_esc_str(text), err.text);
		return false;
	}
	rule.allow = true;
	rule.where = kh_reader_where(reader, NULL);
	struct kh_rule *slot =
		kh_config_check_suffix(reader, NULL, rule.host.match, rule.host.name, NULL)
			? kh_list_add(&rules->list, &rules->count, sizeof(*slot))
			: NULL;
	if (slot) {
		*slot = rule;
		return true;
	}
	kh_rule_fini(&rule);
	if (reader->diags->errors == 0)
		(void)kh_reader_no_memory(reader);
	return false;
}

bool kh_config_allow(struct kh_config *config, size_t tenant, const char *text,
		     struct kh_diagnostics *diags)
{
	struct kh_reader reader = { .config = config, .diags = diags, .options = &kh_options };
	size_t errors = diags->errors;
	if (tenant >= config->n_tenants)
		kh_reader_error(&reader, NULL, "no such tenant");
	else if (!find_file(config, KH_ALLOW_FILE, &reader.file))
		(void)kh_reader_no_memory(&reader);
	else
		(void)read_rule(&reader, text, &config->tenants[tenant].rules);
	kh_diagnostics_take_files(diags, config);
	kh_diagnostics_sort(diags);
	return diags->errors == errors;
}
