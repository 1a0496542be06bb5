/*
 * segment.c - renames the files of a journal that continues in a new file
 *
 * PATH is the current segment. PATH.N is the one before, whose last line was number N. Where
 * another user has a file of that name, the one before is PATH.N.2 or the like, and its other
 * process finds it there by its inode. PATH.handover is the next one, until it is in use. In a
 * sticky folder another user may have a file of that name, which would stop every later worker:
 * then it gets a name that nobody can know before. The old segment first gets the second name by
 * link(2), then the new one is renamed to PATH. So there is a journal at PATH at every moment, for
 * a daemon that starts and for readers that follow it by name.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/log.h>

#include "handover_internal.h"

/* Of the next segment's name; 0: there is none. The process that opens it also renames it. */
static uint64_t drawn;

static uint64_t draw(void)
{
	uint64_t number = 0;
	ssize_t n = getrandom(&number, sizeof(number), GRND_NONBLOCK);
	return n == (ssize_t)sizeof(number) ? number : 0;
}

static char *new_name(const char *path)
{
	return drawn ? kh_strf("%s.handover-%016llx", path, (unsigned long long)drawn)
		     : kh_strf("%s.handover", path);
}

char *kh_segment_name(const char *path, uint64_t cut)
{
	return kh_strf("%s.%012llu", path, (unsigned long long)cut);
}

static bool is_at(const char *path, int fd)
{
	struct stat there, ours;
	return lstat(path, &there) == 0 && fstat(fd, &ours) == 0 && there.st_dev == ours.st_dev &&
	       there.st_ino == ours.st_ino;
}

static bool failed(const char *path, struct kh_err *err)
{
	return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal %s", kh_esc_str(path));
}

/* ---- the names beside it ---- */

/* Calls `use` with all names in the folder of `path` that begin with `stem` (a path in the same
 * folder), until it says that this was enough. */
static void each_name(const char *path, const char *stem,
		      bool (*use)(void *arg, const char *path, const char *rest), void *arg)
{
	const char *slash = strrchr(stem, '/'), *base = slash ? slash + 1 : stem;
	size_t len = strlen(base);
	kh_auto_free char *folder = kh_path_folder(path);
	DIR *dir = folder ? opendir(folder) : NULL;
	const struct dirent *entry;
	bool enough = false;

	while (dir && !enough && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, base, len) != 0)
			continue;
		kh_auto_free char *name =
			kh_strf("%.*s%s", (int)(base - stem), stem, entry->d_name);
		enough = name && use(arg, name, entry->d_name + len);
	}
	if (dir)
		(void)closedir(dir);
}

struct search {
	int fd;
	char *found;
};

static bool is_it(void *arg, const char *path, const char *rest)
{
	struct search *search = arg;
	if (rest[0] != '.' || !is_at(path, search->fd))
		return false;
	search->found = strdup(path);
	return true;
}

char *kh_segment_find(const char *path, int before, uint64_t cut)
{
	struct search search = { .fd = before };
	kh_auto_free char *name = kh_segment_name(path, cut);
	if (!name || is_at(name, before))
		return kh_steal_ptr(&name);
	each_name(path, name, is_it, &search);
	return search.found;
}

/* A name that was drawn, of a file that is ours: the process that drew it has ended. */
static bool remove_drawn(void *arg, const char *path, const char *rest)
{
	struct stat st;
	(void)arg;
	if (rest[0] == '-' && strlen(rest + 1) == 16 && kh_hex_is_valid(kh_slice_str(rest + 1)) &&
	    lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
		(void)unlink(path);
	return false;
}

/* Whatever name the next segment has had. */
static void remove_next(const char *path)
{
	kh_auto_free char *name = kh_strf("%s.handover", path);
	if (!name)
		return;
	(void)unlink(name);
	each_name(path, name, remove_drawn, NULL);
}

/* ---- the next segment ---- */

/* A process that was killed in a handover left it; no exchange is in it. */
static bool remove_leftover(const char *path, const char *name, struct kh_err *err)
{
	struct stat st;
	if (lstat(name, &st) != 0 && errno == ENOENT)
		return true;
	kh_auto_close int lock = -1;
	kh_auto_close int fd = kh_journal_lock(path, name, &lock, err);
	if (fd < 0)
		return false;
	return unlink(name) == 0 || failed(name, err);
}

/* Return: -1 with `err`; *taken: somebody else's file has the name. */
static int open_next(const char *path, int before, bool *taken, int *lock, struct kh_err *err)
{
	kh_auto_free char *name = new_name(path);
	struct stat like, there;
	*taken = false;
	if (!name) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
		return -1;
	}
	kh_auto_close int fd =
		remove_leftover(path, name, err) ? kh_journal_lock(path, name, lock, err) : -1;
	if (fd < 0) {
		*taken = lstat(name, &there) == 0;
		return -1;
	}
	/* Whoever could read the one before can read this one; owner first, it clears bits. */
	if (fstat(before, &like) != 0 ||
	    ((like.st_uid != geteuid() || like.st_gid != getegid()) &&
	     fchown(fd, like.st_uid, like.st_gid) != 0) ||
	    fchmod(fd, like.st_mode & 0777) != 0)
		kh_log_warn("journal %s: mode or owner could not be set", kh_esc_str(name));
	return kh_steal_fd(&fd);
}

