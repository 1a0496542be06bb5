/*
 * aside.c - moves what could run on the host out of a workspace, and back
 *
 * Each thing gets its own folder, STATE/set-aside/RUN/N, which only its owner can enter:
 *
 *   path      where it was
 *   reason    why it was set aside
 *   content   the thing itself
 *   written   what keyhole left in its place (of a configuration file); else absent
 *
 * The first two are written before anything moves, so that every content has a path and a reason.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/sandbox/workspace.h>

#include "aside.h"
#include "move.h"

enum { LINES_MOST = 100 /* an agent makes as many things as it likes */ };

/* ---- out ---- */

/* `owner`: NULL: ours. By the descriptor: whoever may write to the folder can put another file
 * under the name. */
static bool write_new(int dir, const char *name, struct kh_slice content, mode_t mode,
		      const struct stat *owner)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_close int fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd >= 0 && kh_file_write_all(fd, content, &err) &&
	       (!owner || geteuid() != 0 || fchown(fd, owner->st_uid, owner->st_gid) == 0) &&
	       fchmod(fd, mode) == 0;
}

/* Its own folder, under the first number that is free. Return: -1 with errno. */
static int make_item(const struct kh_aside *aside, unsigned *number)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *above = kh_strf("%s/set-aside", aside->state);
	kh_auto_free char *run = above ? kh_strf("%s/%s", above, aside->run) : NULL;
	/* Whoever made them: nobody else looks in, and no program is found there. */
	if (!run || !kh_file_mkdirs(above, 0700, &err) || !kh_file_mkdirs(run, 0700, &err))
		return -1;
	kh_auto_close int top = open(above, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	kh_auto_close int dir =
		openat(top, aside->run, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0 || dir < 0 || fchmod(top, 0700) != 0 || fchmod(dir, 0700) != 0)
		return -1;
	char name[16];
	int made;
	do
		snprintf(name, sizeof(name), "%u", ++*number);
	while ((made = mkdirat(dir, name, 0700)) != 0 && errno == EEXIST);
	return made == 0 ? openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
}

/* The harmless part takes the place of the whole: under another name first. */
static bool replace(int dir, const char *name, const struct stat *was, struct kh_slice content)
{
	/* A name that nobody can have taken. */
	uint64_t random;
	char temporary[48];
	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return false;
	snprintf(temporary, sizeof(temporary), ".keyhole-harmless-%016llx",
		 (unsigned long long)random);
	return write_new(dir, temporary, content, was->st_mode & 0777, was) &&
	       renameat(dir, temporary, dir, name) == 0;
}

static bool take(int item, int dir, const char *name, const char *path, const char *reason,
		 const struct kh_slice *replacement)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT;
	if (!write_new(item, "path", kh_slice_str(path), 0600, NULL) ||
	    !write_new(item, "reason", kh_slice_str(reason), 0600, NULL) ||
	    (replacement && !write_new(item, "written", *replacement, 0600, NULL)) ||
	    !kh_move(dir, name, item, "content"))
		return false;
	return !replacement || replace(dir, name, &st, *replacement);
}

/* It stays where it is, under a name of which nothing is run. Return: that name, heap; NULL: it
 * could not be done. */
static char *disarm(int dir, const char *name)
{
	uint64_t random;
	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return NULL;
	char *as = kh_strf(".keyhole-disarmed-%016llx", (unsigned long long)random);
	if (as && kh_move_disarm(dir, name, as))
		return as;
	free(as);
	return NULL;
}

static void say_left(const struct kh_aside *aside, const char *path, const char *reason, int sys,
		     const char *as, bool folder)
{
	if (aside->failed > LINES_MOST)
		return;
	if (as && folder)
		kh_log_error("%s could not be set aside (%s) and has the name %s now: %s; do not "
			     "use git or an editor there before you have removed it",
			     kh_esc_str(path), strerror(sys), as, reason);
	else if (as)
		kh_log_error("%s could not be set aside (%s) and was made harmless where it is, as "
			     "%s: %s; remove it",
			     kh_esc_str(path), strerror(sys), as, reason);
	else
		kh_log_error("%s could not be set aside (%s): %s; do not use git or an editor "
			     "there before you have removed it",
			     kh_esc_str(path), strerror(sys), reason);
}

/* Return: it is not there any more, under no name; else *as is the one that it has (NULL: its own,
 * or there is no memory). */
static bool take_or_leave(struct kh_aside *aside, int dir, const char *name, const char *path,
			  const char *reason, const struct kh_slice *replacement, char **as)
{
	unsigned number = aside->n + aside->failed;
	kh_auto_close int item = make_item(aside, &number);
	*as = NULL;
	if (item >= 0 && take(item, dir, name, path, reason, replacement)) {
		if (++aside->n <= LINES_MOST)
			kh_log_warn("%s was set aside: %s (`keyhole workspace restore %s/%u` "
				    "brings it back)",
				    kh_esc_str(path), reason, aside->run, number);
		return true;
	}
	int sys = errno;
	struct stat st;
	aside->failed++;
	/* Where only the harmless part could not be put in its place, it is gone. */
	bool there = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	*as = there ? disarm(dir, name) : NULL;
	say_left(aside, path, reason, sys, *as, there && S_ISDIR(st.st_mode));
	return !there;
}

void kh_aside_take(struct kh_aside *aside, int dir, const char *name, const char *path,
		   const char *reason, const struct kh_slice *replacement)
{
	kh_auto_free char *as = NULL;
	(void)take_or_leave(aside, dir, name, path, reason, replacement, &as);
}

void kh_aside_take_entry(struct kh_aside *aside, int dir, struct kh_walk_entry *entry,
			 const char *path, const char *reason)
{
	char *as = NULL;
	entry->skip = take_or_leave(aside, dir, entry->name, path, reason, NULL, &as);
	if (!as)
		return;
	free(entry->name);
	entry->name = as;
}

