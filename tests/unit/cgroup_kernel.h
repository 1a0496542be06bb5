/*
 * cgroup_kernel.h - a made-up tree of control groups, with what the kernel does in a real one
 *
 * Folders and files in a folder of the test's. A new folder below a group is a group: in version 2
 * with the files of those controllers that the one above gives to its children, in version 1 with
 * the files of the one above. A group that holds processes gives nothing to its children (EBUSY),
 * but for the one at the top; a process is in one group of a hierarchy; a group with processes or
 * children is not removed. One with a file ".foreign" is somebody else's. Who includes this wraps
 * mkdir, rmdir and write.
 */
#ifndef KEYHOLE_TESTS_CGROUP_KERNEL_H
#define KEYHOLE_TESTS_CGROUP_KERNEL_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/file.h>

#include "unit.h"

int __real_mkdir(const char *path, mode_t mode);
int __real_rmdir(const char *path);
ssize_t __real_write(int fd, const void *data, size_t len);

static char world[64]; /* the root of the tree; "": none stands */

static const struct {
	const char *controller, *files[4];
} v2_files[] = {
	{ "memory", { "memory.max", "memory.swap.max", "memory.events" } },
	{ "pids", { "pids.max" } },
	{ "cpu", { "cpu.max" } },
};

static void put(const char *folder, const char *name, const char *text)
{
	char *path = kh_strf("%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(__real_write(fd, text, strlen(text)), strlen(text));
	close(fd);
	free(path);
}

/* "" where there is no such file. Of one room: look at it before the next. */
static const char *get(const char *folder, const char *name)
{
	static char text[4096];
	char *path = kh_strf("%s/%s", folder, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	free(path);
	return text;
}

static bool has(const char *folder, const char *name)
{
	char *path = kh_strf("%s/%s", folder, name);
	bool is = access(path, F_OK) == 0;
	free(path);
	return is;
}

static bool says(const char *folder, const char *name, const char *word)
{
	char text[4096];
	snprintf(text, sizeof(text), "%s", get(folder, name));
	for (char *save = NULL, *at = strtok_r(text, " \n", &save); at;
	     at = strtok_r(NULL, " \n", &save))
		if (strcmp(at, word) == 0)
			return true;
	return false;
}

static void put_controller(const char *folder, const char *controller)
{
	for (size_t i = 0; i < sizeof(v2_files) / sizeof(v2_files[0]); i++)
		for (const char *const *f = v2_files[i].files;
		     strcmp(v2_files[i].controller, controller) == 0 && *f; f++)
			put(folder, *f, "");
}

static void parent_of(const char *path, char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s", path);
	char *slash = strrchr(out, '/');
	assert_non_null(slash);
	*slash = '\0';
}

int __wrap_mkdir(const char *path, mode_t mode)
{
	char above[PATH_MAX];
	parent_of(path, above);
	bool is_group = world[0] && has(above, "cgroup.procs");
	if (is_group && has(above, ".foreign")) {
		errno = EACCES;
		return -1;
	}
	if (__real_mkdir(path, mode) != 0)
		return -1;
	if (!is_group)
		return 0;
	put(path, "cgroup.procs", "");
	if (!has(above, "cgroup.subtree_control")) { /* version 1 */
		static const char *const files[] = { "memory.limit_in_bytes", "memory.oom_control",
						     "pids.max", "cpu.cfs_quota_us" };
		for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
			if (has(above, files[i]))
				put(path, files[i], "");
		return 0;
	}
	char given[256];
	snprintf(given, sizeof(given), "%s", get(above, "cgroup.subtree_control"));
	put(path, "cgroup.controllers", given);
	put(path, "cgroup.subtree_control", "");
	for (char *save = NULL, *at = strtok_r(given, " ", &save); at;
	     at = strtok_r(NULL, " ", &save))
		put_controller(path, at);
	return 0;
}

/* Calls it for each group below. */
static void each_child(const char *folder, void (*what)(const char *child, const char *word),
		       const char *word)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		char *path = kh_strf("%s/%s", folder, entry->d_name);
		if (entry->d_name[0] != '.' && has(path, "cgroup.procs"))
			what(path, word);
		free(path);
	}
	closedir(dir);
}

static void take_controller(const char *folder, const char *word)
{
	char *now = kh_strf("%s %s", get(folder, "cgroup.controllers"), word);
	put(folder, "cgroup.controllers", now);
	free(now);
	put_controller(folder, word);
}

static int write_subtree(const char *folder, const char *text)
{
	bool foreign = has(folder, ".foreign");
	if (foreign || !says(folder, "cgroup.controllers", text + 1) ||
	    (!has(folder, ".top") && get(folder, "cgroup.procs")[0])) {
		errno = foreign ? EACCES : get(folder, "cgroup.procs")[0] ? EBUSY : ENOENT;
		return -1;
	}
	char *now = kh_strf("%s %s", get(folder, "cgroup.subtree_control"), text + 1);
	put(folder, "cgroup.subtree_control", now);
	free(now);
	each_child(folder, take_controller, text + 1);
	return 0;
}

static void leave(const char *folder, const char *pid)
{
	char text[4096], rest[4096] = "";
	snprintf(text, sizeof(text), "%s", get(folder, "cgroup.procs"));
	for (char *save = NULL, *at = strtok_r(text, "\n", &save); at;
	     at = strtok_r(NULL, "\n", &save))
		if (strcmp(at, pid) != 0)
			snprintf(rest + strlen(rest), sizeof(rest) - strlen(rest), "%s\n", at);
	put(folder, "cgroup.procs", rest);
	each_child(folder, leave, pid);
}

static int write_procs(const char *folder, const char *pid)
{
	char top[PATH_MAX], self[16];
	snprintf(top, sizeof(top), "%s", folder);
	while (!has(top, ".top"))
		*strrchr(top, '/') = '\0';
	snprintf(self, sizeof(self), "%d", (int)getpid());
	if (strcmp(pid, "0") == 0)
		pid = self;
	leave(top, pid);
	char *now = kh_strf("%s%s\n", get(folder, "cgroup.procs"), pid);
	put(folder, "cgroup.procs", now);
	free(now);
	return 0;
}

ssize_t __wrap_write(int fd, const void *data, size_t len)
{
	char link[32], path[PATH_MAX], text[64] = "";
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = world[0] ? readlink(link, path, sizeof(path) - 1) : -1;
	if (n <= 0 || strncmp(path, world, strlen(world)) != 0 || len >= sizeof(text))
		return __real_write(fd, data, len);
	path[n] = '\0';
	memcpy(text, data, len);
	char *slash = strrchr(path, '/');
	*slash = '\0';
	int failed = strcmp(slash + 1, "cgroup.subtree_control") == 0 ? write_subtree(path, text)
		     : strcmp(slash + 1, "cgroup.procs") == 0	      ? write_procs(path, text)
								      : 1;
	return failed == 1 ? __real_write(fd, data, len) : failed == 0 ? (ssize_t)len : -1;
}

static int children;

static void count(const char *folder, const char *unused)
{
	(void)folder;
	(void)unused;
	children++;
}

int __wrap_rmdir(const char *path)
{
	if (!world[0] || !has(path, "cgroup.procs"))
		return __real_rmdir(path);
	children = 0;
	each_child(path, count, NULL);
	if (children || get(path, "cgroup.procs")[0]) {
		errno = EBUSY;
		return -1;
	}
	DIR *dir = opendir(path);
	const struct dirent *entry;
	while ((entry = readdir(dir)))
		(void)unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
	return __real_rmdir(path);
}

#endif
