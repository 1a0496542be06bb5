/*
 * review_bar.c - which of an agent's changes are not applied like the rest, by name or link text
 *
 * An agent's change to a git folder is never applied on the host, wherever the folder is. Folders
 * of installed packages have thousands of files that nobody reads; each is shown as one line unless
 * it is named.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "concern.h"
#include "concern_names.h"
#include "name_fold.h"
#include "protected.h"
#include "review_internal.h"
#include "review_reads.h"

static const char *const bulky[] = { "node_modules", ".venv", "venv", "__pycache__", ".tox" };

static enum kh_change_bar bar_of(struct kh_slice name)
{
	char room[KH_NAME_FOLD_ROOM];
	kh_auto_free char *text = kh_slice_dup(name);
	/* On some file systems, .GIT and git~1 are the same. */
	if (!text || strcmp(kh_name_fold(text, room), ".git") == 0)
		return KH_BAR_GIT;
	for (size_t i = 0; i < sizeof(bulky) / sizeof(bulky[0]); i++)
		if (strcmp(room, bulky[i]) == 0)
			return KH_BAR_BULKY;
	return KH_BAR_NONE;
}

/* VFAT and NTFS know each file by a short name too (VSCODE~1, MCP~1.JSO), and a share of Windows
 * may take a backslash for a slash: what such a name stands for only they can tell. */
static bool may_be_another(const char *name)
{
	char room[KH_NAME_FOLD_ROOM];
	name = kh_name_fold(name, room);
	size_t base = strcspn(name, ".");
	const char *tilde = base <= 8 ? memchr(name, '~', base) : NULL;
	size_t digits = tilde ? strspn(tilde + 1, "0123456789") : 0;
	return strchr(name, '\\') || (digits > 0 && tilde + 1 + digits == name + base &&
				      strlen(name + base) <= sizeof(".xxx") - 1);
}

/* Dots and blanks alone: where the last of them don't count, it may lead up. */
static bool is_blank(struct kh_slice name)
{
	char room[KH_NAME_FOLD_ROOM];
	kh_auto_free char *text = kh_slice_dup(name);
	return !text || !*kh_name_fold(text, room);
}

/* The same names as in a run, wherever they are; case does not count on every file system. The
 * folders that hold some count as a whole, except those of another purpose; `link`: what the link
 * stands for is nobody's to know, so there each of them counts. */
static bool is_protected(const char *above, const char *name, bool link)
{
	return may_be_another(name) || kh_concern_is_holder(name, link) ||
	       kh_protected_is_name(name) || (above && kh_concern_is_held(above, name));
}

static bool has_protected_part(const char *path, bool link)
{
	struct kh_slice all = kh_slice_str(path);
	kh_auto_free char *above = NULL;
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '/', at);
		char *part = kh_slice_dup(kh_slice_sub(all, at, end));
		bool found = !part || is_protected(above, part, link && end == all.len);
		free(above);
		above = part;
		if (found)
			return true;
		at = end + 1;
	}
	return false;
}

size_t kh_review_bar_group(const char *path, enum kh_change_bar *bar)
{
	struct kh_slice all = kh_slice_str(path);
	size_t found = 0;
	*bar = KH_BAR_NONE;
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '/', at);
		enum kh_change_bar one = bar_of(kh_slice_sub(all, at, end));
		/* The outermost; but git's is git's in a bulky one as well. */
		if (one == KH_BAR_GIT || (one == KH_BAR_BULKY && *bar == KH_BAR_NONE)) {
			*bar = one;
			found = end;
		}
		if (one == KH_BAR_GIT)
			break;
		at = end + 1;
	}
	return found;
}

_Static_assert(KH_LIMIT_REVIEW_DEPTH < KH_LIMIT_SURVEY_DEPTH,
	       "what is applied can be looked at by a survey");

