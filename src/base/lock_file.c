/* lock_file.c - files that exist to be locked */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/lock_file.h>

static bool is_private(const struct stat *st)
{
	return S_ISREG(st->st_mode) && (st->st_uid == geteuid() || st->st_uid == 0) &&
	       (st->st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

int kh_lock_file_open(const char *path, struct kh_err *err)
{
	/* Not blocking: a FIFO of that name must not hold anything up. */
	kh_auto_close int fd =
		open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
	bool is_link = fd < 0 && errno == ELOOP;
	struct stat st;

	if (!is_link && (fd < 0 || fstat(fd, &st) != 0)) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
		return -1;
	}
	if (!is_link && is_private(&st))
		return kh_steal_fd(&fd);
	kh_err_set(err, KH_ERR_CONFIG,
		   "%s is not a private file of this user, so others could hold its lock "
		   "(remove it)",
		   kh_esc_str(path));
	return -1;
}
