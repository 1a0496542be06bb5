/*
 * review_names.c - which names a commit of an agent's would bring into the workspace
 *
 * The files of a review are shown one by one; what lies in a commit alone is in no file of them,
 * and a merge puts it into the workspace. So the tree of each ref that came over is compared with
 * that of the repository's HEAD, by names, and the names are judged like those of files.
 */
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "review_git.h"
#include "review_internal.h"

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "commits: no memory");
}

static enum kh_change_kind kind_of(struct kh_slice status)
{
	return kh_slice_eq(status, KH_SLICE("A"))   ? KH_CHANGE_ADDED
	       : kh_slice_eq(status, KH_SLICE("D")) ? KH_CHANGE_DELETED
						    : KH_CHANGE_CHANGED;
}

static bool add(struct kh_changes *out, struct kh_slice status, struct kh_slice path,
		struct kh_err *err)
{
	if (out->n == out->alloc) {
		size_t alloc = out->alloc ? 2 * out->alloc : 64;
		struct kh_change *list = reallocarray(out->list, alloc, sizeof(*list));
		if (!list)
			return no_memory(err);
		out->list = list;
		out->alloc = alloc;
	}
	char *name = kh_slice_dup(path);
	if (!name)
		return no_memory(err);
	out->list[out->n++] = (struct kh_change){
		.path = name,
		.kind = kind_of(status),
		.bar = has_protected_part(name) ? KH_BAR_PROTECTED : KH_BAR_NONE,
	};
	return true;
}

/* "STATUS\0PATH\0…"; where all are new, only "PATH\0…". */
static bool read_names(struct kh_slice said, bool all_new, struct kh_changes *out,
		       struct kh_err *err)
{
	for (size_t at = 0; at < said.len;) {
		struct kh_slice status = KH_SLICE("A");
		if (!all_new) {
			size_t end = kh_slice_find(said, '\0', at);
			status = kh_slice_sub(said, at, end);
			at = end + 1;
		}
		size_t end = kh_slice_find(said, '\0', at);
		if (at >= said.len || end == said.len || end == at || status.len != 1 ||
		    out->n == KH_LIMIT_REVIEW_CHANGES)
			return kh_err_set(err, KH_ERR_SYSTEM,
					  "git's list of what a commit changes is too long, or "
					  "can't be understood");
		if (!add(out, status, kh_slice_sub(said, at, end), err))
			return false;
		at = end + 1;
	}
	return true;
}

static bool has_head(const struct kh_host_git *git)
{
	static const char *const args[] = { "rev-parse", "--verify", "--quiet", "HEAD^{tree}",
					    NULL };
	struct kh_buf said kh_cleanup(kh_buf_fini);
	kh_buf_init(&said, 4096);
	return kh_host_git(git, args, -1, &said, NULL);
}

bool kh_review_commit_names(const struct kh_review *review, const char *object,
			    struct kh_changes *out, struct kh_err *err)
{
	struct kh_host_git git kh_cleanup(kh_host_git_fini) = { 0 };
	struct kh_buf said kh_cleanup(kh_buf_fini);
	kh_auto_free char *tree = kh_strf("%s^{tree}", object);
	kh_buf_init(&said, KH_LIMIT_REVIEW_NAMES_BYTES);
	*out = (struct kh_changes){ 0 };
	kh_auto_close int folder = kh_review_workspace(review, err);
	if (folder < 0 || !kh_host_git_open(&git, review->workspace, folder, err))
		return false;
	if (!tree || !git.dir)
		return no_memory(err);
	bool all_new = !has_head(&git);
	const char *const changed[] = { "diff-tree",	 "-r",		"-z", "--no-renames",
					"--name-status", "HEAD^{tree}", tree, NULL };
	const char *const all[] = { "ls-tree", "-r", "-z", "--name-only", tree, NULL };
	return kh_host_git(&git, all_new ? all : changed, -1, &said, err) &&
	       read_names(kh_buf_view(&said), all_new, out, err) && kh_bar_reads(review, out, err);
}
