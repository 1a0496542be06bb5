/* worker_process.c - the worker that runs, as the keeper sees it */

/*
 * States: NONE → STARTING → SERVING → DRAINING → NONE, and from each of them CONDEMNED → NONE. Only
 * kh_worker_process_reap leads back to NONE: a process is forgotten when it is known to be gone.
 *
 * The worker may have been taken over. It is asked nothing; what it says is one of a dozen
 * messages, each allowed in certain states only, with a body that fits exactly and no descriptor.
 * Anything else condemns it. An answer that can't be sent condemns it too: sending has one budget
 * of time for all messages together (kh_channel_patience), so neither a worker that stops reading
 * nor one that reads slowly holds the keeper up for long.
 */

#include "keeper_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/wire.h>

enum {
	/* Then signals get their turn. Time counts as well: a worker that takes its answers slowly
	   must not keep the keeper from its other work. */
	MESSAGES_A_TURN = 256,
	TURN_MS = 100,
};

bool kh_worker_process_spawn(struct kh_worker_process *ward, struct kh_err *err)
{
	int ends[2];
	if (!kh_channel_pair(ends, err))
		return false;
	kh_auto_close int theirs = ends[1];
	if (!kh_channel_init(&ward->channel, ends[0], err)) {
		(void)close(ends[0]);
		return false;
	}
	if (!kh_channel_patience(&ward->channel, KH_LIMIT_CHANNEL_PATIENCE_MS, err)) {
		kh_channel_fini(&ward->channel);
		return false;
	}
	ward->pid = kh_spawn_worker(theirs, err);
	if (ward->pid < 0) {
		kh_channel_fini(&ward->channel);
		return false;
	}
	ward->state = KH_WORKER_PROCESS_STARTING;
	ward->started_ms = kh_clock_mono_ms();
	ward->serving_ms = 0;
	ward->drained = false;
	ward->retired = false;
	ward->head_asked = false;
	ward->verb = 0;
	ward->torn = false;
	ward->dynamic_sandboxes_fed = false;
	if (ward->facts)
		ward->facts->starts++;
	if (ward->join == KH_WORKER_PROCESS_JOIN_ASKED)
		ward->join = KH_WORKER_PROCESS_JOIN_NONE;
	return true;
}

void kh_worker_process_condemn(struct kh_worker_process *ward)
{
	if (ward->state == KH_WORKER_PROCESS_NONE || ward->state == KH_WORKER_PROCESS_CONDEMNED)
		return;
	(void)kill(ward->pid, SIGKILL);
	/* Without CAP_KILL root can't kill another user; a worker that is in its right mind ends by
	   this. */
	(void)shutdown(ward->channel.fd, SHUT_RDWR);
	ward->state = KH_WORKER_PROCESS_CONDEMNED;
}

bool kh_worker_process_reap(struct kh_worker_process *ward, bool wait, int *status)
{
	if (ward->state == KH_WORKER_PROCESS_NONE)
		return false;
	pid_t got;
	do
		got = waitpid(ward->pid, status, wait ? 0 : WNOHANG);
	while (got < 0 && errno == EINTR);
	if (got == 0)
		return false;
	if (got < 0)
		*status = 0;
	kh_channel_fini(&ward->channel);
	kh_child_log_end_line();
	kh_signer_reset(&ward->signer);
	kh_vault_forget_worker(ward->vault);
	ward->state = KH_WORKER_PROCESS_NONE;
	ward->pid = -1;
	return true;
}

/* A message of the start, which has no ref. */
static bool tell(struct kh_worker_process *ward, enum kh_channel_type type, struct kh_slice body,
		 const int *fds, unsigned n_fds, struct kh_err *err)
{
	return kh_channel_send(&ward->channel, type, 0, body, fds, n_fds, err);
}

static const struct kh_slice nothing = { "", 0 };

void kh_worker_process_drain(struct kh_worker_process *ward)
{
	struct kh_err err = KH_ERR_INIT;
	bool retired = ward->state == KH_WORKER_PROCESS_DRAINING && ward->retired;
	if (ward->state != KH_WORKER_PROCESS_STARTING && ward->state != KH_WORKER_PROCESS_SERVING &&
	    !retired)
		return;
	ward->state = KH_WORKER_PROCESS_DRAINING;
	ward->retired = false;
	if (!tell(ward, KH_CHANNEL_DRAIN, nothing, NULL, 0, &err))
		kh_worker_process_condemn(ward);
}

void kh_worker_process_retire(struct kh_worker_process *ward)
{
	struct kh_err err = KH_ERR_INIT;
	if (ward->state != KH_WORKER_PROCESS_SERVING) {
		kh_worker_process_drain(ward);
		return;
	}
	ward->state = KH_WORKER_PROCESS_DRAINING;
	ward->retired = true;
	if (!tell(ward, KH_CHANNEL_RETIRE, nothing, NULL, 0, &err))
		kh_worker_process_condemn(ward);
}

