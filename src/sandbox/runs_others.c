/*
 * runs_others.c - finds runs that share a folder, through which they can pass descriptors
 *
 * A sandbox that may write to a folder can make a socket there, and any sandbox that sees the
 * folder can connect to it, even if it is read-only there. So they can pass descriptors, which
 * outlive the run that opened them. A workspace is therefore surveyed only when no live run may
 * hold a descriptor of it. Two runs are joined if one may write to what the other sees; a run that
 * has ended still joins the runs that it was joined with.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/link_end.h>
#include <keyhole/base/slice.h>

#include "runs_others.h"
#include "sandbox_internal.h"

/* Where a tree is in which device, as forbidden.c tells them apart. */
struct kh_seen_place {
	uint64_t major, minor;
	char *path;
	bool writable;
};

/* ---- the notes ---- */

enum kh_note kh_run_note(const char *folder, const char *name, size_t most, struct kh_buf *out,
			 struct kh_err *err)
{
	struct kh_err why = KH_ERR_INIT;
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	kh_buf_init(out, most);
	if (!path) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
		return KH_NOTE_FAILED;
	}
	if (kh_file_read_private(path, out, &why))
		return KH_NOTE_READ;
	if (why.sys == ENOENT)
		return KH_NOTE_ABSENT;
	if (err)
		*err = why;
	return KH_NOTE_FAILED;
}

bool kh_run_process_start(int pid, unsigned long long *start, struct kh_err *err)
{
	char path[64], state = 'Z';
	struct kh_err why = KH_ERR_INIT;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 4096);
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	*start = 0;
	if (!kh_file_read(path, &text, &why)) {
		if (why.sys == ENOENT || why.sys == ESRCH)
			return true;
		if (err)
			*err = why;
		return false;
	}
	const char *all = kh_buf_cstr(&text), *end = all ? strrchr(all, ')') : NULL;
	if (!end ||
	    sscanf(end,
		   ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		   "%llu",
		   &state, start) != 2)
		return kh_err_set(err, KH_ERR_SYSTEM, "%s: can't be understood", path);
	if (state == 'Z' || state == 'X')
		*start = 0;
	return true;
}

bool kh_run_place(const char *folder, unsigned long long *dev, unsigned long long *ino,
		  struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	enum kh_note note = kh_run_note(folder, "place", 64, &text, err);
	if (note == KH_NOTE_ABSENT)
		return kh_err_sys(err, KH_ERR_SYSTEM, ENOENT, "%s/place", folder);
	return note == KH_NOTE_READ &&
	       ((kh_buf_cstr(&text) && sscanf(kh_buf_cstr(&text), "%llu %llu", dev, ino) == 2) ||
		kh_err_set(err, KH_ERR_SYSTEM, "%s/place: can't be understood", folder));
}

static bool init_lives(const char *folder, bool *lives, struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	int pid = 0;
	unsigned long long noted = 0, start = 0;
	enum kh_note note = kh_run_note(folder, "init", 256, &text, err);
	*lives = false;
	if (note != KH_NOTE_READ)
		return note == KH_NOTE_ABSENT;
	if (!kh_buf_cstr(&text))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	/* Else it was cut short, by the end of the launcher. */
	if (sscanf(kh_buf_cstr(&text), "%d %llu", &pid, &noted) != 2)
		return true;
	if (!kh_run_process_start(pid, &start, err))
		return false;
	*lives = start != 0 && start == noted;
	return true;
}

static bool look_whether_live(struct kh_other_run *run, struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 0);
	kh_auto_free char *path = kh_strf("%s/alive", run->path);
	kh_auto_close int fd = path ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (!path)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	if (fd < 0 && errno != ENOENT)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", path);
	run->live = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
	if (!run->live)
		return init_lives(run->path, &run->live, err);
	if (kh_run_note(run->path, "alive", 32, &text, err) == KH_NOTE_FAILED)
		return false;
	if (kh_buf_cstr(&text))
		(void)sscanf(kh_buf_cstr(&text), "%d", &run->launcher);
	return true;
}

