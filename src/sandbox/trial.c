/*
 * trial.c - does an engine work on this host? Tried by making a sandbox with it
 *
 * The sandbox of a trial is complete: the host view, the filter, keyhole-init and everything that
 * it does before a command runs. Only the proxy is missing, since the command makes no requests. So
 * a run has the same result as the trial.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/slice.h>

#include "sandbox_internal.h"

static char shell[] = "/bin/sh", dash_c[] = "-c", nothing[] = ":";
static char *const command[] = { shell, dash_c, nothing, NULL };

/* `ended` is a signal of ours that came in the middle of it: that says nothing of the engine. */
static bool try_with(const struct kh_engine *engine, const char *folder, int *ended,
		     struct kh_err *err)
{
	struct kh_sandbox_spec spec = {
		.engine = engine->name,
		.socket_dir = folder,
		.host_uid = (uid_t)-1,
		.host_gid = (gid_t)-1,
		.argv = command,
		.no_stdio = true,
	};
	int status = -1;
	struct kh_err said = KH_ERR_INIT;
	if (!kh_sandbox_run_with(&spec, engine, &status, NULL, &said)) {
		*err = said;
		return false;
	}
	*ended = status > 128 && status != 128 + SIGKILL ? status - 128 : 0;
	return status == 0 ||
	       kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: a shell in it ended with %d%s%s",
			  status, said.code == KH_ERR_NONE ? "" : ": ", said.text);
}

static bool try_engine(const struct kh_engine *engine, int *ended, struct kh_err *err)
{
	*ended = 0;
	/* In the place of the folder of a proxy's socket; root's sandbox must be able to pass. */
	char folder[] = "/tmp/keyhole-trial-XXXXXX";
	if (!mkdtemp(folder))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", folder);
	bool ok = chmod(folder, 0755) == 0 && try_with(engine, folder, ended, err);
	(void)rmdir(folder);
	return ok;
}

const char *kh_sandbox_engine(size_t i)
{
	const struct kh_engine *engine = kh_engine_at(i);
	return engine ? engine->name : NULL;
}

bool kh_sandbox_try(const char *name, struct kh_err *err)
{
	const struct kh_engine *engine = kh_engine_find(name, err);
	int ended;
	return engine && try_engine(engine, &ended, err);
}

static uint64_t now_ms(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/*
 * A trial takes as long as a start, and its answer may be old by the next one. So what is wanted is
 * started at once, and a trial is made where the command could not be. Only an engine that fails
 * its trial too gives way to a weaker one: what a workspace or an image holds, which anybody may
 * have written, must not choose how well it is isolated. Nor must a host that is busy: what took
 * the whole time that a start has says nothing of the engine.
 */
bool kh_sandbox_run_strongest(const struct kh_sandbox_spec *spec, int *status, struct kh_err *err)
{
	struct kh_err why = KH_ERR_INIT;
	const struct kh_engine *engine;
	const uint64_t most_ms = spec->start_ms ? spec->start_ms : KH_LIMIT_SANDBOX_START_MS;
	for (size_t i = 0; (engine = kh_engine_at(i)); i++) {
		int ended;
		bool started;
		if (engine->by_name_only)
			continue;
		uint64_t begun = now_ms();
		bool ran = kh_sandbox_run_with(spec, engine, status, &started, err);
		if (ran || started || now_ms() - begun >= most_ms)
			return ran;
		why = (struct kh_err)KH_ERR_INIT;
		begun = now_ms();
		if (try_engine(engine, &ended, &why))
			return false;
		if (now_ms() - begun >= KH_LIMIT_SANDBOX_START_MS) {
			*err = why;
			return false;
		}
		if (ended)
			return kh_err_set(err, KH_ERR_SYSTEM, "--engine auto: ended by signal %d",
					  ended);
		kh_log_debug("the sandbox: not %s: %s", engine->name, why.text);
		*err = (struct kh_err)KH_ERR_INIT;
	}
	/* The last one needs the least: what it lacks is what to see to. */
	*err = why;
	return kh_err_wrap(err, "no engine works here (the least that would do)");
}
