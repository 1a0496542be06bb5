/* worker_start.c - handles the messages of a worker's start, in their order */

#include "worker_start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/log.h>
#include <keyhole/base/wire.h>
#include <keyhole/base/worker_messages.h>
#include <keyhole/worker/worker.h>

#include <keyhole/admin/admin.h>
#include <keyhole/loop/leaf_requests.h>

enum { RESOLVER_FILE_BYTES = 8 * 1024 * 1024 };

void kh_worker_start_init(struct kh_beginning *b, struct kh_worker *worker)
{
	*b = (struct kh_beginning){
		.worker = worker, .done = -1, .written = -1, .journal_files = { -1, -1 }
	};
	kh_buf_init(&b->resolv_conf, RESOLVER_FILE_BYTES);
	kh_buf_init(&b->hosts, RESOLVER_FILE_BYTES);
}

static bool not_understood(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_INTERNAL, "the keeper's message is not understood");
}

static bool take_snapshot(struct kh_beginning *b, struct kh_channel_message *message,
			  struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	w->current = kh_generation_take_snapshot(message, NULL, err);
	if (!w->current)
		return false;
	kh_log_set_level(w->current->config->log_level);
	return kh_leaf_requests_init(w, err);
}

static bool take_journal(struct kh_beginning *b, struct kh_channel_message *message,
			 struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = message->body };
	struct kh_journal_base base = { .seq = kh_wire_u64(&r) };
	struct kh_slice hash = kh_wire_bytes(&r);
	b->journal_held = kh_wire_u8(&r) != 0;
	struct kh_journal_past *past = &b->journal_past;
	base.set_aside = kh_wire_u8(&r) != 0;
	base.ended = kh_wire_u8(&r) != 0;
	base.open = kh_wire_u8(&r) != 0;
	struct kh_journal_base before = { .seq = kh_wire_u64(&r) };
	struct kh_slice before_hash = kh_wire_bytes(&r);
	past->followed = kh_wire_u8(&r) != 0;
	past->since = kh_wire_u64(&r);
	past->told = (struct kh_checkpoint){ .seq = kh_wire_u64(&r) };
	struct kh_slice told = kh_wire_bytes(&r);
	past->told.end = kh_wire_u64(&r);
	if (message->n_fds != (before.seq ? 4 : 2) || !kh_wire_done(&r) ||
	    hash.len != sizeof(base.hash) || before_hash.len != sizeof(before.hash) ||
	    told.len != sizeof(past->told.hash))
		return not_understood(err);
	memcpy(before.hash, before_hash.ptr, sizeof(before.hash));
	b->before = before;
	memcpy(base.hash, hash.ptr, sizeof(base.hash));
	memcpy(past->told.hash, told.ptr, sizeof(past->told.hash));
	b->journal_base = base;
	b->journal_files.append = kh_steal_fd(&message->fds[0]);
	b->journal_files.read = kh_steal_fd(&message->fds[1]);
	if (before.seq)
		b->before_files = (struct kh_journal_files){ kh_steal_fd(&message->fds[2]),
							     kh_steal_fd(&message->fds[3]) };
	return true;
}

/* Where the disk is full, nothing is known against the journal. */
static enum kh_worker_exit exit_of(const struct kh_err *err, enum kh_worker_exit other)
{
	return err->sys == ENOSPC || err->sys == EDQUOT ? KH_WORKER_EXIT_NO_ROOM : other;
}

/* It goes on in a new segment; this one is closed as its next writer would close it. */
static enum kh_worker_exit end_long_journal(const struct kh_beginning *b, struct kh_err *err)
{
	bool spoiled;
	if (kh_journal_end_file(b->journal_files, b->worker->current->config->durability,
				&b->journal_base, &spoiled, err)) {
		kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE,
			   "journal: it is too long to be followed at a start: it goes on in a new "
			   "file (`keyhole audit verify` checks all)");
		return KH_WORKER_EXIT_TOO_LONG;
	}
	return spoiled ? KH_WORKER_EXIT_SPOILED : exit_of(err, KH_WORKER_EXIT_JOURNAL);
}

