/*
 * runs_stubs.c - the lists of what runs have put into their workspaces
 *
 * An agent chooses how long the paths are, by folders that it leaves for the next run. So each run
 * has a limit of its own, which it meets where it writes the list: no other run fails by it.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>

#include "git_path.h"
#include "runs.h"
#include "runs_others.h"
#include "runs_stubs.h"
#include "sandbox_internal.h"

/* More than is written: one that an earlier keyhole has left had no limit. */
enum { READ_BYTES = 64 * KH_LIMIT_RUN_STUBS_BYTES };

/* The path that begins at *at, and after it the next; each ends with a NUL, or was cut short. */
static bool next(struct kh_slice all, size_t *at, struct kh_slice *path)
{
	if (*at >= all.len)
		return false;
	size_t end = kh_slice_find(all, '\0', *at);
	*path = kh_slice_sub(all, *at, end);
	*at = end + 1;
	return true;
}

static bool has(struct kh_slice all, const char *path)
{
	struct kh_slice one;
	for (size_t at = 0; next(all, &at, &one);)
		if (kh_slice_eq(one, kh_slice_str(path)))
			return true;
	return false;
}

bool kh_run_stubs_remove(const char *folder, struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	enum kh_note note = kh_run_note(folder, "stubs", READ_BYTES, &text, err);
	if (note == KH_NOTE_FAILED)
		return false;
	struct kh_slice paths = kh_buf_view(&text);
	/* The inner ones were made after the outer ones. */
	for (size_t end = paths.len; end > 0;) {
		size_t start = end - 1;
		while (start > 0 && paths.ptr[start - 1] != '\0')
			start--;
		if (paths.ptr[end - 1] == '\0' && paths.ptr[start] == '/')
			kh_mountpoint_remove(paths.ptr + start);
		end = start;
	}
	/* The survey may be long in coming: what is made there meanwhile is somebody's own. */
	kh_auto_free char *list = kh_strf("%s/stubs", folder);
	return (list && (unlink(list) == 0 || errno == ENOENT)) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, list ? errno : ENOMEM, "%s/stubs", folder);
}

/* Only those in the workspace: what other folders hold is no matter of this run's. */
static bool take(struct kh_run_record *record, struct kh_slice all)
{
	struct kh_slice one;
	for (size_t at = 0; next(all, &at, &one);) {
		/* It ends with a NUL, also where the list was cut short: kh_buf_cstr. */
		if (kh_git_is_inside(one.ptr, record->workspace) &&
		    (!kh_buf_append_slice(&record->others, one) ||
		     !kh_buf_append_char(&record->others, '\0')))
			return false;
	}
	return true;
}

bool kh_run_stubs_of_others(struct kh_run_record *record, struct kh_err *err)
{
	struct kh_other_runs others kh_cleanup(kh_other_runs_fini) = { 0 };
	kh_buf_clear(&record->others);
	if (!record->workspace)
		return true;
	if (!kh_other_runs_find(record->state, record->id, &others, err))
		return false;
	for (size_t i = 0; i < others.n; i++) {
		struct kh_buf text kh_cleanup(kh_buf_fini);
		if (kh_run_note(others.list[i].path, "stubs", READ_BYTES, &text, err) ==
		    KH_NOTE_FAILED)
			return false;
		if (!kh_buf_cstr(&text) || !take(record, kh_buf_view(&text)))
			return kh_err_set(err, KH_ERR_NO_MEMORY,
					  "--workspace %s: too many runs at a time in it, with too "
					  "many paths to protect (end some of them first)",
					  kh_esc_str(record->workspace));
	}
	return true;
}

bool kh_run_record_is_stub(const struct kh_run_record *record, const char *path)
{
	return has(kh_buf_view(&record->others), path);
}

/* What the host removes again and again needs one note. */
static bool is_noted(const struct kh_run_record *record, const char *path)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	return kh_run_note(record->path, "stubs", READ_BYTES, &text, NULL) == KH_NOTE_READ &&
	       has(kh_buf_view(&text), path);
}

bool kh_run_record_stub(const struct kh_run_record *record, const char *path, struct kh_err *err)
{
	struct stat st;
	if (fstat(record->stubs, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno,
				  "the list of what is put into the workspace");
	if ((size_t)st.st_size + strlen(path) >= KH_LIMIT_RUN_STUBS_BYTES)
		return is_noted(record, path) ||
		       kh_err_set(
			       err, KH_ERR_CONFIG,
			       "--workspace %s: the paths that have to be kept from being made in "
			       "it have more than %d bytes together (take a smaller folder, or "
			       "remove repositories with long paths), such as %s",
			       kh_esc_str(record->workspace), KH_LIMIT_RUN_STUBS_BYTES,
			       kh_esc_str(path));
	return kh_file_write_all(record->stubs, kh_slice_of(path, strlen(path) + 1), err) ||
	       kh_err_wrap(err, "the list of what is put into the workspace");
}
