/* carry.c - writes or reads the basic parts of a snapshot, by the same function */
#include "carry.h"

#include <stdlib.h>
#include <string.h>

/* ---- numbers and texts ---- */

static void wrote(struct kh_carrier *c, bool ok)
{
	c->in.bad = c->in.bad || !ok;
}

void kh_carry_u8(struct kh_carrier *c, uint8_t *value)
{
	if (kh_carry_reads(c))
		*value = kh_wire_u8(&c->in);
	else
		wrote(c, kh_wire_put_u8(c->out, *value));
}

void kh_carry_u16(struct kh_carrier *c, uint16_t *value)
{
	if (kh_carry_reads(c))
		*value = kh_wire_u16(&c->in);
	else
		wrote(c, kh_wire_put_u16(c->out, *value));
}

void kh_carry_u32(struct kh_carrier *c, uint32_t *value)
{
	if (kh_carry_reads(c))
		*value = kh_wire_u32(&c->in);
	else
		wrote(c, kh_wire_put_u32(c->out, *value));
}

void kh_carry_u64(struct kh_carrier *c, uint64_t *value)
{
	if (kh_carry_reads(c))
		*value = kh_wire_u64(&c->in);
	else
		wrote(c, kh_wire_put_u64(c->out, *value));
}

void kh_carry_bool(struct kh_carrier *c, bool *value)
{
	uint8_t byte = *value;
	kh_carry_u8(c, &byte);
	kh_carry_demand(c, byte <= 1);
	*value = byte == 1;
}

void kh_carry_enum(struct kh_carrier *c, void *value, unsigned n)
{
	unsigned *slot = value;
	uint8_t byte = (uint8_t)*slot;
	kh_carry_u8(c, &byte);
	kh_carry_demand(c, byte < n);
	*slot = c->in.bad && byte >= n ? 0 : byte;
}

void kh_carry_str(struct kh_carrier *c, char **str)
{
	if (kh_carry_reads(c))
		*str = kh_wire_str(&c->in);
	else
		wrote(c, kh_wire_put_str(c->out, *str));
}

void kh_carry_name(struct kh_carrier *c, char **str)
{
	kh_carry_str(c, str);
	kh_carry_demand(c, *str != NULL);
}

void kh_carry_bytes(struct kh_carrier *c, void *bytes, size_t size)
{
	if (!kh_carry_reads(c)) {
		wrote(c, kh_wire_put_bytes(c->out, kh_slice_of(bytes, size)));
		return;
	}
	struct kh_slice in = kh_wire_bytes(&c->in);
	kh_carry_demand(c, in.len == size);
	if (in.len == size)
		memcpy(bytes, in.ptr, size);
}

void kh_carry_where(struct kh_carrier *c, struct kh_where *where)
{
	kh_carry_u32(c, &where->file);
	kh_carry_u32(c, &where->line);
	kh_carry_u32(c, &where->column);
	kh_carry_demand(c, where->file < c->config->n_files || where->file == 0 ||
				   where->file == KH_NO_FILE);
}

/* ---- what is there, and how often ---- */

void *kh_carry_maybe(struct kh_carrier *c, void *slot, size_t size)
{
	void **thing = slot;
	bool there = *thing != NULL;
	kh_carry_bool(c, &there);
	if (kh_carry_reads(c) && there && !c->in.bad) {
		*thing = calloc(1, size);
		kh_carry_demand(c, *thing != NULL);
	}
	return *thing;
}

void kh_carry_list(struct kh_carrier *c, void *list, size_t *count, size_t size, uint32_t most,
		   void (*one)(struct kh_carrier *, void *element))
{
	char **slot = list;
	if (!kh_carry_reads(c)) {
		uint32_t n = (uint32_t)*count;
		kh_carry_u32(c, &n);
		for (size_t i = 0; i < n && !c->in.bad; i++)
			one(c, *slot + i * size);
		return;
	}
	uint32_t n = kh_wire_count(&c->in, most);
	for (uint32_t i = 0; i < n && !c->in.bad; i++) {
		void *element = kh_list_add(list, count, size);
		kh_carry_demand(c, element != NULL);
		if (element)
			one(c, element);
	}
}

