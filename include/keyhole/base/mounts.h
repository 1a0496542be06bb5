/* mounts.h - what is mounted where, and at which other paths a folder can be reached */
#ifndef KEYHOLE_BASE_MOUNTS_H
#define KEYHOLE_BASE_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

/* One line of /proc/self/mountinfo (proc(5)). Heap, without the kernel's escapes. */
struct kh_mounts_entry {
	uint64_t id, major, minor;
	char *root;  /* the part of the file system that is mounted, from its top: "/folder" */
	char *point; /* where: "/mnt" */
	/* Not read-only, and no file system of the kernel's own (proc, sysfs, devices, control
	 * groups), which holds no files of an agent. */
	bool is_writable;
};

struct kh_mounts {
	struct kh_mounts_entry *list;
	size_t n;
};

/* Reads that text. The names in it are chosen by whoever makes folders and mounts, agents among
 * them. Return: false: a part of it can't be parsed, or no memory; then there is nothing to free.
 * */
bool kh_mounts_parse(struct kh_slice text, struct kh_mounts *out);
/* The same for this process; at most KH_LIMIT_MOUNTS_BYTES. */
bool kh_mounts_read(struct kh_mounts *out, struct kh_err *err);
void kh_mounts_fini(struct kh_mounts *mounts);

/* The mount in which an open file is (O_PATH is enough). Return: false with errno. */
bool kh_mounts_id(int fd, uint64_t *id);

/*
 * Calls `each` with the names, besides its path, by which a folder or a part of it can be reached
 * through another mount: of the folder itself, of one above it, or of one in it; and those of what
 * is mounted in the folder, if that is writable. `id`: the mount in which the folder is
 * (kh_mounts_id); `folder`: its path without links. Each name begins with '/'; it leads there only
 * if what it names is in the mount `id` of the call, since another mount may hide that. It opens
 * nothing. Return: false: `each` has returned false, the table has no such mount, or no memory.
 */
bool kh_mounts_each_name(const struct kh_mounts *mounts, uint64_t id, const char *folder,
			 bool (*each)(void *arg, const char *name, uint64_t id), void *arg);
/* The same, but only names by which something can be written that has another name in the folder: a
 * mount that is read-only, or that shows what is at its point anyway, gives none. */
bool kh_mounts_each_second_name(const struct kh_mounts *mounts, uint64_t id, const char *folder,
				bool (*each)(void *arg, const char *name, uint64_t id), void *arg);
/* Holds (kh_file_hold) what such a name leads to. *fd: -1: another mount hides it, or the folders
 * on its way are shut to this process. Return: false: that can't be told. */
bool kh_mounts_hold(const char *name, uint64_t id, int *fd);
/* Is anything mounted in the folder, at a path below its own? */
bool kh_mounts_has_below(const struct kh_mounts *mounts, const char *folder);

#endif
