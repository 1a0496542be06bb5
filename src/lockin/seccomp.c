/* seccomp.c - the system calls that a worker may make after its start */

/*
 * An allowlist: any other call fails with EPERM, so that a library which tries something unexpected
 * (reads a configuration file late, queries a terminal) gets an error that it can handle. There are
 * three exceptions:
 * - KILLED: calls that a worker never makes, and that an attacker would make next (another program,
 *   another process's memory, kernel interfaces, another identity). The process dies by SIGSYS; the
 *   keeper logs that and starts a new worker.
 * - UNKNOWN: calls that fail with ENOSYS, so that the C library falls back to an older call whose
 *   arguments this filter can check. clone3, for example, has its flags in memory, which a filter
 *   can't read.
 * - LENT: open, and the call that the C library makes for fstat; a signal handler of this process
 *   answers them (lockin_open.c). So no call that takes a path reaches the kernel, whoever started
 *   the worker.
 *
 * If a call is allowed only with some arguments, a row of `matched` has them. The filter sees
 * register values, but not the memory behind a pointer: a call that depends on such memory (a path,
 * an address) must be refused completely, or be harmless with any content.
 *
 * Two uses of open descriptors are prevented:
 * - Descriptors can't be passed. sendmsg and the like are not allowed, so none can be sent on a
 *   sandbox's connection; recvmsg works only on the keeper's channel. A second filter prevents that
 *   this number is closed, and no allowed call can replace the descriptor with another one.
 * - The journal's content can't be changed. Writes append: F_SETFL, which could clear O_APPEND, is
 *   not allowed, nor are pwrite, ftruncate and fallocate.
 */

#include "lockin_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/socket_options.h>
#include <keyhole/base/worker_exit.h>

/* The pseudo numbers of calls that an architecture lacks are negative; libseccomp leaves them out.
 */
static const int allowed[] = {
	/* descriptors that are there already */
	SCMP_SYS(read),
	SCMP_SYS(readv),
	SCMP_SYS(pread64),
	SCMP_SYS(preadv),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	SCMP_SYS(close), /* but not the channel, see guard_channel */
	SCMP_SYS(lseek),
	SCMP_SYS(fstat),
	SCMP_SYS(fstatfs),
	SCMP_SYS(fsync),
	SCMP_SYS(fdatasync),
	/* connections; which kinds can be made is said below */
	SCMP_SYS(accept4),
	SCMP_SYS(bind), /* datagram sockets to an address: is it the host's own (own_address.c)? */
	SCMP_SYS(connect),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	SCMP_SYS(getsockopt),
	SCMP_SYS(sendto),
	SCMP_SYS(recvfrom),
	/* waiting */
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(select),
	SCMP_SYS(pselect6),
	SCMP_SYS(eventfd2),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(timerfd_gettime),
	SCMP_SYS(restart_syscall),
	/* memory; never executable, see below */
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(mlock),
	SCMP_SYS(mlock2),
	SCMP_SYS(munlock),
	SCMP_SYS(pkey_alloc),
	SCMP_SYS(pkey_free),
	/* threads */
	SCMP_SYS(futex),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(membarrier),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(gettid),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(getcpu),
	/* signals to itself */
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack),
	/* time and chance */
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(getrandom),
	/* who am I */
	SCMP_SYS(getpid),
	SCMP_SYS(getppid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getrlimit),
	SCMP_SYS(getrusage),
	SCMP_SYS(sysinfo),
	SCMP_SYS(uname),
};

static const int killed[] = {
	/* another program */
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	/* another process */
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(process_madvise),
	SCMP_SYS(pidfd_open),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(kcmp),
	/* another identity */
	SCMP_SYS(setuid),
	SCMP_SYS(setgid),
	SCMP_SYS(setreuid),
	SCMP_SYS(setregid),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(setfsuid),
	SCMP_SYS(setfsgid),
	SCMP_SYS(setgroups),
	SCMP_SYS(capset),
	/* another world */
	SCMP_SYS(unshare),
	SCMP_SYS(setns),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_tree),
	SCMP_SYS(fsopen),
	SCMP_SYS(fsconfig),
	SCMP_SYS(fsmount),
	SCMP_SYS(fspick),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(name_to_handle_at),
	SCMP_SYS(open_by_handle_at),
	/* wide surfaces of the kernel */
	SCMP_SYS(bpf),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(keyctl),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(modify_ldt),
	SCMP_SYS(iopl),
	SCMP_SYS(ioperm),
	SCMP_SYS(personality),
	SCMP_SYS(quotactl),
	SCMP_SYS(acct),
	SCMP_SYS(swapon),
	SCMP_SYS(swapoff),
	SCMP_SYS(reboot),
	SCMP_SYS(settimeofday),
	SCMP_SYS(clock_settime),
};

