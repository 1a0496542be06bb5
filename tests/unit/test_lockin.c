/* test_lockin.c - what a worker that was taken over tries next is refused by the kernel */

/*
 * Each attempt is a process of its own: it locks itself in, then tries. It ends with REFUSED,
 * SUCCEEDED or by the filter's signal. Where the tests run as root every attempt is made twice: by
 * a worker that root started, and by one that an ordinary user did.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

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

#include <keyhole/file.h>

#include <proxy/lockin_internal.h>
#include <proxy/worker_internal.h>

enum { REFUSED = 40, SUCCEEDED = 41, NO_LOCKIN = 42, NOT_SET_UP = 43 };
enum { ORDINARY_UID = 4711 };

static pid_t parent;
static char parents_byte = 'p';
static int a_file = -1; /* opened before */
static char a_path[] = "/tmp/keyhole-test-lockin-XXXXXX";

static bool is_refusal(int code)
{
	return code == EPERM || code == EACCES || code == ENOSYS;
}

/* Of a system call's result. */
static int outcome(long result)
{
	if (result >= 0)
		return SUCCEEDED;
	return is_refusal(errno) ? REFUSED : errno;
}

/* --- attempts --------------------------------------------------------------------------------- */

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

/* --- running them ----------------------------------------------------------------------------- */

static void become_ordinary(void)
{
	if (setgroups(0, NULL) != 0 || setresgid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) != 0 ||
	    setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) != 0)
		_exit(NOT_SET_UP);
}

static int run_locked(int (*attempt)(void), bool ordinary)
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

static const struct attempt {
	const char *what;
	int (*run)(void);
} attempts[] = {
	{ "open(2)", try_open },
	{ "openat(2)", try_openat },
	{ "openat2(2)", try_openat2 },
	{ "open with O_PATH", try_open_path },
	{ "creat(2)", try_creat },
	{ "reading /proc/self/environ", try_own_environ },
	{ "writing /proc/self/mem", try_own_memory },
	{ "reopening a descriptor", try_reopen },
	{ "unlink", try_unlink },
	{ "rename", try_rename },
	{ "symlink", try_symlink },
	{ "link", try_link },
	{ "mkdir", try_mkdir },
	{ "truncate by name", try_truncate },
	{ "chmod", try_chmod },
	{ "statx", try_statx },
	{ "readlink", try_readlink },
	{ "chdir", try_chdir },
	{ "execve", try_execve },
	{ "execveat", try_execveat },
	{ "memfd_create", try_memfd },
	{ "fork(3)", try_fork },
	{ "fork(2)", try_raw_fork },
	{ "clone into a namespace", try_clone_namespace },
	{ "clone with odd flags", try_odd_thread },
	{ "clone3", try_clone3 },
	{ "ptrace of the parent", try_ptrace },
	{ "reading the parent's memory", try_process_vm_readv },
	{ "writing the parent's memory", try_process_vm_writev },
	{ "kill", try_kill },
	{ "tgkill of the parent", try_tgkill },
	{ "tkill", try_tkill },
	{ "sigqueue", try_sigqueue },
	{ "pidfd_open", try_pidfd },
	{ "a signal by F_SETOWN", try_owner },
	{ "prlimit of the parent", try_prlimit },
	{ "a Unix socket", try_unix },
	{ "a Unix datagram socket", try_unix_datagram },
	{ "socketpair", try_socketpair },
	{ "a netlink socket", try_netlink },
	{ "a packet socket", try_packet },
	{ "a vsock socket", try_vsock },
	{ "an AF_ALG socket", try_alg },
	{ "a raw socket", try_raw },
	{ "an SCTP socket", try_sctp },
	{ "bind", try_bind },
	{ "listen", try_listen },
	{ "setsockopt TCP_ULP", try_filter },
	{ "executable mmap", try_mmap_exec },
	{ "mprotect to executable", try_mprotect_exec },
	{ "mprotect of code", try_write_code },
	{ "pkey_mprotect to executable", try_pkey_exec },
	{ "setuid", try_setuid },
	{ "setresuid", try_setresuid },
	{ "setgroups", try_setgroups },
	{ "unshare", try_unshare },
	{ "setns", try_setns },
	{ "mount", try_mount },
	{ "chroot", try_chroot },
	{ "bpf", try_bpf },
	{ "io_uring", try_io_uring },
	{ "perf_event_open", try_perf },
	{ "userfaultfd", try_userfaultfd },
	{ "keyctl", try_keyring },
	{ "TIOCSTI", try_tty_injection },
	{ "becoming dumpable", try_dumpable },
	{ "another filter", try_new_filter },
#ifdef __x86_64__
	{ "an x32 call", try_x32 },
	{ "a 32-bit call", try_int80 },
#endif
};

