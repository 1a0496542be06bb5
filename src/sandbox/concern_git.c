/*
 * concern_git.c - what is a git folder, and which configuration applies to its index
 *
 * These checks must give the same answers as git itself. Otherwise the survey would check another
 * file than git uses, or read the same file differently.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "concern.h"
#include "git_config.h"
#include "git_index.h"

/* By its shape, as kh_concern_is_git_folder has it. */
static bool is_shaped_so(const char *path)
{
	struct stat st;
	kh_auto_close int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return true;
	bool head = fstatat(fd, "HEAD", &st, AT_SYMLINK_NOFOLLOW) == 0,
	     objects = fstatat(fd, "objects", &st, AT_SYMLINK_NOFOLLOW) == 0,
	     refs = fstatat(fd, "refs", &st, AT_SYMLINK_NOFOLLOW) == 0,
	     common = fstatat(fd, "commondir", &st, AT_SYMLINK_NOFOLLOW) == 0,
	     config = fstatat(fd, "config", &st, AT_SYMLINK_NOFOLLOW) == 0;
	return (head && (objects || common)) || (objects && refs) || (head && refs && config);
}

bool kh_concern_is_in_git_folder(const char *root, const char *path)
{
	kh_auto_free char *real = realpath(path, NULL);
	size_t len = strlen(root);
	if (!real || strncmp(real, root, len) != 0)
		return true;
	for (size_t i = len; i <= strlen(real); i++) {
		if (real[i] != '/' && real[i] != '\0')
			continue;
		char was = real[i];
		real[i] = '\0';
		if ((i > len && kh_concern_is_dot_git(strrchr(real, '/') + 1)) ||
		    is_shaped_so(real))
			return true;
		real[i] = was;
	}
	return false;
}

bool kh_concern_is_gits_commondir(const struct kh_walk_folder *folder)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	if (!kh_concern_read(folder->fd, "commondir", &text))
		return false;
	struct kh_slice above = kh_slice_str(folder->path);
	const char *slash = strrchr(folder->path, '/');
	above.len = slash ? (size_t)(slash - folder->path) : 0;
	return kh_slice_eq(kh_slice_chomp(kh_buf_view(&text)), KH_SLICE("../..")) &&
	       kh_slice_has_suffix(above, KH_SLICE("/worktrees"));
}

static bool is_sha256(void *arg, const struct kh_git_config_entry *e)
{
	bool *sha256 = arg;
	if (strcmp(e->section, "extensions") == 0 && !e->subsection &&
	    strcmp(e->name, "objectformat") == 0)
		*sha256 = e->value && strcasecmp(e->value, "sha256") == 0;
	return true;
}

enum { BY_SHA1 = 1 << 0, BY_SHA256 = 1 << 1 };

/* What object ids are by a configuration: SHA-1 where there is none, and either where it can't be
 * told what git makes of it. */
static unsigned format_of(int dir, const char *config)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct stat st;
	bool sha256 = false;
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	if (fstatat(dir, config, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? BY_SHA1 : BY_SHA1 | BY_SHA256;
	if (!kh_concern_read(dir, config, &text) ||
	    !kh_git_config_read(kh_buf_view(&text), is_sha256, &sha256))
		return BY_SHA1 | BY_SHA256;
	return sha256 ? BY_SHA256 : BY_SHA1;
}

/* git writes one in GIT/worktrees/NAME, which leads to GIT: there the configuration of GIT counts,
 * and that of the folder where there is none. Any other is set aside, and may or may not count. */
static unsigned formats(const struct kh_walk_folder *folder)
{
	struct stat st;
	unsigned own = format_of(folder->fd, "config");
	if (fstatat(folder->fd, "commondir", &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? own : BY_SHA1 | BY_SHA256;
	unsigned common = format_of(folder->fd, "../../config");
	return kh_concern_is_gits_commondir(folder) ? common : own | common;
}

bool kh_concern_is_bad_index(const struct kh_walk_folder *folder, const char *name)
{
	struct kh_buf bytes kh_cleanup(kh_buf_fini);
	unsigned by = formats(folder);
	kh_buf_init(&bytes, KH_LIMIT_SURVEY_INDEX_BYTES);
	if (!kh_concern_read(folder->fd, name, &bytes))
		return true;
	struct kh_slice all = kh_buf_view(&bytes);
	return ((by & BY_SHA1) && !kh_git_index_is_harmless(all, KH_GIT_INDEX_SHA1)) ||
	       ((by & BY_SHA256) && !kh_git_index_is_harmless(all, KH_GIT_INDEX_SHA256));
}

bool kh_concern_each_in_index(const struct kh_walk_folder *git, const char *name,
			      bool (*each)(void *arg, const char *path, bool is_gitlink), void *arg)
{
	struct kh_buf bytes kh_cleanup(kh_buf_fini);
	unsigned by = formats(git);
	kh_buf_init(&bytes, KH_LIMIT_SURVEY_INDEX_BYTES);
	/* One that can't be read is set aside. */
	if (!kh_concern_read(git->fd, name, &bytes))
		return true;
	struct kh_slice all = kh_buf_view(&bytes);
	return (!(by & BY_SHA1) || kh_git_index_each(all, KH_GIT_INDEX_SHA1, each, arg)) &&
	       (!(by & BY_SHA256) || kh_git_index_each(all, KH_GIT_INDEX_SHA256, each, arg));
}
