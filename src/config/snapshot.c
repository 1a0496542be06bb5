/* snapshot.c - the worker's part of a configuration as bytes, and back
 *
 * The keeper writes it into a sealed memfd, and the worker reads it. The worker gets no source of a
 * secret and no path except the listeners' own, which identify them. The reader trusts nothing,
 * although it trusts the writer: rules and hosts are sent as their text and pass the same parsers
 * again, and every index and enum is checked against what was read before. The rows of the options
 * (carry.h) say what is carried, and in which order.
 */
#include <stdlib.h>

#include <keyhole/base/limits.h>

#include "carry.h"

enum { MAGIC = 0x4b485335 /* "KHS5" */, NARROW_MAGIC = 0x4b484e32 /* "KHN2" */ };

static void carry_magic(struct kh_carrier *c, uint32_t magic)
{
	uint32_t is = magic;
	kh_carry_u32(c, &is);
	kh_carry_demand(c, is == magic);
}

void kh_carry_config(struct kh_carrier *c, struct kh_config *config)
{
	carry_magic(c, MAGIC);
	kh_carry_list(c, &config->files, &config->n_files, sizeof(*config->files), KH_CARRY_LISTED,
		      kh_carry_list_name);
	for (size_t i = 0; i < KH_MARK_KEYS; i++)
		kh_carry_bytes(c, config->placeholder_keys[i].bytes,
			       sizeof(config->placeholder_keys[i].bytes));
	kh_carry_bool(c, &config->says_connections);
	kh_carry_u32(c, &config->ask_ms);
	kh_carry_demand(c, config->ask_ms <= KH_LIMIT_QUESTION_MS);
	kh_carry_rows(c, "", false, config);
}

bool kh_config_encode(const struct kh_config *config, struct kh_buf *out)
{
	struct kh_config copy = *config; /* the way out changes nothing */
	struct kh_carrier c = { .out = out, .config = &copy, .options = &kh_options };
	kh_carry_config(&c, &copy);
	return !c.in.bad;
}

struct kh_config *kh_config_decode(struct kh_slice bytes, struct kh_err *err)
{
	struct kh_carrier c = { .in = { .rest = bytes },
				.config = calloc(1, sizeof(struct kh_config)),
				.options = &kh_options };
	if (!c.config) {
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "snapshot: out of memory");
		return NULL;
	}
	kh_carry_config(&c, c.config);
	if (kh_wire_done(&c.in))
		return c.config;
	kh_config_free(c.config);
	(void)kh_err_set(err, KH_ERR_INTERNAL, "snapshot: damaged, or of another version");
	return NULL;
}

bool kh_snapshot_encode_narrow(const struct kh_rules *rules, struct kh_buf *out)
{
	struct kh_config nothing = { 0 };
	struct kh_rules copy = *rules;
	struct kh_carrier c = { .out = out, .config = &nothing, .options = &kh_options };
	carry_magic(&c, NARROW_MAGIC);
	kh_carry_narrowing(&c, &copy);
	return !c.in.bad;
}

bool kh_snapshot_decode_narrow(struct kh_slice bytes, struct kh_rules *out, struct kh_err *err)
{
	/* Nothing that a rule could name. */
	struct kh_config nothing = { 0 };
	struct kh_carrier c = { .in = { .rest = bytes },
				.config = &nothing,
				.options = &kh_options };
	*out = (struct kh_rules){ 0 };
	carry_magic(&c, NARROW_MAGIC);
	kh_carry_narrowing(&c, out);
	if (kh_wire_done(&c.in))
		return true;
	kh_rules_fini(out);
	return kh_err_set(err, KH_ERR_INTERNAL, "narrowing: damaged, or of another version");
}
