/*
 * run_uses.c - what live runs name on this host, and where their agents write
 *
 * A run goes on using the names that it has checked: its keeper executes a command of the
 * configuration again and again. So a later run may not give its agent a folder in which a live run
 * names something. Each name is followed anew, as writable.c follows those of the run itself.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/writable.h>
#include <keyhole/sandbox/run_uses.h>

#include "runs.h"
#include "runs_others.h"

/* Each entry is one letter and a text, with a NUL. The last one tells that it is whole. A folder
 * has its device and inode, "DEV:INO:/path"; in records of earlier versions it has the path alone.
 */
enum entry {
	PROCESS = 'p',
	WORKSPACE = 'w',
	HOME = 'h',
	OPTION = 'o', /* of the names that follow */
	NAME = 'n',
	END = 'e',
};

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
}

static bool put(struct kh_run_uses *uses, enum entry entry, const char *text, struct kh_err *err)
{
	size_t len = strlen(text) + 1;

	/* The last entry needs two bytes. */
	if (kh_buf_room(&uses->text) < len + 3)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "the run names more files, folders and programs of this host "
				  "than fit into its record (%d bytes)",
				  KH_LIMIT_RUN_USES_BYTES);
	return (kh_buf_append_char(&uses->text, (char)entry) &&
		kh_buf_append(&uses->text, text, len)) ||
	       no_memory(err);
}

/* ---- the records of others ---- */

struct reading {
	const char *id; /* "names/ID", for messages */
	const char *process, *option;
};

typedef bool on_entry(const struct reading *r, enum entry entry, const char *text,
		      struct kh_err *err);

/* "DEV:". Return: what follows; NULL: it is no number. */
static const char *read_number(const char *text, unsigned long long *out)
{
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return NULL;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return *end == ':' && errno == 0 ? end + 1 : NULL;
}

static bool read_folder(const char *text, struct kh_writable_folder *out)
{
	unsigned long long dev = 0, ino = 0;
	const char *rest = text[0] == '/' ? text : read_number(text, &dev);

	out->has_id = text[0] != '/';
	if (rest && out->has_id)
		rest = read_number(rest, &ino);
	out->dev = (dev_t)dev;
	out->ino = (ino_t)ino;
	out->path = rest;
	return rest && rest[0] == '/';
}

static bool is_known(char entry, const char *text)
{
	struct kh_writable_folder folder;

	switch (entry) {
	case WORKSPACE:
	case HOME:
		return read_folder(text, &folder);
	case NAME:
		return text[0] == '/';
	case PROCESS:
		return *text && !text[strspn(text, "0123456789")];
	case OPTION:
		return true;
	default:
		return entry == END && !*text;
	}
}

/* *whole: all of it could be understood. */
static bool read_entries(struct kh_slice all, on_entry *each, struct reading *r, bool *whole,
			 struct kh_err *err)
{
	char last = 0;

	*whole = false;
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '\0', at);
		const char *text = all.ptr + at + 1;
		if (end >= all.len || end == at || last == END || !is_known(all.ptr[at], text) ||
		    (all.ptr[at] == PROCESS) != (at == 0))
			return true;
		last = all.ptr[at];
		if (last == PROCESS)
			r->process = text;
		else if (last == OPTION)
			r->option = text;
		else if (last != END && !each(r, (enum entry)last, text, err))
			return false;
		at = end + 1;
	}
	*whole = last == END;
	return true;
}

/* Its lock tells whether the run lives. One that has ended leaves nothing. */
static bool is_live(const char *path, bool *live, struct kh_err *err)
{
	kh_auto_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	*live = false;
	if (fd < 0)
		return errno == ENOENT || kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", path);
	*live = flock(fd, LOCK_SH | LOCK_NB) != 0;
	if (*live)
		return errno == EWOULDBLOCK || kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", path);
	(void)unlink(path);
	return true;
}

