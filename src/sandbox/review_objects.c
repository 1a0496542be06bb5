/*
 * review_objects.c - a temporary object folder for commits that are only inspected
 *
 * git writes new objects there and also reads the repository's objects, as it does in the
 * quarantine of a push: nothing is written to the repository, and git changes no ref meanwhile. The
 * folder is removed however this process ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "review_git.h"

static const char template[] = "/var/tmp/keyhole-commits-XXXXXX";
enum { PATH_BYTES = KH_REVIEW_PATH_BYTES + 1 };

static void remove_folder(void *arg)
{
	(void)kh_tree_remove(AT_FDCWD, arg, NULL);
}

/* Where the repository keeps its own. */
static bool own_objects(const struct kh_host_git *git, struct kh_buf *path, struct kh_err *err)
{
	static const char *const args[] = { "rev-parse", "--git-path", "objects", NULL };
	return kh_host_git(git, args, -1, path, err);
}

/* In quotation marks, as git reads it: a colon would begin another path. */
static char *known_of(struct kh_slice path)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 4 * PATH_BYTES + 64);
	bool ok = kh_buf_printf(&text, "GIT_ALTERNATE_OBJECT_DIRECTORIES=\"");
	for (size_t i = 0; ok && i < path.len; i++) {
		unsigned char c = (unsigned char)path.ptr[i];
		ok = c < 0x20 || c == '"' || c == '\\' ? kh_buf_printf(&text, "\\%03o", c)
						       : kh_buf_append_char(&text, path.ptr[i]);
	}
	ok = ok && kh_buf_append_char(&text, '"');
	return ok ? kh_slice_dup(kh_buf_view(&text)) : NULL;
}

static bool make(struct kh_review_objects *objects, const struct kh_host_git *git,
		 struct kh_err *err)
{
	struct kh_buf path kh_cleanup(kh_buf_fini);
	kh_buf_init(&path, PATH_BYTES);
	if (!own_objects(git, &path, err))
		return false;
	struct kh_slice own = kh_buf_view(&path);
	objects->known = known_of(kh_slice_sub(own, 0, own.len ? own.len - 1 : 0));
	objects->folder = strdup(template);
	if (!objects->known || !objects->folder)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "commits: no memory");
	if (!mkdtemp(objects->folder)) {
		free(kh_steal_ptr(&objects->folder));
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a folder in /var/tmp");
	}
	objects->own = kh_strf("GIT_OBJECT_DIRECTORY=%s", objects->folder);
	objects->quarantine = kh_strf("GIT_QUARANTINE_PATH=%s", objects->folder);
	if (!objects->own || !objects->quarantine)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "commits: no memory");
	if (!kh_child_watch(remove_folder, objects->folder, &objects->watcher, &objects->alive,
			    err))
		return false;
	return geteuid() != 0 || lchown(objects->folder, git->uid, git->gid) == 0 ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", objects->folder);
}

struct kh_review_objects *kh_review_objects_new(const struct kh_host_git *git, struct kh_err *err)
{
	struct kh_review_objects *objects = calloc(1, sizeof(*objects));
	if (!objects) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "commits: no memory");
		return NULL;
	}
	objects->alive = -1;
	if (make(objects, git, err))
		return objects;
	kh_review_objects_free(objects);
	return NULL;
}

void kh_review_objects_free(struct kh_review_objects *objects)
{
	if (!objects)
		return;
	kh_cleanup_close(&objects->alive);
	if (objects->watcher > 0)
		kh_child_wait(objects->watcher);
	else if (objects->folder)
		remove_folder(objects->folder);
	free(objects->folder);
	free(objects->own);
	free(objects->known);
	free(objects->quarantine);
	free(objects);
}
