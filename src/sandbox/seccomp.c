/*
 * seccomp.c - the sandbox's system call filter: two BPF programs, which keyhole-init loads in order
 *
 * The first program allows the calls of a table (seccomp_calls.c); every other call fails with
 * ENOSYS. The second refuses some allowed calls by their arguments, with EPERM if the program
 * should not try an alternative. The kernel uses the stricter result of the two, and of two errors
 * the second program's. Calls are refused if they lead out of the sandbox (socket families that are
 * not namespaced: AF_VSOCK reaches the hypervisor from any network namespace), leave something on
 * the host that outlives the sandbox (set-user-ID files in a workspace that root owns), start
 * something on the host (a crash, if the host pipes core files to a program), change a terminal for
 * others, make the host's programs wait for the sandbox (a lease on a file), or affect
 * keyhole-init. Arguments are compared as 64 bits, even if the kernel uses fewer, and refused when
 * in doubt.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <linux/netlink.h>

#include <keyhole/base/file.h>

#include "sandbox_internal.h"
#include "seccomp_internal.h"

/* Newer than the library. */
enum { FCHMODAT2 = 452 };
/* The bit alone, without O_DIRECTORY that O_TMPFILE carries. */
#define TMPFILE (O_TMPFILE & ~O_DIRECTORY)
#define N(list) (sizeof(list) / sizeof((list)[0]))

/* No agent needs them; each has had its share of kernel bugs, or needs a capability anyway.
 * Programs that try them know that they may not, and take EPERM for an answer. */
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
	SCMP_SYS(move_pages),	  SCMP_SYS(migrate_pages), SCMP_SYS(sethostname),
	SCMP_SYS(setdomainname),
};

/* Where the mode is in calls that make or change a file. */
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

/* Asking for any other protocol loads the host's module for it (SCTP, DCCP, L2TP), whatever the
 * network namespace. Nor is there MPTCP, in whose place Go takes TCP. In rising order. */
static const unsigned protocols_v4[] = { 0, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP };
static const unsigned protocols_v6[] = { 0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6 };

/* From `at` to below `end`, in blocks that a mask tells. */
static bool refuse_protocols_between(scmp_filter_ctx ctx, scmp_datum_t family, unsigned at,
				     unsigned end)
{
	bool ok = true;
	for (unsigned n; ok && at < end; at += n) {
		for (n = 1; at % (2 * n) == 0 && at + 2 * n <= end; n *= 2)
			;
		ok = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
				      SCMP_A0(SCMP_CMP_EQ, family, 0),
				      SCMP_A2(SCMP_CMP_MASKED_EQ, ~(scmp_datum_t)(n - 1), at)) == 0;
	}
	return ok;
}

static bool refuse_protocols(scmp_filter_ctx ctx, scmp_datum_t family, const unsigned *allowed,
			     size_t n)
{
	bool ok = true;
	for (size_t i = 1; ok && i < n; i++)
		ok = refuse_protocols_between(ctx, family, allowed[i - 1] + 1, allowed[i]);
	return ok && seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
				      SCMP_A0(SCMP_CMP_EQ, family, 0),
				      SCMP_A2(SCMP_CMP_GT, allowed[n - 1], 0)) == 0;
}

/*
 * What may be done to a terminal: its modes and its size, which the launcher restores, and
 * questions about it. Every other request of that group (0x54..) is refused, known or not: typing
 * into it for somebody else (TIOCSTI, and the console's selection, TIOCLINUX), stopping its output,
 * for which the host's programs would wait without end (TCXONC), taking it for oneself (TIOCEXCL),
 * another line discipline (TIOCSETD), the console's messages (TIOCCONS), the line's hardware.
 */
static const unsigned char terminal_requests[] = {
	0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* TCGETS to TCSETAF */
	0x09,						/* TCSBRK, to wait for the output's end */
	0x0b,						/* TCFLSH */
	0x0e, 0x0f, 0x10, 0x11,	      /* TIOCSCTTY, TIOCGPGRP, TIOCSPGRP, TIOCOUTQ */
	0x13, 0x14,		      /* TIOCGWINSZ, TIOCSWINSZ */
	0x1b, 0x20, 0x21, 0x22,	      /* FIONREAD, TIOCPKT, FIONBIO, TIOCNOTTY */
	0x24,			      /* TIOCGETD */
	0x29, 0x2a, 0x2b, 0x2c, 0x2d, /* TIOCGSID, TCGETS2 to TCSETSF2 */
	0x30, 0x31, 0x32,	      /* TIOCGPTN, TIOCSPTLCK, TIOCGDEV */
	0x36,			      /* TIOCSIG, which only the controlling end has */
	0x38, 0x39, 0x40, 0x41,	      /* TIOCGPKT, TIOCGPTLCK, TIOCGEXCL, TIOCGPTPEER */
	0x50, 0x51, 0x52, 0x60,	      /* FIONCLEX, FIOCLEX, FIOASYNC, FIOQSIZE */
};

