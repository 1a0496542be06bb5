/*
 * git_shape.c - would git recognise this folder as a git folder?
 *
 * git recognises a git folder by its content (its is_git_directory), whatever its name, and then
 * runs what its configuration says. Here the files of the workspace and of the agent count
 * together, so that two reviews can't each bring one half of a git folder.
 */
#include <stdio.h>
#include <string.h>

#include "name_fold.h"
#include "review_internal.h"

struct layers {
	int workspace, upper; /* -1: no upper one */
};

static bool layers_have(void *arg, const char *path)
{
	const struct layers *l = arg;
	struct stat st;
	if (kh_review_beneath_stat(l->workspace, path, &st) == 0)
		return true;
	return l->upper >= 0 && kh_review_beneath_stat(l->upper, path, &st) == 0 &&
	       !(S_ISCHR(st.st_mode) && st.st_rdev == 0);
}

bool kh_git_has_shape(bool (*has)(void *arg, const char *path), void *arg, const char *folder)
{
	static const char *const names[] = { "HEAD", "commondir", "objects", "refs" };
	bool found[sizeof(names) / sizeof(names[0])];
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[KH_REVIEW_PATH_BYTES];
		int n = snprintf(path, sizeof(path), "%s%s%s", folder, *folder ? "/" : "",
				 names[i]);
		found[i] = n < 0 || (size_t)n >= sizeof(path) || has(arg, path);
	}
	return found[0] && (found[1] || (found[2] && found[3]));
}

bool kh_git_is_shaped(int workspace, int upper, const char *folder, bool agents)
{
	struct layers layers = { workspace, agents ? upper : -1 };
	return kh_git_has_shape(layers_have, &layers, folder);
}

bool kh_git_is_part(const char *rest)
{
	static const char *const parts[] = { "HEAD",   "commondir",	  "objects", "refs",
					     "config", "config.worktree", "hooks" };
	char name[KH_NAME_FOLD_ROOM];
	size_t len = strcspn(rest, "/");
	if (len >= sizeof(name))
		return true; /* It may be one, and what it is can't be told. */
	memcpy(name, rest, len);
	name[len] = '\0';
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (kh_name_fold_is(name, parts[i]))
			return true;
	return false;
}
