/* git_before.h - the settings of a git configuration that were there before a run */
#ifndef KEYHOLE_SANDBOX_GIT_BEFORE_H
#define KEYHOLE_SANDBOX_GIT_BEFORE_H

#include "concern.h"
#include "git_config.h"

/* Appends a digest of each setting that would not stay otherwise, were the file judged after the
 * run. At most KH_LIMIT_SURVEY_SETTINGS of a file count. Return: false: no memory. */
bool kh_git_before_note(const struct kh_concern *config, struct kh_buf *digests);
/* The digest of a setting in the file `path`. Return: false: it can't be told. */
bool kh_git_before_digest(const char *path, const struct kh_git_config_entry *entry,
			  unsigned char out[KH_CONCERN_DIGEST_BYTES]);

#endif
