/* worker_process_journal.c - what keeper and worker tell each other of the journal's last lines */

#include "keeper_internal.h"

#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>
#include <keyhole/base/wire.h>
#include <keyhole/base/worker_messages.h>

static const struct kh_slice nothing = { "", 0 };

bool kh_worker_process_ask_head(struct kh_worker_process *worker_process)
{
	if (worker_process->state != KH_WORKER_PROCESS_SERVING)
		return false;
	worker_process->head_known = false;
	worker_process->head_asked = kh_channel_send(
		&worker_process->channel, KH_WORKER_MSG_HEAD_REQUEST, 0, nothing, NULL, 0, NULL);
	return worker_process->head_asked;
}

void kh_worker_process_join(struct kh_worker_process *worker_process, int segment,
			    const struct kh_journal_base *cut)
{
	struct kh_journal_files files;
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, 2 * sizeof(*cut));
	if (kh_journal_lend(segment, &files, NULL) && kh_wire_put_u64(&body, cut->seq) &&
	    kh_wire_put_bytes(&body, kh_slice_of((const char *)cut->hash, sizeof(cut->hash))) &&
	    kh_channel_send(&worker_process->channel, KH_WORKER_MSG_JOIN, 0, kh_buf_view(&body),
			    (int[]){ files.append, files.read }, 2, NULL))
		worker_process->join = KH_WORKER_PROCESS_JOIN_ASKED;
	kh_journal_lent(segment, &files);
}

bool kh_worker_process_on_checkpoint(struct kh_worker_process *worker_process,
				     const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	uint64_t seq = kh_wire_u64(&r);
	struct kh_slice head = kh_wire_bytes(&r);
	uint64_t end = kh_wire_u64(&r);
	struct kh_checkpoint line = { .seq = seq, .end = end };
	if (!kh_wire_done(&r) || head.len != sizeof(line.hash))
		return false;
	memcpy(line.hash, head.ptr, sizeof(line.hash));
	if (!worker_process->frozen)
		kh_worker_process_note_line(worker_process, &line);
	return true;
}

bool kh_worker_process_on_head(struct kh_worker_process *worker_process,
			       const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	uint64_t seq = kh_wire_u64(&r);
	struct kh_slice hash = kh_wire_bytes(&r);
	if (!kh_wire_done(&r) || !worker_process->head_asked ||
	    hash.len != sizeof(worker_process->head.hash))
		return false;
	if (seq == 0 || seq < worker_process->checkpoint.seq ||
	    !kh_worker_process_can_be_at(worker_process, seq, 0)) {
		kh_worker_process_doubt(worker_process, seq);
		return false;
	}
	worker_process->head.seq = seq;
	memcpy(worker_process->head.hash, hash.ptr, sizeof(worker_process->head.hash));
	worker_process->head_asked = false;
	worker_process->head_known = true;
	return true;
}

bool kh_worker_process_on_joined(struct kh_worker_process *worker_process,
				 const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	kh_auto_free char *why = kh_wire_str(&r);
	if (!kh_wire_done(&r) || worker_process->join != KH_WORKER_PROCESS_JOIN_ASKED)
		return false;
	worker_process->join = why ? KH_WORKER_PROCESS_JOIN_NONE : KH_WORKER_PROCESS_JOINED;
	if (why)
		kh_log_error("the end of the journal's segment before can't be written: %s",
			     kh_esc_str(why));
	return true;
}
