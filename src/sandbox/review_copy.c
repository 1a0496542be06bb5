/*
 * review_copy.c - records the state of a workspace when an agent begins, and copies it if needed
 *
 * A copy shares the blocks of the original if the file system supports that. Holes stay holes: an
 * agent makes one of terabytes as quickly as none. Files that keyhole's
 * user can't read are left out, and later do not count as deleted. Sockets, named pipes and devices
 * are not copied.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <linux/fs.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "review_internal.h"

enum { STEP_BYTES = 4 * 1024 * 1024 };

static size_t step(off_t at, off_t end)
{
	return end - at < STEP_BYTES ? (size_t)(end - at) : STEP_BYTES;
}

/* Less if the file has become shorter meanwhile. */
static bool copy_part(int from, int to, off_t at, off_t end)
{
	off_t in = at, out = at;
	ssize_t n = 1;
	while (in < end && ((n = copy_file_range(from, &in, to, &out, step(in, end), 0)) > 0 ||
			    (n < 0 && errno == EINTR)))
		;
	if (in >= end || n == 0)
		return true;
	/* Between file systems, and where it is not known: from where it stopped. */
	if (lseek(to, in, SEEK_SET) < 0)
		return false;
	while (in < end &&
	       ((n = sendfile(to, from, &in, step(in, end))) > 0 || (n < 0 && errno == EINTR)))
		;
	return in >= end || n == 0;
}

off_t kh_copy_next_data(int fd, off_t at, off_t end)
{
	off_t data = lseek(fd, at, SEEK_DATA);
	if (data >= 0)
		return data < end ? data : end;
	return errno == ENXIO ? end : at;
}

bool kh_copy_content(int from, int to)
{
	struct stat st, now;
	if (ioctl(to, FICLONE, from) == 0)
		return true;
	if (fstat(from, &st) != 0)
		return false;
	for (off_t at = 0; at < st.st_size;) {
		off_t data = kh_copy_next_data(from, at, st.st_size);
		off_t hole = data < st.st_size ? lseek(from, data, SEEK_HOLE) : st.st_size;
		off_t end = hole > data && hole < st.st_size ? hole : st.st_size;
		if (data < end && !copy_part(from, to, data, end))
			return false;
		at = end;
	}
	if (fstat(from, &now) != 0)
		return false;
	return ftruncate(to, now.st_size < st.st_size ? now.st_size : st.st_size) == 0;
}

struct taking {
	int workspace, tree;
	struct kh_base_writer *base;
	const struct kh_review_owner *owner;
	uint64_t left_out;
	bool failed;
	struct kh_err *err;
};

static enum kh_walk_order fail(struct taking *t, const char *path)
{
	t->failed = true;
	kh_err_sys(t->err, KH_ERR_SYSTEM, errno, "copying %s", kh_esc_str(path));
	return KH_WALK_STOP;
}

static bool give(const struct taking *t, int parent, const char *name, const struct stat *st)
{
	struct kh_review_ids ids = kh_review_owner_there(t->owner, st);
	return !ids.set || fchownat(parent, name, ids.uid, ids.gid, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool copy_file(const struct taking *t, int from, int parent, const char *name,
		      const struct stat *st)
{
	kh_auto_close int to =
		openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	const struct timespec times[2] = { st->st_mtim, st->st_mtim };
	return to >= 0 && kh_copy_content(from, to) && futimens(to, times) == 0 &&
	       give(t, parent, name, st) && fchmod(to, st->st_mode & 0777) == 0;
}

static bool copy_link(const struct taking *t, const char *path, int parent, const char *name,
		      const struct stat *st)
{
	kh_auto_free char *text = kh_review_beneath_link(t->workspace, path);
	return text && symlinkat(text, parent, name) == 0 && give(t, parent, name, st);
}

static bool copy_folder(const struct taking *t, int parent, const char *name, const struct stat *st)
{
	if (mkdirat(parent, name, 0700) != 0)
		return false;
	kh_auto_close int made = kh_review_open_made(parent, name, true);
	return made >= 0 && kh_file_set_mode(made, (st->st_mode & 0777) | 0700) &&
	       give(t, parent, name, st);
}

static enum kh_walk_order left_out(struct taking *t)
{
	t->left_out++;
	return KH_WALK_SKIP;
}

static enum kh_walk_order copy_one(struct taking *t, const char *path, const struct stat *st)
{
	const char *name;
	kh_auto_close int parent = kh_review_beneath_parent(t->tree, path, &name);
	bool ok = parent >= 0;
	if (ok && S_ISREG(st->st_mode)) {
		kh_auto_close int from = kh_review_beneath_open(t->workspace, path,
								O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
		struct stat now;
		/* Whoever writes to the workspace may have put another user's file there since. */
		if (from < 0 || fstat(from, &now) != 0 || !kh_review_owner_is_same(st, &now))
			return left_out(t);
		ok = copy_file(t, from, parent, name, st);
	} else if (ok && S_ISLNK(st->st_mode)) {
		ok = copy_link(t, path, parent, name, st);
	} else if (ok && S_ISDIR(st->st_mode)) {
		ok = copy_folder(t, parent, name, st);
	} else if (ok) {
		return left_out(t);
	}
	struct stat copy;
	if (!ok || fstatat(parent, name, &copy, AT_SYMLINK_NOFOLLOW) != 0 ||
	    !kh_base_note(t->base, path, st, &copy))
		return fail(t, path);
	return KH_WALK_ON;
}

static enum kh_walk_order take_one(void *arg, const char *path, const struct stat *st)
{
	struct taking *t = arg;
	if (t->tree >= 0)
		return copy_one(t, path, st);
	/* Nothing is ever taken over into a git folder. */
	const char *slash = strrchr(path, '/');
	if (strcmp(slash ? slash + 1 : path, ".git") == 0)
		return KH_WALK_SKIP;
	return kh_base_note(t->base, path, st, NULL) ? KH_WALK_ON : fail(t, path);
}

static enum kh_walk_order can_not(void *arg, const char *path, int sys)
{
	(void)path;
	(void)sys;
	return left_out(arg);
}

bool kh_review_take(int workspace, int tree, struct kh_base_writer *base,
		    const struct kh_review_owner *owner, uint64_t *left_out_out, struct kh_err *err)
{
	struct taking t = { workspace, tree, base, owner, 0, false, err };
	struct kh_tree_walker walker = { .entry = take_one, .unreadable = can_not, .arg = &t };
	bool ok = kh_tree_walk(&walker, workspace, "", err) && !t.failed;
	*left_out_out = t.left_out;
	return ok;
}
