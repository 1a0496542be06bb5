/* changed.h - reports what has changed although it was read-only for a sandbox */
#ifndef KEYHOLE_SANDBOX_CHANGED_H
#define KEYHOLE_SANDBOX_CHANGED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

struct kh_view;

/*
 * The survey after a run takes what was mounted read-only for unchanged. On a local file system it
 * is, but for what the host changed. On one that a server has (FUSE, 9p, SMB ...) that is only as
 * sure as the server's names (mount_spelling.h), so what is protected there is compared.
 */
struct kh_changed {
	const struct kh_view *view;
	uint64_t *states; /* by the view's index; 0: not compared */
	size_t n;
};

/* Records what is protected below `workspace`, a folder that has the same path in the view. The
 * view must outlive it. `all`: on a local file system too. */
bool kh_changed_note(struct kh_changed *changed, const struct kh_view *view, const char *workspace,
		     bool all, struct kh_err *err);
/* Appends the first names of what is different by now, for a message. Return: how many there are.
 */
size_t kh_changed_find(const struct kh_changed *changed, struct kh_buf *names);
/* Warns of what is different. */
void kh_changed_warn(const struct kh_changed *changed);
void kh_changed_fini(struct kh_changed *changed);

#endif
