/* store_tool.c - runs one command of a container program and waits for it */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/slice.h>

#include "store.h"

enum { SAID_BYTES = 2048 };

static bool complain(const char *name, struct kh_slice text, struct kh_err *err)
{
	while (text.len > 0 && text.ptr[text.len - 1] == '\n')
		text.len--;
	const char *line = text.len > 0 ? kh_esc(text) : "failed, and does not say why";
	if (strstr(line, "annot connect to the Docker daemon") ||
	    strstr(line, "ermission denied while trying to connect"))
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "the sandbox: no daemon of %s's answers (start it: `systemctl "
				  "start docker`; be in its group: `usermod -aG docker USER`): %s",
				  name, line);
	return kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s: %s", name, line);
}

/* One of those that `keyhole run` holds back until there is somebody to forward them to. Whoever
 * holds back all of them (the watcher) is not to be interrupted. */
static bool is_interrupted(void *arg)
{
	(void)arg;
	static const int ending[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	sigset_t pending, blocked;
	bool found = false;
	sigemptyset(&pending);
	(void)sigpending(&pending);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		struct sigaction action;
		found = found ||
			(sigismember(&pending, ending[i]) == 1 &&
			 sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN);
	}
	return found && sigprocmask(SIG_SETMASK, NULL, &blocked) == 0 &&
	       sigismember(&blocked, SIGUSR1) == 0;
}

bool kh_store_tool(char *const *argv, int input, uint64_t most_ms, struct kh_buf *out,
		   struct kh_err *err)
{
	const struct kh_child_spec spec = {
		.argv = argv,
		.input = input,
		.complaints = KH_CHILD_APART,
		.is_over = is_interrupted,
		.most_ms = most_ms,
	};
	const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
	struct kh_buf said kh_cleanup(kh_buf_fini);
	struct kh_child_result result;
	char text[KH_VALUE_BYTES];
	kh_buf_init(&said, SAID_BYTES);
	(void)kh_child_run(&spec, out, &said, &result);
	switch (result.end) {
	case KH_CHILD_NOT_STARTED:
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "starting %s", name);
	case KH_CHILD_OVER:
		return kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: was interrupted");
	case KH_CHILD_LATE:
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "the sandbox: %s has not answered in %s and was ended (does "
				  "its daemon hang? `systemctl restart %s`)",
				  name, kh_value_show_duration(most_ms, text), name);
	case KH_CHILD_FULL:
	case KH_CHILD_ENDED:
		break;
	}
	if (result.status != 0)
		return complain(name, kh_buf_view(&said), err);
	return !result.cut ||
	       kh_err_set(err, KH_ERR_SYSTEM, "the sandbox: %s said too much", argv[0]);
}
