/*
 * shut.c - removes the write access that an agent gave to every user of the host
 *
 * If the agent opened a folder to all (chmod 0777), another user of the host could replace what is
 * protected in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/log.h>

#include "shut.h"

struct shutting {
	const struct kh_walk_folder *folder;
	bool (*was_there)(void *arg, const unsigned char *digest);
	void *arg;
	size_t shut, failed;
	int error; /* of the first that failed */
};

/* No link is followed: whoever may write to the folder may put one there meanwhile. */
static bool shut_entry(int dir, const char *name)
{
	struct stat st;
	kh_auto_close int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && fstat(fd, &st) == 0 &&
	       (S_ISLNK(st.st_mode) || kh_file_set_mode(fd, st.st_mode & 07777 & ~(mode_t)S_IWOTH));
}

static bool shut_one(void *arg, const struct kh_walk_entry *entry,
		     const unsigned char digest[KH_CONCERN_DIGEST_BYTES])
{
	struct shutting *s = arg;
	if (s->was_there(s->arg, digest))
		return true;
	if (shut_entry(s->folder->fd, entry ? entry->name : ".")) {
		s->shut++;
		return true;
	}
	s->error = s->failed++ ? s->error : errno;
	return true;
}

bool kh_shut_folder(const struct kh_walk_folder *folder,
		    bool (*was_there)(void *arg, const unsigned char *digest), void *arg)
{
	struct shutting s = { .folder = folder, .was_there = was_there, .arg = arg };
	if (!kh_concern_each_open(folder, shut_one, &s))
		s.error = s.failed++ ? s.error : ENOMEM;
	if (s.shut)
		kh_log_warn("%s, or a file in it, could be written to by every user of this host, "
			    "who could have put hooks there; now it can't (chmod o-w)",
			    kh_esc_str(folder->path));
	if (s.failed)
		kh_log_error(
			"%s, or a file in it, can be written to by every user of this host, who "
			"can put hooks there, and that could not be changed: %s (chmod o-w it)",
			kh_esc_str(folder->path), strerror(s.error));
	return s.failed == 0;
}
