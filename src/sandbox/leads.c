/*
 * leads.c - the folders that a file of git names, and where they really are
 *
 * Such a file may stay unchanged while a folder that it names is replaced by a symbolic link. So
 * the survey compares the resolved path as well as the file's content.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "git_config.h"
#include "git_path.h"
#include "git_remote.h"
#include "leads.h"

struct giving {
	const struct kh_concern *c;
	bool (*each)(void *, const char *, struct kh_slice);
	void *arg;
	unsigned n;
	bool too_many; /* more than are followed, or no time is left for more */
};

static bool give(struct giving *g, const char *folder, struct kh_slice target)
{
	if (++g->n > KH_LIMIT_SURVEY_LEADS || kh_deadline_passed(g->c->folder->deadline)) {
		g->too_many = true;
		return false;
	}
	return g->each(g->arg, folder, target);
}

static bool give_worktree(void *arg, const struct kh_git_config_entry *entry)
{
	struct giving *g = arg;
	return !kh_git_config_is_worktree(entry) ||
	       give(g, g->c->folder->path, kh_slice_str(entry->value));
}

static bool give_line(struct giving *g, struct kh_slice all, struct kh_slice prefix)
{
	struct kh_slice line = kh_slice_chomp(all);
	/* git would end the path at a NUL. It has no business there. */
	return kh_slice_has_prefix(line, prefix) && !memchr(all.ptr, '\0', all.len) &&
	       give(g, g->c->folder->path, kh_slice_sub(line, prefix.len, line.len));
}

static bool give_alternates(struct giving *g, struct kh_slice all)
{
	kh_auto_free char *objects = strdup(g->c->folder->path);
	if (!objects)
		return false;
	*strrchr(objects, '/') = '\0';
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '\n', at);
		struct kh_slice line = kh_slice_sub(all, at, end);
		/* A quoted one is read by other rules. */
		if (line.len > 0 && line.ptr[0] != '#' &&
		    (line.ptr[0] == '"' || !give(g, objects, line)))
			return false;
		at = end + 1;
	}
	return true;
}

static bool is_kind(enum kh_concern_kind kind)
{
	return kind == KH_CONCERN_CONFIG || kind == KH_CONCERN_GITFILE ||
	       kind == KH_CONCERN_COMMONDIR || kind == KH_CONCERN_ALTERNATES;
}

static bool give_all(struct giving *g)
{
	const struct kh_concern *c = g->c;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	if (!is_kind(c->kind))
		return true;
	if (!kh_concern_read(c->folder->fd, c->entry->name, &text))
		return false;
	struct kh_slice all = kh_buf_view(&text);
	if (c->kind == KH_CONCERN_CONFIG)
		return kh_git_config_read(all, give_worktree, g);
	if (c->kind == KH_CONCERN_ALTERNATES)
		return give_alternates(g, all);
	return give_line(g, all,
			 c->kind == KH_CONCERN_GITFILE ? KH_SLICE("gitdir: ") : KH_SLICE(""));
}

bool kh_leads_each(const struct kh_concern *c,
		   bool (*each)(void *arg, const char *folder, struct kh_slice target), void *arg)
{
	struct giving g = { .c = c, .each = each, .arg = arg };
	return give_all(&g);
}

struct where {
	struct kh_buf *out;
	bool failed;
};

static bool append_where(void *arg, const char *folder, struct kh_slice target)
{
	struct where *w = arg;
	kh_auto_free char *text = kh_slice_dup(target);
	kh_auto_free char *joined = text ? kh_path_join(folder, text) : NULL;
	kh_auto_free char *there = joined ? realpath(joined, NULL) : NULL;
	w->failed = w->failed || !joined || !kh_buf_append_str(w->out, there ? there : "nowhere") ||
		    !kh_buf_append_char(w->out, '\0');
	return !w->failed;
}

char *kh_leads_remote(const char *git_dir, const struct kh_git_config_entry *entry)
{
	const char *path = kh_git_config_local(entry);
	/* A branch names a remote like that. */
	if (!path || !*path || strcmp(path, ".") == 0 ||
	    (strcmp(entry->section, "branch") == 0 && !strchr(path, '/')))
		return NULL;
	struct kh_slice tree = kh_slice_str(git_dir);
	if (kh_slice_has_suffix(tree, KH_SLICE("/.git")))
		tree.len -= strlen("/.git");
	kh_auto_free char *folder = kh_slice_dup(tree);
	char *joined = folder ? kh_path_join(folder, path) : NULL;
	if (joined)
		kh_git_normalise(joined);
	return joined;
}

static bool append_remote(void *arg, const struct kh_git_config_entry *entry)
{
	struct giving *g = arg;
	struct where *w = g->arg;
	kh_auto_free char *path = kh_leads_remote(g->c->folder->path, entry);
	g->too_many = g->too_many || kh_deadline_passed(g->c->folder->deadline);
	w->failed = w->failed || (path && !kh_git_remote_where(path, w->out));
	return !w->failed && !g->too_many;
}

static void append_remotes(struct giving *g)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	if (g->c->kind == KH_CONCERN_CONFIG &&
	    kh_concern_read(g->c->folder->fd, g->c->entry->name, &text))
		(void)kh_git_config_read(kh_buf_view(&text), append_remote, g);
}

bool kh_leads_where(const struct kh_concern *c, struct kh_buf *out)
{
	struct where w = { .out = out };
	struct giving g = { .c = c, .each = append_where, .arg = &w };
	/* What can't be read is compared by its content alone. */
	(void)give_all(&g);
	append_remotes(&g);
	/* A link that is called .git. */
	if (c->kind == KH_CONCERN_LINK && kh_concern_is_dot_git(c->entry->name))
		(void)append_where(&w, c->folder->path, kh_slice_str(c->entry->name));
	return !w.failed && !g.too_many;
}
