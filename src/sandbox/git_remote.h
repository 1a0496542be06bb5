/* git_remote.h - which repository git takes for the path of a remote on this host */
#ifndef KEYHOLE_SANDBOX_GIT_REMOTE_H
#define KEYHOLE_SANDBOX_GIT_REMOTE_H

#include <stdbool.h>

#include <keyhole/base/buf.h>

/*
 * git adds to such a path what it lacks: it tries PATH/.git, PATH, PATH/.git/.git and PATH.git
 * (enter_repo in its path.c), and `git clone` tries PATH.bundle too. It follows links.
 */

/* Is it the absolute path of a repository in the workspace `root` (held: `root_fd`), and does no
 * link lead to it, or from a name that git might try instead? */
bool kh_git_remote_is_inside(const char *root, int root_fd, const char *path);
/* Is nothing there under any of these names? */
bool kh_git_remote_is_absent(const char *path);
/* Appends where each of these names leads, links followed. Return: false without memory. */
bool kh_git_remote_where(const char *path, struct kh_buf *out);

#endif
