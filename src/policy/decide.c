/*
 * decide.c - decides a request by the lists of rules
 *
 * Each list is walked from top to bottom in each reading of the request, and the first rule that
 * matches decides. The result is the rule itself; a zeroed decision denies.
 *
 * Results that depend on neither method nor host are remembered between readings, and all steps are
 * counted. So a request that names many methods and hosts, with a long path of escapes, costs no
 * more than a few plain ones, or is denied.
 */
#include "inquiry_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/limits.h>

void kh_inquiry_init(struct kh_inquiry *q, const struct kh_request_view *request)
{
	q->request = request;
	q->steps = (struct kh_steps){ .done = request->steps, .most = KH_LIMIT_DECISION_STEPS };
	q->reading.steps = &q->steps;
	q->noted = NULL;
	q->asks_model = false;
	q->bits_of = NULL;
	q->flags = 0;
	for (size_t i = 0; i < KH_READING_PATHS; i++)
		kh_forms_begin(&q->paths[i]);
	q->remembers = kh_request_has_readings(request);
	if (q->remembers)
		memset(q->rules, 0, sizeof(q->rules));
}

void kh_inquiry_fini(struct kh_inquiry *q)
{
	for (size_t i = 0; i < KH_READING_PATHS; i++)
		kh_forms_end(&q->paths[i]);
}

static void set_method(struct kh_inquiry *q)
{
	struct kh_slice method = q->reading.method;
	if (q->bits_of == method.ptr)
		return;
	q->bits_of = method.ptr;
	q->method_bit = q->reading.any_method ? UINT32_MAX : kh_policy_method_bit(method);
	q->denied_bits = q->method_bit;
	if (q->method_bit == KH_METHOD_OTHER)
		q->denied_bits |= kh_policy_method_bit_folded(method);
}

void kh_inquiry_begin(struct kh_inquiry *q)
{
	kh_reading_begin(q->request, &q->reading);
	set_method(q);
}

bool kh_inquiry_next(struct kh_inquiry *q)
{
	if (!kh_reading_next(q->request, &q->reading))
		return false;
	set_method(q);
	return true;
}

/* Return: NULL where nothing is remembered. Rules beyond the room displace each other. */
static struct kh_remembered *remembered(struct kh_inquiry *q, const struct kh_rule *rule)
{
	enum { SLOTS = sizeof(q->rules) / sizeof(q->rules[0]), LOOKS = 4 };
	if (!q->remembers)
		return NULL;
	size_t first = (size_t)((uintptr_t)rule / sizeof(*rule));
	for (size_t i = 0; i < LOOKS; i++) {
		struct kh_remembered *slot = &q->rules[(first + i) % SLOTS];
		if (!slot->rule)
			slot->rule = rule;
		if (slot->rule == rule)
			return slot;
	}
	struct kh_remembered *slot = &q->rules[first % SLOTS];
	*slot = (struct kh_remembered){ .rule = rule };
	return slot;
}

static bool begins_with(struct kh_slice path, const char *pattern, size_t len, bool folded)
{
	if (path.len < len)
		return false;
	if (!folded)
		return memcmp(path.ptr, pattern, len) == 0;
	for (size_t i = 0; i < len; i++)
		if (kh_lower(path.ptr[i]) != pattern[i])
			return false;
	return true;
}

static struct kh_path_forms *forms_of(struct kh_inquiry *q)
{
	struct kh_path_forms *forms = &q->paths[q->reading.nth_path];
	if (!forms->of) {
		forms->of = q->reading.path.ptr;
		forms->plain = kh_path_plainness(q->reading.path);
		q->steps.done += q->reading.path.len;
	}
	return forms;
}

/* How a rule's pattern is held against a path: both as they are; in lower case; in all forms. */
enum way { AS_THEY_ARE, FOLDED, IN_ALL_FORMS };

/* Behind the first star, which most patterns don't need. */
static bool search(struct kh_inquiry *q, const struct kh_index *index, const struct kh_matcher *m,
		   enum way way)
{
	struct kh_slice path = q->reading.path, text = path;
	struct kh_slice pattern = kh_slice_of(kh_index_path(index, m), m->path_len);
	struct kh_path_forms *forms = &q->paths[q->reading.nth_path];
	bool strict = m->flags & (KH_ALLOWS | KH_EXACT);
	if (way != AS_THEY_ARE && !kh_forms_fill(forms, path, &q->steps))
		return true; /* out of memory, and the rule denies */
	if (way == IN_ALL_FORMS)
		return kh_forms_match(forms, pattern, kh_slice_str(kh_index_decoded(index, m)),
				      &q->steps);
	if (way == FOLDED)
		text = forms->texts[0];
	return kh_path_search(pattern, text, strict ? KH_END_EXACTLY : KH_END_LOOSELY, &q->steps);
}

