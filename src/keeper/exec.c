/*
 * exec.c - runs a command that prints a value: without a shell, without descriptors of the keeper
 *
 * It runs as the keeper's user, since what such commands read (a login, an agent's socket) belongs
 * to that user. It gets `kh_exec_variables`, if the keeper has them, and those that the
 * configuration names. Variables that were sources of credentials have been overwritten.
 *
 * Those that the configuration names are probably secrets (a token for a secret store), so they are
 * kept as secrets (variables.c). For the command they are written into hidden memory, which the
 * child shares with the keeper until exec; it is wiped when the job is over.
 */

#include "keeper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/program.h>
#include <keyhole/base/writable.h>
#include <keyhole/worker/worker.h>

const char *const kh_exec_variables[] = {
	"PATH",
	"HOME",
	"USER",
	"LOGNAME",
	"LANG",
	"LC_ALL",
	"TZ",
	"TMPDIR",
	"XDG_CONFIG_HOME",
	"XDG_DATA_HOME",
	"XDG_RUNTIME_DIR",
	"DBUS_SESSION_BUS_ADDRESS",
	"SSH_AUTH_SOCK",
	"GNUPGHOME",
	"SSL_CERT_FILE",
	"SSL_CERT_DIR",
	NULL,
};
enum { COMMON = sizeof(kh_exec_variables) / sizeof(kh_exec_variables[0]) - 1 };

/* What keyhole itself looks at, now and then. */
static const char *const own[] = {
	"KEYHOLE_PRESETS", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "LISTEN_PID",
	"LISTEN_FDS",	   "XDG_STATE_HOME",	    "TERM",
};

static bool is_among(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], name) == 0)
			return true;
	return false;
}

bool kh_exec_is_secret_variable(const char *text)
{
	return !strchr(text, '=') && !is_among(kh_exec_variables, COMMON, text) &&
	       !is_among(own, sizeof(own) / sizeof(*own), text);
}

/* "NAME=value" where it is in our own environment; NULL: it is not there. */
static char *find(const char *name)
{
	size_t len = strlen(name);
	for (char **entry = environ; entry && *entry; entry++)
		if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=')
			return *entry;
	return NULL;
}

static bool is_named(const struct kh_exec *exec, const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < exec->n_environment; i++)
		if (strncmp(exec->environment[i], name, len) == 0 &&
		    (exec->environment[i][len] == '=' || exec->environment[i][len] == '\0'))
			return true;
	return false;
}

struct variable {
	const char *name;
	struct kh_buf *out;
};

static bool put_variable(struct kh_slice value, void *arg)
{
	struct variable *v = arg;
	return kh_buf_append_str(v->out, v->name) && kh_buf_append_char(v->out, '=') &&
	       kh_buf_append_slice(v->out, value) && kh_buf_append_char(v->out, '\0');
}

/* As kept, NULL: it is not, or it is a credential's own. */
static const struct kh_secret *kept(const struct kh_vault *vault, const char *text)
{
	if (strchr(text, '='))
		return NULL;
	for (size_t i = 0; i < vault->config->n_credentials; i++)
		if (kh_source_is_variable(&vault->config->credentials[i], text))
			return NULL;
	return kh_variables_find(vault, text);
}

/* Room for all of them at once: an entry is pointed at. */
static bool make_room(struct kh_job *job, const struct kh_vault *vault)
{
	size_t len = 0;
	for (size_t i = 0; i < job->exec->n_environment; i++) {
		const char *text = job->exec->environment[i];
		const struct kh_secret *secret = kept(vault, text);
		len += secret ? strlen(text) + kh_secret_len(secret) + 2 : 0;
	}
	kh_buf_fini(&job->environment);
	kh_buf_init_wiping(&job->environment, len);
	return len == 0 || kh_buf_reserve(&job->environment, len) != NULL;
}

static char *entry_of(struct kh_job *job, const struct kh_vault *vault, char *text)
{
	const struct kh_secret *secret = kept(vault, text);
	if (!secret)
		return strchr(text, '=') ? text : find(text);
	struct variable v = { text, &job->environment };
	size_t at = kh_buf_len(&job->environment);
	if (!kh_secret_expose(secret, put_variable, &v))
		return NULL;
	return job->environment.data + job->environment.head + at;
}

