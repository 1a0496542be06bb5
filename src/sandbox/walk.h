/* walk.h - a bounded walk through a folder that an agent may have written */
#ifndef KEYHOLE_SANDBOX_WALK_H
#define KEYHOLE_SANDBOX_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include <keyhole/base/err.h>

#include "deadline.h"

struct kh_walk_entry {
	char *name;
	mode_t mode;
	dev_t dev;
	ino_t ino;
	uid_t uid;
	nlink_t links;
	struct timespec changed;
	bool skip;     /* set by the visitor: do not enter this folder */
	unsigned mark; /* set by the visitor, for a folder: passed to its own visit */
};

/* One folder, with all of its entries but "." and "..". */
struct kh_walk_folder {
	const char *path; /* absolute */
	int fd;		  /* of the folder, for reading */
	unsigned mark;	  /* as the visit of the folder above left it; 0 for the root */
	bool top;
	struct kh_walk_entry *list;
	size_t n;
	struct kh_deadline *deadline; /* of the walk */
};

struct kh_walk {
	/* Return: false ends the walk, and err says why. */
	bool (*visit)(void *arg, const struct kh_walk_folder *folder, struct kh_err *err);
	void *arg;
	/* Only these folders below the root (paths from it) and what is below them, or all. */
	char *const *from;
	size_t n_from;
	/* The deadline of the whole work. NULL: its own, KH_LIMIT_SURVEY_MS. */
	struct kh_deadline *deadline;
	/* How much memory the folders that wait and the entries of one folder may take. 0:
	 * KH_LIMIT_SURVEY_MEMORY_BYTES. */
	size_t most_bytes;
	/* Result: what was not visited, and why (heap); NULL: the walk was complete. */
	char *missed;
};

/*
 * Visits `root` and every folder below it, level by level. Follows no symbolic link, neither above
 * `root` nor below it, even if somebody replaces folders meanwhile. KH_LIMIT_SURVEY_* bound it.
 * Return: false with `err`: the visitor returned false, or a system error. A walk that ended at a
 * bound returns true and sets `missed`.
 */
bool kh_walk_run(struct kh_walk *walk, const char *root, struct kh_err *err);
/* The same with a descriptor of the folder (O_PATH is enough): `root` only names what is found in
 * it. */
bool kh_walk_run_at(struct kh_walk *walk, int root_fd, const char *root, struct kh_err *err);
/* Finds the entry with this name, or one that a file system may treat as equal (name_fold.h). NULL:
 * none. */
const struct kh_walk_entry *kh_walk_find(const struct kh_walk_folder *folder, const char *name);

#endif
