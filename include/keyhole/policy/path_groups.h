/* path_groups.h - groups requests whose paths differ only in identifiers */
#ifndef KEYHOLE_POLICY_PATH_GROUPS_H
#define KEYHOLE_POLICY_PATH_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <keyhole/base/slice.h>

/*
 * Does this segment of a path name one thing among many? A number does; seven hex digits or more,
 * at least one of which is no letter; a UUID; a date (2026-01-31), also with a time after a 'T'.
 * A name that somebody chose (a repository, a model, a version such as v1) does not: whoever may
 * read one of them may not read every other.
 */
bool kh_path_groups_is_identifier(struct kh_slice segment);

struct kh_path_group {
	/* What the caller tells requests apart by, beside their path. */
	char *kind, *method, *place;
	/* Of the paths: '*' in each segment in which they differ and all are identifiers. It has as
	 * many segments as each of them, never "**", and matches all of them. One of its segments
	 * is a name, or it is a path as it came. */
	char *pattern;
	char *example; /* of the first one */
	uint64_t requests;
	/* The caller's; 0 and false at first. */
	uint64_t refused, observed, with_credential, marks[4];
	bool apart;
};

/* Bounded by KH_LIMIT_PATH_GROUPS and KH_LIMIT_PATH_GROUPS_BYTES. Zeroed before its first use. */
struct kh_path_groups {
	struct kh_path_group *list; /* in the order of their first requests */
	size_t count;
	uint64_t left_out; /* requests that found no room */
	uint32_t *slots;   /* by hash: an index and one; 0 is free */
	size_t bytes;
};

/*
 * Counts a request in its group, which is made if there is room. `path` is in normal form and
 * begins with '/', or is empty. The texts are copied.
 * Return: the group, until the next call; NULL without room or memory, and it is left out.
 */
struct kh_path_group *kh_path_groups_add(struct kh_path_groups *groups, const char *kind,
					 const char *method, const char *place,
					 struct kh_slice path, const char *example);
void kh_path_groups_fini(struct kh_path_groups *groups);

#endif
