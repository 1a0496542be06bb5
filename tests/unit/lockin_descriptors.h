/* lockin_descriptors.h - attempts on what a worker holds: the channel, the journal, connections */
#ifndef KEYHOLE_TESTS_LOCKIN_DESCRIPTORS_H
#define KEYHOLE_TESTS_LOCKIN_DESCRIPTORS_H

#include <sys/ioctl.h>

#include <keyhole/base/socket_options.h>
#include "lockin_process.h"

#include <linux/falloc.h>
#include <sys/sendfile.h>

/* --- descriptors that go by a connection ------------------------------------------------------ */

static int try_send_descriptor(void)
{
	return outcome(kh_rights_send(a_connection[0], "x", 1, &a_file, 1, 0) ? 0 : -1);
}

static int try_send_plain_message(void)
{
	return outcome(kh_rights_send(a_connection[0], "x", 1, NULL, 0, 0) ? 0 : -1);
}

static int try_sendmmsg(void)
{
	struct iovec iov = { a_byte, 1 };
	struct mmsghdr one = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };
	return outcome(sendmmsg(a_connection[0], &one, 1, MSG_DONTWAIT));
}

static int try_send_by_channel(void)
{
	return outcome(kh_rights_send(KH_WORKER_CHANNEL_FD, "x", 1, &a_file, 1, 0) ? 0 : -1);
}

static int try_receive_descriptor(void)
{
	char byte;
	int fd;
	return outcome(kh_rights_receive(a_connection[0], &byte, 1, &fd, 1, MSG_DONTWAIT));
}

/* The whole way to ssh-agent's or D-Bus's socket, which the worker's user may connect to. It reads
 * no message: the next one finds it there. */
static int try_connect_what_was_passed(void)
{
	char byte;
	int fd;
	if (kh_rights_receive(a_connection[0], &byte, 1, &fd, 1, MSG_DONTWAIT | MSG_PEEK) < 0)
		return outcome(-1);
	return outcome(connect(fd, (struct sockaddr *)&a_service, sizeof(a_service)));
}

static int try_recvmmsg(void)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	struct mmsghdr one = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };
	return outcome(recvmmsg(a_connection[0], &one, 1, MSG_DONTWAIT, NULL));
}

/* The kernel takes the lower half of the register for the descriptor, the filter sees it whole. */
static int try_receive_by_wide_number(void)
{
	struct msghdr msg = { .msg_iovlen = 0 };
	return outcome(syscall(SYS_recvmsg, (1L << 32) | KH_WORKER_CHANNEL_FD, &msg, MSG_DONTWAIT));
}

static int try_close_channel(void)
{
	return outcome(close(KH_WORKER_CHANNEL_FD));
}

static int try_close_channel_by_wide_number(void)
{
	return outcome(syscall(SYS_close, (1L << 32) | KH_WORKER_CHANNEL_FD));
}

static int try_close_channel_in_a_range(void)
{
	return outcome(syscall(SYS_close_range, KH_WORKER_CHANNEL_FD, KH_WORKER_CHANNEL_FD, 0));
}

static int try_dup2_onto_channel(void)
{
	return outcome(dup2(a_connection[0], KH_WORKER_CHANNEL_FD));
}

static int try_dup3_onto_channel(void)
{
	return outcome(dup3(a_connection[0], KH_WORKER_CHANNEL_FD, O_CLOEXEC));
}

/* Gives the next free number, which is never that of the channel. */
static int try_fcntl_onto_channel(void)
{
	int fd = fcntl(a_connection[0], F_DUPFD_CLOEXEC, KH_WORKER_CHANNEL_FD);
	return fd == KH_WORKER_CHANNEL_FD ? SUCCEEDED : REFUSED;
}

/* --- the journal ------------------------------------------------------------------------------ */

static int try_no_append(void)
{
	return outcome(fcntl(a_file, F_SETFL, 0));
}

static int try_pwrite(void)
{
	return outcome(pwrite(a_file, "x", 1, 0));
}

static int try_pwritev(void)
{
	struct iovec iov = { a_byte, 1 };
	return outcome(pwritev(a_file, &iov, 1, 0));
}

/* With RWF_NOAPPEND (Linux 6.9) it writes anywhere. */
static int try_pwritev2(void)
{
	struct iovec iov = { a_byte, 1 };
	return outcome(pwritev2(a_file, &iov, 1, 0, 0x20));
}

static int try_ftruncate(void)
{
	return outcome(ftruncate(a_file, 0));
}

static int try_punch_hole(void)
{
	return outcome(fallocate(a_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
}

static int try_copy_file_range(void)
{
	off_t from = 0, to = 0;
	return outcome(copy_file_range(a_file, &from, a_file, &to, 1, 0));
}

static int try_sendfile(void)
{
	off_t from = 0;
	return outcome(sendfile(a_file, a_file, &from, 1));
}

static int try_splice(void)
{
	off_t to = 0;
	return outcome(splice(a_connection[0], NULL, a_file, &to, 1, SPLICE_F_NONBLOCK));
}

/* What the keeper lends is open for writing alone, and that is no mapping. */
static int try_shared_mapping(void)
{
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, append_only, 0);
	return outcome(map == MAP_FAILED ? -1 : 0);
}

static int try_unlock(void)
{
	struct flock lock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	return outcome(fcntl(append_only, F_OFD_SETLK, &lock));
}

/* --- listeners, sockets, signals -------------------------------------------------------------- */

static int try_shutdown_listener(void)
{
	return outcome(shutdown(a_listener, SHUT_RDWR));
}

static int try_shutdown_reading(void)
{
	return outcome(shutdown(a_listener, SHUT_RD));
}

static int try_hold_a_port(void)
{
	const int off = 0;
	return outcome(setsockopt(a_listener, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off)));
}

/* What the keeper would not set back, of every option that there could be. */
static int try_lasting_option(void)
{
	enum { NAMES = 128 };
	static const int levels[] = { SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, IPPROTO_IPV6 };
	static const int reset[][2] = {
#define ROW(level, name) { level, name },
		KH_WORKER_SOCKET_OPTIONS(ROW)
#undef ROW
	};
	const struct linger value = { .l_onoff = 1 };
	for (size_t l = 0; l < sizeof(levels) / sizeof(levels[0]); l++)
		for (int name = 0; name < NAMES; name++) {
			bool known = false;
			for (size_t i = 0; i < sizeof(reset) / sizeof(reset[0]); i++)
				known = known || (reset[i][0] == levels[l] && reset[i][1] == name);
			int got = known ? REFUSED
					: outcome(setsockopt(a_listener, levels[l], name, &value,
							     sizeof(value)));
			if (got != REFUSED)
				return got;
		}
	return REFUSED;
}

static int try_make_it_block(void)
{
	int off = 0;
	return outcome(ioctl(a_listener, FIONBIO, &off));
}

static int try_mptcp(void)
{
	return outcome(socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP));
}

static int try_ping(void)
{
	return outcome(socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
}

static int try_udplite(void)
{
	return outcome(socket(AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE));
}

static int try_odd_type(void)
{
	return outcome(socket(AF_INET, SOCK_STREAM | 0x10, 0));
}

/* An end that looks as if it came from outside. */
static int try_own_sigkill(void)
{
	return outcome(syscall(SYS_tgkill, getpid(), gettid(), SIGKILL));
}

#endif
