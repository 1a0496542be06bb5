/* journal_exchanges.h - a journal as exchanges: each open record with its end */
#ifndef KEYHOLE_CLI_JOURNAL_EXCHANGES_H
#define KEYHOLE_CLI_JOURNAL_EXCHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <keyhole/base/err.h>

enum kh_journal_end {
	KH_END_CLOSED = 0,   /* `close` is its end; of a refusal it is `open` itself */
	KH_END_ABORTED,	     /* its worker died first */
	KH_END_NONE,	     /* none in the file, or too many exchanges waited for theirs */
	KH_END_OPENED_AGAIN, /* another exchange began under its id before it ended */
	KH_END_NO_ID,	     /* its id is not where ids are: no end can be found */
};

struct kh_journal_exchange {
	const json_t *open, *close; /* `close` is NULL without an end. Until the callback returns */
	enum kh_journal_end end;
	/* Its open record, or its end, does not continue the chain: somebody else may have written
	 * it. */
	bool astray;
};

struct kh_journal_reader {
	void (*exchange)(void *context, const struct kh_journal_exchange *exchange);
	/* All other records: refusals that were only counted, what the writer says of itself. */
	void (*record)(void *context, const json_t *record, bool astray);
	void *context;
};

/* What is not as it was written. */
struct kh_journal_flaws {
	uint64_t records; /* what is as it was written, with what continues no chain */
	bool unread;	  /* it could not be read to its end */
	uint64_t lines;	  /* of any kind */
	uint64_t foreign, foreign_line; /* lines that are no records, from that line */
	uint64_t cut_line;		/* the last line, if no newline ends it; 0: one does */
	uint64_t torn; /* records that the journal declares torn: they are left out */
	uint64_t astray, astray_line; /* records that do not continue the chain, from that line */
};

/*
 * Reads a journal to its end, in the order of the ends; which lines are the journal, the same
 * reading says as for `keyhole audit verify` (kh_journal_read). Memory: that of the exchanges which
 * are open at a time, at most 65,536, and of KH_LIMIT_TORN_BYTES.
 * Return: false where it can't be read on; what was read before has been handed over.
 */
bool kh_journal_exchanges(int fd, const struct kh_journal_reader *reader,
			  struct kh_journal_flaws *flaws, struct kh_err *err);

/*
 * The same of a file that others write: _read hands over what ended since the last call, and _end
 * what still waits. `reader`, `flaws` and `fd` outlive it. Return: false: it can't be read on, or
 * was cut.
 */
struct kh_journal_following;
struct kh_journal_following *kh_journal_following_new(int fd,
						      const struct kh_journal_reader *reader,
						      struct kh_journal_flaws *flaws,
						      struct kh_err *err);
bool kh_journal_following_read(struct kh_journal_following *following, struct kh_err *err);
bool kh_journal_following_end(struct kh_journal_following *following, struct kh_err *err);
void kh_journal_following_free(struct kh_journal_following *following);

/* Says on standard error what is not as it was written. `what` of the records that do not continue
 * the chain: "shown though", "left out:". Return: false: it is no journal, no line of it is a
 * record. */
bool kh_journal_complain(const char *command, const char *journal,
			 const struct kh_journal_flaws *flaws, const char *what);

/* A refusal by policy, also one that came after the open record (an address, for instance). */
bool kh_journal_exchange_is_refused(const struct kh_journal_exchange *exchange);

#endif
