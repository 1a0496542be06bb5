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
	KH_CONCERN_GITLINK, /* a symbolic link at or above the path of a submodule in the index */
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

/* Calls `each` for every concern in one folder of a walk, and marks the folders below for their own
 * visit. */
bool kh_concern_find(const struct kh_walk_folder *folder,
		     bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err),
		     void *arg, struct kh_err *err);
/* Is the folder's commondir as git writes it: in GIT/worktrees/NAME, leading to GIT? */
bool kh_concern_is_gits_commondir(const struct kh_walk_folder *folder);
/* Is it an index that git would read, with a name outside of the work tree? True also if that can't
 * be determined. */
bool kh_concern_is_bad_index(const struct kh_walk_folder *folder, const char *name);
/* From now on names of tools count below this folder, whatever it and the folders above are
 * called. */
void kh_concern_end_exemption(const struct kh_walk_folder *folder);
/* The same for an object folder with any name (the top of the walk); only for symbolic links and
 * lists of alternates, in the places that git reads. */
bool kh_concern_find_in_objects(const struct kh_walk_folder *folder,
				bool (*each)(void *arg, const struct kh_concern *concern,
					     struct kh_err *err),
				void *arg, struct kh_err *err);
/*
 * Is the folder a git folder by its content? git recognises one by HEAD, objects and refs, or by
 * HEAD and commondir. An incomplete one counts as well, since the rest may be renamed temporarily.
 * `strong`: only combinations that hardly any other program makes.
 */
bool kh_concern_is_git_folder(const struct kh_walk_folder *folder, bool strong);
bool kh_concern_is_dot_git(const char *name);
/* Is `path` a git folder or in one, in the workspace `root`? True also if that can't be
 * determined. */
bool kh_concern_is_in_git_folder(const char *root, const char *path);
/* May git use this folder: is it a git folder, or does it have one named .git? */
bool kh_concern_is_tree(const struct kh_walk_folder *folder);
/* Calls `each` for each entry of an index in a git folder, in any way that git may read it, up to
 * the first that is malformed. Return: false: `each` returned false. */
bool kh_concern_each_in_index(const struct kh_walk_folder *git, const char *name,
			      bool (*each)(void *arg, const char *path, bool is_gitlink),
			      void *arg);
/* Calls `each` for a symbolic link at or above the path of a submodule (gitlinks.h), with the
 * folder that has the link. */
bool kh_concern_give_gitlink(const struct kh_walk_folder *folder, struct kh_walk_entry *entry,
			     bool (*each)(void *arg, const struct kh_concern *concern,
					  struct kh_err *err),
			     void *arg, struct kh_err *err);
/* The digest that records a file or folder which is read-only while the sandbox runs. */
void kh_concern_protected_digest(const char *path, unsigned char out[KH_CONCERN_DIGEST_BYTES]);
/*
 * Calls `each` for what every user of the host may write to, and so could replace what git or a
 * tool reads: the top of the workspace, a folder with .git in it (entry: NULL), and each folder and
 * file of a git folder. `digest` records it.
 */
bool kh_concern_each_open(const struct kh_walk_folder *folder,
			  bool (*each)(void *arg, const struct kh_walk_entry *entry,
				       const unsigned char digest[KH_CONCERN_DIGEST_BYTES]),
			  void *arg);
/* The digest of what git reads or runs by a relative path, in any work tree. `content` NULL: a
 * digest that is equal to no other. */
void kh_concern_content_digest(const char *path, const struct kh_buf *content,
			       unsigned char out[KH_CONCERN_DIGEST_BYTES]);
/* The digest of one setting of a git configuration, in the form of kh_git_config_write. */
void kh_concern_setting_digest(const char *path, const struct kh_buf *setting,
			       unsigned char out[KH_CONCERN_DIGEST_BYTES]);
/* The digest of any symbolic link, and what it says (outlets.h). */
void kh_concern_link_digest(const char *path, struct kh_slice text,
			    unsigned char out[KH_CONCERN_DIGEST_BYTES]);
/* Reads a regular file by its name in a folder; links are not followed. Return: false when it is no
 * regular file, can't be read, or holds more than the buffer's cap. */
bool kh_concern_read(int dir, const char *name, struct kh_buf *out);

#endif
