/* file.h - small files, memfds and descriptors */
#ifndef KEYHOLE_BASE_FILE_H
#define KEYHOLE_BASE_FILE_H

#include <sys/stat.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/* Appends all of a regular file, or of a named pipe, to `out`. The end of a pipe must come within
 * KH_LIMIT_PIPE_READ_MS. Return: false with `err` and `out` unchanged: it can't be read, or is
 * longer than the buffer's room (EFBIG). */
bool kh_file_read(const char *path, struct kh_buf *out, struct kh_err *err);
/* The same for a file whose folder may be another user's, opened by kh_file_open_followed; the end
 * of a pipe must come within `pipe_ms` (else ETIMEDOUT). */
bool kh_file_read_within(const char *path, uint32_t pipe_ms, struct kh_buf *out,
			 struct kh_err *err);
/*
 * The same for keyhole's own state files. Others may be able to make files in their folder. So this
 * follows no link (ELOOP), reads no pipe, and refuses (EPERM) a file that belongs to anybody but
 * root and this user, that its group or others may write to, or that has a second hard link.
 */
bool kh_file_read_private(const char *path, struct kh_buf *out, struct kh_err *err);
/* The same for a file beside the file `of`: the owner of `of` is trusted too, who need not be this
 * user. The file may have a second hard link, which it has for a moment while it is made. */
bool kh_file_read_beside(const char *path, const char *of, struct kh_buf *out, struct kh_err *err);
/* As kh_file_read, from a descriptor, which the caller keeps: from its start if it can seek. */
bool kh_file_read_fd(int fd, struct kh_buf *out, struct kh_err *err);
/* Writes a new file beside `path`, syncs it and renames it over `path`, with `mode`: a reader sees
 * the old or the new file whole. Return: false with `err`. */
bool kh_file_write(const char *path, struct kh_slice content, mode_t mode, struct kh_err *err);
/* Writes all bytes, across EINTR and short writes. */
bool kh_file_write_all(int fd, struct kh_slice content, struct kh_err *err);
/* A new memfd with this content, sealed against every change, at offset 0, close-on-exec; the
 * caller's. Return: -1 with `err`. */
int kh_file_sealed(const char *name, struct kh_slice content, struct kh_err *err);
/* The same with the content of a regular file of at most `most` bytes. *was: that file's stat, also
 * for telling later whether it is still the same one. A file that is written to meanwhile is
 * refused. */
int kh_file_sealed_copy(const char *path, uint64_t most, struct stat *was, struct kh_err *err);
/*
 * For a library that opens a file by name, in a locked-in process (lockin/lockin_open.c): while a
 * descriptor is lent, open(2) on this thread returns a duplicate of it, whatever the name is. In
 * other processes it has no effect. -1: no descriptor is lent any more. The caller keeps `fd`.
 * Return: the descriptor that was lent before, or -1.
 */
int kh_file_lend(int fd);
int kh_file_lent(void);
/*
 * folder.c. Makes the folder and its missing parents (parents with mode 0755, the last with
 * `mode`); folders that exist stay as they are. A folder that somebody else put in the place of a
 * new one is refused.
 */
bool kh_file_mkdirs(const char *path, mode_t mode, struct kh_err *err);
/* Makes one folder, which must not exist and which its owner may read. Return: a descriptor of it;
 * -1 with errno (EPERM: another user's folder is there instead). */
int kh_file_mkdirat(int at, const char *name, mode_t mode);
/* For a caller that is about to give a folder, which we have just made with mode 0700, to another
 * owner: is it ours, with that mode, and empty? Another folder of ours that somebody put in its
 * place would be given away with everything in it. Return: false with errno. */
bool kh_file_is_fresh(int fd);
/* Has the folder no entry? False with errno if it can't be read. */
bool kh_file_is_empty_folder(int fd);
/* May others than root and `user` ((uid_t)-1: the folder's owner) remove or rename files of this
 * folder? False for a folder that does not exist. */
bool kh_file_others_may_rename(const char *folder, uid_t user);
/*
 * openat2(2) with `resolve`, RESOLVE_*, and O_CLOEXEC. "" is `dir` itself. While a path with ".."
 * is walked, the kernel answers EAGAIN to RESOLVE_BENEATH and RESOLVE_IN_ROOT if anything on the
 * host is renamed or mounted. Then the path is tried again, KH_LIMIT_RESOLVE_TRIES times at most.
 * Return: a descriptor, the caller's; -1 with errno.
 */
int kh_file_resolve(int dir, const char *path, int flags, uint64_t resolve);
/* Opens what is below `dir`, through no symbolic link. Slashes at the beginning of `path` count
 * for nothing. Return: as above. */
int kh_file_open_below(int dir, const char *path, int flags);
/* followed.c. Opens a file with these flags. A symbolic link in its path is followed only if it
 * belongs to root or to this user, or leads to a file of its owner that is in the link's folder or
 * below. Return: as above (ELOOP: there is another user's link). */
int kh_file_open_followed(const char *path, int flags);
/*
 * A path that was resolved once is never resolved again: whoever may write to a folder above can
 * put a symbolic link in the place of any part of it. Opens with O_PATH what has this path, and
 * goes through no link. Return: a descriptor, the caller's; -1 with errno (ELOOP: there is a link).
 */
int kh_file_hold(const char *path);
/* The same for what was held before: it has to be the same file or folder (device and inode) as
 * *held. `held` NULL: any. Return: -1 with `err`, which says what is in its place, and errno
 * (ESTALE: another one). */
int kh_file_hold_again(const char *path, const int *held, struct kh_err *err);
/* The path, without links, that what is held has now; on the heap. Return: NULL with errno. */
char *kh_file_held_path(int held);
/* Sets the mode of an open file, which may be O_PATH and is no link. Return: false with errno. */
bool kh_file_set_mode(int fd, mode_t mode);
bool kh_file_set_cloexec(int fd, bool on);
bool kh_file_set_nonblock(int fd, bool on);
/* The user's state folder: $XDG_STATE_HOME or ~/.local/state; on the heap. Return: NULL with `err`,
 * also if the user has no home: a folder that others could make is never used instead. */
char *kh_file_state_home(struct kh_err *err);
/* `folder` "/" `path`, or `path` alone if it is absolute. On the heap; NULL without memory. */
char *kh_path_join(const char *folder, const char *path);
/* The folder that `path` is in: "." if it names none, "/" of a path in the root. On the heap; NULL
 * without memory. */
char *kh_path_folder(const char *path);
/* A formatted text on the heap. Return: NULL without memory. */
char *kh_strf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The length of a journal's name without what a segment adds to it: ".N", of 12 or more digits, or
 * ".N.M". name.len if it has neither. */
size_t kh_file_stem_len(struct kh_slice name);

#endif
