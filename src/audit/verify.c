/*
 * verify.c - is the journal as it was written?
 *
 * Theory of operation. One pass, line by line, in the memory of one line. chain.c says which lines
 * belong to the journal. What it leaves apart is wrong, and the first such place is the verdict.
 * The rest of the file is read to report more: where a missing line is instead, and which runs of
 * lines hold by themselves. So an operator who kept the head of one of these can check that run.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "audit_internal.h"

struct verifier {
	struct kh_verify_report *report;
	struct kh_chain chain;
	uint64_t sought;		     /* seq of the line that is missing; 0: none */
	const struct kh_verify_report *next; /* of the segment that continues this one, or NULL */
	char due[96]; /* what was wrong, as far as a found line could explain it */
	struct kh_ids open;
	/* The first with that fault; 0: none. */
	uint64_t reopened_line, unmatched_line, joined_line;
	char joined_fault[80];
	/* As they were before the suspicion. */
	uint64_t n_parts;
	struct kh_verify_part part;
};

static bool is_event(const struct kh_line *line, const char *event)
{
	return kh_slice_eq(line->event, kh_slice_str(event));
}

/* The first one that says what can't be. */
static void take_joined(struct verifier *v, struct kh_slice text)
{
	const char *fault = kh_joined_take(v->report, text);

	if (!fault || v->joined_line)
		return;
	v->joined_line = v->chain.line;
	snprintf(v->joined_fault, sizeof(v->joined_fault), "%s", fault);
}

/* Is each end that of an exchange that is open? */
static void match(struct verifier *v, struct kh_slice text, const struct kh_line *line)
{
	struct kh_verify_report *report = v->report;
	enum kh_ids_fault fault = kh_ids_follow(&v->open, line, text);

	if (fault == KH_IDS_REOPENED && report->reopened++ == 0)
		v->reopened_line = v->chain.line;
	if (fault == KH_IDS_UNMATCHED && report->unmatched++ == 0)
		v->unmatched_line = v->chain.line;
	if (v->open.unnamed > 0 && report->crowded_line == 0)
		report->crowded_line = v->chain.line;
}

static void note_unknown(struct verifier *v, const struct kh_line *line)
{
	struct kh_verify_report *report = v->report;

	if (kh_line_is_known(line) || report->unknown++ > 0)
		return;
	report->unknown_line = v->chain.line;
	snprintf(report->unknown_event, sizeof(report->unknown_event), "%.*s",
		 (int)(line->event.len < sizeof(report->unknown_event) ? line->event.len : 63),
		 line->event.ptr);
}

static void take_in(struct verifier *v, struct kh_slice text, const struct kh_line *line)
{
	struct kh_verify_report *report = v->report;
	uint64_t id, count = 1;

	if (v->next && line->seq == v->next->continues)
		report->met = memcmp(line->hash.ptr, v->next->continues_hash, KH_HASH_HEX) == 0;
	if (is_event(line, "joined"))
		take_joined(v, text);

	match(v, text, line);
	note_unknown(v, line);
	report->opens += is_event(line, "open");
	report->closes += is_event(line, "close");
	bool late = is_event(line, "close") && kh_line_is_refusal(text);
	report->late += late;
	report->denials += late || is_event(line, "deny");
	if (is_event(line, "denials") && kh_line_number(text, "count", &count))
		report->counted += count;
	report->starts += is_event(line, "start");
	if (is_event(line, "start"))
		report->unjoined = (report->starts == 1 || report->unjoined) &&
				   kh_line_is_true(text, "unjoined");
	/* Who starts a worker has it say how the segment before ended, if that one has. */
	if (is_event(line, "start") && report->starts > 1 && report->joined_due_line == 0 &&
	    !kh_line_is_true(text, "unjoined"))
		report->joined_due_line = v->chain.line;
	/* The first start: later ones are of the same file. */
	report->set_aside |= report->starts == 1 && is_event(line, "start") &&
			     kh_line_is_true(text, "set_aside");
	if (!is_event(line, "aborted"))
		return;
	if (!kh_line_id(text, &id) && !kh_line_number(text, "count", &count))
		count = 1;
	report->aborted += count;
}

/* A sound line that is not the one that is due. */
static void accuse_place(struct verifier *v, const struct kh_line *line)
{
	struct kh_verify_report *report = v->report;
	unsigned long long number = v->chain.line, seq = line->seq, due = report->last_seq + 1;
	bool same = memcmp(line->hash.ptr, report->head, KH_HASH_HEX) == 0;

	snprintf(v->due, sizeof(v->due), "line %llu: seq %llu where %llu is due", number, seq, due);
	if (seq == due && number > 1) {
		report->bad_line = v->chain.line - 1;
		snprintf(report->problem, sizeof(report->problem),
			 "line %llu: rewritten (line %llu names another hash before it)",
			 number - 1, number);
	} else if (seq == due) {
		snprintf(report->problem, sizeof(report->problem),
			 "line 1: another line was once before it");
	} else if (seq > due && report->last_seq == 0) {
		v->sought = due;
		snprintf(report->problem, sizeof(report->problem),
			 "line 1: the beginning is missing (its seq is %llu)", seq);
	} else if (seq > due) {
		v->sought = due;
		snprintf(report->problem, sizeof(report->problem), "%s: %llu missing before it",
			 v->due, seq - due);
	} else if (seq == report->last_seq) {
		snprintf(report->problem, sizeof(report->problem), "line %llu: inserted (%s)",
			 number,
			 same ? "the same as the line before it"
			      : "a second line with the seq of the one before it");
	} else {
		snprintf(report->problem, sizeof(report->problem), "%s: moved here, or inserted",
			 v->due);
	}
}

