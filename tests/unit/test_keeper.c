/* test_keeper.c - a launcher's private daemon: what it tells, whose it is, and when it ends */

/*
 * The keeper runs in a child and starts a worker by executing this very program anew, so main() is
 * a worker when it is called as one: all of it is the real thing, under the sanitizers.
 */
#include "config_text.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/keeper/keeper.h>
#include <keyhole/worker/worker.h>

enum { PATIENCE_MS = 20 * 1000, OTHER_UID = 4711 };

static char folder[] = "/tmp/keyhole-test-keeper-XXXXXX";
static char socket_path[64], journal_path[64];

static struct kh_config *configure(const char *rest)
{
	kh_auto_free char *yaml =
		kh_strf("version: 1\n"
			"listen: [ { unix: d/s, tenant: acme } ]\n"
			"audit: { file: audit.jsonl }\n"
			"credentials:\n"
			"  main: { value: { env: KH_MAIN }, header: { x-api-key: \"{}\" }, hosts: "
			"[ a.test ],\n"
			"          placeholder: { prefix: sk-test- } }\n"
			"tenants:\n"
			"  acme: { rules: [ { allow: \"https://a.test\", credential: main } ] }\n"
			"%s",
			rest);
	return config_in(folder, yaml);
}

static struct kh_keeper_options one_run(struct kh_config *config)
{
	return (struct kh_keeper_options){ .config = config,
					   .ready_fd = -1,
					   .serving_fd = -1,
					   .one_run = true,
					   .socket_uid = (uid_t)-1,
					   .socket_gid = (gid_t)-1 };
}

/* Runs it in a child. Return: its pid; *ready is what it tells. */
static pid_t launch(struct kh_keeper_options *options, struct kh_ready *ready)
{
	int fds[2];
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(fds[0]);
		options->ready_fd = fds[1];
		_exit(kh_keeper_run(options));
	}
	(void)close(fds[1]);
	struct kh_err err = KH_ERR_INIT;
	if (!kh_ready_read(fds[0], ready, PATIENCE_MS, &err))
		fail_msg("%s", err.text);
	(void)close(fds[0]);
	kh_config_free(options->config);
	return pid;
}

static int end(pid_t pid)
{
	int status;
	(void)kill(pid, SIGTERM);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Return: what it answers to a request that is none. */
static void ask(char *answer, size_t room)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", socket_path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	ssize_t n = recv(fd, answer, room - 1, 0);
	assert_true(n > 0);
	answer[n] = 0;
	(void)close(fd);
}

static void a_launcher_is_told_what_its_sandbox_needs(void **state)
{
	(void)state;
	char answer[512];
	struct kh_ready ready;
	assert_int_equal(setenv("KH_MAIN", "sk-test-0123456789abcdefghij", 1), 0);
	struct kh_keeper_options options = one_run(configure(""));
	pid_t pid = launch(&options, &ready);
	assert_true(ready.ok);
	assert_non_null(strstr(ready.ca_pem, "BEGIN CERTIFICATE"));
	assert_null(strstr(ready.ca_pem, "PRIVATE"));
	assert_string_equal(ready.audit_path, journal_path);
	assert_int_equal(ready.n_placeholders, 1);
	assert_string_equal(ready.placeholders[0].env_name, "KH_MAIN");
	assert_int_equal(strlen(ready.placeholders[0].value),
			 strlen("sk-test-0123456789abcdefghij"));
	assert_memory_equal(ready.placeholders[0].value, "sk-test-", 8);
	assert_string_not_equal(ready.placeholders[0].value, "sk-test-0123456789abcdefghij");
	/* The sockets listen already, and whoever comes before the worker is served by it. */
	ask(answer, sizeof(answer));
	assert_memory_equal(answer, "HTTP/1.1 400", 12);
	kh_ready_fini(&ready);
	assert_int_equal(end(pid), 0);
	assert_int_equal(access(socket_path, F_OK), -1);
}

/* The journal and the socket's name are free again, and a CA for one life leaves no file. */
static void one_run_after_the_other(void **state)
{
	(void)state;
	char *first = NULL;
	assert_int_equal(setenv("KH_MAIN", "sk-test-0123456789", 1), 0);
	for (int i = 0; i < 2; i++) {
		struct kh_ready ready;
		struct kh_keeper_options options = one_run(configure(""));
		pid_t pid = launch(&options, &ready);
		assert_true(ready.ok);
		assert_int_equal(end(pid), 0);
		if (!first) {
			first = ready.ca_pem;
			ready.ca_pem = NULL;
		} else {
			assert_string_not_equal(first, ready.ca_pem);
		}
		kh_ready_fini(&ready);
	}
	free(first);
}

static void expect_start_error(struct kh_config *config, const char *words)
{
	struct kh_ready ready;
	struct kh_keeper_options options = one_run(config);
	pid_t pid = launch(&options, &ready);
	assert_false(ready.ok);
	if (!strstr(ready.error, words))
		print_error("'%s' has no '%s'\n", ready.error, words);
	assert_non_null(strstr(ready.error, words));
	kh_ready_fini(&ready);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	assert_int_equal(access(socket_path, F_OK), -1);
}

static void a_missing_secret_ends_the_start_and_names_the_variable(void **state)
{
	(void)state;
	assert_int_equal(unsetenv("KH_MAIN"), 0);
	expect_start_error(configure(""), "set KH_MAIN");
}

