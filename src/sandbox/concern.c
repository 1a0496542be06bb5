/*
 * concern.c - finds concerns: what in a workspace could make something run on the host
 *
 * git recognises repositories by their content, not by a name: any folder with HEAD, objects and
 * refs is one. So each folder of the workspace is checked, whatever its name. Data in a git folder
 * is harmless; hooks, configuration, and links out of it are concerns. The same code runs before a
 * sandbox starts and after it has ended, and a digest tells whether something has changed.
 *
 * Nothing here runs git, follows a link, or relies on the case or spelling of a name (name_fold.h).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "concern.h"
#include "concern_names.h"
#include "git_state.h"
#include "leads.h"
#include "name_fold.h"
#include "protected.h"

enum { LEADS_BYTES = 16 * 1024 * 1024 };

/* What a folder is in, or is: handed down the walk. The other marks are concern_names.h's. */
enum {
	IN_GIT = 1 << 0,     /* somewhere in a git folder */
	IS_HOOKS = 1 << 1,   /* its hooks */
	IS_OBJECTS = 1 << 2, /* its objects */
	IS_OBJECTS_INFO = 1 << 3,
	IS_SEQUENCE = 1 << 4, /* a rebase or cherry-pick under way */
	IN_PACKAGES = 1 << 5, /* below node_modules: nobody opens an editor there */
	IN_DOT_GIT = 1 << 6,  /* below a folder that is called .git, and not only shaped so */
	IS_REMOTES = 1 << 7,  /* addresses to fetch from, each in a file */
	INHERITED = IN_GIT | IN_PACKAGES | IN_DOT_GIT,
};
_Static_assert((int)IS_REMOTES < (int)KH_CONCERN_NAMES_MARK, "no mark has two meanings");

struct looking {
	const struct kh_walk_folder *folder;
	bool is_git;
	bool (*each)(void *, const struct kh_concern *, struct kh_err *);
	void *arg;
	struct kh_err *err;
};

static bool is(const char *name, const char *wanted)
{
	return kh_name_fold_is(name, wanted);
}

bool kh_concern_is_dot_git(const char *name)
{
	return is(name, ".git");
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool kh_concern_is_git_folder(const struct kh_walk_folder *folder, bool strong)
{
	bool head = kh_walk_find(folder, "HEAD"), objects = kh_walk_find(folder, "objects"),
	     refs = kh_walk_find(folder, "refs"), common = kh_walk_find(folder, "commondir"),
	     config = kh_walk_find(folder, "config"), hooks = kh_walk_find(folder, "hooks");
	if (kh_concern_is_dot_git(base_of(folder->path)) || (head && (objects || common)))
		return true;
	if (strong)
		return (objects && refs && (config || hooks)) || (head && refs && config);
	return (objects && refs) || (head && refs && config);
}

bool kh_concern_is_tree(const struct kh_walk_folder *folder)
{
	return folder->n > 0 &&
	       (kh_walk_find(folder, ".git") || kh_concern_is_git_folder(folder, false));
}

bool kh_concern_read(int dir, const char *name, struct kh_buf *out)
{
	struct stat st;
	kh_auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       kh_file_read_fd(fd, out, NULL);
}

/* ---- digests ---- */

/* Equal to no other: what can't be compared has changed. */
static void unlike_any(unsigned char out[])
{
	if (RAND_bytes(out, KH_CONCERN_DIGEST_BYTES) != 1)
		memset(out, 0xff, KH_CONCERN_DIGEST_BYTES);
}

static void digest(unsigned kind, const char *path, struct kh_slice what, unsigned char out[])
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	unsigned char byte = (unsigned char)kind;
	bool ok = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
		  EVP_DigestUpdate(context, &byte, 1) == 1 &&
		  EVP_DigestUpdate(context, path, strlen(path) + 1) == 1 &&
		  EVP_DigestUpdate(context, what.len ? what.ptr : "", what.len) == 1 &&
		  EVP_DigestFinal_ex(context, out, NULL) == 1;
	EVP_MD_CTX_free(context);
	if (!ok)
		unlike_any(out);
}

void kh_concern_protected_digest(const char *path, unsigned char out[KH_CONCERN_DIGEST_BYTES])
{
	digest(0, path, KH_SLICE("protected"), out);
}

