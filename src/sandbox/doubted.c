/* doubted.c - protected names under which the agent may have put something while a sandbox ran */
#include "doubted.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "aside.h"

/* A path that ends in a slash is of a folder around what is doubted. */
bool kh_doubted_note(const char *record, const char *path, bool is_around, struct kh_err *err)
{
	kh_auto_free char *list = kh_strf("%s/doubted", record);
	kh_auto_free char *entry = kh_strf("%s%s", path, is_around ? "/" : "");
	kh_auto_close int fd =
		list && entry
			? open(list, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)
			: -1;
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, list && entry ? errno : ENOMEM,
				  "the list of protected names that were replaced");
	return kh_file_write_all(fd, kh_slice_of(entry, strlen(entry) + 1), err) ||
	       kh_err_wrap(err, "the list of protected names that were replaced");
}

bool kh_doubted_forget(const char *record)
{
	kh_auto_free char *list = kh_strf("%s/doubted", record);
	return list && unlink(list) == 0;
}

/* One that was cut short has no NUL, and is none. */
static const char *next(struct kh_slice list, size_t *at)
{
	const char *path = list.ptr + *at;
	size_t end = *at < list.len ? kh_slice_find(list, '\0', *at) : list.len;
	if (end >= list.len)
		return NULL;
	*at = end + 1;
	return path;
}

static bool is_around(const char *entry)
{
	size_t len = strlen(entry);
	return len > 0 && entry[len - 1] == '/';
}

static bool covers(const char *entry, const char *path)
{
	size_t len = strlen(entry) - is_around(entry);
	return len > 0 && strncmp(path, entry, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

size_t kh_doubted_count(struct kh_slice list)
{
	size_t n = 0;
	for (size_t at = 0; next(list, &at);)
		n++;
	return n;
}

bool kh_doubted_has(struct kh_slice list, const char *path)
{
	return kh_doubted_mark(list, path, NULL);
}

bool kh_doubted_mark(struct kh_slice list, const char *path, bool *marks)
{
	const char *entry;
	bool found = false;
	for (size_t at = 0, i = 0; (entry = next(list, &at)); i++) {
		if (!covers(entry, path))
			continue;
		found = true;
		if (marks && strcmp(entry, path) == 0)
			marks[i] = true;
	}
	return found;
}

const char kh_doubted_why[] =
	"it was protected, and was removed and made again while the sandbox ran, by "
	"the host or by the agent";

bool kh_doubted_is_empty(int folder, const char *name)
{
	struct stat st;
	kh_auto_close int fd =
		openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 && fstat(fd, &st) == 0 &&
	       (S_ISDIR(st.st_mode) ? kh_file_is_empty_folder(fd)
				    : S_ISREG(st.st_mode) && st.st_size == 0);
}

/* git's own are judged one by one, and its samples are nothing. */
static bool is_hooks_of_git(const char *path)
{
	size_t len = strlen(path);
	kh_auto_free char *head = len > 6 && strcmp(path + len - 6, "/hooks") == 0
					  ? kh_strf("%.*s/HEAD", (int)(len - 6), path)
					  : NULL;
	struct stat st;
	return head && lstat(head, &st) == 0;
}

/* The path itself, or the first thing on its way that is no folder: a link leads elsewhere. */
static void take(const char *root, char *path, struct kh_aside *aside)
{
	for (size_t i = strlen(root) + 1;; i++) {
		const char *name = NULL;
		struct stat st;
		char was = path[i];
		if (was != '/' && was)
			continue;
		path[i] = '\0';
		kh_auto_close int dir = kh_mountpoint_open_parent(path, &name);
		if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			return;
		if (!S_ISDIR(st.st_mode) || !was) {
			if (!kh_doubted_is_empty(dir, name))
				kh_aside_take(aside, dir, name, path, kh_doubted_why, NULL);
			return;
		}
		path[i] = was;
	}
}

void kh_doubted_take(struct kh_slice list, const bool *marks, const char *root,
		     struct kh_aside *aside)
{
	const char *entry;
	size_t len = strlen(root);
	for (size_t at = 0, i = 0; (entry = next(list, &at)); i++) {
		kh_auto_free char *path = strdup(entry);
		if (path && !marks[i] && !is_around(entry) && !is_hooks_of_git(entry) &&
		    strncmp(path, root, len) == 0 && path[len] == '/')
			take(root, path, aside);
	}
}
