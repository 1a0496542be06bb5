/* lockin_names.h - attempts on names, processes and their signals */
#ifndef KEYHOLE_TESTS_LOCKIN_NAMES_H
#define KEYHOLE_TESTS_LOCKIN_NAMES_H

#include "lockin_process.h"

static char parents_byte = 'p';

static int try_open(void)
{
	return outcome(syscall(SYS_open, a_path, O_RDONLY));
}

static int try_openat(void)
{
	return outcome(openat(AT_FDCWD, a_path, O_RDONLY | O_CLOEXEC));
}

static int try_openat2(void)
{
	struct open_how how = { .flags = O_RDONLY };
	return outcome(syscall(SYS_openat2, AT_FDCWD, a_path, &how, sizeof(how)));
}

static int try_open_path(void)
{
	return outcome(open("/", O_PATH));
}

static int try_creat(void)
{
	return outcome(creat("/tmp/keyhole-test-lockin-made", 0600));
}

static int try_own_environ(void)
{
	return outcome(open("/proc/self/environ", O_RDONLY));
}

static int try_own_memory(void)
{
	return outcome(open("/proc/self/mem", O_RDWR));
}

static int try_reopen(void)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", a_file);
	return outcome(open(path, O_RDWR));
}

static int try_unlink(void)
{
	return outcome(unlink(a_path));
}

static int try_rename(void)
{
	return outcome(rename(a_path, "/tmp/keyhole-test-lockin-moved"));
}

static int try_symlink(void)
{
	return outcome(symlink("/etc/passwd", "/tmp/keyhole-test-lockin-link"));
}

static int try_link(void)
{
	return outcome(linkat(AT_FDCWD, a_path, AT_FDCWD, "/tmp/keyhole-test-lockin-hard", 0));
}

static int try_mkdir(void)
{
	return outcome(mkdir("/tmp/keyhole-test-lockin-folder", 0700));
}

static int try_truncate(void)
{
	return outcome(truncate(a_path, 0));
}

static int try_chmod(void)
{
	return outcome(fchmod(a_file, 0777));
}

static int try_statx(void)
{
	struct statx st;
	return outcome(statx(AT_FDCWD, "/etc/passwd", 0, STATX_BASIC_STATS, &st));
}

/* How fstat is spelled, with a path: it tells of the file that the descriptor is, or of none. */
static int try_stat_by_name(void)
{
	struct stat there, got;
	if (fstat(a_file, &there) != 0)
		return NOT_SET_UP;
	memset(&got, 0, sizeof(got));
	if (syscall(SYS_newfstatat, AT_FDCWD, "/etc/passwd", &got, AT_EMPTY_PATH) == 0)
		return SUCCEEDED;
	if (syscall(SYS_newfstatat, a_file, "/etc/passwd", &got, AT_EMPTY_PATH) == 0 &&
	    (got.st_ino != there.st_ino || got.st_dev != there.st_dev))
		return SUCCEEDED;
	return syscall(SYS_newfstatat, a_file, "/etc/passwd", &got, 0) == 0 &&
			       (got.st_ino != there.st_ino || got.st_dev != there.st_dev)
		       ? SUCCEEDED
		       : REFUSED;
}

static int try_readlink(void)
{
	char out[256];
	return outcome(readlink("/proc/self/exe", out, sizeof(out)));
}

static int try_chdir(void)
{
	return outcome(chdir("/"));
}

static int try_execve(void)
{
	char *argv[] = { a_path, NULL }, *envp[] = { NULL };
	return outcome(execve("/bin/true", argv, envp));
}

static int try_execveat(void)
{
	char *argv[] = { a_path, NULL }, *envp[] = { NULL };
	return outcome(syscall(SYS_execveat, a_file, "", argv, envp, AT_EMPTY_PATH));
}

static int try_memfd(void)
{
	return outcome(memfd_create("program", 0));
}

static int try_fork(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	return outcome(pid);
}

static int try_raw_fork(void)
{
	long pid = syscall(SYS_fork);
	if (pid == 0)
		_exit(0);
	return outcome(pid);
}

static int try_clone_namespace(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0)
		_exit(0);
	return outcome(pid);
}

/* A thread's flags with one more bit: what the C library never asks for. */
static int try_odd_thread(void)
{
	long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
		     CLONE_SYSVSEM | CLONE_UNTRACED;
	return outcome(syscall(SYS_clone, flags, NULL, NULL, NULL, NULL));
}

static int try_clone3(void)
{
	return outcome(syscall(SYS_clone3, NULL, 0));
}

static int try_ptrace(void)
{
	return outcome(ptrace(PTRACE_ATTACH, parent, NULL, NULL));
}

static int try_process_vm_readv(void)
{
	char byte;
	struct iovec mine = { &byte, 1 }, theirs = { &parents_byte, 1 };
	return outcome(process_vm_readv(parent, &mine, 1, &theirs, 1, 0));
}

static int try_process_vm_writev(void)
{
	char byte = 'x';
	struct iovec mine = { &byte, 1 }, theirs = { &parents_byte, 1 };
	return outcome(process_vm_writev(parent, &mine, 1, &theirs, 1, 0));
}

static int try_kill(void)
{
	return outcome(kill(parent, SIGURG));
}

static int try_tgkill(void)
{
	return outcome(syscall(SYS_tgkill, parent, parent, SIGURG));
}

static int try_tkill(void)
{
	return outcome(syscall(SYS_tkill, parent, SIGURG));
}

static int try_sigqueue(void)
{
	siginfo_t info = { .si_signo = SIGURG, .si_code = SI_QUEUE };
	return outcome(syscall(SYS_rt_sigqueueinfo, parent, SIGURG, &info));
}

static int try_pidfd(void)
{
	return outcome(syscall(SYS_pidfd_open, parent, 0));
}

/* O_ASYNC would let the kernel send a signal for us. */
static int try_owner(void)
{
	return outcome(fcntl(a_file, F_SETOWN, parent));
}

static int try_prlimit(void)
{
	struct rlimit none = { 0, 0 };
	return outcome(prlimit(parent, RLIMIT_NOFILE, NULL, &none) == 0 ? 0 : -1);
}

#endif
