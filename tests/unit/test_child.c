/* wrap: fork */
/* test_child.c - no program of the host's is waited for without a bound, or left behind */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>

enum { PATIENCE_MS = 20 * 1000 };

static char shell[] = "/bin/sh", dash_c[] = "-c";

struct said {
	struct kh_buf out, complaints;
	struct kh_child_result result;
	bool ok;
};

static void run(struct said *said, struct kh_child_spec spec, const char *script, size_t room)
{
	char *argv[] = { shell, dash_c, (char *)(uintptr_t)script, NULL };
	kh_buf_init(&said->out, room);
	kh_buf_init(&said->complaints, room);
	spec.argv = argv;
	spec.most_ms = spec.most_ms ? spec.most_ms : PATIENCE_MS;
	said->ok = kh_child_run(&spec, &said->out, &said->complaints, &said->result);
}

static void done(struct said *said)
{
	kh_buf_fini(&said->out);
	kh_buf_fini(&said->complaints);
}

static void says(const struct kh_buf *buf, const char *want)
{
	struct kh_slice have = kh_buf_view(buf), wanted = kh_slice_str(want);
	if (!kh_slice_eq(have, wanted))
		fail_msg("\"%.*s\" in place of \"%s\"", KH_FMT(have), want);
}

static void what_it_says_comes_in_one_buffer_in_two_or_not(void **state)
{
	static const struct {
		enum kh_child_complaints complaints;
		const char *out, *apart;
	} rows[] = { { KH_CHILD_DROP, "out\n", "" },
		     { KH_CHILD_TOGETHER, "out\nbad\n", "" },
		     { KH_CHILD_APART, "out\n", "bad\n" } };
	struct said said;
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		run(&said, (struct kh_child_spec){ .input = -1, .complaints = rows[i].complaints },
		    "echo out; echo bad >&2", 100);
		assert_true(said.ok);
		says(&said.out, rows[i].out);
		says(&said.complaints, rows[i].apart);
		done(&said);
	}
}

static void its_end_is_told_apart(void **state)
{
	struct said said;
	const struct kh_child_spec spec = { .input = -1 };
	(void)state;
	run(&said, spec, "exit 3", 100);
	assert_false(said.ok);
	assert_int_equal(said.result.end, KH_CHILD_ENDED);
	assert_int_equal(said.result.status, 3);
	done(&said);
	run(&said, spec, "kill -TERM $$", 100);
	assert_int_equal(said.result.end, KH_CHILD_ENDED);
	assert_int_equal(said.result.status, -1);
	done(&said);
	run(&said, (struct kh_child_spec){ .input = -1, .program = "/nonexistent" }, "", 100);
	assert_int_equal(said.result.status, 127);
	done(&said);
}

static void one_that_does_not_end_is_ended_with_its_group(void **state)
{
	struct said said;
	char pid[32];
	(void)state;
	uint64_t begin = kh_clock_mono_ms();
	run(&said, (struct kh_child_spec){ .input = -1, .most_ms = 300 },
	    "sleep 600 & echo $!; wait", 100);
	assert_false(said.ok);
	assert_int_equal(said.result.end, KH_CHILD_LATE);
	assert_true(kh_clock_mono_ms() - begin < PATIENCE_MS);
	struct kh_slice line = kh_buf_view(&said.out);
	assert_in_range(line.len, 2, sizeof(pid) - 1);
	(void)snprintf(pid, sizeof(pid), "%.*s", KH_FMT(line));
	/* Killed as well; who reaps it may take a moment. */
	pid_t left = (pid_t)strtol(pid, NULL, 10);
	char path[64], what[256] = "";
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)left);
	for (int i = 0; i < 200; i++) {
		kh_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, what, sizeof(what) - 1);
		if (n <= 0 || strstr(what, ") Z "))
			goto gone;
		(void)usleep(10 * 1000);
	}
	fail_msg("sleep lives on: %s", what);
gone:
	done(&said);
}

static void what_it_leaves_behind_with_the_pipe_is_not_waited_for(void **state)
{
	struct said said;
	(void)state;
	uint64_t begin = kh_clock_mono_ms();
	run(&said, (struct kh_child_spec){ .input = -1 }, "sleep 15 & echo said", 100);
	assert_true(said.ok);
	assert_true(kh_clock_mono_ms() - begin < 10 * 1000);
	says(&said.out, "said\n");
	done(&said);
}

