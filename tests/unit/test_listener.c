/* test_listener.c - Unix sockets: mode and owner before anybody can connect, never one taken away
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <keyhole/base/file.h>
#include <keyhole/net/listener.h>

static char folder[64];

static int setup(void **state)
{
	(void)state;
	memcpy(folder, "/tmp/kh-listener-XXXXXX", sizeof "/tmp/kh-listener-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[128];
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		snprintf(command, sizeof command, "%s", folder);
		execlp("rm", "rm", "-rf", "--", command, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static struct kh_listener_config config_at(const char *path, mode_t mode)
{
	union {
		const char *from;
		char *to;
	} unconst = { .from = path };
	return (struct kh_listener_config){
		.unix_path = unconst.to, .mode = mode, .owner = (uid_t)-1, .group = (gid_t)-1
	};
}

static int open_at(const char *path, mode_t mode, struct kh_err *err)
{
	struct kh_listener_config config = config_at(path, mode);
	return kh_listener_open(&config, NULL, err);
}

static int connect_to(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
	if (connect(fd, (struct sockaddr *)&un, sizeof un) == 0)
		return fd;
	close(fd);
	return -1;
}

static void test_a_socket_has_its_mode_and_its_folder_and_nothing_beside_it(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct stat st;
	char *path = kh_strf("%s/a/b/s", folder);
	char *parent = kh_strf("%s/a/b", folder);
	(void)state;
	int fd = open_at(path, 0660, &err);
	if (fd < 0)
		fail_msg("%s", err.text);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(stat(parent, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	/* A sandbox sees this folder: the socket is alone in it. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(parent), 0);
	close(fd);
	free(path);
	free(parent);
}

static void test_owner_and_group_are_set(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct stat st;
	char *path = kh_strf("%s/s", folder);
	struct kh_listener_config config = config_at(path, 0600);
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can give a file away\n");
		free(path);
		skip();
	}
	config.owner = 12345;
	config.group = 54321;
	int fd = kh_listener_open(&config, NULL, &err);
	assert_true(fd >= 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_gid, 54321);
	assert_int_equal(st.st_mode & 07777, 0600);
	close(fd);
	free(path);
}

static void test_a_dead_socket_is_replaced_and_a_live_one_is_not(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	char *path = kh_strf("%s/s", folder);
	char me[64];
	(void)state;
	int first = open_at(path, 0600, &err);
	assert_true(first >= 0);
	assert_int_equal(open_at(path, 0600, &err), -1);
	assert_int_equal(err.code, KH_ERR_CONFIG);
	snprintf(me, sizeof me, "process %ld (test_listener", (long)getpid());
	assert_non_null(strstr(err.text, me));
	/* The first one is untouched. */
	int client = connect_to(path);
	assert_true(client >= 0);
	close(client);
	close(first);
	assert_int_equal(connect_to(path), -1);
	int second = open_at(path, 0600, &err);
	assert_true(second >= 0);
	client = connect_to(path);
	assert_true(client >= 0);
	close(client);
	close(second);
	free(path);
}

static void test_a_live_socket_with_a_full_queue_is_alive(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	char *path = kh_strf("%s/s", folder);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int clients[8];
	(void)state;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
	assert_int_equal(listen(fd, 1), 0);
	for (int i = 0; i < 8; i++) {
		clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)connect(clients[i], (struct sockaddr *)&un, sizeof un);
	}
	assert_int_equal(open_at(path, 0600, &err), -1);
	assert_non_null(strstr(err.text, "listens there already"));
	for (int i = 0; i < 8; i++)
		close(clients[i]);
	close(fd);
	free(path);
}

