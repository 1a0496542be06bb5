/*
 * watch.c - watches files with values and certificates for changes
 *
 * A file is replaced in many ways: rewritten, renamed over, or by another folder or link anywhere
 * in its path (Kubernetes turns the link `..data`). So each folder on the way to it is watched
 * (watch_way.c), for the one name that is looked up there, and the file itself. At such an event
 * the files are read again, and their content decides. Before that, the way is watched anew, since
 * it may lead elsewhere now, and what is no longer on it is no longer watched.
 *
 * If a folder can't be watched (this user may not read it, or there are too many), the files below
 * it are checked with stat(2) every second.
 */

#include "keeper_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/config/signing.h>

enum {
	EVENTS = IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_ATTRIB |
		 IN_DELETE_SELF | IN_MOVE_SELF,
};

/* A name in a folder that is watched, as a hash: two names with the same one give a look too many.
 */
struct name {
	int wd;
	uint32_t hash; /* ANY: whatever happens there */
};
enum { ANY = 0 };

/* A file that is looked at, and what stat said of it. */
struct looked_at {
	const char *path; /* the configuration's */
	struct stat st;	  /* zeros: it is not there */
};

struct kh_watch {
	int fd;	   /* inotify; -1: there is none */
	int epoll; /* the jobs', which waits for it; -1: none */
	bool said;
	/* Monotonic: events are not waited for until then; 0: they are. */
	uint64_t paused_until_ms;
	struct name *names;
	size_t n_names;
	struct looked_at *files;
	size_t n_files;
	uint64_t files_due_ms; /* monotonic */
};

/* --- names ------------------------------------------------------------------------------------ */

/* FNV-1a */
static uint32_t hash_of(const char *name)
{
	uint32_t hash = 2166136261U;
	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619U;
	return hash == ANY ? 1 : hash;
}

static bool is_among(const struct name *names, size_t n, int wd, uint32_t hash)
{
	for (size_t i = 0; i < n; i++)
		if (names[i].wd == wd && (names[i].hash == hash || names[i].hash == ANY))
			return true;
	return false;
}

static bool is_watched(const struct name *names, size_t n, int wd)
{
	for (size_t i = 0; i < n; i++)
		if (names[i].wd == wd)
			return true;
	return false;
}

static bool is_gone(void)
{
	return errno == ENOENT || errno == ENOTDIR;
}

static void say_not_watched(struct kh_watch *watch, const char *why)
{
	if (!watch->said)
		kh_log_info("a folder on the way to a credential's file can't be watched (%s): "
			    "such a file is looked at each second",
			    why);
	watch->said = true;
}

static bool watch_name(void *arg, const char *folder, const char *name)
{
	struct kh_watch *watch = arg;
	uint32_t hash = name ? hash_of(name) : ANY;

	if (watch->fd < 0 || watch->n_names == KH_LIMIT_FILES_WATCHED)
		return false;
	int wd = inotify_add_watch(watch->fd, folder,
				   EVENTS | IN_DONT_FOLLOW | (name ? IN_ONLYDIR : 0U));
	if (wd < 0 && !is_gone())
		say_not_watched(watch, strerror(errno));
	/* What is gone was so after the name above it was watched. */
	if (wd < 0)
		return is_gone();
	if (!is_among(watch->names, watch->n_names, wd, hash))
		watch->names[watch->n_names++] = (struct name){ wd, hash };
	return true;
}

/* --- files ------------------------------------------------------------------------------------ */

