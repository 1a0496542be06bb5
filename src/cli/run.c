/*
 * run.c - `keyhole run`: a private daemon, a sandbox over its socket, and a clean end
 *
 * The keeper is forked before anything slow, so that it opens its CA and starts its worker while
 * the launcher asks git for the committer. When it is ready it sends what the sandbox needs (CA,
 * placeholders); the launcher then wipes the keys from its own environment and goes on. The command
 * starts only after the worker serves. At the end the keeper is told to stop, which closes the
 * journal, and everything that the run made is removed. A signal does not prevent this: signals are
 * passed to the command, and the launcher ends only after the command.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/log.h>
#include <keyhole/sandbox/workspace.h>

#include "run_internal.h"

enum {
	READY_MS = 60 * 1000,
	STOP_MS = 5 * 1000, /* the keeper drains for two at most */
};

struct run {
	struct kh_run_options options;
	struct kh_run_folder folder;
	struct kh_run_image image;
	struct kh_run_review review;
	struct kh_config *config;
	char **forbidden;
	struct kh_run_attach attach;
	struct kh_run_git git;
	struct kh_ready ready;
	struct kh_run_summary summary;
	pid_t keeper;
	int ready_fd;
	bool serves;	  /* the worker does: the command may start */
	const char *lost; /* what had ended before the command did; NULL: nothing */
	sigset_t mask;
	char *state, *user_state, *cache; /* keyhole's own folders; NULL: none */
};

/* ---- the keeper ---- */

static _Noreturn void become_keeper(struct run *run, int ready_fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* Neither the command's input nor its output is the daemon's to hold. */
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		_exit(KH_EXIT_KEYHOLE);
	int names = kh_run_names_held();
	if (names >= 0)
		names = fcntl(names, F_DUPFD_CLOEXEC, STDERR_FILENO + 4);
	if (ready_fd != STDERR_FILENO + 1) {
		(void)dup2(ready_fd, STDERR_FILENO + 1);
		ready_fd = STDERR_FILENO + 1;
	}
	(void)kh_file_set_cloexec(ready_fd, true);
	/* The same pipe says first that the keeper is ready, then that the worker serves. */
	int serving_fd = dup3(ready_fd, ready_fd + 1, O_CLOEXEC);
	if (serving_fd < 0)
		_exit(KH_EXIT_KEYHOLE);
	/* What the keeper uses no other agent may exchange, also if the launcher is killed. */
	int last = serving_fd;
	if (names >= 0)
		last = dup3(names, serving_fd + 1, O_CLOEXEC);
	if (last < 0 || (names < 0 && kh_run_names_held() >= 0))
		_exit(KH_EXIT_KEYHOLE);
	(void)syscall(SYS_close_range, (unsigned)last + 1, ~0u, 0u);
	(void)sigprocmask(SIG_SETMASK, &run->mask, NULL);
	struct kh_keeper_options options = {
		.config = run->config,
		.ready_fd = ready_fd,
		.serving_fd = serving_fd,
		.one_run = true,
		.socket_uid = geteuid() == 0 ? KH_SANDBOX_HOST_UID : (uid_t)-1,
		.socket_gid = geteuid() == 0 ? KH_SANDBOX_HOST_GID : (gid_t)-1,
	};
	_exit(kh_keeper_run(&options));
}

