/* writable.h - could a sandbox change what a name on this host leads to? */
#ifndef KEYHOLE_BASE_WRITABLE_H
#define KEYHOLE_BASE_WRITABLE_H

#include <stdbool.h>

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
/* Calls this with each of them, without links; an outer folder comes before those inside. */
void kh_writable_each(void (*each)(void *arg, const char *folder), void *arg);
/* Sandboxes begin while others live: `more` adds the folders of those that are not in the list yet.
 * _refresh calls it, if there is one. Return of both: false with an error. */
void kh_writable_set_more(bool (*more)(struct kh_err *err));
bool kh_writable_refresh(struct kh_err *err);
/* The same for KH_WRITABLE_FOR_ALL, for a message. *folder: what the folder was called when it was
 * added; NULL: it can't be told where the name leads. */
bool kh_writable_leads(const char *name, const char **folder);
/* Return: false with an error that says why a name for KH_WRITABLE_FOR_ALL is refused, and what to
 * do. */
bool kh_writable_check(const char *name, struct kh_err *err);

#endif