static const int unknown[] = {
	SCMP_SYS(clone3),
	SCMP_SYS(close_range),
	SCMP_SYS(faccessat2),
	SCMP_SYS(statx),
};

static const int lent[] = {
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(newfstatat),
};

/* The flags with which the C library starts a thread; anything else is no thread of ours. */
#define THREAD_FLAGS \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | \
	 CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/* Of socket(2)'s type: all but the two flags, so that no other one passes. */
#define KIND_BITS (~(scmp_datum_t)(SOCK_NONBLOCK | SOCK_CLOEXEC))
/* A descriptor is an int; what a register has above it the kernel does not see. */
#define DESCRIPTOR_BITS UINT32_MAX

/* Allowed when all of its comparisons hold. */
struct matched {
	int call;
	unsigned n;
	struct scmp_arg_cmp cmp[3];
};

#define EQ(arg, value) \
	{ \
		arg, SCMP_CMP_EQ, (scmp_datum_t)(value), 0 \
	}
#define MASKED(arg, mask, value) \
	{ \
		arg, SCMP_CMP_MASKED_EQ, (scmp_datum_t)(mask), (scmp_datum_t)(value) \
	}
#define WHEN(name, ...) \
	{ \
		SCMP_SYS(name), \
			sizeof((struct scmp_arg_cmp[]){ __VA_ARGS__ }) / \
				sizeof(struct scmp_arg_cmp), \
		{ \
			__VA_ARGS__ \
		} \
	}
#define SOCKET(family, kind, protocol) \
	WHEN(socket, EQ(0, family), MASKED(1, KIND_BITS, kind), EQ(2, protocol))
#define SOCKOPT(level, option) WHEN(setsockopt, EQ(1, level), EQ(2, option)),

static const struct matched matched[] = {
	/* TCP upstream, and UDP and TCP to the resolvers. No AF_UNIX: the host's sockets are out of
	 * reach, whatever their mode. */
	SOCKET(AF_INET, SOCK_STREAM, 0),
	SOCKET(AF_INET, SOCK_STREAM, IPPROTO_TCP),
	SOCKET(AF_INET, SOCK_DGRAM, 0),
	SOCKET(AF_INET, SOCK_DGRAM, IPPROTO_UDP),
	SOCKET(AF_INET6, SOCK_STREAM, 0),
	SOCKET(AF_INET6, SOCK_STREAM, IPPROTO_TCP),
	SOCKET(AF_INET6, SOCK_DGRAM, 0),
	SOCKET(AF_INET6, SOCK_DGRAM, IPPROTO_UDP),
	/* Half-close. The other ways would end a listening socket for the workers that follow. */
	WHEN(shutdown, EQ(1, SHUT_WR)),
	/* Descriptors come from the keeper, and from nobody else. */
	WHEN(recvmsg, EQ(0, KH_WORKER_CHANNEL_FD)),
	/* What a listener can be set back to. No SO_REUSEADDR: a listener that became a connection
	   without it would hold its port. */
	KH_WORKER_SOCKET_OPTIONS(SOCKOPT)
	/* Memory is data or it is nothing. */
	WHEN(mmap, MASKED(2, PROT_EXEC, 0)),
	WHEN(mprotect, MASKED(2, PROT_EXEC, 0)),
	WHEN(pkey_mprotect, MASKED(2, PROT_EXEC, 0)),
	WHEN(clone, EQ(0, THREAD_FLAGS)),
	/* No FIONBIO: a listener that blocks would hold up who shares it. */
	WHEN(ioctl, EQ(1, FIONREAD)),
	WHEN(fcntl, EQ(1, F_GETFD)),
	WHEN(fcntl, EQ(1, F_SETFD)),
	WHEN(fcntl, EQ(1, F_GETFL)),
	WHEN(fcntl, EQ(1, F_DUPFD_CLOEXEC)),
	WHEN(fcntl, EQ(1, F_GET_SEALS)),
	WHEN(prctl, EQ(0, PR_SET_NAME)),
	/* Reading its own limits (glibc: a thread's stack). */
	WHEN(prlimit64, EQ(0, 0), EQ(2, 0)),
};