bool kh_worker_process_ask_head(struct kh_worker_process *ward)
{
	if (ward->state != KH_WORKER_PROCESS_SERVING)
		return false;
	ward->head_known = false;
	ward->head_asked = tell(ward, KH_CHANNEL_HEAD_WANT, nothing, NULL, 0, NULL);
	return ward->head_asked;
}

void kh_worker_process_join(struct kh_worker_process *ward, int segment, uint64_t cut)
{
	struct kh_journal_files files;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, sizeof(cut));
	if (kh_journal_lend(segment, &files, NULL) && kh_wire_put_u64(&body, cut) &&
	    tell(ward, KH_CHANNEL_JOIN, kh_buf_view(&body), (int[]){ files.append, files.read }, 2,
		 NULL))
		ward->join = KH_WORKER_PROCESS_JOIN_ASKED;
	kh_journal_lent(segment, &files);
}

static void reply(struct kh_worker_process *ward, enum kh_channel_type type, uint32_t ref,
		  struct kh_slice body, const int *fds, unsigned n_fds)
{
	struct kh_err err = KH_ERR_INIT;
	if (kh_channel_send(&ward->channel, type, ref, body, fds, n_fds, &err))
		return;
	kh_log_error("the worker takes no answer: %s", err.text);
	kh_worker_process_condemn(ward);
}

void kh_worker_process_forget_policy(struct kh_worker_process *ward)
{
	kh_policy_unref(ward->policy);
	ward->policy = NULL;
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
	const struct kh_worker_process *ward = arg;
	if (!ward->tenant_cas.list)
		return name[0] == '\0' ? ward->ca : NULL;
	int index = kh_config_tenant(ward->config, name);
	if (index < 0 || (size_t)index >= ward->tenant_cas.n)
		return NULL;
	*tenant = (uint16_t)index;
	return ward->tenant_cas.list[index];
}

static bool on_leaf_want(struct kh_worker_process *ward, const struct kh_channel_message *message)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES);
	if (!ward->policy)
		ward->policy = kh_policy_compile(ward->config, NULL);
	const struct kh_signer_asks asks = {
		.allows = allows_host,
		.rules = message->ref == ward->generation ? ward->policy : NULL,
		.ca = find_ca,
		.ward = ward,
	};
	if (!kh_signer_answer(&ward->signer, message->body, &asks, &body))
		return false;
	reply(ward, KH_CHANNEL_LEAF, message->ref, kh_buf_view(&body), NULL, 0);
	return true;
}

static bool can_be_told(const struct kh_worker_process *ward)
{
	return ward->state == KH_WORKER_PROCESS_STARTING ||
	       ward->state == KH_WORKER_PROCESS_SERVING ||
	       ward->state == KH_WORKER_PROCESS_DRAINING;
}

void kh_worker_process_answer_want(struct kh_worker_process *ward,
				   const struct kh_credential_ref *want,
				   const struct kh_value *value, struct kh_err *err)
{
	if (!can_be_told(ward))
		return;
	int fd = value ? kh_secret_fd(value->secret) : -1;
	if (value && fd < 0)
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "no secret page is to be had");
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	if (kh_credential_ref_put(&body, want) &&
	    kh_wire_put_u32(&body, fd >= 0 ? (uint32_t)kh_secret_len(value->secret) : 0) &&
	    kh_wire_put_u64(&body, fd >= 0 ? value->expires_ms : 0) &&
	    kh_wire_put_str(&body, fd >= 0 ? NULL : err->text))
		reply(ward, KH_CHANNEL_CREDENTIAL, ward->generation, kh_buf_view(&body), &fd,
		      fd >= 0 ? 1 : 0);
}

void kh_worker_process_tell_stale(struct kh_worker_process *ward,
				  const struct kh_credential_ref *want, bool whole)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, sizeof(*want) + KH_LIMIT_SCOPE_BYTES);
	if (can_be_told(ward) && kh_wire_put_u8(&body, whole) && kh_credential_ref_put(&body, want))
		reply(ward, KH_CHANNEL_CREDENTIAL_STALE, ward->generation, kh_buf_view(&body), NULL,
		      0);
}

static bool is_there(const struct kh_worker_process *ward, const struct kh_credential_ref *want)
{
	return want->index < ward->config->n_credentials &&
	       (want->tenant == KH_NO_TENANT || want->tenant < ward->config->n_tenants);
}

