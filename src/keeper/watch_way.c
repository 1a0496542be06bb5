/*
 * watch_way.c - which names decide where a path leads
 *
 * The kernel follows a path name by name: each one is looked up in a folder, and a link's target is
 * put in its place. Whoever replaces one of these names (renames a folder far above the file, or
 * turns a link in a link's target) leads the path to another file. So each name is reported, with
 * its folder, before it is looked up: a later change is an event for the watcher.
 */

#include "watch_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	LINKS_MOST = 40, /* as the kernel: path_resolution(7) */
	NAMES_MOST = 512,
};

/* `at` has no link in it, and no slash at its end: "" is the root. */
struct way {
	char at[PATH_MAX];
	char rest[PATH_MAX];
	unsigned links;
};

static const char *folder_of(const struct way *way)
{
	return way->at[0] ? way->at : "/";
}

static void go_up(struct way *way)
{
	char *slash = strrchr(way->at, '/');
	if (slash)
		*slash = '\0';
}

/* Moves the first name of the rest to `name`. Return: false: none is left, or it is too long. */
static bool take_name(struct way *way, char name[NAME_MAX + 1])
{
	const char *from = way->rest + strspn(way->rest, "/");
	size_t len = strcspn(from, "/");
	if (len == 0 || len > NAME_MAX)
		return false;
	memcpy(name, from, len);
	name[len] = '\0';
	memmove(way->rest, from + len, strlen(from + len) + 1);
	return true;
}

static bool go_down(struct way *way, const char *name)
{
	size_t len = strlen(way->at);
	if (len + 1 + strlen(name) >= sizeof(way->at))
		return false;
	(void)snprintf(way->at + len, sizeof(way->at) - len, "/%s", name);
	return true;
}

/* Puts the link's target in its place. */
static bool follow(struct way *way)
{
	char to[PATH_MAX], rest[PATH_MAX];
	ssize_t n = readlink(way->at, to, sizeof(to));
	if (n <= 0 || n >= (ssize_t)sizeof(to) || ++way->links > LINKS_MOST)
		return false;
	to[n] = '\0';
	memcpy(rest, way->rest, sizeof(rest));
	if ((size_t)n + strlen(rest) >= sizeof(way->rest))
		return false;
	memcpy(way->rest, to, (size_t)n);
	memcpy(way->rest + n, rest, strlen(rest) + 1);
	if (to[0] == '/')
		way->at[0] = '\0';
	else
		go_up(way);
	return true;
}

static bool is_gone(void)
{
	return errno == ENOENT || errno == ENOTDIR;
}

bool kh_watch_way(const char *path, bool (*each)(void *arg, const char *folder, const char *name),
		  void *arg)
{
	struct way way = { .at = "" };
	char name[NAME_MAX + 1];
	struct stat st;
	bool all = true;

	if (path[0] != '/' || strlen(path) >= sizeof(way.rest))
		return false;
	memcpy(way.rest, path, strlen(path) + 1);
	for (unsigned i = 0; i < NAMES_MOST; i++) {
		if (!take_name(&way, name))
			return each(arg, folder_of(&way), NULL) && all && !way.rest[0];
		if (strcmp(name, ".") == 0)
			continue;
		if (strcmp(name, "..") == 0) {
			go_up(&way);
			continue;
		}
		all = each(arg, folder_of(&way), name) && all;
		if (!go_down(&way, name))
			return false;
		if (lstat(way.at, &st) != 0)
			return is_gone() && all;
		if (S_ISLNK(st.st_mode) ? !follow(&way) : false)
			return false;
	}
	return false;
}