/* What is wrong with the line that is not the next goes into the report. */
static void accuse(struct verifier *v, const char *fault, const struct kh_line *line)
{
	struct kh_verify_report *report = v->report;

	report->bad_line = v->chain.line;
	if (!fault && kh_chain_is_due(&v->chain, line))
		fault = "names torn bytes that are not there";
	if (fault)
		snprintf(report->problem, sizeof(report->problem), "line %llu: %s",
			 (unsigned long long)v->chain.line, fault);
	else
		accuse_place(v, line);
}

/* --- parts ------------------------------------------------------------------------------------ */

static struct kh_verify_part *last_part(struct kh_verify_report *report)
{
	uint64_t n =
		report->n_parts < KH_LIMIT_VERIFY_PARTS ? report->n_parts : KH_LIMIT_VERIFY_PARTS;

	return n ? &report->parts[n - 1] : NULL;
}

/* A sound line, wherever it stands. */
static void put_into_part(struct verifier *v, const struct kh_line *line)
{
	struct kh_verify_part *part = last_part(v->report);

	if (!part || line->seq != part->last_seq + 1 ||
	    memcmp(line->prev.ptr, part->head, KH_HASH_HEX) != 0) {
		v->report->n_parts++;
		part = last_part(v->report);
		*part = (struct kh_verify_part){ .first_line = v->chain.line,
						 .first_seq = line->seq };
	}
	part->lines++;
	part->last_line = v->chain.line;
	part->last_seq = line->seq;
	memcpy(part->head, line->hash.ptr, KH_HASH_HEX);
}

static void remember_part(struct verifier *v)
{
	v->n_parts = v->report->n_parts;
	if (v->n_parts)
		v->part = *last_part(v->report);
}

/* Whole lines among what is torn are no part. */
static void return_to_part(struct verifier *v)
{
	v->report->n_parts = v->n_parts;
	if (v->n_parts)
		*last_part(v->report) = v->part;
}

/* Another line after one that was not the next: does it say where that one is? */
static void search(struct verifier *v, const char *fault, const struct kh_line *line)
{
	struct kh_verify_report *report = v->report;

	if (fault || !v->sought || line->seq != v->sought)
		return;
	snprintf(report->problem, sizeof(report->problem), "%s: that line is at line %llu (moved)",
		 v->due, (unsigned long long)v->chain.line);
	v->sought = 0;
}

/* It would be the next record, but names bytes that hold one. */
static void accuse_covering(struct verifier *v)
{
	struct kh_verify_report *report = v->report;

	v->sought = 0;
	report->bad_line = v->chain.sound_line;
	snprintf(report->problem, sizeof(report->problem),
		 "line %llu: a record, which line %llu declares torn",
		 (unsigned long long)v->chain.sound_line, (unsigned long long)v->chain.line);
}

/* Where the chain stands now. */
static void follow_chain(struct verifier *v)
{
	struct kh_verify_report *report = v->report;

	if (v->chain.base && !report->continues) {
		report->continues = v->chain.base;
		memcpy(report->continues_hash, v->chain.base_hash, sizeof(v->chain.base_hash));
	}
	report->last_seq = v->chain.seq;
	memcpy(report->head, v->chain.head, sizeof(v->chain.head));
}

static bool step(struct verifier *v, const struct kh_lines_piece *piece)
{
	bool suspected = v->chain.suspect;
	struct kh_line line;
	const char *fault;
	enum kh_chain_place place = kh_chain_take(&v->chain, piece, &line, &fault);

	follow_chain(v);
	if (place == KH_CHAIN_RECOVERED) {
		return_to_part(v);
		v->sought = 0;
		v->report->recovered++;
		v->report->bad_line = 0;
		v->report->problem[0] = '\0';
	}
	if (place == KH_CHAIN_NEXT || place == KH_CHAIN_RECOVERED)
		take_in(v, piece->bytes, &line);
	else if (suspected) {
		search(v, fault, &line);
		if (v->chain.covers)
			accuse_covering(v);
	} else {
		remember_part(v);
		accuse(v, fault, &line);
	}
	if (!fault)
		put_into_part(v, &line);
	return place != KH_CHAIN_FAILED;
}

static bool read_all(struct verifier *v, struct kh_lines *lines, struct kh_err *err)
{
	enum kh_lines_status status;
	struct kh_lines_piece piece;

	while ((status = kh_lines_next(lines, &piece, err)) == KH_LINES_PIECE)
		if (!step(v, &piece))
			return kh_err_set(err, KH_ERR_INTERNAL, "journal: SHA-256 fails");
	return status == KH_LINES_END;
}

