/*
 * handover_old.c - SIGUSR2: the old keeper's side (handover_internal.h explains both)
 *
 * Each state expects certain messages. Any other message, a timeout, and the end of the other
 * process are failures. A failure is undone before it is reported.
 */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/wire.h>
#include <keyhole/base/worker_messages.h>

#include "handover_internal.h"

enum {
	HEAD_MS = 5 * 1000,
	/* From its start until it is prepared: reading a configuration, a worker's start. */
	PREPARE_MS = 20 * 1000,
	STEP_MS = 10 * 1000,
	LET_GO_MS = 500,
};

static const struct kh_slice nothing = { "", 0 };

bool kh_handover_is_under_way(const struct kh_handover *h)
{
	return h->state != KH_HANDOVER_NONE && h->state != KH_HANDOVER_OVER;
}

static void enter(struct kh_handover *h, enum kh_handover_state state, uint64_t patience_ms)
{
	/* What is no step keeps its deadline, and ends by it. */
	if (!kh_handover_set_state(h, state, NULL))
		return;
	h->deadline_ms = patience_ms ? kh_clock_mono_ms() + patience_ms : 0;
}

bool kh_handover_begin(struct kh_handover *h, struct kh_err *err)
{
	if (!h->argv || !h->worker_process->config->ca_certificate_path)
		return kh_err_set(err, KH_ERR_CONFIG, "a private daemon is not handed over");
	if (kh_handover_is_under_way(h))
		return kh_err_set(err, KH_ERR_CONFIG, "one is under way already (process %ld)",
				  (long)h->pid);
	if (h->state == KH_HANDOVER_OVER)
		return kh_err_set(err, KH_ERR_CONFIG, "process %ld has taken over: ask that one",
				  (long)h->pid);
	if (!kh_worker_process_ask_head(h->worker_process))
		return kh_err_set(err, KH_ERR_CONFIG, "no worker serves at the moment");
	enter(h, KH_HANDOVER_ASKED, HEAD_MS);
	return true;
}

/* --- what is offered -------------------------------------------------------------------------- */

static bool say(struct kh_handover *h, enum kh_handover_msg_to_new type, const struct kh_buf *body,
		int fd, struct kh_err *err)
{
	return kh_channel_send(&h->channel, type, KH_HANDOVER_VERSION,
			       body ? kh_buf_view(body) : nothing, &fd, fd >= 0 ? 1 : 0, err);
}

static bool offer(struct kh_handover *h, struct kh_err *err)
{
	uint32_t secrets = (uint32_t)h->vault->n_variables;
	kh_cleanup(kh_buf_fini) struct kh_buf body, mark, config_mark;
	kh_buf_init(&mark, KH_LIMIT_CHANNEL_BYTES / 4);
	kh_buf_init(&config_mark, KH_LIMIT_CHANNEL_BYTES / 8);
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	if (!kh_ca_in_force_mark(&mark, h->worker_process->config, h->worker_process->ca,
				 &h->worker_process->tenant_cas) ||
	    !kh_wire_put_u32(&body, (uint32_t)h->sockets->count) ||
	    !kh_wire_put_u32(&body, secrets) ||
	    !kh_wire_put_u32(&body, (uint32_t)h->worker_process->dynamic_sandboxes->count) ||
	    !kh_wire_put_u64(&body, h->cut.seq) ||
	    !kh_wire_put_bytes(&body,
			       kh_slice_of((const char *)h->cut.hash, sizeof(h->cut.hash))) ||
	    !kh_wire_put_bytes(&body, kh_buf_view(&mark)) ||
	    !kh_config_put_mark(h->worker_process->config, &config_mark) ||
	    !kh_wire_put_bytes(&body, kh_buf_view(&config_mark)))
		return kh_err_set(err, KH_ERR_INTERNAL, "the offer is too long");
	return say(h, KH_HANDOVER_MSG_OFFER, &body, h->sockets->journal, err);
}

