/* audit.h - the journal: what happened, chained, before it happened */
#ifndef KEYHOLE_AUDIT_H
#define KEYHOLE_AUDIT_H

#include <keyhole/config.h>
#include <keyhole/target.h>

/*
 * One JSON object a line. The body of a record is made by a thread for itself; `seq`, `prev` and
 * `hash` are added when its batch is committed, under the journal's lock. docs/audit.md has every
 * field.
 *
 * `hash` is SHA-256 (hex) over the exact bytes of the line before `,"hash"`; `prev` is the hash of
 * the line before, 64 zeros in the first line.
 *
 * At a handover (SIGUSR2) a journal goes on in another file, a segment. Its first record is a
 * `start` with `continues`: N, the seq N+1 and as `prev` the hash of line N of the segment before.
 * That one is written on by the worker that drains, behind line N, a side branch of the chain; when
 * it has ended, a `joined` record in the new segment names its last seq and hash. So each segment
 * fixes all of the one before it.
 */
struct kh_journal;

/* The line that a segment continues. */
struct kh_journal_base {
	uint64_t seq; /* 0: a journal of its own */
	uint8_t hash[32];
};

struct kh_journal_report {
	uint64_t recovered_offset, recovered_bytes; /* the torn line that was closed, or 0, 0 */
	uint64_t aborted;			    /* opens of an earlier life that were marked */
	uint64_t seq;				    /* of the last line there */
};

/*
 * Continues (or begins) a journal on a descriptor that is open for reading and appending; the
 * descriptor stays the caller's. A torn last line is closed by a `recovered` record with its offset
 * and length, opens without a close by one `aborted` record each, then a `start` record is written.
 * A journal whose last whole line does not carry a valid hash is not continued: error.
 */
struct kh_journal *kh_journal_open(int fd, enum kh_durability durability,
				   struct kh_journal_report *report, struct kh_err *err);
/* The same for a segment: what is in force where no line of `base`'s journal is there yet. */
struct kh_journal *kh_journal_open_segment(int fd, enum kh_durability durability,
					   const struct kh_journal_base *base,
					   struct kh_journal_report *report, struct kh_err *err);
/*
 * The writer of the segment on `fd` is gone, and that segment was continued by this journal from
 * line `cut` on: closes what a death left open in it (recovered, aborted), then writes a `joined`
 * record here. Nobody else may write to `fd` meanwhile. Where the writer ended well it reads no
 * more than the last line. Writes to both, so it needs room. The descriptor stays the caller's.
 */
bool kh_journal_join(struct kh_journal *journal, int fd, uint64_t cut, struct kh_err *err);
/* Writes a `stop` record and frees. */
void kh_journal_close(struct kh_journal *journal);
/* Of the last line written. Safe from any thread. */
void kh_journal_head(struct kh_journal *journal, uint64_t *seq, uint8_t hash[32]);

/* Records of one loop turn of one thread. */
struct kh_batch {
	struct kh_buf bytes; /* record bodies, without the closing brace, each behind a length */
	size_t count;
	size_t last; /* where the last one begins in `bytes` */
};
/* The last one's body: JSON, but for the closing brace. Until the batch changes. */
struct kh_slice kh_batch_last(const struct kh_batch *batch);
void kh_batch_init(struct kh_batch *batch);
void kh_batch_fini(struct kh_batch *batch);
/*
 * All of the batch in one write, in order; then the batch is empty. On failure (disk full) nothing
 * of it counts, the file is put back to where it was (or the torn bytes are closed by a `recovered`
 * record at the next commit that works), the batch is kept, and the caller forwards nothing. Safe
 * from several threads.
 */
bool kh_journal_commit(struct kh_journal *journal, struct kh_batch *batch, struct kh_err *err);

/* "x" + 16 hex digits of a random start and a counter: unique for all lives of the daemon; 24 bytes
 * with the NUL. */
enum { KH_EXCHANGE_ID_BYTES = 24 };
void kh_exchange_id(char out[KH_EXCHANGE_ID_BYTES]);

/* What is known before the first byte goes upstream, or when it is refused. NULL and empty views
 * are left out. */
