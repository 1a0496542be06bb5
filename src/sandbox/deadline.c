/* deadline.c - a deadline for work whose amount an agent determines */
#include <signal.h>
#include <stddef.h>

#include <keyhole/base/clock.h>

#include "deadline.h"

enum { ASK_EVERY_MS = 20 };

static bool is_ended_by_signal(void)
{
	static const int ending[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	sigset_t pending;
	if (sigpending(&pending) != 0)
		return false;
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		struct sigaction action;
		/* nohup and a shell's `&` mean what they say. */
		if (sigismember(&pending, ending[i]) == 1 &&
		    sigaction(ending[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			return true;
	}
	return false;
}

void kh_deadline_start(struct kh_deadline *deadline, uint64_t ms, bool heeds_signals)
{
	*deadline = (struct kh_deadline){ .end_ms = kh_clock_mono_ms() + ms,
					  .heeds_signals = heeds_signals };
}

bool kh_deadline_passed(struct kh_deadline *deadline)
{
	if (!deadline || deadline->over)
		return deadline != NULL;
	uint64_t now = kh_clock_mono_ms();
	deadline->over = now >= deadline->end_ms;
	if (!deadline->heeds_signals || now < deadline->asked_ms + ASK_EVERY_MS)
		return deadline->over;
	deadline->asked_ms = now;
	deadline->signalled = is_ended_by_signal();
	deadline->over = deadline->over || deadline->signalled;
	return deadline->over;
}
