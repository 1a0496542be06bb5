/*
 * review_apply.c - applies one change of a review to the workspace, or discards it
 *
 * A file is written beside its place under a temporary name and renamed over it, so that there is
 * always either the old or the new one, and an interrupted command can be repeated. Folders on the
 * path are opened through no symbolic link and into no other mount. Of a mode only the permissions
 * are applied: never set-ID bits, and no new write permission for others. A file of the agent's own
 * gets the owner and group of the replaced file, or of the folder.
 *
 * An applied change is recorded, and removed from the upper folder if nothing else hides the
 * workspace there, so that a later run sees the workspace's own file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "review_internal.h"

/* Both sides of a review, for one change. */
struct sides {
	const struct kh_review *review;
	const struct kh_change *change;
	int workspace, upper;
	struct kh_err *err;
};

static void sides_fini(struct sides *s)
{
	if (s->workspace >= 0)
		close(s->workspace);
	if (s->upper >= 0)
		close(s->upper);
}

static bool sides_open(struct sides *s, const struct kh_review *review,
		       const struct kh_change *change, struct kh_err *err)
{
	*s = (struct sides){ review, change, -1, -1, err };
	s->workspace = kh_review_workspace(review, err);
	s->upper = s->workspace < 0 ? -1 : kh_review_upper(review, err);
	return s->upper >= 0;
}

static bool fail(const struct sides *s)
{
	return kh_err_sys(s->err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(s->change->path));
}

static bool refuse(const struct sides *s, const char *why)
{
	return kh_err_set(s->err, KH_ERR_USAGE, "%s: %s", kh_esc_str(s->change->path), why);
}

static bool refuse_changed(const struct sides *s)
{
	return refuse(s, "the workspace's own changed at this moment (look again)");
}

static int open_side(int root, const char *path)
{
	int fd = kh_review_beneath_open(root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		errno = EINVAL;
		return -1;
	}
	return fd;
}

int kh_review_open_was(const struct kh_review *review, const struct kh_change *change)
{
	kh_auto_close int root = kh_review_workspace(review, NULL);
	return root < 0 ? -1 : open_side(root, change->path);
}

int kh_review_open_is(const struct kh_review *review, const struct kh_change *change)
{
	kh_auto_close int root = kh_review_upper(review, NULL);
	return root < 0 ? -1 : open_side(root, change->path);
}

/* ---- putting something in a place ---- */

struct putting {
	int from;		 /* the tree that has it */
	const char *path;	 /* there */
	const struct stat *what; /* what was looked at there */
	int parent;		 /* where it goes, */
	const char *name;	 /* under this name */
	mode_t mode;
	struct kh_review_ids owner;
	bool fresh;		  /* nothing is there, and nothing is replaced */
	const struct stat *there; /* else what was looked at under that name, and no other thing */
	char temporary[40];
};

static bool is_unchanged(const struct stat *was, const struct stat *now)
{
	if (!was->st_mode || !now->st_mode)
		return was->st_mode == now->st_mode;
	/* Of a folder all else changes with what is in it. */
	return kh_review_owner_is_same(was, now) &&
	       (S_ISDIR(was->st_mode) ||
		(was->st_mode == now->st_mode && was->st_size == now->st_size &&
		 was->st_ctim.tv_sec == now->st_ctim.tv_sec &&
		 was->st_ctim.tv_nsec == now->st_ctim.tv_nsec));
}

/* ESTALE: somebody who writes to the workspace has put another thing in its place. */
static bool is_still_there(const struct putting *p, const struct stat *now)
{
	if (is_unchanged(p->there, now))
		return true;
	errno = ESTALE;
	return false;
}

/* By the descriptor: under the name somebody who writes to the workspace could put another thing.
 */
static bool own(const struct putting *p, int fd)
{
	return !p->owner.set || fchownat(fd, "", p->owner.uid, p->owner.gid, AT_EMPTY_PATH) == 0 ||
	       /* A group that keyhole's user is not in. */
	       (errno == EPERM && geteuid() != 0);
}

