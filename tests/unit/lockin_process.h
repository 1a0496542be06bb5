/*
 * lockin_process.h - a process that locks itself in as a worker does, and what becomes of it
 *
 * Each attempt is a process of its own: it locks itself in, then tries. It ends with REFUSED,
 * SUCCEEDED or by the filter's signal. Where the tests run as root every attempt is made twice: by
 * a worker that root started, and by one that an ordinary user did.
 */
#ifndef KEYHOLE_TESTS_LOCKIN_PROCESS_H
#define KEYHOLE_TESTS_LOCKIN_PROCESS_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/base/file.h>
#include <keyhole/base/rights.h>
#include <keyhole/worker/worker.h>
#include <lockin/lockin_internal.h>
#include <keyhole/lockin/lockin.h>

enum { REFUSED = 40, SUCCEEDED = 41, NO_LOCKIN = 42, NOT_SET_UP = 43 };
enum { ORDINARY_UID = 4711 };

static pid_t parent;
/* All opened before. */
static char a_byte[] = "x";
static int a_file = -1;
static int append_only = -1; /* the same file, as the keeper lends the journal */
static int a_connection[2] = { -1, -1 };
static int a_listener = -1; /* of the Unix family */
/* A socket of the host's that everybody may connect to, by its name. */
static struct sockaddr_un a_service = { .sun_family = AF_UNIX };
static char a_path[] = "/tmp/keyhole-test-lockin-XXXXXX";

static inline bool is_refusal(int code)
{
	return code == EPERM || code == EACCES || code == ENOSYS;
}

/* Of a system call's result. */
static inline int outcome(long result)
{
	if (result >= 0)
		return SUCCEEDED;
	return is_refusal(errno) ? REFUSED : errno;
}

static inline void become_ordinary(void)
{
	if (setgroups(0, NULL) != 0 || setresgid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) != 0 ||
	    setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) != 0)
		_exit(NOT_SET_UP);
}

static inline int run_locked(int (*attempt)(void), bool ordinary)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct kh_err err = KH_ERR_INIT;
		if (ordinary && geteuid() == 0)
			become_ordinary();
		if (!kh_lockin(NULL, &err)) {
			fprintf(stderr, "%s\n", err.text);
			_exit(NO_LOCKIN);
		}
		_exit(attempt());
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* The number that recvmsg is bound to, before any other descriptor gets it. */
static inline bool set_up_channel(void)
{
	int pair[2];
	return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0 &&
	       (pair[0] == KH_WORKER_CHANNEL_FD || pair[1] == KH_WORKER_CHANNEL_FD ||
		dup2(pair[0], KH_WORKER_CHANNEL_FD) == KH_WORKER_CHANNEL_FD);
}

static inline bool set_up_sockets(void)
{
	struct sockaddr_un abstract = { .sun_family = AF_UNIX };
	a_listener = socket(AF_UNIX, SOCK_STREAM, 0);
	return socketpair(AF_UNIX, SOCK_STREAM, 0, a_connection) == 0 && a_listener >= 0 &&
	       bind(a_listener, (struct sockaddr *)&abstract, sizeof(sa_family_t)) == 0 &&
	       listen(a_listener, 1) == 0;
}

/* A listening service, and on the connection a socket for it, as a sandbox would pass it in. */
static inline bool set_up_service(void)
{
	int passed = socket(AF_UNIX, SOCK_STREAM, 0), service = socket(AF_UNIX, SOCK_STREAM, 0);
	(void)snprintf(a_service.sun_path, sizeof(a_service.sun_path), "%s.s", a_path);
	return passed >= 0 && service >= 0 &&
	       bind(service, (struct sockaddr *)&a_service, sizeof(a_service)) == 0 &&
	       chmod(a_service.sun_path, 0666) == 0 && listen(service, 8) == 0 &&
	       kh_rights_send(a_connection[1], "x", 1, &passed, 1, 0);
}

static inline int set_up(void **state)
{
	(void)state;
	struct rlimit none = { 0, 0 };
	parent = getpid();
	bool ok = set_up_channel() && set_up_sockets();
	a_file = mkstemp(a_path);
	append_only = open(a_path, O_WRONLY | O_APPEND);
	/* The attempts that are killed leave no core files. */
	ok = ok && a_file >= 0 && append_only >= 0 && fchmod(a_file, 0666) == 0 && set_up_service();
	return ok && setrlimit(RLIMIT_CORE, &none) == 0 ? 0 : -1;
}

static inline int tear_down(void **state)
{
	(void)state;
	(void)close(a_file);
	(void)unlink(a_service.sun_path);
	return unlink(a_path);
}

#endif