bool kh_concern_each_open(const struct kh_walk_folder *folder,
			  bool (*each)(void *arg, const struct kh_walk_entry *entry,
				       const unsigned char digest[KH_CONCERN_DIGEST_BYTES]),
			  void *arg)
{
	unsigned char noted[KH_CONCERN_DIGEST_BYTES];
	struct stat st;
	bool in_git = (folder->mark & IN_GIT) || kh_concern_is_git_folder(folder, false);
	if ((folder->top || in_git || kh_concern_is_tree(folder)) && fstat(folder->fd, &st) == 0 &&
	    (st.st_mode & S_IWOTH)) {
		digest(0, folder->path, KH_SLICE("open to all"), noted);
		if (!each(arg, NULL, noted))
			return false;
	}
	for (size_t i = 0; in_git && i < folder->n; i++) {
		const struct kh_walk_entry *entry = &folder->list[i];
		if (!S_ISREG(entry->mode) || !(entry->mode & S_IWOTH))
			continue;
		kh_auto_free char *path = kh_strf("%s/%s", folder->path, entry->name);
		if (!path)
			return false;
		digest(0, path, KH_SLICE("open to all"), noted);
		if (!each(arg, entry, noted))
			return false;
	}
	return true;
}

void kh_concern_content_digest(const char *path, const struct kh_buf *content,
			       unsigned char out[KH_CONCERN_DIGEST_BYTES])
{
	enum { CONTENT = 255 };
	if (content)
		digest(CONTENT, path, kh_buf_view(content), out);
	else
		unlike_any(out);
}

void kh_concern_setting_digest(const char *path, const struct kh_buf *setting,
			       unsigned char out[KH_CONCERN_DIGEST_BYTES])
{
	enum { SETTING = 253 };
	digest(SETTING, path, kh_buf_view(setting), out);
}

void kh_concern_link_digest(const char *path, struct kh_slice text,
			    unsigned char out[KH_CONCERN_DIGEST_BYTES])
{
	enum { LINK = 254 };
	digest(LINK, path, text, out);
}

/* Which file it is, and when it was last changed. */
static bool identity(const struct kh_walk_entry *entry, struct kh_buf *out)
{
	return kh_buf_printf(out, "%llu:%llu:%o:%lld.%ld", (unsigned long long)entry->dev,
			     (unsigned long long)entry->ino, (unsigned)entry->mode,
			     (long long)entry->changed.tv_sec, entry->changed.tv_nsec);
}

static bool content(const struct looking *l, const struct kh_walk_entry *entry, struct kh_buf *out)
{
	if (S_ISLNK(entry->mode)) {
		char *room = kh_buf_reserve(out, KH_LIMIT_SURVEY_PATH_BYTES);
		ssize_t n = room ? readlinkat(l->folder->fd, entry->name, room,
					      KH_LIMIT_SURVEY_PATH_BYTES)
				 : -1;
		kh_buf_commit(out, n > 0 ? (size_t)n : 0);
		return n > 0;
	}
	/* A name is mounted over as a whole. */
	if (S_ISDIR(entry->mode) ||
	    (S_ISREG(entry->mode) && kh_concern_read(l->folder->fd, entry->name, out)))
		return true;
	kh_buf_clear(out);
	return identity(entry, out);
}

/* What can't be told is equal to no other. */
static void digest_leads(struct kh_concern *concern)
{
	struct kh_buf where kh_cleanup(kh_buf_fini);
	kh_buf_init(&where, LEADS_BYTES);
	enum { LEADS = 128 }; /* of the kinds, which share the byte */
	if (kh_leads_where(concern, &where))
		digest(LEADS + concern->kind, concern->path, kh_buf_view(&where), concern->leads);
	else
		unlike_any(concern->leads);
}

/* ---- one folder ---- */

static bool give(const struct looking *l, enum kh_concern_kind kind, struct kh_walk_entry *entry)
{
	kh_auto_free char *path = kh_strf("%s/%s", l->folder->path, entry->name);
	struct kh_buf what kh_cleanup(kh_buf_fini);
	kh_buf_init(&what, KH_LIMIT_SURVEY_FILE_BYTES);
	if (!path)
		return kh_err_set(l->err, KH_ERR_NO_MEMORY, "no memory");
	struct kh_concern concern = {
		.kind = kind, .folder = l->folder, .entry = entry, .path = path
	};
	/* A name counts as a whole, since a mount is over it; a link can't be mounted over. */
	bool whole = true;
	if (kind == KH_CONCERN_SETID || kind == KH_CONCERN_SPECIAL)
		whole = identity(entry, &what);
	else if (kind != KH_CONCERN_NAME || S_ISLNK(entry->mode))
		whole = content(l, entry, &what);
	digest(kind, path, whole ? kh_buf_view(&what) : KH_SLICE("?"), concern.digest);
	if (kind == KH_CONCERN_COPIES)
		unlike_any(concern.digest);
	digest_leads(&concern);
	return l->each(l->arg, &concern, l->err);
}