static bool read_record(const char *all, const char *id, on_entry *each, struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct reading r = { .process = "of which only this is known", .option = "" };
	bool live, whole;

	kh_buf_init(&text, 0);
	kh_auto_free char *path = kh_strf("%s/%s", all, id);
	if (!path)
		return no_memory(err);
	if (!is_live(path, &live, err))
		return false;
	if (!live)
		return true;
	enum kh_note note = kh_run_note(all, id, KH_LIMIT_RUN_USES_BYTES, &text, err);
	if (note != KH_NOTE_READ)
		return note == KH_NOTE_ABSENT;
	return read_entries(kh_buf_view(&text), each, &r, &whole, err) &&
	       (whole ||
		kh_err_set(err, KH_ERR_SYSTEM,
			   "%s: can't be understood, so what a live run uses is not known (end "
			   "that run first)",
			   path));
}

static bool is_own(const struct kh_run_uses *uses, const char *id)
{
	return strcmp(strrchr(uses->path, '/') + 1, id) == 0;
}

static bool each_other(const struct kh_run_uses *uses, const char *state, on_entry *each,
		       struct kh_err *err)
{
	kh_auto_free char *all = uses->path ? kh_strf("%s/names", state) : NULL;

	if (!all)
		return !uses->path || no_memory(err);
	DIR *dir = opendir(all);
	if (!dir)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", all);
	bool ok = true;
	const struct dirent *entry;
	/* cppcheck-suppress readdirCalled ; nobody else has this stream */
	while (ok && (errno = 0, entry = readdir(dir)))
		ok = entry->d_name[0] == '.' || is_own(uses, entry->d_name) ||
		     read_record(all, entry->d_name, each, err);
	if (ok && errno)
		ok = kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", all);
	closedir(dir);
	return ok;
}

static bool check_entry(const struct reading *r, enum entry entry, const char *text,
			struct kh_err *err)
{
	const char *folder = NULL;

	if (entry != NAME || !kh_writable_leads(text, &folder))
		return true;
	if (!folder)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "a live run (process %s) uses %s (%s), and can't tell whether "
				  "that leads to where the agent of this one may write (end that "
				  "run first)",
				  r->process, kh_esc_str(text), kh_esc_str(r->option));
	return kh_err_set(err, KH_ERR_CONFIG,
			  "%s: a live run (process %s) uses %s (%s), which is in there or is "
			  "reached through it, so this run's agent could exchange it (end that run "
			  "first%s)",
			  folder, r->process, kh_esc_str(text), kh_esc_str(r->option),
			  strcmp(folder, "--home") == 0
				  ? ", or name another home"
				  : ", or give the workspace with :ro or :review");
}

bool kh_run_uses_check(const struct kh_run_uses *uses, const char *state, struct kh_err *err)
{
	return each_other(uses, state, check_entry, err);
}

static bool note_folder(const struct reading *r, enum entry entry, const char *text,
			struct kh_err *err)
{
	struct kh_writable_folder folder = { .live = true };

	if ((entry != WORKSPACE && entry != HOME) || !read_folder(text, &folder))
		return true;
	kh_auto_free char *what =
		kh_strf("%s of another run (process %s)",
			entry == HOME ? "the --home" : "the workspace", r->process);
	folder.what = what;
	return (what && kh_writable_note(&folder)) || no_memory(err);
}

bool kh_run_uses_note_folders(const struct kh_run_uses *uses, const char *state, struct kh_err *err)
{
	return each_other(uses, state, note_folder, err);
}

/* ---- the own record ---- */

