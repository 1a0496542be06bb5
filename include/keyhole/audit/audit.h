/* audit.h - the journal: a hash-chained record of each request, written before the request leaves
 */
#ifndef KEYHOLE_AUDIT_AUDIT_H
#define KEYHOLE_AUDIT_AUDIT_H

#include <keyhole/config/config.h>
#include <keyhole/base/limits.h>
#include <keyhole/http/target.h>

/*
 * One JSON object per line. Each thread makes the bodies of its records by itself.
 * kh_journal_commit adds `seq`, `prev` and `hash` under the journal's lock. docs/audit.md has every
 * field.
 *
 * `hash` is the SHA-256, in hex, of the line's bytes up to `,"hash"`. `prev` is the hash of the
 * line before; it is 64 zeros in the first line.
 *
 * After a handover (SIGUSR2) the journal continues in another file, a segment. If its base is line
 * N of the segment before, its first record is a `start` with `continues`: N, `seq` N+1, and the
 * hash of line N as `prev`. The draining worker still appends to the segment before, after line N:
 * a side branch of the chain. When that worker has ended, a `joined` record in the new segment
 * names the last seq and hash of that branch. So each segment pins all of the one before.
 */
struct kh_journal;

/* One file by two descriptors: one to append (O_APPEND; it need not be readable) and one to read.
 * They may be the same. The caller keeps both and closes them, after the journal. */
struct kh_journal_files {
	int append, read;
};

/* The line that a segment continues. */
struct kh_journal_base {
	uint64_t seq; /* 0: it continues none */
	uint8_t hash[32];
	bool set_aside; /* the segment before could not be continued; the first record says so */
	bool ended;	/* the segment before ends with that line; a `joined` record says so */
	bool open;	/* the segment before still has a writer; a later `start` record says so */
};

/*
 * Upper bounds of `seq`. A worker that was taken over may have given its lines any numbers; near
 * UINT64_MAX no writer could continue. A line has at least KH_JOURNAL_LINE_LEAST bytes, so a file's
 * size bounds how far its numbers can have advanced. No number above KH_JOURNAL_SEQ_MOST is taken
 * as one that a segment may continue. The first line of a segment has a higher number than the line
 * that it continues, so the limit for that (KH_JOURNAL_BASE_MOST) is higher: whatever a segment
 * continues, a daemon can start on it. Both leave room for more lines than any disk holds.
 */
enum { KH_JOURNAL_LINE_LEAST = 179 };
#define KH_JOURNAL_SEQ_MOST (UINT64_C(1) << 61)
#define KH_JOURNAL_BASE_MOST (UINT64_C(1) << 62)
/* In a file that continues line `base`, can line `seq` end at offset `end`? */
bool kh_journal_seq_fits(uint64_t seq, uint64_t base, uint64_t end);
/* The first line of the file whose hash is right, searched in the first 64 KiB. Return: false:
 * there is none, or its seq is above KH_JOURNAL_BASE_MOST. */
bool kh_journal_first_line(int fd, struct kh_journal_base *line);
/* The line that the file continues: what the first line of the file names. Return: false: it
 * continues none, or that line's segment was set aside. */
bool kh_journal_line_before(int fd, struct kh_journal_base *line);
/* The last line. Return: false: it has no valid hash, its number is impossible, or bytes that are
 * no record follow it. */
bool kh_journal_last_line(int fd, struct kh_journal_base *line);

struct kh_journal_report {
	/* Nobody may go on from the last line: it has no valid hash, or its number is impossible.
	 * The journal was not opened. */
	bool spoiled;
	uint64_t recovered_offset, recovered_bytes; /* the torn bytes that were closed, or 0, 0 */
	uint64_t aborted; /* open records of an earlier writer that got an `aborted` record */
	uint64_t unread;  /* bytes before the part that was searched for open records
			     (KH_LIMIT_RECOVER_BYTES) */
	uint64_t seq;	  /* of the last line now */
};

/*
 * Continues, or begins, a journal on a descriptor that is open for reading and appending. The
 * caller keeps the descriptor, which must outlive the journal. A torn end of the file is closed by
 * a `recovered` record with its offset and length. Each open record without a close record gets an
 * `aborted` record. Then a `start` record is written. `report` may be NULL.
 *
 * Return: NULL with `err`, also if the last whole line has no valid hash or an impossible number:
 * such a journal is not continued (report->spoiled). kh_journal_close frees.
 */