void kh_carry_list_name(struct kh_carrier *c, void *element)
{
	kh_carry_name(c, element);
}

void kh_carry_list_u32(struct kh_carrier *c, void *element)
{
	kh_carry_u32(c, element);
}

/* ---- by the rows ---- */

static bool is_below(const struct kh_option *option, const char *prefix, bool part)
{
	const char *rest = option->path;
	size_t len = strlen(prefix);
	if (len > 0) {
		if (strncmp(rest, prefix, len) != 0 || rest[len] != '.')
			return false;
		rest += len + 1;
	}
	return !strpbrk(rest, part ? ".[*" : "[*");
}

static const struct kh_carried_rows *rows_of(struct kh_carrier *c, const char *prefix, bool part)
{
	for (size_t i = 0; i < c->n_found; i++)
		if (c->found[i].part == part && strcmp(c->found[i].prefix, prefix) == 0)
			return &c->found[i];
	if (c->n_found == KH_CARRY_PARTS)
		return NULL;
	struct kh_carried_rows *rows = &c->found[c->n_found++];
	rows->prefix = prefix;
	rows->part = part;
	for (size_t i = 0; i < c->options->count; i++) {
		const struct kh_option *option = &c->options->rows[i];
		if (!option->carry || !(option->flags & KH_IN_PART) == part ||
		    !is_below(option, prefix, part))
			continue;
		if (rows->n == KH_CARRY_ROWS)
			return NULL;
		rows->rows[rows->n++] = option;
	}
	return rows;
}

void kh_carry_rows(struct kh_carrier *c, const char *prefix, bool part, void *base)
{
	const struct kh_carried_rows *rows = rows_of(c, prefix, part);
	if (!rows)
		c->in.bad = true; /* the tables are too small: no snapshot at all */
	for (size_t i = 0; rows && i < rows->n && !c->in.bad; i++)
		rows->rows[i]->carry(c, rows->rows[i], base);
}

static void *member_of(const struct kh_option *option, void *base)
{
	return (char *)base + option->member;
}

void kh_carry_flag(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	kh_carry_bool(c, member_of(option, base));
}

void kh_carry_word(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	unsigned n = 0;
	while (option->choices[n])
		n++;
	kh_carry_enum(c, member_of(option, base), n);
}

void kh_carry_text(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	char **str = member_of(option, base);
	kh_carry_str(c, str);
	kh_carry_demand(c, !*str || !option->check || !option->check(kh_slice_str(*str)));
}

/* A number that the file need not have is 0 where it has none. */
static void demand_bounds(struct kh_carrier *c, const struct kh_option *option, uint64_t value)
{
	kh_carry_demand(c, (value >= option->least && value <= option->most) ||
				   (value == 0 && !option->fallback));
}

void kh_carry_number(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	uint32_t *value = member_of(option, base);
	kh_carry_u32(c, value);
	demand_bounds(c, option, *value);
}

void kh_carry_size(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	uint64_t *value = member_of(option, base);
	kh_carry_u64(c, value);
	demand_bounds(c, option, *value);
}

void kh_carry_value(struct kh_carrier *c, const struct kh_option *option, void *base)
{
	switch (option->type) {
	case KH_OPTION_BOOL:
		kh_carry_flag(c, option, base);
		return;
	case KH_OPTION_COUNT:
	case KH_OPTION_DURATION:
		kh_carry_number(c, option, base);
		return;
	case KH_OPTION_SIZE:
		kh_carry_size(c, option, base);
		return;
	case KH_OPTION_CHOICE:
		kh_carry_word(c, option, base);
		return;
	case KH_OPTION_TEXT:
		kh_carry_text(c, option, base);
		return;
	case KH_OPTION_PATH: /* the worker gets none */
	case KH_OPTION_SECTION:
	case KH_OPTION_LIST:
	case KH_OPTION_MAP:
	case KH_OPTION_NODE:
	case KH_OPTION_CUSTOM:
		break;
	}
	c->in.bad = true;
}