static struct stat state_of(const char *path)
{
	struct stat st;
	if (stat(path, &st) != 0)
		memset(&st, 0, sizeof(st));
	return st;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_mode == b->st_mode &&
	       a->st_uid == b->st_uid && a->st_gid == b->st_gid && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void watch_file(struct kh_watch *watch, const char *path)
{
	if (kh_watch_way(path, watch_name, watch))
		return;
	struct looked_at *more = reallocarray(watch->files, watch->n_files + 1, sizeof(*more));
	if (!more)
		return;
	watch->files = more;
	more[watch->n_files++] = (struct looked_at){ path, state_of(path) };
}

static bool look_at_files(struct kh_watch *watch)
{
	uint64_t now = kh_clock_mono_ms();
	bool any = false;
	if (watch->n_files == 0 || now < watch->files_due_ms)
		return false;
	watch->files_due_ms = now + KH_LIMIT_FILES_UNWATCHED_MS;
	for (size_t i = 0; i < watch->n_files; i++) {
		struct stat st = state_of(watch->files[i].path);
		any |= !is_same(&st, &watch->files[i].st);
		watch->files[i].st = st;
	}
	return any;
}

/* Return: the path of a file, NULL: it is none. */
static const char *file_of(const struct kh_source *source)
{
	return source->kind == KH_SOURCE_FILE ? source->name : NULL;
}

/* The file that stands beside the value; NULL: none. */
static const char *certificate_of(const struct kh_credential_config *credential)
{
	return kh_client_cert_is(credential) ? credential->placement->mtls->certificate : NULL;
}

/* Runs `each` on the files of all sources, and certificates. Return: there are any. */
static bool each_file(struct kh_vault *vault,
		      void (*each)(struct kh_watch *watch, const char *path))
{
	bool any = false;
	for (size_t i = 0; i < vault->config->n_credentials; i++) {
		const struct kh_mint *mint = vault->config->credentials[i].mint;
		for (size_t j = 0; j <= vault->slots[i].n_holdings; j++) {
			bool last = j == vault->slots[i].n_holdings;
			const struct kh_source *source =
				!last ? vault->slots[i].holdings[j].source
				      : (mint ? &mint->client_secret : NULL);
			const char *path = source ? file_of(source) : NULL;
			any |= path != NULL;
			if (path && each)
				each(vault->watch, path);
		}
		const char *certificate = certificate_of(&vault->config->credentials[i]);
		any |= certificate != NULL;
		if (certificate && each)
			each(vault->watch, certificate);
	}
	return any;
}

/* --- life ------------------------------------------------------------------------------------- */

static struct kh_watch *watch_new(struct kh_jobs *jobs)
{
	struct kh_watch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return NULL;
	watch->epoll = -1;
	watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (watch->fd < 0) {
		say_not_watched(watch, strerror(errno));
		return watch;
	}
	struct epoll_event event = { .events = EPOLLIN };
	if (jobs->epoll < 0)
		jobs->epoll = epoll_create1(EPOLL_CLOEXEC);
	watch->epoll = jobs->epoll;
	(void)epoll_ctl(watch->epoll, EPOLL_CTL_ADD, watch->fd, &event);
	return watch;
}

/* Those that are on no way any more. */
static void drop_old(const struct kh_watch *watch, const struct name *old, size_t n_old)
{
	for (size_t i = 0; i < n_old; i++)
		if (!is_watched(watch->names, watch->n_names, old[i].wd) &&
		    !is_watched(old, i, old[i].wd))
			(void)inotify_rm_watch(watch->fd, old[i].wd);
}

void kh_watch_begin(struct kh_vault *vault)
{
	if (!each_file(vault, NULL))
		return;
	if (!vault->watch)
		vault->watch = watch_new(&vault->jobs);
	struct kh_watch *watch = vault->watch;
	struct name *names = calloc(KH_LIMIT_FILES_WATCHED, sizeof(*names));
	if (!watch || !names) {
		free(names);
		return;
	}
	struct name *old = watch->names;
	size_t n_old = watch->n_names;
	watch->names = names;
	watch->n_names = watch->n_files = 0;
	(void)each_file(vault, watch_file);
	drop_old(watch, old, n_old);
	free(old);
	if (watch->files_due_ms == 0)
		watch->files_due_ms = kh_clock_mono_ms() + KH_LIMIT_FILES_UNWATCHED_MS;
}

void kh_watch_end(struct kh_vault *vault)
{
	struct kh_watch *watch = vault->watch;
	if (!watch)
		return;
	/* A child that was just forked may still have it. */
	if (watch->epoll >= 0)
		(void)epoll_ctl(watch->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
	if (watch->fd >= 0)
		(void)close(watch->fd);
	free(watch->names);
	free(watch->files);
	free(watch);
	vault->watch = NULL;
}

/* --- looks ------------------------------------------------------------------------------------ */

/* Some were lost (wd -1), or one is of a name on the way to a file. That a watch was dropped is
 * none. */
static bool concerns_us(const struct kh_watch *watch, const struct inotify_event *event)
{
	if (event->mask & IN_IGNORED)
		return false;
	if (event->wd < 0 || event->len == 0)
		return event->wd < 0 || is_watched(watch->names, watch->n_names, event->wd);
	return is_among(watch->names, watch->n_names, event->wd, hash_of(event->name));
}

/* Return: there were events; *concern: some are a reason to read. */
static bool read_events(const struct kh_watch *watch, bool *concern)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool any = false;
	/* Bounded: the rest is there at the next look. */
	for (int i = 0; i < 64; i++) {
		ssize_t n = read(watch->fd, events, sizeof(events));
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *event = (const void *)(events + at);
			*concern = *concern || concerns_us(watch, event);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
		if (n <= 0)
			break;
		any = true;
	}
	return any;
}

static void wait_for_events(const struct kh_watch *watch, bool wait)
{
	struct epoll_event event = { .events = wait ? EPOLLIN : 0 };
	if (watch->epoll >= 0)
		(void)epoll_ctl(watch->epoll, EPOLL_CTL_MOD, watch->fd, &event);
}

/* Anybody may make files beside ours without end. After events the kernel collects the next ones
 * for a while, and they wake nobody. */
static bool look_at_events(struct kh_watch *watch)
{
	uint64_t now = kh_clock_mono_ms();
	bool paused = watch->paused_until_ms != 0, concern = false;
	if (watch->fd < 0 || now < watch->paused_until_ms)
		return false;
	watch->paused_until_ms = read_events(watch, &concern) ? now + KH_LIMIT_FILES_LOOK_MS : 0;
	if (paused != (watch->paused_until_ms != 0))
		wait_for_events(watch, paused);
	return concern;
}

bool kh_watch_look(struct kh_watch *watch)
{
	if (!watch)
		return false;
	bool event = look_at_events(watch);
	return look_at_files(watch) || event;
}

uint64_t kh_watch_deadline(const struct kh_watch *watch)
{
	if (!watch)
		return 0;
	uint64_t files = watch->n_files > 0 ? watch->files_due_ms : 0;
	return files && (!watch->paused_until_ms || files < watch->paused_until_ms)
		       ? files
		       : watch->paused_until_ms;
}
