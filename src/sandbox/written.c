/* written.c - where the sandboxes of other runs can write */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/writable.h>
#include <keyhole/sandbox/workspace.h>

#include "outlets.h"
#include "runs_others.h"

/* What is gone can't be written to, or is in the record of a live run as well (run_uses.c). */
static bool note(const struct kh_writable_folder *folder, struct kh_err *err)
{
	return kh_writable_note(folder) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "the places of other sandboxes: no memory");
}

static bool note_home(void *arg, const char *home, struct kh_err *err)
{
	(void)arg;
	return note(
		&(struct kh_writable_folder){ .path = home, .what = "the --home of another run" },
		err);
}

/* Its device and inode. */
static enum kh_note read_place(const char *run, struct kh_writable_folder *folder,
			       struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	enum kh_note note = kh_run_note(run, "place", 64, &text, err);
	unsigned long long dev = 0, ino = 0;
	const char *all = note == KH_NOTE_READ ? kh_buf_cstr(&text) : NULL;

	folder->has_id = all && sscanf(all, "%llu %llu", &dev, &ino) == 2;
	folder->dev = (dev_t)dev;
	folder->ino = (ino_t)ino;
	return note;
}

/* A run that ends meanwhile has taken its note with it. */
static bool note_workspace(const char *run, struct kh_err *err)
{
	struct kh_writable_folder folder = { .what = "the workspace of another run" };
	struct kh_buf text kh_cleanup(kh_buf_fini);
	enum kh_note read = kh_run_note(run, "workspace", PATH_MAX, &text, err);
	if (read != KH_NOTE_READ)
		return read == KH_NOTE_ABSENT;
	kh_auto_free char *workspace = kh_slice_dup(kh_slice_trim(kh_buf_view(&text)));
	if (!workspace)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	folder.path = workspace;
	return !*workspace ||
	       (read_place(run, &folder, err) != KH_NOTE_FAILED && note(&folder, err));
}

bool kh_workspace_note_written(const char *state, struct kh_err *err)
{
	kh_auto_free char *all = kh_strf("%s/workspaces", state);
	if (!all)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	if (!kh_outlets_each_home(state, note_home, NULL, err))
		return false;
	DIR *dir = opendir(all);
	if (!dir)
		return errno == ENOENT || kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", all);
	bool ok = true;
	const struct dirent *entry;
	/* cppcheck-suppress readdirCalled ; nobody else has this stream */
	while (ok && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strcmp(entry->d_name, "lock") == 0)
			continue;
		kh_auto_free char *run = kh_strf("%s/%s", all, entry->d_name);
		ok = run ? note_workspace(run, err)
			 : kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	}
	closedir(dir);
	return ok;
}
