/* carry.h - encodes a configuration for the worker: one function for both directions
 *
 * The keeper writes, the worker reads. Each kind of thing has one function that does either. A row
 * of the table of options names the function that carries its member. What has no such row, and is
 * not carried here by name, stays with the keeper: above all, sources of secrets and paths.
 */
#ifndef KEYHOLE_CONFIG_CARRY_H
#define KEYHOLE_CONFIG_CARRY_H

#include <keyhole/base/wire.h>

#include "config_internal.h"

/* Rules of a list; elements of any other. */
enum { KH_CARRY_RULES = 16 * 1024 * 1024, KH_CARRY_LISTED = 65536 };
enum { KH_CARRY_PARTS = 24, KH_CARRY_ROWS = 128 };

/* The carried rows of one kind of struct, looked for once. */
struct kh_carried_rows {
	const char *prefix;
	bool part;
	const struct kh_option *rows[KH_CARRY_ROWS];
	size_t n;
};

struct kh_carrier {
	struct kh_buf *out;	  /* what is written to; NULL: it is read */
	struct kh_wire_reader in; /* `in.bad` is the one flag for whatever goes wrong, either way */
	struct kh_config *config; /* what is carried; when it is read: as far as it is there */
	const struct kh_options *options;
	struct kh_carried_rows found[KH_CARRY_PARTS];
	size_t n_found;
};

static inline bool kh_carry_reads(const struct kh_carrier *c)
{
	return !c->out;
}

/* A reader believes nothing: what it demands and does not find makes all of it bad. Not looked at
 * where something is bad already, or is written. */
#define kh_carry_demand(c, holds) \
	do { \
		if (kh_carry_reads(c) && !(c)->in.bad && !(holds)) \
			(c)->in.bad = true; \
	} while (0)

/* Of a row: who carries it, and the member that holds it; or it stays with the keeper. */
#define KH_CARRIED(function, type, name) .carry = function, .member = offsetof(struct type, name)
#define KH_KEPT(type, name) KH_CARRIED(NULL, type, name)
#define KH_STAYS .carry = NULL

/* carry.c: what everything is made of. */
void kh_carry_u8(struct kh_carrier *c, uint8_t *value);
void kh_carry_u16(struct kh_carrier *c, uint16_t *value);
void kh_carry_u32(struct kh_carrier *c, uint32_t *value);
void kh_carry_u64(struct kh_carrier *c, uint64_t *value);
void kh_carry_bool(struct kh_carrier *c, bool *value);
/* An enum of `n` values, which count from 0. */
void kh_carry_enum(struct kh_carrier *c, void *value, unsigned n);
void kh_carry_str(struct kh_carrier *c, char **str); /* may be NULL */
void kh_carry_name(struct kh_carrier *c, char **str);
void kh_carry_bytes(struct kh_carrier *c, void *bytes, size_t size);
/* The elements of a list, `most` of them. */
void kh_carry_list(struct kh_carrier *c, void *list, size_t *count, size_t size, uint32_t most,
		   void (*one)(struct kh_carrier *, void *element));
/* Something of this size that is there or not. Return: it, made where it is read; NULL: none. */
void *kh_carry_maybe(struct kh_carrier *c, void *slot, size_t size);
void kh_carry_where(struct kh_carrier *c, struct kh_where *where);
/* For kh_carry_list: a char * that must be there, a uint32_t. */
void kh_carry_list_name(struct kh_carrier *c, void *element);
void kh_carry_list_u32(struct kh_carrier *c, void *element);

/* The rows below a prefix ("" of the file): `base` is the struct that their members are in. `part`:
 * those directly below it that have KH_IN_PART, else all that have not. */
void kh_carry_rows(struct kh_carrier *c, const char *prefix, bool part, void *base);

/* For rows: base + member, by the row's type, bounds and check. */
kh_option_carrier kh_carry_value;
kh_option_carrier kh_carry_flag;   /* a bool */
kh_option_carrier kh_carry_word;   /* of choices */
kh_option_carrier kh_carry_text;   /* a char * */
kh_option_carrier kh_carry_number; /* a uint32_t */
kh_option_carrier kh_carry_size;   /* a uint64_t */

/* snapshot.c: all of it, by the carrier's table. */
void kh_carry_config(struct kh_carrier *c, struct kh_config *config);

/* carry_net.c: hosts and addresses. */
void kh_carry_pattern(struct kh_carrier *c, void *element); /* a kh_host_pattern */
kh_option_carrier kh_carry_pins;
kh_option_carrier kh_carry_ranges;
kh_option_carrier kh_carry_tenant_ranges;
kh_option_carrier kh_carry_servers;
kh_option_carrier kh_carry_proxy;
kh_option_carrier kh_carry_no_proxy;
kh_option_carrier kh_carry_geo_file;

/* carry_limits.c: a kh_geo_rules *, a kh_limits * with its rows below the section's, and members of
 * the latter. */
kh_option_carrier kh_carry_geo;
kh_option_carrier kh_carry_limits;
kh_option_carrier kh_carry_rates;
kh_option_carrier kh_carry_concurrency;
kh_option_carrier kh_carry_connections;

/* carry_rules.c */
void kh_carry_rule_list(struct kh_carrier *c, struct kh_rules *rules);
/* Rules that bring nothing along, and are never only observed. */
void kh_carry_narrowing(struct kh_carrier *c, struct kh_rules *rules);
kh_option_carrier kh_carry_rules;
kh_option_carrier kh_carry_narrow;
kh_option_carrier kh_carry_rule_credentials;
kh_option_carrier kh_carry_websocket;
kh_option_carrier kh_carry_conditions;
kh_option_carrier kh_carry_max_body;

/* carry_credential.c */
kh_option_carrier kh_carry_credentials;
kh_option_carrier kh_carry_hosts;
kh_option_carrier kh_carry_paths;
kh_option_carrier kh_carry_methods;
kh_option_carrier kh_carry_hmac_fields;
/* carry_placement.c */
void kh_carry_placement(struct kh_carrier *c, struct kh_placement **slot);

/* carry_owners.c: tenants, listeners, grants of `admin`. */
kh_option_carrier kh_carry_tenants;
kh_option_carrier kh_carry_listener_tenant;
kh_option_carrier kh_carry_listeners;
kh_option_carrier kh_carry_grants;

#endif
