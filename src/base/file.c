/* file.c - reads and replaces small files whole; memfds; flags of descriptors */
#include <keyhole/base/file.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum { READ_STEP_BYTES = 16 * 1024, COPY_BYTES = 16 * 1024 * 1024 };
/* A second in all. */
enum { SEAL_TRIES = 20, SEAL_WAIT_MS = 50 };

/* A pipe whose writer holds it open and says nothing must not hold us up for ever. */
static bool await(int fd, uint64_t deadline_ms)
{
	uint64_t now = kh_clock_mono_ms();
	struct pollfd one = { .fd = fd, .events = POLLIN };
	if (now < deadline_ms && poll(&one, 1, (int)(deadline_ms - now)) != 0)
		return true;
	errno = ETIMEDOUT;
	return false;
}

/* read or pread, through EINTR. */
static ssize_t read_some(int fd, void *out, size_t room, bool seekable, off_t at,
			 uint64_t deadline_ms)
{
	ssize_t n;
	do
		n = seekable ? pread(fd, out, room, at) : read(fd, out, room);
	while (n < 0 && (errno == EINTR || (errno == EAGAIN && await(fd, deadline_ms))));
	return n;
}

static bool read_all(int fd, uint32_t pipe_ms, struct kh_buf *out, struct kh_err *err)
{
	bool seekable = lseek(fd, 0, SEEK_CUR) >= 0;
	uint64_t deadline_ms = kh_clock_mono_ms() + pipe_ms;
	off_t at = 0;
	for (;;) {
		char one = 0;
		size_t room = kh_buf_room(out);
		size_t want = room < READ_STEP_BYTES ? room : READ_STEP_BYTES;
		/* A full buffer asks for one byte more, to tell "just fits" from "too long". */
		char *to = want ? kh_buf_reserve(out, want) : &one;
		if (!to)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory to read it");
		ssize_t n = read_some(fd, to, want ? want : 1, seekable, at, deadline_ms);
		if (n < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "can't be read");
		if (n == 0)
			return true;
		if (!want)
			return kh_err_sys(err, KH_ERR_SYSTEM, EFBIG, "contains more than %zu bytes",
					  out->cap);
		kh_buf_commit(out, (size_t)n);
		at += n;
	}
}

static bool read_whole(int fd, uint32_t pipe_ms, struct kh_buf *out, struct kh_err *err)
{
	size_t before = kh_buf_len(out);
	if (read_all(fd, pipe_ms, out, err))
		return true;
	kh_buf_truncate(out, before);
	return false;
}

bool kh_file_read_fd(int fd, struct kh_buf *out, struct kh_err *err)
{
	return read_whole(fd, KH_LIMIT_PIPE_READ_MS, out, err);
}

/* Not blocking, so that a FIFO without a writer doesn't hold us up; one with a writer (a shell's
 * process substitution) is read to its end, which has to come in time. */
enum { TO_READ = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK };

static bool read_opened(int fd, const char *path, uint32_t pipe_ms, struct kh_buf *out,
			struct kh_err *err)
{
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
	struct stat st;
	if (fstat(fd, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
	if (S_ISDIR(st.st_mode))
		return kh_err_sys(err, KH_ERR_SYSTEM, EISDIR, "%s", kh_esc_str(path));
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		return kh_err_sys(err, KH_ERR_SYSTEM, EINVAL, "%s: not a regular file",
				  kh_esc_str(path));
	return read_whole(fd, pipe_ms, out, err) || kh_err_wrap(err, "%s", kh_esc_str(path));
}

bool kh_file_read(const char *path, struct kh_buf *out, struct kh_err *err)
{
	kh_auto_close int fd = open(path, TO_READ);
	return read_opened(fd, path, KH_LIMIT_PIPE_READ_MS, out, err);
}

bool kh_file_read_within(const char *path, uint32_t pipe_ms, struct kh_buf *out, struct kh_err *err)
{
	kh_auto_close int fd = kh_file_open_followed(path, TO_READ);
	return read_opened(fd, path, pipe_ms, out, err);
}

/* May this be believed, where `also` is one more user whose files are? */
static bool judge_private(const struct stat *st, uid_t also, struct kh_err *err)
{
	if (!S_ISREG(st->st_mode))
		return kh_err_sys(err, KH_ERR_SYSTEM, EINVAL, "not a regular file");
	if (st->st_uid != 0 && st->st_uid != geteuid() && st->st_uid != also)
		return kh_err_sys(err, KH_ERR_SYSTEM, EPERM,
				  "it belongs to user %ld, so it is not believed (give it to the "
				  "user that keyhole runs as, or remove it)",
				  (long)st->st_uid);
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return kh_err_sys(err, KH_ERR_SYSTEM, EPERM,
				  "others may write to it (mode %04o), so it is not believed "
				  "(chmod go-w, or remove it)",
				  (unsigned)st->st_mode & 07777);
	return true;
}

static int open_private(const char *path, struct stat *st, struct kh_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 && errno == ELOOP)
		kh_err_sys(err, KH_ERR_SYSTEM, ELOOP,
			   "%s: it is a link, which is not followed (remove it)", kh_esc_str(path));
	else if (fd < 0 || fstat(fd, st) != 0)
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
	else
		return fd;
	if (fd >= 0)
		(void)close(fd);
	return -1;
}

bool kh_file_read_private(const char *path, struct kh_buf *out, struct kh_err *err)
{
	struct stat st;
	kh_auto_close int fd = open_private(path, &st, err);
	if (fd < 0)
		return false;
	if (!judge_private(&st, geteuid(), err))
		return kh_err_wrap(err, "%s", kh_esc_str(path));
	/* No name: it was replaced just now, by one of ours. */
	if (st.st_nlink > 1)
		return kh_err_sys(err, KH_ERR_SYSTEM, EPERM,
				  "%s: it has another name as well, so it is not believed (remove "
				  "it)",
				  kh_esc_str(path));
	return read_whole(fd, 0, out, err) || kh_err_wrap(err, "%s", kh_esc_str(path));
}

bool kh_file_read_beside(const char *path, const char *of, struct kh_buf *out, struct kh_err *err)
{
	struct stat st, owner;
	kh_auto_close int fd = open_private(path, &st, err);
	if (fd < 0)
		return false;
	if (!judge_private(&st, stat(of, &owner) == 0 ? owner.st_uid : geteuid(), err))
		return kh_err_wrap(err, "%s", kh_esc_str(path));
	return read_whole(fd, 0, out, err) || kh_err_wrap(err, "%s", kh_esc_str(path));
}

bool kh_file_write_all(int fd, struct kh_slice content, struct kh_err *err)
{
	while (content.len) {
		ssize_t n = write(fd, content.ptr, content.len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, n < 0 ? errno : EIO,
					  "can't be written");
		content = kh_slice_sub(content, (size_t)n, content.len);
	}
	return true;
}

/* Makes the rename itself last. Some file systems can't sync a folder: then nothing is lost by it.
 */
static bool sync_folder_of(const char *path, struct kh_err *err)
{
	kh_auto_free char *folder = kh_path_folder(path);
	if (!folder)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a path");
	kh_auto_close int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s: its folder can't be synced",
				  kh_esc_str(path));
	return true;
}

static bool fill(int fd, struct kh_slice content, mode_t mode, struct kh_err *err)
{
	if (!kh_file_write_all(fd, content, err))
		return false;
	if (fchmod(fd, mode) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "mode %04o can't be set",
				  (unsigned)mode);
	if (fsync(fd) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "can't be synced");
	return true;
}

bool kh_file_write(const char *path, struct kh_slice content, mode_t mode, struct kh_err *err)
{
	kh_auto_free char *beside = kh_strf("%s.XXXXXX", path);
	if (!beside)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a path");
	/* 0600 until it is whole: a key is nobody else's for no moment. */
	kh_auto_close int fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno,
				  "%s: a new file can't be made beside it", kh_esc_str(path));
	if (!fill(fd, content, mode, err)) {
		(void)unlink(beside);
		return kh_err_wrap(err, "%s", kh_esc_str(path));
	}
	if (rename(beside, path) != 0) {
		int why = errno;
		(void)unlink(beside);
		return kh_err_sys(err, KH_ERR_SYSTEM, why, "%s: can't be replaced",
				  kh_esc_str(path));
	}
	return sync_folder_of(path, err);
}

static int make_memfd(const char *name, struct kh_err *err)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	if (fd < 0)
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s: memfd_create", kh_esc_str(name));
	return fd;
}

/* Somebody may hold a page of it for a moment (a read that has not ended, migration). */
static bool add_seals(int fd)
{
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

	for (int left = SEAL_TRIES; fcntl(fd, F_ADD_SEALS, seals) != 0; left--) {
		if (errno != EBUSY || left <= 1)
			return false;
		(void)poll(NULL, 0, SEAL_WAIT_MS);
	}
	return true;
}

static bool seal(int fd, const char *name, struct kh_err *err)
{
	if (lseek(fd, 0, SEEK_SET) == 0 && add_seals(fd))
		return true;
	return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s: can't be sealed", kh_esc_str(name));
}

