/* worker_process.c - the running worker: its state in the keeper, and its messages */

/*
 * States: NONE → STARTING → SERVING → DRAINING → NONE, and from each of them CONDEMNED → NONE. Only
 * kh_worker_process_reap leads back to NONE: the keeper forgets a process only after it was reaped.
 *
 * The worker may have been taken over. It can send about a dozen messages, each allowed only in
 * certain states, with a body that must match exactly, and without descriptors. Anything else
 * condemns it. It is also condemned if an answer can't be sent: all messages together have one time
 * budget for sending (kh_channel_patience), so a worker that stops reading, or reads slowly, can't
 * block the keeper for long.
 */

#include "keeper_internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/wire.h>
#include <keyhole/base/worker_messages.h>

enum {
	/* Then signals get their turn. Time counts as well: a worker that takes its answers slowly
	   must not keep the keeper from its other work. */
	MESSAGES_A_TURN = 256,
	TURN_MS = 100,
};

bool kh_worker_process_spawn(struct kh_worker_process *worker_process, struct kh_err *err)
{
	int ends[2];
	if (!kh_channel_pair(ends, err))
		return false;
	kh_auto_close int theirs = ends[1];
	if (!kh_channel_init(&worker_process->channel, ends[0], KH_WORKER_MSG_TO_KEEPER_SET, err)) {
		(void)close(ends[0]);
		return false;
	}
	if (!kh_channel_patience(&worker_process->channel, KH_LIMIT_CHANNEL_PATIENCE_MS, err)) {
		kh_channel_fini(&worker_process->channel);
		return false;
	}
	if (!kh_worker_process_set_state(worker_process, KH_WORKER_PROCESS_STARTING, err)) {
		kh_channel_fini(&worker_process->channel);
		return false;
	}
	worker_process->pid = kh_spawn_worker(theirs, err);
	if (worker_process->pid < 0) {
		(void)kh_worker_process_set_state(worker_process, KH_WORKER_PROCESS_NONE, NULL);
		kh_channel_fini(&worker_process->channel);
		return false;
	}
	worker_process->told = worker_process->confirmed = 0;
	worker_process->serving_ms = 0;
	worker_process->held = (struct kh_checkpoint){ .seq = 0 };
	worker_process->drained = false;
	worker_process->retired = false;
	worker_process->head_asked = false;
	worker_process->verb = 0;
	worker_process->verb_begun = false;
	worker_process->torn = false;
	worker_process->dynamic_sandboxes_fed = false;
	if (worker_process->facts)
		worker_process->facts->starts++;
	if (worker_process->join == KH_WORKER_PROCESS_JOIN_ASKED)
		worker_process->join = KH_WORKER_PROCESS_JOIN_NONE;
	return true;
}

void kh_worker_process_condemn(struct kh_worker_process *worker_process)
{
	if (worker_process->state == KH_WORKER_PROCESS_NONE ||
	    worker_process->state == KH_WORKER_PROCESS_CONDEMNED)
		return;
	(void)kill(worker_process->pid, SIGKILL);
	/* Without CAP_KILL root can't kill another user; a worker that is in its right mind ends by
	   this. */
	(void)shutdown(worker_process->channel.fd, SHUT_RDWR);
	(void)kh_worker_process_set_state(worker_process, KH_WORKER_PROCESS_CONDEMNED, NULL);
}

/* The worker has ended before it served. Its last messages of the journal may still be unread. */
static void take_last_words(struct kh_worker_process *worker_process)
{
	struct kh_channel_message message;
	for (int i = 0; i < MESSAGES_A_TURN && worker_process->serving_ms == 0; i++) {
		if (kh_channel_receive(&worker_process->channel, false, &message) != KH_CHANNEL_GOT)
			return;
		if (message.type == KH_WORKER_MSG_CHECKPOINT && message.n_fds == 0)
			(void)kh_worker_process_on_checkpoint(worker_process, &message);
		kh_channel_message_close(&message);
	}
}

bool kh_worker_process_reap(struct kh_worker_process *worker_process, bool wait, int *status)
{
	if (worker_process->state == KH_WORKER_PROCESS_NONE)
		return false;
	pid_t got;
	do
		got = waitpid(worker_process->pid, status, wait ? 0 : WNOHANG);
	while (got < 0 && errno == EINTR);
	if (got == 0)
		return false;
	if (got < 0)
		*status = 0;
	take_last_words(worker_process);
	kh_channel_fini(&worker_process->channel);
	kh_child_log_end_line();
	kh_signer_reset(&worker_process->signer);
	kh_vault_forget_worker(worker_process->vault);
	(void)kh_worker_process_set_state(worker_process, KH_WORKER_PROCESS_NONE, NULL);
	worker_process->pid = -1;
	return true;
}