struct kh_audit_open {
	const char *id;
	const char *tenant;
	const char *sandbox;
	uint32_t peer_pid, peer_uid;
	const char *client; /* address of one that came by TCP or vsock */
	const char *via;    /* how the sandbox came in, where that is no HTTP proxy request */
	const char *tunnel; /* whose bytes nobody reads: of which kind */
	struct kh_slice method;
	const char *version; /* of HTTP, that the sandbox speaks; NULL: 1.1, which is not written */
	enum kh_scheme scheme;
	const struct kh_authority *authority;
	struct kh_slice path;  /* as it came; escaped and cut here. Never with the query's values */
	struct kh_slice query; /* only its names are written */
	const char *model;     /* that the request is for, where that was looked at, or NULL */
	const char *rule;      /* text of the rule that decided */
	const char *denied_by; /* of a denial by the rules: whose list */
	/* Let through because it is only observed: the reason, and the rule's text, or NULL. */
	const char *would_deny;
	const char *would_rule;
	const char *would_limit; /* or which limit was reached, as below */
	struct kh_where rule_where;
	const char *rule_file;
	const char *credential; /* names of what goes in, joined by ',' */
	const char *stripped;	/* carriers that were removed, names, comma-separated */
};

struct kh_audit_websocket {
	uint16_t close_code;  /* of the first close frame; 1005: none in it, 1006: there was none */
	const char *close_by; /* "sandbox", "upstream", "keyhole": who said it, or ended it */
	uint64_t up_messages, down_messages;
};

struct kh_audit_close {
	const char *id;
	uint16_t status;	 /* that the sandbox saw; 0: none */
	enum kh_err_code reason; /* KH_ERR_NONE: went well */
	const char *detail;	 /* one escaped line, or NULL */
	const char *limit;	 /* that was reached: "tenant acme: requests 600/min" */
	const char *would_limit; /* and only observed, when it was open already */
	const char *
		placeholders; /* that were in the content: names of credentials, joined by commas */
	uint64_t up_bytes, down_bytes; /* content, as framed out */
	uint64_t duration_ms, first_byte_ms;
	const char *peer;			    /* address that was dialled */
	const char *country;			    /* where it lies; NULL: not known */
	uint32_t asn;				    /* 0: not known */
	const char *tls;			    /* version upstream */
	bool reused;				    /* a pooled connection */
	unsigned retries;			    /* how often it was sent again */
	bool complete;				    /* the whole response went through */
	const struct kh_audit_websocket *websocket; /* NULL: it became none */
};

/* Each appends one record to the batch. Return: false over KH_LIMIT_BATCH_BYTES or without memory;
 * then nothing may be forwarded. */
bool kh_audit_open(struct kh_batch *batch, const struct kh_audit_open *record);
bool kh_audit_close(struct kh_batch *batch, const struct kh_audit_close *record);
/* A refusal: everything in one record. */
bool kh_audit_deny(struct kh_batch *batch, const struct kh_audit_open *what,
		   const struct kh_audit_close *how);

/*
 * `keyhole audit verify`: reads a journal from a descriptor, line by line, in bounded memory.
 */
struct kh_verify_report {
	bool ok;
	uint64_t lines, opens, closes, denials, recovered;
	uint64_t starts, aborted; /* lives of the writer; opens that an earlier life left */
	uint64_t unclosed;	  /* opens without an end: alive, or cut off */
	uint64_t last_seq;
	char head[65];	   /* hash of the last line, hex */
	uint64_t bad_line; /* from 1; 0 when ok */
	char problem[256]; /* "line 7: changed (its hash does not fit)" … */
	/* A segment: the line of the one before that it continues; 0: it begins a journal. */
	uint64_t continues;
	char continues_hash[65];
	/* It closes that segment: at this line. 0: no `joined` record (yet). */
	uint64_t joined_seq;
	char joined_hash[65];
	bool met; /* the line that was asked for is there */
};
/* Return: false only when it can't be read; a broken chain is `ok` false. */
bool kh_journal_verify(int fd, struct kh_verify_report *report, struct kh_err *err);
/*
 * The same for a segment that another one continues, whose report `next` is: the line that it
 * continues must be there, and where it says what the last line is, that one must be the last.
 */
bool kh_segment_verify(int fd, const struct kh_verify_report *next, struct kh_verify_report *report,
		       struct kh_err *err);

#endif