bool kh_review_bar_is_too_deep(const struct kh_review *review, const char *path, bool is_folder)
{
	const char *slash = strrchr(path, '/');
	size_t len = is_folder ? strlen(path) : slash ? (size_t)(slash - path) : 0;
	int depth = len > 0;
	for (size_t i = 0; i < len; i++)
		depth += path[i] == '/';
	return depth > KH_LIMIT_REVIEW_DEPTH ||
	       strlen(review->workspace) + 1 + len + 1 > KH_LIMIT_SURVEY_PATH_BYTES;
}

bool kh_review_bar_is_named(const char *path, char *const *names)
{
	for (; names && *names; names++) {
		size_t len = strlen(*names);
		if (strncmp(path, *names, len) == 0 && (path[len] == '/' || path[len] == '\0'))
			return true;
	}
	return false;
}

/* "../" at its beginning leads up from where it is, which is known; after that a part of it may
 * be a link itself, so there "../" leads nobody knows where. */
bool kh_review_bar_link_stays(const char *path, const char *text)
{
	struct kh_slice all = kh_slice_str(text);
	size_t depth = 0;
	bool down = false;
	for (const char *c = path; *c; c++)
		depth += *c == '/';
	if (all.len == 0 || text[0] == '/')
		return false;
	for (size_t at = 0; at <= all.len;) {
		size_t end = kh_slice_find(all, '/', at);
		struct kh_slice part = kh_slice_sub(all, at, end);
		at = end + 1;
		if (part.len == 0 || kh_slice_eq(part, KH_SLICE(".")))
			continue;
		if (!kh_slice_eq(part, KH_SLICE(".."))) {
			down = true;
			if (bar_of(part) == KH_BAR_GIT || is_blank(part))
				return false;
		} else if (down || depth == 0) {
			return false;
		} else {
			depth--;
		}
	}
	return true;
}

enum leads { LEADS_INSIDE, LEADS_NOWHERE, LEADS_OUT };

/* Where a name of the workspace leads, through links of its own: into git's is out as well. */
static enum leads leads_to(int workspace, const char *path)
{
	enum { HOW = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	kh_auto_close int fd = kh_file_resolve(workspace, path, O_PATH, HOW);
	if (fd < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			return LEADS_OUT;
		/* A link to what is not there yet: made later, it may be anywhere. */
		kh_auto_close int self = kh_file_resolve(workspace, path, O_PATH | O_NOFOLLOW, HOW);
		return self < 0 && (errno == ENOENT || errno == ENOTDIR) ? LEADS_NOWHERE
									 : LEADS_OUT;
	}
	char name[64], real[KH_REVIEW_PATH_BYTES];
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(name, real, sizeof(real) - 1);
	if (n <= 0 || n == (ssize_t)sizeof(real) - 1)
		return LEADS_OUT;
	real[n] = '\0';
	/* A link of its own that leads there by its name is another matter
	 * (kh_review_bar_link_stays). */
	enum kh_change_bar bar;
	(void)kh_review_bar_group(real + 1, &bar);
	return bar == KH_BAR_GIT ? LEADS_OUT : LEADS_INSIDE;
}

/* On the way, or at the end, may be a link of the workspace's own that leads out, or into git's.
 * `text` has "../" at its beginning alone. */
bool kh_review_bar_link_stays_there(int workspace, const char *path, const char *text)
{
	const char *slash = strrchr(path, '/');
	size_t above = slash ? (size_t)(slash - path) : 0;
	for (; strncmp(text, "..", 2) == 0 && (text[2] == '/' || !text[2]); text += 2) {
		while (above > 0 && path[above - 1] != '/')
			above--;
		above -= above > 0;
		text += text[2] == '/';
	}
	kh_auto_free char *joined = kh_strf("%.*s/%s", (int)above, path, text);
	if (!joined)
		return false;
	char *from = joined + strspn(joined, "/");
	enum leads leads = leads_to(workspace, ".");
	/* Each folder on the way, as far as there are any. */
	for (char *at = from; *at && leads == LEADS_INSIDE;) {
		at += strcspn(at, "/");
		char after = *at;
		*at = '\0';
		leads = leads_to(workspace, from);
		*at = after;
		at += strspn(at, "/");
	}
	return leads != LEADS_OUT;
}

/* ---- both ways in: a file of the agent's, and a name in a commit ---- */

enum kh_change_bar kh_review_bar_of(int workspace, const char *path, mode_t mode, const char *link)
{
	mode_t is = mode & S_IFMT;
	if (is && is != S_IFREG && is != S_IFDIR && is != S_IFLNK)
		return KH_BAR_SPECIAL;
	if (is == S_IFLNK && (!link || !kh_review_bar_link_stays(path, link) ||
			      !kh_review_bar_link_stays_there(workspace, path, link)))
		return KH_BAR_LINK;
	if (has_protected_part(path, is == S_IFLNK))
		return KH_BAR_PROTECTED;
	enum kh_change_bar bar;
	(void)kh_review_bar_group(path, &bar);
	return bar;
}

/* ---- what somebody asked for ---- */

bool kh_change_is_named(const struct kh_change *change, char *const *names)
{
	return !names || !names[0] || kh_review_bar_is_named(change->path, names);
}

/* The end of the last part of it that is protected by its name, or bulky; 0: none is. */
static size_t reach_of_names(const char *path, bool link)
{
	struct kh_slice all = kh_slice_str(path);
	size_t reach = 0;
	char names[2][256] = { { 0 } }, *name = names[0], *above = names[1];
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '/', at);
		struct kh_slice part = kh_slice_sub(all, at, end);
		bool barred = part.len >= sizeof(names[0]);
		if (!barred) {
			memcpy(name, part.ptr, part.len);
			name[part.len] = '\0';
			barred = is_protected(above, name, link && end == all.len) ||
				 bar_of(part) == KH_BAR_BULKY;
		}
		if (barred)
			reach = end;
		at = end + 1;
		char *spare = above;
		above = name;
		name = spare;
	}
	return reach;
}

