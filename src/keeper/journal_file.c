/*
 * journal_file.c - opens the journal's file, and checks that only this user can change it
 *
 * A link that another user made could redirect the daemon to another file, and whoever owns or may
 * write to the file can change records. So it must be a regular file with one link, owned by this
 * user or root, that nobody else can write to.
 *
 * Whoever may rename files in its folder can put another file of ours in its place, such as an
 * older journal. So the folder must be this user's or root's as well, and others may write to it
 * only where it is sticky, as /tmp is: there only its owner can rename a file. Each folder further
 * up must be this user's or root's as well: whoever owns one can exchange what is in it for another
 * folder of ours, such as one of an older journal. Where others may write to one further up,
 * `keyhole check` only warns: a volume of Kubernetes (emptyDir) is like that.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/unsafe_folder.h>
#include <keyhole/keeper/keeper.h>

#include "keeper_internal.h"

/* A handover that was killed between two steps leaves a segment with two names of its own, PATH
 * and PATH.N. Return: how many names PATH.* are this file's. */
static nlink_t names_beside(const char *path, const struct stat *st)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	size_t len = strlen(name);
	kh_auto_free char *folder = kh_path_folder(path);
	DIR *dir = folder ? opendir(folder) : NULL;
	nlink_t n = 0;
	struct stat other;

	for (const struct dirent *entry; dir && (entry = readdir(dir));)
		if (strncmp(entry->d_name, name, len) == 0 && entry->d_name[len] == '.' &&
		    fstatat(dirfd(dir), entry->d_name, &other, AT_SYMLINK_NOFOLLOW) == 0 &&
		    other.st_dev == st->st_dev && other.st_ino == st->st_ino)
			n++;
	if (dir)
		(void)closedir(dir);
	return n;
}

static bool refuse_link(const char *path, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_CONFIG,
			  "journal %s: it is a symbolic link (name the file that it leads to)",
			  kh_esc_str(path));
}

/* May a daemon of that user write its records to this file? */
static bool judge(const char *path, const struct stat *st, uid_t user, struct kh_err *err)
{
	const char *shown = kh_esc_str(path);

	if (S_ISLNK(st->st_mode))
		return refuse_link(path, err);
	if (!S_ISREG(st->st_mode))
		return kh_err_set(err, KH_ERR_CONFIG, "journal %s: not a regular file", shown);
	if (st->st_uid != user && st->st_uid != 0)
		return kh_err_set(
			err, KH_ERR_CONFIG,
			"journal %s: it belongs to uid %ld, who could change it (chown it, "
			"or choose another file)",
			shown, (long)st->st_uid);
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "journal %s: others may write to it (mode %04o; chmod go-w)",
				  shown, (unsigned)(st->st_mode & 07777));
	if (st->st_nlink > 1 && st->st_nlink != 1 + names_beside(path, st))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "journal %s: the file has %lu names (hard links), so it can be "
				  "changed by another one (copy it, and remove the others)",
				  shown, (unsigned long)st->st_nlink);
	return true;
}

static bool judge_folder(const char *path, uid_t user, struct kh_err *err)
{
	kh_auto_free char *folder = kh_path_folder(path);

	if (!folder)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
	if (!kh_file_others_may_rename(folder, user))
		return kh_unsafe_folder(path, user, err) != KH_UNSAFE_OWNER ||
		       kh_err_wrap(err, "journal %s", kh_esc_str(path));
	return kh_err_set(
		err, KH_ERR_CONFIG,
		"journal %s: others may rename files in its folder, and so put another one "
		"in its place (give it a folder that is yours or root's and that nobody "
		"else may write to: chmod go-w, or one below it)",
		kh_esc_str(path));
}

int kh_journal_open_file(const char *path, struct kh_err *err)
{
	if (!judge_folder(path, geteuid(), err))
		return -1;
	/* Not blocking: a FIFO of that name must not hold the start up. */
	kh_auto_close int fd = open(
		path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW,
		0600);
	struct stat st;

	if (fd < 0 && errno == ELOOP) {
		refuse_link(path, err);
		return -1;
	}
	if (fd < 0 || fstat(fd, &st) != 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal %s", kh_esc_str(path));
		return -1;
	}
	return judge(path, &st, geteuid(), err) ? kh_steal_fd(&fd) : -1;
}

static enum kh_journal_verdict look_at_file(const char *path, struct kh_err *err)
{
	uid_t user = geteuid();
	struct stat st;

	if (lstat(path, &st) != 0) {
		if (errno == ENOENT)
			return KH_JOURNAL_GOOD;
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal %s", kh_esc_str(path));
		return KH_JOURNAL_BAD;
	}
	if (!judge(path, &st, user, err)) {
		bool good_for_owner = judge(path, &st, st.st_uid, NULL);
		return user == 0 && good_for_owner ? KH_JOURNAL_OTHERS : KH_JOURNAL_BAD;
	}
	if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0)
		return KH_JOURNAL_GOOD;
	kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal %s", kh_esc_str(path));
	return KH_JOURNAL_BAD;
}

/* A folder's group is known as its owner's own only to that user, but a sticky bit to all. */
static bool is_open_to_all(const char *path)
{
	kh_auto_free char *folder = kh_path_folder(path);
	struct stat st;

	return folder && stat(folder, &st) == 0 && (st.st_mode & S_IWOTH) &&
	       !(st.st_mode & S_ISVTX);
}

enum kh_journal_verdict kh_journal_look(const char *path, struct kh_err *err)
{
	enum kh_journal_verdict verdict = look_at_file(path, err);

	if (verdict == KH_JOURNAL_BAD || judge_folder(path, geteuid(), err))
		return verdict;
	return geteuid() == 0 && !is_open_to_all(path) ? KH_JOURNAL_OTHERS : KH_JOURNAL_BAD;
}
