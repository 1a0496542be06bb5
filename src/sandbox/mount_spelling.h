/* mount_spelling.h - do the mounts of a view hold for every spelling of a name? */
#ifndef KEYHOLE_SANDBOX_MOUNT_SPELLING_H
#define KEYHOLE_SANDBOX_MOUNT_SPELLING_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include <keyhole/base/err.h>

struct kh_view;

struct kh_mount_spelling_seen {
	dev_t dev;
	ino_t ino;
	char called[NAME_MAX + 1]; /* the name of its dentry; "" if that can't be told */
};

/* How a folder is asked; a test has its own. */
struct kh_mount_spelling_look {
	/* Looks up a name. Follows no link. Return: a descriptor (O_PATH), which keeps the dentry,
	 * the caller's; -1: nothing has that name. */
	int (*reach)(int folder, const char *name, struct kh_mount_spelling_seen *seen);
	/* Does a list of the folder have exactly this name? False if that can't be told. */
	bool (*lists)(int folder, const char *name);
};
extern const struct kh_mount_spelling_look kh_mount_spelling_kernel;

enum { KH_MOUNT_SPELLING_BYTES = NAME_MAX + 1 };
/*
 * Looks up other spellings of an entry: the other case of its letters, and what Windows takes for
 * the same name. Return: there is one that the folder does not list, and that leads past a mount on
 * the entry; `other` has it.
 */
bool kh_mount_spelling_leads_past(const struct kh_mount_spelling_look *look, int folder,
				  const char *name, char other[KH_MOUNT_SPELLING_BYTES]);
/* Looks at everything in the view that is mounted over an entry of a folder of the host. Return:
 * false with `err`: a mount does not hold for another spelling. */
bool kh_mount_spelling_check(const struct kh_view *view, const struct kh_mount_spelling_look *look,
			     struct kh_err *err);

#endif