static bool on_credential_want(struct kh_worker_process *ward,
			       const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	struct kh_credential_ref want;
	if (!kh_credential_ref_take(&r, &want))
		return false;
	uint64_t asker = kh_wire_u64(&r);
	if (!kh_wire_done(&r))
		return false;
	/* Its index is one of another configuration: it decides anew when it has taken this one. */
	if (message->ref != ward->generation)
		return message->ref < ward->generation;
	if (!is_there(ward, &want))
		return false;

	struct kh_err err = KH_ERR_INIT;
	struct kh_value value;
	switch (kh_vault_get(ward->vault, &want, asker, &value, &err)) {
	case KH_VAULT_GOT:
		kh_worker_process_answer_want(ward, &want, &value, &err);
		break;
	case KH_VAULT_NONE:
		kh_worker_process_answer_want(ward, &want, NULL, &err);
		break;
	case KH_VAULT_LATER:
		break;
	}
	return true;
}

static bool on_credential_refused(struct kh_worker_process *ward,
				  const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	struct kh_credential_ref want;
	if (!kh_credential_ref_take(&r, &want) || !kh_wire_done(&r))
		return false;
	if (message->ref != ward->generation)
		return message->ref < ward->generation;
	if (!is_there(ward, &want))
		return false;
	kh_vault_refused(ward->vault, &want);
	return true;
}

static bool on_checkpoint(struct kh_worker_process *ward, const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	uint64_t seq = kh_wire_u64(&r);
	struct kh_slice head = kh_wire_bytes(&r);
	uint64_t end = kh_wire_u64(&r);
	struct kh_checkpoint *last = &ward->checkpoint;
	if (!kh_wire_done(&r) || head.len != sizeof(last->hash))
		return false;
	if (ward->frozen)
		return true;
	if (seq <= last->seq || end <= last->end || !kh_worker_process_can_be_at(ward, seq, end)) {
		kh_worker_process_doubt(ward, seq);
		return true;
	}
	if (!ward->first_seq)
		ward->first_seq = seq;
	*last = (struct kh_checkpoint){ .seq = seq, .end = end };
	memcpy(last->hash, head.ptr, sizeof(last->hash));
	return true;
}

static bool on_head(struct kh_worker_process *ward, const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	uint64_t seq = kh_wire_u64(&r);
	struct kh_slice hash = kh_wire_bytes(&r);
	if (!kh_wire_done(&r) || !ward->head_asked || hash.len != sizeof(ward->head.hash))
		return false;
	if (seq == 0 || seq < ward->checkpoint.seq || !kh_worker_process_can_be_at(ward, seq, 0)) {
		kh_worker_process_doubt(ward, seq);
		return false;
	}
	ward->head.seq = seq;
	memcpy(ward->head.hash, hash.ptr, sizeof(ward->head.hash));
	ward->head_asked = false;
	ward->head_known = true;
	return true;
}

static bool on_joined(struct kh_worker_process *ward, const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	kh_auto_free char *why = kh_wire_str(&r);
	if (!kh_wire_done(&r) || ward->join != KH_WORKER_PROCESS_JOIN_ASKED)
		return false;
	ward->join = why ? KH_WORKER_PROCESS_JOIN_NONE : KH_WORKER_PROCESS_JOINED;
	if (why)
		kh_log_error("the end of the journal's segment before can't be written: %s",
			     kh_esc_str(why));
	return true;
}

static bool on_ready(struct kh_worker_process *ward, const struct kh_channel_message *message)
{
	if (message->body.len != 0 || ward->serving_ms != 0)
		return false;
	ward->serving_ms = kh_clock_mono_ms();
	ward->since = ward->lent_at;
	ward->followed = true;
	if (ward->state == KH_WORKER_PROCESS_STARTING)
		ward->state = KH_WORKER_PROCESS_SERVING;
	return true;
}

/* One at a time: a worker has an answer before it asks for more. */
static bool on_verb(struct kh_worker_process *ward, const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	uint8_t verb = kh_wire_u8(&r);
	if (!kh_wire_done(&r) || ward->config->admin.n_acceptors == 0 || ward->verb ||
	    (verb != KH_ADMIN_RELOAD && verb != KH_ADMIN_DRAIN))
		return false;
	ward->verb = (enum kh_admin_verb)verb;
	ward->verb_ref = message->ref;
	return true;
}

