/* runs_others.h - reads the records of other runs (runs.h explains the files) */
#ifndef KEYHOLE_SANDBOX_RUNS_OTHERS_H
#define KEYHOLE_SANDBOX_RUNS_OTHERS_H

#include <stdbool.h>
#include <stddef.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

struct kh_seen_place;

struct kh_other_run {
	char *path, *id;
	char *workspace;	     /* its writable workspace; "": none */
	unsigned long long dev, ino; /* which folder that was at its beginning; 0 and 0: unknown */
	int launcher;		     /* its pid; 0: unknown */
	bool live;
	bool sees_unknown; /* it is live, and its record does not tell what it sees */
	struct kh_seen_place *places;
	size_t n_places;
	size_t group; /* runs with the same number are joined, directly or through others */
};

struct kh_other_runs {
	struct kh_other_run *list;
	size_t n;
};

/* Finds all runs except `but` (NULL: all), and groups them. Call it with the lock held. Return:
 * false with `err`, also if one record can't be read. */
bool kh_other_runs_find(const char *state, const char *but, struct kh_other_runs *out,
			struct kh_err *err);
void kh_other_runs_fini(struct kh_other_runs *others);
/* A live run that the survey of this run has to wait for; *n: how many there are. Return: NULL:
 * none. */
const struct kh_other_run *kh_other_runs_awaited(const struct kh_other_runs *others,
						 const struct kh_other_run *run, size_t *n);
/* Does a live run have the workspace of `run`, or one inside or around it? By the path, and by
 * device and inode: another mount namespace has other paths. */
bool kh_other_runs_share(const struct kh_other_runs *others, const struct kh_other_run *run);
/* The note `place`. Return: false with `err`: absent, or not to be read. */
bool kh_run_place(const char *folder, unsigned long long *dev, unsigned long long *ino,
		  struct kh_err *err);

/* The result of reading one file of a record; unreadable is not the same as absent. */
enum kh_note { KH_NOTE_FAILED = 0, KH_NOTE_ABSENT, KH_NOTE_READ };
enum kh_note kh_run_note(const char *folder, const char *name, size_t most, struct kh_buf *out,
			 struct kh_err *err);
/* Gets when a process started; *start is 0 if it has ended. Return: false with `err`: unknown. */
bool kh_run_process_start(int pid, unsigned long long *start, struct kh_err *err);

enum { KH_RUN_SEES_BYTES = 4 * 1024 * 1024 };
/* Appends a folder or file of the host that a run sees, with everything that is mounted in it.
 * `fd`: it is held (kh_file_hold), and nothing goes by its path; -1. */
bool kh_run_sees(struct kh_buf *sees, const char *path, int fd, bool writable, struct kh_err *err);

#endif
