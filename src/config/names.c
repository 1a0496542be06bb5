/*
 * names.c - finds tenants, credentials and sandboxes by name while a configuration is read
 *
 * A large file names ten thousand of each in a million rules. So there are hash tables from the
 * beginning of the reading to its end; each lookup first adds what is new.
 */
#include <stdlib.h>

#include "config_internal.h"

struct slot {
	uint32_t index; /* and one; 0: free */
	bool several;
};

struct table {
	struct slot *slots;    /* a power of two */
	size_t n_slots, known; /* items looked at so far */
	bool broken;	       /* no memory: asked one by one from here on */
};

struct kh_names {
	struct table tables[KH_NAMES_KINDS];
};

static const char *name_of(const struct kh_config *config, enum kh_names_kind kind, size_t i)
{
	switch (kind) {
	case KH_NAMES_TENANTS:
		return config->tenants[i].name;
	case KH_NAMES_CREDENTIALS:
		return config->credentials[i].of_proxy || config->credentials[i].of_listener
			       ? NULL
			       : config->credentials[i].name;
	case KH_NAMES_SANDBOXES:
		return config->listeners[i].sandbox;
	case KH_NAMES_KINDS:
		break;
	}
	return NULL;
}

static size_t count_of(const struct kh_config *config, enum kh_names_kind kind)
{
	switch (kind) {
	case KH_NAMES_TENANTS:
		return config->n_tenants;
	case KH_NAMES_CREDENTIALS:
		return config->n_credentials;
	case KH_NAMES_SANDBOXES:
		return config->n_listeners;
	case KH_NAMES_KINDS:
		break;
	}
	return 0;
}

/* FNV-1a: who writes the file slows down nobody but themselves. */
static size_t hash(struct kh_slice name)
{
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < name.len; i++)
		h = (h ^ (unsigned char)name.ptr[i]) * 0x100000001b3u;
	return (size_t)(h ^ h >> 32);
}

static struct slot *find_slot(const struct table *table, const struct kh_config *config,
			      enum kh_names_kind kind, struct kh_slice name)
{
	for (size_t at = hash(name);; at++) {
		struct slot *slot = &table->slots[at & (table->n_slots - 1)];
		if (slot->index == 0 ||
		    kh_slice_eq(kh_slice_str(name_of(config, kind, slot->index - 1)), name))
			return slot;
	}
}

static bool grow(struct table *table, const struct kh_config *config, enum kh_names_kind kind)
{
	struct table next = { .n_slots = table->n_slots ? table->n_slots * 2 : 64,
			      .known = table->known };
	next.slots = calloc(next.n_slots, sizeof(*next.slots));
	if (!next.slots)
		return false;
	for (size_t i = 0; i < table->n_slots; i++) {
		const struct slot *old = &table->slots[i];
		if (old->index > 0)
			*find_slot(&next, config, kind,
				   kh_slice_str(name_of(config, kind, old->index - 1))) = *old;
	}
	free(table->slots);
	*table = next;
	return true;
}

/* What was added since. */
static void catch_up(struct table *table, const struct kh_config *config, enum kh_names_kind kind)
{
	size_t n = count_of(config, kind);
	for (; table->known < n && !table->broken; table->known++) {
		const char *name = name_of(config, kind, table->known);
		if (2 * (table->known + 1) > table->n_slots && !grow(table, config, kind)) {
			table->broken = true;
			return;
		}
		if (!name)
			continue;
		struct slot *slot = find_slot(table, config, kind, kh_slice_str(name));
		if (slot->index > 0)
			slot->several = true;
		else
			slot->index = (uint32_t)table->known + 1;
	}
}

static int look_at_all(const struct kh_config *config, enum kh_names_kind kind,
		       struct kh_slice name)
{
	int found = KH_NAME_NONE;
	for (size_t i = 0; i < count_of(config, kind); i++) {
		const char *one = name_of(config, kind, i);
		if (!one || !kh_slice_eq(kh_slice_str(one), name))
			continue;
		if (found != KH_NAME_NONE)
			return KH_NAME_SEVERAL;
		found = (int)i;
	}
	return found;
}

int kh_names_find(const struct kh_config *config, enum kh_names_kind kind, struct kh_slice name)
{
	struct table *table = config->names ? &config->names->tables[kind] : NULL;
	if (table)
		catch_up(table, config, kind);
	if (!table || table->broken)
		return look_at_all(config, kind, name);
	if (table->n_slots == 0)
		return KH_NAME_NONE;
	const struct slot *slot = find_slot(table, config, kind, name);
	if (slot->index == 0)
		return KH_NAME_NONE;
	return slot->several ? KH_NAME_SEVERAL : (int)(slot->index - 1);
}

void kh_names_begin(struct kh_config *config)
{
	if (!config->names)
		config->names = calloc(1, sizeof(*config->names)); /* slower without */
}

void kh_names_end(struct kh_config *config)
{
	for (unsigned i = 0; config->names && i < KH_NAMES_KINDS; i++)
		free(config->names->tables[i].slots);
	free(config->names);
	config->names = NULL;
}