static bool offer_sockets(struct kh_handover *h, struct kh_err *err)
{
	for (size_t i = 0; i < h->sockets->count; i++) {
		const struct kh_listening *l = &h->sockets->listening[i];
		kh_cleanup(kh_buf_fini) struct kh_buf body;
		kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
		if (!kh_wire_put_str(&body,
				     kh_config_acceptor(h->worker_process->config, i)->name) ||
		    !kh_wire_put_u64(&body, l->dev) || !kh_wire_put_u64(&body, l->ino))
			return kh_err_set(err, KH_ERR_INTERNAL, "a socket's path is too long");
		if (!say(h, KH_HANDOVER_MSG_OFFER_SOCKET, &body, l->fd, err))
			return false;
	}
	return true;
}

static bool offer_secrets(struct kh_handover *h, struct kh_err *err)
{
	for (size_t i = 0; i < h->vault->n_variables; i++) {
		const struct kh_secret *secret = h->vault->variables[i].secret;
		kh_cleanup(kh_buf_fini) struct kh_buf body;
		kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
		kh_auto_close int fd = kh_secret_fd(secret);
		if (fd < 0)
			return kh_err_set(err, KH_ERR_SYSTEM, "no secret page is to be had");
		if (!kh_wire_put_str(&body, h->vault->variables[i].name) ||
		    !kh_wire_put_u32(&body, (uint32_t)kh_secret_len(secret)))
			return kh_err_set(err, KH_ERR_INTERNAL, "a variable's name is too long");
		if (!say(h, KH_HANDOVER_MSG_OFFER_SECRET, &body, fd, err))
			return false;
	}
	return true;
}

static bool offer_quota_ledger(struct kh_handover *h, struct kh_err *err)
{
	enum { OFFER_BYTES = 64 * 1024 * 1024 };
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_cleanup(kh_buf_fini) struct kh_buf quota_slots;
	kh_buf_init(&body, sizeof(uint32_t));
	kh_buf_init(&quota_slots, OFFER_BYTES);
	if (!kh_wire_put_u8(&body, (uint8_t)(1 - h->worker_process->column)) ||
	    !kh_quota_slots_offer(h->worker_process->quota_slots, &quota_slots))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "limits: no memory");
	kh_auto_close int fd =
		kh_file_sealed("keyhole-quota-slots", kh_buf_view(&quota_slots), err);
	return fd >= 0 &&
	       say(h, KH_HANDOVER_MSG_OFFER_QUOTA_LEDGER, &body,
		   kh_quota_slots_fd(h->worker_process->quota_slots), err) &&
	       say(h, KH_HANDOVER_MSG_OFFER_QUOTA_SLOTS, NULL, fd, err);
}

/* --- the other process ------------------------------------------------------------------------ */

static bool start(struct kh_handover *h, struct kh_err *err)
{
	int ends[2];
	h->cut = h->worker_process->head;
	/* What is signed from here on is the new one's: its seq goes on where this one stood. */
	h->worker_process->frozen = true;
	if (!kh_channel_pair(ends, err))
		return false;
	kh_auto_close int theirs = ends[1];
	if (!kh_channel_init(&h->channel, ends[0], KH_HANDOVER_MSG_TO_OLD_SET, err)) {
		(void)close(ends[0]);
		return false;
	}
	h->pid = kh_spawn_heir(theirs, h->argv, err);
	if (h->pid < 0)
		return false;
	kh_log_info("handover: process %ld is started", (long)h->pid);
	enter(h, KH_HANDOVER_STARTED, PREPARE_MS);
	return true;
}