static bool write_file(const struct putting *p)
{
	struct stat st;
	kh_auto_close int from = open_side(p->from, p->path);
	if (from < 0 || fstat(from, &st) != 0)
		return false;
	if (!kh_review_owner_is_same(p->what, &st)) {
		errno = ESTALE;
		return false;
	}
	kh_auto_close int to = openat(p->parent, p->temporary,
				      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return to >= 0 && kh_copy_content(from, to) && own(p, to) &&
	       fchmod(to, p->mode & 0777) == 0;
}

static bool write_link(const struct putting *p)
{
	kh_auto_free char *text = kh_review_beneath_link(p->from, p->path);
	if (!text || symlinkat(text, p->parent, p->temporary) != 0)
		return false;
	kh_auto_close int made = openat(p->parent, p->temporary, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	/* What is not the link that was just made keeps its owner. */
	return made >= 0 && fstat(made, &st) == 0 &&
	       (!S_ISLNK(st.st_mode) || st.st_uid != geteuid() || st.st_nlink > 1 || own(p, made));
}

/* Owner and mode go to the folder that was made, or looked at: whatever has its name by now. */
static bool put_folder(const struct putting *p)
{
	struct stat st;
	if (p->fresh && mkdirat(p->parent, p->name, 0700) != 0)
		return false;
	kh_auto_close int made = kh_review_open_made(p->parent, p->name, p->fresh);
	if (made < 0 || (!p->fresh && (fstat(made, &st) != 0 || !is_still_there(p, &st))))
		return false;
	return own(p, made) && kh_file_set_mode(made, p->mode & 0777);
}

/* To write a large file takes long. */
static bool place(const struct putting *p)
{
	struct stat now;
	if (!p->fresh && (fstatat(p->parent, p->name, &now, AT_SYMLINK_NOFOLLOW) != 0 ||
			  !is_still_there(p, &now)))
		return false;
	return renameat2(p->parent, p->temporary, p->parent, p->name,
			 p->fresh ? RENAME_NOREPLACE : 0) == 0;
}

static bool put(struct putting *p)
{
	if (S_ISDIR(p->mode))
		return put_folder(p);
	/* One that somebody was interrupted with. */
	if (unlinkat(p->parent, p->temporary, 0) != 0 && errno != ENOENT)
		return false;
	bool ok = S_ISLNK(p->mode) ? write_link(p) : S_ISREG(p->mode) && write_file(p);
	ok = ok && place(p);
	int saved = errno;
	if (!ok)
		(void)unlinkat(p->parent, p->temporary, 0);
	errno = saved;
	return ok;
}

static void begin(struct putting *p, const struct sides *s)
{
	snprintf(p->temporary, sizeof(p->temporary), ".keyhole-%s", s->review->id);
}

/* ---- to the workspace ---- */

/* `was`: st_mode 0: nothing was there. A folder that was there keeps its owner. */
static struct kh_review_ids owner_of(const struct stat *was, const struct stat *is, int parent)
{
	struct stat st = *was;
	if ((!st.st_mode && fstat(parent, &st) != 0) || S_ISDIR(was->st_mode))
		return (struct kh_review_ids){ 0 };
	if (geteuid() == 0)
		return kh_review_owner_back(&st, is);
	return (struct kh_review_ids){ was->st_mode != 0, (uid_t)-1, st.st_gid };
}

/* Folders above that the workspace lacks, which were not named themselves. */
static bool make_above(const struct sides *s, const char *path)
{
	char prefix[KH_REVIEW_PATH_BYTES];
	size_t len = strlen(path);
	if (len >= sizeof(prefix))
		return false;
	memcpy(prefix, path, len + 1);
	for (char *slash = strchr(prefix, '/'); slash; slash = strchr(slash + 1, '/')) {
		struct stat st;
		*slash = '\0';
		if (kh_review_beneath_stat(s->workspace, prefix, &st) != 0) {
			struct putting p = { .from = -1, .path = prefix, .fresh = true };
			kh_auto_close int parent =
				kh_review_beneath_parent(s->workspace, prefix, &p.name);
			p.parent = parent;
			if (parent < 0 || kh_review_beneath_stat(s->upper, prefix, &st) != 0 ||
			    !S_ISDIR(st.st_mode))
				return false;
			p.mode = S_IFDIR | kh_change_mode(&(struct kh_change){ .is = st });
			p.owner = owner_of(&(struct stat){ 0 }, &st, parent);
			if (!put_folder(&p) && errno != EEXIST)
				return false;
		}
		*slash = '/';
	}
	return true;
}

static bool is_hidden_above(const struct sides *s, const char *path)
{
	char prefix[KH_REVIEW_PATH_BYTES];
	size_t len = strlen(path);
	if (len >= sizeof(prefix))
		return true;
	memcpy(prefix, path, len + 1);
	for (char *slash = strchr(prefix, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (kh_upper_is_opaque(s->upper, prefix))
			return true;
		*slash = '/';
	}
	return false;
}

/* Of a name of the upper folder nothing stays that is not a folder; `gone`: only where it says that
 * the name is gone, and not what the agent put in its place. */
static bool clear_upper(const struct sides *s, const char *path, bool gone)
{
	const char *name;
	struct stat st;
	kh_auto_close int parent = kh_review_beneath_parent(s->upper, path, &name);
	if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
	bool whiteout = S_ISCHR(st.st_mode) && st.st_rdev == 0;
	return S_ISDIR(st.st_mode) || (gone && !whiteout) || unlinkat(parent, name, 0) == 0;
}

static bool note(const struct sides *s)
{
	struct kh_base_writer base = { 0 };
	struct stat now, copy;
	kh_auto_free char *path = kh_strf("%s/" KH_REVIEW_BASE, s->review->path);
	bool there = kh_review_beneath_stat(s->workspace, s->change->path, &now) == 0;
	bool copied = !s->review->overlay &&
		      kh_review_beneath_stat(s->upper, s->change->path, &copy) == 0;
	return path && kh_base_create(&base, path, true, s->err) &&
	       kh_base_note(&base, s->change->path, there ? &now : NULL, copied ? &copy : NULL) &&
	       kh_base_finish(&base, s->err);
}

static bool done(const struct sides *s)
{
	if (!note(s))
		return fail(s);
	if (!s->review->overlay || is_hidden_above(s, s->change->path))
		return true;
	bool gone = s->change->kind == KH_CHANGE_DELETED;
	return clear_upper(s, s->change->path, gone) || fail(s);
}

static bool remove_ours(const struct sides *s, int parent, const char *name)
{
	bool folder = S_ISDIR(s->change->was.st_mode);
	if (unlinkat(parent, name, folder ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT)
		return true;
	if (errno == ENOTEMPTY || errno == EEXIST)
		return refuse(s, "the folder still contains files that are not deleted with it");
	return fail(s);
}

static bool put_theirs(const struct sides *s, int parent, const char *name)
{
	const struct kh_change *c = s->change;
	struct stat is;
	struct putting p = { .from = s->upper,
			     .path = c->path,
			     .what = &c->is,
			     .parent = parent,
			     .name = name,
			     .mode = (c->is.st_mode & S_IFMT) | kh_change_mode(c),
			     .owner = owner_of(&c->was, &c->is, parent),
			     .fresh = !c->was.st_mode,
			     .there = &c->was };
	begin(&p, s);
	if (kh_review_beneath_stat(s->upper, c->path, &is) != 0 || !is_unchanged(&c->is, &is))
		return refuse(s, "the review has changed meanwhile (look at it again)");
	if (put(&p))
		return true;
	if (errno == ESTALE)
		return refuse_changed(s);
	if (errno == EACCES && S_ISREG(c->is.st_mode) && !(c->is.st_mode & S_IRUSR))
		return refuse(s,
			      "the mode of the agent's file lets nobody read it (`chmod u+r` it in "
			      "another run of this review)");
	return fail(s);
}

bool kh_review_apply(const struct kh_review *review, const struct kh_change *change, bool force,
		     struct kh_err *err)
{
	struct sides s kh_cleanup(sides_fini) = { .workspace = -1, .upper = -1 };
	struct stat now;
	const char *name;
	if (!sides_open(&s, review, change, err))
		return false;
	if (change->bar != KH_BAR_NONE && change->bar != KH_BAR_PROTECTED &&
	    change->bar != KH_BAR_BULKY)
		return refuse(&s, kh_change_bar_text(change->bar));
	if (change->conflict && !force)
		return refuse(&s, "the workspace's own has changed since the run began");
	bool adds = change->kind != KH_CHANGE_DELETED;
	if (adds && !make_above(&s, change->path))
		return fail(&s);
	kh_auto_close int parent = kh_review_beneath_parent(s.workspace, change->path, &name);
	if (parent < 0)
		return !adds && errno == ENOENT ? done(&s) : fail(&s);
	if (fstatat(parent, name, &now, AT_SYMLINK_NOFOLLOW) != 0)
		now = (struct stat){ 0 };
	bool made_above =
		adds && S_ISDIR(change->is.st_mode) && !change->was.st_mode && S_ISDIR(now.st_mode);
	if (!made_above && !is_unchanged(&change->was, &now) && (adds || now.st_mode))
		return refuse_changed(&s);
	if (!made_above && !(adds ? put_theirs(&s, parent, name) : remove_ours(&s, parent, name)))
		return false;
	return done(&s);
}

/* ---- and back ---- */

/* What the workspace has, for the agent. */
static bool put_ours(const struct sides *s)
{
	const struct kh_change *c = s->change;
	struct stat there;
	const char *name;
	kh_auto_close int parent = kh_review_beneath_parent(s->upper, c->path, &name);
	if (parent < 0)
		return refuse(s, "the folder above was deleted (name that)");
	if (fstatat(parent, name, &there, AT_SYMLINK_NOFOLLOW) != 0)
		there = (struct stat){ 0 };
	struct putting p = { .from = s->workspace,
			     .path = c->path,
			     .what = &c->was,
			     .parent = parent,
			     .name = name,
			     .mode = c->was.st_mode,
			     .fresh = !there.st_mode,
			     .there = &there };
	struct kh_review_owner owner = { .change = geteuid() == 0 };
	if (fstat(s->workspace, &owner.workspace) != 0)
		return fail(s);
	p.owner = kh_review_owner_there(&owner, &c->was);
	begin(&p, s);
	if (put(&p))
		return true;
	return errno == ESTALE ? refuse_changed(s) : fail(s);
}

static bool remove_theirs(const struct sides *s)
{
	const char *name;
	kh_auto_close int parent = kh_review_beneath_parent(s->upper, s->change->path, &name);
	if (parent < 0)
		return errno == ENOENT || fail(s);
	return kh_tree_remove(parent, name, s->err);
}

/* An overlay shows the workspace's own again where it has nothing to say. */
static bool uncover(const struct sides *s)
{
	const struct kh_change *c = s->change;
	struct stat upper;
	enum kh_upper got = kh_upper_look(s->upper, c->path, &upper);
	if (got == KH_UPPER_NOTHING)
		return true;
	if (got == KH_UPPER_THERE && S_ISDIR(upper.st_mode))
		return put_ours(s);
	if (kh_review_beneath_stat(s->upper, c->path, &upper) != 0)
		return refuse(s, "the folder above was deleted (name that)");
	return clear_upper(s, c->path, false) || fail(s);
}

bool kh_review_drop(const struct kh_review *review, const struct kh_change *change,
		    struct kh_err *err)
{
	struct sides s kh_cleanup(sides_fini) = { .workspace = -1, .upper = -1 };
	if (!sides_open(&s, review, change, err))
		return false;
	if (!change->was.st_mode)
		return remove_theirs(&s);
	if (review->overlay && !is_hidden_above(&s, change->path))
		return uncover(&s);
	return put_ours(&s) && (note(&s) || fail(&s));
}

bool kh_review_drop_group(const struct kh_review *review, const struct kh_change_group *group,
			  bool dry_run, struct kh_err *err)
{
	const struct kh_change change = { .path = group->path };
	struct sides s kh_cleanup(sides_fini) = { .workspace = -1, .upper = -1 };
	struct stat st;
	if (!sides_open(&s, review, &change, err))
		return false;
	if (kh_review_beneath_stat(s.workspace, group->path, &st) == 0 ||
	    (errno != ENOENT && errno != ENOTDIR))
		return refuse(&s, "a git folder of the workspace's own is discarded only with the "
				  "review");
	return dry_run || remove_theirs(&s);
}