int kh_segment_open(const char *path, int before, int *lock, struct kh_err *err)
{
	struct kh_err why = KH_ERR_INIT;
	bool taken;
	if (!is_at(path, before)) {
		kh_err_set(err, KH_ERR_CONFIG,
			   "audit.file %s is not the journal that is being written (restart to "
			   "change it)",
			   kh_esc_str(path));
		return -1;
	}
	drawn = 0;
	int fd = open_next(path, before, &taken, lock, &why);
	if (fd >= 0 || !taken || (drawn = draw()) == 0) {
		if (fd < 0 && err)
			*err = why;
		return fd;
	}
	kh_log_warn("%s: the next file of the journal gets another name until it is in use",
		    why.text);
	return open_next(path, before, &taken, lock, err);
}

static bool sync_folder_of(const char *path)
{
	kh_auto_free char *folder = kh_path_folder(path);
	kh_auto_close int dir = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	return dir >= 0 && fsync(dir) == 0;
}

/* The one before has its second name. */
static bool take_place(const char *path, const char *fresh, const char *old, struct kh_err *err)
{
	if (rename(fresh, path) != 0) {
		(void)failed(path, err);
		(void)unlink(old);
		return false;
	}
	if (!sync_folder_of(path))
		kh_log_warn("journal %s: its folder could not be synced", kh_esc_str(path));
	return true;
}

/* A name may be taken: by a segment that continued the same line, or by another user's file in a
 * sticky folder. The next name is not where `keyhole audit verify` looks; of the first it then says
 * that it does not fit. After a few, numbers are drawn: in a sticky folder others may have taken
 * all that they can guess. Return: NULL, errno. */
static char *link_aside(const char *path, int before, uint64_t cut)
{
	enum { COUNTED = 1000, NAMES_MOST = COUNTED + 3 };
	for (unsigned n = 1; n <= NAMES_MOST; n++) {
		unsigned long long number = n <= COUNTED ? n : draw();
		kh_auto_free char *name =
			n == 1 ? kh_segment_name(path, cut)
			       : kh_strf("%s.%012llu.%llu", path, (unsigned long long)cut, number);
		if (!name)
			return NULL;
		if (link(path, name) == 0 || (errno == EEXIST && is_at(name, before)))
			return kh_steal_ptr(&name);
		if (errno != EEXIST)
			return NULL;
	}
	return NULL;
}

/* The journal at `path` gets its other name, and the next segment its place. Return: that other
 * name, on the heap; NULL with `err`: nothing has changed. */
static char *move(const char *path, int before, uint64_t cut, struct kh_err *err)
{
	kh_auto_free char *fresh = new_name(path);
	if (!fresh) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
		return NULL;
	}
	if (!is_at(path, before)) {
		kh_err_set(err, KH_ERR_SYSTEM, "journal %s: another file took its place",
			   kh_esc_str(path));
		return NULL;
	}
	kh_auto_free char *old = link_aside(path, before, cut);
	if (!old)
		(void)failed(path, err);
	return old && take_place(path, fresh, old, err) ? kh_steal_ptr(&old) : NULL;
}

bool kh_segment_move(const char *path, int before, uint64_t cut, struct kh_err *err)
{
	kh_auto_free char *name = kh_segment_name(path, cut);
	kh_auto_free char *old = move(path, before, cut, err);
	if (old && name && strcmp(old, name) != 0)
		kh_log_warn("%s: there is another file of that name: the journal's segment before "
			    "is %s (verify that one by its name)",
			    kh_esc_str(name), kh_esc_str(old));
	return old != NULL;
}

bool kh_segment_set_aside(const char *path, int before, uint64_t cut, struct kh_err *err)
{
	kh_auto_free char *old = move(path, before, cut, err);
	if (old)
		kh_log_error("journal %s: set aside as %s", kh_esc_str(path), kh_esc_str(old));
	return old != NULL;
}

void kh_segment_restore(const char *path, int before, uint64_t cut)
{
	kh_auto_free char *old = kh_segment_find(path, before, cut);
	remove_next(path);
	if (!old || !is_at(old, before))
		return;
	/* A rename onto another name of the same file does nothing, and leaves both. */
	int rc = is_at(path, before) ? unlink(old) : rename(old, path);
	if (rc != 0)
		kh_log_error("journal %s: its name could not be put back: %s", kh_esc_str(path),
			     strerror(errno));
}
