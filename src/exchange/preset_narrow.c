/* preset_narrow.c - what a preset with a parameter says of a recorded request */
#include "preset_match_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

/* Of a path: where a value may begin, and its bytes. */
enum { STARTS = 4, VALUE_BYTES = 200 };

/* What nobody asked for: a preset that answers alike with it does not look at its parameter. */
static const char nobody[] = "keyhole-nobody";

static void variant_fini(struct kh_preset_variant *variant)
{
	kh_policy_unref(variant->policy);
	kh_config_free(variant->config);
	free(variant->text);
}

void kh_preset_narrow_fini(struct kh_preset_match *match)
{
	for (size_t i = 0; i < match->n_valued; i++)
		variant_fini(&match->valued[i]);
	for (size_t i = 0; i < match->n_turned; i++)
		variant_fini(&match->turned[i]);
}

/* The first that any value has unless a use says one. */
void kh_preset_narrow_learn(const struct kh_preset_match *match, struct kh_preset_one *one)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_preset_about about;
	if (kh_preset_about(one->name, match->dir, &about, &diags))
		for (size_t i = 0; i < about.n_parameters && !one->parameter; i++) {
			const struct kh_preset_parameter *p = &about.parameters[i];
			if (!p->fallback || p->fallback[0] != '*')
				continue;
			one->parameter = kh_slice_dup(kh_slice_str(p->name));
			one->fallback = kh_slice_dup(kh_slice_str(p->fallback));
		}
	kh_preset_about_fini(&about);
	kh_diagnostics_fini(&diags);
}

static void use_it(const struct kh_preset_match *match, struct kh_preset_variant *variant,
		   const char *parameter, const char *value)
{
	struct kh_diagnostics diags = { 0 };
	kh_auto_free char *use =
		kh_strf("%s:%s=%s", match->list[variant->of].name, parameter, value);
	const char *one = use;
	if (use)
		variant->config = kh_config_from_presets(&one, 1, match->dir, &diags);
	if (variant->config)
		variant->policy = kh_policy_compile(variant->config, NULL);
	kh_diagnostics_fini(&diags);
}

static enum kh_recorded_fate fate_of(const struct kh_recorded_question *question,
				     const struct kh_config *config, const struct kh_policy *policy)
{
	struct kh_recorded_answer answer;
	kh_recorded_decide(question, config, policy, 0, NULL, &answer);
	enum kh_recorded_fate fate = answer.fate;
	kh_recorded_answer_fini(&answer);
	return fate;
}

/* ---- one value among many ---- */

const char *kh_preset_match_narrowed_by(const struct kh_preset_match *match, size_t nth)
{
	return match->list[nth].fallback ? match->list[nth].parameter : NULL;
}

/* Return: NULL without room, memory or a preset that can be used so. */
static const struct kh_preset_variant *with_value(struct kh_preset_match *match, size_t nth,
						  const char *value)
{
	struct kh_preset_variant *variant = NULL;
	for (size_t i = 0; i < match->n_valued && !variant; i++)
		if (match->valued[i].of == nth && strcmp(match->valued[i].text, value) == 0)
			variant = &match->valued[i];
	if (!variant && match->n_valued < KH_PRESET_MATCH_VALUES) {
		variant = &match->valued[match->n_valued];
		*variant = (struct kh_preset_variant){ .of = nth };
		variant->text = kh_slice_dup(kh_slice_str(value));
		if (!variant->text)
			return NULL;
		match->n_valued++;
		use_it(match, variant, match->list[nth].parameter, value);
	}
	return variant && variant->policy ? variant : NULL;
}

static bool is_plain(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!kh_is_alpha(text.ptr[i]) && !kh_is_digit(text.ptr[i]) &&
		    !strchr("-._/", text.ptr[i]))
			return false;
	return text.len > 0 && text.len < VALUE_BYTES && text.ptr[0] != '/' &&
	       text.ptr[text.len - 1] != '/' && text.ptr[0] != '.' && text.ptr[0] != '-';
}

struct search {
	struct kh_preset_match *match;
	size_t nth;
	const struct kh_recorded_question *question;
	enum kh_recorded_fate wanted;
};

static bool fits(const struct search *s, const char *value)
{
	const struct kh_preset_variant *variant = with_value(s->match, s->nth, value);
	return variant && fate_of(s->question, variant->config, variant->policy) == s->wanted;
}

/* Return: heap, or NULL: it does not fit. */
static char *try_text(const struct search *s, struct kh_slice text)
{
	kh_auto_free char *value = is_plain(text) ? kh_slice_dup(text) : NULL;
	char *found = value && fits(s, value) ? value : NULL;
	if (found)
		value = NULL;
	return found;
}