/* Is that the state of an operation in progress, and not in git's own form? */
static bool is_state(const struct looking *l, const char *name)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	bool in_folder = l->folder->mark & IS_SEQUENCE;
	if (!in_folder && !(l->is_git && kh_git_state_is_at_top(name)))
		return false;
	if (!kh_concern_read(l->folder->fd, name, &text))
		return true;
	return in_folder ? !kh_git_state_is_harmless(base_of(l->folder->path), name,
						     kh_buf_view(&text))
			 : !kh_git_state_is_harmless_at_top(name, kh_buf_view(&text));
}

static bool holds_anything(int dir, const char *name)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	return !kh_concern_read(dir, name, &text) || kh_buf_len(&text) > 0;
}

static bool is_index(const char *name)
{
	char room[KH_NAME_FOLD_ROOM];
	name = kh_name_fold(name, room);
	return is(name, "index") || strncasecmp(name, "sharedindex.", 12) == 0;
}

/* Of a file; 0: none. */
static int kind_of_file(const struct looking *l, const struct kh_walk_entry *entry)
{
	const char *name = entry->name;
	unsigned mark = l->folder->mark;
	if (l->is_git && (is(name, "config") || is(name, "config.worktree")))
		return KH_CONCERN_CONFIG;
	if (l->is_git && is(name, "commondir"))
		return KH_CONCERN_COMMONDIR;
	if (l->is_git && is(name, "lazygit.yml"))
		return KH_CONCERN_NAME;
	if ((mark & IS_OBJECTS_INFO) && (is(name, "alternates") || is(name, "http-alternates")))
		return KH_CONCERN_ALTERNATES;
	if (l->is_git && is(name, "MERGE_RR") && holds_anything(l->folder->fd, name))
		return KH_CONCERN_COPIES;
	if (is_state(l, name))
		return KH_CONCERN_STATE;
	if (l->is_git && is_index(name) && kh_concern_is_bad_index(l->folder, name))
		return KH_CONCERN_INDEX;
	if (mark & IS_REMOTES)
		return KH_CONCERN_REMOTE;
	if (kh_concern_is_dot_git(name))
		return KH_CONCERN_GITFILE;
	return (entry->mode & S_ISUID) || ((entry->mode & S_ISGID) && (entry->mode & S_IXGRP))
		       ? KH_CONCERN_SETID
		       : 0;
}

static bool is_sample(const char *name)
{
	return kh_slice_has_suffix(kh_slice_str(name), KH_SLICE(".sample"));
}

/* Whatever it is that has the name: a link leads to what may say anything. */
static bool is_run_by_name(const struct looking *l, const struct kh_walk_entry *entry)
{
	unsigned mark = l->folder->mark;
	/* Only by its name is a folder git's and nobody else's. Its shape is quickly made. */
	if (!(mark & (IN_DOT_GIT | IN_PACKAGES)) && kh_protected_is_name(entry->name))
		return true;
	if (kh_concern_names_has(mark, entry->name))
		return true;
	/* A folder of another name, which this one stands for. */
	return S_ISLNK(entry->mode) && kh_concern_names_mark(mark, entry->name, l->folder->top);
}

static int kind_of(const struct looking *l, const struct kh_walk_entry *entry)
{
	unsigned mark = l->folder->mark;
	bool in_git = l->is_git || (mark & IN_GIT);
	/* A FIFO that is called .gitignore has git wait for ever. */
	if (S_ISSOCK(entry->mode) || S_ISBLK(entry->mode) || S_ISCHR(entry->mode) ||
	    S_ISFIFO(entry->mode))
		return KH_CONCERN_SPECIAL;
	if (is_run_by_name(l, entry))
		return KH_CONCERN_NAME;
	if (S_ISLNK(entry->mode) && (in_git || kh_concern_is_dot_git(entry->name)))
		return KH_CONCERN_LINK;
	if ((mark & IS_HOOKS) && !(is_sample(entry->name) && S_ISREG(entry->mode)))
		return KH_CONCERN_HOOK;
	return S_ISREG(entry->mode) ? kind_of_file(l, entry) : 0;
}