/* A message of the start, which has no ref. */
static bool tell(struct kh_worker_process *worker_process, enum kh_worker_msg_to_worker type,
		 struct kh_slice body, const int *fds, unsigned n_fds, struct kh_err *err)
{
	return kh_channel_send(&worker_process->channel, type, 0, body, fds, n_fds, err);
}

static const struct kh_slice nothing = { "", 0 };

void kh_worker_process_drain(struct kh_worker_process *worker_process)
{
	struct kh_err err = KH_ERR_INIT;
	bool retired =
		worker_process->state == KH_WORKER_PROCESS_DRAINING && worker_process->retired;
	if (worker_process->state != KH_WORKER_PROCESS_STARTING &&
	    worker_process->state != KH_WORKER_PROCESS_SERVING && !retired)
		return;
	worker_process->retired = false;
	if (!kh_worker_process_set_state(worker_process, KH_WORKER_PROCESS_DRAINING, NULL) ||
	    !tell(worker_process, KH_WORKER_MSG_DRAIN, nothing, NULL, 0, &err))
		kh_worker_process_condemn(worker_process);
}

void kh_worker_process_retire(struct kh_worker_process *worker_process)
{
	struct kh_err err = KH_ERR_INIT;
	if (worker_process->state != KH_WORKER_PROCESS_SERVING) {
		kh_worker_process_drain(worker_process);
		return;
	}
	worker_process->retired = true;
	if (!kh_worker_process_set_state(worker_process, KH_WORKER_PROCESS_DRAINING, NULL) ||
	    !tell(worker_process, KH_WORKER_MSG_RETIRE, nothing, NULL, 0, &err))
		kh_worker_process_condemn(worker_process);
}

void kh_worker_process_supersede(struct kh_worker_process *worker_process)
{
	if (!kh_worker_process_can_be_told(worker_process))
		return;
	worker_process->retired = false;
	if (!kh_worker_process_set_state(worker_process, KH_WORKER_PROCESS_DRAINING, NULL) ||
	    !tell(worker_process, KH_WORKER_MSG_SUPERSEDED, nothing, NULL, 0, NULL))
		kh_worker_process_condemn(worker_process);
}

static void reply(struct kh_worker_process *worker_process, enum kh_worker_msg_to_worker type,
		  uint32_t ref, struct kh_slice body, const int *fds, unsigned n_fds)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_channel_send(&worker_process->channel, type, ref, body, fds, n_fds, &err))
		return;
	kh_log_error("the worker takes no answer: %s", err.text);
	kh_worker_process_condemn(worker_process);
}

void kh_worker_process_forget_policy(struct kh_worker_process *worker_process)
{
	kh_policy_unref(worker_process->policy);
	worker_process->policy = NULL;
}

/* One that asks for another configuration's host gets it by this one's rules, or a short one. */
static bool allows_host(const void *arg, uint16_t tenant, const struct kh_host *host, uint16_t port)
{
	const struct kh_policy *policy = arg;
	return policy && kh_policy_knows_host(policy, tenant, NULL, KH_SCHEME_HTTPS, host, port);
}

/* Of a tenant that a reload has taken away there is none. A worker knows which of the two holds; to
 * one that does not, nothing is signed. */
static const struct kh_ca *find_ca(const void *arg, const char *name, uint16_t *tenant)
{
	const struct kh_worker_process *worker_process = arg;
	if (!worker_process->tenant_cas.list)
		return name[0] == '\0' ? worker_process->ca : NULL;
	int index = kh_config_tenant(worker_process->config, name);
	if (index < 0 || (size_t)index >= worker_process->tenant_cas.n)
		return NULL;
	*tenant = (uint16_t)index;
	return worker_process->tenant_cas.list[index];
}

static bool on_leaf_request(struct kh_worker_process *worker_process,
			    const struct kh_channel_message *message)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES);
	if (!worker_process->policy)
		worker_process->policy = kh_policy_compile(worker_process->config, NULL);
	const struct kh_signer_asks asks = {
		.allows = allows_host,
		.rules = message->ref == worker_process->generation ? worker_process->policy : NULL,
		.ca = find_ca,
		.worker_process = worker_process,
	};
	if (!kh_signer_answer(&worker_process->signer, message->body, &asks, &body))
		return false;
	reply(worker_process, KH_WORKER_MSG_LEAF, message->ref, kh_buf_view(&body), NULL, 0);
	return true;
}