/* As many segments of the path, from the nth on; as the name of a repository of git's first. */
static char *try_segments(const struct search *s, size_t from, size_t n)
{
	static const char git[] = ".git";
	struct kh_slice path = s->question->ask.target.path;
	size_t begin = 0, end;
	for (size_t i = 0; i <= from && begin < path.len; i++)
		begin = i == 0 ? 1 : kh_slice_find(path, '/', begin) + 1;
	end = begin;
	for (size_t i = 0; i < n; i++) {
		if (end > path.len || (i > 0 && end == path.len))
			return NULL;
		end = kh_slice_find(path, '/', i == 0 ? end : end + 1);
	}
	struct kh_slice text = kh_slice_sub(path, begin, end);
	size_t bare = text.len > strlen(git) ? text.len - strlen(git) : text.len;
	bool is_git = kh_slice_eq(kh_slice_sub(text, bare, text.len), kh_slice_str(git));
	char *found = is_git ? try_text(s, kh_slice_sub(text, 0, bare)) : NULL;
	return found ? found : try_text(s, text);
}

static size_t count_segments(struct kh_slice pattern)
{
	size_t n = 1;
	for (size_t i = 0; i < pattern.len; i++)
		n += pattern.ptr[i] == '/';
	return n;
}

/* Each form that the value may have, from few segments to many. */
static char *try_path(const struct search *s)
{
	struct kh_slice forms = kh_slice_str(s->match->list[s->nth].fallback);
	char *found = NULL;
	for (size_t at = 0; at < forms.len && !found;) {
		size_t end = kh_slice_find(forms, ',', at);
		size_t n = count_segments(kh_slice_sub(forms, at, end));
		for (size_t from = 0; from < STARTS && !found; from++)
			found = try_segments(s, from, n);
		at = end + 1;
	}
	return found;
}

/* "keyhole-nobody/keyhole-nobody" for two segments. */
static bool fits_nobody(const struct search *s)
{
	struct kh_slice forms = kh_slice_str(s->match->list[s->nth].fallback);
	size_t n = count_segments(kh_slice_sub(forms, 0, kh_slice_find(forms, ',', 0)));
	kh_cleanup(kh_buf_fini) struct kh_buf value;
	bool ok = true;
	kh_buf_init(&value, VALUE_BYTES);
	for (size_t i = 0; ok && i < n; i++)
		ok = kh_buf_printf(&value, "%s%s", i ? "/" : "", nobody);
	return ok && fits(s, kh_buf_cstr(&value));
}

char *kh_preset_match_narrow(struct kh_preset_match *match, size_t nth,
			     const struct kh_recorded_question *question)
{
	const struct kh_preset_one *one = &match->list[nth];
	const struct search s = { match, nth, question,
				  fate_of(question, one->config, one->policy) };
	if (!kh_preset_match_narrowed_by(match, nth) || fits_nobody(&s))
		return kh_slice_dup(KH_SLICE(""));
	return try_path(&s);
}

/* ---- booleans ---- */

static void turn(struct kh_preset_match *match, size_t nth, const struct kh_preset_parameter *p)
{
	struct kh_preset_variant variant = { .of = nth };
	const char *value = strcmp(p->fallback, "true") == 0 ? "false" : "true";
	variant.text = kh_strf("%s: { %s: %s }", match->list[nth].name, p->name, value);
	if (variant.text)
		use_it(match, &variant, p->name, value);
	if (variant.policy)
		match->turned[match->n_turned++] = variant;
	else
		variant_fini(&variant);
}

static void read_turned(struct kh_preset_match *match)
{
	for (size_t i = 0; i < match->count; i++) {
		struct kh_diagnostics diags = { 0 };
		struct kh_preset_about about;
		if (kh_preset_about(match->list[i].name, match->dir, &about, &diags))
			for (size_t k = 0; k < about.n_parameters; k++)
				if (strcmp(about.parameters[k].type, "boolean") == 0 &&
				    about.parameters[k].fallback &&
				    match->n_turned < KH_PRESET_MATCH_MOST)
					turn(match, i, &about.parameters[k]);
		kh_preset_about_fini(&about);
		kh_diagnostics_fini(&diags);
	}
}

uint64_t kh_preset_match_turned(struct kh_preset_match *match, uint64_t presets,
				const struct kh_recorded_question *question)
{
	uint64_t found = 0;
	if (presets && !match->has_turned)
		read_turned(match);
	match->has_turned = match->has_turned || presets;
	for (size_t i = 0; i < match->n_turned; i++) {
		const struct kh_preset_variant *variant = &match->turned[i];
		if ((presets & UINT64_C(1) << variant->of) &&
		    fate_of(question, variant->config, variant->policy) == KH_RECORDED_ALLOWED)
			found |= UINT64_C(1) << i;
	}
	return found;
}

const char *kh_preset_match_turned_text(const struct kh_preset_match *match, size_t nth)
{
	return match->turned[nth].text;
}