void kh_aside_drop(struct kh_aside *aside, int dir, const char *name, const char *path,
		   const char *reason)
{
	if (aside->n >= LINES_MOST && kh_move_drop(dir, name))
		aside->gone++;
	else
		kh_aside_take(aside, dir, name, path, reason, NULL);
}

void kh_aside_end(const struct kh_aside *aside)
{
	if (aside->gone > 0)
		kh_log_warn("%u more sockets, named pipes and devices were removed", aside->gone);
	if (aside->n > LINES_MOST)
		kh_log_warn("%u more were set aside (`keyhole workspace set-aside` shows them)",
			    aside->n - LINES_MOST);
	if (aside->failed > LINES_MOST)
		kh_log_error(
			"%u more could not be set aside; do not use git or an editor there "
			"before you have removed them (`keyhole workspace survey` looks again)",
			aside->failed - LINES_MOST);
}

/* ---- the list ---- */

static char *read_text(int dir, const char *name)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_LIMIT_SURVEY_PATH_BYTES + 256);
	kh_auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && kh_file_read_fd(fd, &text, NULL) ? kh_slice_dup(kh_buf_view(&text))
							   : NULL;
}

struct listing {
	struct kh_set_aside *list;
	size_t n;
	const char *run;
};

static bool add(struct listing *l, int run_dir, const char *number)
{
	kh_auto_close int item =
		openat(run_dir, number, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (item < 0 || fstatat(item, "content", &st, AT_SYMLINK_NOFOLLOW) != 0)
		return true;
	struct kh_set_aside one = { kh_strf("%s/%s", l->run, number), read_text(item, "path"),
				    read_text(item, "reason") };
	struct kh_set_aside *list = reallocarray(l->list, l->n + 1, sizeof(*list));
	if (list)
		l->list = list;
	if (!list || !one.id || !one.path || !one.reason) {
		free(one.id);
		free(one.path);
		free(one.reason);
		return list != NULL;
	}
	list[l->n++] = one;
	return true;
}

static bool is_name(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/');
}

static int by_number(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *entry)
{
	return is_name(entry->d_name);
}

static bool list_run(struct listing *l, int all, const char *run)
{
	kh_auto_close int dir = openat(all, run, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent **names = NULL;
	int n = dir >= 0 ? scandirat(dir, ".", &names, is_shown, by_number) : 0;
	bool ok = true;
	l->run = run;
	for (int i = 0; i < n; i++) {
		ok = ok && add(l, dir, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	return ok;
}

struct kh_set_aside *kh_workspace_set_aside(const char *state, size_t *count)
{
	struct listing l = { 0 };
	*count = 0;
	kh_auto_free char *path = kh_strf("%s/set-aside", state);
	kh_auto_close int dir = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct dirent **names = NULL;
	int n = dir >= 0 ? scandirat(dir, ".", &names, is_shown, by_number) : 0;
	for (int i = 0; i < n; i++) {
		(void)list_run(&l, dir, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	*count = l.n;
	return l.list;
}

void kh_workspace_set_aside_free(struct kh_set_aside *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].id);
		free(list[i].path);
		free(list[i].reason);
	}
	free(list);
}

/* ---- and back ---- */

/* Is what lies under the name still what keyhole wrote there? */
static bool is_as_written(int item, int dir, const char *name)
{
	struct kh_buf written kh_cleanup(kh_buf_fini), now kh_cleanup(kh_buf_fini);
	kh_buf_init(&written, 2 * KH_LIMIT_SURVEY_FILE_BYTES);
	kh_buf_init(&now, 2 * KH_LIMIT_SURVEY_FILE_BYTES);
	kh_auto_close int a = openat(item, "written", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	kh_auto_close int b = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return a >= 0 && b >= 0 && kh_file_read_fd(a, &written, NULL) &&
	       kh_file_read_fd(b, &now, NULL) &&
	       kh_slice_eq(kh_buf_view(&written), kh_buf_view(&now));
}

static bool put_back(int item, const char *path, struct kh_err *err)
{
	const char *name = NULL;
	kh_auto_close int dir = kh_mountpoint_open_parent(path, &name);
	if (dir < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s: the folder above it",
				  kh_esc_str(path));
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    (!is_as_written(item, dir, name) || unlinkat(dir, name, 0) != 0))
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "%s: there is something under that name (move it away first)",
				  kh_esc_str(path));
	return kh_move(item, "content", dir, name) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
}

/* RUN/N, and nothing that leads elsewhere. */
static bool is_id(const char *id)
{
	const char *slash = strchr(id, '/');
	return slash && is_name(slash + 1) && *id != '.' && slash != id;
}

bool kh_workspace_restore(const char *state, const char *id, struct kh_err *err)
{
	kh_auto_free char *folder = kh_strf("%s/set-aside", state);
	kh_auto_close int all = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	kh_auto_close int item =
		all >= 0 && is_id(id)
			? openat(all, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
			: -1;
	kh_auto_free char *path = item >= 0 ? read_text(item, "path") : NULL;
	if (!path || path[0] != '/')
		return kh_err_set(
			err, KH_ERR_USAGE,
			"%s: nothing of that name was set aside (`keyhole workspace set-aside` "
			"shows what was)",
			kh_esc_str(id));
	if (!put_back(item, path, err))
		return false;
	(void)kh_move_remove(all, id);
	kh_auto_free char *run = strndup(id, (size_t)(strchr(id, '/') - id));
	if (run)
		(void)unlinkat(all, run, AT_REMOVEDIR); /* the last of its run */
	return true;
}
