/* journal_talk.c - messages between worker and keeper about the journal, while the worker serves */

#include "worker_start.h"

#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/wire.h>
#include <keyhole/base/worker_messages.h>

bool kh_journal_talk_head(struct kh_worker *w, struct kh_err *err)
{
	uint64_t seq;
	uint8_t hash[32];
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, sizeof(seq) + sizeof(uint32_t) + sizeof(hash));
	kh_journal_head(w->journal, &seq, hash);
	return kh_wire_put_u64(&body, seq) &&
	       kh_wire_put_bytes(&body, kh_slice_of((const char *)hash, sizeof(hash))) &&
	       kh_channel_send(&w->channel, KH_WORKER_MSG_HEAD, 0, kh_buf_view(&body), NULL, 0,
			       err);
}

/* What can't be joined now is tried again by the keeper, or by the next worker. */
bool kh_journal_talk_join(struct kh_worker *w, struct kh_channel_message *message,
			  struct kh_err *err)
{
	struct kh_wire_reader r = { .rest = message->body };
	struct kh_journal_base cut = { .seq = kh_wire_u64(&r) };
	struct kh_slice hash = kh_wire_bytes(&r);
	if (!kh_wire_done(&r) || message->n_fds != 2 || hash.len != sizeof(cut.hash))
		return kh_err_set(err, KH_ERR_INTERNAL, "the keeper's message is not understood");
	memcpy(cut.hash, hash.ptr, sizeof(cut.hash));
	kh_cleanup(kh_buf_fini) struct kh_buf why;
	kh_buf_init(&why, KH_LIMIT_CHANNEL_BYTES / 2);
	struct kh_err problem = KH_ERR_INIT;
	const struct kh_journal_files files = { message->fds[0], message->fds[1] };
	bool joined = kh_journal_join(w->journal, files, &cut, &problem);
	return kh_wire_put_str(&why, joined ? NULL : problem.text) &&
	       kh_channel_send(&w->channel, KH_WORKER_MSG_JOINED, 0, kh_buf_view(&why), NULL, 0,
			       err);
}

bool kh_journal_talk_held(struct kh_worker *w, struct kh_slice body)
{
	if (body.len != 1 || (unsigned char)body.ptr[0] > 1)
		return false;
	kh_journal_hold(w->journal, body.ptr[0] == 1);
	return true;
}

bool kh_journal_talk_cut(struct kh_worker *w, struct kh_slice body)
{
	struct kh_wire_reader r = { .rest = body };
	uint64_t end = kh_wire_u64(&r);
	if (!kh_wire_done(&r))
		return false;
	kh_journal_was_cut(w->journal, end);
	return true;
}

bool kh_journal_talk_line(struct kh_worker *w, const struct kh_checkpoint *line)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, sizeof(*line) + sizeof(uint32_t));
	return kh_wire_put_u64(&body, line->seq) &&
	       kh_wire_put_bytes(&body,
				 kh_slice_of((const char *)line->hash, sizeof(line->hash))) &&
	       kh_wire_put_u64(&body, line->end) &&
	       kh_channel_send(&w->channel, KH_WORKER_MSG_CHECKPOINT, 0, kh_buf_view(&body), NULL,
			       0, NULL);
}

/* What is in the journal by now, so that the keeper knows it if it is there no longer. */
bool kh_journal_talk_checkpoint(struct kh_worker *w)
{
	struct kh_checkpoint c;

	return !kh_journal_checkpoint(w->journal, &c) || kh_journal_talk_line(w, &c);
}

/* A second behind the first record that follows the last checkpoint. Return: how long to wait. */
int kh_journal_talk_turn(struct kh_beginning *b, bool written)
{
	uint64_t now = kh_clock_mono_ms(), more;
	if (kh_journal_ask_cut(b->worker->journal) &&
	    !kh_channel_send(&b->worker->channel, KH_WORKER_MSG_JOURNAL_TORN, 0,
			     (struct kh_slice){ "", 0 }, NULL, 0, NULL))
		kh_journal_was_cut(b->worker->journal, UINT64_MAX);
	if (written && read(b->written, &more, sizeof(more)) == (ssize_t)sizeof(more) &&
	    !b->checkpoint_ms)
		b->checkpoint_ms = now + KH_LIMIT_CHECKPOINT_MS;
	if (!b->checkpoint_ms)
		return -1;
	if (now < b->checkpoint_ms)
		return (int)(b->checkpoint_ms - now);
	b->checkpoint_ms = 0;
	(void)kh_journal_talk_checkpoint(b->worker);
	return -1;
}
