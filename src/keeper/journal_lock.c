/*
 * journal_lock.c - the lock by which a journal has one writer
 *
 * Whoever may read the journal could lock it: flock() needs only a descriptor, and a read lock
 * blocks every write lock. So the lock that decides is on another file, PATH.lock, which nobody
 * else can open. In a handover two daemons write to two files, so each daemon locks one byte of
 * PATH.lock: the byte at its own file's inode number. If PATH.lock can't be created, flock() of the
 * journal decides. The last daemon to end removes PATH.lock, so whoever gets a lock checks that the
 * file still has its name.
 *
 * Two record locks on the journal itself tell who has it. Others only query them (F_GETLK), and
 * they are write locks, which need write permission. The keeper's lock is for messages, and for
 * daemons that reach the journal by another name. The worker's lock (kh_journal_lend) may outlive
 * the keeper for a moment: until it is gone nobody else gets the journal. flock() is taken as well,
 * if it is free, since earlier versions check nothing else.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/lock_file.h>
#include <keyhole/base/log.h>

#include "keeper_internal.h"

enum { ENDING_MS = 2000, LOOK_MS = 10, OPEN_TRIES = 100 };

/* Somebody who may write it has it. */
static bool is_claimed_at(int fd, off_t byte, struct flock *out)
{
	/* What stands in a read lock's way is a write lock. */
	*out = (struct flock){
		.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1
	};
	return fcntl(fd, F_GETLK, out) == 0 && out->l_type != F_UNLCK;
}

/* Return: who has it, 0: the keeper that had it has ended, and its worker is about to. */
static long keeper_of(int fd)
{
	struct flock lock;
	return is_claimed_at(fd, KH_JOURNAL_KEEPER_BYTE, &lock) ? (long)lock.l_pid : 0;
}

/* Return: 0, or errno. */
static int lock_inode(int lock, ino_t inode)
{
	struct flock own = { .l_type = F_WRLCK,
			     .l_whence = SEEK_SET,
			     .l_start = (off_t)(inode & (INT64_MAX >> 1)),
			     .l_len = 1 };
	if (fcntl(lock, F_OFD_SETLK, &own) == 0)
		return 0;
	return errno == EACCES || errno == EAGAIN ? EWOULDBLOCK : errno;
}

/* Return: 0, or errno. */
static int try_lock(int fd, int lock)
{
	struct flock other;
	struct stat st;
	int why = flock(fd, LOCK_EX | LOCK_NB) != 0 ? errno : 0;
	if (lock >= 0)
		why = fstat(fd, &st) != 0 ? errno : lock_inode(lock, st.st_ino);
	if (why == 0 && (is_claimed_at(fd, KH_JOURNAL_KEEPER_BYTE, &other) ||
			 is_claimed_at(fd, KH_JOURNAL_WRITER_BYTE, &other)))
		why = EWOULDBLOCK;
	return why;
}

/* A daemon that was killed and is started again finds the worker of before for a moment. Return: 0,
 * or errno. */
static int take_lock(int fd, int lock)
{
	uint64_t end = kh_clock_mono_ms() + ENDING_MS;
	for (;;) {
		int why = try_lock(fd, lock);
		if (why != EWOULDBLOCK || keeper_of(fd) != 0 || kh_clock_mono_ms() >= end)
			return why;
		(void)poll(NULL, 0, LOOK_MS);
	}
}

void kh_journal_claim(int journal)
{
	struct flock mine = { .l_type = F_WRLCK,
			      .l_whence = SEEK_SET,
			      .l_start = KH_JOURNAL_KEEPER_BYTE,
			      .l_len = 1 };
	(void)fcntl(journal, F_SETLK, &mine);
}

static bool lock_journal(int fd, int lock, const char *path, struct kh_err *err)
{
	int why = take_lock(fd, lock);
	if (why == 0) {
		kh_journal_claim(fd);
		return true;
	}
	if (why != EWOULDBLOCK)
		return kh_err_sys(err, KH_ERR_SYSTEM, why, "journal %s: can't be locked",
				  kh_esc_str(path));
	char holder[48] = "another process";
	long keeper = keeper_of(fd);
	if (keeper > 0)
		(void)snprintf(holder, sizeof(holder), "process %ld", keeper);
	return kh_err_set(err, KH_ERR_CONFIG,
			  "journal %s: %s writes it already (stop that one, or choose another "
			  "file: audit.file, or "
			  "--audit of `keyhole run`)",
			  kh_esc_str(path), holder);
}

static bool make_folder_of(const char *path, struct kh_err *err)
{
	const char *slash = strrchr(path, '/');
	if (!slash || slash == path)
		return true;
	kh_auto_free char *folder = kh_slice_dup(kh_slice_of(path, (size_t)(slash - path)));
	if (!folder)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	return kh_file_mkdirs(folder, 0700, err);
}

/* Of the journal at `path`. Return: false with `err`: what is there is somebody else's. */
static bool open_lock(const char *path, int *lock, struct kh_err *err)
{
	struct kh_err why = KH_ERR_INIT;
	kh_auto_free char *name = kh_strf("%s.lock", path);
	if (!name)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	*lock = kh_lock_file_open(name, &why);
	if (*lock >= 0)
		return true;
	if (why.code == KH_ERR_CONFIG)
		return kh_err_set(err, KH_ERR_CONFIG, "journal %s: %s", kh_esc_str(path), why.text);
	kh_log_warn("journal: %s, so whoever may read the journal can keep the daemon from "
		    "starting (let this user write to its folder)",
		    why.text);
	return true;
}

static bool has_its_name(int lock, const char *path)
{
	kh_auto_free char *name = kh_strf("%s.lock", path);
	struct stat ours, there;
	return name && fstat(lock, &ours) == 0 && lstat(name, &there) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/* Return: false with `err`, without where the lock's file was taken away meanwhile. */
static bool try_both(int fd, const char *path, const char *name, int *lock, struct kh_err *err)
{
	kh_auto_close int own = -1;
	if (!open_lock(path, &own, err) || !lock_journal(fd, own, name, err))
		return false;
	if (own >= 0 && !has_its_name(own, path))
		return false;
	*lock = kh_steal_fd(&own);
	return true;
}

int kh_journal_lock(const char *path, const char *name, int *lock, struct kh_err *err)
{
	name = name ? name : path;
	if (!make_folder_of(path, err)) {
		kh_err_wrap(err, "journal %s", kh_esc_str(path));
		return -1;
	}
	kh_auto_close int fd = kh_journal_open_file(name, err);
	if (fd < 0)
		return -1;
	if (!kh_file_set_nonblock(fd, false)) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal %s", kh_esc_str(name));
		return -1;
	}
	struct kh_err why = KH_ERR_INIT;
	for (unsigned i = 0; i < OPEN_TRIES && !why.code; i++)
		if (try_both(fd, path, name, lock, &why))
			return kh_steal_fd(&fd);
	if (!why.code)
		kh_err_set(&why, KH_ERR_SYSTEM, "journal %s: its lock's file never stays",
			   kh_esc_str(name));
	if (err)
		*err = why;
	return -1;
}

void kh_journal_unlock(const char *path, int *lock)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	if (*lock < 0)
		return;
	kh_auto_free char *name = path ? kh_strf("%s.lock", path) : NULL;
	if (name && fcntl(*lock, F_OFD_SETLK, &all) == 0 && has_its_name(*lock, path))
		(void)unlink(name);
	(void)close(*lock);
	*lock = -1;
}
