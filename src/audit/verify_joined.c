/*
 * verify_joined.c - what the segments of a journal say of each other
 *
 * A `joined` record names the end of an earlier segment: mostly of the one that its own segment
 * continues. If a segment had to end while the one before it still had a writer, the record is in a
 * later one, whose `start` records say `unjoined` until then. So verification, which goes from the
 * newest segment to the oldest, carries such a record to the segment that it is about.
 *
 * The first record of a segment decides, in the order of the journal. Otherwise whoever can append
 * could rewrite the end of a segment, and name that end in a later record.
 */
#include <stdio.h>
#include <string.h>

#include "audit_internal.h"

static const char another[] = "names another end of the segment before than an earlier line";

static bool is_same(const struct kh_joined *a, const struct kh_joined *b)
{
	return a->seq == b->seq && memcmp(a->hash, b->hash, KH_HASH_HEX) == 0;
}

const char *kh_joined_take(struct kh_verify_report *report, struct kh_slice text)
{
	struct kh_slice hash = kh_line_hex(text, "head");
	struct kh_joined joined = { .seq = 0 };

	if (!report->continues || !kh_line_number(text, "segment", &joined.segment) ||
	    joined.segment == 0 || joined.segment > report->continues)
		return NULL;
	struct kh_joined *first =
		joined.segment == report->continues ? &report->joined : &report->earlier;
	if (first->seq && first->segment != joined.segment)
		return NULL;
	if (hash.len == 0 || !kh_line_number(text, "last_seq", &joined.seq) ||
	    joined.seq < joined.segment)
		return "names no end that the segment before can have";
	memcpy(joined.hash, hash.ptr, KH_HASH_HEX);
	(void)kh_line_number(text, "left", &joined.left);
	if (!first->seq)
		*first = joined;
	return is_same(first, &joined) ? NULL : another;
}

static void break_at(struct kh_verify_report *report, uint64_t line, const char *problem)
{
	report->ok = false;
	report->bad_line = line;
	if (line)
		snprintf(report->problem, sizeof(report->problem), "line %llu: %s",
			 (unsigned long long)line, problem);
	else
		snprintf(report->problem, sizeof(report->problem), "%s", problem);
}

/* What later segments say of those before this one. */
static void carry(struct kh_verify_report *report, const struct kh_verify_report *next)
{
	report->unjoined = report->unjoined && (!next || next->unjoined);
	if (!next || !next->earlier.seq || next->earlier.segment > report->continues)
		return;
	struct kh_joined *first =
		next->earlier.segment == report->continues ? &report->joined : &report->earlier;
	if (!first->seq)
		*first = next->earlier;
	else if (report->ok && first->segment == next->earlier.segment &&
		 !is_same(first, &next->earlier))
		break_at(report, 0, "a later segment names another end of the segment before");
}

/* Is a `joined` record missing? A worker that was taken over could say that it wrote one; but the
 * next worker writes one before it reads a byte of a sandbox. */
static void hold_to_before(struct kh_verify_report *report, const struct kh_verify_report *next)
{
	bool awaited = !next || next->unjoined;

	if (!report->ok || !report->continues || report->joined.seq || report->set_aside ||
	    (!report->joined_due_line && awaited))
		return;
	if (report->joined_due_line)
		break_at(report, report->joined_due_line,
			 "a later start, and no `joined` record: nothing protects the end of the "
			 "segment before");
	else
		break_at(report, 0,
			 "it was continued, and has no `joined` record: nothing protects the end "
			 "of the segment before it");
}

/* What the segment behind it says of this one. */
static void hold_to_next(struct kh_verify_report *report, const struct kh_verify_report *next)
{
	const struct kh_joined *end = &next->joined;

	if (!report->met)
		snprintf(report->problem, sizeof(report->problem),
			 "line %llu, which the next segment continues, is not in it: a segment is "
			 "missing, or this one was rewritten or cut",
			 (unsigned long long)next->continues);
	else if (next->set_aside)
		snprintf(report->problem, sizeof(report->problem),
			 "set aside: nothing protects what is after line %llu",
			 (unsigned long long)next->continues);
	else if (end->seq && (report->last_seq != end->seq ||
			      memcmp(report->head, end->hash, KH_HASH_HEX) != 0))
		snprintf(report->problem, sizeof(report->problem),
			 "it ends at seq %llu, and the next segment says at seq %llu: cut off, or "
			 "written on",
			 (unsigned long long)report->last_seq, (unsigned long long)end->seq);
	else if (end->left)
		snprintf(report->problem, sizeof(report->problem),
			 "%llu bytes were after line %llu that continued nothing, and are gone",
			 (unsigned long long)end->left, (unsigned long long)end->seq);
	report->ok = report->problem[0] == '\0';
}

void kh_joined_hold(struct kh_verify_report *report, const struct kh_verify_report *next)
{
	if (next && report->ok)
		hold_to_next(report, next);
	carry(report, next);
	hold_to_before(report, next);
}
