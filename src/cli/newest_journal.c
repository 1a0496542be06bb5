/* newest_journal.c - the journal of the last `keyhole run`, for callers that name none */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "cli_internal.h"

static bool is_newer(const struct stat *a, const struct stat *b)
{
	return a->st_mtim.tv_sec != b->st_mtim.tv_sec ? a->st_mtim.tv_sec > b->st_mtim.tv_sec
						      : a->st_mtim.tv_nsec > b->st_mtim.tv_nsec;
}

/* Return: its name on the heap; NULL: there is none. */
static char *newest_in(const char *folder)
{
	DIR *dir = opendir(folder);
	struct stat best = { 0 }, st;
	char *name = NULL;
	/* cppcheck-suppress readdirCalled ; nobody else has this stream */
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (!kh_slice_has_suffix(kh_slice_str(entry->d_name), KH_SLICE(".jsonl")) ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(st.st_mode) || (name && !is_newer(&st, &best)))
			continue;
		free(name);
		name = strdup(entry->d_name);
		best = st;
	}
	if (dir)
		(void)closedir(dir);
	return name;
}

char *kh_cli_newest_journal(const char *command)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *state = kh_file_state_home(&err);
	kh_auto_free char *folder = state ? kh_strf("%s/keyhole/audit", state) : NULL;
	kh_auto_free char *name = folder ? newest_in(folder) : NULL;
	char *path = name ? kh_strf("%s/%s", folder, name) : NULL;
	if (path)
		kh_cli_complain("%s: the newest journal of `keyhole run`: %s", command,
				kh_esc_str(path));
	else
		kh_cli_complain("%s: which journal? Name its file (a daemon's is audit.file of its "
				"configuration); `keyhole run` has left none in %s",
				command, folder ? kh_esc_str(folder) : "your home");
	return path;
}
