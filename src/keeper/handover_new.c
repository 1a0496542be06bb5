/* handover_new.c - SIGUSR2: the new keeper's side (handover_internal.h explains both) */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/wire.h>

#include "handover_internal.h"

enum {
	LISTENERS_MOST = 1024 * 1024,
	SECRETS_MOST = 64 * 1024,
	/* A keeper that died takes its worker with it, but not before its end of the channel is
	   shut: the worker must be gone before anybody else writes to its segment. */
	ORPHAN_MS = 1000,
	/* Longer than it takes to end what it has. */
	SUPERSEDED_MS = 2000,
};

static const struct kh_slice nothing = { "", 0 };

bool kh_handover_new_is_pending(const struct kh_handover_new *handover_new)
{
	return handover_new->state >= KH_HANDOVER_NEW_OFFERED &&
	       handover_new->state <= KH_HANDOVER_NEW_MOVED;
}

bool kh_handover_new_say(struct kh_handover_new *handover_new, enum kh_handover_msg_to_old type,
			 struct kh_err *err)
{
	return handover_new->channel.fd < 0 ||
	       kh_channel_send(&handover_new->channel, type, KH_HANDOVER_VERSION, nothing, NULL, 0,
			       err);
}

bool kh_handover_new_is_gone(const struct kh_handover_new *handover_new)
{
	return handover_new->state == KH_HANDOVER_NEW_NONE ||
	       (handover_new->state == KH_HANDOVER_NEW_ENDING &&
		kh_clock_mono_ms() >= handover_new->gone_ms);
}

void kh_handover_new_supersede(struct kh_handover_new *handover_new)
{
	if (handover_new->state != KH_HANDOVER_NEW_OURS || handover_new->kill_ms)
		return;
	handover_new->kill_ms = kh_clock_mono_ms();
	if (kh_handover_new_say(handover_new, KH_HANDOVER_MSG_SUPERSEDE, NULL))
		handover_new->kill_ms += SUPERSEDED_MS;
}

uint64_t kh_handover_new_deadline(const struct kh_handover_new *handover_new)
{
	if (handover_new->state == KH_HANDOVER_NEW_OURS)
		return handover_new->kill_ms;
	return handover_new->state == KH_HANDOVER_NEW_ENDING &&
			       !kh_handover_new_is_gone(handover_new)
		       ? handover_new->gone_ms
		       : 0;
}

/* It does not end by itself; its worker dies with it. Who is no longer our parent has ended. */
static void kill_late(struct kh_handover_new *handover_new)
{
	if (handover_new->state != KH_HANDOVER_NEW_OURS || !handover_new->kill_ms ||
	    kh_clock_mono_ms() < handover_new->kill_ms)
		return;
	handover_new->kill_ms = kh_clock_mono_ms() + SUPERSEDED_MS;
	if (getppid() != handover_new->parent)
		return;
	kh_log_warn("process %ld does not end what it has under former rules: it is killed",
		    (long)handover_new->parent);
	(void)kill(handover_new->parent, SIGKILL);
}

static bool say_text(struct kh_handover_new *handover_new, enum kh_handover_msg_to_old type,
		     const char *text, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	return kh_wire_put_str(&body, text) &&
	       kh_channel_send(&handover_new->channel, type, KH_HANDOVER_VERSION,
			       kh_buf_view(&body), NULL, 0, err);
}

void kh_handover_new_refuse(struct kh_handover_new *handover_new, const char *why)
{
	if (kh_handover_new_is_pending(handover_new) && handover_new->channel.fd >= 0)
		(void)say_text(handover_new, KH_HANDOVER_MSG_FAILED, why, NULL);
}

static bool not_understood(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_INTERNAL,
			  "handover: the offer is not understood (restart instead)");
}