/* ---- what a run sees ---- */

struct seen {
	struct kh_buf *out;
	bool writable;
};

/* "w 8:1 /folder" and a NUL. */
static bool note_place(void *arg, const char *where)
{
	struct seen *seen = arg;
	return kh_buf_printf(seen->out, "%c %s", seen->writable ? 'w' : 'r', where) &&
	       kh_buf_append_char(seen->out, '\0');
}

bool kh_run_sees(struct kh_buf *sees, const char *path, int fd, bool writable, struct kh_err *err)
{
	struct seen seen = { .out = sees, .writable = writable };
	return kh_forbidden_places(path, fd, note_place, &seen, err);
}

static bool read_place(struct kh_other_run *run, const char *text)
{
	struct kh_seen_place *list = reallocarray(run->places, run->n_places + 1, sizeof(*list));
	struct kh_seen_place place = { 0 };
	char how = 0;
	int at = 0;
	if (!list)
		return false;
	run->places = list;
	if (sscanf(text, "%c %" SCNu64 ":%" SCNu64 " %n", &how, &place.major, &place.minor, &at) !=
		    3 ||
	    text[at] != '/' || !(place.path = strdup(text + at)))
		return false;
	place.writable = how == 'w';
	list[run->n_places++] = place;
	return true;
}

static bool read_places(struct kh_other_run *run, struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	enum kh_note note = kh_run_note(run->path, "sees", KH_RUN_SEES_BYTES, &text, err);
	if (note != KH_NOTE_READ) {
		/* One that has ended without it never began. */
		run->sees_unknown = run->live;
		return note == KH_NOTE_ABSENT;
	}
	struct kh_slice all = kh_buf_view(&text);
	bool ok = true;
	for (size_t at = 0; ok && at < all.len;) {
		size_t end = kh_slice_find(all, '\0', at);
		ok = end < all.len && read_place(run, all.ptr + at);
		at = end + 1;
	}
	return ok || kh_err_set(err, KH_ERR_SYSTEM, "%s/sees: can't be understood", run->path);
}

static bool is_in(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	if (len == 1)
		return true;
	return len > 0 && strncmp(path, folder, len) == 0 && (path[len] == '/' || !path[len]);
}

static bool meet(const struct kh_seen_place *a, const struct kh_seen_place *b)
{
	return a->major == b->major && a->minor == b->minor &&
	       (is_in(a->path, b->path) || is_in(b->path, a->path));
}

static bool writes_to_what_is_seen(const struct kh_other_run *one, const struct kh_other_run *other)
{
	for (size_t i = 0; i < one->n_places; i++)
		for (size_t j = 0; one->places[i].writable && j < other->n_places; j++)
			if (meet(&one->places[i], &other->places[j]))
				return true;
	return false;
}

static bool are_joined(const struct kh_other_run *a, const struct kh_other_run *b)
{
	return a->sees_unknown || b->sees_unknown || writes_to_what_is_seen(a, b) ||
	       writes_to_what_is_seen(b, a);
}

static void group(struct kh_other_runs *others)
{
	for (size_t i = 0; i < others->n; i++)
		others->list[i].group = i;
	for (size_t i = 0; i < others->n; i++)
		for (size_t j = 0; j < i; j++) {
			size_t mine = others->list[i].group, theirs = others->list[j].group;
			if (mine == theirs || !are_joined(&others->list[i], &others->list[j]))
				continue;
			for (size_t k = 0; k <= i; k++)
				if (others->list[k].group == theirs)
					others->list[k].group = mine;
		}
}

const struct kh_other_run *kh_other_runs_awaited(const struct kh_other_runs *others,
						 const struct kh_other_run *run, size_t *n)
{
	const struct kh_other_run *first = NULL;
	*n = 0;
	for (size_t i = 0; i < others->n; i++) {
		const struct kh_other_run *other = &others->list[i];
		if (!other->live || other->group != run->group)
			continue;
		first = first ? first : other;
		++*n;
	}
	return first;
}