bool kh_worker_process_can_be_told(const struct kh_worker_process *worker_process)
{
	return worker_process->state == KH_WORKER_PROCESS_STARTING ||
	       worker_process->state == KH_WORKER_PROCESS_SERVING ||
	       worker_process->state == KH_WORKER_PROCESS_DRAINING;
}

static void answer_with(struct kh_worker_process *worker_process,
			const struct kh_credential_ref *ref, const struct kh_value *value,
			struct kh_err *err)
{
	/* It has to know a value when it sees it again, before it can use it. */
	if (value && worker_process->fingerprints_due_ms)
		kh_worker_process_tell_fingerprints(worker_process);
	if (!kh_worker_process_can_be_told(worker_process))
		return;
	kh_auto_close int fd = value ? kh_secret_fd(value->secret) : -1;
	if (value && fd < 0 && kh_scopes_relieve(worker_process->vault))
		fd = kh_secret_fd(value->secret);
	if (value && fd < 0)
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "no secret page is to be had");
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	if (kh_credential_ref_put(&body, ref) &&
	    kh_wire_put_u32(&body, fd >= 0 ? (uint32_t)kh_secret_len(value->secret) : 0) &&
	    kh_wire_put_u64(&body, fd >= 0 ? value->expires_ms : 0) &&
	    kh_wire_put_str(&body, fd >= 0 ? NULL : err->text))
		reply(worker_process, KH_WORKER_MSG_CREDENTIAL, worker_process->generation,
		      kh_buf_view(&body), &fd, fd >= 0 ? 1 : 0);
}

void kh_worker_process_answer_credential(struct kh_worker_process *worker_process,
					 const struct kh_credential_ref *ref,
					 const struct kh_value *value, struct kh_err *err)
{
	/* Where there are no pages left, the vault drops what nobody holds. */
	struct kh_secret *held = value ? kh_secret_ref(value->secret) : NULL;
	answer_with(worker_process, ref, value, err);
	kh_secret_unref(held);
}

void kh_worker_process_tell_stale(struct kh_worker_process *worker_process,
				  const struct kh_credential_ref *ref, bool whole)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, sizeof(*ref) + KH_LIMIT_SCOPE_BYTES);
	if (kh_worker_process_can_be_told(worker_process) && kh_wire_put_u8(&body, whole) &&
	    kh_credential_ref_put(&body, ref))
		reply(worker_process, KH_WORKER_MSG_CREDENTIAL_STALE, worker_process->generation,
		      kh_buf_view(&body), NULL, 0);
}

static bool is_there(const struct kh_worker_process *worker_process,
		     const struct kh_credential_ref *ref)
{
	return ref->index < worker_process->config->n_credentials &&
	       (ref->tenant == KH_NO_TENANT || ref->tenant < worker_process->config->n_tenants);
}

static bool on_credential_request(struct kh_worker_process *worker_process,
				  const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	struct kh_credential_ref ref;
	if (!kh_credential_ref_take(&r, &ref))
		return false;
	const uint64_t number = kh_wire_u64(&r);
	const uint16_t tenant = kh_wire_u16(&r);
	if (!kh_wire_done(&r))
		return false;
	/* Its index is one of another configuration: it decides anew when it has taken this one. */
	if (message->ref != worker_process->generation)
		return message->ref < worker_process->generation;
	if (!is_there(worker_process, &ref))
		return false;

	const struct kh_fair_share_asker asker =
		kh_worker_process_asker(worker_process, number, tenant);
	struct kh_err err = KH_ERR_INIT;
	struct kh_value value;
	switch (kh_vault_get(worker_process->vault, &ref, &asker, &value, &err)) {
	case KH_VAULT_GOT:
		kh_worker_process_answer_credential(worker_process, &ref, &value, &err);
		break;
	case KH_VAULT_NONE:
		kh_worker_process_answer_credential(worker_process, &ref, NULL, &err);
		break;
	case KH_VAULT_LATER:
		break;
	}
	return true;
}

static bool on_credential_refused(struct kh_worker_process *worker_process,
				  const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	struct kh_credential_ref ref;
	if (!kh_credential_ref_take(&r, &ref) || !kh_wire_done(&r))
		return false;
	if (message->ref != worker_process->generation)
		return message->ref < worker_process->generation;
	if (!is_there(worker_process, &ref))
		return false;
	kh_vault_refused(worker_process->vault, &ref);
	return true;
}

