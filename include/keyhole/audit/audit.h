/* audit.h - the journal: what happened, chained, before it happened */
#ifndef KEYHOLE_AUDIT_AUDIT_H
#define KEYHOLE_AUDIT_AUDIT_H

#include <keyhole/config/config.h>
#include <keyhole/base/limits.h>
#include <keyhole/http/target.h>

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

/* The file, by two descriptors: what appends (O_APPEND; it need not be open for reading) and what
 * reads. Both stay the caller's. They may be one. */
struct kh_journal_files {
	int append, read;
};

/* The line that a segment continues. */
struct kh_journal_base {
	uint64_t seq; /* 0: a journal of its own */
	uint8_t hash[32];
	bool set_aside; /* that segment could not be continued: the first record says so */
};

/*
 * How high numbers may be. Who wrote a line may have been taken over and have numbered it as it
 * liked: near the end of what 64 bits hold, nobody could go on from it. A line has at least that
 * many bytes, so no file numbers more of them than fit into it; and what a file begins with, or
 * a worker says first, leaves room for every file that a disk can hold.
 */
enum { KH_JOURNAL_LINE_LEAST = 179 };
#define KH_JOURNAL_BASE_MOST (UINT64_C(1) << 61)
#define KH_JOURNAL_SEQ_MOST (UINT64_C(1) << 62)
/* Can line `seq` end `end` bytes behind the beginning of a file that continues line `base`? */
bool kh_journal_seq_fits(uint64_t seq, uint64_t base, uint64_t end);
/* The first sound line of the file, where its number is one that a file may begin with; it stands
 * within the first 64 KiB. Return: false when there is none. */
bool kh_journal_first_line(int fd, struct kh_journal_base *line);

struct kh_journal_report {
	bool misnumbered; /* the last line's number can't be: the journal was not opened */
	uint64_t recovered_offset, recovered_bytes; /* the torn line that was closed, or 0, 0 */
	uint64_t aborted;			    /* opens of an earlier life that were marked */
	uint64_t unread; /* bytes in front of what was searched for opens; KH_LIMIT_RECOVER_BYTES */
	uint64_t seq;	 /* of the last line there */
};

/*
 * Continues (or begins) a journal on a descriptor that is open for reading and appending; the
 * descriptor stays the caller's. A torn last line is closed by a `recovered` record with its offset
 * and length, opens without a close by one `aborted` record each, then a `start` record is written.
 * A journal whose last whole line does not carry a valid hash, or a number that can't be, is not
 * continued: error.
 */
struct kh_journal *kh_journal_open(int fd, enum kh_durability durability,
				   struct kh_journal_report *report, struct kh_err *err);
/* The same for a segment: what is in force where no line of `base`'s journal is there yet. */
struct kh_journal *kh_journal_open_segment(struct kh_journal_files files,
					   enum kh_durability durability,
					   const struct kh_journal_base *base,
					   struct kh_journal_report *report, struct kh_err *err);
/*
 * The writer of the segment `files` is gone, and that segment was continued by this journal from
 * line `cut` on: closes what a death left open in it (recovered, aborted), then writes a `joined`
 * record here. Nobody else may write to it meanwhile. Where the writer ended well it reads no
 * more than the last line. Writes to both, so it needs room. The descriptor stays the caller's.
 */
bool kh_journal_join(struct kh_journal *journal, struct kh_journal_files files, uint64_t cut,
		     struct kh_err *err);
/* Writes a `stop` record and frees. */
void kh_journal_close(struct kh_journal *journal);
/* Of the last line written. Safe from any thread. */
void kh_journal_head(struct kh_journal *journal, uint64_t *seq, uint8_t hash[32]);

/* A line that is in the file to stay: its seq and hash, and the offset behind its newline. */
struct kh_checkpoint {
	uint64_t seq;
	uint8_t hash[32];
	uint64_t end;
};
/* The last one. Return: false where bytes follow it that are no record. Safe from any thread. */
bool kh_journal_checkpoint(struct kh_journal *journal, struct kh_checkpoint *out);
/* From now on the first commit after each checkpoint writes to this eventfd. */
void kh_journal_wake(struct kh_journal *journal, int eventfd);
/* What is known of a journal by somebody who did not write it. */
struct kh_journal_past {
	/* Up to where a worker has followed it, before it heard anybody: its size then. */
	bool followed;
	uint64_t since;
	struct kh_checkpoint told; /* the last line that was told of; end 0: none */
};
/*
 * Is all that stands behind that place the journal's continuation? By the rules of
 * kh_journal_verify: a line that is no sound one must be explained by the `recovered` record behind
 * it. Bytes that recovery would close may stand at the end. No more than KH_LIMIT_RECOVER_BYTES are
 * read, nor for longer than KH_LIMIT_RECOVER_MS. Where more was written since, only what stands
 * behind `told` is looked at (*partly); where that is more as well, it is an error.
 */
bool kh_journal_is_continued(int fd, const struct kh_journal_base *base,
			     const struct kh_journal_past *past, bool *partly, struct kh_err *err);
/* Does the line still end there? Reads its hash alone, nothing that anybody else wrote. */
bool kh_checkpoint_holds(int fd, const struct kh_checkpoint *checkpoint);

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
/*
 * A write fell short and left a part of a record at the end of the file, which this process can't
 * cut off. Return: there are such bytes, and it was not asked before: every commit fails until
 * kh_journal_was_cut. Safe from any thread.
 */