/* Waits: the old one ends this process when that takes too long. */
static bool hear_any(struct kh_handover_new *handover_new, enum kh_handover_msg_to_new type,
		     struct kh_channel_message *message, struct kh_err *err)
{
	enum kh_channel_status got;
	do
		got = kh_channel_receive(&handover_new->channel, true, message);
	while (got == KH_CHANNEL_AGAIN);
	if (got == KH_CHANNEL_BAD)
		return not_understood(err);
	if (got != KH_CHANNEL_GOT)
		return kh_err_set(err, KH_ERR_SYSTEM, "handover: the process before has let go");
	if (message->type == type && message->ref == KH_HANDOVER_VERSION)
		return true;
	kh_channel_message_close(message);
	if (message->ref == KH_HANDOVER_VERSION)
		return not_understood(err);
	return kh_err_set(err, KH_ERR_CONFIG,
			  "the process before speaks version %u of the handover, this one %d "
			  "(restart instead)",
			  (unsigned)message->ref, KH_HANDOVER_VERSION);
}

/* What comes with one descriptor. */
static bool hear(struct kh_handover_new *handover_new, enum kh_handover_msg_to_new type,
		 struct kh_channel_message *message, struct kh_err *err)
{
	if (!hear_any(handover_new, type, message, err))
		return false;
	if (message->n_fds == 1)
		return true;
	kh_channel_message_close(message);
	return not_understood(err);
}

static bool take_offer(struct kh_handover_new *handover_new, uint32_t *sockets, uint32_t *secrets,
		       uint32_t *dynamic_sandboxes, struct kh_err *err)
{
	struct kh_channel_message message;
	if (!hear(handover_new, KH_HANDOVER_MSG_OFFER, &message, err))
		return false;
	handover_new->segment = kh_steal_fd(&message.fds[0]);
	struct kh_wire_reader r = { .rest = message.body };
	*sockets = kh_wire_u32(&r);
	*secrets = kh_wire_u32(&r);
	*dynamic_sandboxes = kh_wire_u32(&r);
	handover_new->cut.seq = kh_wire_u64(&r);
	struct kh_slice hash = kh_wire_bytes(&r), mark = kh_wire_bytes(&r),
			config = kh_wire_bytes(&r);
	if (!kh_wire_done(&r) || hash.len != sizeof(handover_new->cut.hash) ||
	    handover_new->cut.seq == 0 || *sockets > LISTENERS_MOST || *secrets > SECRETS_MOST ||
	    *dynamic_sandboxes > KH_LIMIT_DYNAMIC_SANDBOXES)
		return not_understood(err);
	memcpy(handover_new->cut.hash, hash.ptr, hash.len);
	return (kh_buf_append_slice(&handover_new->ca_mark, mark) &&
		kh_buf_append_slice(&handover_new->config_mark, config)) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "handover: no memory");
}

static bool make_room(struct kh_handover_new *handover_new, uint32_t sockets, struct kh_err *err)
{
	struct kh_config *config = handover_new->config = calloc(1, sizeof(*config));
	if (config) {
		config->listeners = calloc(sockets + 1, sizeof(*config->listeners));
		handover_new->sockets.listening =
			calloc(sockets + 1, sizeof(*handover_new->sockets.listening));
	}
	handover_new->sockets.config = handover_new->vault.config = config;
	return (config && config->listeners && handover_new->sockets.listening) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "handover: no memory");
}

static bool take_socket(struct kh_handover_new *handover_new, struct kh_err *err)
{
	struct kh_channel_message message;
	if (!hear(handover_new, KH_HANDOVER_MSG_OFFER_SOCKET, &message, err))
		return false;
	struct kh_listening *l = &handover_new->sockets.listening[handover_new->sockets.count++];
	struct kh_wire_reader r = { .rest = message.body };
	l->fd = kh_steal_fd(&message.fds[0]);
	char *path = kh_wire_str(&r);
	handover_new->config->listeners[handover_new->config->n_listeners++].name = path;
	l->dev = (dev_t)kh_wire_u64(&r);
	l->ino = (ino_t)kh_wire_u64(&r);
	return (kh_wire_done(&r) && path) || not_understood(err);
}

