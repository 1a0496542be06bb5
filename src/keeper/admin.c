/*
 * admin.c - the keeper's side of the admin socket: facts for it, and requests from it
 *
 * The worker authenticates who asks, and may have been taken over. So only requests are possible
 * that do no more harm than such a worker can do by itself: a drain (it could stop serving anyway),
 * and a reload of the configuration file, at most ten times a second.
 */

#include "daemon_internal.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/worker_messages.h>

enum { VERB_EVERY_MS = 100 };

static void set(char **slot, char *text)
{
	free(*slot);
	*slot = text;
}

static char *copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

/* A fact that no memory is left for is not told. */
static void describe(struct kh_keeper *k)
{
	const struct kh_config *config = k->config;
	const char *path = config->n_files > 0 ? config->files[0] : NULL;
	char *whole = path ? realpath(path, NULL) : NULL;
	set(&k->facts.config_path, whole ? whole : copy(path));
	set(&k->facts.config_hash, copy(config->sha256));
	set(&k->facts.journal_path, copy(config->audit_path));
	k->facts.loaded_ms = kh_clock_wall_ms();
}

void kh_keeper_begin_facts(struct kh_keeper *k)
{
	k->facts.pid = (uint32_t)getpid();
	k->facts.started_ms = kh_clock_wall_ms();
	describe(k);
	k->worker_process.facts = &k->facts;
}

void kh_keeper_note_failed_reload(struct kh_keeper *k, const char *failure)
{
	k->facts.failed_reloads++;
	k->facts.failed_ms = kh_clock_wall_ms();
	set(&k->facts.failure, copy(failure));
	kh_worker_process_tell_facts(&k->worker_process);
}

void kh_keeper_note_reloads(struct kh_keeper *k, const struct kh_reload *reloads)
{
	k->facts.reloads += reloads->count;
	if (!reloads->another_failed) {
		k->facts.failed_ms = 0;
		set(&k->facts.failure, NULL);
	}
	describe(k);
	/* At once, so that whoever asked for the reload is told of the new values alone. */
	if (k->config->admin.n_acceptors > 0)
		kh_keeper_describe_credentials(k);
	kh_worker_process_tell_facts(&k->worker_process);
}

void kh_keeper_end_facts(struct kh_keeper *k)
{
	kh_admin_facts_fini(&k->facts);
}

static void answer(struct kh_keeper *k, bool ok, struct kh_slice text)
{
	k->worker_process.verb = 0;
	k->worker_process.verb_begun = false;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	size_t room = KH_LIMIT_CHANNEL_BYTES / 4;
	if (k->worker_process.state != KH_WORKER_PROCESS_STARTING &&
	    k->worker_process.state != KH_WORKER_PROCESS_SERVING &&
	    k->worker_process.state != KH_WORKER_PROCESS_DRAINING)
		return;
	if (kh_wire_put_u8(&body, ok) &&
	    kh_wire_put_bytes(&body, kh_slice_sub(text, 0, text.len < room ? text.len : room)))
		(void)kh_channel_send(&k->worker_process.channel, KH_WORKER_MSG_VERB_DONE,
				      k->worker_process.verb_ref, kh_buf_view(&body), NULL, 0,
				      NULL);
}

static void reload(struct kh_keeper *k)
{
	bool begun = false;
	kh_buf_fini(&k->verb_said);
	kh_buf_init(&k->verb_said, KH_LIMIT_CHANNEL_BYTES / 4);
	if (kh_handover_is_under_way(&k->handover) || kh_handover_new_is_pending(&k->handover_new))
		(void)kh_buf_append_str(&k->verb_said,
					"a handover is under way: ask again when it is over\n");
	else
		begun = kh_keeper_reload(k, &k->verb_said);
	k->worker_process.verb_begun = begun;
	if (!begun)
		answer(k, false, kh_buf_view(&k->verb_said));
}

void kh_keeper_answer_reload(struct kh_keeper *k)
{
	if (k->worker_process.verb_begun)
		answer(k, true, kh_buf_view(&k->verb_said));
}

uint64_t kh_keeper_verb_deadline(const struct kh_keeper *k)
{
	return k->worker_process.verb && !k->worker_process.verb_begun ? k->verb_ms : 0;
}

void kh_keeper_on_verb(struct kh_keeper *k)
{
	enum kh_admin_verb verb = k->worker_process.verb;
	uint64_t now = kh_clock_mono_ms();
	if (!verb || k->worker_process.verb_begun || now < k->verb_ms)
		return;
	k->verb_ms = now + VERB_EVERY_MS;
	if (verb == KH_ADMIN_RELOAD) {
		reload(k);
		return;
	}
	/* As SIGTERM; but asking twice does not mean at once. */
	answer(k, true, k->drain_ms ? KH_SLICE("it drains already") : KH_SLICE("draining"));
	if (!k->drain_ms)
		kh_keeper_on_signal(k, SIGTERM);
}