struct kh_journal *kh_journal_open(int fd, enum kh_durability durability,
				   struct kh_journal_report *report, struct kh_err *err);
/* The same for a segment. `base`: the line that it continues; NULL: none. */
struct kh_journal *kh_journal_open_segment(struct kh_journal_files files,
					   enum kh_durability durability,
					   const struct kh_journal_base *base,
					   struct kh_journal_report *report, struct kh_err *err);
/*
 * The writer of the segment `files` has ended, and this journal continued that segment from the
 * line `cut`. Closes what a crash left open in the segment (`recovered`, `aborted`), then writes a
 * `joined` record to this journal. Nobody else may write to the segment meanwhile. Both files need
 * free space. The caller keeps the descriptors.
 *
 * First the chain is followed from `cut` on, for at most a second and KH_LIMIT_RECOVER_BYTES. If it
 * does not lead to the end of the file, nothing is written to the segment: the record names the
 * last line up to which it holds, and how many bytes are left after that (`left`). If there is too
 * much to follow, the record says so (`unread`). Return: false with `err`.
 */
bool kh_journal_join(struct kh_journal *journal, struct kh_journal_files files,
		     const struct kh_journal_base *cut, struct kh_err *err);
/* Writes a `stop` record and frees. */
void kh_journal_close(struct kh_journal *journal);
/* Seq and hash of the last line written. Safe from any thread. */
void kh_journal_head(struct kh_journal *journal, uint64_t *seq, uint8_t hash[32]);

/* A line that will not be cut off again: its seq and hash, and the offset after its newline. */
struct kh_checkpoint {
	uint64_t seq;
	uint8_t hash[32];
	uint64_t end;
};
/* The last such line. Return: false: bytes that are no record follow it. Safe from any thread. */
bool kh_journal_checkpoint(struct kh_journal *journal, struct kh_checkpoint *out);
/* From now on the first commit after each kh_journal_checkpoint writes to this eventfd, which the
 * caller keeps. So does a failed commit that leaves torn bytes (kh_journal_ask_cut). */
void kh_journal_wake(struct kh_journal *journal, int eventfd);
/* What a process that did not write the journal knows of it. */
struct kh_journal_past {
	/* A worker followed the chain up to offset `since`, the file's size at that time, before
	 * the worker read any byte of a sandbox. */
	bool followed;
	uint64_t since;
	struct kh_checkpoint told; /* the last checkpoint that a worker reported; end 0: none */
};
/* How far the chain was followed, and what came of it. */
enum kh_journal_followed {
	KH_FOLLOWED_NOT = 0,  /* it can't be read */
	KH_FOLLOWED_WHOLE,    /* it leads to the last line */
	KH_FOLLOWED_SPOILED,  /* it does not: nobody may go on from the last line */
	KH_FOLLOWED_TOO_LONG, /* there is too much to follow, and nothing is known against it */
};
/*
 * Do the lines after `past` continue the journal? The rules are those of kh_journal_verify: a line
 * that is not the next of the chain must be explained by the `recovered` record after it. At the
 * end of the file there may be bytes that recovery would close. At most KH_LIMIT_RECOVER_BYTES are
 * read, for at most KH_LIMIT_RECOVER_MS. If more than that was written since, the lines after
 * `told` are checked: if they lead to the last line, the file is too long, else it is spoiled.
 *
 * If `past` holds nothing, the chain is followed from the file's beginning, since any later line,
 * also a `start` record, may be a forged one. At most KH_LIMIT_FOLLOW_BYTES are read, for at most
 * KH_LIMIT_FOLLOW_MS.
 *
 * *last: if it is spoiled, the last line up to which the chain was followed, and where it ends (0:
 * no such line is known).
 *
 * Return: true if a writer may go on in this file (WHOLE); else false with `err`.
 */
bool kh_journal_is_continued(int fd, const struct kh_journal_base *base,
			     const struct kh_journal_past *past, enum kh_journal_followed *how,
			     struct kh_checkpoint *last, struct kh_err *err);
