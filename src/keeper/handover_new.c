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

bool kh_legacy_is_pending(const struct kh_legacy *legacy)
{
	return legacy->state >= KH_LEGACY_OFFERED && legacy->state <= KH_LEGACY_MOVED;
}

bool kh_legacy_say(struct kh_legacy *legacy, enum kh_handover_msg_to_old type, struct kh_err *err)
{
	return legacy->channel.fd < 0 ||
	       kh_channel_send(&legacy->channel, type, KH_HANDOVER_VERSION, nothing, NULL, 0, err);
}

bool kh_legacy_is_gone(const struct kh_legacy *legacy)
{
	return legacy->state == KH_LEGACY_NONE ||
	       (legacy->state == KH_LEGACY_ENDING && kh_clock_mono_ms() >= legacy->gone_ms);
}

void kh_legacy_supersede(struct kh_legacy *legacy)
{
	if (legacy->state != KH_LEGACY_OURS || legacy->kill_ms)
		return;
	legacy->kill_ms = kh_clock_mono_ms();
	if (kh_legacy_say(legacy, KH_HANDOVER_MSG_SUPERSEDE, NULL))
		legacy->kill_ms += SUPERSEDED_MS;
}

uint64_t kh_legacy_deadline(const struct kh_legacy *legacy)
{
	if (legacy->state == KH_LEGACY_OURS)
		return legacy->kill_ms;
	return legacy->state == KH_LEGACY_ENDING && !kh_legacy_is_gone(legacy) ? legacy->gone_ms
									       : 0;
}

/* It does not end by itself; its worker dies with it. Who is no longer our parent has ended. */
static void kill_late(struct kh_legacy *legacy)
{
	if (legacy->state != KH_LEGACY_OURS || !legacy->kill_ms ||
	    kh_clock_mono_ms() < legacy->kill_ms)
		return;
	legacy->kill_ms = kh_clock_mono_ms() + SUPERSEDED_MS;
	if (getppid() != legacy->parent)
		return;
	kh_log_warn("process %ld does not end what it has under former rules: it is killed",
		    (long)legacy->parent);
	(void)kill(legacy->parent, SIGKILL);
}

static bool say_text(struct kh_legacy *legacy, enum kh_handover_msg_to_old type, const char *text,
		     struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 2);
	return kh_wire_put_str(&body, text) &&
	       kh_channel_send(&legacy->channel, type, KH_HANDOVER_VERSION, kh_buf_view(&body),
			       NULL, 0, err);
}

void kh_legacy_refuse(struct kh_legacy *legacy, const char *why)
{
	if (kh_legacy_is_pending(legacy) && legacy->channel.fd >= 0)
		(void)say_text(legacy, KH_HANDOVER_MSG_FAILED, why, NULL);
}

static bool not_understood(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_INTERNAL,
			  "handover: the offer is not understood (restart instead)");
}

/* Waits: the old one ends this process when that takes too long. */
static bool hear_any(struct kh_legacy *legacy, enum kh_handover_msg_to_new type,
		     struct kh_channel_message *message, struct kh_err *err)
{
	enum kh_channel_status got;
	do
		got = kh_channel_receive(&legacy->channel, true, message);
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
static bool hear(struct kh_legacy *legacy, enum kh_handover_msg_to_new type,
		 struct kh_channel_message *message, struct kh_err *err)
{
	if (!hear_any(legacy, type, message, err))
		return false;
	if (message->n_fds == 1)
		return true;
	kh_channel_message_close(message);
	return not_understood(err);
}

static bool take_offer(struct kh_legacy *legacy, uint32_t *sockets, uint32_t *secrets,
		       uint32_t *dynamic_sandboxes, struct kh_err *err)
{
	struct kh_channel_message message;
	if (!hear(legacy, KH_HANDOVER_MSG_OFFER, &message, err))
		return false;
	legacy->segment = kh_steal_fd(&message.fds[0]);
	struct kh_wire_reader r = { .rest = message.body };
	*sockets = kh_wire_u32(&r);
	*secrets = kh_wire_u32(&r);
	*dynamic_sandboxes = kh_wire_u32(&r);
	legacy->cut.seq = kh_wire_u64(&r);
	struct kh_slice hash = kh_wire_bytes(&r), mark = kh_wire_bytes(&r),
			config = kh_wire_bytes(&r);
	if (!kh_wire_done(&r) || hash.len != sizeof(legacy->cut.hash) || legacy->cut.seq == 0 ||
	    *sockets > LISTENERS_MOST || *secrets > SECRETS_MOST ||
	    *dynamic_sandboxes > KH_LIMIT_DYNAMIC_SANDBOXES)
		return not_understood(err);
	memcpy(legacy->cut.hash, hash.ptr, hash.len);
	return (kh_buf_append_slice(&legacy->ca_mark, mark) &&
		kh_buf_append_slice(&legacy->config_mark, config)) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "handover: no memory");
}

