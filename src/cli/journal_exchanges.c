/*
 * journal_exchanges.c - a journal as exchanges: each open record with its end
 *
 * An open waits for its close and is handed over with it; what still waits at the end is handed
 * over as it is. What does not continue the chain is kept apart until a `recovered` record says
 * that it was torn, or until nothing can say so any more.
 */
#include "journal_exchanges.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/audit/audit.h>
#include <keyhole/base/json_load.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

#include "cli_internal.h"
#include "record_text.h"

enum {
	ID_BYTES = 18, /* an x, 16 digits and a NUL */
	/* Exchanges that wait for their close at a time; above it the oldest is handed over. */
	MOST_WAITING = 65536,
	/* Bytes out of the chain that wait for the `recovered` record that explains them: as many
	 * as one can, and what was read with the last of them. */
	APART_BYTES = KH_LIMIT_TORN_BYTES + 256 * 1024,
};

struct reading {
	const struct kh_journal_reader *to;
	struct kh_journal_flaws *flaws;
	json_t *waiting;     /* id → open record, in the order of the file */
	json_t *astray;	     /* the ids among them whose record does not continue the chain */
	struct kh_buf apart; /* what does not continue it: torn, if a `recovered` record says so */
	uint64_t apart_line; /* of its first byte */
	bool is_astray;	     /* what is followed does not */
};

static bool is_event(const json_t *record, const char *event)
{
	return kh_slice_eq(kh_record_text(record, "event"), kh_slice_str(event));
}

bool kh_journal_exchange_is_refused(const struct kh_journal_exchange *exchange)
{
	struct kh_slice reason = kh_record_text(exchange->close, "reason");
	uint64_t status = kh_record_number(exchange->close, "http.response.status_code");

	return exchange->close &&
	       (is_event(exchange->open, "deny") ||
		kh_err_is_refusal(kh_err_of_reason(reason.ptr, reason.len), (int)status));
}

static void hand_over(const struct reading *r, const json_t *open, const json_t *close,
		      enum kh_journal_end end, bool astray)
{
	const struct kh_journal_exchange exchange = {
		.open = open, .close = close, .end = end, .astray = astray
	};

	r->to->exchange(r->to->context, &exchange);
}

/* One that waits, with its end. */
static void end(struct reading *r, const char *id, const json_t *close, enum kh_journal_end end)
{
	bool end_is_astray = r->is_astray && end != KH_END_NONE;

	hand_over(r, json_object_get(r->waiting, id), close, end,
		  end_is_astray || json_object_get(r->astray, id));
	(void)json_object_del(r->astray, id);
	(void)json_object_del(r->waiting, id);
}

static void end_first(struct reading *r)
{
	void *first = json_object_iter(r->waiting);
	char id[ID_BYTES];

	if (!first)
		return;
	(void)snprintf(id, sizeof(id), "%s", json_object_iter_key(first));
	end(r, id, NULL, KH_END_NONE);
}

static void wait_for_end(struct reading *r, const char *id, json_t *open)
{
	json_t *other = json_object_get(r->waiting, id);

	/* Never silently in the other's place: who can write lines can hide none. */
	if (other) {
		(void)json_object_set_new(other, "opened_again", json_true());
		end(r, id, NULL, KH_END_OPENED_AGAIN);
	}
	(void)json_object_set(r->waiting, id, open);
	if (r->is_astray)
		(void)json_object_set_new(r->astray, id, json_true());
	if (json_object_size(r->waiting) > MOST_WAITING)
		end_first(r);
}

/* Which exchange a record is about, the line says as it does to verification. */
static void follow(struct reading *r, struct kh_slice line, json_t *record)
{
	char name[ID_BYTES];
	uint64_t number;
	const char *id = kh_line_id(line, &number) ? name : NULL;

	(void)snprintf(name, sizeof(name), "x%016" PRIx64, number);
	bool waits = id && json_object_get(r->waiting, id);

	if (is_event(record, "open") && id)
		wait_for_end(r, id, record);
	else if (is_event(record, "close") && waits)
		end(r, id, record, KH_END_CLOSED);
	else if (is_event(record, "aborted") && waits)
		end(r, id, NULL, KH_END_ABORTED);
	else if (is_event(record, "open"))
		hand_over(r, record, NULL, KH_END_NO_ID, r->is_astray);
	else if (is_event(record, "deny") || is_event(record, "close"))
		hand_over(r, record, record, KH_END_CLOSED, r->is_astray);
	else
		r->to->record(r->to->context, record, r->is_astray);
}

/* Return: NULL for a line that is no record. */
static json_t *record_of(struct kh_slice line)
{
	json_t *record = kh_json_load(line, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);

	if (json_is_object(record) && kh_record_text(record, "event").len > 0)
		return record;
	json_decref(record);
	return NULL;
}

static bool take_apart_line(struct kh_slice *rest, struct kh_slice *line)
{
	size_t newline = kh_slice_find(*rest, '\n', 0);

	if (rest->len == 0)
		return false;
	*line = kh_slice_sub(*rest, 0, newline);
	*rest = kh_slice_sub(*rest, newline + 1, rest->len);
	return true;
}

/* The journal says that they were torn. */
static void drop_apart(struct reading *r)
{
	struct kh_slice rest = kh_buf_view(&r->apart), line;

	while (take_apart_line(&rest, &line)) {
		json_t *record = record_of(line);
		r->flaws->torn += record != NULL;
		json_decref(record);
	}
	kh_buf_clear(&r->apart);
	r->flaws->astray_line = 0;
}

static void note_foreign(struct reading *r, uint64_t line)
{
	if (r->flaws->foreign++ == 0)
		r->flaws->foreign_line = line;
}