/* Closes a journal that is too long to be followed, so that a segment can continue its last line:
 * torn bytes by a `recovered` record, open exchanges by `aborted` records, the end by `stop`.
 * Return: false with `err`; *spoiled as in the report. */
bool kh_journal_end_file(struct kh_journal_files files, enum kh_durability durability,
			 const struct kh_journal_base *base, bool *spoiled, struct kh_err *err);
/* Does the line still end at that offset? Reads only the line's hash, no text that others chose. */
bool kh_checkpoint_holds(int fd, const struct kh_checkpoint *checkpoint);

/* The records of one thread in one turn of its loop. The caller owns it. */
struct kh_batch {
	struct kh_buf bytes; /* record bodies without the closing brace, each after its length */
	size_t count;
	size_t last; /* where the last one begins in `bytes` */
};
/* The body of the last record: JSON without the closing brace. Valid until the batch changes. */
struct kh_slice kh_batch_last(const struct kh_batch *batch);
void kh_batch_init(struct kh_batch *batch);
void kh_batch_fini(struct kh_batch *batch);
/*
 * Writes all of the batch, in order, with one write(2); then the batch is empty. Safe from several
 * threads.
 *
 * On failure (disk full) the caller forwards nothing, and keeps the batch for the next commit. The
 * file is cut back to its old length. If it can't be cut (a locked-in worker may not), the whole
 * lines that were written count and leave the batch; the part of a line after them is torn:
 * kh_journal_ask_cut has it cut off, or the next commit that works closes it with a `recovered`
 * record. Return: false with `err`.
 */
bool kh_journal_commit(struct kh_journal *journal, struct kh_batch *batch, struct kh_err *err);
/*
 * After a failed commit: did a short write leave a part of a record at the end of the file that
 * this process can't cut off? Return: true once for each such part; then every commit fails until
 * kh_journal_was_cut. Safe from any thread.
 */
bool kh_journal_ask_cut(struct kh_journal *journal);
/* The file ends at `end` now. If cutting the torn bytes can't have led to that, the journal takes
 * nothing as cut. In either case commits are possible again. */
void kh_journal_was_cut(struct kh_journal *journal, uint64_t end);
/*
 * For a process that has the file open for writing and not only to append: cuts off what follows
 * the last newline, if that is not a whole record, begins like one, and does not begin before
 * offset `least`. *cut: the bytes that were cut off; *end: where the file ends, also if nothing was
 * cut. Return: false with `err`.
 */
bool kh_journal_cut_torn(int fd, uint64_t least, uint64_t *cut, uint64_t *end, struct kh_err *err);
/* While the journal is held, every commit fails: its file name leads to another file or to none.
 * Safe from any thread. */
void kh_journal_hold(struct kh_journal *journal, bool hold);
bool kh_journal_is_held(const struct kh_journal *journal);

/* "x" and 16 hex digits, made from a random number and a counter: unique over all starts of the
 * daemon. With room for a NUL. */
enum { KH_EXCHANGE_ID_BYTES = 24 };
void kh_exchange_id(char out[KH_EXCHANGE_ID_BYTES]);

/* What is known before the first byte goes upstream, or when the request is refused. NULL and empty
 * slices are left out of the record. */
struct kh_audit_open {
	const char *id;
	const char *tenant;
	const char *sandbox;
	uint32_t peer_pid, peer_uid;
	const char *client; /* the peer's address, on TCP and vsock */
	const char *via;    /* how the request came in, if not as an HTTP proxy request */
	const char *tunnel; /* the kind of a tunnel whose content is not read */
	struct kh_slice method;
	const char *version; /* HTTP version of the sandbox's request; NULL: 1.1, which is not
				written */
	enum kh_scheme scheme;
	const struct kh_authority *authority;
	struct kh_slice path;  /* as received, without the query; escaped and cut by the writer */
	struct kh_slice query; /* only the names of parameters are written, no values */
	const char *model; /* the model that the request is for, if a rule asked for it, or NULL */
	const char *rule;  /* the text of the deciding rule */
	const char *denied_by; /* with a denial by the rules: whose rules they are */
	/* The request passed only because its tenant has `mode: observe`: the reason, and the
	 * rule's text or NULL. */
	const char *would_deny;
	const char *would_rule;
	const char *would_limit; /* or the limit that was reached, as in kh_audit_close */
	/* A person was asked, and answered: "once", "run" or "no"; NULL: nobody was. Who, and when
	 * (wall clock). */
	const char *answer;
	uint32_t answer_uid;
	uint64_t answer_ms;
	struct kh_where rule_where;
	const char *rule_file;
	const char *credential; /* names of the credentials that are injected, joined by ',' */
	const char *stripped; /* names of the client's carriers that were removed, joined by ',' */
};