static void test_a_file_that_is_no_socket_is_left_alone(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	char *path = kh_strf("%s/s", folder), *link_path = kh_strf("%s/l", folder);
	struct stat st;
	(void)state;
	int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(file >= 0);
	close(file);
	assert_int_equal(open_at(path, 0600, &err), -1);
	assert_non_null(strstr(err.text, "no socket"));
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(symlink("s", link_path), 0);
	assert_int_equal(open_at(link_path, 0600, &err), -1);
	assert_int_equal(lstat(link_path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	free(path);
	free(link_path);
}

/* A worker shares the socket, and may have been taken over. */
static void test_a_socket_that_was_shut_down_is_known_to_be_dead(void **state)
{
	static const int hows[] = { SHUT_RD, SHUT_RDWR };
	struct sockaddr_in nowhere = { .sin_family = AF_UNSPEC };
	(void)state;
	for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++) {
		char path[128];
		snprintf(path, sizeof path, "%s/s%zu", folder, i);
		int fd = open_at(path, 0600, NULL), theirs = dup(fd);
		assert_true(fd >= 0 && theirs >= 0);
		assert_false(kh_listener_is_dead(fd));
		assert_int_equal(shutdown(theirs, hows[i]), 0);
		assert_true(kh_listener_is_dead(fd));
		/* The name can be taken anew. */
		int next = open_at(path, 0600, NULL);
		assert_true(next >= 0);
		assert_false(kh_listener_is_dead(next));
		close(fd), close(theirs), close(next);
	}
	int port = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(port >= 0 && listen(port, 1) == 0);
	assert_false(kh_listener_is_dead(port));
	assert_int_equal(connect(port, (struct sockaddr *)&nowhere, sizeof nowhere), 0);
	assert_true(kh_listener_is_dead(port));
	close(port);
	assert_true(kh_listener_is_dead(port));
}

static void test_a_folder_longer_than_sun_path_is_no_obstacle(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct stat st;
	char *path = kh_strf("%s/%0100d/%0100d/s", folder, 1, 2);
	(void)state;
	int fd = open_at(path, 0600, &err);
	if (fd < 0)
		fail_msg("%s", err.text);
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(open_at(path, 0600, &err), -1); /* alive, and found so */
	close(fd);
	fd = open_at(path, 0600, &err);
	assert_true(fd >= 0);
	close(fd);
	free(path);
}

static void test_bad_names_are_errors(void **state)
{
	static const char *const names[] = { "", "/", ".", "..", "x/", "x/..", "/tmp/." };
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct kh_err err = KH_ERR_INIT;
		assert_int_equal(open_at(names[i], 0600, &err), -1);
		assert_int_equal(err.code, KH_ERR_CONFIG);
	}
}

static void test_a_folder_that_may_not_be_written_is_an_error(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	assert_int_equal(open_at("/proc/self/s", 0600, &err), -1);
	assert_int_not_equal(err.code, KH_ERR_NONE);
	assert_non_null(strstr(err.text, "/proc/self/s"));
}

