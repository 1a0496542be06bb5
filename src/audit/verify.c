/*
 * verify.c - is the journal as it was written?
 *
 * Theory of operation. One pass, line by line, in the memory of one line. A line is good when its
 * hash fits its bytes, its `prev` is the hash of the last good line, and its `seq` the next one.
 * What is not good is either torn, and then a good `recovered` record follows that names exactly
 * these bytes by offset, length and hash; or it is what is wrong with the journal. The first such
 * place is the verdict. The rest of the file is read to say more about it: where a line that is
 * missing stands instead, and which parts of the file hold by themselves, so that somebody who kept
 * the head of one of them can see whether that part is as it was.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "audit_internal.h"

enum { WAIT_MS = 200 };

struct verifier {
	struct kh_verify_report *report;
	struct kh_digest digest; /* of the line at hand */
	uint64_t line;		 /* its number, from 1 */
	/* From `offset` on something is wrong, unless a `recovered` record explains it. */
	bool suspect;
	uint64_t offset, bytes;
	struct kh_digest torn;		     /* of these bytes */
	uint64_t sought;		     /* seq of the line that is missing; 0: none */
	const struct kh_verify_report *next; /* of the segment that continues this one, or NULL */
	char due[96]; /* what was wrong, as far as a found line could explain it */
	struct kh_ids open;
	uint64_t reopened_line; /* the first that opened an id that was open; 0: none */
	bool adopts;		/* a last line that lacks only its newline is taken */
	/* As they were before the suspicion. */
	uint64_t n_parts;
	struct kh_verify_part part;
};

static bool is_event(const struct kh_line *line, const char *event)
{
	return kh_slice_eq(line->event, kh_slice_str(event));
}

/* A `joined` record speaks of the segment that this one continues. */
static void take_joined(struct kh_verify_report *report, struct kh_slice text)
{
	struct kh_slice hash = kh_line_hex(text, KH_SLICE(",\"head\":\""));
	uint64_t segment, last;

	if (!kh_line_number(text, KH_SLICE(",\"segment\":"), &segment) ||
	    segment != report->continues || hash.len == 0 ||
	    !kh_line_number(text, KH_SLICE(",\"last_seq\":"), &last))
		return;
	report->joined_seq = last;
	memcpy(report->joined_hash, hash.ptr, KH_HASH_HEX);
}

static void take_in(struct verifier *v, struct kh_slice text, const struct kh_line *line)
{
	struct kh_verify_report *report = v->report;
	uint64_t id, count = 1;

	if (v->next && line->seq == v->next->continues)
		report->met = memcmp(line->hash.ptr, v->next->continues_hash, KH_HASH_HEX) == 0;
	if (is_event(line, "joined"))
		take_joined(report, text);

	report->last_seq = line->seq;
	memcpy(report->head, line->hash.ptr, KH_HASH_HEX);
	if (!kh_ids_follow(&v->open, line, text) && report->reopened++ == 0)
		v->reopened_line = v->line;
	report->opens += is_event(line, "open");
	report->closes += is_event(line, "close");
	report->denials += is_event(line, "deny");
	if (is_event(line, "denials") && kh_line_number(text, KH_SLICE(",\"count\":"), &count))
		report->counted += count;
	report->starts += is_event(line, "start");
	if (!is_event(line, "aborted"))
		return;
	if (!kh_line_id(text, &id) && !kh_line_number(text, KH_SLICE(",\"count\":"), &count))
		count = 1;
	report->aborted += count;
}