static bool follow_journal(struct kh_beginning *b, struct kh_err *err)
{
	enum kh_journal_followed how;
	struct kh_checkpoint last;
	bool ok = kh_journal_is_continued(b->journal_files.read, &b->journal_base, &b->journal_past,
					  &how, &last, err);
	if (how == KH_FOLLOWED_SPOILED && last.end > 0)
		(void)kh_journal_talk_line(b->worker, &last);
	if (how == KH_FOLLOWED_TOO_LONG)
		b->journal_exit = end_long_journal(b, err);
	else if (how == KH_FOLLOWED_SPOILED)
		b->journal_exit = KH_WORKER_EXIT_SPOILED;
	return ok;
}

/* A worker before this one said that it has done so. If it had been taken over, it may not have, or
 * may have named another end. */
static void join_again(struct kh_beginning *b)
{
	struct kh_err err = KH_ERR_INIT;
	if (!b->before.seq)
		return;
	if (!kh_journal_join(b->worker->journal, b->before_files, &b->before, &err))
		kh_log_error("the end of the journal's segment before can't be written: %s",
			     err.text);
	(void)close(b->before_files.append);
	(void)close(b->before_files.read);
}

bool kh_worker_start_journal(struct kh_beginning *b, struct kh_err *err)
{
	struct kh_worker *w = b->worker;
	struct kh_journal_report report = { .seq = 0 };
	w->journal_fd = b->journal_files.append;
	b->journal_exit = KH_WORKER_EXIT_JOURNAL;
	if (!follow_journal(b, err))
		return false;
	w->journal = kh_journal_open_segment(b->journal_files, w->current->config->durability,
					     &b->journal_base, &report, err);
	if (!w->journal) {
		b->journal_exit = report.spoiled ? KH_WORKER_EXIT_SPOILED
						 : exit_of(err, KH_WORKER_EXIT_JOURNAL);
		return false;
	}
	join_again(b);
	kh_journal_hold(w->journal, b->journal_held);
	if (report.unread > 0)
		kh_log_warn("journal: exchanges that began in its first %llu bytes and did not end "
			    "are not marked (too much to read)",
			    (unsigned long long)report.unread);
	if (report.recovered_bytes > 0)
		kh_log_warn("journal: a torn line of %llu bytes at offset %llu was closed",
			    (unsigned long long)report.recovered_bytes,
			    (unsigned long long)report.recovered_offset);
	if (report.aborted > 0)
		kh_log_warn("journal: %llu exchanges of an earlier life were marked aborted",
			    (unsigned long long)report.aborted);
	return true;
}

static bool take_roots(struct kh_beginning *b, struct kh_channel_message *message)
{
	b->n_roots = message->n_fds;
	for (unsigned i = 0; i < message->n_fds; i++)
		b->roots[i] = kh_steal_fd(&message->fds[i]);
	b->worker->roots = kh_roots_new();
	return b->worker->roots != NULL;
}

static bool take_resolver(struct kh_beginning *b, struct kh_channel_message *message,
			  struct kh_err *err)
{
	if (message->n_fds != 2)
		return not_understood(err);
	return kh_file_read_fd(message->fds[0], &b->resolv_conf, err) &&
	       kh_file_read_fd(message->fds[1], &b->hosts, err);
}

/* One message of the start: it must be of type `next`, or, where listeners are still missing, more
 * of them, and as many ISSUERs as there are CAs. */