/* Of a file: its flags, and where it is (FS_IOC_GETFLAGS, GETVERSION, FIEMAP). It is given none:
 * in a folder with FS_CASEFOLD_FL a name stands for others, and which flags are asked for no filter
 * sees. Encrypted (fscrypt, by numbers of the same group), a folder would be closed to the survey
 * after the run, and open again as soon as another run adds the key. */
static const unsigned char file_requests[] = { 0x01, 0x03, 0x0b };
/* To copy without copying: FICLONE, FICLONERANGE, FIDEDUPERANGE. The others of that group are
 * btrfs's: what is in a snapshot that can't be written to can't be set aside. */
static const unsigned char clone_requests[] = { 0x09, 0x0d, 0x36 };
static const unsigned char extended_flags[] = { 0x1f }; /* FS_IOC_FSGETXATTR */

/* By their second byte: what is allowed of the group. */
static const struct group {
	unsigned kind;
	const unsigned char *allowed;
	size_t n;
	int error;
} groups[] = {
	{ 'T', terminal_requests, N(terminal_requests), EPERM },
	{ 'K', NULL, 0, EPERM }, /* virtual consoles' alone, and V */
	{ 'V', NULL, 0, EPERM },
	{ 'f', file_requests, N(file_requests), EOPNOTSUPP },
	{ 'X', extended_flags, N(extended_flags), EOPNOTSUPP },
	{ 0x94, clone_requests, N(clone_requests), EOPNOTSUPP },
};

static bool is_allowed_in(const struct group *group, unsigned from, unsigned n)
{
	for (size_t i = 0; i < group->n; i++)
		if (group->allowed[i] >= from && group->allowed[i] < from + n)
			return true;
	return false;
}

/* By the lower half of the request: the upper is the size of what it takes. */
static bool refuse_group(scmp_filter_ctx ctx, const struct group *group)
{
	bool ok = true;
	unsigned n;
	for (unsigned at = 0; ok && at < 0x100; at += n) {
		for (n = 1; n < 0x100 && at % (2 * n) == 0 && !is_allowed_in(group, at, 2 * n);
		     n *= 2)
			;
		if (!is_allowed_in(group, at, n))
			ok = seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint32_t)group->error),
					      SCMP_SYS(ioctl), 1,
					      SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffff & ~(n - 1),
						      group->kind << 8 | at)) == 0;
	}
	return ok;
}

static bool refuse_controls(scmp_filter_ctx ctx)
{
	bool ok = true;
	for (size_t i = 0; i < N(groups); i++)
		ok = ok && refuse_group(ctx, &groups[i]);
	/* A break on the line; with anything else than 0 it waits for the output's end. */
	return ok && seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 2,
				      SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, 0x5409),
				      SCMP_A2(SCMP_CMP_EQ, 0, 0)) == 0;
}

/*
 * Who holds a lease on a file has the host's programs wait that open it, 45 seconds for each. So
 * files have none here, nor notices of folders (F_NOTIFY), nor what a later kernel has of the kind
 * (F_SETDELEG): the answer is that of a file system without them. A whiteout (RENAME_WHITEOUT) is a
 * device node.
 */
static bool refuse_leases_and_whiteouts(scmp_filter_ctx ctx)
{
	const uint32_t no = SCMP_ACT_ERRNO(EINVAL);
	enum { SET_LEASE = 1024, NOTIFY = 1026, LAST_KNOWN = 1038, WHITEOUT = 4 };
	static const scmp_datum_t all = 0xffffffff;
	return seccomp_rule_add(ctx, no, SCMP_SYS(fcntl), 1,
				SCMP_A1(SCMP_CMP_MASKED_EQ, all, SET_LEASE)) == 0 &&
	       seccomp_rule_add(ctx, no, SCMP_SYS(fcntl), 1,
				SCMP_A1(SCMP_CMP_MASKED_EQ, all, NOTIFY)) == 0 &&
	       seccomp_rule_add(ctx, no, SCMP_SYS(fcntl), 1, SCMP_A1(SCMP_CMP_GT, LAST_KNOWN, 0)) ==
		       0 &&
	       seccomp_rule_add(ctx, no, SCMP_SYS(renameat2), 1,
				SCMP_A4(SCMP_CMP_MASKED_EQ, WHITEOUT, WHITEOUT)) == 0;
}

