/*
 * runs_disk.c - a run's note of where the disks of its folders were mounted
 *
 * A machine may go down during a run, or the launcher be killed and the disk unplugged. A later run
 * that finds nothing at the path of the workspace, or what the mount point itself holds, can't tell
 * from that whether the workspace is gone. So a record is kept while nothing is mounted at the
 * point where its disk was. When the disk is back, its device may have another number.
 */
#include "runs_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/mounts.h>
#include <keyhole/base/slice.h>

#include "runs_others.h"

/* Of the workspace and of the home. */
enum { NOTE_BYTES = 2 * (KH_LIMIT_SURVEY_PATH_BYTES + 256) };

/* Return: a view into the table; NULL: it is not known. */
static const char *point_of(const struct kh_mounts *mounts, int folder)
{
	uint64_t id = 0;
	if (!kh_mounts_id(folder, &id))
		return NULL;
	for (size_t i = 0; i < mounts->n; i++)
		if (mounts->list[i].id == id)
			return mounts->list[i].point;
	return NULL;
}

bool kh_run_disk_note(const char *run, int folder, struct kh_err *err)
{
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini) = { NULL, 0 };
	kh_auto_free char *path = kh_strf("%s/disk", run);
	const char *point =
		path && kh_mounts_read(&mounts, NULL) ? point_of(&mounts, folder) : NULL;
	if (!point)
		return path || kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	kh_auto_close int fd =
		open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", path);
	return kh_file_write_all(fd, kh_slice_of(point, strlen(point) + 1), err) ||
	       kh_err_wrap(err, "%s", path);
}

/* Each point of the note. Return: the first that `is_it`; NULL: none. */
static const char *find_point(struct kh_slice all,
			      bool (*is_it)(const struct kh_mounts *mounts, const char *point,
					    int folder),
			      const struct kh_mounts *mounts, int folder)
{
	for (size_t at = 0; at < all.len; at += strlen(all.ptr + at) + 1)
		if (is_it(mounts, all.ptr + at, folder))
			return all.ptr + at;
	return NULL;
}

static bool is_empty(const struct kh_mounts *mounts, const char *point, int folder)
{
	(void)folder;
	for (size_t i = 0; i < mounts->n; i++)
		if (strcmp(mounts->list[i].point, point) == 0)
			return false;
	return true;
}

bool kh_run_disk_is_away(const struct kh_other_run *run, bool says)
{
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini) = { NULL, 0 };
	struct kh_buf text kh_cleanup(kh_buf_fini);
	const char *all = kh_run_note(run->path, "disk", NOTE_BYTES, &text, NULL) == KH_NOTE_READ
				  ? kh_buf_cstr(&text)
				  : NULL;
	/* Without the table of mounts the survey itself says what it does not find. */
	if (!all || !kh_mounts_read(&mounts, NULL))
		return false;
	const char *point = find_point(kh_buf_view(&text), is_empty, &mounts, -1);
	if (point && says)
		kh_log_warn("%s was not surveyed, since nothing is mounted at %s any more: mount "
			    "it and run `keyhole workspace survey` before you use git or an editor "
			    "there (if it is gone for good, remove %s)",
			    kh_esc_str(*run->workspace ? run->workspace : run->path),
			    kh_esc_str(point), kh_esc_str(run->path));
	return point != NULL;
}

static bool is_its_point(const struct kh_mounts *mounts, const char *point, int folder)
{
	const char *its = point_of(mounts, folder);
	return its && strcmp(its, point) == 0;
}

bool kh_run_disk_has(const char *run, int folder)
{
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini) = { NULL, 0 };
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct statx st;
	return kh_run_note(run, "disk", NOTE_BYTES, &text, NULL) == KH_NOTE_READ &&
	       kh_buf_cstr(&text) && kh_mounts_read(&mounts, NULL) &&
	       statx(folder, "", AT_EMPTY_PATH, STATX_TYPE, &st) == 0 &&
	       (st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) &&
	       !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT) &&
	       find_point(kh_buf_view(&text), is_its_point, &mounts, folder);
}