/* They were not torn: nothing of a broken journal is left out. */
static void follow_apart(struct reading *r)
{
	struct kh_slice rest = kh_buf_view(&r->apart), line;

	r->is_astray = true;
	for (uint64_t number = r->apart_line; take_apart_line(&rest, &line); number++) {
		json_t *record = record_of(line);
		r->flaws->astray += record != NULL;
		r->flaws->records += record != NULL;
		if (record)
			follow(r, line, record);
		else
			note_foreign(r, number);
		json_decref(record);
	}
	r->is_astray = false;
	kh_buf_clear(&r->apart);
}

static void put_apart(struct reading *r, const struct kh_journal_piece *piece)
{
	if (r->flaws->astray_line == 0)
		r->flaws->astray_line = piece->line;
	if (kh_buf_len(&r->apart) == 0)
		r->apart_line = piece->line;
	if (!kh_buf_append_slice(&r->apart, piece->bytes) ||
	    (piece->ends && !kh_buf_append_char(&r->apart, '\n')))
		follow_apart(r);
	if (piece->place == KH_JOURNAL_BROKEN && piece->ends)
		follow_apart(r);
}

static void take_piece(void *context, const struct kh_journal_piece *piece)
{
	struct reading *r = context;
	json_t *record;

	r->flaws->lines = piece->line;
	r->flaws->cut_line = piece->ends ? 0 : piece->line;
	if (piece->place == KH_JOURNAL_APART || piece->place == KH_JOURNAL_BROKEN) {
		put_apart(r, piece);
		return;
	}
	if (piece->place == KH_JOURNAL_RECOVERED)
		drop_apart(r);
	record = record_of(piece->bytes);
	r->flaws->records += record != NULL;
	if (record)
		follow(r, piece->bytes, record);
	else
		note_foreign(r, piece->line);
	json_decref(record);
}

static bool begin(struct reading *r, const struct kh_journal_reader *reader,
		  struct kh_journal_flaws *flaws, struct kh_err *err)
{
	*r = (struct reading){
		.to = reader, .flaws = flaws, .waiting = json_object(), .astray = json_object()
	};
	*flaws = (struct kh_journal_flaws){ 0 };
	kh_buf_init(&r->apart, APART_BYTES);
	return (r->waiting && r->astray) || kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
}

static void hand_over_rest(struct reading *r)
{
	follow_apart(r);
	while (json_object_size(r->waiting) > 0)
		end_first(r);
}

static void fini(struct reading *r)
{
	json_decref(r->waiting);
	json_decref(r->astray);
	kh_buf_fini(&r->apart);
}

bool kh_journal_exchanges(int fd, const struct kh_journal_reader *reader,
			  struct kh_journal_flaws *flaws, struct kh_err *err)
{
	struct reading r;
	bool ok = begin(&r, reader, flaws, err);

	if (ok) {
		ok = kh_journal_read(fd, take_piece, &r, err);
		hand_over_rest(&r);
	}
	flaws->unread = !ok;
	fini(&r);
	return ok;
}

struct kh_journal_following {
	struct reading reading;
	struct kh_journal_follower *follower;
};

struct kh_journal_following *kh_journal_following_new(int fd,
						      const struct kh_journal_reader *reader,
						      struct kh_journal_flaws *flaws,
						      struct kh_err *err)
{
	struct kh_journal_following *f = calloc(1, sizeof(*f));

	if (!f) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
		return NULL;
	}
	if (begin(&f->reading, reader, flaws, err) &&
	    (f->follower = kh_journal_follower_new(fd, err)))
		return f;
	kh_journal_following_free(f);
	return NULL;
}

bool kh_journal_following_read(struct kh_journal_following *f, struct kh_err *err)
{
	return kh_journal_follower_read(f->follower, take_piece, &f->reading, err);
}

bool kh_journal_following_end(struct kh_journal_following *f, struct kh_err *err)
{
	bool ok = kh_journal_follower_end(f->follower, take_piece, &f->reading, err);

	f->reading.flaws->unread = !ok;
	hand_over_rest(&f->reading);
	return ok;
}

void kh_journal_following_free(struct kh_journal_following *f)
{
	if (!f)
		return;
	kh_journal_follower_free(f->follower);
	fini(&f->reading);
	free(f);
}

bool kh_journal_complain(const char *command, const char *journal,
			 const struct kh_journal_flaws *flaws, const char *what)
{
	const char *name = kh_esc_str(journal);

	if (flaws->foreign > 0 && flaws->records == 0) {
		kh_cli_complain("%s: %s: this is no journal of keyhole: none of its %" PRIu64
				" lines is a record",
				command, name, flaws->foreign);
		return false;
	}
	if (flaws->foreign > 0)
		kh_cli_complain("%s: %s: %" PRIu64
				" lines are no records, the first is line %" PRIu64
				" (see `keyhole audit verify`)",
				command, name, flaws->foreign, flaws->foreign_line);
	if (flaws->cut_line > 0)
		kh_cli_complain("%s: %s: line %" PRIu64 " is cut off: no newline ends it", command,
				name, flaws->cut_line);
	if (flaws->lines == 0 && !flaws->unread)
		kh_cli_complain("%s: %s: empty: a journal has a `start` record at least", command,
				name);
	if (flaws->astray > 0)
		kh_cli_complain("%s: %s: %" PRIu64 " records from line %" PRIu64 " on are %s they "
				"do not continue the chain (see `keyhole audit verify`)",
				command, name, flaws->astray, flaws->astray_line, what);
	if (flaws->torn > 0)
		kh_cli_complain("%s: %s: %" PRIu64 " records are left out: the journal declares "
				"them torn",
				command, name, flaws->torn);
	return true;
}
