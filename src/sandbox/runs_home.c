/*
 * runs_home.c - a run's note of who could write to its home
 *
 * An agent can give every user of the host write access to a home that is kept. Another user could
 * put there what a later run's shell starts. So the access that was not there before is taken away
 * after the run, as for the workspace (shut.h), also if the launcher was killed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

#include "runs_home.h"
#include "runs_others.h"
#include "sandbox_internal.h"

bool kh_run_home_note(const char *run, const char *home, int folder, struct kh_err *err)
{
	struct stat st;
	if (fstat(folder, &st) != 0)
		return kh_err_sys(err, KH_ERR_USAGE, errno, "--home %s", kh_esc_str(home));
	if (st.st_mode & S_IWOTH)
		return true;
	kh_auto_free char *path = kh_strf("%s/home", run);
	kh_auto_free char *text = kh_strf("%llu %llu %s", (unsigned long long)st.st_dev,
					  (unsigned long long)st.st_ino, home);
	return path && text ? kh_file_write(path, kh_slice_str(text), 0600, err)
			    : kh_err_set(err, KH_ERR_NO_MEMORY, "--home: no memory");
}

/* Is it still that folder? No link is followed: who has the folder above may have put one there. */
static int open_home(const char *text, const char **path)
{
	unsigned long long dev = 0, ino = 0;
	int at = 0;
	struct stat st;
	if (sscanf(text, "%llu %llu %n", &dev, &ino, &at) != 2 || text[at] != '/')
		return -1;
	*path = text + at;
	kh_auto_close int fd = kh_file_hold(*path);
	if (fd < 0 || fstat(fd, &st) != 0 || (unsigned long long)st.st_dev != dev ||
	    (unsigned long long)st.st_ino != ino || !(st.st_mode & S_IWOTH))
		return -1;
	return kh_steal_fd(&fd);
}

bool kh_run_home_shut(const char *run)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct stat st;
	const char *path = NULL;
	enum kh_note note = kh_run_note(run, "home", KH_LIMIT_SURVEY_PATH_BYTES + 256, &text, NULL);
	const char *all = note == KH_NOTE_READ ? kh_buf_cstr(&text) : NULL;
	kh_auto_close int fd = all ? open_home(all, &path) : -1;
	if (fd < 0)
		return true;
	bool shut =
		fstat(fd, &st) == 0 && kh_file_set_mode(fd, st.st_mode & 07777 & ~(mode_t)S_IWOTH);
	if (shut)
		kh_log_warn("%s could be written to by every user of this host, who could have "
			    "put there what the next run starts; now it can't (chmod o-w)",
			    kh_esc_str(path));
	else
		kh_log_error("%s can be written to by every user of this host, who can put there "
			     "what the next run starts, and that could not be changed: %s (chmod "
			     "o-w it)",
			     kh_esc_str(path), strerror(errno));
	return shut;
}