/* Return: false when a worker in its right mind would not say this now. */
static bool take(struct kh_worker_process *ward, const struct kh_channel_message *message)
{
	if (message->n_fds > 0)
		return false;
	switch (message->type) {
	case KH_CHANNEL_LEAF_KEY:
		return ward->serving_ms == 0 && kh_signer_take_key(&ward->signer, message->body);
	case KH_CHANNEL_READY:
		return on_ready(ward, message);
	case KH_CHANNEL_LEAF_WANT:
		return on_leaf_want(ward, message); /* may overtake READY */
	case KH_CHANNEL_CREDENTIAL_WANT:
		return on_credential_want(ward, message);
	case KH_CHANNEL_CREDENTIAL_REFUSED:
		return on_credential_refused(ward, message);
	case KH_CHANNEL_CHECKPOINT:
		return on_checkpoint(ward, message);
	case KH_CHANNEL_HEAD:
		return on_head(ward, message);
	case KH_CHANNEL_JOINED:
		return on_joined(ward, message);
	case KH_CHANNEL_VERB:
		return on_verb(ward, message);
	case KH_CHANNEL_DYNAMIC_SANDBOX_ADD:
	case KH_CHANNEL_DYNAMIC_SANDBOX_REMOVE:
		return kh_registry_take(ward->guests, ward, message);
	case KH_CHANNEL_JOURNAL_TORN:
		if (ward->torn || message->body.len != 0)
			return false;
		ward->torn = true;
		return true;
	case KH_CHANNEL_DRAINED:
		ward->drained = ward->state == KH_WORKER_PROCESS_DRAINING && message->body.len == 0;
		return ward->drained;
	case KH_CHANNEL_SNAPSHOT:
	case KH_CHANNEL_LISTENERS:
	case KH_CHANNEL_JOURNAL:
	case KH_CHANNEL_ROOTS:
	case KH_CHANNEL_RESOLVER:
	case KH_CHANNEL_GEO:
	case KH_CHANNEL_ISSUER:
	case KH_CHANNEL_GO:
	case KH_CHANNEL_LEAF:
	case KH_CHANNEL_CREDENTIAL:
	case KH_CHANNEL_DRAIN:
	case KH_CHANNEL_HEAD_WANT:
	case KH_CHANNEL_RETIRE:
	case KH_CHANNEL_JOIN:
	case KH_CHANNEL_ADMIN:
	case KH_CHANNEL_FACTS:
	case KH_CHANNEL_VERB_DONE:
	case KH_CHANNEL_DYNAMIC_SANDBOX:
	case KH_CHANNEL_DYNAMIC_SANDBOX_GONE:
	case KH_CHANNEL_DYNAMIC_SANDBOX_DONE:
	case KH_CHANNEL_HELLO:
	case KH_CHANNEL_OFFER:
	case KH_CHANNEL_OFFER_SOCKET:
	case KH_CHANNEL_OFFER_SECRET:
	case KH_CHANNEL_PREPARED:
	case KH_CHANNEL_MOVE:
	case KH_CHANNEL_MOVED:
	case KH_CHANNEL_OPEN:
	case KH_CHANNEL_OPENED:
	case KH_CHANNEL_FAILED:
	case KH_CHANNEL_HURRY:
	case KH_CHANNEL_END:
	case KH_CHANNEL_GONE:
	case KH_CHANNEL_OFFER_QUOTA_LEDGER:
	case KH_CHANNEL_OFFER_QUOTA_SLOTS:
	case KH_CHANNEL_OFFER_DYNAMIC_SANDBOX:
	case KH_CHANNEL_CREDENTIAL_STALE:
	case KH_CHANNEL_JOURNAL_HELD:
	case KH_CHANNEL_JOURNAL_CUT:
	case KH_CHANNEL_PRINTS:
	case KH_CHANNEL_FETCH:
	case KH_CHANNEL_FETCHED:
		break; /* the keepers' own words */
	}
	return false;
}

void kh_worker_process_receive(struct kh_worker_process *ward)
{
	uint64_t began = kh_clock_mono_ms();
	for (int i = 0; i < MESSAGES_A_TURN && kh_clock_mono_ms() - began < TURN_MS; i++) {
		struct kh_channel_message message;
		if (ward->state == KH_WORKER_PROCESS_NONE ||
		    ward->state == KH_WORKER_PROCESS_CONDEMNED)
			return;
		switch (kh_channel_receive(&ward->channel, false, &message)) {
		case KH_CHANNEL_GOT:
			if (!take(ward, &message)) {
				kh_log_error("worker %ld sent a message that it may not send "
					     "(type %d): it is killed",
					     (long)ward->pid, (int)message.type);
				kh_worker_process_condemn(ward);
			}
			kh_channel_message_close(&message);
			break;
		case KH_CHANNEL_AGAIN:
			return;
		case KH_CHANNEL_CLOSED: /* it is ending, or it is no good without */
			kh_worker_process_condemn(ward);
			return;
		case KH_CHANNEL_BAD:
			kh_log_error("worker %ld sent what is no message: it is killed",
				     (long)ward->pid);
			kh_worker_process_condemn(ward);
			return;
		}
	}
}