bool kh_journal_ask_cut(struct kh_journal *journal);
/* The file ends there now. Where that is no end that cutting can have led to, nothing was cut. */
void kh_journal_was_cut(struct kh_journal *journal, uint64_t end);
/*
 * Who holds the file for writing, and not only to append: cuts off what follows its last newline,
 * if that is no whole record, begins like one, and does not begin before `least`. *cut: how many
 * bytes that were; *end: where the file ends, also where nothing was cut.
 */
bool kh_journal_cut_torn(int fd, uint64_t least, uint64_t *cut, uint64_t *end, struct kh_err *err);
/* While it is held every commit fails: its name leads to another file or to none. Safe from any
 * thread. */
void kh_journal_hold(struct kh_journal *journal, bool hold);
bool kh_journal_is_held(const struct kh_journal *journal);

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
	/* Likewise the reason, and the rule's text, where its address said so; the credential that
	 * the open record names did not go in. */
	const char *would_deny, *would_rule;
	bool withheld;
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

/* Refusals that have no record of their own. */
struct kh_audit_denials {
	const char *tenant, *sandbox;
	uint64_t count;
	uint64_t since_ms, until_ms; /* wall clock: of the first and the last one */
	const char *reasons;	     /* "no_rule 990, limit 3" */
};

/* Each appends one record to the batch. Return: false over KH_LIMIT_BATCH_BYTES or without memory;
 * then nothing may be forwarded. */
bool kh_audit_open(struct kh_batch *batch, const struct kh_audit_open *record);
bool kh_audit_close(struct kh_batch *batch, const struct kh_audit_close *record);
/* A refusal: everything in one record. */
bool kh_audit_deny(struct kh_batch *batch, const struct kh_audit_open *what,
		   const struct kh_audit_close *how);
/* Many refusals in one record. */
bool kh_audit_denials(struct kh_batch *batch, const struct kh_audit_denials *record);
/* Takes the last record back. It is the batch's last, once, and the batch was not committed since.
 */
void kh_batch_drop_last(struct kh_batch *batch);

/* Sound lines, each of which continues the one before it. What is torn may stand between them. */
struct kh_verify_part {
	uint64_t first_line, last_line, lines;
	uint64_t first_seq, last_seq;
	char head[65]; /* hash of its last line */
};

/*
 * `keyhole audit verify`: reads a journal from a descriptor, line by line, in bounded memory.
 */
struct kh_verify_report {
	bool ok;
	uint64_t lines, opens, closes, recovered;
	uint64_t denials;	  /* with exchanges that were refused after their open record */
	uint64_t counted;	  /* denials that were only counted */
	uint64_t starts, aborted; /* lives of the writer; opens that an earlier life left */
	uint64_t unclosed;	  /* ids that were opened and not ended: alive, or cut off */
	uint64_t last_seq;
	char head[65];	       /* hash of the last line, hex */
	uint64_t bad_line;     /* from 1; 0 when ok */
	char problem[256];     /* "line 7: changed (its hash does not fit)" … */
	uint64_t reopened;     /* opens of an id that was open already */
	uint64_t unmatched;    /* ends of an id that was not open */
	uint64_t crowded_line; /* from here on more were open than have names; 0: never */
	/* Records of events that this version does not write: how many, and the first. */
	uint64_t unknown, unknown_line;
	char unknown_event[64];
	/* Where it is broken: how many parts of it hold by themselves, and the first of them. The
	 * last one has the last place. */
	uint64_t n_parts;
	struct kh_verify_part parts[KH_LIMIT_VERIFY_PARTS];
	/* A segment: the line of the one before that it continues; 0: it begins a journal. */
	uint64_t continues;
	char continues_hash[65];
	bool set_aside; /* its start says that the one before could not be continued */
	/* It closes that segment: at this line. 0: no `joined` record (yet). */
	uint64_t joined_seq;
	char joined_hash[65];
	bool met; /* the line that was asked for is there */
};
/* Return: false only when it can't be read; a broken chain is `ok` false. */
bool kh_journal_verify(int fd, struct kh_verify_report *report, struct kh_err *err);
/*
 * The same for a segment that another one continues, whose report `next` is: the line that it
 * continues must be there, and where it says what the last line is, that one must be the last. One
 * that was set aside is never ok: nobody says what its last line is.
 */
bool kh_verify_segment(int fd, const struct kh_verify_report *next, struct kh_verify_report *report,
		       struct kh_err *err);

/* Where a line stands, by the same reading as kh_journal_verify's. */
enum kh_journal_place {
	KH_JOURNAL_RECORD,    /* a record of the journal */
	KH_JOURNAL_RECOVERED, /* another, by which all pieces apart since the last record were torn
			       */
	KH_JOURNAL_APART,     /* neither; torn if a KH_JOURNAL_RECOVERED is next, else broken */
	KH_JOURNAL_BROKEN,    /* the same, and no record can explain it any more */
};
struct kh_journal_piece {
	enum kh_journal_place place;
	uint64_t line;	       /* from 1 */
	struct kh_slice bytes; /* without the newline; until the callback returns */
	bool ends;	       /* a newline ends it; a line of any length may come in pieces */
};
/* Every piece of the file, in order. Return: false when it can't be read. */
bool kh_journal_read(int fd, void (*take)(void *context, const struct kh_journal_piece *piece),
		     void *context, struct kh_err *err);
/* The id of a line's exchange, as verification takes it: "x" and 16 small hex digits behind the
 * time, not all zero. Return: false for any other id or none; *id is 0 then. */
bool kh_line_id(struct kh_slice line, uint64_t *id);

#endif
