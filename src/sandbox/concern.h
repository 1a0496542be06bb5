/* concern.h - what in a workspace could make something run on the host */
#ifndef KEYHOLE_SANDBOX_CONCERN_H
#define KEYHOLE_SANDBOX_CONCERN_H

#include <keyhole/base/buf.h>

#include "walk.h"

enum kh_concern_kind {
	KH_CONCERN_LINK = 1,   /* a symbolic link in a git folder, or named .git */
	KH_CONCERN_SPECIAL,    /* a socket, a device or a FIFO */
	KH_CONCERN_SETID,      /* a file with a set-user-ID or set-group-ID mode */
	KH_CONCERN_CONFIG,     /* config or config.worktree of a git folder */
	KH_CONCERN_HOOK,       /* in hooks/ of a git folder, and no sample */
	KH_CONCERN_COMMONDIR,  /* sends git to another configuration */
	KH_CONCERN_ALTERNATES, /* sends git to other objects */
	KH_CONCERN_STATE,      /* a rebase under way that runs commands */
	KH_CONCERN_GITFILE,    /* .git, a file that says where the git folder is */
	KH_CONCERN_NAME,       /* a name that editors, agents and other tools run things from */
	KH_CONCERN_REMOTE, /* in remotes/ or branches/ of a git folder: an address to fetch from */
};

enum { KH_CONCERN_DIGEST_BYTES = 32 };

struct kh_concern {
	enum kh_concern_kind kind;
	const struct kh_walk_folder *folder;
	struct kh_walk_entry *entry;
	const char *path; /* absolute */
	/* Of kind, path, and what of its content matters: the same digest before and after means
	 * that it is as it was. */
	unsigned char digest[KH_CONCERN_DIGEST_BYTES];
	/* Of kind, path, and where it leads (leads.h): a file may stay as it is while a folder on
	 * the way gives place to a link. */
	unsigned char leads[KH_CONCERN_DIGEST_BYTES];
};

/* Gives each concern of one folder of a walk, and marks the folders below for their own visit. */
bool kh_concern_find(const struct kh_walk_folder *folder,
		     bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err),
		     void *arg, struct kh_err *err);
/* The same in a folder that holds objects, whatever it is called (the top of the walk), and of
 * symbolic links and lists of alternates alone, where git reads them. */
bool kh_concern_find_in_objects(const struct kh_walk_folder *folder,
				bool (*each)(void *arg, const struct kh_concern *concern,
					     struct kh_err *err),
				void *arg, struct kh_err *err);
/*
 * Is the folder a git folder by its shape? git takes it for one if HEAD, objects and refs are in
 * it, or HEAD and commondir. Half of one counts as well: the rest may have been renamed for a
 * while. `strong`: only what a host program can hardly have made for another purpose.
 */
bool kh_concern_is_git_folder(const struct kh_walk_folder *folder, bool strong);
bool kh_concern_is_dot_git(const char *name);
/* May git be at work there: is it a git folder, or has it one named .git? */
bool kh_concern_is_tree(const struct kh_walk_folder *folder);
/* Shell patterns of names that count in every folder, NULL at the end (protected.c). */
extern const char *const kh_concern_anywhere[];
/* Does somebody run things from such a name? Below the top only some names count. */
bool kh_protected_is_name(const char *name, bool top);
/* Is it the name of a folder of which some names count (.cargo: config.toml)? */
bool kh_concern_is_holder(const char *name, bool top);
/* Is `name` one that counts in a folder of that name? */
bool kh_concern_is_held(const char *folder, const char *name);
/* The digest under which a file or folder is noted that was read-only while the sandbox ran. */
void kh_concern_protected_digest(const char *path, unsigned char out[KH_CONCERN_DIGEST_BYTES]);
/* May every user of the host write to the folder, and with it put something else in the place of
 * what git or a tool reads there: the top of the workspace, a git folder, or one with .git in it?
 * Then `out` is the digest under which that is noted. */
bool kh_concern_each_open(const struct kh_walk_folder *folder,
			  unsigned char out[KH_CONCERN_DIGEST_BYTES]);
/* The digest of what git reads or runs by a relative path, whichever work tree that is in. NULL: it
 * is like no other. */
void kh_concern_content_digest(const char *path, const struct kh_buf *content,
			       unsigned char out[KH_CONCERN_DIGEST_BYTES]);
/* Reads a regular file by its name in a folder; links are not followed. Return: false when it is no
 * regular file, can't be read, or holds more than the buffer's cap. */
bool kh_concern_read(int dir, const char *name, struct kh_buf *out);

#endif
