/*
 * stdio.c - the command's standard descriptors: which are the caller's own, and which are relayed
 *
 * A descriptor allows more than to read or write bytes. The owner of an open file can change its
 * mode, a socket can be connected to another address, a folder can be listed, and a descriptor that
 * is open for reading and writing works both ways. The owner of a pipe can open its other direction
 * by /proc/self/fd, and then write what the caller's shell reads next. So the command gets only
 * descriptors of the caller that allow nothing but reading or writing:
 *
 *   /dev/null and its kin                   as it is; its flags are restored at the end
 *   a terminal                              opened anew for this direction alone, by a mount
 *                                           that is read-only: its owner can't open it to others;
 *                                           its modes and the emulator's state are restored at the
 *                                           end, and its output goes on
 *   a pipe, a regular file, a stream socket a pipe of our own, and a process that carries the bytes
 *   anything else                           refused
 *
 * If input and output are a terminal, the command gets one of the sandbox's own (terminal.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <termios.h>
#include <linux/magic.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/log.h>
#include <keyhole/base/rights.h>
#include <keyhole/base/screen.h>
#include <keyhole/sandbox/child.h>

#include "build_internal.h"

enum kind { REFUSED, AS_IS, TERMINAL, RELAYED };

static const char *const names[] = { "standard input", "standard output", "standard error" };

/* null, zero, full, random, urandom. */
static bool is_harmless_device(dev_t device)
{
	static const unsigned minors[] = { 3, 5, 7, 8, 9 };
	for (size_t i = 0; i < sizeof(minors) / sizeof(minors[0]); i++)
		if (device == makedev(1, minors[i]))
			return true;
	return false;
}

static enum kind kind_of_device(int fd, const struct stat *st, const char **what)
{
	unsigned number;
	if (is_harmless_device(st->st_rdev))
		return AS_IS;
	if (ioctl(fd, TIOCGPTN, &number) == 0) {
		*what = "the controlling end of a terminal";
		return REFUSED;
	}
	*what = "a device";
	return isatty(fd) ? TERMINAL : REFUSED;
}

static enum kind kind_of_socket(int fd, const char **what)
{
	int type = 0, listens = 0;
	socklen_t len = sizeof(int);
	*what = "a socket that is not a stream's";
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_STREAM)
		return REFUSED;
	len = sizeof(int);
	*what = "a listening socket";
	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) != 0 || listens ? REFUSED
											 : RELAYED;
}

static enum kind kind_of(int fd, const struct stat *st, const char **what)
{
	*what = "neither a file nor a pipe";
	if (fcntl(fd, F_GETFL) & O_PATH)
		return REFUSED;
	switch (st->st_mode & S_IFMT) {
	case S_IFREG:
	case S_IFIFO:
		return RELAYED;
	case S_IFSOCK:
		return kind_of_socket(fd, what);
	case S_IFCHR:
		return kind_of_device(fd, st, what);
	case S_IFDIR:
		*what = "a folder";
		break;
	case S_IFBLK:
		*what = "a device";
		break;
	default:
		break;
	}
	return REFUSED;
}

static int open_again(int fd, int flags)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_NOCTTY | O_CLOEXEC);
}

struct reopening {
	int fd, flags;
	int only, answer; /* the new one, in the process that makes it, which sends it there */
};

/* A mount of the terminal alone, which hangs nowhere and is read-only: bytes go through it, and
 * nothing of the file can be set. */
static bool open_read_only(void *arg, struct kh_err *err)
{
	struct reopening *r = arg;
	char link[32], path[PATH_MAX];
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
	struct stat given, opened;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", r->fd);
	ssize_t len = readlink(link, path, sizeof(path) - 1);
	path[len > 0 ? len : 0] = '\0';
	int tree = -1;
	if (unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) == 0)
		tree = (int)syscall(SYS_open_tree, AT_FDCWD, path,
				    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	if (tree >= 0 &&
	    syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0)
		r->only = open_again(tree, r->flags);
	return (r->only >= 0 && fstat(r->fd, &given) == 0 && fstat(r->only, &opened) == 0 &&
		given.st_dev == opened.st_dev && given.st_ino == opened.st_ino &&
		kh_rights_send(r->answer, "", 1, &r->only, 1, 0)) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "a mount of a terminal");
}

