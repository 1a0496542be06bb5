/*
 * after_config.c - judges a git configuration after a run
 *
 * A configuration stays if each of its settings is harmless, or is the user's own of before. Else
 * the whole file is set aside, and one with these settings takes its place.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "after_internal.h"
#include "git_before.h"
#include "git_config.h"
#include "git_path.h"
#include "git_remote.h"
#include "leads.h"
#include "tree_reads.h"

struct sifted {
	struct kh_after *after;
	bool only_leads; /* it says what it said before, and may say it */
	const char *path, *git_dir, *common_dir;
	unsigned worktrees;
	struct kh_buf remotes; /* that have an address which is harmless: names, each with a NUL */
	struct kh_buf kept;
	struct kh_buf first; /* the first key that is not harmless */
};

/* A remote of this file: git takes such a name for no path. */
static bool is_remote(const struct sifted *s, const char *name)
{
	struct kh_slice all = kh_buf_view(&s->remotes);
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '\0', at);
		if (kh_slice_eq(kh_slice_sub(all, at, end), kh_slice_str(name)))
			return true;
		at = end + 1;
	}
	return false;
}

/* A repository on this host that is fetched from is one in the workspace, by its whole path: whence
 * git reads another depends on where somebody stands. */
static bool is_remote_inside(const struct sifted *s, const struct kh_git_config_entry *entry)
{
	const char *path = kh_git_config_local(entry);
	if (!path || strcmp(path, ".") == 0)
		return true;
	if (strcmp(entry->section, "branch") == 0 && is_remote(s, path))
		return true;
	return kh_git_remote_is_inside(s->after->root, s->after->root_fd, path);
}

/* One that was there before, and may name what it likes: does it name a place in the workspace
 * where the agent put a link? */
static bool is_remote_as_before(const struct sifted *s, const struct kh_git_config_entry *entry)
{
	const char *root = s->after->root;
	kh_auto_free char *path = kh_leads_remote(s->git_dir, entry);
	return !path || !kh_git_holds(root, path) ||
	       kh_git_remote_is_inside(root, s->after->root_fd, path) ||
	       kh_git_remote_is_absent(path);
}

/* The user's own, in this file, before the run. */
static bool was_set(const struct sifted *s, const struct kh_git_config_entry *entry)
{
	unsigned char digest[KH_CONCERN_DIGEST_BYTES];
	return kh_git_before_digest(s->path, entry, digest) &&
	       kh_after_was_there(s->after, digest) && is_remote_as_before(s, entry);
}

static bool may_stay(const struct sifted *s, const struct kh_git_config_entry *entry)
{
	return (kh_git_config_is_harmless(entry) && is_remote_inside(s, entry)) ||
	       was_set(s, entry);
}

static bool note_remote(void *arg, const struct kh_git_config_entry *entry)
{
	struct sifted *s = arg;
	bool good = strcmp(entry->section, "remote") == 0 && entry->subsection &&
		    strcmp(entry->name, "url") == 0 && may_stay(s, entry);
	return !good ||
	       kh_buf_append(&s->remotes, entry->subsection, strlen(entry->subsection) + 1);
}

/* Does the file in the work tree lead back to the git folder? git writes one for a submodule. In
 * any other folder, above all in a git folder, a checkout would write what git runs. */
static bool is_gits_worktree(const struct sifted *s, const char *tree)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct stat there, here;
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	kh_auto_close int dir = open(tree, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || !kh_concern_read(dir, ".git", &text) ||
	    kh_concern_is_in_git_folder(s->after->root, tree))
		return false;
	kh_auto_free char *back = kh_git_pointed(kh_buf_view(&text), "gitdir: ");
	return back && kh_after_leads_inside(s->after, tree, kh_slice_str(back)) &&
	       fstatat(dir, back, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       stat(s->git_dir, &here) == 0 && there.st_dev == here.st_dev &&
	       there.st_ino == here.st_ino;
}

static bool is_worktree_harmless(struct sifted *s, const char *value)
{
	kh_auto_free char *tree = kh_path_join(s->git_dir, value);
	/* More than are followed are not: git takes the last one. */
	return tree && ++s->worktrees <= KH_LIMIT_SURVEY_LEADS &&
	       kh_after_leads_inside(s->after, s->git_dir, kh_slice_str(value)) &&
	       (s->only_leads || is_gits_worktree(s, tree));
}

static bool sift(void *arg, const struct kh_git_config_entry *entry)
{
	struct sifted *s = arg;
	bool harmless = kh_git_config_is_worktree(entry) ? is_worktree_harmless(s, entry->value)
			: s->only_leads			 ? is_remote_as_before(s, entry)
							 : may_stay(s, entry);
	if (harmless && kh_git_config_is_worktree(entry)) {
		kh_auto_free char *tree = kh_path_join(s->git_dir, entry->value);
		if (tree && s->after->reads.len > 0)
			kh_after_judge_tree(s->after, tree, s->common_dir);
	}
	/* What is not judged stays, and the walk says so. */
	if (kh_deadline_passed(s->after->deadline))
		return false;
	if (harmless) {
		size_t was = kh_buf_len(&s->kept);
		if (kh_git_config_write(&s->kept, entry))
			return true;
		kh_buf_truncate(&s->kept, was);
		return false;
	}
	if (kh_buf_len(&s->first) == 0)
		(void)kh_buf_printf(&s->first, "%s%s%s.%s", entry->section,
				    entry->subsection ? "." : "",
				    entry->subsection ? entry->subsection : "", entry->name);
	return true;
}

bool kh_after_judge_config(struct kh_after *after, const struct kh_concern *c, bool only_leads)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct sifted s = { .after = after,
			    .only_leads = only_leads,
			    .path = c->path,
			    .git_dir = c->folder->path };
	kh_auto_free char *common = kh_tree_git_dir(c->folder->path);
	s.common_dir = common;
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	/* It is read before the next run. */
	kh_buf_init(&s.kept, KH_LIMIT_SURVEY_FILE_BYTES);
	kh_buf_init(&s.first, 512);
	kh_buf_init(&s.remotes, KH_LIMIT_SURVEY_FILE_BYTES);
	bool readable = kh_concern_read(c->folder->fd, c->entry->name, &text);
	if (readable)
		(void)kh_git_config_read(kh_buf_view(&text), note_remote, &s);
	readable = readable && kh_git_config_read(kh_buf_view(&text), sift, &s);
	bool judged = !kh_deadline_passed(after->deadline);
	if (judged && ((!readable && !only_leads) || kh_buf_len(&s.first) > 0)) {
		struct kh_slice kept = kh_buf_view(&s.kept);
		const char *first = kh_buf_cstr(&s.first);
		kh_auto_free char *why = kh_strf(
			readable
				? "a git configuration with %s, which is not known to be harmless; "
				  "its harmless part stays"
				: "a git configuration that git may read otherwise than keyhole%s; "
				  "what was read of it and is harmless stays",
			readable && first ? kh_esc_str(first) : "");
		kh_aside_take(&after->aside, c->folder->fd, c->entry->name, c->path,
			      why ? why : "a git configuration", &kept);
	}
	kh_buf_fini(&s.kept);
	kh_buf_fini(&s.first);
	kh_buf_fini(&s.remotes);
	return true;
}
