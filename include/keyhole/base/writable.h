/* writable.h - could a sandbox change what a name on this host leads to? */
#ifndef KEYHOLE_BASE_WRITABLE_H
#define KEYHOLE_BASE_WRITABLE_H

#include <stdbool.h>
#include <sys/types.h>

#include <keyhole/base/err.h>

/* Who must not go through the folder. */
enum kh_writable_for {
	KH_WRITABLE_FOR_ALL,
	/* Only the lookup of programs: no sandbox writes there now, but one may have before. */
	KH_WRITABLE_FOR_PROGRAMS,
};

/*
 * From now on sandboxes may write to this folder. `what` names it in messages ("the workspace").
 * "/" has no effect. A forked child inherits this. Not thread-safe. Return: false with errno: there
 * is no such folder, or no memory.
 */
bool kh_writable_add(const char *folder, const char *what, enum kh_writable_for use);
/* The same for a folder that is held (kh_file_hold), which the caller keeps. */
bool kh_writable_add_held(int held, const char *what, enum kh_writable_for use);

/*
 * The only answer to that question. The name is followed as the host would, component by component
 * and link by link: a folder counts if it holds a component of the name or a link on its way, and
 * also if there is nothing at the end yet. A relative name begins in the working folder. A name
 * counts as changeable if only the process that uses it knows where it leads (/proc/self/cwd/x).
 */
bool kh_writable_is(const char *name, enum kh_writable_for use);
/* Has any been added for KH_WRITABLE_FOR_ALL? */
bool kh_writable_any(void);

/* A folder as it was recorded, or added: views. */
struct kh_writable_folder {
	const char *path; /* without links then */
	const char *what; /* "the workspace", for messages */
	bool has_id;	  /* dev and ino are known. Else it is what `path` has now */
	bool live;	  /* an agent writes there now, whatever `path` has become */
	dev_t dev;
	ino_t ino;
};
/* Calls this with each of those for KH_WRITABLE_FOR_ALL. The path may have another folder now. */
void kh_writable_each(void (*each)(void *arg, const struct kh_writable_folder *folder), void *arg);

/*
 * The folders of other runs, for KH_WRITABLE_FOR_ALL, come and go. _renew forgets those that were
 * noted before, and calls `note`, which notes those that there are. Where that fails, those from
 * before stay. Return: false with the error of `note`, or without memory.
 *
 * _note goes through no link that has come into the path: an agent whose folder holds the recorded
 * one could have made it. A folder that is live is noted with its device and inode, whatever its
 * path has now. One that is not live is only noted where it is found; if the user has put a link
 * into the path, where no agent writes, it is found through that. Return: false without memory.
 */
bool kh_writable_renew(bool (*note)(struct kh_err *err), struct kh_err *err);
bool kh_writable_note(const struct kh_writable_folder *folder);
/* Sandboxes begin while others live: before each command, _refresh calls `renew` (_renew with the
 * locks that it needs), if there is one. Return: false with an error. */
void kh_writable_set_renew(bool (*renew)(struct kh_err *err));
bool kh_writable_refresh(struct kh_err *err);

/* The same for KH_WRITABLE_FOR_ALL, for a message. *folder: what the folder was called when it was
 * added; NULL: it can't be told where the name leads. */
bool kh_writable_leads(const char *name, const char **folder);
/* Return: false with an error that says why a name for KH_WRITABLE_FOR_ALL is refused, and what to
 * do. */
bool kh_writable_check(const char *name, struct kh_err *err);

#endif