static void what_cannot_be_opened_ends_the_start(void **state)
{
	(void)state;
	assert_int_equal(setenv("KH_MAIN", "sk-test-0123456789", 1), 0);
	expect_start_error(configure("upstream: { ca_file: no-such.pem }\n"), "no-such.pem");
	assert_int_equal(unlink(journal_path), 0); /* the journal comes first, and was made */
	assert_int_equal(mkdir(journal_path, 0700), 0);
	expect_start_error(configure(""), "audit.jsonl");
	assert_int_equal(rmdir(journal_path), 0);
}

static void the_sandboxs_user_owns_its_socket(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can give a socket away\n");
		skip();
	}
	struct stat st;
	struct kh_ready ready;
	assert_int_equal(setenv("KH_MAIN", "sk-test-0123456789", 1), 0);
	struct kh_keeper_options options = one_run(configure(""));
	options.socket_uid = OTHER_UID;
	options.socket_gid = OTHER_UID;
	pid_t pid = launch(&options, &ready);
	assert_true(ready.ok);
	assert_int_equal(stat(socket_path, &st), 0);
	assert_int_equal(st.st_uid, OTHER_UID);
	assert_int_equal(st.st_gid, OTHER_UID);
	assert_int_equal(st.st_mode & 0777, 0600);
	kh_ready_fini(&ready);
	assert_int_equal(end(pid), 0);
}

/* A launcher that is killed leaves nothing that serves. */
static void it_ends_with_its_launcher(void **state)
{
	(void)state;
	int life[2], go[2];
	char byte;
	assert_int_equal(setenv("KH_MAIN", "sk-test-0123456789", 1), 0);
	assert_int_equal(pipe2(life, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid_t launcher = fork();
	assert_true(launcher >= 0);
	if (launcher == 0) {
		struct kh_ready ready;
		struct kh_keeper_options options = one_run(configure(""));
		(void)close(life[0]); /* its other end stays open in the keeper alone */
		(void)launch(&options, &ready);
		(void)close(life[1]);
		byte = ready.ok ? 'y' : 'n';
		(void)!write(go[1], &byte, 1);
		for (;;)
			(void)pause();
	}
	(void)close(life[1]);
	assert_int_equal(read(go[0], &byte, 1), 1);
	assert_int_equal(byte, 'y');
	assert_int_equal(access(socket_path, F_OK), 0);
	struct pollfd p = { .fd = life[0], .events = POLLIN };
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(kill(launcher, SIGKILL), 0);
	assert_int_equal(waitpid(launcher, NULL, 0), launcher);
	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	assert_int_equal(read(life[0], &byte, 1), 0);
	assert_int_equal(access(socket_path, F_OK), -1);
	(void)close(life[0]);
	(void)close(go[0]);
	(void)close(go[1]);
}

/* A ^C in the launcher's terminal is the command's to handle. */
static void it_leaves_the_launchers_process_group(void **state)
{
	(void)state;
	struct kh_ready ready;
	assert_int_equal(setenv("KH_MAIN", "sk-test-0123456789", 1), 0);
	struct kh_keeper_options options = one_run(configure(""));
	pid_t pid = launch(&options, &ready);
	assert_true(ready.ok);
	assert_int_not_equal(getpgid(pid), getpgid(0));
	assert_int_not_equal(getsid(pid), getsid(0));
	kh_ready_fini(&ready);
	assert_int_equal(end(pid), 0);
}

/* It lives as long as its sandbox; whoever upgrades sends the signal to all that is called so. */
static void it_outlives_sigusr2(void **state)
{
	(void)state;
	struct kh_ready ready;
	char answer[64];
	assert_int_equal(setenv("KH_MAIN", "sk-test-0123456789", 1), 0);
	struct kh_keeper_options options = one_run(configure(""));
	pid_t pid = launch(&options, &ready);
	assert_true(ready.ok);
	assert_int_equal(kill(pid, SIGUSR2), 0);
	ask(answer, sizeof(answer));
	assert_int_equal(kill(pid, 0), 0);
	kh_ready_fini(&ready);
	assert_int_equal(end(pid), 0);
}

static void a_worker_by_hand_says_that_it_is_none(void **state)
{
	(void)state;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(KH_WORKER_CHANNEL_FD);
		_exit(kh_worker_main());
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == KH_WORKER_EXIT_USAGE);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	(void)snprintf(socket_path, sizeof(socket_path), "%s/d/s", folder);
	(void)snprintf(journal_path, sizeof(journal_path), "%s/audit.jsonl", folder);
	return 0;
}

static int forget_journal(void **state)
{
	(void)state;
	(void)unlink(journal_path);
	return 0;
}

static int tear_down(void **state)
{
	char sockets[64];
	(void)state;
	(void)snprintf(sockets, sizeof(sockets), "%s/d", folder);
	(void)rmdir(sockets);
	return rmdir(folder);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "worker") == 0)
		return kh_worker_main();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_launcher_is_told_what_its_sandbox_needs,
					  forget_journal),
		cmocka_unit_test_teardown(one_run_after_the_other, forget_journal),
		cmocka_unit_test_teardown(a_missing_secret_ends_the_start_and_names_the_variable,
					  forget_journal),
		cmocka_unit_test_teardown(what_cannot_be_opened_ends_the_start, forget_journal),
		cmocka_unit_test_teardown(the_sandboxs_user_owns_its_socket, forget_journal),
		cmocka_unit_test_teardown(it_ends_with_its_launcher, forget_journal),
		cmocka_unit_test_teardown(it_leaves_the_launchers_process_group, forget_journal),
		cmocka_unit_test_teardown(it_outlives_sigusr2, forget_journal),
		cmocka_unit_test(a_worker_by_hand_says_that_it_is_none),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
