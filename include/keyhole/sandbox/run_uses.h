/* run_uses.h - what live runs name on this host, and where their agents write */
#ifndef KEYHOLE_SANDBOX_RUN_USES_H
#define KEYHOLE_SANDBOX_RUN_USES_H

#include <stdbool.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/*
 * STATE/names/ID, one file per run: its pid, the folders to which its agent writes (with device and
 * inode, since the path may get another folder), and the names that it uses. It is locked as long
 * as the run or its keeper lives, and is written and read with the lock of the runs' records held
 * (runs.h). So of two runs that start at once, the second one sees the first. A live run's file
 * that can't be understood is an error.
 */
struct kh_run_uses {
	char *path; /* NULL: there is no state, and so no run with a workspace */
	int fd;	    /* -1; held by the keeper as well */
	int lock;   /* -1 */
	struct kh_buf text;
};

#define KH_RUN_USES_INIT \
	{ \
		.fd = -1, .lock = -1 \
	}

/* Takes the lock, and makes the record at the first call. */
bool kh_run_uses_lock(struct kh_run_uses *uses, const char *state, struct kh_err *err);
/* The agent writes to this folder: tells the record, and the list of writable.h. `held`: what the
 * path had when it was resolved (kh_file_hold_again), or NULL. */
bool kh_run_uses_folder(struct kh_run_uses *uses, const char *folder, const int *held, bool is_home,
			struct kh_err *err);
/* Does a live run use a name that leads into a folder of the list of writable.h, or through one?
 * The list must have this run's folders only. Return: true: none does; false with `err`: one does,
 * or it can't be told. */
bool kh_run_uses_check(const struct kh_run_uses *uses, const char *state, struct kh_err *err);
/* For kh_writable_renew: notes the folders of live runs in the list of writable.h. */
bool kh_run_uses_note_folders(const struct kh_run_uses *uses, const char *state,
			      struct kh_err *err);
/* The run uses this name; `option` is what names it. A relative one begins in the working folder.
 */
bool kh_run_uses_name(struct kh_run_uses *uses, const char *option, const char *name,
		      struct kh_err *err);
/* Writes the record; only then may anything be used. */
bool kh_run_uses_write(const struct kh_run_uses *uses, struct kh_err *err);
void kh_run_uses_unlock(struct kh_run_uses *uses);
/* After the keeper has ended. */
void kh_run_uses_end(struct kh_run_uses *uses);

#endif