struct kh_audit_websocket {
	uint16_t close_code;  /* of the first close frame; 1005: it had no code, 1006: there was no
				 close frame */
	const char *close_by; /* who closed it: "sandbox", "upstream" or "keyhole" */
	uint64_t up_messages, down_messages;
};

struct kh_audit_close {
	const char *id;
	uint16_t status;	 /* the status that the sandbox got; 0: none */
	enum kh_err_code reason; /* KH_ERR_NONE: no failure */
	const char *detail;	 /* one escaped line, or NULL */
	const char *limit;	 /* the limit that was reached: "tenant acme: requests 600/min" */
	const char *would_limit; /* the same under `mode: observe`, if it was reached after the open
				    record */
	/* The same for a denial because of the upstream's address: the reason, and the rule's text.
	 * `withheld`: the credential that the open record names was not sent. */
	const char *would_deny, *would_rule;
	bool withheld;
	const char *placeholders;      /* credentials whose placeholders were in the content: names,
					  joined by ',' */
	uint64_t up_bytes, down_bytes; /* of content, as sent */
	uint64_t duration_ms, first_byte_ms;
	const char *peer;			    /* the address that was dialled */
	const char *country;			    /* the country of `peer`; NULL: not known */
	uint32_t asn;				    /* 0: not known */
	const char *tls;			    /* TLS version towards the upstream */
	bool reused;				    /* it used a kept connection */
	unsigned retries;			    /* how often the request was sent again */
	bool complete;				    /* the whole response was forwarded */
	const struct kh_audit_websocket *websocket; /* NULL: no WebSocket was opened */
};

/* A count of refusals that have no `deny` record each. */
struct kh_audit_denials {
	const char *tenant, *sandbox;
	uint64_t count;
	uint64_t since_ms, until_ms; /* wall clock, of the first and the last refusal */
	const char *reasons;	     /* "no_rule 990, limit 3" */
};

/* Each appends one record to the batch; all texts are copied. Return: false: the batch would exceed
 * KH_LIMIT_BATCH_BYTES, or there is no memory; then the caller forwards nothing. */
bool kh_audit_open(struct kh_batch *batch, const struct kh_audit_open *record);
bool kh_audit_close(struct kh_batch *batch, const struct kh_audit_close *record);
/* A refusal: one `deny` record holds what the two others hold otherwise. */
bool kh_audit_deny(struct kh_batch *batch, const struct kh_audit_open *what,
		   const struct kh_audit_close *how);
/* Many refusals in one record. */
bool kh_audit_denials(struct kh_batch *batch, const struct kh_audit_denials *record);
/* Removes the last record. Only once after an append, and before the next commit. */
void kh_batch_drop_last(struct kh_batch *batch);

/* A run of valid lines, each of which continues the one before. Torn bytes may be between them. */
struct kh_verify_part {
	uint64_t first_line, last_line, lines;
	uint64_t first_seq, last_seq;
	char head[65]; /* hash of the last line, in hex */
};

/* From a `joined` record: how the segment ended whose line `segment` was continued. */
struct kh_joined {
	uint64_t segment;
	uint64_t seq; /* of its last line */
	char hash[65];
	uint64_t left; /* bytes after that line which continued nothing */
};