/* Its status is said where nobody else will. Return: it has ended. */
static bool has_ended(struct kh_handover *h, struct kh_err *err)
{
	int status;
	if (h->pid < 0 || waitpid(h->pid, &status, WNOHANG) != h->pid)
		return false;
	if (WIFSIGNALED(status))
		kh_err_set(err, KH_ERR_SYSTEM, "the new process %ld was killed by signal %d (%s)",
			   (long)h->pid, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		kh_err_set(err, KH_ERR_SYSTEM, "the new process %ld ended with status %d",
			   (long)h->pid, WEXITSTATUS(status));
	h->pid = -1;
	return true;
}

static void end_process(struct kh_handover *h)
{
	if (h->pid < 0)
		return;
	(void)kill(h->pid, SIGKILL);
	while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
		;
	h->pid = -1;
}

void kh_handover_call_off(struct kh_handover *h)
{
	end_process(h);
	if (h->state > KH_HANDOVER_ASKED)
		kh_segment_restore(h->worker_process->config->audit_path, h->sockets->journal,
				   h->cut.seq);
	kh_channel_fini(&h->channel);
	h->worker_process->frozen = false;
	enter(h, KH_HANDOVER_NONE, 0);
}

void kh_handover_fini(struct kh_handover *h)
{
	if (kh_handover_is_under_way(h) && h->state != KH_HANDOVER_OPENING)
		kh_handover_call_off(h);
	if (h->channel.fd < 0)
		return;
	(void)say(h, KH_HANDOVER_MSG_GONE, NULL, -1, NULL);
	kh_channel_fini(&h->channel);
}

/* --- its messages ----------------------------------------------------------------------------- */

static bool on_hello(struct kh_handover *h, const struct kh_channel_message *message,
		     struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = message->body };
	kh_auto_free char *version = kh_wire_str(&r);
	if (message->ref != KH_HANDOVER_VERSION)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "the new binary speaks version %u of the handover, this one %d "
				  "(restart instead)",
				  (unsigned)message->ref, KH_HANDOVER_VERSION);
	if (!kh_wire_done(&r) || !version)
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "the new process is not understood (restart instead)");
	kh_log_info("handover: process %ld is keyhole %s", (long)h->pid, kh_esc_str(version));
	if (!offer(h, err) || !offer_sockets(h, err) || !offer_secrets(h, err) ||
	    !offer_quota_ledger(h, err) ||
	    !kh_registry_offer(h->worker_process->dynamic_sandboxes, &h->channel, err))
		return false;
	/* The deadline stays. */
	return kh_handover_set_state(h, KH_HANDOVER_OFFERED, err);
}

static bool on_failed(const struct kh_channel_message *message, struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = message->body };
	kh_auto_free char *why = kh_wire_str(&r);
	return kh_err_set(err, KH_ERR_SYSTEM, "the new process: %s", why ? why : "no reason given");
}

static bool advance(struct kh_handover *h, enum kh_handover_msg_to_new say_what,
		    enum kh_handover_state next, struct kh_err *err)
{
	enter(h, next, STEP_MS);
	return say(h, say_what, NULL, -1, err);
}

/* Return: false when the handover has failed. */
static bool take(struct kh_handover *h, const struct kh_channel_message *message,
		 struct kh_err *err)
{
	switch ((enum kh_handover_msg_to_old)message->type) {
	case KH_HANDOVER_MSG_HELLO:
		if (h->state == KH_HANDOVER_STARTED)
			return on_hello(h, message, err);
		break;
	case KH_HANDOVER_MSG_PREPARED:
		if (h->state == KH_HANDOVER_OFFERED)
			return advance(h, KH_HANDOVER_MSG_MOVE, KH_HANDOVER_MOVING, err);
		break;
	case KH_HANDOVER_MSG_MOVED:
		if (h->state == KH_HANDOVER_MOVING)
			return advance(h, KH_HANDOVER_MSG_OPEN, KH_HANDOVER_OPENING, err);
		break;
	case KH_HANDOVER_MSG_FAILED:
		return on_failed(message, err);
	case KH_HANDOVER_MSG_OPENED:
	case KH_HANDOVER_MSG_DYNAMIC_SANDBOX_GONE:
	case KH_HANDOVER_MSG_HURRY:
	case KH_HANDOVER_MSG_END:
	case KH_HANDOVER_MSG_SUPERSEDE:
		break; /* not at that time */
	}
	return kh_err_set(err, KH_ERR_SYSTEM, "the new process said what it may not (message %u)",
			  (unsigned)message->type);
}

static enum kh_handover_news give_up(struct kh_handover *h)
{
	if (h->state == KH_HANDOVER_OPENING) {
		end_process(h);
		kh_channel_fini(&h->channel);
		enter(h, KH_HANDOVER_OVER, 0);
		return KH_HANDOVER_LOST;
	}
	kh_handover_call_off(h);
	return KH_HANDOVER_FAILED;
}

/* Whoever is connected there by us is to go as well. */
static void pass_on_gone(struct kh_handover *h, const struct kh_channel_message *message)
{
	if (h->worker_process->state == KH_WORKER_PROCESS_DRAINING &&
	    !kh_channel_send(&h->worker_process->channel, KH_WORKER_MSG_DYNAMIC_SANDBOX_GONE, 0,
			     message->body, NULL, 0, NULL))
		kh_worker_process_condemn(h->worker_process);
}

