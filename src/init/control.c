/* control.c - the socket to the launcher */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <keyhole/sandbox/init.h>
#include <keyhole/base/rights.h>

#include "init_internal.h"

static int control_fd = -1;
static struct init_watch control_watch;

bool init_control_present(void)
{
	return control_fd >= 0;
}

void init_control_send(uint32_t type, int value, int pass)
{
	if (control_fd < 0)
		return;
	struct kh_init_message message = { .type = type, .value = value };
	/* A launcher that is gone shows itself in receive(). */
	(void)kh_rights_send(control_fd, &message, sizeof(message), &pass, pass >= 0, 0);
}

int init_control_receive(int from, const char *way, int stdio[3])
{
	struct kh_init_message message = { 0 };
	int fds[KH_INIT_GIVEN];
	ssize_t n = kh_rights_receive(from, &message, sizeof(message), fds, KH_INIT_GIVEN,
				      MSG_CMSG_CLOEXEC);
	if (n != sizeof(message) || message.type != KH_INIT_MET || fds[0] < 0)
		init_die("%s: the launcher gave nothing", way);
	memcpy(stdio, fds + 1, 3 * sizeof(*stdio));
	return fds[0];
}

int init_control_connect(const char *path, int stdio[3])
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(addr.sun_path))
		init_die("--connect %s: too long", path);
	memcpy(addr.sun_path, path, strlen(path));
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0 || connect(sock, (const struct sockaddr *)&addr, sizeof(addr)) != 0)
		init_die("--connect %s: %s", path, strerror(errno));
	int control = init_control_receive(sock, path, stdio);
	close(sock);
	return control;
}

static void receive(struct init_watch *watch, uint32_t events)
{
	(void)watch;
	(void)events;
	struct kh_init_message message = { 0 };
	int fds[KH_INIT_CLIENT_FDS];
	ssize_t n = kh_rights_receive(control_fd, &message, sizeof(message), fds,
				      KH_INIT_CLIENT_FDS, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && errno == EAGAIN)
		return;
	/* Without a launcher there is nobody to run for. The namespace ends with this process. */
	if (n <= 0)
		_exit(KH_INIT_FAILED);
	if (fds[0] >= 0 && n == sizeof(message) && message.type == KH_INIT_PUBLISHED) {
		init_relay_publish(fds[0], fds[1], (uint16_t)message.value);
		return;
	}
	for (size_t i = 0; i < KH_INIT_CLIENT_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (n != sizeof(message))
		return;
	switch ((enum kh_init_type)message.type) {
	case KH_INIT_GO:
		init_command_go();
		break;
	case KH_INIT_SIGNAL:
		if (init_command_signal(message.value))
			init_control_send(KH_INIT_HEARD, message.value, -1);
		break;
	case KH_INIT_TYPED:
		init_command_typed(message.value);
		break;
	case KH_INIT_PUBLISHED: /* without its descriptors */
	case KH_INIT_MET:
	case KH_INIT_LINKED:
	case KH_INIT_TERMINAL:
	case KH_INIT_STARTED:
	case KH_INIT_NO_EXEC:
	case KH_INIT_EXITED:
	case KH_INIT_READY:
	case KH_INIT_HEARD:
		break;
	}
}

void init_control_hold(int fd)
{
	struct kh_init_message message = { .type = KH_INIT_READY };
	ssize_t n = send(fd, &message, sizeof(message), MSG_NOSIGNAL);
	if (n != sizeof(message))
		init_die("--hold: --control %d: %s", fd, strerror(errno));
	do
		n = recv(fd, &message, sizeof(message), 0);
	while ((n < 0 && errno == EINTR) || (n == sizeof(message) && message.type != KH_INIT_GO));
	if (n != sizeof(message))
		_exit(KH_INIT_FAILED);
}

void init_control_start(int fd)
{
	control_fd = fd;
	int flags = fcntl(fd, F_GETFD);
	if (flags < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) != 0)
		init_die("--control %d: %s", fd, strerror(errno));
	control_watch.ready = receive;
	if (!init_watch_add(fd, &control_watch, EPOLLIN))
		init_die("watching the launcher: %s", strerror(errno));
}
