/* geo.c - the lists of `geo`, which say where dialled addresses must be, and the databases
 *
 * Lists are kept as sorted numbers. A list that can't be applied (its database is not configured,
 * or a proxy looks names up) is an error, so that no list silently has no effect.
 */
#include <stdlib.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"

/* ISO 3166-1, the codes that are given to countries. */
static const char countries[] =
	"AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ "
	"BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM "
	"DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS "
	"GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN "
	"KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ "
	"MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM "
	"PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV "
	"SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI "
	"VN VU WF WS YE YT ZA ZM ZW ";

static bool same_numbers(const struct kh_numbers *a, const struct kh_numbers *b)
{
	return a->count == b->count &&
	       (a->count == 0 || memcmp(a->list, b->list, a->count * sizeof(*a->list)) == 0);
}

bool kh_geo_rules_eq(const struct kh_geo_rules *a, const struct kh_geo_rules *b)
{
	if (!a || !b)
		return a == b;
	return same_numbers(&a->allow_countries, &b->allow_countries) &&
	       same_numbers(&a->deny_countries, &b->deny_countries) &&
	       same_numbers(&a->allow_asns, &b->allow_asns) &&
	       same_numbers(&a->deny_asns, &b->deny_asns) &&
	       a->allow_unknown_country == b->allow_unknown_country &&
	       a->allow_unknown_asn == b->allow_unknown_asn;
}

/* ---- databases ---- */

void kh_config_read_geo_file(struct kh_reader *reader, const struct kh_option *option,
			     const struct kh_yaml_node *node, void *base)
{
	struct kh_geo_file *file = (void *)((char *)base + option->offset);
	if (!kh_reader_scalar(reader, option, node))
		return;
	if (memchr(node->text.ptr, '\0', node->text.len)) {
		kh_reader_error(reader, node, "%s: contains a NUL", option->path);
		return;
	}
	file->path = kh_reader_path(reader, option, node);
	file->where = kh_reader_where(reader, node);
	file->named = file->path != NULL;
}

/* ---- lists ---- */

enum { LISTS = 4 };

struct kind {
	const char *name;
	size_t offset;
	bool of_countries;
	const char *expects;
};

static const struct kind kinds[LISTS] = {
	{ "allow_countries", offsetof(struct kh_geo_rules, allow_countries), true,
	  "a country's code of two capital letters, such as DE" },
	{ "deny_countries", offsetof(struct kh_geo_rules, deny_countries), true,
	  "a country's code of two capital letters, such as DE" },
	{ "allow_asns", offsetof(struct kh_geo_rules, allow_asns), false,
	  "the number of an autonomous system, such as 64500 or AS64500" },
	{ "deny_asns", offsetof(struct kh_geo_rules, deny_asns), false,
	  "the number of an autonomous system, such as 64500 or AS64500" },
};

static bool parse_country(struct kh_slice text, uint32_t *out)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] < 'A' || text.ptr[i] > 'Z')
			return false;
	if (text.len != 2)
		return false;
	*out = (uint32_t)text.ptr[0] << 8 | (uint32_t)text.ptr[1];
	return true;
}

static bool parse_asn(struct kh_slice text, uint32_t *out)
{
	uint64_t number;
	if (kh_slice_has_prefix(text, KH_SLICE("AS")))
		text = kh_slice_sub(text, 2, text.len);
	if (!kh_slice_to_u64(text, &number) || number == 0 || number > UINT32_MAX)
		return false;
	*out = (uint32_t)number;
	return true;
}

