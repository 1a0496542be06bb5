/* unsafe_folder.h - could another user exchange what a path leads to? */
#ifndef KEYHOLE_BASE_UNSAFE_FOLDER_H
#define KEYHOLE_BASE_UNSAFE_FOLDER_H

#include <sys/types.h>

#include <keyhole/base/err.h>

enum kh_unsafe {
	KH_UNSAFE_NOT = 0,
	KH_UNSAFE_WRITABLE, /* others may write to it, and it is not sticky */
	KH_UNSAFE_OWNER,    /* it belongs to another user */
};

/*
 * Looks at all folders on the way to the file `path`, from the root on and through all links: may
 * others than root and `user` ((uid_t)-1: the owner of the folder that is to hold the file) rename
 * what is in them (kh_file_others_may_rename)? Whoever owns "/" counts as root: in a user namespace
 * that user may have no number. Folders above the user's own home (HOME) do not count, as for sshd:
 * who may exchange the home needs no more. What does not exist is safe: whoever makes it owns it.
 * Return: the worst, with `err` (which may be NULL), a clause on the first such folder that also
 * says what to do; KH_UNSAFE_OWNER without memory.
 */
enum kh_unsafe kh_unsafe_folder(const char *path, uid_t user, struct kh_err *err);

#endif
