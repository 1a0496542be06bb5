/*
 * home.c - files that the command is to find in its home
 *
 * They are copied by the command's own user and in the sandbox, so that a link in a home that is
 * kept leads to nothing that the command could not write to anyway.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/sandbox/init.h>

#include "init_internal.h"

enum { DEPTH_MOST = 8, FILE_MOST_BYTES = 1024 * 1024 };

static void complain(const char *name)
{
	init_complain("%s: can't be put into the home: %s", name, strerror(errno));
}

static void copy_file(int from, int to, const char *name)
{
	int in = openat(from, name, O_RDONLY | O_CLOEXEC);
	int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (in < 0 || (out < 0 && errno != EEXIST))
		complain(name);
	ssize_t n = 1;
	for (size_t left = FILE_MOST_BYTES; in >= 0 && out >= 0 && n > 0 && left > 0;
	     left -= (size_t)n) {
		char bytes[4096];
		n = read(in, bytes, sizeof(bytes) < left ? sizeof(bytes) : left);
		if (n > 0 && write(out, bytes, (size_t)n) != n)
			n = -1;
	}
	if (n < 0) {
		complain(name);
		unlinkat(to, name, 0);
	}
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
}

/* Takes both over. */
static void copy_folder(int from, int to, int depth)
{
	DIR *dir = depth < DEPTH_MOST ? fdopendir(from) : NULL;
	const struct dirent *entry;
	while (dir && to >= 0 && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		struct stat st;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
		    fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		if (S_ISREG(st.st_mode)) {
			copy_file(from, to, name);
		} else if (S_ISDIR(st.st_mode)) {
			const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
			if (mkdirat(to, name, 0700) != 0 && errno != EEXIST)
				complain(name);
			int below = openat(from, name, flags);
			if (below >= 0)
				copy_folder(below, openat(to, name, flags | O_NOFOLLOW), depth + 1);
		}
	}
	if (dir)
		closedir(dir);
	else
		close(from);
	if (to >= 0)
		close(to);
}

void init_home_fill(void)
{
	const char *home = getenv("HOME");
	int from = open(KH_INIT_HOME_FILES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from < 0)
		return;
	int to = home ? open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	copy_folder(from, to, 0);
}
