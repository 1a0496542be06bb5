/*
 * review_look.c - lists the changes of an agent in a workspace under review, with bars and
 * conflicts
 *
 * In an upper folder each entry tells what happened to a name: a file replaces the lower one, a
 * device 0:0 marks it as deleted, a marked (opaque) folder hides the lower one. In a copy, inode
 * number and ctime, which the agent can't set, identify files that were not written to since they
 * were copied. In both cases a candidate is a change only if it differs from the workspace's
 * current file; if the workspace's file has changed since the agent began, it is a conflict.
 *
 * It runs nothing of the agent's, and no git.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "review_internal.h"

struct look {
	const struct kh_review *review;
	int workspace, upper;
	struct kh_base base;
	char *const *names;
	struct kh_changes *out;
	struct kh_review_groups groups;
	char *opaque; /* the outermost folder that hides what is below, at the moment; NULL */
	struct kh_err *err;
};

static void look_fini(struct look *l)
{
	if (l->workspace >= 0)
		close(l->workspace);
	if (l->upper >= 0)
		close(l->upper);
	kh_base_fini(&l->base);
	kh_review_groups_fini(&l->groups);
	free(l->opaque);
}

static void change_fini(struct kh_change *change)
{
	free(change->path);
	free(change->was_link);
	free(change->is_link);
}

void kh_changes_fini(struct kh_changes *changes)
{
	for (size_t i = 0; i < changes->n; i++)
		change_fini(&changes->list[i]);
	for (size_t i = 0; i < changes->n_groups; i++)
		free(changes->groups[i].path);
	free(changes->list);
	free(changes->groups);
	*changes = (struct kh_changes){ 0 };
}

/* ---- the lists ---- */

static bool no_memory(struct look *l)
{
	return kh_err_set(l->err, KH_ERR_NO_MEMORY, "a review: no memory");
}

/* Takes what the change holds over. */
static bool add(struct look *l, struct kh_change *change)
{
	struct kh_changes *c = l->out;
	bool ok = true;
	if (c->n == KH_LIMIT_REVIEW_CHANGES)
		ok = kh_err_set(l->err, KH_ERR_USAGE,
				"more than %d changes (name some of them: a folder, or files)",
				KH_LIMIT_REVIEW_CHANGES);
	if (ok && c->n == c->alloc) {
		size_t alloc = c->alloc ? c->alloc * 2 : 64;
		struct kh_change *list = reallocarray(c->list, alloc, sizeof(*list));
		if (list) {
			c->list = list;
			c->alloc = alloc;
		} else {
			ok = no_memory(l);
		}
	}
	if (ok)
		c->list[c->n++] = *change;
	else
		change_fini(change);
	return ok;
}

/* ---- one name ---- */