static bool take_secret(struct kh_handover_new *handover_new, struct kh_err *err)
{
	struct kh_channel_message message;
	if (!hear(handover_new, KH_HANDOVER_MSG_OFFER_SECRET, &message, err))
		return false;
	struct kh_wire_reader r = { .rest = message.body };
	kh_auto_free char *variable = kh_wire_str(&r);
	uint32_t len = kh_wire_u32(&r);
	if (!kh_wire_done(&r) || !variable) {
		kh_channel_message_close(&message);
		return not_understood(err);
	}
	struct kh_secret *secret = kh_secret_from_fd(kh_steal_fd(&message.fds[0]), len, err);
	if (!secret)
		return false;
	if (kh_variables_add(&handover_new->vault, variable, secret)) {
		(void)kh_steal_ptr(&variable);
		return true;
	}
	kh_secret_unref(secret);
	return kh_err_set(err, KH_ERR_NO_MEMORY, "handover: no memory");
}

static bool take_quota_ledger(struct kh_handover_new *handover_new, struct kh_err *err)
{
	enum { OFFER_BYTES = 64 * 1024 * 1024 };
	struct kh_channel_message message;
	if (!hear(handover_new, KH_HANDOVER_MSG_OFFER_QUOTA_LEDGER, &message, err))
		return false;
	kh_auto_close int quota_ledger = kh_steal_fd(&message.fds[0]);
	struct kh_wire_reader r = { .rest = message.body };
	uint8_t column = kh_wire_u8(&r);
	if (!kh_wire_done(&r) || column > 1)
		return not_understood(err);
	handover_new->column = column;
	if (!hear(handover_new, KH_HANDOVER_MSG_OFFER_QUOTA_SLOTS, &message, err))
		return false;
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;
	kh_buf_init(&bytes, OFFER_BYTES);
	bool read = kh_file_read_fd(message.fds[0], &bytes, err);
	kh_channel_message_close(&message);
	if (read)
		handover_new->quota_slots =
			kh_quota_slots_take(kh_steal_fd(&quota_ledger), kh_buf_view(&bytes), err);
	return handover_new->quota_slots != NULL;
}

static bool take_dynamic_sandbox(struct kh_handover_new *handover_new, struct kh_err *err)
{
	struct kh_channel_message message;
	if (!hear_any(handover_new, KH_HANDOVER_MSG_OFFER_DYNAMIC_SANDBOX, &message, err))
		return false;
	bool ok = kh_registry_take_offer(handover_new->dynamic_sandboxes, &message, err);
	kh_channel_message_close(&message);
	return ok;
}

static bool is_handed_over(void)
{
	int type = 0;
	socklen_t len = sizeof(type);
	return getsockopt(KH_KEEPER_HANDOVER_FD, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       type == SOCK_SEQPACKET;
}

bool kh_handover_new_take(struct kh_handover_new *handover_new, struct kh_err *err)
{
	uint32_t sockets, secrets, dynamic_sandboxes;
	kh_buf_init(&handover_new->ca_mark, KH_LIMIT_CHANNEL_BYTES);
	kh_buf_init(&handover_new->config_mark, KH_LIMIT_CHANNEL_BYTES);
	handover_new->parent = getppid();
	if (!is_handed_over())
		return kh_err_set(err, KH_ERR_USAGE,
				  "--handover is for keyhole itself (send SIGUSR2 to the daemon)");
	if (!kh_channel_init(&handover_new->channel, KH_KEEPER_HANDOVER_FD,
			     KH_HANDOVER_MSG_TO_NEW_SET, err))
		return false;
	if (!kh_handover_new_set_state(handover_new, KH_HANDOVER_NEW_OFFERED, err) ||
	    !say_text(handover_new, KH_HANDOVER_MSG_HELLO, KH_VERSION, err) ||
	    !take_offer(handover_new, &sockets, &secrets, &dynamic_sandboxes, err) ||
	    !make_room(handover_new, sockets, err))
		return false;
	for (uint32_t i = 0; i < sockets; i++)
		if (!take_socket(handover_new, err))
			return false;
	for (uint32_t i = 0; i < secrets; i++)
		if (!take_secret(handover_new, err))
			return false;
	if (!take_quota_ledger(handover_new, err))
		return false;
	for (uint32_t i = 0; i < dynamic_sandboxes; i++)
		if (!take_dynamic_sandbox(handover_new, err))
			return false;
	return true;
}

bool kh_handover_new_check_ca(const struct kh_handover_new *handover_new,
			      const struct kh_worker_process *worker_process, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf mark;
	kh_buf_init(&mark, KH_LIMIT_CHANNEL_BYTES);
	if (!kh_ca_in_force_mark(&mark, worker_process->config, worker_process->ca,
				 &worker_process->tenant_cas))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "handover: no memory");
	return kh_slice_eq(kh_buf_view(&mark), kh_buf_view(&handover_new->ca_mark)) ||
	       kh_err_set(err, KH_ERR_CONFIG,
			  "%s not the one in use, which sandboxes trust (reload first: that "
			  "takes it)",
			  worker_process->tenant_cas.list ? "a tenant's CA is" : "the CA is");
}

