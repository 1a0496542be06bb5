/*
 * orphans.c - children of the keeper that do not end
 *
 * The keeper kills a command at its timeout. It may not kill one that has become another user (a
 * set-ID program such as sudo), and a killed one does not end while it waits for a disk or a file
 * server that hangs. The keeper can't wait for these without bound, since it has to sign leaves and
 * reload meanwhile. So they are left alone: nobody reads their output, and they are reaped when
 * they end.
 */

#include "job_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>

enum { STEP_MS = 10 };

struct orphan {
	struct orphan *next;
	pid_t pid;
	uint64_t command; /* 0: it was killed, and counts for none */
};

/* The process's, as its children are: a reload makes another vault. */
static struct orphan *orphans;

void kh_orphans_add(pid_t pid, uint64_t command)
{
	struct orphan *orphan = calloc(1, sizeof(*orphan));
	/* Without memory it is reaped by whoever adopts it. */
	if (!orphan)
		return;
	*orphan = (struct orphan){ orphans, pid, command };
	orphans = orphan;
}

void kh_orphans_reap(void)
{
	for (struct orphan **at = &orphans; *at;) {
		struct orphan *orphan = *at;
		pid_t pid = waitpid(orphan->pid, NULL, WNOHANG);
		if (pid == 0 || (pid < 0 && errno == EINTR)) {
			at = &orphan->next;
			continue;
		}
		*at = orphan->next;
		free(orphan);
	}
}

unsigned kh_orphans_of(uint64_t command)
{
	unsigned n = 0;
	for (const struct orphan *orphan = orphans; orphan; orphan = orphan->next)
		n += orphan->command == command;
	return n;
}

void kh_orphans_finish(void)
{
	kh_orphans_reap();
	for (int ms = 0; orphans && ms < KH_LIMIT_COMMANDS_LEFT_END_MS; ms += STEP_MS) {
		(void)poll(NULL, 0, STEP_MS);
		kh_orphans_reap();
	}
	while (orphans) {
		struct orphan *orphan = orphans;
		orphans = orphan->next;
		free(orphan);
	}
}
