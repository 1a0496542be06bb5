/* concern.h - concerns: what in a workspace could make something run on the host */
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
	KH_CONCERN_STATE,  /* of an operation in progress, and not in git's form (git_state.h) */
	KH_CONCERN_COPIES, /* MERGE_RR: the names of files that git copies into its folder. They may
			      lead elsewhere by now, so it is never as it was. */
	KH_CONCERN_INDEX,  /* with a name that is none of the work tree (git_index.h) */
	KH_CONCERN_GITFILE, /* .git, a file that says where the git folder is */
	KH_CONCERN_NAME,    /* a name that editors, agents and other tools run things from */
	KH_CONCERN_REMOTE,  /* in remotes/ or branches/ of a git folder: an address to fetch from */
};

enum { KH_CONCERN_DIGEST_BYTES = 32 };

struct kh_concern {
	enum kh_concern_kind kind;
	const struct kh_walk_folder *folder;
	struct kh_walk_entry *entry;
	const char *path; /* absolute */
	/* Over kind, path, and the relevant content: the same digest before and after means
	 * unchanged. */
	unsigned char digest[KH_CONCERN_DIGEST_BYTES];
	/* Over kind, path, and its resolved targets (leads.h): a file may stay unchanged while a
	 * folder on the path is replaced by a link. */
	unsigned char leads[KH_CONCERN_DIGEST_BYTES];
};

/* Gives each concern of one folder of a walk, and marks the folders below for their own visit. */
bool kh_concern_find(const struct kh_walk_folder *folder,
		     bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err),
		     void *arg, struct kh_err *err);
/* Is the folder's commondir as git writes it, in GIT/worktrees/NAME, and leads to GIT? */
bool kh_concern_is_gits_commondir(const struct kh_walk_folder *folder);
/* Is it an index that git would read, with a name in it that is none of the work tree? Also where
 * that can't be told. */
bool kh_concern_is_bad_index(const struct kh_walk_folder *folder, const char *name);
/* After that: names of tools count below this folder, whatever it and the folders above are called.
 */
void kh_concern_end_exemption(const struct kh_walk_folder *folder);
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
/* The same for a folder or anything in it, by its path in the workspace `root`; true as well where
 * that can't be told. */
bool kh_concern_is_in_git_folder(const char *root, const char *path);
/* May git be at work there: is it a git folder, or has it one named .git? */
bool kh_concern_is_tree(const struct kh_walk_folder *folder);
/* Is it the name of a folder of which some names count (.cargo: config.toml)? */
bool kh_concern_is_holder(const char *name, bool top);
/* Is `name` one that counts in a folder of that name? */
bool kh_concern_is_held(const char *folder, const char *name);
/* The digest under which a file or folder is noted that was read-only while the sandbox ran. */
void kh_concern_protected_digest(const char *path, unsigned char out[KH_CONCERN_DIGEST_BYTES]);
/*
 * Gives what every user of the host may write to, and with it put something else in the place of
 * what git or a tool reads: the top of the workspace, a folder with .git in it (entry: NULL), and
 * each folder and file of a git folder. `digest` is what that is noted by.
 */
bool kh_concern_each_open(const struct kh_walk_folder *folder,
			  bool (*each)(void *arg, const struct kh_walk_entry *entry,
				       const unsigned char digest[KH_CONCERN_DIGEST_BYTES]),
			  void *arg);
/* The digest of what git reads or runs by a relative path, whichever work tree that is in. NULL: it
 * is like no other. */
void kh_concern_content_digest(const char *path, const struct kh_buf *content,
			       unsigned char out[KH_CONCERN_DIGEST_BYTES]);
/* Reads a regular file by its name in a folder; links are not followed. Return: false when it is no
 * regular file, can't be read, or holds more than the buffer's cap. */
bool kh_concern_read(int dir, const char *name, struct kh_buf *out);

#endif