/* The chain holds; do the exchanges, and what is said of the segment before? */
static void accuse_records(struct verifier *v)
{
	struct kh_verify_report *report = v->report;
	uint64_t reopened = v->reopened_line, unmatched = v->unmatched_line;

	if (reopened && (!unmatched || reopened < unmatched)) {
		report->bad_line = reopened;
		snprintf(report->problem, sizeof(report->problem),
			 "line %llu: opens an exchange under an id that is open already",
			 (unsigned long long)reopened);
	} else if (unmatched) {
		report->bad_line = unmatched;
		snprintf(report->problem, sizeof(report->problem),
			 "line %llu: ends an exchange that is not open (opened nowhere before it, "
			 "or ended already)",
			 (unsigned long long)unmatched);
	} else if (v->joined_line) {
		report->bad_line = v->joined_line;
		snprintf(report->problem, sizeof(report->problem), "line %llu: %s",
			 (unsigned long long)v->joined_line, v->joined_fault);
	}
}

static void conclude(struct verifier *v)
{
	struct kh_verify_report *report = v->report;

	report->lines = v->chain.line;
	report->unclosed = v->open.used + v->open.unnamed;
	report->ok = !v->chain.suspect && report->lines > 0 && report->reopened == 0 &&
		     report->unmatched == 0 && v->joined_line == 0;
	if (!v->chain.suspect)
		accuse_records(v);
	if (report->lines == 0)
		snprintf(report->problem, sizeof(report->problem),
			 "empty: a journal has a `start` record at least");
	kh_joined_hold(report, v->next);
}

static bool begin(struct verifier *v, struct kh_err *err)
{
	if (!kh_chain_init(&v->chain, err))
		return false;
	return kh_ids_init(&v->open, KH_LIMIT_RECOVER_IDS) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal: no random key");
}

static void end(struct verifier *v)
{
	kh_ids_clear(&v->open);
	kh_chain_fini(&v->chain);
}

static bool verify(int fd, uint32_t wait_ms, const struct kh_verify_report *next,
		   struct kh_verify_report *report, struct kh_err *err)
{
	struct verifier v = { .report = report, .next = next };
	struct kh_lines lines;
	bool ok;

	*report = (struct kh_verify_report){ 0 };
	memcpy(report->head, kh_audit_genesis_hex, sizeof(report->head));
	if (!kh_lines_init(&lines, fd, false, 0, err))
		return false;
	lines.wait_ms = wait_ms;
	ok = begin(&v, err) && read_all(&v, &lines, err);
	if (ok)
		conclude(&v);
	end(&v);
	kh_lines_fini(&lines);
	return ok;
}

static bool read_within(struct verifier *v, struct kh_lines *lines, uint64_t from,
			const struct kh_recover_bounds *bounds, bool *whole, struct kh_err *err)
{
	uint64_t until = kh_clock_mono_ms() + bounds->ms;
	enum kh_lines_status status;
	struct kh_lines_piece piece;

	*whole = true;
	while ((status = kh_lines_next(lines, &piece, err)) == KH_LINES_PIECE) {
		*whole = piece.offset - from <= bounds->bytes && kh_clock_mono_ms() <= until;
		if (!*whole)
			return true;
		if (!step(v, &piece))
			return kh_err_set(err, KH_ERR_INTERNAL, "journal: SHA-256 fails");
		if (kh_chain_is_lost(&v->chain))
			return true;
	}
	return status == KH_LINES_END;
}

bool kh_verify_behind(int fd, uint64_t from, const struct kh_recover_bounds *bounds,
		      struct kh_verify_report *report, uint64_t *suspect, bool *whole,
		      struct kh_err *err)
{
	struct verifier v = { .report = report };
	struct kh_lines lines;
	bool ok;

	if (!kh_lines_init(&lines, fd, true, from, err))
		return false;
	ok = begin(&v, err);
	if (ok) {
		/* Not the first line of a segment: what that one continues is known. */
		if (from > 0 || report->last_seq > 0)
			kh_chain_stand(&v.chain, 1, report->last_seq,
				       kh_slice_of(report->head, KH_HASH_HEX));
		v.chain.adopts = true;
		ok = read_within(&v, &lines, from, bounds, whole, err);
	}
	*suspect = v.chain.suspect ? v.chain.offset : UINT64_MAX;
	end(&v);
	kh_lines_fini(&lines);
	return ok;
}

bool kh_verify_within(int fd, uint32_t wait_ms, struct kh_verify_report *report, struct kh_err *err)
{
	return verify(fd, wait_ms, NULL, report, err);
}

bool kh_journal_verify(int fd, struct kh_verify_report *report, struct kh_err *err)
{
	return verify(fd, KH_JOURNAL_WAIT_MS, NULL, report, err);
}

bool kh_verify_segment(int fd, const struct kh_verify_report *next, struct kh_verify_report *report,
		       struct kh_err *err)
{
	return verify(fd, KH_JOURNAL_WAIT_MS, next, report, err);
}