static bool covers_path(struct kh_inquiry *q, const struct kh_index *index,
			const struct kh_matcher *m)
{
	struct kh_slice path = q->reading.path;
	if (!(m->flags & KH_ON_PATH))
		return true;
	if (q->reading.any_path)
		return kh_rule_holds_for_any_path(m->rule);
	bool strict = m->flags & (KH_ALLOWS | KH_EXACT);
	enum way way = AS_THEY_ARE;
	if (!strict) {
		enum kh_plainness plain = forms_of(q)->plain;
		way = plain == KH_NOT_PLAIN || !(m->flags & KH_PLAIN_PATH) ? IN_ALL_FORMS
		      : plain == KH_PLAIN_BUT_CASE			   ? FOLDED
									   : AS_THEY_ARE;
	}
	if (way != IN_ALL_FORMS) {
		const char *pattern = kh_index_path(index, m);
		size_t prefix = m->prefix_len, rest = (size_t)(m->path_len - m->prefix_len);
		if (!begins_with(path, pattern, prefix, way == FOLDED))
			return false;
		if (rest == 0)
			return path.len == prefix ||
			       (!strict && path.len == prefix + 1 && path.ptr[prefix] == '/');
		if (rest == 2 && pattern[prefix + 1] == '*')
			return true;
	}
	struct kh_remembered *slot = remembered(q, m->rule);
	uint16_t bit = (uint16_t)(1u << q->reading.nth_path);
	if (slot && (slot->known_paths & bit))
		return slot->with_paths & bit;
	bool covers = search(q, index, m, way);
	if (slot) {
		slot->known_paths |= bit;
		slot->with_paths |= (uint16_t)(covers ? bit : 0);
	}
	return covers;
}

/* Among the uncommon methods, and of one that may be any, the bit does not tell. */
static bool covers_method(const struct kh_inquiry *q, const struct kh_matcher *m)
{
	uint32_t bits = m->flags & (KH_ALLOWS | KH_EXACT) ? q->method_bit : q->denied_bits;
	if (m->methods != 0 && !(m->methods & bits))
		return false;
	return !(bits & KH_METHOD_OTHER) || kh_rule_holds_for_method(m->rule, &q->reading);
}

static enum kh_mismatch conditions_miss(struct kh_inquiry *q, const struct kh_matcher *m)
{
	if (q->reading.source || q->reading.cut_query.ptr)
		return kh_rule_conditions_miss(m->rule, q->request, &q->reading);
	struct kh_remembered *slot = remembered(q, m->rule);
	bool any = q->reading.any_path;
	uint8_t bit = (uint8_t)(1u << any);
	if (slot && (slot->known_why & bit))
		return (enum kh_mismatch)slot->why[any];
	enum kh_mismatch why = kh_rule_conditions_miss(m->rule, q->request, &q->reading);
	if (slot) {
		slot->known_why |= bit;
		slot->why[any] = (uint8_t)why;
	}
	return why;
}

enum kh_mismatch kh_inquiry_look(struct kh_inquiry *q, const struct kh_index *index,
				 const struct kh_matcher *m)
{
	if (!covers_method(q, m))
		return KH_OTHER_METHOD;
	if (!covers_path(q, index, m))
		return KH_OTHER_PATH;
	return m->flags & KH_ASKS_MORE ? conditions_miss(q, m) : KH_MATCHES;
}

const struct kh_matcher *kh_inquiry_first(struct kh_inquiry *q, const struct kh_index *index,
					  size_t list)
{
	const struct kh_request_view *request = q->request;
	struct kh_index_walk walk;
	kh_index_walk_begin(&walk, index, list, &q->host);
	for (const struct kh_matcher *m; (m = kh_index_walk_next(&walk));) {
		q->steps.done++;
		if (m->scheme != request->scheme || m->port != q->reading.port ||
		    ((m->flags & KH_EXACT) && q->reading.respelled))
			continue;
		enum kh_mismatch why = kh_inquiry_look(q, index, m);
		if (kh_steps_are_over(&q->steps))
			return NULL;
		if (why == KH_MODEL_NOT_READ) {
			q->asks_model = true;
			return NULL;
		}
		if (why != KH_MATCHES)
			continue;
		if (!(m->flags & KH_OBSERVES))
			return m;
		q->noted = q->noted ? q->noted : m->rule;
	}
	return NULL;
}