static bool on_ready(struct kh_worker_process *worker_process,
		     const struct kh_channel_message *message)
{
	if (message->body.len != 0 || message->ref <= worker_process->confirmed ||
	    message->ref > worker_process->told)
		return false;
	worker_process->confirmed = message->ref;
	worker_process->confirm_ms = kh_clock_mono_ms() + KH_LIMIT_READY_MS;
	if (worker_process->serving_ms)
		return true;
	worker_process->serving_ms = kh_clock_mono_ms();
	worker_process->since = worker_process->lent_at;
	worker_process->followed = true;
	return worker_process->state != KH_WORKER_PROCESS_STARTING ||
	       kh_worker_process_set_state(worker_process, KH_WORKER_PROCESS_SERVING, NULL);
}

/* One at a time: a worker has an answer before it asks for more. */
static bool on_verb(struct kh_worker_process *worker_process,
		    const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	uint8_t verb = kh_wire_u8(&r);
	if (!kh_wire_done(&r) || worker_process->config->admin.n_acceptors == 0 ||
	    worker_process->verb || (verb != KH_ADMIN_RELOAD && verb != KH_ADMIN_DRAIN))
		return false;
	worker_process->verb = (enum kh_admin_verb)verb;
	worker_process->verb_ref = message->ref;
	return true;
}

/* Return: false when a worker in its right mind would not say this now. */
static bool take(struct kh_worker_process *worker_process, const struct kh_channel_message *message)
{
	if (message->n_fds > 0)
		return false;
	switch ((enum kh_worker_msg_to_keeper)message->type) {
	case KH_WORKER_MSG_LEAF_KEY:
		return worker_process->serving_ms == 0 &&
		       kh_signer_take_key(&worker_process->signer, message->body);
	case KH_WORKER_MSG_READY:
		return on_ready(worker_process, message);
	case KH_WORKER_MSG_LEAF_REQUEST:
		return on_leaf_request(worker_process, message); /* may overtake READY */
	case KH_WORKER_MSG_CREDENTIAL_REQUEST:
		return on_credential_request(worker_process, message);
	case KH_WORKER_MSG_CREDENTIAL_REFUSED:
		return on_credential_refused(worker_process, message);
	case KH_WORKER_MSG_CHECKPOINT:
		return kh_worker_process_on_checkpoint(worker_process, message);
	case KH_WORKER_MSG_HEAD:
		return kh_worker_process_on_head(worker_process, message);
	case KH_WORKER_MSG_JOINED:
		return kh_worker_process_on_joined(worker_process, message);
	case KH_WORKER_MSG_VERB:
		return on_verb(worker_process, message);
	case KH_WORKER_MSG_DYNAMIC_SANDBOX_ADD:
	case KH_WORKER_MSG_DYNAMIC_SANDBOX_REMOVE:
		return kh_registry_take(worker_process->dynamic_sandboxes, worker_process, message);
	case KH_WORKER_MSG_JOURNAL_TORN:
		if (worker_process->torn || message->body.len != 0)
			return false;
		worker_process->torn = true;
		return true;
	case KH_WORKER_MSG_DRAINED:
		worker_process->drained = worker_process->state == KH_WORKER_PROCESS_DRAINING &&
					  message->body.len == 0;
		return worker_process->drained;
	}
	return false;
}

uint64_t kh_worker_process_deadline(const struct kh_worker_process *worker_process)
{
	bool awaited = worker_process->told != worker_process->confirmed &&
		       (worker_process->state == KH_WORKER_PROCESS_STARTING ||
			worker_process->state == KH_WORKER_PROCESS_SERVING);
	return awaited ? worker_process->confirm_ms : 0;
}

void kh_worker_process_receive(struct kh_worker_process *worker_process)
{
	uint64_t began = kh_clock_mono_ms();
	for (int i = 0; i < MESSAGES_A_TURN && kh_clock_mono_ms() - began < TURN_MS; i++) {
		struct kh_channel_message message;
		if (worker_process->state == KH_WORKER_PROCESS_NONE ||
		    worker_process->state == KH_WORKER_PROCESS_CONDEMNED)
			return;
		switch (kh_channel_receive(&worker_process->channel, false, &message)) {
		case KH_CHANNEL_GOT:
			if (!take(worker_process, &message)) {
				kh_log_error("worker %ld sent a message that it may not send "
					     "(type %u): it is killed",
					     (long)worker_process->pid, (unsigned)message.type);
				kh_worker_process_condemn(worker_process);
			}
			kh_channel_message_close(&message);
			break;
		case KH_CHANNEL_AGAIN:
			return;
		case KH_CHANNEL_CLOSED: /* it is ending, or it is no good without */
			kh_worker_process_condemn(worker_process);
			return;
		case KH_CHANNEL_BAD:
			kh_log_error("worker %ld sent what is no message: it is killed",
				     (long)worker_process->pid);
			kh_worker_process_condemn(worker_process);
			return;
		}
	}
}
