/*
 * seccomp.c - the system calls that a sandbox does without
 *
 * Everything is allowed but what is listed here. Three reasons to be listed: it leads out (socket
 * families other than the namespaced ones: AF_VSOCK reaches the hypervisor whatever the network
 * namespace; io_uring opens sockets without socket()), it leaves something behind on the host that
 * outlives the sandbox (set-user-ID files in a workspace whose owner is root), or it is kernel
 * surface that no agent needs. Arguments are compared as 64 bits and refused when in doubt: the
 * kernel looks at fewer.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <linux/netlink.h>

#include <keyhole/file.h>

#include "sandbox_internal.h"

#ifndef TIOCLINUX
#define TIOCLINUX 0x541C
#endif
/* Newer than the library. */
enum { FCHMODAT2 = 452 };
/* The bit alone, without O_DIRECTORY that O_TMPFILE carries. */
#define TMPFILE (O_TMPFILE & ~O_DIRECTORY)

/* No agent needs them; each has had its share of kernel bugs, or needs a capability anyway. */
static const int refused[] = {
	SCMP_SYS(acct),		  SCMP_SYS(add_key),	   SCMP_SYS(keyctl),
	SCMP_SYS(request_key),	  SCMP_SYS(bpf),	   SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd),	  SCMP_SYS(fanotify_init), SCMP_SYS(open_by_handle_at),
	SCMP_SYS(lookup_dcookie), SCMP_SYS(kexec_load),	   SCMP_SYS(kexec_file_load),
	SCMP_SYS(init_module),	  SCMP_SYS(finit_module),  SCMP_SYS(delete_module),
	SCMP_SYS(ioperm),	  SCMP_SYS(iopl),	   SCMP_SYS(mount),
	SCMP_SYS(umount2),	  SCMP_SYS(pivot_root),	   SCMP_SYS(chroot),
	SCMP_SYS(fsopen),	  SCMP_SYS(fsconfig),	   SCMP_SYS(fsmount),
	SCMP_SYS(fspick),	  SCMP_SYS(move_mount),	   SCMP_SYS(open_tree),
	SCMP_SYS(mount_setattr),  SCMP_SYS(setns),	   SCMP_SYS(quotactl),
	SCMP_SYS(quotactl_fd),	  SCMP_SYS(reboot),	   SCMP_SYS(swapon),
	SCMP_SYS(swapoff),	  SCMP_SYS(syslog),	   SCMP_SYS(uselib),
	SCMP_SYS(vhangup),	  SCMP_SYS(settimeofday),  SCMP_SYS(clock_settime),
	SCMP_SYS(clock_adjtime),  SCMP_SYS(adjtimex),	   SCMP_SYS(nfsservctl),
	SCMP_SYS(move_pages),	  SCMP_SYS(migrate_pages),
};

/* As if the kernel did not have them, so that programs take the older way, which can be looked at:
 * io_uring makes sockets and opens files out of sight, openat2 hides its mode behind a pointer. */
static const int absent[] = {
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(openat2),
};

/* Where the mode stands in calls that make or change a file. */
static const struct {
	int call;
	unsigned mode_arg;
	int flags_arg; /* where one of these must be set for the mode to count; -1: always */
	uint64_t flags;
} modes[] = {
	{ SCMP_SYS(chmod), 1, -1, 0 },	     { SCMP_SYS(fchmod), 1, -1, 0 },
	{ SCMP_SYS(fchmodat), 2, -1, 0 },    { FCHMODAT2, 2, -1, 0 },
	{ SCMP_SYS(creat), 1, -1, 0 },	     { SCMP_SYS(mknod), 1, -1, 0 },
	{ SCMP_SYS(mknodat), 2, -1, 0 },     { SCMP_SYS(open), 2, 1, O_CREAT },
	{ SCMP_SYS(open), 2, 1, TMPFILE },   { SCMP_SYS(openat), 3, 2, O_CREAT },
	{ SCMP_SYS(openat), 3, 2, TMPFILE },
};