int kh_file_sealed(const char *name, struct kh_slice content, struct kh_err *err)
{
	kh_auto_close int fd = make_memfd(name, err);
	if (fd < 0)
		return -1;
	if (!kh_file_write_all(fd, content, err)) {
		kh_err_wrap(err, "%s", kh_esc_str(name));
		return -1;
	}
	return seal(fd, name, err) ? kh_steal_fd(&fd) : -1;
}

/* All that is there now, and no more than `most`. */
static bool copy_all(int from, int to, uint64_t most, struct kh_err *err)
{
	uint64_t done = 0;
	for (;;) {
		ssize_t n = sendfile(to, from, NULL, COPY_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "can't be copied");
		if (n == 0)
			return true;
		done += (uint64_t)n;
		if (done > most)
			return kh_err_set(err, KH_ERR_CONFIG, "it is larger than %llu bytes",
					  (unsigned long long)most);
	}
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int kh_file_sealed_copy(const char *path, uint64_t most, struct stat *was, struct kh_err *err)
{
	kh_auto_close int from = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat after;
	if (from < 0 || fstat(from, was) != 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
		return -1;
	}
	if (!S_ISREG(was->st_mode)) {
		kh_err_set(err, KH_ERR_SYSTEM, "%s: not a regular file", kh_esc_str(path));
		return -1;
	}
	kh_auto_close int fd = make_memfd("keyhole-copy", err);
	if (fd < 0)
		return -1;
	if (!copy_all(from, fd, most, err)) {
		kh_err_wrap(err, "%s", kh_esc_str(path));
		return -1;
	}
	/* Half of one and half of another would be neither. */
	if (fstat(from, &after) != 0 || !same_file(was, &after)) {
		kh_err_set(err, KH_ERR_SYSTEM, "%s: it was written while it was read",
			   kh_esc_str(path));
		return -1;
	}
	return seal(fd, path, err) ? kh_steal_fd(&fd) : -1;
}

static _Thread_local int lent = -1;

int kh_file_lend(int fd)
{
	int before = lent;
	lent = fd;
	return before;
}

int kh_file_lent(void)
{
	return lent;
}

static bool set_flag(int fd, int get, int set, int flag, bool on)
{
	int flags = fcntl(fd, get);
	if (flags < 0)
		return false;
	int want = on ? flags | flag : flags & ~flag;
	return want == flags || fcntl(fd, set, want) == 0;
}

bool kh_file_set_cloexec(int fd, bool on)
{
	return set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

bool kh_file_set_nonblock(int fd, bool on)
{
	return set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

char *kh_path_join(const char *folder, const char *path)
{
	if (path[0] == '/' || !folder || !folder[0])
		return kh_strf("%s", path);
	size_t len = strlen(folder);
	return kh_strf("%s%s%s", folder, folder[len - 1] == '/' ? "" : "/", path);
}

char *kh_path_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	return !slash	      ? strdup(".")
	       : slash > path ? kh_slice_dup(kh_slice_of(path, (size_t)(slash - path)))
			      : strdup("/");
}

char *kh_strf(const char *fmt, ...)
{
	char *out = NULL;
	va_list args;
	va_start(args, fmt);
	int n = vasprintf(&out, fmt, args);
	va_end(args);
	return n < 0 ? NULL : out;
}

char *kh_file_state_home(struct kh_err *err)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	bool named = state && state[0] == '/';
	const struct passwd *user = home && home[0] == '/' ? NULL : getpwuid(geteuid());
	if (user)
		home = user->pw_dir;
	if (!named && (!home || home[0] != '/')) {
		kh_err_set(err, KH_ERR_USAGE,
			   "there is no folder for what keyhole keeps: user %ld has no home (set "
			   "HOME, or XDG_STATE_HOME)",
			   (long)geteuid());
		return NULL;
	}
	char *out = named ? strdup(state) : kh_strf("%s/.local/state", home);
	if (!out)
		kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a path");
	return out;
}

/* Where ".digits" begins that ends at `end`; `end` where there are fewer than `least`. */
static size_t before_number(struct kh_slice name, size_t end, size_t least)
{
	size_t at = end;

	while (at > 0 && kh_is_digit(name.ptr[at - 1]))
		at--;
	return end - at >= least && at > 0 && name.ptr[at - 1] == '.' ? at - 1 : end;
}

size_t kh_file_stem_len(struct kh_slice name)
{
	enum { DIGITS_LEAST = 12 };
	size_t last = before_number(name, name.len, 1);
	size_t stem = before_number(name, last, DIGITS_LEAST);

	return stem < last ? stem : before_number(name, name.len, DIGITS_LEAST);
}