bool kh_review_bar_reads(const struct kh_review *review, struct kh_changes *changes,
			 struct kh_err *err)
{
	struct kh_review_reads reads kh_cleanup(kh_review_reads_fini) = { 0 };
	if (changes->n > 0 && !kh_review_reads_find(&reads, review->workspace, err))
		return false;
	for (size_t i = 0; i < changes->n; i++) {
		struct kh_change *c = &changes->list[i];
		size_t reach = kh_review_reads_reach(&reads, c->path, S_ISDIR(c->is.st_mode));
		c->reach = reach_of_names(c->path, S_ISLNK(c->is.st_mode));
		if (reach > c->reach)
			c->reach = reach;
		if (reach > 0 && (c->bar == KH_BAR_NONE || c->bar == KH_BAR_BULKY))
			c->bar = KH_BAR_PROTECTED;
	}
	return true;
}

/* Does a name reach far enough? One of a folder above was not meant for this. */
static bool is_reached(const struct kh_change *change, char *const *names)
{
	for (; names && *names; names++)
		if (strlen(*names) >= change->reach &&
		    kh_review_bar_is_named(change->path, (char *[]){ *names, NULL }))
			return true;
	return false;
}

bool kh_change_is_wanted(const struct kh_change *change, char *const *names)
{
	if (!kh_change_is_named(change, names))
		return false;
	return change->bar == KH_BAR_NONE ||
	       ((change->bar == KH_BAR_PROTECTED || change->bar == KH_BAR_BULKY) &&
		is_reached(change, names));
}

const char *kh_change_bar_text(enum kh_change_bar bar)
{
	switch (bar) {
	case KH_BAR_NONE:
		break;
	case KH_BAR_PROTECTED:
		return "protected: applied only where it is named";
	case KH_BAR_BULKY:
		return "applied only where it is named";
	case KH_BAR_GIT:
		return "of a git folder: never applied";
	case KH_BAR_LINK:
		return "a symbolic link that may lead out of the workspace: never applied";
	case KH_BAR_SPECIAL:
		return "no regular file: never applied";
	case KH_BAR_UNREADABLE:
		return "can't be looked at: never applied (its mode lets nobody read it, or it "
		       "is nested too deep)";
	}
	return "";
}
