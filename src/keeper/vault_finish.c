/* vault_finish.c - waits, before the keeper ends, for refresh tokens that would be lost
 * otherwise */

#include "keeper_internal.h"

#include <poll.h>

#include <keyhole/base/log.h>

enum { STEP_MS = 100 };

/* Return: one is left, of those that may bring one. All others end here. */
static bool keep_rotations(struct kh_vault *vault)
{
	struct kh_node *next;
	bool left = false;
	if (!vault->slots || !vault->jobs.list.next)
		return false;
	for (struct kh_node *node = vault->jobs.list.next; node != &vault->jobs.list; node = next) {
		struct kh_job *job = kh_container_of(node, struct kh_job, link);
		next = node->next;
		left |= job->state != KH_JOB_WAITING && job->rotation;
		kh_jobs_disown(job);
	}
	return left;
}

static void take(struct kh_vault *vault)
{
	struct kh_job *job;
	while ((job = kh_jobs_turn(&vault->jobs, vault))) {
		struct kh_err err = KH_ERR_INIT;
		struct kh_token token;
		(void)kh_mint_took(vault->config, job, &token, &err);
		kh_secret_unref(token.secret);
		kh_job_free(job);
	}
}

void kh_vault_finish(struct kh_vault *vault, int signals, bool (*hurries)(void *arg), void *arg)
{
	if (!keep_rotations(vault))
		return;
	kh_log_info("waiting for a refresh token that is on its way");
	while (!kh_list_is_empty(&vault->jobs.list)) {
		struct pollfd fds[2] = { { .fd = vault->jobs.epoll, .events = POLLIN },
					 { .fd = signals, .events = POLLIN } };
		if (hurries(arg)) {
			kh_log_warn("a refresh token that was on its way is lost, if one was: the "
				    "grant may have to be given anew");
			return;
		}
		(void)poll(fds, 2, STEP_MS);
		take(vault);
	}
}
