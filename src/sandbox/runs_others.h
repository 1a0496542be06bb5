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
	char *workspace; /* that it may write to; "": none */
	int launcher;	 /* its process; 0: not known */
	bool live;
	bool sees_unknown; /* it lives, and its record does not say what it sees */
	struct kh_seen_place *places;
	size_t n_places;
	size_t group; /* the same number: joined, directly or through others */
};

struct kh_other_runs {
	struct kh_other_run *list;
	size_t n;
};

/* All runs but `but` (NULL: all), grouped. Asked under the lock. Return: false also where one
 * record can't be read. */
bool kh_other_runs_find(const char *state, const char *but, struct kh_other_runs *out,
			struct kh_err *err);
void kh_other_runs_fini(struct kh_other_runs *others);
/* A live run for whose end the survey of this one waits, and how many there are. Return: NULL. */
const struct kh_other_run *kh_other_runs_awaited(const struct kh_other_runs *others,
						 const struct kh_other_run *run, size_t *n);
/* Has a live run this workspace, or one in it or around it? */
bool kh_other_runs_share(const struct kh_other_runs *others, const char *workspace);

/* One file of a record. What can't be read is not taken for what is absent. */
enum kh_note { KH_NOTE_FAILED = 0, KH_NOTE_ABSENT, KH_NOTE_READ };
enum kh_note kh_run_note(const char *folder, const char *name, size_t most, struct kh_buf *out,
			 struct kh_err *err);
/* When a process started. Return: false: it can't be told; *start is 0 where it has ended. */
bool kh_run_process_start(int pid, unsigned long long *start, struct kh_err *err);

enum { KH_RUN_SEES_BYTES = 4 * 1024 * 1024 };
/* Appends a folder or file of the host that a run sees, with all that is mounted in it. */
bool kh_run_sees(struct kh_buf *sees, const char *path, bool writable, struct kh_err *err);

#endif