static bool make(struct kh_run_uses *uses, const char *folder, struct kh_err *err)
{
	char text[32];

	kh_buf_init(&uses->text, KH_LIMIT_RUN_USES_BYTES);
	kh_auto_free char *path = kh_strf("%s/XXXXXX", folder);
	if (!path)
		return no_memory(err);
	uses->fd = mkostemp(path, O_CLOEXEC);
	if (uses->fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", folder);
	uses->path = kh_steal_ptr(&path);
	if (flock(uses->fd, LOCK_EX | LOCK_NB) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", uses->path);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	return put(uses, PROCESS, text, err);
}

bool kh_run_uses_lock(struct kh_run_uses *uses, const char *state, struct kh_err *err)
{
	struct kh_err absent = KH_ERR_INIT;
	bool signalled = false;
	struct stat st;

	if (!state)
		return true;
	kh_auto_free char *names = kh_strf("%s/names", state);
	kh_auto_free char *records = kh_strf("%s/workspaces", state);
	if (!names || !records)
		return no_memory(err);
	if (!kh_file_mkdirs(records, 0700, &absent) || !kh_file_mkdirs(names, 0700, &absent)) {
		/* Where none can be made there is no run with a workspace (runs.c). */
		if (lstat(records, &st) != 0 && errno == ENOENT)
			return true;
		if (err)
			*err = absent;
		return kh_err_wrap(err, "the notes on runs (XDG_STATE_HOME names another place)");
	}
	uses->lock = kh_run_records_lock(state, KH_LIMIT_WORKSPACE_LOCK_MS, &signalled, err);
	return uses->lock >= 0 && (uses->path || make(uses, names, err));
}

static bool put_folder(struct kh_run_uses *uses, enum entry entry, int held, const char *path,
		       struct kh_err *err)
{
	struct stat st;

	if (fstat(held, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
	kh_auto_free char *text = kh_strf("%llu:%llu:%s", (unsigned long long)st.st_dev,
					  (unsigned long long)st.st_ino, path);
	return text ? put(uses, entry, text, err) : no_memory(err);
}

bool kh_run_uses_folder(struct kh_run_uses *uses, const char *folder, const int *held, bool is_home,
			struct kh_err *err)
{
	const char *what = is_home ? "--home" : "the workspace";
	kh_auto_close int fd = kh_file_hold_again(folder, held, err);

	if (fd < 0)
		return kh_err_wrap(err, "%s", what);
	if (!kh_writable_add_held(fd, what, KH_WRITABLE_FOR_ALL))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", what);
	return !uses->path || put_folder(uses, is_home ? HOME : WORKSPACE, fd, folder, err);
}

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* What a process has open has another name in the next one. */
static char *name_for_others(const char *name, bool *is_ours)
{
	char *real = NULL;

	*is_ours = has_prefix(name, "/dev/fd/") || has_prefix(name, "/dev/std");
	if (*is_ours || has_prefix(name, "/proc/"))
		real = realpath(name, NULL);
	if (real || *is_ours)
		return real;
	kh_auto_free char *here = name[0] == '/' ? NULL : getcwd(NULL, 0);
	return name[0] == '/' ? strdup(name) : here ? kh_strf("%s/%s", here, name) : NULL;
}

/* No agent makes anything in "/". Most words of a command that are read as a relative name lead
 * there, and some are nobody's business. */
static bool leads_nowhere(const char *name)
{
	const char *first = name + strspn(name, "/");
	struct stat st;
	kh_auto_free char *top = kh_strf("/%.*s", (int)strcspn(first, "/"), first);

	return top && lstat(top, &st) != 0 && (errno == ENOENT || errno == ENAMETOOLONG);
}

/* What no system call takes, nobody opens. */
bool kh_run_uses_name(struct kh_run_uses *uses, const char *option, const char *name,
		      struct kh_err *err)
{
	bool is_ours;

	if (!uses->path || strlen(name) >= PATH_MAX)
		return true;
	kh_auto_free char *known = name_for_others(name, &is_ours);
	if (!known)
		return is_ours || kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(name));
	if (leads_nowhere(known))
		return true;
	return put(uses, OPTION, option, err) && put(uses, NAME, known, err);
}

bool kh_run_uses_write(const struct kh_run_uses *uses, struct kh_err *err)
{
	static const char end[] = { END, '\0' };

	if (!uses->path)
		return true;
	if (lseek(uses->fd, 0, SEEK_SET) != 0 || ftruncate(uses->fd, 0) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", uses->path);
	return (kh_file_write_all(uses->fd, kh_buf_view(&uses->text), err) &&
		kh_file_write_all(uses->fd, kh_slice_of(end, sizeof(end)), err)) ||
	       kh_err_wrap(err, "%s", uses->path);
}

void kh_run_uses_unlock(struct kh_run_uses *uses)
{
	if (uses->lock >= 0)
		close(kh_steal_fd(&uses->lock));
}

void kh_run_uses_end(struct kh_run_uses *uses)
{
	kh_run_uses_unlock(uses);
	if (uses->path)
		(void)unlink(uses->path);
	if (uses->fd >= 0)
		close(uses->fd);
	free(uses->path);
	kh_buf_fini(&uses->text);
	*uses = (struct kh_run_uses)KH_RUN_USES_INIT;
}