static void refuse_all(bool ordinary)
{
	unsigned bad = 0;
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
		int status = run_locked(attempts[i].run, ordinary);
		bool refused = (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED) ||
			       (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
		if (!refused)
			print_error("%s: status 0x%x\n", attempts[i].what, (unsigned)status);
		bad += !refused;
	}
	assert_int_equal(bad, 0);
	assert_int_equal(parents_byte, 'p');
	assert_int_equal(access(a_path, F_OK), 0);
}

static void what_a_worker_of_root_tries_is_refused(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can become the worker's user\n");
		skip();
	}
	refuse_all(false);
}

static void what_a_worker_of_a_user_tries_is_refused(void **state)
{
	(void)state;
	refuse_all(true);
}

/* Each of the attempts must be one that works outside, or its refusal says nothing. Those that need
 * root's powers, hardware or another ABI are left out. */
static void without_the_lockin_they_succeed(void **state)
{
	(void)state;
	static int (*const plain[])(void) = { try_open,	   try_openat,	    try_openat2,
					      try_fork,	   try_kill,	    try_unix,
					      try_statx,   try_mmap_exec,   try_mprotect_exec,
					      try_bind,	   try_netlink,	    try_readlink,
					      try_memfd,   try_own_environ, try_process_vm_readv,
					      try_dumpable };
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			_exit(plain[i]());
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != SUCCEEDED)
			print_error("attempt %zu: status 0x%x\n", i, (unsigned)status);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SUCCEEDED);
	}
}

/* --- what it is afterwards -------------------------------------------------------------------- */

/* Told by /proc, which the child can't read any more, so the parent does. */
static bool status_says(const char *text, const char *name, const char *value)
{
	char line[128];
	(void)snprintf(line, sizeof(line), "\n%s:\t%s", name, value);
	if (strstr(text, line))
		return true;
	print_error("%s is not %s\n", name, value);
	return false;
}

static void check_status(bool ordinary)
{
	int go[2], stay[2];
	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(stay), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char byte;
		(void)close(stay[1]);
		if (ordinary && geteuid() == 0)
			become_ordinary();
		byte = kh_lockin(NULL, NULL) ? 'y' : 'n';
		(void)!write(go[1], &byte, 1);
		(void)!read(stay[0], &byte, 1); /* until the parent closes */
		_exit(0);
	}
	char answer = 0, path[64], text[8192] = { 0 }, ids[64];
	(void)close(stay[0]);
	assert_int_equal(read(go[0], &answer, 1), 1);
	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	(void)close(fd);

	uid_t uid = ordinary ? (geteuid() == 0 ? ORDINARY_UID : getuid()) : 64951;
	(void)snprintf(ids, sizeof(ids), "%u\t%u\t%u\t%u", uid, uid, uid, uid);
	bool ok = answer == 'y';
	ok &= status_says(text, "Uid", ids);
	ok &= status_says(text, "CapInh", "0000000000000000");
	ok &= status_says(text, "CapPrm", "0000000000000000");
	ok &= status_says(text, "CapEff", "0000000000000000");
	ok &= status_says(text, "CapAmb", "0000000000000000");
	ok &= ordinary || status_says(text, "CapBnd", "0000000000000000");
	ok &= status_says(text, "NoNewPrivs", "1");
	ok &= status_says(text, "Seccomp", "2");
	ok &= !ordinary ? status_says(text, "Groups", " \n") : true;
	/* Not dumpable: its /proc belongs to root, and its user can't read its memory. */
	struct stat st;
	(void)snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	ok &= stat(path, &st) == 0 && st.st_uid == 0;

	(void)close(stay[1]);
	(void)close(go[0]);
	(void)close(go[1]);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(ok);
	assert_int_equal(status, 0);
}

static void a_worker_of_root_keeps_no_power(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can become the worker's user\n");
		skip();
	}
	check_status(false);
}

static void a_worker_of_a_user_keeps_no_power(void **state)
{
	(void)state;
	check_status(true);
}