static bool refuse_families(scmp_filter_ctx ctx, int call)
{
	static const unsigned allowed[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };
	bool ok = true;
	unsigned next = 0;
	for (unsigned i = 0; i < sizeof(allowed) / sizeof(allowed[0]); next = allowed[i++] + 1)
		for (unsigned family = next; family < allowed[i]; family++)
			ok = ok && seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), call, 1,
						    SCMP_A0(SCMP_CMP_EQ, family, 0)) == 0;
	ok = ok && seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), call, 1,
				    SCMP_A0(SCMP_CMP_GT, AF_NETLINK, 0)) == 0;
	return ok && seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), call, 2,
				      SCMP_A0(SCMP_CMP_EQ, AF_NETLINK, 0),
				      SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE, 0)) == 0;
}

/* Typing into a terminal for somebody else (TIOCSTI), and the console's selection (TIOCLINUX). */
static bool refuse_typing(scmp_filter_ctx ctx)
{
	static const unsigned requests[] = { TIOCSTI, TIOCLINUX };
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		if (seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
				     SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, requests[i])) != 0)
			return false;
	return true;
}

/* On the host the file belongs to the workspace's owner, who may be root. */
static bool refuse_set_id(scmp_filter_ctx ctx)
{
	static const unsigned bits[] = { S_ISUID, S_ISGID };
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		for (size_t b = 0; b < 2; b++) {
			struct scmp_arg_cmp args[2] = {
				SCMP_CMP(modes[i].mode_arg, SCMP_CMP_MASKED_EQ, bits[b], bits[b]),
			};
			unsigned n = 1;
			if (modes[i].flags_arg >= 0)
				args[n++] =
					SCMP_CMP((unsigned)modes[i].flags_arg, SCMP_CMP_MASKED_EQ,
						 modes[i].flags, modes[i].flags);
			if (seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO(EPERM), modes[i].call, n,
						   args) != 0)
				return false;
		}
	}
	return true;
}

/* A call that this architecture has not is no call that must be refused. */
static bool refuse_all(scmp_filter_ctx ctx, const int *calls, size_t n, int error)
{
	for (size_t i = 0; i < n; i++)
		if (calls[i] >= 0 &&
		    seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint16_t)error), calls[i], 0) != 0)
			return false;
	return true;
}

/* User namespaces, in which one would be root again. clone3 keeps its flags behind a pointer, so it
 * is absent and libc takes clone. */
static bool refuse_namespaces(scmp_filter_ctx ctx)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 1,
				SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER)) == 0 &&
	       seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
				SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER)) == 0 &&
	       seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0;
}

static bool fill(scmp_filter_ctx ctx)
{
	/* A second architecture (32 bit, x32) has other numbers for the same calls. */
	return seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0 &&
	       seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2) == 0 &&
	       refuse_all(ctx, refused, sizeof(refused) / sizeof(refused[0]), EPERM) &&
	       refuse_all(ctx, absent, sizeof(absent) / sizeof(absent[0]), ENOSYS) &&
	       refuse_families(ctx, SCMP_SYS(socket)) &&
	       refuse_families(ctx, SCMP_SYS(socketpair)) && refuse_typing(ctx) &&
	       refuse_set_id(ctx) && refuse_namespaces(ctx);
}

bool kh_seccomp_program(struct kh_buf *out, struct kh_err *err)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	kh_auto_close int fd = memfd_create("keyhole-seccomp", MFD_CLOEXEC);
	bool made = ctx && fd >= 0 && fill(ctx) && seccomp_export_bpf(ctx, fd) == 0 &&
		    lseek(fd, 0, SEEK_SET) == 0;
	if (ctx)
		seccomp_release(ctx);
	char chunk[4096];
	ssize_t n = 0;
	while (made && (n = read(fd, chunk, sizeof(chunk))) > 0)
		made = kh_buf_append(out, chunk, (size_t)n);
	return (made && n == 0) ||
	       kh_err_set(err, KH_ERR_SYSTEM, "seccomp: the filter could not be made");
}