/* The further readings of what the plain one allows. */
static const struct kh_rule *read_on(struct kh_inquiry *q, const struct kh_index *index,
				     size_t list, const struct kh_rule *rule)
{
	const struct kh_host *host = q->request->host;
	while (rule && rule->allow && kh_inquiry_next(q)) {
		if (q->reading.host != host || q->reading.nth_host > 1)
			kh_index_find(index, q->reading.host, &q->host);
		host = q->reading.host;
		/* Where two readings have two outcomes nobody can say which is meant. */
		const struct kh_matcher *other = kh_inquiry_first(q, index, list);
		rule = kh_reading_both(rule, other ? other->rule : NULL, &q->reading);
	}
	if (q->reading.nth_host > 0)
		kh_index_find(index, q->request->host, &q->host);
	return rule;
}

/* One list, in all readings. Return: it allows, by out->rule (which is not looked at here: it is
 * far away). */
static bool ask(struct kh_inquiry *q, const struct kh_index *index, size_t list,
		struct kh_decision *out)
{
	const struct kh_request_view *request = q->request;
	kh_inquiry_begin(q);
	const struct kh_matcher *m = kh_inquiry_first(q, index, list);
	bool allows = m && (m->flags & KH_ALLOWS);
	out->rule = m ? m->rule : NULL;
	if (allows && kh_request_has_readings(request)) {
		out->rule = read_on(q, index, list, out->rule);
		allows = out->rule && out->rule->allow;
	}
	q->flags = allows ? m->flags : 0;
	out->reading = KH_READ_PLAIN;
	if (!allows)
		out->reading = out->rule ? kh_reading_of_denial(out->rule, request, &q->reading)
					 : q->reading.how;
	out->reason = out->rule ? KH_ERR_DENIED_BY_RULE : KH_ERR_NO_RULE;
	return allows;
}

/* The walk ended before a rule could say it. */
static bool is_undecided(const struct kh_inquiry *q, struct kh_decision *out)
{
	if (kh_steps_are_over(&q->steps))
		kh_decision_give_up(out);
	else if (q->asks_model)
		kh_decision_ask_model(out);
	else
		return false;
	return true;
}

static void ask_all(struct kh_inquiry *q, const struct kh_policy *policy,
		    const struct kh_config *config, uint16_t tenant,
		    const struct kh_narrowing *narrowing, struct kh_decision *out)
{
	const struct kh_index *index = kh_policy_index(policy);
	kh_index_prefetch_list(index, kh_tenant_list(tenant));
	if (narrowing)
		kh_index_prefetch_list(narrowing->index, narrowing->list);
	kh_index_find(index, q->request->host, &q->host);
	kh_index_prefetch(index, kh_tenant_list(tenant), &q->host);
	if (narrowing)
		kh_index_prefetch(narrowing->index, narrowing->list, &q->host);
	bool site_denies = config->site.count > 0 && !ask(q, index, KH_SITE_LIST, out);
	if (is_undecided(q, out))
		return;
	if (site_denies) {
		out->list = KH_LIST_SITE;
		return;
	}
	out->site_rule = out->rule;
	struct kh_heard heard = { .site_websocket = !(q->flags & KH_NO_WEBSOCKET),
				  .site_noted = q->noted };
	q->noted = NULL;
	(void)ask(q, index, kh_tenant_list(tenant), out);
	if (is_undecided(q, out))
		return;
	heard.flags = q->flags;
	heard.noted = q->noted;
	kh_decision_finish(policy, tenant, &heard, out);
	if (!narrowing || !out->allow)
		return;
	struct kh_decision own = { .allow = false };
	own.allow = ask(q, narrowing->index, narrowing->list, &own);
	if (!is_undecided(q, out))
		kh_decision_narrow(&own, !(q->flags & KH_NO_WEBSOCKET), out);
}

void kh_policy_decide(const struct kh_policy *policy, uint16_t tenant,
		      const struct kh_narrowing *narrowing, const struct kh_request_view *request,
		      struct kh_decision *out)
{
	const struct kh_config *config = kh_policy_config(policy);
	*out = (struct kh_decision){ .reason = KH_ERR_NO_RULE };
	if (tenant >= config->n_tenants || !request->host || request->host->kind == KH_HOST_NONE ||
	    request->scheme == KH_SCHEME_NONE)
		return;
	struct kh_inquiry q; /* of which most stays as it is */
	kh_inquiry_init(&q, request);
	ask_all(&q, policy, config, tenant, narrowing, out);
	out->steps = q.steps.done;
	kh_inquiry_fini(&q);
}
