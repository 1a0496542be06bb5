/* launch_signals.c - which signals the launcher hears while a sandbox runs */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "launch_internal.h"

const int kh_launch_forwarded[KH_LAUNCH_FORWARDED] = { SIGHUP,	SIGINT,	 SIGQUIT, SIGTERM,
						       SIGUSR1, SIGUSR2, SIGALRM, SIGCONT };

bool kh_launch_watch_signals(struct kh_running *r, sigset_t *before, struct kh_err *err)
{
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < KH_LAUNCH_FORWARDED; i++) {
		struct sigaction action;
		/* nohup and a shell's `&` mean what they say; a signalfd would see it all the same.
		 */
		if (sigaction(kh_launch_forwarded[i], NULL, &action) == 0 &&
		    action.sa_handler != SIG_IGN)
			sigaddset(&set, kh_launch_forwarded[i]);
	}
	sigaddset(&set, SIGWINCH);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGCONT); /* also ignored it tells that this was stopped */
	sigset_t blocked = set;
	/* Else restoring the terminal from the background would stop us. */
	sigaddset(&blocked, SIGTTOU);
	if (sigprocmask(SIG_BLOCK, &blocked, before) != 0 ||
	    (r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "signals");
	return true;
}
