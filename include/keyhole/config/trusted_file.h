/* trusted_file.h - configurations in a workspace that the user trusts */
#ifndef KEYHOLE_CONFIG_TRUSTED_FILE_H
#define KEYHOLE_CONFIG_TRUSTED_FILE_H

#include <stdbool.h>

#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

/*
 * An agent may write to its workspace, so a configuration there is used only after the user has
 * read and trusted it. What is trusted is a path together with the SHA-256 of the content: not the
 * file after a change, and not the same text in another project. It is noted in
 * $XDG_STATE_HOME/keyhole/trusted, which no sandbox sees: one file for each path.
 */

enum { KH_TRUSTED_HEX = 64 };

/* Its SHA-256, in hex with a NUL. */
bool kh_trusted_file_digest(struct kh_slice content, char out[KH_TRUSTED_HEX + 1]);

/*
 * The configuration that a folder offers: its `keyhole.yaml`, else `.keyhole/keyhole.yaml`. Neither
 * the file nor `.keyhole` may be a link, which could lead to the trusted file of another project.
 * *path: on the heap, below `folder` as it is given (an absolute path without links); NULL: there
 * is none. *digest: of its content. Return: false with `err`: there is one that can't be used.
 */
bool kh_trusted_file_find(const char *folder, char **path, char digest[KH_TRUSTED_HEX + 1],
			  struct kh_err *err);

enum kh_trusted {
	KH_TRUSTED_NOT = 0,
	KH_TRUSTED_CHANGED, /* with other content */
	KH_TRUSTED_SAME,
};
/* Is this file trusted with this content? NOT with `err` if the note can't be read. */
enum kh_trusted kh_trusted_file_is(const char *path, const char *digest, struct kh_err *err);

/* Trusts the file with this content, and no longer with any other. */
bool kh_trusted_file_add(const char *path, const char *digest, struct kh_err *err);
/* *was: was it trusted before, with whatever content? */
bool kh_trusted_file_remove(const char *path, bool *was, struct kh_err *err);
/* Calls `each` for every trusted file, in no order, until it returns false. Notes that can't be
 * read are an error, after the others. */
bool kh_trusted_file_list(bool (*each)(void *arg, const char *path, const char *digest), void *arg,
			  struct kh_err *err);

#endif
