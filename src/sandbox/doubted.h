/* doubted.h - protected names under which the agent may have put something while a sandbox ran */
#ifndef KEYHOLE_SANDBOX_DOUBTED_H
#define KEYHOLE_SANDBOX_DOUBTED_H

#include <stdbool.h>
#include <stdint.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

struct kh_aside;

/*
 * Where somebody on the host removes a protected file, the mount over it is gone. Until the
 * launcher has put something in its place, the agent can take the name. What has the name
 * afterwards may be the host's (an editor, `git checkout`) or the agent's, and nothing tells which:
 * both are the same user. It is the same where the host puts another file in its place, since the
 * agent can write to it before it is protected, where the launcher was stopped, or could not
 * protect a name again. So the survey after the run does not take it for what was there before.
 */

/* Which file that is: inode numbers are given anew, so when it was made counts too (0: the file
 * system doesn't tell). */
struct kh_doubted_id {
	uint64_t dev, ino;
	int64_t made_s;
	uint32_t made_ns;
};
/* Of what has the path, also a link. Return: false: nothing. */
bool kh_doubted_identify(const char *path, struct kh_doubted_id *id);
bool kh_doubted_is_same(const struct kh_doubted_id *a, const struct kh_doubted_id *b);
bool kh_doubted_is(const char *path, const struct kh_doubted_id *id);
/* `record` below is the folder of a run's record. NULL: there is none, since the run may not write
 * to the workspace, and there is nothing to note. */

/* SHA-256 of the content and mode of a small regular file that has one name, in hexadecimal.
 * Return: false, and "": it is none, or can't be read. */
enum { KH_DOUBTED_DIGEST_ROOM = 64 + 1 };
bool kh_doubted_digest(const char *path, char out[KH_DOUBTED_DIGEST_ROOM]);

/* An entry of the note "guarded": what is protected under the name, and the digest of the content
 * before the run ("": unknown). It is there as long as the launcher guards. After an end in order,
 * those of doubted names are left with `ino` 0, and only their digests count. */
bool kh_doubted_guarded(struct kh_buf *note, const char *path, const struct kh_doubted_id *id,
			const char *digest);
struct kh_doubted_entry {
	const char *path; /* in the note */
	struct kh_doubted_id id;
	char digest[KH_DOUBTED_DIGEST_ROOM];
	size_t order;
};
/* The entries of the note "guarded", sorted by path. Of several of one path the last counts, and
 * what is damaged is none. Return: on the heap, *n of them; NULL without memory. */
struct kh_doubted_entry *kh_doubted_read(struct kh_slice note, size_t *n);
/* Appends to `list` what is doubted, by the note of that name and, if the launcher came to a sudden
 * end, by what has been replaced since the note "guarded". A file with the content of before the
 * run is the user's, whoever put it there. */
bool kh_doubted_list(struct kh_slice guarded, struct kh_slice doubted, struct kh_buf *list);
/* Writes the entries in place of those of before, or adds them; empty: removes the note. */
bool kh_doubted_guard(const char *record, struct kh_slice entries, bool adds, struct kh_err *err);

/* Adds to the note "doubted" of a run's record. `is_around`: not the folder itself is doubted, but
 * what is protected in it. Return: false with `err`. */
bool kh_doubted_note(const char *record, const char *path, bool is_around, struct kh_err *err);
/* Is `path` in the list that was noted, or below one of it? */
bool kh_doubted_has(struct kh_slice list, const char *path);
/* How many there are. */
size_t kh_doubted_count(struct kh_slice list);
/* As kh_doubted_has, and sets the mark of the one that is this path. */
bool kh_doubted_mark(struct kh_slice list, const char *path, bool *marks);
/* Sets aside what has no mark and is doubted itself: nothing but a path that something names tells
 * that it is read. */
void kh_doubted_take(struct kh_slice list, const bool *marks, const char *root,
		     struct kh_aside *aside);
/* An empty file or folder says nothing, and may be the launcher's. */
bool kh_doubted_is_empty(int folder, const char *name);
extern const char kh_doubted_why[];

#endif