static bool make_room(struct kh_legacy *legacy, uint32_t sockets, struct kh_err *err)
{
	struct kh_config *config = legacy->config = calloc(1, sizeof(*config));
	if (config) {
		config->listeners = calloc(sockets + 1, sizeof(*config->listeners));
		legacy->sockets.listening = calloc(sockets + 1, sizeof(*legacy->sockets.listening));
	}
	legacy->sockets.config = legacy->vault.config = config;
	return (config && config->listeners && legacy->sockets.listening) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "handover: no memory");
}

static bool take_socket(struct kh_legacy *legacy, struct kh_err *err)
{
	struct kh_channel_message message;
	if (!hear(legacy, KH_HANDOVER_MSG_OFFER_SOCKET, &message, err))
		return false;
	struct kh_listening *l = &legacy->sockets.listening[legacy->sockets.count++];
	struct kh_wire_reader r = { .rest = message.body };
	l->fd = kh_steal_fd(&message.fds[0]);
	char *path = kh_wire_str(&r);
	legacy->config->listeners[legacy->config->n_listeners++].name = path;
	l->dev = (dev_t)kh_wire_u64(&r);
	l->ino = (ino_t)kh_wire_u64(&r);
	return (kh_wire_done(&r) && path) || not_understood(err);
}

static bool take_secret(struct kh_legacy *legacy, struct kh_err *err)
{
	struct kh_channel_message message;
	if (!hear(legacy, KH_HANDOVER_MSG_OFFER_SECRET, &message, err))
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
	if (kh_variables_add(&legacy->vault, variable, secret)) {
		(void)kh_steal_ptr(&variable);
		return true;
	}
	kh_secret_unref(secret);
	return kh_err_set(err, KH_ERR_NO_MEMORY, "handover: no memory");
}

static bool take_quota_ledger(struct kh_legacy *legacy, struct kh_err *err)
{
	enum { OFFER_BYTES = 64 * 1024 * 1024 };
	struct kh_channel_message message;
	if (!hear(legacy, KH_HANDOVER_MSG_OFFER_QUOTA_LEDGER, &message, err))
		return false;
	kh_auto_close int quota_ledger = kh_steal_fd(&message.fds[0]);
	struct kh_wire_reader r = { .rest = message.body };
	uint8_t column = kh_wire_u8(&r);
	if (!kh_wire_done(&r) || column > 1)
		return not_understood(err);
	legacy->column = column;
	if (!hear(legacy, KH_HANDOVER_MSG_OFFER_QUOTA_SLOTS, &message, err))
		return false;
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;
	kh_buf_init(&bytes, OFFER_BYTES);
	bool read = kh_file_read_fd(message.fds[0], &bytes, err);
	kh_channel_message_close(&message);
	if (read)
		legacy->quota_slots =
			kh_quota_slots_take(kh_steal_fd(&quota_ledger), kh_buf_view(&bytes), err);
	return legacy->quota_slots != NULL;
}

