/* doubted.c - protected names under which the agent may have put something while a sandbox ran */
#include "doubted.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

bool kh_doubted_note(const char *record, const char *path, struct kh_err *err)
{
	kh_auto_free char *list = kh_strf("%s/doubted", record);
	kh_auto_close int fd =
		list ? open(list, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)
		     : -1;
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, list ? errno : ENOMEM,
				  "the list of protected names that were replaced");
	return kh_file_write_all(fd, kh_slice_of(path, strlen(path) + 1), err) ||
	       kh_err_wrap(err, "the list of protected names that were replaced");
}

bool kh_doubted_has(struct kh_slice list, const char *path)
{
	for (size_t at = 0; at < list.len;) {
		size_t end = kh_slice_find(list, '\0', at);
		size_t len = (end < list.len ? end : list.len) - at;
		if (len > 0 && strncmp(path, list.ptr + at, len) == 0 &&
		    (path[len] == '/' || path[len] == '\0'))
			return true;
		at += len + 1;
	}
	return false;
}
