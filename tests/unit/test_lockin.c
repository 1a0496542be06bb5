/* test_lockin.c - what a worker that was taken over tries next is refused by the kernel */
#include "lockin_descriptors.h"
#include "lockin_kernel.h"
#include "lockin_names.h"

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
	{ "fstat with a path", try_stat_by_name },
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
	{ "sending a descriptor", try_send_descriptor },
	{ "sendmsg without one", try_send_plain_message },
	{ "sendmmsg", try_sendmmsg },
	{ "sending a descriptor to the keeper", try_send_by_channel },
	{ "receiving a descriptor", try_receive_descriptor },
	{ "connecting a socket that was passed in", try_connect_what_was_passed },
	{ "recvmmsg", try_recvmmsg },
	{ "receiving by a wide number", try_receive_by_wide_number },
	{ "closing the channel", try_close_channel },
	{ "closing it by a wide number", try_close_channel_by_wide_number },
	{ "closing it in a range", try_close_channel_in_a_range },
	{ "dup2 onto the channel", try_dup2_onto_channel },
	{ "dup3 onto the channel", try_dup3_onto_channel },
	{ "F_DUPFD onto the channel", try_fcntl_onto_channel },
	{ "clearing O_APPEND", try_no_append },
	{ "pwrite", try_pwrite },
	{ "pwritev", try_pwritev },
	{ "pwritev2", try_pwritev2 },
	{ "ftruncate", try_ftruncate },
	{ "a hole in the journal", try_punch_hole },
	{ "copy_file_range", try_copy_file_range },
	{ "sendfile", try_sendfile },
	{ "splice", try_splice },
	{ "a shared mapping of the journal", try_shared_mapping },
	{ "unlocking the journal", try_unlock },
	{ "shutdown of a listener", try_shutdown_listener },
	{ "shutdown of its reading side", try_shutdown_reading },
	{ "SO_REUSEADDR of a listener", try_hold_a_port },
	{ "an option of a listener that stays", try_lasting_option },
	{ "making a listener block", try_make_it_block },
	{ "an MPTCP socket", try_mptcp },
	{ "a ping socket", try_ping },
	{ "a UDP-Lite socket", try_udplite },
	{ "a socket of an odd type", try_odd_type },
	{ "SIGKILL to itself", try_own_sigkill },
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
	static int (*const plain[])(void) = { try_stat_by_name,
					      try_open,
					      try_openat,
					      try_openat2,
					      try_fork,
					      try_kill,
					      try_unix,
					      try_statx,
					      try_mmap_exec,
					      try_mprotect_exec,
					      try_bind,
					      try_netlink,
					      try_readlink,
					      try_memfd,
					      try_own_environ,
					      try_process_vm_readv,
					      try_dumpable,
					      try_send_descriptor,
					      try_sendmmsg,
					      try_send_by_channel,
					      try_connect_what_was_passed,
					      try_close_channel,
					      try_close_channel_by_wide_number,
					      try_dup2_onto_channel,
					      try_no_append,
					      try_pwrite,
					      try_pwritev,
					      try_ftruncate,
					      try_punch_hole,
					      try_shutdown_listener,
					      try_hold_a_port,
					      try_unlock };
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

/* --- what still works ------------------------------------------------------------------------- */

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_lockin_they_succeed),
		cmocka_unit_test(what_a_worker_of_root_tries_is_refused),
		cmocka_unit_test(what_a_worker_of_a_user_tries_is_refused),
		cmocka_unit_test(landlock_alone_refuses_names_and_signals),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