static void what_has_no_room_is_left_out_or_ends_it(void **state)
{
	struct said said;
	(void)state;
	run(&said, (struct kh_child_spec){ .input = -1 }, "head -c 1000000 /dev/zero", 1000);
	assert_false(said.ok);
	assert_true(said.result.cut);
	assert_int_equal(said.result.end, KH_CHILD_ENDED);
	assert_int_equal(said.result.status, 0);
	assert_int_equal(kh_buf_len(&said.out), 1000);
	done(&said);
	run(&said, (struct kh_child_spec){ .input = -1, .end_when_full = true },
	    "exec cat /dev/zero", 1000);
	assert_int_equal(said.result.end, KH_CHILD_FULL);
	assert_int_equal(kh_buf_len(&said.out), 1000);
	done(&said);
	run(&said, (struct kh_child_spec){ .input = -1 }, "head -c 900000 /dev/zero", 1000000);
	assert_true(said.ok);
	assert_int_equal(kh_buf_len(&said.out), 900000);
	done(&said);
}

static bool always(void *arg)
{
	++*(int *)arg;
	return true;
}

static void it_is_ended_when_nobody_wants_it_any_more(void **state)
{
	struct said said;
	int asked = 0;
	(void)state;
	run(&said, (struct kh_child_spec){ .input = -1, .is_over = always, .arg = &asked },
	    "exec sleep 600", 100);
	assert_int_equal(said.result.end, KH_CHILD_OVER);
	assert_int_equal(asked, 1);
	done(&said);
}

static bool give_a_descriptor(void *arg)
{
	return dup2(*(int *)arg, 5) == 5;
}

static bool refuse(void *arg)
{
	(void)arg;
	return false;
}

static void it_has_three_descriptors_and_what_is_prepared(void **state)
{
	struct said said;
	int other = open("/dev/null", O_RDONLY); /* would be inherited */
	(void)state;
	assert_true(other > 2);
	/* ls has one more, of the folder. */
	run(&said, (struct kh_child_spec){ .input = -1 }, "ls /proc/self/fd | wc -l", 100);
	assert_int_equal(strtol(kh_buf_cstr(&said.out), NULL, 10), 4);
	done(&said);
	run(&said,
	    (struct kh_child_spec){ .input = -1, .prepare = give_a_descriptor, .arg = &other },
	    "test -e /proc/self/fd/5", 100);
	assert_true(said.ok);
	done(&said);
	run(&said, (struct kh_child_spec){ .input = -1, .prepare = refuse }, "echo started", 100);
	assert_int_equal(said.result.status, 127);
	says(&said.out, "");
	done(&said);
	close(other);
}

static void its_input_folder_and_environment_are_what_is_said(void **state)
{
	static char one[] = "ONE=1";
	char *const environment[] = { one, NULL };
	struct said said;
	int in[2];
	(void)state;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(write(in[1], "line\n", 5), 5);
	close(in[1]);
	run(&said,
	    (struct kh_child_spec){ .input = in[0], .folder = "/", .environment = environment },
	    "read l; echo \"$l $ONE $HOME\"; pwd", 100);
	says(&said.out, "line 1 \n/\n");
	done(&said);
	close(in[0]);
}

static bool fail_well(void *arg, struct kh_err *err)
{
	return arg ? kh_err_set(err, KH_ERR_SYSTEM, "for %s", (const char *)arg) : true;
}

static bool die(void *arg, struct kh_err *err)
{
	(void)arg;
	(void)err;
	(void)raise(SIGKILL);
	return true;
}

static void a_trial_tells_why_it_failed(void **state)
{
	static char why[] = "a reason";
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	assert_true(kh_child_try(fail_well, NULL, &err));
	assert_false(kh_child_try(fail_well, why, &err));
	assert_string_equal(err.text, "for a reason");
	assert_false(kh_child_try(fail_well, why, NULL));
	assert_false(kh_child_try(die, NULL, &err));
	assert_string_equal(err.text, "the trial was ended");
}

static bool hang(void *arg, struct kh_err *err)
{
	(void)err;
	const int *fd = arg;
	pid_t own = fork(); /* in its group */
	if (own != 0 && write(*fd, &own, sizeof(own)) != (ssize_t)sizeof(own))
		return true;
	(void)sleep(PATIENCE_MS / 1000);
	return true;
}

/* Within patience; the descriptor is a pipe's that it holds. */
static void is_shut(int fd)
{
	struct pollfd p = { .fd = fd, .events = 0 };
	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
	assert_true(p.revents & POLLHUP);
}

static void a_trial_that_hangs_is_ended_with_its_group(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	int held[2];
	pid_t of_it;
	(void)state;
	assert_int_equal(pipe(held), 0);
	uint64_t began = kh_clock_mono_ms();
	assert_false(kh_child_try_within(hang, &held[1], 1000, &err));
	assert_in_range(kh_clock_mono_ms() - began, 1000, PATIENCE_MS);
	assert_non_null(strstr(err.text, "took longer than 1 seconds"));
	close(held[1]);
	assert_int_equal(read(held[0], &of_it, sizeof(of_it)), sizeof(of_it));
	is_shut(held[0]);
	close(held[0]);
}

