/*
 * git_path.c - resolves a path in git's configuration
 *
 * realpath(3) fails for a path that does not exist, but an agent may create that path later. So the
 * existing part is resolved, and the rest is appended.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/file.h>

#include "git_path.h"

enum { HOPS_MOST = 40 /* as the kernel */ };

char *kh_git_pointed(struct kh_slice text, const char *prefix)
{
	struct kh_slice all = kh_slice_chomp(text);
	if (!kh_slice_has_prefix(all, kh_slice_str(prefix)))
		return NULL;
	struct kh_slice path = kh_slice_sub(all, strlen(prefix), all.len);
	path.len = kh_slice_find(path, '\0', 0);
	return path.len > 0 ? kh_slice_dup(path) : NULL;
}

bool kh_git_is_inside(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && path[len] == '/' && path[len + 1];
}

bool kh_git_holds(const char *path, const char *folder)
{
	size_t len = strlen(path);
	return strncmp(folder, path, len) == 0 && (folder[len] == '/' || !folder[len]);
}

void kh_git_normalise(char *path)
{
	char *out = path;
	for (char *in = path; *in;) {
		in += strspn(in, "/");
		size_t len = strcspn(in, "/");
		if (len == 2 && in[0] == '.' && in[1] == '.') {
			while (out > path && *--out != '/')
				;
		} else if (len > 0 && !(len == 1 && in[0] == '.')) {
			*out++ = '/';
			memmove(out, in, len);
			out += len;
		}
		in += len;
	}
	*out = '\0';
}

/* One step: `at` leads through no link, and `rest` is still to be gone. Return: false at the end of
 * what exists. */
static bool step(char at[static PATH_MAX], char rest[static PATH_MAX], int *hops)
{
	char text[PATH_MAX], more[PATH_MAX];
	struct stat st = { 0 };
	const char *part = rest + strspn(rest, "/");
	size_t len = strcspn(part, "/"), was = strlen(at);
	if (len == 0)
		return false;
	if (len == 2 && strncmp(part, "..", 2) == 0)
		*(strrchr(at, '/') ? strrchr(at, '/') : at) = '\0';
	else if ((len != 1 || part[0] != '.') &&
		 snprintf(at + was, PATH_MAX - was, "/%.*s", (int)len, part) >=
			 (int)(PATH_MAX - was)) {
		at[was] = '\0';
		return false;
	}
	bool there = !*at || lstat(at, &st) == 0;
	if (there && *at && S_ISLNK(st.st_mode)) {
		ssize_t n = readlink(at, text, sizeof(text) - 1);
		text[n > 0 ? n : 0] = '\0';
		if (n <= 0 || ++*hops > HOPS_MOST ||
		    snprintf(more, sizeof(more), "%s%s", text, part + len) >= (int)sizeof(more)) {
			at[was] = '\0';
			return false;
		}
		at[text[0] == '/' ? 0 : was] = '\0';
		memcpy(rest, more, strlen(more) + 1);
		return true;
	}
	memmove(rest, part + len, strlen(part + len) + 1);
	return there;
}

char *kh_git_resolve(const char *path)
{
	char at[PATH_MAX] = "", rest[PATH_MAX];
	int hops = 0;
	if (strlen(path) >= sizeof(rest))
		return NULL;
	memcpy(rest, path, strlen(path) + 1);
	while (step(at, rest, &hops))
		;
	char *all = kh_strf("%s/%s", at, rest);
	if (all)
		kh_git_normalise(all);
	return all;
}
