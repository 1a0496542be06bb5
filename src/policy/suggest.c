/*
 * suggest.c - the rules that would allow requests: as few as possible, and none wider than the
 * requests
 */
#include <keyhole/policy/suggest.h>

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/config/config.h>

enum { RULE_BYTES = 8192, METHODS_MOST = 32 /* of a rule */ };

static int compare(const struct kh_path_group *a, const struct kh_path_group *b)
{
	int order = strcmp(a->place, b->place);
	order = order ? order : strcmp(a->pattern, b->pattern);
	return order ? order : strcmp(a->method, b->method);
}

static int compare_places(const void *a, const void *b)
{
	return compare(*(const struct kh_path_group *const *)a,
		       *(const struct kh_path_group *const *)b);
}

/* Does the rule of one group allow what another one has? */
static bool covers(const struct kh_path_group *outer, const struct kh_path_group *inner)
{
	return strchr(outer->pattern, '*') && strcmp(outer->method, inner->method) == 0 &&
	       strcmp(outer->place, inner->place) == 0 &&
	       kh_path_pattern_covers(outer->pattern, inner->pattern);
}

/* Of the sorted groups one whose rule covers that one; itself, if none does. */
static size_t wider(const struct kh_path_group *const *groups, size_t n, size_t index)
{
	for (size_t i = 0; i < n; i++)
		if (i != index && covers(groups[i], groups[index]) &&
		    (i < index || !covers(groups[index], groups[i])))
			return i;
	return index;
}

/* The one that none covers. */
static size_t widest(const struct kh_path_group *const *groups, size_t n, size_t index)
{
	for (size_t step = 0; step < n; step++) {
		size_t next = wider(groups, n, index);
		if (next == index)
			break;
		index = next;
	}
	return index;
}

/* Does it say as many methods, one place and a path, and nothing wider? */
static bool is_narrow(const struct kh_rule *rule, size_t n_methods)
{
	const struct kh_cidr *range = &rule->host.range;
	if (rule->n_methods != n_methods || !rule->path || strstr(rule->path, "**") ||
	    rule->scheme == KH_SCHEME_TCP)
		return false;
	return rule->host.match == KH_MATCH_EXACT ||
	       (rule->host.match == KH_MATCH_RANGE &&
		range->prefix_bits == (range->family == 4 ? 32 : 128));
}

bool kh_suggest_can_name(const char *method, const char *place, struct kh_slice path)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	struct kh_rule rule;
	kh_buf_init(&text, RULE_BYTES);
	if (!kh_buf_printf(&text, "%s %s", method, place) || !kh_buf_append_slice(&text, path) ||
	    !kh_rule_parse(&rule, kh_buf_view(&text), NULL))
		return false;
	bool can = is_narrow(&rule, 1) && strcmp(rule.methods[0], method) == 0;
	kh_rule_fini(&rule);
	return can;
}

/* As many methods share a rule as stand one after the other, with one place and pattern. */
static bool put_text(struct kh_buf *text, const struct kh_path_group *const *groups, size_t n)
{
	bool ok = true;
	for (size_t i = 0; ok && i < n; i++)
		ok = kh_buf_append_str(text, i ? "," : "") &&
		     kh_buf_append_str(text, groups[i]->method);
	return ok && kh_buf_printf(text, " %s%s", groups[0]->place, groups[0]->pattern);
}

/* Of the groups from `first` on, `n` of which share a rule. `sums` are theirs, with what each
 * covers. */
static bool add(struct kh_suggestions *out, const struct kh_path_group *const *groups,
		const struct kh_suggestion *sums, size_t n)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	kh_buf_init(&text, RULE_BYTES);
	if (!put_text(&text, groups, n))
		return false;
	struct kh_suggestion one = { .text = kh_slice_dup(kh_buf_view(&text)),
				     .example = groups[0]->example };
	for (size_t i = 0; i < n; i++) {
		one.requests += sums[i].requests;
		one.refused += sums[i].refused;
		one.observed += sums[i].observed;
		one.with_credential += sums[i].with_credential;
		for (size_t k = 0; k < 4; k++)
			one.marks[k] |= sums[i].marks[k];
	}
	if (one.text)
		out->list[out->count++] = one;
	return one.text != NULL;
}

static bool is_shared(const struct kh_path_group *a, const struct kh_path_group *b)
{
	return strcmp(a->place, b->place) == 0 && strcmp(a->pattern, b->pattern) == 0;
}

/* A sum for each group, of itself and what it covers; 0 for one that is covered. */
static void sum_up(const struct kh_path_group *const *groups, size_t n, struct kh_suggestion *sums)
{
	for (size_t i = 0; i < n; i++) {
		struct kh_suggestion *sum = &sums[widest(groups, n, i)];
		sum->requests += groups[i]->requests;
		sum->refused += groups[i]->refused;
		sum->observed += groups[i]->observed;
		sum->with_credential += groups[i]->with_credential;
		for (size_t k = 0; k < 4; k++)
			sum->marks[k] |= groups[i]->marks[k];
	}
}

/* Those that have a rule, without those that are covered. Return: how many. */
static size_t pack(const struct kh_path_group **groups, size_t n, struct kh_suggestion *sums)
{
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		if (sums[i].requests == 0)
			continue;
		groups[kept] = groups[i];
		sums[kept++] = sums[i];
	}
	return kept;
}

static bool write_rules(struct kh_suggestions *out, const struct kh_path_group **groups, size_t n,
			struct kh_suggestion *sums)
{
	qsort(groups, n, sizeof(*groups), compare_places);
	sum_up(groups, n, sums);
	n = pack(groups, n, sums);
	for (size_t first = 0, end; first < n; first = end) {
		for (end = first + 1; end < n && end - first < METHODS_MOST &&
				      is_shared(groups[first], groups[end]);)
			end++;
		if (!add(out, groups + first, sums + first, end - first))
			return false;
	}
	return true;
}

bool kh_suggest_rules(const struct kh_path_groups *groups, const char *kind,
		      struct kh_suggestions *out)
{
	const struct kh_path_group **mine = calloc(groups->count + 1, sizeof(*mine));
	struct kh_suggestion *sums = calloc(groups->count + 1, sizeof(*sums));
	size_t n = 0;
	*out = (struct kh_suggestions){ .list = calloc(groups->count + 1, sizeof(*out->list)) };
	bool ok = mine && sums && out->list;
	for (size_t i = 0; ok && i < groups->count; i++) {
		const struct kh_path_group *group = &groups->list[i];
		if (strcmp(group->kind, kind) != 0 || group->apart)
			continue;
		if (kh_suggest_can_name(group->method, group->place, kh_slice_str(group->pattern)))
			mine[n++] = group;
		else
			out->unwritten++;
	}
	ok = ok && write_rules(out, mine, n, sums);
	free(mine);
	free(sums);
	return ok;
}

void kh_suggestions_fini(struct kh_suggestions *suggestions)
{
	for (size_t i = 0; i < suggestions->count; i++)
		free(suggestions->list[i].text);
	free(suggestions->list);
	*suggestions = (struct kh_suggestions){ 0 };
}