struct met {
	const struct kh_other_run *run;
	bool met;
};

static void meet_folder(void *arg, const struct stat *folder)
{
	struct met *m = arg;
	m->met = m->met ||
		 (m->run->dev == folder->st_dev && m->run->ino == folder->st_ino && m->run->ino);
}

/* Is the folder that this path has here the workspace of `run`, or in it? */
static bool is_in_place(const char *path, const struct kh_other_run *run)
{
	struct met m = { run, false };
	kh_auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root >= 0)
		(void)kh_link_end_each(root, path + strspn(path, "/"), meet_folder, &m);
	return m.met;
}

static bool share(const struct kh_other_run *a, const struct kh_other_run *b)
{
	return is_in(a->workspace, b->workspace) || is_in(b->workspace, a->workspace) ||
	       (a->ino && a->dev == b->dev && a->ino == b->ino) || is_in_place(a->workspace, b) ||
	       is_in_place(b->workspace, a);
}

bool kh_other_runs_share(const struct kh_other_runs *others, const struct kh_other_run *run)
{
	for (size_t i = 0; *run->workspace && i < others->n; i++) {
		const struct kh_other_run *other = &others->list[i];
		if (other->live && *other->workspace && share(other, run))
			return true;
	}
	return false;
}

/* ---- all of them ---- */

static void run_fini(struct kh_other_run *run)
{
	for (size_t i = 0; i < run->n_places; i++)
		free(run->places[i].path);
	free(run->places);
	free(run->path);
	free(run->id);
	free(run->workspace);
}

void kh_other_runs_fini(struct kh_other_runs *others)
{
	for (size_t i = 0; i < others->n; i++)
		run_fini(&others->list[i]);
	free(others->list);
	*others = (struct kh_other_runs){ 0 };
}

static bool read_run(struct kh_other_run *run, const char *folder, const char *id,
		     struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	if (kh_run_note(folder, "workspace", KH_LIMIT_SURVEY_PATH_BYTES + 256, &text, err) ==
	    KH_NOTE_FAILED)
		return false;
	const char *workspace = kh_buf_cstr(&text);
	run->path = strdup(folder);
	run->id = strdup(id);
	run->workspace = workspace ? strdup(workspace) : NULL;
	if (!run->path || !run->id || !run->workspace)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	/* Without it there is the path. Whoever surveys the workspace says what is wrong. */
	if (!kh_run_place(folder, &run->dev, &run->ino, NULL))
		run->dev = run->ino = 0;
	return look_whether_live(run, err) && read_places(run, err);
}

static bool add(struct kh_other_runs *others, const char *folder, const char *id,
		struct kh_err *err)
{
	struct kh_other_run *list = reallocarray(others->list, others->n + 1, sizeof(*list));
	if (!list)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	others->list = list;
	list[others->n] = (struct kh_other_run){ 0 };
	return read_run(&list[others->n++], folder, id, err);
}

bool kh_other_runs_find(const char *state, const char *but, struct kh_other_runs *out,
			struct kh_err *err)
{
	kh_auto_free char *all = kh_strf("%s/workspaces", state);
	DIR *dir = all ? opendir(all) : NULL;
	if (!dir)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", all ? all : state);
	bool ok = true;
	const struct dirent *entry;
	while (ok && (errno = 0, entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || strcmp(entry->d_name, "lock") == 0 ||
		    (but && strcmp(entry->d_name, but) == 0))
			continue;
		kh_auto_free char *folder = kh_strf("%s/%s", all, entry->d_name);
		ok = folder ? add(out, folder, entry->d_name, err)
			    : kh_err_set(err, KH_ERR_NO_MEMORY, "a run's record: no memory");
	}
	if (ok && errno)
		ok = kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", all);
	closedir(dir);
	group(out);
	return ok;
}