/* Another identity, which takes the signal of the parent's death back. */
static bool hang_as_another(void *arg, struct kh_err *err)
{
	const int *fd = arg;
	(void)err;
	bool other = getuid() != 0 || setresuid(65534, 65534, 65534) == 0;
	if (write(*fd, other && kh_child_ends_with_parent() ? "y" : "n", 1) == 1)
		(void)sleep(PATIENCE_MS / 1000);
	return true;
}

static void a_trial_ends_with_who_tries(void **state)
{
	int held[2];
	char bound;
	(void)state;
	assert_int_equal(pipe(held), 0);
	pid_t parent = fork();
	if (parent == 0) {
		(void)kh_child_try_within(hang_as_another, &held[1], PATIENCE_MS, NULL);
		_exit(0);
	}
	close(held[1]);
	assert_int_equal(read(held[0], &bound, 1), 1);
	assert_int_equal(bound, 'y');
	uint64_t began = kh_clock_mono_ms();
	assert_int_equal(kill(parent, SIGKILL), 0);
	kh_child_wait(parent);
	is_shut(held[0]);
	assert_in_range(kh_clock_mono_ms() - began, 0, PATIENCE_MS / 2);
	close(held[0]);
}

static void leave_a_mark(void *arg)
{
	(void)!unlink(arg);
}

static void a_watcher_acts_when_nobody_holds_its_pipe_any_more(void **state)
{
	char path[] = "/tmp/keyhole-child-XXXXXX";
	int fd = mkstemp(path), alive = -1;
	pid_t pid = 0;
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_true(kh_child_watch(leave_a_mark, path, &pid, &alive, &err));
	assert_int_equal(access(path, F_OK), 0);
	close(alive);
	kh_child_wait(pid);
	assert_int_equal(access(path, F_OK), -1);
}

static bool bound_twice(void *arg)
{
	(void)arg;
	return kh_child_bound(64 << 20, 30) && kh_child_bound(128 << 20, 60);
}

static void a_bound_is_never_above_the_one_that_was_there(void **state)
{
	struct kh_child_result result;
	struct kh_buf said kh_cleanup(kh_buf_fini);
	char *const argv[] = { (char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
			       (char *)(uintptr_t) "ulimit -S -d; ulimit -H -d; ulimit -H -t",
			       NULL };
	const struct kh_child_spec spec = {
		.argv = argv, .input = -1, .prepare = bound_twice, .most_ms = PATIENCE_MS
	};

	(void)state;
	kh_buf_init(&said, 4096);
	assert_true(kh_child_run(&spec, &said, NULL, &result));
	assert_string_equal(kh_buf_cstr(&said), "65536\n65536\n30\n");
}

static bool no_fork;

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
	if (!no_fork)
		return __real_fork();
	errno = EAGAIN;
	return -1;
}

static void a_watcher_that_can_not_be_started_leaves_nothing_open(void **state)
{
	char path[] = "/nowhere";
	int before = dup(STDIN_FILENO), alive = -1;
	pid_t pid = 0;
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	no_fork = true;
	bool started = kh_child_watch(leave_a_mark, path, &pid, &alive, &err);
	no_fork = false;
	assert_false(started);
	assert_int_equal(alive, -1);
	assert_int_equal(pid, 0);
	int after = dup(STDIN_FILENO);
	assert_int_equal(after, before + 1);
	close(after);
	close(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_says_comes_in_one_buffer_in_two_or_not),
		cmocka_unit_test(its_end_is_told_apart),
		cmocka_unit_test(one_that_does_not_end_is_ended_with_its_group),
		cmocka_unit_test(what_it_leaves_behind_with_the_pipe_is_not_waited_for),
		cmocka_unit_test(what_has_no_room_is_left_out_or_ends_it),
		cmocka_unit_test(it_is_ended_when_nobody_wants_it_any_more),
		cmocka_unit_test(it_has_three_descriptors_and_what_is_prepared),
		cmocka_unit_test(its_input_folder_and_environment_are_what_is_said),
		cmocka_unit_test(a_bound_is_never_above_the_one_that_was_there),
		cmocka_unit_test(a_trial_tells_why_it_failed),
		cmocka_unit_test(a_trial_that_hangs_is_ended_with_its_group),
		cmocka_unit_test(a_trial_ends_with_who_tries),
		cmocka_unit_test(a_watcher_that_can_not_be_started_leaves_nothing_open),
		cmocka_unit_test(a_watcher_acts_when_nobody_holds_its_pipe_any_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
