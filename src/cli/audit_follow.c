/*
 * audit_follow.c - `--follow`: shows a journal while it is written
 *
 * At a handover FILE becomes FILE.N, and a new FILE begins. The worker before goes on writing to
 * FILE.N for a while, so the last segments are all read on: at most LIVE_MOST of them. A file is
 * the same one by its device and inode, whatever its name has become. Names are looked up again
 * only when FILE leads to another file.
 */
#include "audit_follow.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "audit_segments.h"
#include "cli_internal.h"
#include "journal_exchanges.h"

enum { LIVE_MOST = 4, PAUSE_MS = 200 };

struct live {
	char *path; /* as it was found */
	int fd;
	struct stat st;
	struct kh_journal_following *following;
	struct kh_journal_flaws flaws, said;
};

struct follow {
	const struct kh_audit_following *what;
	struct kh_journal_reader reader;
	struct live *live[LIVE_MOST]; /* the oldest first */
	size_t n;
	struct stat *seen; /* all files that were opened */
	size_t n_seen, room;
	struct stat newest; /* where FILE led to when it was last looked at */
};

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool complain(const struct follow *f, struct live *l)
{
	l->said = l->flaws;
	return kh_journal_complain(f->what->command, l->path, &l->flaws, "shown though");
}

static void live_free(struct live *l)
{
	kh_journal_following_free(l->following);
	if (l->fd >= 0)
		(void)close(l->fd);
	free(l->path);
	free(l);
}

/* The oldest one has its end. */
static void end_oldest(struct follow *f)
{
	struct live *l = f->live[0];
	struct kh_err err = KH_ERR_INIT;

	if (!kh_journal_following_end(l->following, &err))
		kh_cli_complain("%s: %s: %s", f->what->command, kh_esc_str(l->path), err.text);
	(void)complain(f, l);
	live_free(l);
	memmove(f->live, f->live + 1, --f->n * sizeof(f->live[0]));
}

/* What was written since. Return: false: it can't be read on. */
static bool read_on(const struct follow *f, struct live *l)
{
	struct kh_err err = KH_ERR_INIT;

	if (!kh_journal_following_read(l->following, &err)) {
		kh_cli_complain("%s: %s: %s", f->what->command, kh_esc_str(l->path), err.text);
		return false;
	}
	if (l->flaws.foreign == l->said.foreign && l->flaws.astray == l->said.astray &&
	    l->flaws.torn == l->said.torn)
		return true;
	return complain(f, l);
}

static bool note_seen(struct follow *f, const struct stat *st)
{
	if (f->n_seen == f->room) {
		size_t room = f->room ? f->room * 2 : 16;
		struct stat *seen = realloc(f->seen, room * sizeof(*seen));
		if (!seen)
			return false;
		f->seen = seen;
		f->room = room;
	}
	f->seen[f->n_seen++] = *st;
	return true;
}

static bool was_seen(const struct follow *f, const struct stat *st)
{
	for (size_t i = 0; i < f->n_seen; i++)
		if (is_same(&f->seen[i], st))
			return true;
	return false;
}

static bool is_live(const struct follow *f, const struct stat *st)
{
	for (size_t i = 0; i < f->n; i++)
		if (is_same(&f->live[i]->st, st))
			return true;
	return false;
}

/* FILE led to another file before: if it is not read already, it is a new one, though it may have
 * the inode of a segment that was deleted. Return: false: it can't be opened or read, which was
 * said. */
static bool add(struct follow *f, const struct kh_audit_segment *segment)
{
	struct stat st;
	const char *path = segment->path;
	struct kh_err err = KH_ERR_INIT;
	kh_auto_close int fd = kh_cli_open_journal(f->what->command, path);
	struct live *l;

	if (fd < 0 || fstat(fd, &st) != 0)
		return false;
	if (segment->number == UINT64_MAX ? is_live(f, &st) : was_seen(f, &st))
		return true;
	l = calloc(1, sizeof(*l));
	if (!l || !note_seen(f, &st)) {
		free(l);
		kh_cli_complain("%s: no memory", f->what->command);
		return false;
	}
	if (f->n == LIVE_MOST)
		end_oldest(f);
	f->live[f->n++] = l;
	l->path = strdup(path);
	l->fd = kh_steal_fd(&fd);
	l->st = st;
	l->following = kh_journal_following_new(l->fd, &f->reader, &l->flaws, &err);
	if (l->path && l->following)
		return read_on(f, l);
	kh_cli_complain("%s: %s", f->what->command, err.text[0] ? err.text : "no memory");
	live_free(l);
	f->n--;
	return false;
}

/* Return: false: FILE itself can't be read. */
static bool look_for_segments(struct follow *f)
{
	struct kh_audit_segments segments = { .n = 0 };
	struct kh_err err = KH_ERR_INIT;
	bool ok = true;

	if (!kh_audit_segments_find(f->what->file, &segments, &err))
		kh_cli_complain("%s: %s: its earlier segments can't be looked for: %s",
				f->what->command, kh_esc_str(f->what->file), err.text);
	for (size_t i = 0; i < segments.n; i++)
		ok = add(f, &segments.list[i]);
	kh_audit_segments_fini(&segments);
	return ok;
}

/* While FILE is moved, there is none for a moment. */
static bool has_another_file(struct follow *f)
{
	struct stat st, before = f->newest;

	if (stat(f->what->file, &st) != 0)
		return false;
	f->newest = st;
	return !is_same(&st, &before);
}

/* Return: false: nobody reads standard output any more. */
static bool wait_a_moment(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	if (fflush(stdout) != 0 || ferror(stdout))
		return false;
	return poll(&out, 1, PAUSE_MS) <= 0 || !(out.revents & (POLLERR | POLLHUP | POLLNVAL));
}

static bool go_on(struct follow *f)
{
	bool ok = true;

	for (size_t i = 0; i < f->n; i++)
		ok = read_on(f, f->live[i]) && ok;
	/* One that can't be opened was named, and is tried again when FILE leads elsewhere. */
	if (ok && has_another_file(f))
		(void)look_for_segments(f);
	return ok;
}

int kh_audit_follow(const struct kh_audit_following *what)
{
	struct follow f = { .what = what, .reader = kh_audit_show_reader(what->show) };
	bool ok = look_for_segments(&f);

	what->caught_up(what->context);
	while (ok && wait_a_moment())
		ok = go_on(&f);
	for (size_t i = 0; i < f.n; i++)
		live_free(f.live[i]);
	free(f.seen);
	return ok ? 0 : KH_EXIT_USAGE;
}