bool kh_handover_new_has_config(const struct kh_handover_new *handover_new,
				const struct kh_config *config)
{
	kh_cleanup(kh_buf_fini) struct kh_buf mark;
	kh_buf_init(&mark, KH_LIMIT_CHANNEL_BYTES);
	return kh_config_put_mark(config, &mark) && kh_buf_len(&mark) > 0 &&
	       kh_slice_eq(kh_buf_view(&mark), kh_buf_view(&handover_new->config_mark));
}

enum kh_handover_new_news kh_handover_new_turn(struct kh_handover_new *handover_new)
{
	struct kh_channel_message message;
	kill_late(handover_new);
	while (handover_new->channel.fd >= 0) {
		enum kh_channel_status got =
			kh_channel_receive(&handover_new->channel, false, &message);
		uint32_t type = message.type;
		if (got == KH_CHANNEL_AGAIN)
			return KH_HANDOVER_NEW_NO_NEWS;
		if (got == KH_CHANNEL_GOT)
			kh_channel_message_close(&message);
		if (got == KH_CHANNEL_GOT && handover_new->state == KH_HANDOVER_NEW_PREPARED &&
		    type == KH_HANDOVER_MSG_MOVE)
			return KH_HANDOVER_NEW_MOVE;
		if (got == KH_CHANNEL_GOT && handover_new->state == KH_HANDOVER_NEW_MOVED &&
		    type == KH_HANDOVER_MSG_OPEN)
			return KH_HANDOVER_NEW_OPEN;
		kh_channel_fini(&handover_new->channel);
		if (handover_new->state != KH_HANDOVER_NEW_OURS)
			return KH_HANDOVER_NEW_CALLED_OFF;
		(void)kh_handover_new_set_state(handover_new, KH_HANDOVER_NEW_ENDING, NULL);
		bool well = got == KH_CHANNEL_GOT && type == KH_HANDOVER_MSG_GONE;
		handover_new->gone_ms = handover_new->join_ms =
			kh_clock_mono_ms() + (well ? 0 : ORPHAN_MS);
	}
	return KH_HANDOVER_NEW_NO_NEWS;
}

void kh_handover_new_fini(struct kh_handover_new *handover_new)
{
	if (handover_new->state == KH_HANDOVER_NEW_NONE && handover_new->channel.fd < 0)
		return;
	kh_channel_fini(&handover_new->channel);
	kh_variables_fini(&handover_new->vault);
	if (handover_new->config && handover_new->sockets.listening) {
		kh_sockets_forget(&handover_new->sockets);
		kh_sockets_close(&handover_new->sockets);
	}
	kh_config_free(handover_new->config);
	handover_new->config = NULL;
	kh_quota_slots_free(handover_new->quota_slots);
	handover_new->quota_slots = NULL;
	kh_buf_fini(&handover_new->ca_mark);
	kh_buf_fini(&handover_new->config_mark);
	if (handover_new->segment >= 0)
		(void)close(handover_new->segment);
	handover_new->segment = -1;
	(void)kh_handover_new_set_state(handover_new, KH_HANDOVER_NEW_NONE, NULL);
}