/* Views of our own, and of the job's. Heap, the list alone; NULL without memory. */
static char **environment_of(struct kh_job *job, const struct kh_vault *vault)
{
	const struct kh_exec *exec = job->exec;
	size_t n = 0;
	char **list = calloc(COMMON + exec->n_environment + 1, sizeof(*list));
	if (!list || !make_room(job, vault)) {
		free(list);
		return NULL;
	}
	for (size_t i = 0; i < COMMON; i++) {
		const char *name = kh_exec_variables[i];
		char *entry = is_named(exec, name) ? NULL : find(name);
		if (entry)
			list[n++] = entry;
	}
	for (size_t i = 0; i < exec->n_environment; i++) {
		char *entry = entry_of(job, vault, exec->environment[i]);
		if (entry)
			list[n++] = entry;
	}
	return list;
}

static enum kh_exec_step refuse(struct kh_exec_report *report, const char *why)
{
	(void)snprintf(report->why, sizeof(report->why), "%s", why);
	return KH_EXEC_COVERING;
}

/* A name without a slash is looked for on PATH, but never where a sandbox may write; nor does the
 * program find others there. Return: what it failed at; `report` says why it must not be started.
 */
static enum kh_exec_step become(const struct kh_exec *exec, char **environment,
				struct kh_exec_report *report)
{
	struct kh_err err = KH_ERR_INIT;
	if (!kh_writable_refresh(NULL))
		return refuse(
			report,
			"was not started: keyhole can't tell where the agents of other live runs "
			"write (end these runs; what they left is in the folder names/ of "
			"keyhole's "
			"state)");
	kh_auto_free char *found =
		strchr(exec->argv[0], '/') ? NULL : kh_program_find(exec->argv[0]);
	if (!found && !strchr(exec->argv[0], '/'))
		return KH_EXEC_FINDING;
	kh_auto_free char **cut = kh_program_environment(environment);
	const char *program = found ? found : exec->argv[0];
	struct kh_exec_cover cover;
	if (!cut)
		return KH_EXEC_PREPARING;
	if (access(program, X_OK) != 0)
		return KH_EXEC_PROGRAM;
	if (!kh_exec_cover(program, exec->argv, &cover, &err))
		return refuse(report, err.text);
	kh_spawn_restore_descriptors();
	if (cover.program)
		(void)execve(cover.program, (char **)(uintptr_t)cover.argv, cut);
	else
		(void)execvpe(program, exec->argv, cut);
	return cover.program ? KH_EXEC_COVER : KH_EXEC_PROGRAM;
}

__attribute__((noreturn)) static void child(const struct kh_exec *exec, char **environment, int out,
					    int complaint, pid_t keeper,
					    struct kh_exec_report *report)
{
	enum kh_exec_step step = KH_EXEC_PREPARING;
	(void)setsid();
	errno = 0;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == keeper &&
	    dup2(out, STDOUT_FILENO) >= 0 && dup2(complaint, STDERR_FILENO) >= 0 &&
	    kh_spawn_bare(-1) && chdir("/") == 0) {
		(void)signal(SIGUSR2, SIG_DFL);
		step = become(exec, environment, report);
	}
	report->sys = errno;
	report->step = step;
	_exit(1);
}

static struct kh_exec_report *new_report(struct kh_err *err)
{
	void *page = mmap(NULL, sizeof(struct kh_exec_report), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page != MAP_FAILED)
		return page;
	kh_err_sys(err, KH_ERR_SYSTEM, errno, "a page");
	return NULL;
}

void kh_exec_report_free(struct kh_exec_report *report)
{
	if (report)
		(void)munmap(report, sizeof(*report));
}

bool kh_exec_start(const struct kh_vault *vault, struct kh_job *job, struct kh_err *err)
{
	int out[2], complaint[2];
	if (pipe2(out, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	kh_auto_close int out_end = out[1];
	job->out = out[0];
	if (pipe2(complaint, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	kh_auto_close int complaint_end = complaint[1];
	job->complaint = complaint[0];
	if (!kh_file_set_nonblock(job->out, true) || !kh_file_set_nonblock(job->complaint, true))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	/* argv ends in NULL. */
	char **argv = calloc(job->exec->n_argv + 1, sizeof(*argv));
	kh_auto_free char **mine = argv;
	kh_auto_free char **environment = environment_of(job, vault);
	if (!argv || !environment)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	memcpy(argv, job->exec->argv, job->exec->n_argv * sizeof(*argv));
	struct kh_exec ended = *job->exec;
	ended.argv = mine;
	job->report = new_report(err);
	if (!job->report)
		return false;
	pid_t keeper = getpid();
	job->pid = fork();
	if (job->pid == 0)
		child(&ended, environment, out_end, complaint_end, keeper, job->report);
	return job->pid > 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "fork");
}