/* What pipes hold counts by the host's uid (fs.pipe-user-pages-soft): above what each has anyway
 * the rest would be taken from the programs of whoever started the sandbox. */
static bool refuse_large_pipes(scmp_filter_ctx ctx)
{
	enum { SET_PIPE_SIZE = 1031, USUAL_BYTES = 64 * 1024 };
	return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fcntl), 2,
				SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, SET_PIPE_SIZE),
				SCMP_A2(SCMP_CMP_GT, USUAL_BYTES, 0)) == 0;
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
static bool refuse_all(scmp_filter_ctx ctx)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (refused[i] >= 0 &&
		    seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), refused[i], 0) != 0)
			return false;
	return true;
}

/* Namespaces, above all of users, in which one would be root again. clone3, which keeps its flags
 * behind a pointer, does not exist, so that libc takes clone. */
static bool refuse_namespaces(scmp_filter_ctx ctx)
{
	static const scmp_datum_t kinds[] = { CLONE_NEWUSER,  CLONE_NEWNS,  CLONE_NEWNET,
					      CLONE_NEWPID,   CLONE_NEWIPC, CLONE_NEWUTS,
					      CLONE_NEWCGROUP };
	static const int calls[] = { SCMP_SYS(unshare), SCMP_SYS(clone) };
	for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), calls[c], 1,
					     SCMP_A0(SCMP_CMP_MASKED_EQ, kinds[i], kinds[i])) != 0)
				return false;
	return true;
}

/*
 * The limit of core files is 1 (core_limit.c), and stays: with any other the kernel starts the
 * host's handler at a crash. Who wishes for none has it already, and some give up where they are
 * refused (GnuPG, ssh-agent): so the answer is that it was done. Only who asks for the old limit in
 * the same call is refused, since nobody would tell it.
 */
static bool keep_core_limit(scmp_filter_ctx ctx)
{
	static const scmp_datum_t all = 0xffffffff;
	return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(0), SCMP_SYS(setrlimit), 1,
				SCMP_A0(SCMP_CMP_MASKED_EQ, all, RLIMIT_CORE)) == 0 &&
	       seccomp_rule_add(ctx, SCMP_ACT_ERRNO(0), SCMP_SYS(prlimit64), 3,
				SCMP_A1(SCMP_CMP_MASKED_EQ, all, RLIMIT_CORE),
				SCMP_A2(SCMP_CMP_NE, 0, 0), SCMP_A3(SCMP_CMP_EQ, 0, 0)) == 0 &&
	       seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 3,
				SCMP_A1(SCMP_CMP_MASKED_EQ, all, RLIMIT_CORE),
				SCMP_A2(SCMP_CMP_NE, 0, 0), SCMP_A3(SCMP_CMP_NE, 0, 0)) == 0;
}

/* keyhole-init has the command's uid, and is PID 1: what its descriptors, its CPU time and its turn
 * are bounded by is not the command's to say. Of calls for a whole uid it is one. */