static void test_accept_notes_who_connects(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_peer peer = { 0 };
	char *path = kh_strf("%s/s", folder);
	int accepted;
	(void)state;
	int fd = open_at(path, 0600, &err);
	assert_int_equal(kh_listener_accept(fd, &accepted, &peer), KH_ACCEPT_AGAIN);
	assert_int_equal(accepted, -1);
	int client = connect_to(path);
	assert_int_equal(kh_listener_accept(fd, &accepted, &peer), KH_ACCEPT_GOT);
	assert_int_equal(peer.pid, getpid());
	assert_int_equal(peer.uid, geteuid());
	assert_int_equal(peer.gid, getegid());
	assert_int_equal(fcntl(accepted, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fcntl(accepted, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	close(accepted);
	close(client);
	close(fd);
	free(path);
}

static void test_running_out_of_descriptors_does_not_break_the_listener(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_peer peer;
	struct rlimit old, small;
	char *path = kh_strf("%s/s", folder);
	int accepted;
	(void)state;
	int fd = open_at(path, 0600, &err);
	int client = connect_to(path);
	assert_true(fd >= 0 && client >= 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	small = old;
	small.rlim_cur = (rlim_t)client + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
	enum kh_accept got = kh_listener_accept(fd, &accepted, &peer);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(got, KH_ACCEPT_RETRY_LATER);
	assert_int_equal(kh_listener_accept(fd, &accepted, &peer), KH_ACCEPT_GOT);
	close(accepted);
	close(client);
	close(fd);
	assert_int_equal(kh_listener_accept(fd, &accepted, &peer), KH_ACCEPT_BROKEN);
	int pipes[2];
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(kh_listener_accept(pipes[0], &accepted, &peer), KH_ACCEPT_BROKEN);
	close(pipes[0]);
	close(pipes[1]);
	free(path);
}

static void test_of_two_starts_at_once_one_gets_the_socket(void **state)
{
	char *path = kh_strf("%s/s", folder);
	int ready[2], results[2];
	(void)state;
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(results), 0);
	enum { STARTS = 6 };
	pid_t pids[STARTS];
	for (int i = 0; i < STARTS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			struct kh_err err = KH_ERR_INIT;
			char go, won;
			close(ready[1]);
			close(results[0]);
			(void)!read(ready[0], &go, 1); /* the end: all at once */
			won = open_at(path, 0600, &err) >= 0 ? 'y' : 'n';
			(void)!write(results[1], &won, 1);
			pause();
			_exit(0);
		}
	}
	close(ready[0]);
	close(ready[1]);
	close(results[1]);
	int winners = 0;
	for (int i = 0; i < STARTS; i++) {
		char won;
		assert_int_equal(read(results[0], &won, 1), 1);
		winners += won == 'y';
	}
	for (int i = 0; i < STARTS; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	close(results[0]);
	assert_int_equal(winners, 1);
	free(path);
}

/* So kh_listener_reset has nothing to do for a Unix socket. */
static void test_connections_inherit_no_option_of_a_unix_listener(void **state)
{
	static const struct {
		int level, name;
	} options[] = { { SOL_SOCKET, SO_KEEPALIVE },
			{ SOL_SOCKET, SO_LINGER },
			{ SOL_SOCKET, SO_RCVTIMEO },
			{ SOL_SOCKET, SO_SNDTIMEO } };
	struct kh_err err = KH_ERR_INIT;
	char *path = kh_strf("%s/s", folder);
	(void)state;
	int fd = open_at(path, 0600, &err);
	assert_true(fd >= 0);
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
		const int set[4] = { 1, 1, 1, 0 }; /* an int, a linger, a timeval */
		int got[4] = { 0 };
		socklen_t len = sizeof got;
		(void)setsockopt(fd, options[i].level, options[i].name, set, sizeof set);
		assert_int_equal(getsockopt(fd, options[i].level, options[i].name, got, &len), 0);
		assert_int_not_equal(got[0], 0);
		struct kh_peer peer;
		int accepted, client = connect_to(path);
		assert_int_equal(kh_listener_accept(fd, &accepted, &peer), KH_ACCEPT_GOT);
		len = sizeof got;
		assert_int_equal(getsockopt(accepted, options[i].level, options[i].name, got, &len),
				 0);
		assert_int_equal(got[0], 0);
		close(accepted);
		close(client);
	}
	close(fd);
	free(path);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_socket_has_its_mode_and_its_folder_and_nothing_beside_it),
		T(test_owner_and_group_are_set),
		T(test_a_dead_socket_is_replaced_and_a_live_one_is_not),
		T(test_a_live_socket_with_a_full_queue_is_alive),
		T(test_a_file_that_is_no_socket_is_left_alone),
		T(test_a_socket_that_was_shut_down_is_known_to_be_dead),
		T(test_connections_inherit_no_option_of_a_unix_listener),
		T(test_a_folder_longer_than_sun_path_is_no_obstacle),
		T(test_bad_names_are_errors),
		T(test_a_folder_that_may_not_be_written_is_an_error),
		T(test_accept_notes_who_connects),
		T(test_running_out_of_descriptors_does_not_break_the_listener),
		T(test_of_two_starts_at_once_one_gets_the_socket),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