static unsigned mark_below(const struct looking *l, const struct kh_walk_entry *entry)
{
	const char *name = entry->name;
	unsigned mark = l->folder->mark & INHERITED;
	mark |= l->is_git ? IN_GIT : 0;
	mark |= l->is_git && is(name, "hooks") ? IS_HOOKS : 0;
	mark |= l->is_git && is(name, "objects") ? IS_OBJECTS : 0;
	mark |= l->is_git && (is(name, "remotes") || is(name, "branches")) ? IS_REMOTES : 0;
	mark |= l->is_git && kh_git_state_is_folder(name) ? IS_SEQUENCE : 0;
	mark |= (l->folder->mark & IS_OBJECTS) && is(name, "info") ? IS_OBJECTS_INFO : 0;
	mark |= kh_concern_names_mark(l->folder->mark, name, l->folder->top);
	/* Sapling's folder in a git folder. */
	mark |= l->is_git && is(name, "sl") ? kh_concern_names_mark(0, ".sl", false) : 0;
	mark |= l->is_git && is(name, "arc") ? KH_CONCERN_NAMES_ARC : 0;
	/* No other spelling, and no other folder that one may be taken for: they exempt. */
	mark |= strcmp(name, ".git") == 0 ? IN_DOT_GIT : 0;
	mark |= strcmp(name, "node_modules") == 0 ? IN_PACKAGES : 0;
	return mark;
}

bool kh_concern_give_gitlink(const struct kh_walk_folder *folder, struct kh_walk_entry *entry,
			     bool (*each)(void *arg, const struct kh_concern *concern,
					  struct kh_err *err),
			     void *arg, struct kh_err *err)
{
	struct looking l = { .folder = folder, .each = each, .arg = arg, .err = err };
	return give(&l, KH_CONCERN_GITLINK, entry);
}

bool kh_concern_find(const struct kh_walk_folder *folder,
		     bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err),
		     void *arg, struct kh_err *err)
{
	struct looking l = { .folder = folder,
			     .is_git = kh_concern_is_git_folder(folder, false),
			     .each = each,
			     .arg = arg,
			     .err = err };
	for (size_t i = 0; i < folder->n; i++) {
		struct kh_walk_entry *entry = &folder->list[i];
		/* The walk says what it has not seen. */
		if (kh_deadline_passed(folder->deadline))
			return true;
		entry->mark = mark_below(&l, entry);
		int kind = kind_of(&l, entry);
		if (kind && !give(&l, (enum kh_concern_kind)kind, entry))
			return false;
	}
	return true;
}

void kh_concern_end_exemption(const struct kh_walk_folder *folder)
{
	for (size_t i = 0; i < folder->n; i++)
		folder->list[i].mark &= ~(unsigned)(IN_DOT_GIT | IN_PACKAGES);
}

/* Where git looks for packs, loose objects and more alternates. */
static bool is_of_objects(const char *name)
{
	return is(name, "pack") || is(name, "info") ||
	       (strlen(name) == 2 && strspn(name, "0123456789abcdefABCDEF") == 2);
}

bool kh_concern_find_in_objects(const struct kh_walk_folder *folder,
				bool (*each)(void *arg, const struct kh_concern *concern,
					     struct kh_err *err),
				void *arg, struct kh_err *err)
{
	struct kh_walk_folder own = *folder;
	struct looking l = { .folder = &own, .each = each, .arg = arg, .err = err };
	own.top = false;
	own.mark = folder->top ? IS_OBJECTS : folder->mark;
	for (size_t i = 0; i < own.n; i++) {
		struct kh_walk_entry *entry = &own.list[i];
		bool counts = !folder->top || is_of_objects(entry->name);
		int kind = 0;
		if (kh_deadline_passed(folder->deadline))
			return true;
		entry->skip = !counts;
		entry->mark = folder->top && is(entry->name, "info") ? IS_OBJECTS_INFO : 0;
		if (counts && S_ISLNK(entry->mode))
			kind = KH_CONCERN_LINK;
		else if (S_ISREG(entry->mode) && kind_of_file(&l, entry) == KH_CONCERN_ALTERNATES)
			kind = KH_CONCERN_ALTERNATES;
		if (kind && !give(&l, (enum kh_concern_kind)kind, entry))
			return false;
	}
	return true;
}
