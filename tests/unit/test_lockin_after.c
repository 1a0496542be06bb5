/* test_lockin_after.c - who a worker is once it is locked in, and what it needs and still can */
#include "lockin_process.h"

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
	int one = 1, error = 0;
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
	       recv(accepted, &byte, 1, 0) == 1 && byte == 'x' && shutdown(fd, SHUT_WR) == 0 &&
	       recv(accepted, &byte, 1, 0) == 0 && close(fd) == 0 && close(accepted) == 0;
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
	struct stat before, after;
	char line[5];
	return fstat(a_file, &before) == 0 && write(append_only, "line\n", 5) == 5 &&
	       fdatasync(append_only) == 0 && fstat(a_file, &after) == 0 &&
	       after.st_size == before.st_size + 5 &&
	       pread(a_file, line, sizeof(line), before.st_size) == 5 &&
	       memcmp(line, "line\n", 5) == 0;
}

/* The keeper's messages bring descriptors, and the worker's own have none. */
static bool the_channel_works(void)
{
	struct msghdr msg = { .msg_iovlen = 0 };
	struct iovec iov = { a_byte, 1 };
	return recvmsg(KH_WORKER_CHANNEL_FD, &msg, MSG_DONTWAIT) < 0 && errno == EAGAIN &&
	       writev(KH_WORKER_CHANNEL_FD, &iov, 1) == 1;
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
		{ "channel", the_channel_works },
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

static int abort_locked_in(void)
{
	abort();
}

/* An invariant that breaks must end the process by its own signal, not in a refused one. */
static void abort_still_aborts(void **state)
{
	(void)state;
	int status = run_locked(abort_locked_in, true);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_of_root_keeps_no_power),
		cmocka_unit_test(a_worker_of_a_user_keeps_no_power),
		cmocka_unit_test(the_workers_user_is_never_root),
		cmocka_unit_test(what_a_worker_needs_still_works),
		cmocka_unit_test(what_is_lent_is_all_that_can_be_opened),
		cmocka_unit_test(abort_still_aborts),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