static void release(scmp_filter_ctx *ctx)
{
	if (*ctx)
		seccomp_release(*ctx);
}

static bool add_all(scmp_filter_ctx ctx, uint32_t action, const int *calls, size_t n,
		    struct kh_err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (calls[i] < 0)
			continue;
		int rc = seccomp_rule_add_array(ctx, action, calls[i], 0, NULL);
		if (rc != 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, -rc, "seccomp rule for call %d",
					  calls[i]);
	}
	return true;
}

static bool add_matched(scmp_filter_ctx ctx, uint32_t action, const struct matched *row,
			struct kh_err *err)
{
	if (row->call < 0)
		return true;
	int rc = seccomp_rule_add_array(ctx, action, row->call, row->n, row->cmp);
	if (rc != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, -rc, "seccomp rule for arguments of call %d",
				  row->call);
	return true;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool fill(scmp_filter_ctx ctx, struct kh_err *err)
{
	if (!add_all(ctx, SCMP_ACT_ALLOW, allowed, COUNT(allowed), err) ||
	    !add_all(ctx, SCMP_ACT_KILL_PROCESS, killed, COUNT(killed), err) ||
	    !add_all(ctx, SCMP_ACT_ERRNO(ENOSYS), unknown, COUNT(unknown), err) ||
	    (kh_lockin_lends() && !add_all(ctx, SCMP_ACT_TRAP, lent, COUNT(lent), err)))
		return false;
	for (size_t i = 0; i < COUNT(matched); i++) {
		if (!add_matched(ctx, SCMP_ACT_ALLOW, &matched[i], err))
			return false;
	}
	/* A new process, however it is spelled. */
	const struct matched process = WHEN(clone, MASKED(0, CLONE_THREAD, 0));
	if (!add_matched(ctx, SCMP_ACT_KILL_PROCESS, &process, err))
		return false;
	/* abort(3), and on_trap's raise(3). No SIGKILL: to the keeper that comes from outside. */
	const struct matched aborts = WHEN(tgkill, EQ(0, getpid()), EQ(2, SIGABRT));
	const struct matched raises = WHEN(tgkill, EQ(0, getpid()), EQ(2, SIGSYS));
	return add_matched(ctx, SCMP_ACT_ALLOW, &aborts, err) &&
	       add_matched(ctx, SCMP_ACT_ALLOW, &raises, err);
}

static bool load(scmp_filter_ctx ctx, struct kh_err *err)
{
	int rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	/* Calls of another ABI (32 bits, x32) have other numbers. */
	if (rc == 0)
		rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (rc == 0)
		rc = seccomp_load(ctx);
	return rc == 0 ||
	       kh_err_sys(err, KH_ERR_SYSTEM, -rc, "seccomp filter: not taken by the kernel");
}

/*
 * recvmsg is bound to a number, so the channel must keep it. A rule of the allowlist can't say
 * "any but this one" of an int; a filter beside it can, and the stricter of two decides.
 */
static bool guard_channel(struct kh_err *err)
{
	kh_cleanup(release) scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	const struct matched channel =
		WHEN(close, MASKED(0, DESCRIPTOR_BITS, KH_WORKER_CHANNEL_FD));
	if (!ctx)
		return kh_err_set(err, KH_ERR_SYSTEM, "seccomp filter: could not be made");
	return add_matched(ctx, SCMP_ACT_ERRNO(EPERM), &channel, err) && load(ctx, err);
}

bool kh_lockin_seccomp(struct kh_err *err)
{
	kh_cleanup(release) scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!ctx)
		return kh_err_set(err, KH_ERR_SYSTEM, "seccomp filter: could not be made");
	/* A tree instead of a chain, where the library has it: this comes before every call. */
	(void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	/* The allowlist comes last: it allows no further filter. */
	return fill(ctx, err) && guard_channel(err) && load(ctx, err);
}
