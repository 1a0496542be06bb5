/* rendezvous.c - accepts one connection from keyhole-init, and passes four descriptors over it */
#include "rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/sandbox/init.h>
#include <keyhole/base/rights.h>

int kh_rendezvous_new(struct kh_err *err)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "a socket");
	return fd;
}

bool kh_rendezvous_bind(int listener, int folder, const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int n = snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/%s", folder, name);
	if (n < 0 || (size_t)n >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return false;
	}
	if (bind(listener, (const struct sockaddr *)&addr, sizeof(addr)) != 0)
		return false;
	kh_auto_close int made = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	return made >= 0 && fstat(made, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       kh_file_set_mode(made, 0666) && listen(listener, 1) == 0;
}

static bool give(int to, const int fds[KH_INIT_GIVEN])
{
	struct kh_init_message message = { .type = KH_INIT_MET };
	return kh_rights_send(to, &message, sizeof(message), fds, KH_INIT_GIVEN, MSG_DONTWAIT);
}

bool kh_rendezvous_hand_over(int listener, int control, const int stdio[3], bool *met,
			     struct kh_err *err)
{
	*met = false;
	kh_auto_close int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (peer < 0)
		return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ||
		       kh_err_sys(err, KH_ERR_SYSTEM, errno, "keyhole-init's connection");
	const int fds[KH_INIT_GIVEN] = { control, stdio[0], stdio[1], stdio[2] };
	if (!give(peer, fds))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "keyhole-init's descriptors");
	/* Also for whoever has a copy of it. */
	*met = shutdown(listener, SHUT_RDWR) == 0;
	return *met || kh_err_sys(err, KH_ERR_SYSTEM, errno, "shutting keyhole-init's socket");
}
