/* file.h - small files, memfds and descriptors */
#ifndef KEYHOLE_BASE_FILE_H
#define KEYHOLE_BASE_FILE_H

#include <sys/stat.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/* Reads all of a regular file or descriptor (from its start, by pread, where it can seek). Return:
 * false when it can't be read or holds more than the buffer's cap. A named pipe is read to its end,
 * which has to come within KH_LIMIT_PIPE_READ_MS. */
bool kh_file_read(const char *path, struct kh_buf *out, struct kh_err *err);
/* The pipe's end has to come within `pipe_ms`; else: ETIMEDOUT. */
bool kh_file_read_within(const char *path, uint32_t pipe_ms, struct kh_buf *out,
			 struct kh_err *err);
/*
 * What keyhole keeps for itself. It may lie where others can make files, so these follow no link
 * (ELOOP), wait for no pipe, and refuse (EPERM) a file that belongs to anybody but root and this
 * user, that a group or others may write to, or that has a second name.
 */
bool kh_file_read_private(const char *path, struct kh_buf *out, struct kh_err *err);
/* The same of a file that stands beside `of`: that one's owner is believed too, who need not be the
 * user of this process, and it may have a second name for a moment, while it is made. */
bool kh_file_read_beside(const char *path, const char *of, struct kh_buf *out, struct kh_err *err);
bool kh_file_read_fd(int fd, struct kh_buf *out, struct kh_err *err);
/* Writes a new file beside and renames it over `path`: whole or not at all, with `mode`, synced. */
bool kh_file_write(const char *path, struct kh_slice content, mode_t mode, struct kh_err *err);
/* Every byte, through EINTR and short writes. */
bool kh_file_write_all(int fd, struct kh_slice content, struct kh_err *err);
/* A memfd with this content, sealed against every change, at offset 0, close-on-exec. Return: -1.
 */
int kh_file_sealed(const char *name, struct kh_slice content, struct kh_err *err);
/* The same with what a regular file of at most `most` bytes holds; *was: which file that is. One
 * that is written to meanwhile is refused. */
int kh_file_sealed_copy(const char *path, uint64_t most, struct stat *was, struct kh_err *err);
/*
 * A library that takes a file by its name, in a process that may open nothing
 * (lockin/lockin_open.c): until it is taken back (-1), open(2) of this thread gives a duplicate of
 * this descriptor, whatever name it is asked for. Elsewhere nothing comes of it. Return: what was
 * lent before.
 */
int kh_file_lend(int fd);
int kh_file_lent(void);
/*
 * folder.c. Makes the folder and its parents (those with 0755, the last with `mode`); those that
 * are there stay as they are. What is made is never anything that somebody put in its place.
 */
bool kh_file_mkdirs(const char *path, mode_t mode, struct kh_err *err);
/* One folder, which must not be there, and which its owner may read. Return: it, open; -1 with
 * errno (EPERM: somebody's is in its place already). */
int kh_file_mkdirat(int at, const char *name, mode_t mode);
/* Others than root and this user ((uid_t)-1: whoever owns it) may take names away that stand in
 * this folder. One that is not there is nobody's. */
bool kh_file_others_may_rename(const char *folder, uid_t user);
/* Of what this descriptor has open, which may be O_PATH; no link. Return: false with errno. */
bool kh_file_set_mode(int fd, mode_t mode);
bool kh_file_set_cloexec(int fd, bool on);
bool kh_file_set_nonblock(int fd, bool on);
/* Where what this user's programs keep lies: $XDG_STATE_HOME or ~/.local/state. Heap. Return: NULL
 * also where nothing says which folder is the user's: none that somebody else could make is taken
 * instead. */
char *kh_file_state_home(struct kh_err *err);
/* "a/b" joined to a folder unless absolute. Heap. */
char *kh_path_join(const char *folder, const char *path);
/* Heap, formatted. Return: NULL without memory. */
char *kh_strf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Bytes of a name before ".N", 12 or more digits, or ".N.M": what a segment of a journal has after
 * the journal's name. All of it where it has none. */
size_t kh_file_stem_len(struct kh_slice name);

#endif