/* What is a hole in both of them is not read: it may have terabytes. */
static bool is_same_content(struct look *l, const char *path, off_t size)
{
	static char ours[64 * 1024], theirs[64 * 1024];
	kh_auto_close int a =
		kh_review_beneath_open(l->workspace, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	kh_auto_close int b =
		kh_review_beneath_open(l->upper, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	if (a < 0 || b < 0)
		return false;
	for (off_t at = 0; at < size;) {
		off_t next_a = kh_copy_next_data(a, at, size);
		off_t next_b = kh_copy_next_data(b, at, size);
		at = next_a < next_b ? next_a : next_b;
		ssize_t n = pread(a, ours, sizeof(ours), at);
		ssize_t m = pread(b, theirs, sizeof(theirs), at);
		if (n < 0 || n != m || memcmp(ours, theirs, (size_t)n) != 0)
			return false;
		if (n == 0)
			break;
		at += n;
	}
	return true;
}

mode_t kh_change_mode(const struct kh_change *change)
{
	const struct stat *was = &change->was, *is = &change->is;
	bool was_open = ((was->st_mode ^ is->st_mode) & S_IFMT) == 0 && (was->st_mode & S_IWOTH);
	/* A link has no permissions, and says that it has all. */
	return is->st_mode & 0777 & ~(was_open || S_ISLNK(is->st_mode) ? 0 : (mode_t)S_IWOTH);
}

/* 0: it is no change. */
static enum kh_change_kind kind_of(struct look *l, const struct kh_change *c)
{
	const struct stat *was = &c->was, *is = &c->is;
	if (!is->st_mode)
		return was->st_mode ? KH_CHANGE_DELETED : 0;
	if (!was->st_mode)
		return KH_CHANGE_ADDED;
	if ((was->st_mode ^ is->st_mode) & S_IFMT)
		return KH_CHANGE_CHANGED;
	if (S_ISLNK(is->st_mode))
		return c->was_link && c->is_link && strcmp(c->was_link, c->is_link) == 0
			       ? 0
			       : KH_CHANGE_CHANGED;
	if (S_ISREG(is->st_mode) &&
	    (was->st_size != is->st_size || !is_same_content(l, c->path, is->st_size)))
		return KH_CHANGE_CHANGED;
	return kh_change_mode(c) == (was->st_mode & 0777) ? 0 : KH_CHANGE_MODE;
}

static bool is_absence(int sys)
{
	return sys == ENOENT || sys == ENOTDIR || sys == ELOOP;
}

/* Is it one that is asked for? */
static bool is_asked_for(const struct look *l, const char *path)
{
	return !l->names || !l->names[0] || kh_review_bar_is_named(path, l->names);
}

static bool is_at_or_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* The folder itself stays behind too: nobody could look into it in the workspace either. */
static bool add_unreadable(struct look *l, const char *path)
{
	struct kh_changes *all = l->out;
	for (size_t i = all->n; i > 0 && is_at_or_below(all->list[i - 1].path, path); i--)
		if (strcmp(all->list[i - 1].path, path) == 0) {
			all->list[i - 1].bar = KH_BAR_UNREADABLE;
			return true;
		}
	struct kh_change c = { .path = strdup(path),
			       .kind = KH_CHANGE_CHANGED,
			       .bar = KH_BAR_UNREADABLE };
	return c.path ? add(l, &c) : no_memory(l);
}

static bool emit(struct look *l, struct kh_change *c)
{
	enum kh_change_bar bar;
	size_t group = kh_review_bar_group(c->path, &bar);
	bool grouped =
		bar == KH_BAR_GIT ||
		(bar == KH_BAR_BULKY && (!l->names || !kh_review_bar_is_named(c->path, l->names)));
	c->kind = kind_of(l, c);
	if (!c->kind || !is_asked_for(l, c->path)) {
		change_fini(c);
		return true;
	}
	if (grouped) {
		bool ok = kh_review_groups_count(&l->groups, l->out, c->path, group, bar, l->err);
		change_fini(c);
		return ok;
	}
	c->bar = kh_review_bar_of(l->workspace, c->path, c->is.st_mode, c->is_link);
	c->conflict = !kh_base_is_same(kh_base_find(&l->base, c->path), &c->was);
	return add(l, c);
}

static bool delete_tree(struct look *l, const char *path);

/* What the agent has of this name now; st_mode 0: nothing. */
static bool judge(struct look *l, const char *path, const struct stat *is)
{
	struct kh_change c = { .path = strdup(path), .is = *is };
	if (!c.path)
		return no_memory(l);
	if (kh_review_beneath_stat(l->workspace, path, &c.was) != 0) {
		if (!is_absence(errno)) {
			change_fini(&c);
			return add_unreadable(l, path);
		}
		c.was.st_mode = 0;
	}
	bool replaces =
		c.was.st_mode && is->st_mode && S_ISDIR(c.was.st_mode) != S_ISDIR(is->st_mode);
	if (replaces) {
		static const struct stat nothing = { 0 };
		/* In a copy, what was in it is found by the notes. */
		bool whole = l->review->overlay && S_ISDIR(c.was.st_mode);
		struct kh_change gone = { .path = strdup(path), .was = c.was, .is = nothing };
		bool good = gone.path && (!whole || delete_tree(l, path));
		if (!good)
			change_fini(&gone);
		if (!good || !emit(l, &gone)) {
			change_fini(&c);
			return false;
		}
		bool conflict = !kh_base_is_same(kh_base_find(&l->base, path), &c.was);
		c.was.st_mode = 0;
		size_t before = l->out->n;
		if (!emit(l, &c))
			return false;
		if (l->out->n > before)
			l->out->list[before].conflict = conflict;
		return true;
	}
	if (S_ISLNK(c.was.st_mode))
		c.was_link = kh_review_beneath_link(l->workspace, path);
	if (S_ISLNK(is->st_mode))
		c.is_link = kh_review_beneath_link(l->upper, path);
	return emit(l, &c);
}

static bool judge_gone(struct look *l, const char *path)
{
	static const struct stat nothing = { 0 };
	return judge(l, path, &nothing);
}

/* ---- folders of the workspace of which the agent sees nothing any more ---- */

static enum kh_walk_order on_unless(bool failed)
{
	return failed ? KH_WALK_STOP : KH_WALK_ON;
}

static enum kh_walk_order gone_entry(void *arg, const char *path, const struct stat *st)
{
	(void)st;
	return on_unless(!judge_gone(arg, path));
}

static enum kh_walk_order unreadable_entry(void *arg, const char *path, int sys)
{
	(void)sys;
	return on_unless(!add_unreadable(arg, path));
}

/* Without the folder itself. */
static bool delete_tree(struct look *l, const char *path)
{
	struct kh_tree_walker walker = { .entry = gone_entry,
					 .unreadable = unreadable_entry,
					 .arg = l };
	return kh_tree_walk(&walker, l->workspace, path, l->err);
}

static bool gone(struct look *l, const char *path)
{
	struct stat was;
	bool folder = kh_review_beneath_stat(l->workspace, path, &was) == 0 && S_ISDIR(was.st_mode);
	return judge_gone(l, path) && (!folder || delete_tree(l, path));
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* Of a folder that hides the one below: what is not in it is gone. */
static enum kh_walk_order hidden_entry(void *arg, const char *path, const struct stat *st)
{
	struct look *l = arg;
	struct stat is;
	if (kh_review_beneath_stat(l->upper, path, &is) == 0 && !is_whiteout(&is))
		return S_ISDIR(is.st_mode) && S_ISDIR(st->st_mode) ? KH_WALK_ON : KH_WALK_SKIP;
	return on_unless(!judge_gone(l, path));
}

static bool hide(struct look *l, const char *path)
{
	struct stat was;
	size_t len = l->opaque ? strlen(l->opaque) : 0;
	if (l->opaque && strncmp(path, l->opaque, len) == 0 && path[len] == '/')
		return true;
	if (!kh_upper_is_opaque(l->upper, path))
		return true;
	free(l->opaque);
	l->opaque = strdup(path);
	if (!l->opaque)
		return no_memory(l);
	if (kh_review_beneath_stat(l->workspace, path, &was) != 0 || !S_ISDIR(was.st_mode))
		return true;
	struct kh_tree_walker walker = { .entry = hidden_entry,
					 .unreadable = unreadable_entry,
					 .arg = l };
	return kh_tree_walk(&walker, l->workspace, path, l->err);
}

/* ---- the two kinds of reviews ---- */

static enum kh_walk_order leave_behind(struct look *l, const char *path)
{
	return add_unreadable(l, path) ? KH_WALK_SKIP : KH_WALK_STOP;
}

static enum kh_walk_order upper_entry(void *arg, const char *path, const struct stat *st)
{
	struct look *l = arg;
	if (S_ISDIR(st->st_mode) && kh_review_bar_is_too_deep(l->review, path, true))
		return leave_behind(l, path);
	if (is_whiteout(st)) {
		size_t len = l->opaque ? strlen(l->opaque) : 0;
		bool known = l->opaque && strncmp(path, l->opaque, len) == 0 && path[len] == '/';
		return on_unless(!known && !gone(l, path));
	}
	return on_unless(!judge(l, path, st) || (S_ISDIR(st->st_mode) && !hide(l, path)));
}

static enum kh_walk_order copy_entry(void *arg, const char *path, const struct stat *st)
{
	struct look *l = arg;
	if (S_ISDIR(st->st_mode) && kh_review_bar_is_too_deep(l->review, path, true))
		return leave_behind(l, path);
	if (kh_base_is_copy(kh_base_find(&l->base, path), st))
		return KH_WALK_ON;
	return on_unless(!judge(l, path, st));
}

static bool look_for_gone(struct look *l)
{
	struct stat st;
	bool ok = true;
	for (size_t i = 0; ok && i < l->base.n; i++) {
		const char *path = l->base.rows[i].path;
		if (l->base.rows[i].entry.copy_ino &&
		    kh_review_beneath_stat(l->upper, path, &st) != 0 && is_absence(errno))
			ok = judge_gone(l, path);
	}
	return ok;
}

static int by_path(const void *a, const void *b)
{
	const struct kh_change *x = a, *y = b;
	int order = strcmp(x->path, y->path);
	/* What was there goes before something else can come. */
	return order ? order : (y->kind == KH_CHANGE_DELETED) - (x->kind == KH_CHANGE_DELETED);
}

/* What stands in the place of a folder, and is never taken over, does not take that away. */
static void keep_replaced(struct kh_changes *changes)
{
	for (size_t i = 1; i < changes->n; i++) {
		const struct kh_change *c = &changes->list[i];
		struct kh_change *old = &changes->list[i - 1];
		if ((c->bar != KH_BAR_LINK && c->bar != KH_BAR_SPECIAL) ||
		    strcmp(old->path, c->path) != 0)
			continue;
		old->bar = c->bar;
		size_t len = strlen(c->path);
		for (size_t j = i + 1;
		     j < changes->n && strncmp(changes->list[j].path, c->path, len) == 0; j++)
			if (is_at_or_below(changes->list[j].path, c->path))
				changes->list[j].bar = c->bar;
	}
}

/* ---- folders with the shape of a git folder ---- */

/*
 * Is the change in a git folder by its shape, or one of such a folder (its mode)? At the top, the
 * rest is the project.
 */
static bool bar_shape(struct look *l, struct kh_git_shapes *shapes, struct kh_change *c,
		      bool *grouped)
{
	bool is_folder = S_ISDIR(c->is.st_mode) || S_ISDIR(c->was.st_mode), found;
	size_t len;
	if (!kh_git_shapes_find(shapes, c->path, is_folder, &found, &len))
		return false;
	if (found)
		c->bar = KH_BAR_GIT;
	*grouped = found && len > 0;
	return !*grouped ||
	       kh_review_groups_count(&l->groups, l->out, c->path, len, KH_BAR_GIT, l->err);
}

static bool bar_shapes(struct look *l)
{
	struct kh_git_shapes shapes kh_cleanup(kh_git_shapes_fini);
	bool ok = kh_git_shapes_init(&shapes, l->workspace, l->upper, l->out);
	size_t kept = 0;
	for (size_t i = 0; ok && i < l->out->n; i++) {
		struct kh_change *c = &l->out->list[i];
		bool shaped = false;
		ok = bar_shape(l, &shapes, c, &shaped);
		if (shaped)
			change_fini(c);
		else
			l->out->list[kept++] = *c;
	}
	if (ok)
		l->out->n = kept;
	return ok || no_memory(l);
}

bool kh_review_look(const struct kh_review *review, char *const *names, struct kh_changes *out,
		    struct kh_err *err)
{
	struct look l kh_cleanup(look_fini) = { .review = review,
						.workspace = -1,
						.upper = -1,
						.names = names,
						.out = out,
						.err = err };
	*out = (struct kh_changes){ 0 };
	l.workspace = kh_review_workspace(review, err);
	l.upper = l.workspace < 0 ? -1 : kh_review_upper(review, err);
	kh_auto_free char *base = kh_strf("%s/" KH_REVIEW_BASE, review->path);
	if (l.upper < 0)
		return false;
	if (!base)
		return no_memory(&l);
	if (!kh_base_load(&l.base, base, err))
		return false;
	struct kh_tree_walker walker = { .entry = review->overlay ? upper_entry : copy_entry,
					 .unreadable = unreadable_entry,
					 .arg = &l };
	if (!kh_tree_walk(&walker, l.upper, "", err) || (!review->overlay && !look_for_gone(&l)))
		return false;
	if (out->n > 1)
		qsort(out->list, out->n, sizeof(*out->list), by_path);
	keep_replaced(out);
	return kh_review_bar_reads(review, out, err) && bar_shapes(&l);
}