/* What verification found in one file (`keyhole audit verify`). */
struct kh_verify_report {
	bool ok;
	uint64_t lines, opens, closes, recovered;
	uint64_t denials; /* including exchanges that were refused after their open record */
	uint64_t late;	  /* these alone: they are among `opens` and `denials` */
	uint64_t counted; /* refusals that were only counted, in `denials` records */
	uint64_t starts, aborted; /* `start` records; open records that an earlier writer left */
	uint64_t unclosed; /* ids with an open record and no end: still running, or cut off */
	uint64_t last_seq;
	char head[65];	       /* hash of the last line, hex */
	uint64_t bad_line;     /* the first bad line, from 1; 0: none */
	char problem[256];     /* "line 7: changed (its hash does not fit)" … */
	uint64_t reopened;     /* open records of an id that was open already */
	uint64_t unmatched;    /* close records of an id that was not open */
	uint64_t crowded_line; /* from this line on more ids were open than are tracked; 0: never */
	/* Records with an `event` that this version does not know: how many, and the first one. */
	uint64_t unknown, unknown_line;
	char unknown_event[64];
	/* If the chain is broken: how many runs of lines hold by themselves, and the first of them.
	 * The last array element is the last run. */
	uint64_t n_parts;
	struct kh_verify_part parts[KH_LIMIT_VERIFY_PARTS];
	/* The line of the segment before that this file continues; 0: it begins a journal. */
	uint64_t continues;
	char continues_hash[65];
	bool set_aside; /* its `start` record says that the segment before could not be continued */
	struct kh_joined joined;  /* of the segment before; seq 0: there is no such record (yet) */
	struct kh_joined earlier; /* of one before that, which had a writer for longer */
	bool unjoined; /* all its `start` records say that an earlier segment has a writer */
	/* A `start` record after the first one, which does not say that the segment before still
	 * had a writer: then a `joined` record is due. 0: none. */
	uint64_t joined_due_line;
	bool met; /* kh_verify_segment: the line that the next segment continues is there */
};
/* Reads line by line, in bounded memory; the caller keeps `fd`. Return: false with `err` only if
 * the file can't be read; a broken chain is report->ok false. */
bool kh_journal_verify(int fd, struct kh_verify_report *report, struct kh_err *err);
/*
 * The same for a segment that another segment continues; `next` is the report of that one. The line
 * that `next` continues must be in this file. If `next` has a `joined` record, the line that it
 * names must be the last one here. If `next` says that this segment was set aside, the report is
 * never ok, since nothing says which line is the last one.
 */
bool kh_verify_segment(int fd, const struct kh_verify_report *next, struct kh_verify_report *report,
		       struct kh_err *err);

/* What a line is, by the rules of kh_journal_verify. */
enum kh_journal_place {
	KH_JOURNAL_RECORD,    /* a record of the journal */
	KH_JOURNAL_RECOVERED, /* a `recovered` record: all KH_JOURNAL_APART pieces since the last
				 record were torn */
	KH_JOURNAL_APART,  /* no record; torn if a KH_JOURNAL_RECOVERED comes next, else broken */
	KH_JOURNAL_BROKEN, /* no record, and no later record can explain it */
};
struct kh_journal_piece {
	enum kh_journal_place place;
	uint64_t line;	       /* from 1 */
	struct kh_slice bytes; /* without the newline; valid until the callback returns */
	bool ends;	       /* a newline follows; a long line comes in several pieces */
};
/* Calls `take` with every piece of the file, in order. The caller keeps `fd`. Return: false with
 * `err`: the file can't be read. */
bool kh_journal_read(int fd, void (*take)(void *context, const struct kh_journal_piece *piece),
		     void *context, struct kh_err *err);
/*
 * The same while others write the file. kh_journal_follower_read hands over the whole lines that
 * were written since the last call; a last line without its newline waits. The caller keeps `fd`,
 * which outlives the follower. kh_journal_follower_end hands over what is left of a line. Return:
 * false with `err`: the file can't be read, or it is shorter than what was read of it.
 */
struct kh_journal_follower;
struct kh_journal_follower *kh_journal_follower_new(int fd, struct kh_err *err);
bool kh_journal_follower_read(struct kh_journal_follower *follower,
			      void (*take)(void *context, const struct kh_journal_piece *piece),
			      void *context, struct kh_err *err);
bool kh_journal_follower_end(struct kh_journal_follower *follower,
			     void (*take)(void *context, const struct kh_journal_piece *piece),
			     void *context, struct kh_err *err);
void kh_journal_follower_free(struct kh_journal_follower *follower);
/* The id of a line's exchange as a number, as verification reads it: "x" and 16 lower-case hex
 * digits after the time, not all zero. Return: false for any other id or none; *id is 0 then. */
bool kh_line_id(struct kh_slice line, uint64_t *id);

#endif
