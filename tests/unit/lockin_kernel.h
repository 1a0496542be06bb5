/* lockin_kernel.h - attempts on sockets, code in memory and what the kernel gives root */
#ifndef KEYHOLE_TESTS_LOCKIN_KERNEL_H
#define KEYHOLE_TESTS_LOCKIN_KERNEL_H

#include "lockin_process.h"

static int socket_of(int family, int type, int protocol)
{
	return outcome(socket(family, type, protocol));
}

static int try_unix(void)
{
	return socket_of(AF_UNIX, SOCK_STREAM, 0);
}

static int try_unix_datagram(void)
{
	return socket_of(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static int try_socketpair(void)
{
	int pair[2];
	return outcome(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
}

static int try_netlink(void)
{
	return socket_of(AF_NETLINK, SOCK_RAW, 0);
}

static int try_packet(void)
{
	return socket_of(AF_PACKET, SOCK_RAW, 0);
}

static int try_vsock(void)
{
	return socket_of(AF_VSOCK, SOCK_STREAM, 0);
}

static int try_alg(void)
{
	return socket_of(AF_ALG, SOCK_SEQPACKET, 0);
}

static int try_raw(void)
{
	return socket_of(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

static int try_sctp(void)
{
	return socket_of(AF_INET, SOCK_SEQPACKET, IPPROTO_SCTP);
}

static int try_bind(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		return NOT_SET_UP;
	return outcome(bind(fd, (struct sockaddr *)&any, sizeof(any)));
}

static int try_listen(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	return fd < 0 ? NOT_SET_UP : outcome(listen(fd, 1));
}

static int try_filter(void)
{
	int bytes = 4096;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		return NOT_SET_UP;
	return outcome(setsockopt(fd, IPPROTO_TCP, TCP_ULP, &bytes, sizeof(bytes)));
}

static int try_mmap_exec(void)
{
	void *map = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return outcome(map == MAP_FAILED ? -1 : 0);
}

static int try_mprotect_exec(void)
{
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return NOT_SET_UP;
	return outcome(mprotect(map, 4096, PROT_READ | PROT_EXEC));
}

static int try_write_code(void)
{
	uintptr_t page = (uintptr_t)&try_write_code & ~(uintptr_t)4095;
	return outcome(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
}

static int try_pkey_exec(void)
{
	void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return NOT_SET_UP;
	return outcome(syscall(SYS_pkey_mprotect, map, 4096, PROT_READ | PROT_EXEC, -1));
}

static int try_setuid(void)
{
	return outcome(syscall(SYS_setuid, 0));
}

static int try_setresuid(void)
{
	return outcome(syscall(SYS_setresuid, 0, 0, 0));
}

static int try_setgroups(void)
{
	gid_t root = 0;
	return outcome(syscall(SYS_setgroups, 1, &root));
}

static int try_unshare(void)
{
	return outcome(unshare(CLONE_NEWUSER));
}

static int try_setns(void)
{
	return outcome(setns(a_file, 0));
}

static int try_mount(void)
{
	return outcome(mount("none", "/tmp", "tmpfs", 0, NULL));
}

static int try_chroot(void)
{
	return outcome(chroot("/"));
}

static int try_bpf(void)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_ARRAY };
	return outcome(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)));
}

static int try_io_uring(void)
{
	struct io_uring_params params;
	memset(&params, 0, sizeof(params));
	return outcome(syscall(SYS_io_uring_setup, 4, &params));
}

static int try_perf(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr) };
	return outcome(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

static int try_userfaultfd(void)
{
	return outcome(syscall(SYS_userfaultfd, 1));
}

static int try_keyring(void)
{
	return outcome(syscall(SYS_keyctl, 0, -3, 1));
}

static int try_tty_injection(void)
{
	char c = 'x';
	return outcome(ioctl(STDERR_FILENO, TIOCSTI, &c));
}

static int try_dumpable(void)
{
	return outcome(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}

static int try_new_filter(void)
{
	return outcome(syscall(SYS_seccomp, 1, 0, NULL));
}

#ifdef __x86_64__
/* The same call by another ABI's number. */
static int try_x32(void)
{
	return outcome(syscall(0x40000000 | SYS_open, a_path, O_RDONLY));
}

static int try_int80(void)
{
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory"); /* getpid */
	return result > 0 ? SUCCEEDED : REFUSED;
}
#endif

#endif
