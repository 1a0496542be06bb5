/*
 * launch_child.c - in the launcher's child, between fork and exec of the engine's program
 *
 * It starts a session of its own (the terminal's Ctrl-C goes to the launcher, which passes it on).
 * If root started keyhole, it sets up the ID-mapped mounts and the unprivileged uid (idmap.c).
 * Standard input and output become /dev/null, standard error a pipe to the launcher. It closes all
 * other descriptors except those for the engine. The command's own standard descriptors are passed
 * to keyhole-init under other numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <unistd.h>

#include <keyhole/base/file.h>
#include <keyhole/base/program.h>
#include <keyhole/sandbox/init.h>

#include "outer_namespace_internal.h"
#include "sandbox_internal.h"

struct child {
	const struct kh_launch *launch;
	pid_t parent;
	int report, complaints, program;
};

/* To 3, 4, …: first all out of the way. What was there is of no use in this process any more but
 * for the pipe that reports and the program, which are moved as well. */
static bool number_descriptors(struct child *child, const struct kh_engine_command *command)
{
	int above = STDERR_FILENO + 1 + (int)command->n_fds;
	child->report = fcntl(child->report, F_DUPFD_CLOEXEC, above);
	child->program = fcntl(child->program, F_DUPFD_CLOEXEC, above);
	if (child->report < 0 || child->program < 0)
		return false;
	for (size_t i = 0; i < command->n_fds; i++)
		if ((command->fds[i] = fcntl(command->fds[i], F_DUPFD_CLOEXEC, above)) < 0)
			return false;
	for (size_t i = 0; i < command->n_fds; i++) {
		int number = STDERR_FILENO + 1 + (int)i;
		if (dup3(command->fds[i], number, O_CLOEXEC) != number)
			return false;
		command->fds[i] = number;
	}
	return true;
}

/* Nobody's, the terminal that the command is to have, or the uplink as the input. */
static bool set_own(const struct child *child)
{
	int slave = child->launch->pty_slave;
	kh_auto_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int given = slave >= 0 ? slave : null;
	for (int i = 0; i < 3; i++)
		if (dup2(given, i) != i)
			return false;
	int uplink = child->launch->uplink[1];
	return slave >= 0 || uplink < 0 || dup2(uplink, STDIN_FILENO) == STDIN_FILENO;
}

/* Standard input and output of the engine's program are nobody's. What it complains of is for
 * us. */
static bool set_standard(const struct child *child)
{
	if (child->launch->engine->own_kernel)
		return set_own(child) &&
		       kh_engine_command_fd(child->launch->command, child->complaints);
	kh_auto_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	return null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
	       dup2(child->complaints, STDERR_FILENO) >= 0;
}

static bool sort_descriptors(struct child *child, struct kh_err *err)
{
	if (!set_standard(child))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "standard descriptors");
	if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "closing descriptors");
	const struct kh_engine_command *command = child->launch->command;
	if (child->launch->engine->nested && !number_descriptors(child, command))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "its descriptors");
	for (size_t i = 0; i < command->n_fds; i++)
		if (!kh_file_set_cloexec(command->fds[i], false))
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "descriptor %d",
					  command->fds[i]);
	return true;
}

/* A session keyring of its own, so that the caller's is not inherited. It is made while this is
 * still root: a key counts for the uid that makes it, and an ordinary one may have 200 of them,
 * which would be the end of many sandboxes at once. Where none is to be had it goes on: what keeps
 * the command away from every keyring is the filter (seccomp.c). */
static void leave_keyring(const struct child *child)
{
	if (geteuid() == 0 || child->launch->engine->nested)
		(void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
}

static bool prepare_child(struct child *child, struct kh_err *err)
{
	if (setsid() < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a session");
	/* The caller's may be one that the sandbox's uid can't enter, where some programs end. */
	if (chdir("/") != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a folder to start in");
	/* Here the kernel says that the terminal has a new size, or that somebody typed Ctrl-C. */
	if (child->launch->pty_slave >= 0 && ioctl(child->launch->pty_slave, TIOCSCTTY, 0) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a terminal");
	leave_keyring(child);
	kh_core_limit();
	if (!child->launch->engine->limits_init && !kh_bounds_join(child->launch->limits, err))
		return false;
	if (child->launch->idmap && !kh_idmap_enter(child->launch->idmap, err))
		return false;
	/* Set after the uid, since a change of uid clears it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != child->parent)
		return kh_err_set(err, KH_ERR_SYSTEM, "the launcher is gone");
	bool terminal = child->launch->pty_slave >= 0;
	const struct kh_supervisor supervisor = {
		.command = child->launch->command,
		.control = terminal ? child->launch->control : -1,
		.uplink = child->launch->uplink[0],
		.folder = child->launch->socket_dir,
		.master = terminal ? child->launch->pty_master : -1,
		.donated = terminal ? child->launch->uplink[1] : -1,
		.complaints = terminal ? child->complaints : -1,
		.program = terminal ? child->program : -1,
	};
	if (child->launch->engine->nested &&
	    !kh_outer_namespace_enter(child->launch->command, child->launch->view, &supervisor,
				      err))
		return false;
	if (!sort_descriptors(child, err))
		return false;
	/* What we hold back for ourselves is not to be held back from the command. */
	sigset_t none;
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "signals");
	return true;
}

void kh_launch_child(const struct kh_launch *launch, pid_t parent, int report, int complaints)
{
	struct child made = { launch, parent, report, complaints, -1 }, *child = &made;
	static char *const no_environment[] = { NULL };
	struct kh_err err = KH_ERR_INIT;
	const struct kh_engine_command *command = child->launch->command;
	/* Its path may be covered by then (outer_namespace.c). A script can't be started so, and is
	 * by its path. */
	child->program = open(command->path, O_PATH | O_CLOEXEC);
	char **environment = kh_program_environment(command->environment ? command->environment
									 : no_environment);
	if (!environment)
		kh_err_set(&err, KH_ERR_NO_MEMORY, "its environment: no memory");
	else if (prepare_child(child, &err)) {
		(void)syscall(SYS_execveat, child->program, "", command->argv, environment,
			      AT_EMPTY_PATH);
		execve(command->path, command->argv, environment);
		kh_err_sys(&err, KH_ERR_SYSTEM, errno, "%s", command->path);
	}
	(void)!write(child->report, &err, sizeof(err));
	_exit(KH_INIT_FAILED);
}