static bool take_dynamic_sandbox(struct kh_legacy *legacy, struct kh_err *err)
{
	struct kh_channel_message message;
	if (!hear_any(legacy, KH_HANDOVER_MSG_OFFER_DYNAMIC_SANDBOX, &message, err))
		return false;
	bool ok = kh_registry_take_offer(legacy->dynamic_sandboxes, &message, err);
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

bool kh_legacy_take(struct kh_legacy *legacy, struct kh_err *err)
{
	uint32_t sockets, secrets, dynamic_sandboxes;
	kh_buf_init(&legacy->ca_mark, KH_LIMIT_CHANNEL_BYTES);
	kh_buf_init(&legacy->config_mark, KH_LIMIT_CHANNEL_BYTES);
	legacy->parent = getppid();
	if (!is_handed_over())
		return kh_err_set(err, KH_ERR_USAGE,
				  "--handover is for keyhole itself (send SIGUSR2 to the daemon)");
	if (!kh_channel_init(&legacy->channel, KH_KEEPER_HANDOVER_FD, KH_HANDOVER_MSG_TO_NEW_SET,
			     err))
		return false;
	legacy->state = KH_LEGACY_OFFERED;
	if (!say_text(legacy, KH_HANDOVER_MSG_HELLO, KH_VERSION, err) ||
	    !take_offer(legacy, &sockets, &secrets, &dynamic_sandboxes, err) ||
	    !make_room(legacy, sockets, err))
		return false;
	for (uint32_t i = 0; i < sockets; i++)
		if (!take_socket(legacy, err))
			return false;
	for (uint32_t i = 0; i < secrets; i++)
		if (!take_secret(legacy, err))
			return false;
	if (!take_quota_ledger(legacy, err))
		return false;
	for (uint32_t i = 0; i < dynamic_sandboxes; i++)
		if (!take_dynamic_sandbox(legacy, err))
			return false;
	return true;
}

bool kh_legacy_check_ca(const struct kh_legacy *legacy,
			const struct kh_worker_process *worker_process, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf mark;
	kh_buf_init(&mark, KH_LIMIT_CHANNEL_BYTES);
	if (!kh_ca_in_force_mark(&mark, worker_process->config, worker_process->ca,
				 &worker_process->tenant_cas))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "handover: no memory");
	return kh_slice_eq(kh_buf_view(&mark), kh_buf_view(&legacy->ca_mark)) ||
	       kh_err_set(err, KH_ERR_CONFIG,
			  "%s not the one in use, which sandboxes trust (reload first: that "
			  "takes it)",
			  worker_process->tenant_cas.list ? "a tenant's CA is" : "the CA is");
}

bool kh_legacy_has_config(const struct kh_legacy *legacy, const struct kh_config *config)
{
	kh_cleanup(kh_buf_fini) struct kh_buf mark;
	kh_buf_init(&mark, KH_LIMIT_CHANNEL_BYTES);
	return kh_config_put_mark(config, &mark) && kh_buf_len(&mark) > 0 &&
	       kh_slice_eq(kh_buf_view(&mark), kh_buf_view(&legacy->config_mark));
}

enum kh_legacy_news kh_legacy_turn(struct kh_legacy *legacy)
{
	struct kh_channel_message message;
	kill_late(legacy);
	while (legacy->channel.fd >= 0) {
		enum kh_channel_status got = kh_channel_receive(&legacy->channel, false, &message);
		uint32_t type = message.type;
		if (got == KH_CHANNEL_AGAIN)
			return KH_LEGACY_NO_NEWS;
		if (got == KH_CHANNEL_GOT)
			kh_channel_message_close(&message);
		if (got == KH_CHANNEL_GOT && legacy->state == KH_LEGACY_PREPARED &&
		    type == KH_HANDOVER_MSG_MOVE)
			return KH_LEGACY_MOVE;
		if (got == KH_CHANNEL_GOT && legacy->state == KH_LEGACY_MOVED &&
		    type == KH_HANDOVER_MSG_OPEN)
			return KH_LEGACY_OPEN;
		kh_channel_fini(&legacy->channel);
		if (legacy->state != KH_LEGACY_OURS)
			return KH_LEGACY_CALLED_OFF;
		legacy->state = KH_LEGACY_ENDING;
		bool well = got == KH_CHANNEL_GOT && type == KH_HANDOVER_MSG_GONE;
		legacy->gone_ms = legacy->join_ms = kh_clock_mono_ms() + (well ? 0 : ORPHAN_MS);
	}
	return KH_LEGACY_NO_NEWS;
}

void kh_legacy_fini(struct kh_legacy *legacy)
{
	if (legacy->state == KH_LEGACY_NONE && legacy->channel.fd < 0)
		return;
	kh_channel_fini(&legacy->channel);
	kh_variables_fini(&legacy->vault);
	if (legacy->config && legacy->sockets.listening) {
		kh_sockets_forget(&legacy->sockets);
		kh_sockets_close(&legacy->sockets);
	}
	kh_config_free(legacy->config);
	legacy->config = NULL;
	kh_quota_slots_free(legacy->quota_slots);
	legacy->quota_slots = NULL;
	kh_buf_fini(&legacy->ca_mark);
	kh_buf_fini(&legacy->config_mark);
	if (legacy->segment >= 0)
		(void)close(legacy->segment);
	legacy->segment = -1;
	legacy->state = KH_LEGACY_NONE;
}
