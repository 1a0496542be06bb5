/*
 * review_place.c - identifies the folder that a review belongs to
 *
 * A path is not enough: whoever may write to a folder above can put another folder, or a link, in
 * its place, and `apply` writes there as its caller. So a review notes the device, the number and
 * the birth of the folder that it began in. A command opens the folder once, through no link,
 * compares, and from then on works with what it holds. After a restart of the host the device may
 * have another number; then the birth decides. An overlay file system gives a folder another birth
 * when something is written to it for the first time; then the device decides.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "review_internal.h"

static int open_place(const char *path)
{
	return kh_file_resolve(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
}

static bool look(int fd, struct kh_review_place *place)
{
	struct stat st;
	struct statx more;
	if (fstat(fd, &st) != 0 ||
	    statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &more) != 0)
		return false;
	*place = (struct kh_review_place){ .dev = st.st_dev, .ino = st.st_ino };
	if (more.stx_mask & STATX_BTIME) {
		place->born_s = more.stx_btime.tv_sec;
		place->born_ns = more.stx_btime.tv_nsec;
	}
	return true;
}

static bool is_same(const struct kh_review_place *noted, const struct kh_review_place *now)
{
	bool born = (noted->born_s || noted->born_ns) && noted->born_s == now->born_s &&
		    noted->born_ns == now->born_ns;
	return noted->ino == now->ino && (born || noted->dev == now->dev);
}

static bool cannot_open(const char *path, struct kh_err *err)
{
	if (errno == ELOOP)
		return kh_err_set(
			err, KH_ERR_USAGE,
			"%s: somebody put a symbolic link on the way to it, which keyhole "
			"does not follow",
			kh_esc_str(path));
	return kh_err_sys(err, KH_ERR_USAGE, errno, "%s", kh_esc_str(path));
}

bool kh_review_place_take(struct kh_review *review, struct stat *st, struct kh_err *err)
{
	review->top = open_place(review->workspace);
	if (review->top < 0)
		return cannot_open(review->workspace, err);
	return (fstat(review->top, st) == 0 && look(review->top, &review->place)) ||
	       kh_err_sys(err, KH_ERR_USAGE, errno, "%s", kh_esc_str(review->workspace));
}

static int open_same(const struct kh_review *review, struct kh_err *err)
{
	struct kh_review_place now;
	if (!review->place.ino) {
		kh_err_set(err, KH_ERR_USAGE,
			   "the review %s is of an older keyhole, which did not note which folder "
			   "it is of: its files are in %s (`keyhole workspace discard --review %s` "
			   "removes it)",
			   review->id, kh_esc_str(review->folder), review->id);
		return -1;
	}
	kh_auto_close int fd = open_place(review->workspace);
	if (fd < 0) {
		cannot_open(review->workspace, err);
		return -1;
	}
	if (look(fd, &now) && is_same(&review->place, &now))
		return kh_steal_fd(&fd);
	kh_err_set(err, KH_ERR_USAGE,
		   "%s is not the folder any more that the review %s is of: somebody put another "
		   "one in its place (move the folder back; what the agent did is in %s)",
		   kh_esc_str(review->workspace), review->id, kh_esc_str(review->folder));
	return -1;
}

bool kh_review_hold(struct kh_review *review, struct kh_err *err)
{
	if (review->workspace && review->top < 0)
		review->top = open_same(review, err);
	return review->top >= 0;
}

int kh_review_workspace(const struct kh_review *review, struct kh_err *err)
{
	if (!review->workspace) {
		kh_err_set(err, KH_ERR_USAGE,
			   "the review %s was never finished (`keyhole workspace discard --review "
			   "%s` removes it)",
			   review->id, review->id);
		return -1;
	}
	if (review->top < 0)
		return open_same(review, err);
	int fd = fcntl(review->top, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(review->workspace));
	return fd;
}
