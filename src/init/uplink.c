/*
 * uplink.c - gets connections to the proxy over the uplink, for a kernel that can open no socket of
 * the host (gVisor)
 *
 * keyhole-init sends a datagram, and the stand-by process outside answers with a connected socket
 * (SCM_RIGHTS), one per datagram. So each connection is made when it is needed, also after a
 * restart of the proxy. There is one request at a time.
 *
 * runsc passes in either three descriptors or one terminal. With a terminal, another process, which
 * runsc starts in the same sandbox, brings the uplink before the command is started, when no other
 * process could pretend to be it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <keyhole/sandbox/init.h>
#include <keyhole/base/rights.h>

#include "init_internal.h"

static bool present;
static int uplink_fd = -1;
static bool asked, answered;
static struct init_watch uplink_watch;

/* ---- how it gets here ---- */

/* An abstract name, which the network namespace has for itself. */
static socklen_t name_of_bringer(struct sockaddr_un *addr)
{
	static const char name[] = "\0keyhole-uplink";
	*addr = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(addr->sun_path, name, sizeof(name) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(name) - 1);
}

static int be_brought(void)
{
	struct sockaddr_un addr;
	socklen_t len = name_of_bringer(&addr);
	const char mark = KH_INIT_MARK;
	char byte;
	int fd = -1, peer = -1;
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (const struct sockaddr *)&addr, len) != 0 ||
	    listen(listener, 1) != 0 || write(STDIN_FILENO, &mark, 1) != 1 ||
	    (peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
		init_die("--uplink: %s", strerror(errno));
	(void)kh_rights_receive(peer, &byte, 1, &fd, 1, MSG_CMSG_CLOEXEC);
	close(listener);
	/* Which tells the other that it is done. */
	close(peer);
	return fd;
}

void init_uplink_take(int fd)
{
	present = true;
	uplink_fd = fd < 0 ? be_brought() : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (uplink_fd < 0)
		init_die("--uplink %d: there is none", fd);
}

void init_uplink_bring(void)
{
	struct sockaddr_un addr;
	socklen_t len = name_of_bringer(&addr);
	const int given = STDIN_FILENO;
	char byte;
	int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (to < 0 || connect(to, (const struct sockaddr *)&addr, len) != 0 ||
	    !kh_rights_send(to, "", 1, &given, 1, 0))
		init_die("--bring: %s", strerror(errno));
	while (recv(to, &byte, 1, 0) < 0 && errno == EINTR)
		;
	_exit(0);
}

/* The command, as whom keyhole-init makes it, can neither take it away nor shut it. */
static bool give_away(const char *path, unsigned uid)
{
	char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	const char *slash = strrchr(path, '/');
	if (!slash || slash == path) {
		errno = EINVAL;
		return false;
	}
	size_t len = (size_t)(slash - path);
	memcpy(folder, path, len);
	folder[len] = '\0';
	return chmod(path, 0666) == 0 && chown(path, uid, (gid_t)-1) == 0 &&
	       chmod(folder, 0755) == 0 && chown(folder, uid, (gid_t)-1) == 0;
}

int init_uplink_listen(const char *path, unsigned uid)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(addr.sun_path))
		init_die("%s: too long for the path of a socket", path);
	memcpy(addr.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) != 0 ||
	    !give_away(path, uid) || listen(fd, SOMAXCONN) != 0)
		init_die("listening at %s: %s", path, strerror(errno));
	return fd;
}

/* ---- what comes over it ---- */

static enum init_linked lose(void)
{
	init_complain("what connects to the proxy has ended: nothing can be reached any more");
	init_watch_end(uplink_fd);
	close(uplink_fd);
	uplink_fd = -1;
	return INIT_LINK_REFUSED;
}

/* Whoever waits for the answer takes it in its turn. */
static void uplink_ready(struct init_watch *watch, uint32_t events)
{
	(void)watch;
	(void)events;
	if (asked)
		answered = true;
	else
		(void)lose();
}

bool init_uplink_present(void)
{
	return present;
}

int init_uplink_rendezvous(int stdio[3])
{
	int control = init_control_receive(uplink_fd, "--uplink", stdio);
	uplink_watch.ready = uplink_ready;
	if (!init_watch_add(uplink_fd, &uplink_watch, EPOLLIN))
		init_die("watching the uplink: %s", strerror(errno));
	return control;
}

static enum init_linked take_answer(int *fd)
{
	struct kh_init_message answer = { 0 };
	answered = false;
	ssize_t n = kh_rights_receive(uplink_fd, &answer, sizeof(answer), fd, 1,
				      MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0 && errno == EAGAIN)
		return INIT_LINK_WAITS;
	asked = false;
	if (n != sizeof(answer) || answer.type != KH_INIT_LINKED)
		return lose();
	if (*fd >= 0)
		return fcntl(*fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0 ? INIT_LINK_THERE
								     : INIT_LINK_REFUSED;
	/* 0: it came, and there was no descriptor left for it. */
	return answer.value == EAGAIN || answer.value == 0 ? INIT_LINK_AGAIN : INIT_LINK_REFUSED;
}

enum init_linked init_uplink_connect(int *fd)
{
	if (uplink_fd < 0)
		return INIT_LINK_REFUSED;
	if (asked)
		return answered ? take_answer(fd) : INIT_LINK_WAITS;
	if (send(uplink_fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
		return errno == EAGAIN || errno == EINTR ? INIT_LINK_AGAIN : lose();
	asked = true;
	return INIT_LINK_WAITS;
}