/* After the handover it says little. Its own end changes nothing: what runs here goes on. */
static enum kh_handover_news take_after(struct kh_handover *h,
					const struct kh_channel_message *message)
{
	switch ((enum kh_handover_msg_to_old)message->type) {
	case KH_HANDOVER_MSG_DYNAMIC_SANDBOX_GONE:
		pass_on_gone(h, message);
		break;
	case KH_HANDOVER_MSG_HURRY:
		return KH_HANDOVER_HURRY;
	case KH_HANDOVER_MSG_END:
		return KH_HANDOVER_END;
	case KH_HANDOVER_MSG_SUPERSEDE:
		return KH_HANDOVER_SUPERSEDED;
	case KH_HANDOVER_MSG_HELLO:
	case KH_HANDOVER_MSG_PREPARED:
	case KH_HANDOVER_MSG_MOVED:
	case KH_HANDOVER_MSG_OPENED:
	case KH_HANDOVER_MSG_FAILED:
		break;
	}
	return KH_HANDOVER_NO_NEWS;
}

static enum kh_handover_news step(struct kh_handover *h, const struct kh_channel_message *message,
				  struct kh_err *err)
{
	if (h->state == KH_HANDOVER_OVER)
		return take_after(h, message);
	if (h->state == KH_HANDOVER_OPENING && message->type == KH_HANDOVER_MSG_OPENED) {
		enter(h, KH_HANDOVER_OVER, 0);
		return KH_HANDOVER_DONE;
	}
	return take(h, message, err) ? KH_HANDOVER_NO_NEWS : give_up(h);
}

/* All that is there to be read, up to the first news. */
static enum kh_handover_news receive(struct kh_handover *h, struct kh_err *err)
{
	enum kh_handover_news news = KH_HANDOVER_NO_NEWS;
	while (h->channel.fd >= 0 && news == KH_HANDOVER_NO_NEWS) {
		struct kh_channel_message message;
		switch (kh_channel_receive(&h->channel, false, &message)) {
		case KH_CHANNEL_GOT:
			news = step(h, &message, err);
			kh_channel_message_close(&message);
			break;
		case KH_CHANNEL_AGAIN:
			return KH_HANDOVER_NO_NEWS;
		case KH_CHANNEL_BAD:
			if (h->state != KH_HANDOVER_OVER) {
				kh_err_set(err, KH_ERR_SYSTEM,
					   "the new process is not understood (restart instead)");
				return give_up(h);
			}
			kh_channel_fini(&h->channel);
			break;
		case KH_CHANNEL_CLOSED:
			/* If it has ended, its status says more than this. */
			kh_channel_fini(&h->channel);
			if (h->state != KH_HANDOVER_OVER)
				h->deadline_ms = kh_clock_mono_ms() + LET_GO_MS;
			break;
		}
	}
	return news;
}

static const char *what_is_late(const struct kh_handover *h)
{
	if (h->state == KH_HANDOVER_ASKED)
		return "the worker does not answer";
	return h->channel.fd < 0 ? "the new process has let go"
				 : "the new process does not get ready";
}

enum kh_handover_news kh_handover_turn(struct kh_handover *h, struct kh_err *err)
{
	if (h->state == KH_HANDOVER_NONE)
		return KH_HANDOVER_NO_NEWS;
	if (h->state == KH_HANDOVER_ASKED && h->worker_process->head_known && !start(h, err))
		return give_up(h);
	enum kh_handover_news news = receive(h, err);
	if (news != KH_HANDOVER_NO_NEWS || h->state == KH_HANDOVER_NONE)
		return news;
	if (has_ended(h, err)) {
		if (h->state != KH_HANDOVER_OVER)
			return give_up(h);
		kh_log_error("%s; it had taken over", err->text);
		*err = (struct kh_err)KH_ERR_INIT;
	}
	if (h->deadline_ms && kh_clock_mono_ms() >= h->deadline_ms) {
		kh_err_set(err, KH_ERR_SYSTEM, "%s", what_is_late(h));
		return give_up(h);
	}
	return KH_HANDOVER_NO_NEWS;
}
