/*
 * watch.c - watches the folders of files with values and certificates for changes
 *
 * A file is replaced in many ways: rewritten, renamed over, or (Kubernetes) by a symbolic link in
 * its path that is changed to another folder. So the folders are watched: those of the path as
 * written, and for each link in it those of its target. At any event there the files are read
 * again, and their content decides. A folder that does not exist yet is looked for at each event of
 * the others.
 */

#include "keeper_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/log.h>
#include <keyhole/config/signing.h>

enum {
	EVENTS = IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_ATTRIB |
		 IN_DELETE_SELF | IN_MOVE_SELF,
	LINKS_MOST = 8,
};

struct kh_watch {
	int fd;
	int epoll; /* the jobs', which waits for it; -1: none */
	bool said;
};

static void watch_folder_of(struct kh_watch *watch, const char *path)
{
	const char *slash = strrchr(path, '/');
	kh_auto_free char *folder =
		slash ? kh_slice_dup(kh_slice_of(path, slash == path ? 1 : (size_t)(slash - path)))
		      : NULL;
	if (folder && inotify_add_watch(watch->fd, folder, EVENTS) < 0 && errno != ENOENT &&
	    !watch->said) {
		kh_log_warn("credentials' files are not all watched (%s); a reload reads them",
			    strerror(errno));
		watch->said = true;
	}
}

/* Each prefix of the path that is a link, and what it leads to. */
static void watch_links(struct kh_watch *watch, const char *path, unsigned depth)
{
	watch_folder_of(watch, path);
	for (const char *at = strchr(path + 1, '/'); depth < LINKS_MOST;
	     at = at && *at ? strchr(at + 1, '/') : NULL) {
		size_t len = at ? (size_t)(at - path) : strlen(path);
		kh_auto_free char *part = kh_slice_dup(kh_slice_of(path, len));
		char to[PATH_MAX];
		ssize_t n = part ? readlink(part, to, sizeof(to) - 1) : -1;
		if (n > 0) {
			to[n] = '\0';
			char *last = strrchr(part, '/');
			*last = '\0';
			kh_auto_free char *whole = kh_path_join(last == part ? "/" : part, to);
			kh_auto_free char *rest = whole ? kh_strf("%s%s", whole, path + len) : NULL;
			*last = '/';
			watch_folder_of(watch, part);
			if (rest)
				watch_links(watch, rest, depth + 1);
			return;
		}
		if (!at)
			return;
	}
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

static void watch_file(struct kh_watch *watch, const char *path)
{
	watch_links(watch, path, 0);
}

void kh_watch_begin(struct kh_vault *vault)
{
	if (!each_file(vault, NULL))
		return;
	if (!vault->watch) {
		vault->watch = calloc(1, sizeof(*vault->watch));
		if (!vault->watch)
			return;
		vault->watch->epoll = -1;
		vault->watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		if (vault->watch->fd < 0) {
			kh_log_warn("credentials' files are not watched (%s); a reload reads them",
				    strerror(errno));
			kh_watch_end(vault);
			return;
		}
		struct epoll_event event = { .events = EPOLLIN };
		if (vault->jobs.epoll < 0)
			vault->jobs.epoll = epoll_create1(EPOLL_CLOEXEC);
		vault->watch->epoll = vault->jobs.epoll;
		(void)epoll_ctl(vault->jobs.epoll, EPOLL_CTL_ADD, vault->watch->fd, &event);
	}
	(void)each_file(vault, watch_file);
}

void kh_watch_end(struct kh_vault *vault)
{
	if (!vault->watch)
		return;
	/* A child that was just forked may still have it. */
	if (vault->watch->epoll >= 0)
		(void)epoll_ctl(vault->watch->epoll, EPOLL_CTL_DEL, vault->watch->fd, NULL);
	if (vault->watch->fd >= 0)
		(void)close(vault->watch->fd);
	free(vault->watch);
	vault->watch = NULL;
}

bool kh_watch_look(struct kh_watch *watch)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool any = false;
	/* Bounded: who writes without end gets a look a turn. */
	for (int i = 0; watch && i < 64; i++) {
		if (read(watch->fd, events, sizeof(events)) <= 0)
			break;
		any = true;
	}
	return any;
}