static bool start_keeper(struct run *run, struct kh_err *err)
{
	int ready[2];
	if (pipe2(ready, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	run->keeper = fork();
	if (run->keeper == 0)
		become_keeper(run, ready[1]);
	close(ready[1]);
	run->ready_fd = ready[0];
	return run->keeper > 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "starting the proxy");
}

static bool await_ready(struct run *run, struct kh_err *err)
{
	if (!kh_ready_read(run->ready_fd, &run->ready, READY_MS, err))
		return false;
	return run->ready.ok || kh_err_set(err, KH_ERR_CONFIG, "%s", run->ready.error);
}

/* A worker that can't start has said why. */
static bool await_serving(struct run *run, struct kh_err *err)
{
	run->serves = kh_ready_await_serving(run->ready_fd, READY_MS, err);
	return run->serves || kh_err_wrap(err, "the command was not started");
}

/* Drained and gone, or killed. */
static void stop_keeper(struct run *run)
{
	if (run->keeper <= 0)
		return;
	kh_auto_close int ended = (int)syscall(SYS_pidfd_open, run->keeper, 0);
	struct pollfd p = { .fd = ended, .events = POLLIN };
	if (run->serves && poll(&p, 1, 0) > 0)
		run->lost = "the proxy ended";
	(void)kill(run->keeper, SIGTERM);
	if (ended < 0 || poll(&p, 1, STOP_MS) <= 0)
		(void)kill(run->keeper, SIGKILL);
	while (waitpid(run->keeper, NULL, 0) < 0 && errno == EINTR)
		;
	run->keeper = -1;
}

/* ---- the sandbox ---- */

/* A terminal on both sides, and ours to read from: a job in the background has none. */
static bool has_terminal(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
	       tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* Without a home there is none, and nothing in it. */
static bool find_state(struct run *run, struct kh_err *err)
{
	struct kh_err homeless = KH_ERR_INIT, uncached = KH_ERR_INIT;
	kh_auto_free char *base = kh_file_state_home(&homeless);
	run->state = kh_workspace_state();
	run->user_state = base ? kh_strf("%s/keyhole", base) : NULL;
	run->cache = kh_image_cache(&uncached);
	return ((run->user_state || (!base && homeless.code == KH_ERR_USAGE)) &&
		(run->cache || uncached.code == KH_ERR_USAGE)) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
}

/* What is known before the proxy is ready. */
static struct kh_sandbox_spec spec_of(const struct run *run)
{
	const struct kh_run_options *o = &run->options;
	size_t n_forbidden = 0;
	while (run->forbidden && run->forbidden[n_forbidden])
		n_forbidden++;
	return (struct kh_sandbox_spec){
		.engine = o->engine,
		.rootfs = run->image.is_open ? run->image.image.root : o->rootfs,
		.layer = run->image.is_open || o->layer,
		.root_env = run->image.image.config.env,
		.n_root_env = run->image.image.config.n_env,
		.directory = run->image.image.config.directory,
		.image = o->image,
		.entrypoint = o->entrypoint,
		.workspace = o->workspace,
		.workspace_read_only = o->workspace_read_only,
		.mask_env_files = o->mask_env,
		.home = o->home,
		.workspace_held = o->workspace ? &o->workspace_held : NULL,
		.home_held = o->home ? &o->home_held : NULL,
		.read_only = (const char *const *)o->read_only,
		.n_read_only = o->n_read_only,
		.path = (const char *const *)o->path,
		.n_path = o->n_path,
		.links = o->links,
		.n_links = o->n_links,
		.env = o->env,
		.n_env = o->n_env,
		.state = run->state,
		.user_state = run->user_state,
		.cache = run->cache,
		.forbidden_paths = (const char *const *)run->forbidden,
		.n_forbidden = n_forbidden,
		.host_uid = (uid_t)-1,
		.host_gid = (gid_t)-1,
		.ports = o->ports,
		.n_ports = o->n_ports,
		.capture_range = o->capture_range,
		.limits = o->limits,
		.publish = o->publish,
		.n_publish = o->n_publish,
		.argv = run->image.is_open ? run->image.argv : o->command,
		.tty = has_terminal(),
		.holds_log = true,
	};
}

static bool run_sandbox(struct run *run, int *status, struct kh_err *err)
{
	struct kh_env_var *placeholders =
		calloc(run->ready.n_placeholders + 1, sizeof(*placeholders));
	if (!placeholders)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	for (size_t i = 0; i < run->ready.n_placeholders; i++)
		placeholders[i] = (struct kh_env_var){ run->ready.placeholders[i].env_name,
						       run->ready.placeholders[i].value };
	size_t n_files;
	struct kh_home_file *files;
	if (!kh_run_home_files(&run->options, run->config, &run->ready, &files, &n_files, err)) {
		free(placeholders);
		return false;
	}
	kh_auto_free char *git_settings = kh_run_git_hosts(run->config, &run->ready);
	struct kh_sandbox_spec spec = spec_of(run);
	spec.review = run->review.is_open ? &run->review.mount : NULL;
	spec.home_files = files;
	spec.n_home_files = n_files;
	spec.placeholders = placeholders;
	spec.n_placeholders = run->ready.n_placeholders;
	spec.git_name = run->git.name;
	spec.git_email = run->git.email;
	spec.git_settings = git_settings;
	spec.ca_pem = run->ready.ca_pem;
	spec.socket_dir = run->attach.folder ? run->attach.folder : run->folder.socket_dir;
	spec.socket_dir_judged = run->attach.folder ? &run->attach.held : NULL;
	bool ok = kh_sandbox_run(&spec, status, err);
	kh_run_home_free(files, n_files);
	free(placeholders);
	return ok;
}

/* ---- signals before there is anybody to forward them to ---- */

static const int ending[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };

static void hold_signals(struct run *run)
{
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		sigaddset(&set, ending[i]);
	(void)sigprocmask(SIG_BLOCK, &set, &run->mask);
	/* Ignored by the caller, it would take our children's status with it. */
	(void)signal(SIGCHLD, SIG_DFL);
}

/* Which one has come meanwhile; 0: none. */
static int held_signal(void)
{
	sigset_t pending;
	sigemptyset(&pending);
	(void)sigpending(&pending);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		struct sigaction action;
		if (sigismember(&pending, ending[i]) == 1 &&
		    sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			return ending[i];
	}
	return 0;
}

/* All is done: what is still to be said may be waited for, and whoever waits may be ended. What has
 * come so far was for the command. */
static void let_signals_end(const struct run *run)
{
	sigset_t set;
	const struct timespec now = { 0 };
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		sigaddset(&set, ending[i]);
	while (sigtimedwait(&set, NULL, &now) > 0 || errno == EINTR)
		;
	(void)sigprocmask(SIG_SETMASK, &run->mask, NULL);
}

/* ---- the whole ---- */

static bool is_over(void *arg)
{
	(void)arg;
	return held_signal() != 0;
}

/* Return: true when the command was reached. */
static bool go(struct run *run, int *status, struct kh_err *err)
{
	const struct kh_sandbox_spec given = spec_of(run);
	/* A folder that no sandbox gets is no place where one writes. */
	if (!kh_sandbox_check_folders(&given, err))
		return false;
	if (!kh_run_names_check(&run->options, is_over, err)) {
		*status = 128 + held_signal();
		return *status != 128;
	}
	if (!kh_run_links_check(&run->options, err))
		return false;
	if (!kh_run_image_open(&run->options, is_over, &run->image, err)) {
		*status = 128 + held_signal();
		return *status != 128;
	}
	if (!kh_run_folder_make(&run->folder, err))
		return false;
	if (!kh_run_program_show(&run->options, err))
		return false;
	kh_run_agent_say(&run->options);
	run->config = kh_run_config(&run->options, &run->folder, &run->forbidden, &run->attach);
	if (!run->config) { /* it has said why */
		*status = 128 + held_signal();
		return *status != 128;
	}
	if (!run->attach.socket)
		kh_run_agent_check(&run->options, run->config);
	if (!kh_run_env_check(&run->options, run->config, err))
		return false;
	/* A configuration whose files the sandbox would see has none of its commands run. */
	if (!find_state(run, err))
		return false;
	const struct kh_sandbox_spec spec = spec_of(run);
	if (!kh_sandbox_check_seen(&spec, err))
		return false;
	kh_run_summary_note(&run->summary, run->config);
	if (!run->attach.socket) {
		kh_run_summary_begin(&run->summary, run->config->audit_path);
		if (!start_keeper(run, err))
			return false;
	}
	kh_run_wipe_environment(run->config);
	kh_run_git_ask(&run->git);
	if (run->attach.socket
		    ? !kh_run_attach(&run->attach, run->config, run->folder.id, &run->ready, err)
		    : !await_ready(run, err))
		return false;
	if (run->attach.socket && run->ready.audit_path) {
		kh_run_summary_begin(&run->summary, run->ready.audit_path);
		run->summary.sandbox = strdup(run->folder.id);
		if (!run->summary.sandbox)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	}
	kh_run_git_answer(&run->git);
	kh_run_ask_say(&run->options, &run->folder);
	int signo = held_signal();
	if (signo) {
		*status = 128 + signo;
		return true;
	}
	if (!run->attach.socket && !await_serving(run, err)) {
		*status = 128 + held_signal();
		return *status != 128;
	}
	if (!kh_run_review_open(&run->review, &run->options, err))
		return false;
	/* One that is still held back has interrupted what goes before a sandbox. */
	if (run_sandbox(run, status, err))
		return true;
	*status = 128 + held_signal();
	return *status != 128;
}

static void detach(struct run *run)
{
	if (!run->attach.socket)
		return;
	if (!kh_run_detach(&run->attach))
		run->lost = "the daemon ended, or removed this sandbox,";
	run->summary.counted = run->attach.counted;
	run->summary.calls = run->attach.calls;
	run->summary.denials = run->attach.denials;
	if (!run->attach.counted)
		free(kh_steal_ptr(&run->summary.path));
	kh_run_attach_fini(&run->attach);
}

static void clean_up(struct run *run)
{
	stop_keeper(run);
	kh_run_names_end();
	detach(run);
	kh_run_review_end(&run->review, run->options.quiet);
	kh_run_git_fini(&run->git);
	kh_run_image_fini(&run->image);
	kh_run_folder_remove(&run->folder);
	if (run->ready_fd >= 0)
		close(run->ready_fd);
	kh_run_summary_hide(&run->summary, &run->ready);
	kh_ready_fini(&run->ready);
	kh_run_forbidden_free(run->forbidden);
	free(run->state);
	free(run->user_state);
	free(run->cache);
}

/* A command that could reach nothing any more may have ended as if all were well. */
static void say_lost(const struct run *run, int *status)
{
	kh_cli_complain("%s before the command did; since then it could reach nothing", run->lost);
	if (*status == 0)
		*status = KH_EXIT_KEYHOLE;
}

int kh_cli_run(int argc, char **argv)
{
	struct run run = {
		.keeper = -1, .ready_fd = -1, .folder = { .lock = -1 }, .attach = { .held = -1 }
	};
	run.image.image.lock = -1;
	run.review.review.lock = run.review.review.top = -1;
	run.git = (struct kh_run_git){ .name = NULL };
	int status = KH_EXIT_KEYHOLE;
	struct kh_err err = KH_ERR_INIT;
	enum kh_run_parsed parsed = kh_run_options_parse(&run.options, argc, argv);
	bool reached = false;
	if (parsed == KH_RUN_GO) {
		hold_signals(&run);
		reached = go(&run, &status, &err);
		if (!reached)
			status = KH_EXIT_KEYHOLE;
		clean_up(&run);
		let_signals_end(&run);
		kh_log_release_all();
		if (err.code != KH_ERR_NONE)
			kh_run_hint(&run.options, &run.image, status, &err);
		if (err.code != KH_ERR_NONE)
			kh_cli_complain_err(&err);
		if (reached && run.lost)
			say_lost(&run, &status);
		if (reached && !run.options.quiet)
			kh_run_hint_workspace(&run.options, status);
		if (reached && !run.options.quiet)
			kh_run_summary_print(&run.summary);
	}
	kh_run_summary_fini(&run.summary);
	kh_config_free(run.config);
	kh_run_options_fini(&run.options);
	return parsed == KH_RUN_HELPED ? 0 : status;
}