static bool spare_init(scmp_filter_ctx ctx)
{
	static const scmp_datum_t all = 0xffffffff;
	static const int by_pid[] = { SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_setscheduler),
				      SCMP_SYS(sched_setparam), SCMP_SYS(sched_setattr) };
	/* The kinds of who: a process, a group, a user. */
	static const struct {
		int call;
		scmp_datum_t process, group, user;
	} by_kind[] = { { SCMP_SYS(setpriority), 0, 1, 2 }, { SCMP_SYS(ioprio_set), 1, 2, 3 } };
	const uint32_t no = SCMP_ACT_ERRNO(EPERM);
	bool ok = seccomp_rule_add(ctx, no, SCMP_SYS(prlimit64), 2,
				   SCMP_A0(SCMP_CMP_MASKED_EQ, all, 1),
				   SCMP_A2(SCMP_CMP_NE, 0, 0)) == 0;
	for (size_t i = 0; i < sizeof(by_pid) / sizeof(by_pid[0]); i++)
		ok = ok && seccomp_rule_add(ctx, no, by_pid[i], 1,
					    SCMP_A0(SCMP_CMP_MASKED_EQ, all, 1)) == 0;
	for (size_t i = 0; i < sizeof(by_kind) / sizeof(by_kind[0]); i++) {
		const scmp_datum_t one[] = { by_kind[i].process, by_kind[i].group };
		for (size_t k = 0; k < 2; k++)
			ok = ok && seccomp_rule_add(ctx, no, by_kind[i].call, 2,
						    SCMP_A0(SCMP_CMP_MASKED_EQ, all, one[k]),
						    SCMP_A1(SCMP_CMP_MASKED_EQ, all, 1)) == 0;
		ok = ok && seccomp_rule_add(ctx, no, by_kind[i].call, 1,
					    SCMP_A0(SCMP_CMP_MASKED_EQ, all, by_kind[i].user)) == 0;
	}
	return ok;
}

/*
 * A default ACL says what every file may be that is made in a folder from then on, by the host too:
 * 0666, whatever the umask. So files have no attributes that could be set here, as on a file system
 * that knows none, and the answer is the one that programs expect of such a one.
 */
static bool refuse_attributes(scmp_filter_ctx ctx)
{
	static const int setting[] = { SCMP_SYS(setxattr),     SCMP_SYS(lsetxattr),
				       SCMP_SYS(fsetxattr),    SCMP_SYS(removexattr),
				       SCMP_SYS(lremovexattr), SCMP_SYS(fremovexattr) };
	for (size_t i = 0; i < sizeof(setting) / sizeof(setting[0]); i++)
		if (seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EOPNOTSUPP), setting[i], 0) != 0)
			return false;
	return true;
}

static bool refuse(scmp_filter_ctx ctx)
{
	return refuse_all(ctx) && refuse_attributes(ctx) &&
	       refuse_families(ctx, SCMP_SYS(socket)) &&
	       refuse_protocols(ctx, AF_INET, protocols_v4, N(protocols_v4)) &&
	       refuse_protocols(ctx, AF_INET6, protocols_v6, N(protocols_v6)) &&
	       refuse_families(ctx, SCMP_SYS(socketpair)) && refuse_controls(ctx) &&
	       refuse_leases_and_whiteouts(ctx) && refuse_large_pipes(ctx) && refuse_set_id(ctx) &&
	       refuse_namespaces(ctx) && keep_core_limit(ctx) && spare_init(ctx);
}

/*
 * A terminal that is no session's becomes the controlling one of the first that asks for it, and
 * /dev/tty opens that for writing as well.
 */
static bool refuse_with_controlling(scmp_filter_ctx ctx)
{
	return refuse(ctx) && seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
					       SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffff, TIOCSCTTY)) == 0;
}

static bool append(struct kh_buf *out, uint32_t otherwise, bool (*fill)(scmp_filter_ctx ctx))
{
	scmp_filter_ctx ctx = seccomp_init(otherwise);
	kh_auto_close int fd = memfd_create("keyhole-seccomp", MFD_CLOEXEC);
	/* A second architecture (32 bit, x32) has other numbers for the same calls. */
	bool made = ctx && fd >= 0 &&
		    seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0 &&
		    seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2) == 0 && fill(ctx) &&
		    seccomp_export_bpf(ctx, fd) == 0 && lseek(fd, 0, SEEK_SET) == 0;
	if (ctx)
		seccomp_release(ctx);
	char chunk[4096];
	ssize_t n = 0;
	while (made && (n = read(fd, chunk, sizeof(chunk))) > 0)
		made = kh_buf_append(out, chunk, (size_t)n);
	return made && n == 0;
}

bool kh_seccomp_programs(struct kh_buf *allowed, struct kh_buf *refused_too, bool controlling,
			 struct kh_err *err)
{
	return (append(allowed, SCMP_ACT_ERRNO(ENOSYS), kh_seccomp_allow) &&
		append(refused_too, SCMP_ACT_ALLOW,
		       controlling ? refuse : refuse_with_controlling)) ||
	       kh_err_set(err, KH_ERR_SYSTEM, "seccomp: the filter could not be made");
}