/* A sound line that is not the one that is due. */
static void accuse_place(struct verifier *v, const struct kh_line *line)
{
	struct kh_verify_report *report = v->report;
	unsigned long long number = v->line, seq = line->seq, due = report->last_seq + 1;
	bool same = memcmp(line->hash.ptr, report->head, KH_HASH_HEX) == 0;

	snprintf(v->due, sizeof(v->due), "line %llu: seq %llu where %llu is due", number, seq, due);
	if (seq == due && number > 1) {
		report->bad_line = v->line - 1;
		snprintf(report->problem, sizeof(report->problem),
			 "line %llu: written anew (line %llu names another hash before it)",
			 number - 1, number);
	} else if (seq == due) {
		snprintf(report->problem, sizeof(report->problem),
			 "line 1: another line once stood before it");
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

/* The first line of a segment: the chain goes on from what it names. */
static void take_base(struct verifier *v, struct kh_slice text, const struct kh_line *line)
{
	struct kh_verify_report *report = v->report;
	uint64_t base;

	if (v->line != 1 || line->seq < 2 || !is_event(line, "start") ||
	    !kh_line_number(text, KH_SLICE(",\"continues\":"), &base) || base != line->seq - 1)
		return;
	report->continues = report->last_seq = base;
	memcpy(report->continues_hash, line->prev.ptr, KH_HASH_HEX);
	memcpy(report->head, line->prev.ptr, KH_HASH_HEX);
}

/* Is it a sound record, wherever it stands? Return: NULL, or what is wrong with it. */
static const char *fault_of(struct verifier *v, const struct kh_lines_piece *piece,
			    struct kh_line *line)
{
	if (!piece->begins || (!piece->ends && piece->bytes.len > KH_LINE_BYTES))
		return "no record (too long for one)";
	if (!piece->ends && !v->adopts)
		return "cut off (no newline ends it)";
	if (!kh_line_parse(line, piece->bytes))
		return "no record (cut, changed or inserted)";
	if (!kh_line_is_sound(&v->digest, line))
		return "changed (its hash does not fit)";
	if (!kh_line_is_json(piece->bytes))
		return "no record (hashed, but not JSON that every program reads alike)";
	if (!kh_line_has_form(line, piece->bytes))
		return "no record (hashed, but its time or its id is not where and what it is due)";
	return NULL;
}

/* Is it the line that is due? If not, what is wrong with it goes into the report. */
static bool judge(struct verifier *v, const struct kh_lines_piece *piece, const char *fault,
		  const struct kh_line *line)
{
	struct kh_verify_report *report = v->report;

	report->bad_line = v->line;
	if (fault) {
		snprintf(report->problem, sizeof(report->problem), "line %llu: %s",
			 (unsigned long long)v->line, fault);
		return false;
	}
	take_base(v, piece->bytes, line);
	if (line->seq != report->last_seq + 1 ||
	    memcmp(line->prev.ptr, report->head, KH_HASH_HEX) != 0) {
		accuse_place(v, line);
		return false;
	}
	/* In its place in the chain, but nothing torn stands before it. */
	if (is_event(line, "recovered")) {
		snprintf(report->problem, sizeof(report->problem),
			 "line %llu: names torn bytes that are not there",
			 (unsigned long long)v->line);
		return false;
	}
	report->bad_line = 0;
	take_in(v, piece->bytes, line);
	return true;
}

/* The record that explains all bytes since the suspicion arose. */
static bool explains(struct verifier *v, const struct kh_lines_piece *piece,
		     const struct kh_line *line)
{
	const struct kh_verify_report *report = v->report;
	char hex[KH_HASH_HEX + 1];
	uint64_t offset, bytes;

	/* The newline before the record is the record's own. */
	if (!is_event(line, "recovered") || line->seq != report->last_seq + 1 ||
	    memcmp(line->prev.ptr, report->head, KH_HASH_HEX) != 0 ||
	    !kh_line_number(piece->bytes, KH_SLICE(",\"offset\":"), &offset) ||
	    !kh_line_number(piece->bytes, KH_SLICE(",\"bytes\":"), &bytes) || offset != v->offset ||
	    bytes != v->bytes)
		return false;
	if (!kh_digest_end(&v->torn, hex) ||
	    !kh_slice_eq(kh_line_hex(piece->bytes, KH_SLICE(",\"sha256\":\"")),
			 kh_slice_of(hex, KH_HASH_HEX)))
		return false;
	take_in(v, piece->bytes, line);
	return true;
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
		*part = (struct kh_verify_part){ .first_line = v->line, .first_seq = line->seq };
	}
	part->lines++;
	part->last_line = v->line;
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

static bool suspect(struct verifier *v, const struct kh_lines_piece *piece)
{
	v->suspect = true;
	v->offset = piece->offset;
	v->bytes = piece->bytes.len;
	return kh_digest_begin(&v->torn) && kh_digest_add(&v->torn, piece->bytes);
}

/* Another line after one that was not good. */
static void search(struct verifier *v, const struct kh_lines_piece *piece, const char *fault,
		   const struct kh_line *line)
{
	struct kh_verify_report *report = v->report;

	if (!fault && v->sought && line->seq == v->sought) {
		snprintf(report->problem, sizeof(report->problem),
			 "%s: that line stands at line %llu (moved)", v->due,
			 (unsigned long long)v->line);
		v->sought = 0;
	}
	v->bytes += piece->bytes.len + (piece->begins ? 1 : 0);
	/* A digest that was ended to be compared takes no more, and need not. */
	if (piece->begins)
		(void)kh_digest_add(&v->torn, KH_SLICE("\n"));
	(void)kh_digest_add(&v->torn, piece->bytes);
}

static bool step(struct verifier *v, const struct kh_lines_piece *piece)
{
	struct kh_line line = { .seq = 0 };
	const char *fault;
	bool ok = true;

	if (piece->begins)
		v->line++;
	fault = fault_of(v, piece, &line);
	if (!fault && v->suspect && explains(v, piece, &line)) {
		return_to_part(v);
		v->suspect = false;
		v->sought = 0;
		v->report->recovered++;
		v->report->bad_line = 0;
		v->report->problem[0] = '\0';
	} else if (v->suspect) {
		search(v, piece, fault, &line);
	} else if (!judge(v, piece, fault, &line)) {
		remember_part(v);
		ok = suspect(v, piece);
	}
	if (!fault)
		put_into_part(v, &line);
	return ok;
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

/* What the segment behind it says of this one. */
static void hold_to_next(struct verifier *v)
{
	struct kh_verify_report *report = v->report;
	const struct kh_verify_report *next = v->next;

	if (!next || !report->ok)
		return;
	if (!report->met)
		snprintf(report->problem, sizeof(report->problem),
			 "line %llu, which the next segment continues, is not in it: a segment is "
			 "missing, or this one was written anew or cut",
			 (unsigned long long)next->continues);
	else if (next->joined_seq && (report->last_seq != next->joined_seq ||
				      memcmp(report->head, next->joined_hash, KH_HASH_HEX) != 0))
		snprintf(report->problem, sizeof(report->problem),
			 "it ends at seq %llu, and the next segment says at seq %llu: cut off, or "
			 "written on",
			 (unsigned long long)report->last_seq,
			 (unsigned long long)next->joined_seq);
	report->ok = report->problem[0] == '\0';
}

static void conclude(struct verifier *v)
{
	struct kh_verify_report *report = v->report;
	uint64_t ended = report->closes + report->aborted;

	report->lines = v->line;
	report->unclosed = report->opens > ended ? report->opens - ended : 0;
	report->ok = !v->suspect && v->line > 0 && report->reopened == 0;
	if (!v->suspect && report->reopened) {
		report->bad_line = v->reopened_line;
		snprintf(report->problem, sizeof(report->problem),
			 "line %llu: opens an exchange under an id that is open already",
			 (unsigned long long)v->reopened_line);
	}
	if (v->line == 0)
		snprintf(report->problem, sizeof(report->problem),
			 "empty: a journal has a `start` record at least");
	hold_to_next(v);
}

static bool begin(struct verifier *v, struct kh_err *err)
{
	if (!kh_ids_init(&v->open, KH_LIMIT_RECOVER_IDS))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "journal: no random key");
	return kh_digest_init(&v->digest, err) && kh_digest_init(&v->torn, err);
}

static void end(struct verifier *v)
{
	kh_ids_clear(&v->open);
	kh_digest_fini(&v->digest);
	kh_digest_fini(&v->torn);
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
		/* More than any record of ours explains. */
		if (v->suspect && v->bytes > KH_LIMIT_TORN_BYTES)
			return true;
	}
	return status == KH_LINES_END;
}

bool kh_verify_behind(int fd, uint64_t from, const struct kh_recover_bounds *bounds,
		      struct kh_verify_report *report, uint64_t *suspect, bool *whole,
		      struct kh_err *err)
{
	/* Not the first line of a segment: what that one continues is known. */
	struct verifier v = { .report = report, .line = 1, .adopts = true };
	struct kh_lines lines;
	bool ok;

	if (!kh_lines_init(&lines, fd, true, from, err))
		return false;
	ok = begin(&v, err) && read_within(&v, &lines, from, bounds, whole, err);
	*suspect = v.suspect ? v.offset : UINT64_MAX;
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
	return verify(fd, WAIT_MS, NULL, report, err);
}

bool kh_verify_segment(int fd, const struct kh_verify_report *next, struct kh_verify_report *report,
		       struct kh_err *err)
{
	return verify(fd, WAIT_MS, next, report, err);
}
