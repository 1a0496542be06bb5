/*
 * review_mount.c - mounts a workspace under review: with an overlay, or as a copy
 *
 * The overlay is mounted in outer namespaces (outer_namespace.c), so it needs no privilege and ends
 * with the sandbox. The lower layer is the workspace, read-only; the upper layer is a folder of the
 * host that only keyhole's user can enter. The newer features of overlayfs are off (redirects,
 * index, metadata-only copies): so each entry of the upper folder only depends on the same name
 * below, and the workspace may change between two runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "outer_namespace_internal.h"
#include "review_internal.h"
#include "sandbox_internal.h"

#define PLACE KH_OUTER_NAMESPACE "/review"
/* Names nothing inside: the layers are mounted nowhere. */
#define UPPER_INSIDE "/run/keyhole-review"

static bool place(int tree, const char *path)
{
	return mkdir(path, 0755) == 0 &&
	       syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

int kh_review_mount_overlay(int lower, int layers, bool read_only)
{
	static const char writable[] = "lowerdir=" PLACE "/lower,upperdir=" PLACE
				       "/layers/upper,workdir=" PLACE "/layers/work,userxattr";
	static const char frozen[] = "lowerdir=" PLACE "/layers/upper:" PLACE "/lower,userxattr";
	static const char merged[] = PLACE "/merged";
	if (mkdir(PLACE, 0755) != 0 || !place(lower, PLACE "/lower") ||
	    !place(layers, PLACE "/layers") || mkdir(merged, 0755) != 0 ||
	    mount("overlay", merged, "overlay", MS_NOSUID | MS_NODEV,
		  read_only ? frozen : writable) != 0)
		return -1;
	return (int)syscall(SYS_open_tree, AT_FDCWD, merged, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/* ---- what the agent sees of a name of the workspace ---- */

static enum kh_upper look_in_upper(int upper, const char *path, struct stat *st)
{
	if (kh_review_beneath_stat(upper, path, st) != 0)
		return errno == ENOENT ? KH_UPPER_NOTHING : KH_UPPER_GONE;
	if (S_ISCHR(st->st_mode) && st->st_rdev == 0)
		return KH_UPPER_GONE;
	return KH_UPPER_THERE;
}

bool kh_upper_is_opaque(int upper, const char *path)
{
	char value[4];
	kh_auto_close int fd = kh_review_beneath_open(upper, *path ? path : ".",
						      O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : fgetxattr(fd, "user.overlay.opaque", value, sizeof(value));
	return n == 1 && value[0] == 'y';
}

enum kh_upper kh_upper_look(int upper, const char *path, struct stat *st)
{
	char prefix[KH_REVIEW_PATH_BYTES];
	size_t len = strlen(path);
	bool opaque = false;
	if (len >= sizeof(prefix))
		return KH_UPPER_GONE;
	memcpy(prefix, path, len + 1);
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		prefix[i] = '\0';
		enum kh_upper got = look_in_upper(upper, prefix, st);
		bool last = i == len;
		if (got == KH_UPPER_NOTHING)
			return opaque ? KH_UPPER_GONE : KH_UPPER_NOTHING;
		if (got == KH_UPPER_GONE || (!last && !S_ISDIR(st->st_mode)))
			return KH_UPPER_GONE;
		opaque = opaque || (!last && kh_upper_is_opaque(upper, prefix));
		prefix[i] = path[i];
	}
	return KH_UPPER_THERE;
}

/* Of what an earlier run left: a name that the agent took away needs no mask, and gets none. */
static void drop_what_is_gone(struct kh_paths *paths, const struct kh_sandbox_spec *spec,
			      int folder)
{
	size_t kept = 0, root = strlen(spec->workspace) + 1;
	for (size_t i = 0; i < paths->n; i++) {
		const char *path = paths->list[i] + root;
		struct stat st = { .st_mode = S_IFREG };
		bool there = spec->review->overlay
				     ? kh_upper_look(folder, path, &st) != KH_UPPER_GONE
				     : kh_review_beneath_stat(folder, path, &st) == 0;
		if (there && !S_ISDIR(st.st_mode))
			paths->list[kept++] = paths->list[i];
		else
			free(paths->list[i]);
	}
	paths->n = kept;
}

/* The agent may have taken the link away, and not the file. */
static void follow_links(struct kh_paths *paths, const struct kh_sandbox_spec *spec)
{
	size_t root = strlen(spec->workspace);
	for (size_t i = 0; i < paths->n; i++) {
		char *path = realpath(paths->list[i], NULL);
		if (path && strncmp(path, spec->workspace, root) == 0 && path[root] == '/') {
			free(paths->list[i]);
			paths->list[i] = path;
		} else {
			free(path);
		}
	}
}

static bool filter(struct kh_survey *survey, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	kh_auto_free char *path = spec->review->overlay ? kh_strf("%s/upper", spec->review->folder)
							: strdup(spec->review->folder);
	kh_auto_close int folder = path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (folder < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, path ? errno : ENOMEM, "the review's folder");
	follow_links(&survey->secrets, spec);
	drop_what_is_gone(&survey->secrets, spec, folder);
	drop_what_is_gone(&survey->sockets, spec, folder);
	return true;
}

bool kh_review_plan(struct kh_view *view, const struct kh_sandbox_spec *spec,
		    struct kh_survey *survey, struct kh_err *err)
{
	const struct kh_sandbox_review *review = spec->review;
	if (!kh_workspace_check(spec->workspace, err) || !filter(survey, spec, err))
		return false;
	if (!review->overlay)
		return kh_view_bind_held(view,
					 spec->workspace_read_only ? KH_MOUNT_READ : KH_MOUNT_WRITE,
					 review->folder, spec->workspace, KH_TREE_AS_OWNER, err);
	if (!kh_view_bind_held(view, KH_MOUNT_UPPER, review->folder, UPPER_INSIDE, KH_TREE_AS_IS,
			       err) ||
	    !kh_view_bind_again(view, KH_MOUNT_OVERLAY, spec->workspace, spec->workspace,
				KH_TREE_AS_OWNER, spec->workspace_held, err))
		return false;
	if (!view->failed)
		view->list[view->n - 1].read_only = spec->workspace_read_only;
	return true;
}

/* ---- does it work here? ---- */

/* In namespaces that end with this process: all that a run does, but for the program. */
struct trial {
	const struct kh_view *view;
	const struct kh_idmap *idmap;
};

static bool try_it(void *arg, struct kh_err *err)
{
	const struct kh_view *view = ((const struct trial *)arg)->view;
	const struct kh_idmap *idmap = ((const struct trial *)arg)->idmap;
	const struct kh_engine_command none = { .args_fd = -1 };
	struct kh_mount_plan plan;
	if ((idmap && !kh_idmap_enter(idmap, err)) || !kh_outer_namespace_unshare(&none, err) ||
	    !kh_child_ends_with_parent() || !kh_mount_plan_take(&plan, view, err))
		return false;
	kh_auto_close int memory = kh_outer_namespace_memory(KH_OUTER_NAMESPACE);
	static const char root[] = KH_OUTER_NAMESPACE "/root";
	if (memory < 0 || mkdir(root, 0755) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "mounting over " KH_OUTER_NAMESPACE);
	plan.root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t last = view->n - 1, first = last;
	while (first > 0 && view->list[first].kind != KH_MOUNT_UPPER)
		first--;
	kh_auto_close int tree =
		kh_review_mount_overlay(plan.trees[last], plan.trees[first], false);
	kh_auto_close int file =
		tree < 0 ? -1 : openat(tree, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	return file >= 0 || (tree >= 0 && errno == EOPNOTSUPP) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "mounting an overlay file system");
}

/* Without them a folder that replaces another can't be marked as such. */
static bool keeps_attributes(const char *folder, struct kh_err *err)
{
	static const char name[] = "user.keyhole";
	kh_auto_free char *upper = kh_strf("%s/upper", folder);
	if (!upper || setxattr(upper, name, "y", 1, 0) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, upper ? errno : ENOMEM,
				  "extended attributes of %s", folder);
	return removexattr(upper, name) == 0 ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "extended attributes of %s", folder);
}

bool kh_review_try_overlay(const char *workspace, const char *folder, struct kh_err *err)
{
	const struct kh_sandbox_review review = { .folder = folder, .overlay = true };
	const struct kh_sandbox_spec spec = { .workspace = workspace, .review = &review };
	struct kh_survey survey = { 0 };
	struct kh_view view kh_cleanup(kh_view_fini) = { 0 };
	struct kh_idmap idmap kh_cleanup(kh_idmap_fini) = { 0 };
	bool root = geteuid() == 0;
	struct trial trial = { &view, root ? &idmap : NULL };
	return keeps_attributes(folder, err) && kh_review_plan(&view, &spec, &survey, err) &&
	       (!root ||
		kh_idmap_plan(&idmap, &view, KH_SANDBOX_HOST_UID, KH_SANDBOX_HOST_GID, err)) &&
	       kh_child_try(try_it, &trial, err);
}