static int lock_in_as(const char *user)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(kh_lockin(user, NULL) ? 0 : NO_LOCKIN);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void the_workers_user_is_never_root(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can become the worker's user\n");
		skip();
	}
	static const char *const bad[] = { "root", "0",	 "00",	       "no-such-user!",
					   "",	   "-1", "4294967295", "1000:1000" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int status = lock_in_as(bad[i]);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != NO_LOCKIN)
			print_error("user '%s': status 0x%x\n", bad[i], (unsigned)status);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == NO_LOCKIN);
	}
	assert_int_equal(lock_in_as("29999"), 0);
	assert_int_equal(lock_in_as("nobody"), 0);
}

/* --- what still works ------------------------------------------------------------------------- */

static void *thread_body(void *arg)
{
	const size_t len = 1024UL * 1024;
	unsigned char *bytes = malloc(len);
	if (bytes) {
		memset(bytes, 1, len);
		*(int *)arg = bytes[77];
	}
	free(bytes);
	return NULL;
}

static bool threads_work(void)
{
	enum { N = 8 };
	pthread_t threads[N];
	int results[N] = { 0 }, sum = 0;
	pthread_attr_t attr;
	if (pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, 1024UL * 1024) != 0)
		return false;
	for (int i = 0; i < N; i++)
		if (pthread_create(&threads[i], &attr, thread_body, &results[i]) != 0)
			return false;
	for (int i = 0; i < N; i++) {
		(void)pthread_setname_np(threads[i], "loop");
		if (pthread_join(threads[i], NULL) != 0)
			return false;
		sum += results[i];
	}
	return sum == N;
}

static bool memory_works(void)
{
	size_t len = 100UL * 1024 * 1024;
	char *bytes = malloc(len);
	if (!bytes)
		return false;
	for (size_t i = 0; i < len; i += 4096)
		bytes[i] = 1;
	bytes = realloc(bytes, 2 * len);
	if (!bytes)
		return false;
	free(bytes);
	char *page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return page != MAP_FAILED && mprotect(page, 8192, PROT_READ | PROT_WRITE) == 0 &&
	       madvise(page, 8192, MADV_DONTDUMP) == 0 && munmap(page, 8192) == 0;
}

static bool waiting_works(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), ev = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct epoll_event event = { .events = EPOLLIN };
	uint64_t one = 1;
	return ep >= 0 && ev >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, ev, &event) == 0 &&
	       write(ev, &one, sizeof(one)) == (ssize_t)sizeof(one) &&
	       epoll_wait(ep, &event, 1, 1000) == 1 && close(ep) == 0 && close(ev) == 0;
}

static int server = -1; /* listening before the lock-in */
static struct sockaddr_in server_addr;

static bool tcp_works(void)
{
	int one = 1, zero = 0, error = 0;
	socklen_t len = sizeof(error);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)) != 0)
		return false;
	if (connect(fd, (struct sockaddr *)&server_addr, sizeof(server_addr)) != 0 &&
	    errno != EINPROGRESS)
		return false;
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	if (poll(&p, 1, 1000) != 1 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 ||
	    error != 0)
		return false;
	int accepted = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	char byte = 0;
	struct sockaddr_in peer;
	len = sizeof(peer);
	int waiting = 0;
	return accepted >= 0 && getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
	       send(fd, "x", 1, MSG_NOSIGNAL) == 1 && ioctl(accepted, FIONREAD, &waiting) == 0 &&
	       ioctl(fd, FIONBIO, &zero) == 0 && recv(accepted, &byte, 1, 0) == 1 && byte == 'x' &&
	       shutdown(fd, SHUT_WR) == 0 && recv(accepted, &byte, 1, 0) == 0 && close(fd) == 0 &&
	       close(accepted) == 0;
}

static bool udp_works(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	struct sockaddr_in to = server_addr;
	return fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
	       connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 && send(fd, "q", 1, 0) == 1 &&
	       close(fd) == 0;
}

static bool journal_works(void)
{
	struct stat st;
	return pwrite(a_file, "line\n", 5, 0) == 5 && fdatasync(a_file) == 0 &&
	       fstat(a_file, &st) == 0 && st.st_size == 5 && ftruncate(a_file, 0) == 0;
}

static bool chance_and_time_work(void)
{
	unsigned char bytes[32];
	struct timespec now, nap = { .tv_nsec = 1000000 };
	return getrandom(bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) &&
	       clock_gettime(CLOCK_MONOTONIC, &now) == 0 &&
	       clock_gettime(CLOCK_REALTIME, &now) == 0 && nanosleep(&nap, NULL) == 0 &&
	       getpid() > 0;
}

