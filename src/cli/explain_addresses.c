/* explain_addresses.c - which addresses a request would connect to, and whether they are allowed */
#include "explain_addresses.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/net/guard.h>

/* What was said of all addresses so far. */
struct tally {
	size_t n, allowed;
	size_t marked, bare; /* of those that are allowed: by rules that observe, by the mode */
	enum kh_err_code refused;  /* the first refusal */
	struct kh_decision denied; /* with a rule, where that one was a rule's */
	struct kh_decision there;  /* of one that is only observed; a rule's first */
	uint64_t steps;		   /* of all of them together */
};

/* Where it is, and whether that is allowed. Return: it is. */
static bool put_place(const struct kh_explain_place *from, json_t *one,
		      const struct kh_sockaddr *addr)
{
	struct kh_place place;
	struct kh_err err = KH_ERR_INIT;
	kh_geo_find(from->geo, addr, &place);
	if (place.country[0])
		(void)json_object_set_new(one, "country", json_string(place.country));
	if (place.asn)
		(void)json_object_set_new(one, "asn", json_integer(place.asn));
	if (kh_geo_allows(from->geo, &from->levels, addr, &err))
		return true;
	(void)json_object_set_new(one, "geo", json_string(err.text));
	return false;
}

static json_t *rule_text(const struct kh_rule *rule)
{
	json_t *made = rule ? json_string(rule->text) : NULL;
	return made ? made : json_string("?");
}

/* Does a rule by address deny it? Return: none does, or it is only observed. */
static bool put_rule(const struct kh_explain_place *from, json_t *one,
		     const struct kh_decision *decision, const struct kh_sockaddr *addr,
		     uint64_t *steps, struct kh_decision *there)
{
	struct kh_host host;
	*there = (struct kh_decision){ .allow = false };
	if (!from->view || !kh_host_of_sockaddr(&host, addr))
		return true;
	if (kh_policy_denies_address(from->policy, from->tenant, from->narrowing, from->view,
				     from->unread, decision, &host, steps, there)) {
		(void)json_object_set_new(one, "rule", rule_text(there->rule));
		return false;
	}
	if (there->would != KH_ERR_NONE)
		(void)json_object_set_new(one, "would_deny_rule", rule_text(there->would_rule));
	return true;
}

static void count(struct tally *tally, const struct kh_decision *there, enum kh_err_code refused)
{
	if (tally->n++ == 0) {
		tally->refused = refused;
		tally->denied = *there;
	}
	if (refused != KH_ERR_NONE)
		return;
	tally->allowed++;
	if (there->would == KH_ERR_NONE)
		return;
	if (!there->bare || tally->marked == 0)
		tally->there = *there;
	tally->marked += !there->bare;
	tally->bare += there->bare;
}

static void put_address(const struct kh_explain_place *from, json_t *list,
			const struct kh_sockaddr *addr, bool pinned,
			const struct kh_decision *decision, struct tally *tally)
{
	enum kh_err_code code = KH_ERR_NONE;
	struct kh_decision there;
	char text[KH_SOCKADDR_TEXT_BYTES];
	kh_sockaddr_format(addr, text);
	size_t n;
	const struct kh_cidr *allow = kh_config_allowed_addresses(from->config, from->tenant, &n);
	const char *refused = pinned ? NULL : kh_guard_refuses(addr, allow, n);
	json_t *one = json_pack("{s:s, s:b}", "address", text, "allowed", refused == NULL);
	if (one && refused)
		(void)json_object_set_new(one, "class", json_string(refused));
	if (one && pinned)
		(void)json_object_set_new(one, "pinned", json_true());
	if (one && !put_rule(from, one, decision, addr, &tally->steps, &there))
		code = there.reason;
	else if (refused)
		code = KH_ERR_ADDRESS_PROHIBITED;
	if (one && !put_place(from, one, addr) && code == KH_ERR_NONE)
		code = KH_ERR_GEO_PROHIBITED;
	if (one && code != KH_ERR_NONE)
		(void)json_object_set_new(one, "allowed", json_false());
	if (one)
		count(tally, &there, code);
	(void)json_array_append_new(list, one);
}

static void look_up(const struct kh_explain_place *from, json_t *list,
		    const struct kh_authority *authority, const struct kh_decision *decision,
		    struct tally *tally)
{
	char port[8];
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	(void)snprintf(port, sizeof(port), "%u", authority->port);
	if (getaddrinfo(authority->host.text, port, &hints, &found) != 0)
		return;
	for (struct addrinfo *one = found; one; one = one->ai_next) {
		struct kh_sockaddr addr = { .len = one->ai_addrlen };
		if (one->ai_addrlen > sizeof(addr.v6))
			continue;
		memcpy(&addr.any, one->ai_addr, one->ai_addrlen);
		put_address(from, list, &addr, false, decision, tally);
	}
	freeaddrinfo(found);
}

/* As exchange_up.c has it: what the mode alone lets through is gone to last. */
static void settle(const struct kh_explain_place *from, const struct tally *tally,
		   struct kh_outcome *outcome)
{
	struct kh_decision *decision = &outcome->decision;
	if (tally->n > 0 && tally->allowed == 0) {
		outcome->allow = false;
		outcome->reason = tally->refused;
		if (tally->denied.rule)
			*decision = tally->denied;
	} else if (tally->allowed > 0 && tally->bare == tally->allowed) {
		(void)kh_decision_observe(from->policy, from->tenant, tally->there.would,
					  tally->there.would_rule, decision);
	} else if (tally->marked > 0 && tally->marked + tally->bare == tally->allowed) {
		(void)kh_decision_mark_there(&tally->there, decision);
	}
}

json_t *kh_explain_addresses(const struct kh_explain_place *from,
			     const struct kh_authority *authority, struct kh_outcome *outcome)
{
	const struct kh_config *config = from->config;
	const struct kh_decision *decision = &outcome->decision;
	json_t *list = json_array();
	struct tally tally = { .n = 0 };
	const struct kh_pin *pin = kh_config_pin(config, from->tenant, &authority->host);
	if (pin)
		put_address(from, list, &pin->addr, true, decision, &tally);
	else if (from->resolve || authority->host.kind != KH_HOST_NAME)
		look_up(from, list, authority, decision, &tally);
	settle(from, &tally, outcome);
	return list;
}