/* Return: -1 also where the kernel lets us make no such mount. */
static int open_unchangeable(int fd, int flags)
{
	int ends[2], only = -1;
	char byte;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	struct reopening r = { .fd = fd, .flags = flags, .only = -1, .answer = ends[1] };
	if (kh_child_try(open_read_only, &r, NULL))
		(void)kh_rights_receive(ends[0], &byte, 1, &only, 1,
					MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	close(ends[0]);
	close(ends[1]);
	return only;
}

/* One that is open both ways would let the agent read what is typed, or write to who types. */
static int open_terminal(int fd)
{
	int flags = fd == STDIN_FILENO ? O_RDONLY : O_WRONLY;
	kh_auto_close int only = open_unchangeable(fd, flags);
	if (only < 0)
		only = open_again(fd, flags);
	return only < 0 ? -1 : fcntl(only, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* A pipe is its maker's: the sandbox's uid could write to it, and could not open /dev/stderr. */
static void give_pipe(int fd, uid_t uid, gid_t gid)
{
	struct statfs fs;
	if (geteuid() == 0 && fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC)
		(void)!fchown(fd, uid, gid);
}

/* What went before the command must be there after it. */
static bool note(struct kh_stdio_before *before, int fd, enum kind kind, struct kh_err *err)
{
	before->flags = kind == AS_IS ? fcntl(fd, F_GETFL) : -1;
	if (kind != TERMINAL)
		return true;
	struct termios modes;
	(void)ioctl(fd, TIOCGWINSZ, &before->size);
	if (fstat(fd, &before->file) != 0 || tcgetattr(fd, &modes) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", names[fd]);
	// NOLINTNEXTLINE(clang-analyzer-unix.MallocSizeof): opaque in the header
	before->modes = malloc(sizeof(modes));
	if (!before->modes)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	memcpy(before->modes, &modes, sizeof(modes));
	return true;
}

/* `2>&1`: what is said in two places at once arrives in its order by one pipe alone. */
static bool is_output_too(const struct kh_build *b, int fd, const struct stat *st)
{
	struct stat output;
	return fd == STDERR_FILENO && b->pumps[STDOUT_FILENO].pid > 0 &&
	       fstat(STDOUT_FILENO, &output) == 0 && output.st_dev == st->st_dev &&
	       output.st_ino == st->st_ino;
}

static bool take_one(struct kh_build *b, int fd, struct kh_err *err)
{
	struct stat st;
	const char *what;
	if (fstat(fd, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", names[fd]);
	enum kind kind = kind_of(fd, &st, &what);
	if (kind == REFUSED)
		return kh_err_set(err, KH_ERR_USAGE,
				  "%s is %s, which a sandbox is not given (give it a pipe, a file, "
				  "a terminal, a connected stream socket or /dev/null)",
				  names[fd], what);
	if (!note(&b->before[fd], fd, kind, err))
		return false;
	bool shares = kind == RELAYED && is_output_too(b, fd, &st);
	/* Without Landlock the command could open it anew, to read what is typed. */
	if (kind == TERMINAL && (fd == STDIN_FILENO || kh_sandbox_has_landlock()))
		b->stdio[fd] =
			open_terminal(fd); /* fails where it is another user's, as below su */
	else if (kind == AS_IS || shares)
		b->stdio[fd] = fcntl(shares ? b->stdio[STDOUT_FILENO] : fd, F_DUPFD_CLOEXEC,
				     STDERR_FILENO + 1);
	if (b->stdio[fd] < 0 && kind != AS_IS && !shares)
		return kh_pump_begin(&b->pumps[fd], fd, fd == STDIN_FILENO, &b->stdio[fd], err);
	return b->stdio[fd] >= 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", names[fd]);
}

bool kh_stdio_has_free_terminal(const struct kh_sandbox_spec *spec)
{
	bool found = false;
	for (int fd = 0; fd < 3 && !spec->tty && !spec->no_stdio; fd++)
		found = found || (isatty(fd) && tcgetsid(fd) < 0);
	return found;
}

bool kh_stdio_take(struct kh_build *b, const struct kh_sandbox_spec *spec, char tty[4],
		   struct kh_err *err)
{
	size_t n = 0;
	for (int fd = 0; fd < 3; fd++) {
		bool inner = spec->tty && isatty(fd);
		if (inner)
			tty[n++] = (char)('0' + fd);
		if (inner || spec->no_stdio)
			b->stdio[fd] = open("/dev/null", O_RDWR | O_CLOEXEC);
		else if (!take_one(b, fd, err))
			return false;
		if (b->stdio[fd] < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", names[fd]);
		give_pipe(b->stdio[fd], kh_build_host_uid(spec), kh_build_host_gid(spec));
	}
	tty[n] = '\0';
	return true;
}

/*
 * The command may set the size of a terminal of the caller's, and whoever breaks lines for it would
 * believe that. Nothing tells its requests from those of the window (both are followed by
 * SIGWINCH), so the size is what it was: a window that has changed meanwhile says so again when it
 * changes next. It may be narrower than that.
 */
static void restore_size(const struct winsize *before, int fd)
{
	struct winsize size;
	if (ioctl(fd, TIOCGWINSZ, &size) != 0 || memcmp(&size, before, sizeof(size)) == 0)
		return;
	kh_screen_doubt_columns();
	(void)ioctl(fd, TIOCSWINSZ, before);
}

/* Where no read-only mount could be made, its owner may have opened it to others. */
static void restore_file(const struct stat *before, int fd)
{
	struct stat now;
	if (fstat(fd, &now) != 0)
		return;
	if (now.st_uid != before->st_uid || now.st_gid != before->st_gid)
		(void)!fchown(fd, before->st_uid, before->st_gid);
	if (now.st_mode != before->st_mode)
		(void)fchmod(fd, before->st_mode & 07777);
}

/* Output that was stopped: by a request, or by a key that the command had given that meaning. */
static void restart_output(const struct termios *before, int fd)
{
	struct termios now;
	(void)tcflow(fd, TCOON);
	if (tcgetattr(fd, &now) != 0 || !(now.c_iflag & IXON) ||
	    ((before->c_iflag & IXON) && before->c_cc[VSTOP] == now.c_cc[VSTOP]))
		return;
	now.c_iflag &= ~(tcflag_t)IXON;
	(void)tcsetattr(fd, TCSANOW, &now);
}

/* A background process may set the terminal while SIGTTOU is blocked. */
static void restore(const struct kh_stdio_before *before, int fd)
{
	sigset_t set, was;
	sigemptyset(&set);
	sigaddset(&set, SIGTTOU);
	if (before->flags >= 0 && fcntl(fd, F_GETFL) != before->flags)
		(void)fcntl(fd, F_SETFL, before->flags);
	struct termios modes;
	if (!before->modes)
		return;
	memcpy(&modes, before->modes, sizeof(modes));
	(void)sigprocmask(SIG_BLOCK, &set, &was);
	restore_file(&before->file, fd);
	restart_output(&modes, fd);
	restore_size(&before->size, fd);
	(void)tcsetattr(fd, TCSANOW, &modes);
	if (fd != STDIN_FILENO) {
		kh_screen_reset(fd);
		kh_log_reset_screen();
	}
	(void)sigprocmask(SIG_SETMASK, &was, NULL);
}

static void forget(struct kh_stdio_before *before)
{
	free(before->modes);
	*before = (struct kh_stdio_before){ .flags = -1 };
}

void kh_stdio_close(struct kh_build *b)
{
	for (int i = 0; i < 3; i++)
		kh_cleanup_close(&b->stdio[i]);
	for (int i = 0; i < 3; i++) {
		restore(&b->before[i], i);
		if (b->pumps[i].pid <= 0)
			forget(&b->before[i]);
	}
}

/* What a pump had still to write may have changed the terminal once more. */
void kh_stdio_end(struct kh_build *b)
{
	for (int i = 0; i < 3; i++) {
		bool carried = b->pumps[i].pid > 0;
		kh_pump_end(&b->pumps[i]);
		if (carried) {
			restore(&b->before[i], i);
			forget(&b->before[i]);
		}
	}
}