/* AA, QM to QZ, XA to XZ and ZZ are free for whoever makes a database. */
static bool is_country(struct kh_slice code)
{
	char first = code.ptr[0], second = code.ptr[1];
	if (first == 'X' || (first == 'Q' && second >= 'M') || kh_slice_eq(code, KH_SLICE("AA")) ||
	    kh_slice_eq(code, KH_SLICE("ZZ")))
		return true;
	for (const char *at = countries; *at; at += 3)
		if (at[0] == first && at[1] == second)
			return true;
	return false;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static void add_number(struct kh_reader *reader, const char *path, const struct kind *kind,
		       struct kh_numbers *numbers, const struct kh_yaml_node *node)
{
	uint32_t number;
	if (node->kind != KH_NODE_SCALAR ||
	    !(kind->of_countries ? parse_country(node->text, &number)
				 : parse_asn(node->text, &number))) {
		kh_reader_error(reader, node, "%s.%s: expected %s, got %s%s%s", path, kind->name,
				kind->expects, node->kind == KH_NODE_SCALAR ? "\"" : "",
				node->kind == KH_NODE_SCALAR ? kh_esc(node->text)
							     : kh_node_what(node),
				node->kind == KH_NODE_SCALAR ? "\"" : "");
		return;
	}
	if (kind->of_countries && !is_country(node->text))
		kh_reader_warn(reader, node, "%s.%s: ISO 3166 gives \"%s\" to no country%s", path,
			       kind->name, kh_esc(node->text),
			       kh_slice_eq(node->text, KH_SLICE("UK"))
				       ? " (the United Kingdom is GB)"
				       : "");
	uint32_t *slot = kh_list_add(&numbers->list, &numbers->count, sizeof(*slot));
	if (slot)
		*slot = number;
	else
		(void)kh_reader_no_memory(reader);
}

static void read_list(struct kh_reader *reader, const char *path, const struct kind *kind,
		      struct kh_numbers *numbers, const struct kh_yaml_node *node)
{
	if (node->kind != KH_NODE_LIST || node->count == 0 || node->count > KH_LIMIT_GEO_NUMBERS) {
		kh_reader_error(reader, node, "%s.%s: expected a list of 1 to %d %s, got %s", path,
				kind->name, KH_LIMIT_GEO_NUMBERS,
				kind->of_countries ? "countries" : "numbers",
				node->kind == KH_NODE_LIST ? (node->count ? "more" : "an empty one")
							   : kh_node_what(node));
		return;
	}
	for (const struct kh_yaml_node *child = node->first; child; child = child->next)
		add_number(reader, path, kind, numbers, child);
	if (numbers->count > 1)
		qsort(numbers->list, numbers->count, sizeof(*numbers->list), compare);
	size_t n = 0;
	for (size_t i = 0; i < numbers->count; i++)
		if (n == 0 || numbers->list[n - 1] != numbers->list[i])
			numbers->list[n++] = numbers->list[i];
	numbers->count = n;
}

static void read_unknown(struct kh_reader *reader, const char *path, struct kh_geo_rules *geo,
			 const struct kh_yaml_node *node)
{
	bool scalar = node->kind == KH_NODE_SCALAR;
	if (scalar && kh_slice_eq(node->text, KH_SLICE("allow")))
		geo->allow_unknown_country = geo->allow_unknown_asn = true;
	else if (scalar && kh_slice_eq(node->text, KH_SLICE("deny")))
		geo->allow_unknown_country = geo->allow_unknown_asn = false;
	else
		kh_reader_error(reader, node, "%s.unknown: expected allow or deny", path);
}

static void read_key(struct kh_reader *reader, const char *path, struct kh_geo_rules *geo,
		     const struct kh_yaml_node *node)
{
	struct kh_slice key = node->key->text;
	if (kh_slice_eq(key, KH_SLICE("unknown")))
		return; /* when the lists are known */
	struct kh_nearest nearest;
	char hint[KH_NEAREST_BYTES];
	kh_nearest_init(&nearest, key);
	kh_nearest_offer(&nearest, "unknown");
	for (size_t i = 0; i < LISTS; i++) {
		kh_nearest_offer(&nearest, kinds[i].name);
		if (!kh_slice_eq(key, kh_slice_str(kinds[i].name)))
			continue;
		read_list(reader, path, &kinds[i], (void *)((char *)geo + kinds[i].offset), node);
		return;
	}
	kh_reader_error(reader, node->key, "unknown key \"%s\" in %s%s", kh_esc(key), path,
			kh_nearest_hint(&nearest, hint));
}

const char *kh_geo_fault(const struct kh_config *config, const struct kh_geo_rules *geo)
{
	bool by_country = geo->allow_countries.count > 0 || geo->deny_countries.count > 0;
	bool by_asn = geo->allow_asns.count > 0 || geo->deny_asns.count > 0;
	if (!by_country && !by_asn)
		return "names neither countries nor networks: allow_countries, deny_countries, "
		       "allow_asns or deny_asns";
	if (by_country && !config->country_db.named)
		return "nothing says where an address is (upstream.geo.country_db names the "
		       "database of countries)";
	if (by_asn && !config->asn_db.named)
		return "nothing says whose network an address is of (upstream.geo.asn_db names the "
		       "database)";
	return NULL;
}

/* A map of the lists, into a new *slot. */
static void read_geo(struct kh_reader *reader, const char *path, const struct kh_yaml_node *node,
		     struct kh_geo_rules **slot)
{
	if (node->kind != KH_NODE_MAP) {
		kh_reader_error(reader, node,
				"%s: expected a map such as { allow_countries: [ DE ] }, got %s",
				path, kh_node_what(node));
		return;
	}
	struct kh_geo_rules *geo = *slot = calloc(1, sizeof(*geo));
	if (!geo) {
		(void)kh_reader_no_memory(reader);
		return;
	}
	size_t errors = reader->diags->errors;
	geo->where = kh_reader_where(reader, node);
	for (const struct kh_yaml_node *child = node->first; child; child = child->next)
		read_key(reader, path, geo, child);
	geo->allow_unknown_country = geo->allow_countries.count == 0;
	geo->allow_unknown_asn = geo->allow_asns.count == 0;
	const struct kh_yaml_node *unknown = kh_node_get(node, "unknown");
	if (unknown)
		read_unknown(reader, path, geo, unknown);
	const char *fault = kh_geo_fault(reader->config, geo);
	if (fault && reader->diags->errors == errors)
		kh_reader_error(reader, node, "%s: %s", path, fault);
}

void kh_config_read_geo(struct kh_reader *reader, const struct kh_option *option,
			const struct kh_yaml_node *node, void *base)
{
	read_geo(reader, option->path, node, (void *)((char *)base + option->offset));
}

void kh_geo_take(struct kh_reader *reader, struct kh_rule *rule, const struct kh_yaml_node *node)
{
	if (!rule->allow) {
		kh_reader_error(reader, node,
				"rules[].geo: belongs to a rule that allows: where an address is "
				"is not known before one does (deny_countries denies)");
		return;
	}
	struct kh_rule_more *more = kh_rule_more(rule);
	if (more)
		read_geo(reader, "rules[].geo", node, &more->geo);
	else
		(void)kh_reader_no_memory(reader);
}

/* ---- with upstream.proxy ---- */

static void check_place(struct kh_reader *reader, const struct kh_geo_rules *geo)
{
	const struct kh_proxy_config *proxy = &reader->config->proxy;
	if (geo && proxy->host.kind != KH_HOST_NONE && !proxy->resolve_locally)
		kh_diagnostics_add(reader->diags, false, geo->where,
				   "geo: through upstream.proxy nobody here knows which address is "
				   "dialled, so nothing could be allowed (upstream.proxy."
				   "resolve_locally: true has names looked up here)");
}

static void check_places(struct kh_reader *reader, const struct kh_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		if (rules->list[i].more)
			check_place(reader, rules->list[i].more->geo);
}

void kh_config_check_geo(struct kh_reader *reader)
{
	const struct kh_config *config = reader->config;
	check_place(reader, config->site_geo);
	check_places(reader, &config->site);
	for (size_t i = 0; i < config->n_tenants; i++) {
		check_place(reader, config->tenants[i].geo);
		check_places(reader, &config->tenants[i].rules);
	}
}