static bool take(struct kh_beginning *b, enum kh_worker_msg_to_worker next,
		 struct kh_channel_message *message, struct kh_err *err)
{
	if (message->type != next)
		return not_understood(err);
	switch (next) {
	case KH_WORKER_MSG_SNAPSHOT:
		return take_snapshot(b, message, err);
	case KH_WORKER_MSG_LISTENERS:
		return kh_generation_take_listeners(b->worker->current, message, err);
	case KH_WORKER_MSG_GEO:
		return kh_generation_take_geo(b->worker->current, message, err);
	case KH_WORKER_MSG_ADMIN:
		return kh_admin_take_acceptors(b->worker, message, err);
	case KH_WORKER_MSG_FACTS:
		return kh_admin_take_facts(b->worker, message) || not_understood(err);
	case KH_WORKER_MSG_FINGERPRINTS:
		return kh_worker_take_fingerprints(b->worker, message, err);
	case KH_WORKER_MSG_JOURNAL:
		return take_journal(b, message, err);
	case KH_WORKER_MSG_ROOTS:
		return take_roots(b, message) ||
		       kh_err_set(err, KH_ERR_NO_MEMORY, "trust roots: no memory");
	case KH_WORKER_MSG_RESOLVER:
		return take_resolver(b, message, err);
	case KH_WORKER_MSG_ISSUER:
		return kh_leaf_requests_issuer_came(b->worker, b->worker->current, NULL,
						    message->body, err);
	case KH_WORKER_MSG_GO:
		return kh_leaf_requests_issuers_known(b->worker, b->worker->current, err);
	case KH_WORKER_MSG_LEAF:
	case KH_WORKER_MSG_CREDENTIAL:
	case KH_WORKER_MSG_CREDENTIAL_STALE:
	case KH_WORKER_MSG_VERB_DONE:
	case KH_WORKER_MSG_DYNAMIC_SANDBOX:
	case KH_WORKER_MSG_DYNAMIC_SANDBOX_GONE:
	case KH_WORKER_MSG_DYNAMIC_SANDBOX_DONE:
	case KH_WORKER_MSG_JOURNAL_HELD:
	case KH_WORKER_MSG_JOURNAL_CUT:
	case KH_WORKER_MSG_HEAD_REQUEST:
	case KH_WORKER_MSG_RETIRE:
	case KH_WORKER_MSG_SUPERSEDED:
	case KH_WORKER_MSG_JOIN:
	case KH_WORKER_MSG_DRAIN:
		break; /* never next */
	}
	return not_understood(err);
}

static enum kh_worker_msg_to_worker after(const struct kh_beginning *b,
					  enum kh_worker_msg_to_worker type)
{
	static const enum kh_worker_msg_to_worker order[] = {
		KH_WORKER_MSG_SNAPSHOT, KH_WORKER_MSG_LISTENERS, KH_WORKER_MSG_GEO,
		KH_WORKER_MSG_ADMIN,	KH_WORKER_MSG_FACTS,	 KH_WORKER_MSG_FINGERPRINTS,
		KH_WORKER_MSG_JOURNAL,	KH_WORKER_MSG_ROOTS,	 KH_WORKER_MSG_RESOLVER,
		KH_WORKER_MSG_ISSUER,	KH_WORKER_MSG_GO
	};
	if (type == KH_WORKER_MSG_LISTENERS && !kh_generation_is_whole(b->worker->current))
		return type;
	if (type == KH_WORKER_MSG_ISSUER &&
	    !kh_leaf_requests_issuers_known(b->worker, b->worker->current, NULL))
		return type;
	/* Without a tenant there is none. */
	if (type == KH_WORKER_MSG_RESOLVER &&
	    kh_leaf_requests_issuers_known(b->worker, b->worker->current, NULL))
		type = KH_WORKER_MSG_ISSUER;
	/* At a handover the acceptors stay shut until a reload opens them. */
	if (type == KH_WORKER_MSG_SNAPSHOT && kh_generation_is_whole(b->worker->current))
		type = KH_WORKER_MSG_LISTENERS;
	size_t i = 0;
	while (order[i] != type)
		i++;
	return order[i + 1];
}

bool kh_worker_start_take(struct kh_beginning *b, int *status)
{
	enum kh_worker_msg_to_worker next = KH_WORKER_MSG_SNAPSHOT;
	for (;;) {
		struct kh_channel_message message;
		struct kh_err err = KH_ERR_INIT;
		enum kh_channel_status got =
			kh_channel_receive(&b->worker->channel, true, &message);
		if (got == KH_CHANNEL_AGAIN)
			continue;
		if (got != KH_CHANNEL_GOT) {
			*status = KH_WORKER_EXIT_ORPHAN;
			return false;
		}
		bool ok = take(b, next, &message, &err);
		kh_channel_message_close(&message);
		if (!ok) {
			kh_log_error("%s", err.text);
			*status = KH_WORKER_EXIT_START;
			return false;
		}
		if (next == KH_WORKER_MSG_GO)
			return true;
		next = after(b, next);
	}
}
