/* written.c - where the sandboxes of other runs can write */
#include <dirent.h>
#include <errno.h>
#include <limits.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/writable.h>
#include <keyhole/sandbox/workspace.h>

#include "outlets.h"
#include "runs_others.h"

/* What is gone can't be written to. */
static bool add(const char *folder, const char *what, struct kh_err *err)
{
	return kh_writable_add(folder, what, KH_WRITABLE_FOR_ALL) || errno != ENOMEM ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "the places of other sandboxes: no memory");
}

static bool add_home(void *arg, const char *home, struct kh_err *err)
{
	(void)arg;
	return add(home, "the --home of another run", err);
}

/* A run that ends meanwhile has taken its note with it. */
static bool add_workspace(const char *run, struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	enum kh_note note = kh_run_note(run, "workspace", PATH_MAX, &text, err);
	if (note != KH_NOTE_READ)
		return note == KH_NOTE_ABSENT;
	kh_auto_free char *workspace = kh_slice_dup(kh_slice_trim(kh_buf_view(&text)));
	if (!workspace)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	return !*workspace || add(workspace, "the workspace of another run", err);
}

bool kh_workspace_note_written(const char *state, struct kh_err *err)
{
	kh_auto_free char *all = kh_strf("%s/workspaces", state);
	if (!all)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	if (!kh_outlets_each_home(state, add_home, NULL, err))
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
		ok = run ? add_workspace(run, err)
			 : kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	}
	closedir(dir);
	return ok;
}
