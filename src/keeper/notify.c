/* notify.c - notifications to systemd (sd_notify(3)), and sockets from it (sd_listen_fds(3)) */

#include "keeper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/file.h>
#include <keyhole/base/log.h>

enum { FIRST_PASSED_FD = 3, PASSED_MOST = 1024 };

void kh_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, strlen(path));
	if (path[0] == '@') /* an abstract name */
		to.sun_path[0] = '\0';
	kh_auto_close int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (fd < 0 ||
	    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&to, len) < 0)
		kh_log_warn("systemd can't be told: %s", strerror(errno));
}

void kh_notify_reloading(void)
{
	char state[64];

	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)kh_clock_mono_us());
	kh_notify(state);
}

unsigned kh_notify_passed_fds(void)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	uint64_t whose = 0, n = 0;

	if (!pid || !count || !kh_slice_to_u64(kh_slice_str(pid), &whose) ||
	    whose != (uint64_t)getpid() || !kh_slice_to_u64(kh_slice_str(count), &n))
		return 0;
	return n < PASSED_MOST ? (unsigned)n : PASSED_MOST;
}

/* Is it a listening stream socket of this name? */
static bool listens_at(int fd, const char *path)
{
	struct sockaddr_un name = { .sun_family = AF_UNSPEC };
	socklen_t len = sizeof(name), size = sizeof(int);
	int type = 0, listening = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || !listening ||
	    getsockname(fd, (struct sockaddr *)&name, &len) != 0 || name.sun_family != AF_UNIX ||
	    len <= offsetof(struct sockaddr_un, sun_path))
		return false;
	return strncmp(name.sun_path, path, len - offsetof(struct sockaddr_un, sun_path)) == 0;
}

int kh_notify_passed_take(const char *path)
{
	for (unsigned i = 0; i < kh_notify_passed_fds(); i++) {
		int passed = FIRST_PASSED_FD + (int)i;
		if (!listens_at(passed, path))
			continue;
		int fd = fcntl(passed, F_DUPFD_CLOEXEC, 0);
		if (fd >= 0 && kh_file_set_nonblock(fd, true))
			return fd;
		if (fd >= 0)
			(void)close(fd);
	}
	return -1;
}

void kh_notify_passed_seal(void)
{
	for (unsigned i = 0; i < kh_notify_passed_fds(); i++)
		(void)kh_file_set_cloexec(FIRST_PASSED_FD + (int)i, true);
}