static int use_all(void)
{
	static const struct {
		const char *what;
		bool (*works)(void);
	} needs[] = {
		{ "threads", threads_work },
		{ "memory", memory_works },
		{ "epoll", waiting_works },
		{ "TCP", tcp_works },
		{ "UDP", udp_works },
		{ "journal", journal_works },
		{ "chance and time", chance_and_time_work },
	};
	int bad = 0;
	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		if (!needs[i].works()) {
			fprintf(stderr, "%s: %s\n", needs[i].what, strerror(errno));
			bad = 1;
		}
	}
	return bad;
}

static void what_a_worker_needs_still_works(void **state)
{
	(void)state;
	for (int ordinary = 0; ordinary < 2; ordinary++) {
		socklen_t len = sizeof(server_addr);
		server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		server_addr = (struct sockaddr_in){ .sin_family = AF_INET,
						    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		assert_int_equal(bind(server, (struct sockaddr *)&server_addr, len), 0);
		assert_int_equal(listen(server, 8), 0);
		assert_int_equal(getsockname(server, (struct sockaddr *)&server_addr, &len), 0);
		assert_int_equal(run_locked(use_all, ordinary), 0);
		(void)close(server);
	}
}

/* The second wall must stand without the first: what takes a name, and signals. */
/* A library that insists on a name gets what the worker holds already, and nothing else. */
static int open_what_is_lent(void)
{
	if (open(a_path, O_RDONLY) >= 0 || errno != EPERM)
		return SUCCEEDED;
	(void)kh_file_lend(a_file);
	int fd = open("/proc/self/mem", O_RDWR), other = openat(AT_FDCWD, "x", O_CREAT, 0600);
	(void)kh_file_lend(-1);
	struct stat lent, got, too;
	if (fd < 0 || other < 0 || fstat(a_file, &lent) != 0 || fstat(fd, &got) != 0 ||
	    fstat(other, &too) != 0 || got.st_ino != lent.st_ino || too.st_ino != lent.st_ino)
		return NOT_SET_UP;
	return open(a_path, O_RDONLY) >= 0 ? SUCCEEDED : REFUSED;
}

static void what_is_lent_is_all_that_can_be_opened(void **state)
{
	(void)state;
	for (int ordinary = geteuid() == 0 ? 0 : 1; ordinary < 2; ordinary++) {
		int status = run_locked(open_what_is_lent, ordinary);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), REFUSED);
	}
}

static void landlock_alone_refuses_names_and_signals(void **state)
{
	(void)state;
	static int (*const names[])(void) = { try_open,	  try_openat2, try_creat,  try_unlink,
					      try_rename, try_mkdir,   try_execve, try_truncate };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) + 1; i++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			int abi = 0;
			if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
			    !kh_lockin_landlock(&abi, NULL))
				_exit(NO_LOCKIN);
			bool signal_too = i == sizeof(names) / sizeof(names[0]);
			if (abi == 0 || (signal_too && abi < 6))
				_exit(REFUSED); /* not in this kernel: nothing to hold it to */
			_exit(signal_too ? try_kill() : names[i]());
		}
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != REFUSED)
			print_error("attempt %zu: status 0x%x\n", i, (unsigned)status);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == REFUSED);
	}
}

static int abort_in_cage(void)
{
	abort();
}

/* An invariant that breaks must end the process by its own signal, not in a refused one. */
static void abort_still_aborts(void **state)
{
	(void)state;
	int status = run_locked(abort_in_cage, true);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

static int set_up(void **state)
{
	(void)state;
	struct rlimit none = { 0, 0 };
	parent = getpid();
	a_file = mkstemp(a_path);
	/* The attempts that are killed leave no core files. */
	return a_file >= 0 && fchmod(a_file, 0666) == 0 && setrlimit(RLIMIT_CORE, &none) == 0 ? 0
											      : -1;
}

static int tear_down(void **state)
{
	(void)state;
	(void)close(a_file);
	return unlink(a_path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_lockin_they_succeed),
		cmocka_unit_test(what_a_worker_of_root_tries_is_refused),
		cmocka_unit_test(what_a_worker_of_a_user_tries_is_refused),
		cmocka_unit_test(a_worker_of_root_keeps_no_power),
		cmocka_unit_test(a_worker_of_a_user_keeps_no_power),
		cmocka_unit_test(the_workers_user_is_never_root),
		cmocka_unit_test(what_a_worker_needs_still_works),
		cmocka_unit_test(what_is_lent_is_all_that_can_be_opened),
		cmocka_unit_test(landlock_alone_refuses_names_and_signals),
		cmocka_unit_test(abort_still_aborts),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
