/* audit_internal.h - the form of a line, shared by writer, recovery and verification */
#ifndef KEYHOLE_AUDIT_INTERNAL_H
#define KEYHOLE_AUDIT_INTERNAL_H

#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>

#include <keyhole/audit/audit.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>

/*
 * line.c. A line is
 *
 *	{"event":"E","time":"T"[,"id":"I"] …,"seq":N,"prev":"<64 hex>","hash":"<64 hex>"}\n
 *
 * and begins and ends exactly so, which is what lets recovery find its way without a JSON parser.
 */
enum {
	KH_HASH_BYTES = 32,
	KH_HASH_HEX = 64,
	/* `,"seq":` and 20 digits, `,"prev":"…"`, `,"hash":"…"}` and the newline */
	KH_SEAL_BYTES = 7 + 20 + 74 + 75 + 1,
	KH_LINE_BYTES = KH_LIMIT_RECORD_BYTES + KH_SEAL_BYTES,
	/* How long a reader waits for the end of a line that is being written. */
	KH_JOURNAL_WAIT_MS = 200,
};

/* Hash of what comes before the first line. */
extern const char kh_audit_genesis_hex[KH_HASH_HEX + 1];

/* SHA-256, one context for a life: begin, add …, end. */
struct kh_digest {
	EVP_MD *md;
	EVP_MD_CTX *ctx;
};
bool kh_digest_init(struct kh_digest *digest, struct kh_err *err);
void kh_digest_fini(struct kh_digest *digest);
bool kh_digest_begin(struct kh_digest *digest);
bool kh_digest_add(struct kh_digest *digest, struct kh_slice bytes);
bool kh_digest_end(struct kh_digest *digest, char hex[KH_HASH_HEX + 1]);
/* Of what was added so far; more may follow. */
bool kh_digest_peek(const struct kh_digest *digest, char hex[KH_HASH_HEX + 1]);

/* Views into the line. */
struct kh_line {
	struct kh_slice event;
	uint64_t seq;
	struct kh_slice prev, hash; /* hex */
	struct kh_slice hashed;	    /* what the hash covers */
};
/* Form only; the line is without its newline. */
bool kh_line_parse(struct kh_line *out, struct kh_slice line);
/* A line that was parsed begins as its event's do: its time, and after it the id of its exchange
 * (open, close, deny; aborted has one or a count). No other place holds an id. */
bool kh_line_has_form(const struct kh_line *line, struct kh_slice text);
/* line_json.c: it is one JSON object (RFC 8259, UTF-8) without blanks, in no object of it have two
 * members one name, and its integers are of 64 bits. */
bool kh_line_is_json(struct kh_slice line);
/* The hash is that of the bytes. */
bool kh_line_is_sound(struct kh_digest *digest, const struct kh_line *line);
/* The value of a member of the line's own object, never of an object in it: a whole number in plain
 * digits, 64 hex digits. Return: false, or an empty view, where there is none or another kind. */
bool kh_line_number(struct kh_slice line, const char *name, uint64_t *out);
struct kh_slice kh_line_hex(struct kh_slice line, const char *name);
bool kh_line_is_true(struct kh_slice line, const char *name);
/* A close record of an exchange that was refused after its open record (by an address). */
bool kh_line_is_refusal(struct kh_slice line);
/* The event is one that this version writes. */
bool kh_line_is_known(const struct kh_line *line);

/* record.c */
/* Begins a body: {"event":"…","time":"<now>". */
bool kh_record_begin(struct kh_buf *body, const char *event);
void kh_id_format(uint64_t id, char out[KH_EXCHANGE_ID_BYTES]);
/* Appends a body after its length. */
bool kh_batch_put(struct kh_batch *batch, struct kh_slice body);

/* journal.c */
struct kh_journal {
	pthread_mutex_t lock;
	int fd;		  /* appends */
	int read_fd;	  /* the same file */
	atomic_bool held; /* no commit succeeds */
	int wake;	  /* eventfd, -1: none */
	bool woken;	  /* since the last checkpoint */
	enum kh_durability durability;
	uint64_t end;		    /* of the file: where the next byte goes */
	uint64_t seq;		    /* of the last line */
	char head[KH_HASH_HEX + 1]; /* its hash */
	/* Bytes at the end that are no record: the last `torn` of the file. */
	uint64_t torn;
	bool to_cut;   /* the last write left them, and nobody was asked to cut them off */
	bool cutting;  /* somebody was, and has not answered: no commit succeeds */
	bool unended;  /* the last line is whole but for its newline */
	bool stopped;  /* the last line is a `stop`, as it was found */
	uint64_t base; /* seq of the line that this segment continues; 0: none */
	char base_head[KH_HASH_HEX + 1]; /* its hash */
	bool set_aside;			 /* the segment with that line could not be continued */
	bool before_ended;		 /* it ends with that line */
	bool before_open;		 /* it still has a writer */
	struct kh_buf out;
	struct kh_digest digest;
};

/* Where the chain comes before the file's first line. */
void kh_journal_stand(struct kh_journal *journal, const struct kh_journal_base *base);
/* What was there, without a record of its own: `report` as far as it is known. */
struct kh_journal *kh_journal_resume(struct kh_journal_files files, enum kh_durability durability,
				     const struct kh_journal_base *base,
				     struct kh_journal_report *report, struct kh_err *err);
/* Without a farewell: as a death would leave it. */
void kh_journal_free(struct kh_journal *journal);

/* recover.c: what an earlier life left, found from the end backwards. */
/* Sets end, torn, unended and stopped; seq and head where a line is there, else they stay. */
bool kh_recover_tail(struct kh_journal *journal, struct kh_err *err);
/* The same, as if the file ended there. */
bool kh_recover_tail_at(struct kh_journal *journal, uint64_t end, struct kh_err *err);
/* numbers.c: can the last line have the number that it has, where it is? */
bool kh_numbers_fit(const struct kh_journal *journal);
/* What recovery takes at the most. */
struct kh_recover_bounds {
	size_t ids;	/* 16 bytes each */
	uint64_t bytes; /* of the end of the last life */
	uint64_t ms;	/* that reading it takes */
};
extern const struct kh_recover_bounds kh_recover_bounds;
/* Writes an `aborted` record for each open of the last life that has no end; those above the bound
 * are counted in one. What is in front of the bytes that were read goes to *unread. */
bool kh_recover_opens(struct kh_journal *journal, const struct kh_recover_bounds *bounds,
		      uint64_t *aborted, uint64_t *unread, struct kh_err *err);

/* lines.c: a descriptor as lines. */
struct kh_lines {
	int fd;
	bool at;	  /* pread at `next`; else read */
	uint64_t next;	  /* offset of the next byte to be read */
	uint64_t most;	  /* offset after which no line begins any more */
	uint32_t wait_ms; /* for the rest of a line that is being written */
	bool keeps;	  /* such a line instead, for after kh_lines_more */
	char *bytes;
	size_t from, to; /* what is there and not yet given */
	bool inside;	 /* of a line whose beginning was given */
};
struct kh_lines_piece {
	uint64_t offset;       /* of its first byte */
	struct kh_slice bytes; /* without the newline; until the next call */
	bool begins, ends;     /* both: a whole line. Not `ends` at the end: cut off */
};
enum kh_lines_status { KH_LINES_PIECE = 1, KH_LINES_END, KH_LINES_FAILED };
bool kh_lines_init(struct kh_lines *lines, int fd, bool at, uint64_t from, struct kh_err *err);
void kh_lines_fini(struct kh_lines *lines);
/* A line longer than a record can be comes in pieces. */
enum kh_lines_status kh_lines_next(struct kh_lines *lines, struct kh_lines_piece *out,
				   struct kh_err *err);

/* From now on also what was written since. Return: false with `err`: the file is shorter than what
 * was read of it, or its size can't be told. */
bool kh_lines_more(struct kh_lines *lines, struct kh_err *err);

/* chain.c: the one reading of which lines are the journal. */
struct kh_chain {
	struct kh_digest digest; /* of the line at hand */
	bool adopts;		 /* a last line that lacks only its newline is taken */
	/* Where it is: after this line of the file, at this record. */
	uint64_t line, seq;
	char head[KH_HASH_HEX + 1];
	uint64_t base; /* the line that this segment continues, by its first record; 0: none */
	char base_hash[KH_HASH_HEX + 1];
	/* From `offset` on, these bytes are not next; a `recovered` record may name them. */
	bool suspect;
	uint64_t offset, bytes;
	struct kh_digest torn; /* of these bytes */
	bool sound;	       /* the hash of the line at hand fits */
	uint64_t sound_line;   /* the first such line among these bytes; 0: none */
	bool covers;	       /* the line at hand names these bytes all the same */
};
enum kh_chain_place {
	KH_CHAIN_NEXT = 1,  /* the next record */
	KH_CHAIN_RECOVERED, /* the next record; all since `offset` was torn */
	KH_CHAIN_APART,	    /* neither: torn, or what is wrong with the file */
	KH_CHAIN_FAILED,    /* SHA-256 fails */
};
/* It comes before the first line of a journal. Also after an error: kh_chain_fini. */
bool kh_chain_init(struct kh_chain *chain, struct kh_err *err);
void kh_chain_fini(struct kh_chain *chain);
/* `head`: 64 hex digits. */
void kh_chain_stand(struct kh_chain *chain, uint64_t line, uint64_t seq, struct kh_slice head);
/* *fault: NULL for a sound record, wherever it is; *line is set then. */
enum kh_chain_place kh_chain_take(struct kh_chain *chain, const struct kh_lines_piece *piece,
				  struct kh_line *line, const char **fault);
/* By its number and the hash that it names. */
bool kh_chain_is_due(const struct kh_chain *chain, const struct kh_line *line);
/* What stands apart is nothing that any record of ours explains: more than KH_LIMIT_TORN_BYTES, or
 * a line whose own hash fits. */
bool kh_chain_is_lost(const struct kh_chain *chain);

/* Hands over all pieces, to the end (kh_journal_read). */
bool kh_chain_read(struct kh_chain *chain, struct kh_lines *lines,
		   void (*take)(void *context, const struct kh_journal_piece *piece), void *context,
		   struct kh_err *err);

/* join.c */
/* Of the segment before: its last line. */
bool kh_join_record(struct kh_batch *batch, uint64_t segment, uint64_t last_seq, const char *head);

/* held.c: how far the chain of a segment holds. */
struct kh_held {
	uint64_t size; /* of the file */
	/* The last line that follows from the one that was continued. */
	uint64_t seq;
	char head[KH_HASH_HEX + 1];
	uint64_t suspect; /* where what no record explains begins; UINT64_MAX: nowhere */
	bool whole;	  /* the bounds sufficed; else nothing else is known */
};
/* Follows the chain from that line. Return: false with `err`: the line is not there, or the file
 * can't be read. */
bool kh_held_since(int fd, const struct kh_journal_base *line,
		   const struct kh_recover_bounds *bounds, struct kh_held *held,
		   struct kh_err *err);
/* The last line that was found (kh_recover_tail) is that line, and what follows it is torn. */
bool kh_held_is_tail(const struct kh_held *held, const struct kh_journal *found);

/* verify_joined.c */
/* A `joined` record. Return: NULL, or what is wrong with it. */
const char *kh_joined_take(struct kh_verify_report *report, struct kh_slice text);
/* The whole file is read: is it what the next segment says (NULL: there is none), and does anything
 * protect the end of the one before? */
void kh_joined_hold(struct kh_verify_report *report, const struct kh_verify_report *next);

/* verify.c: kh_journal_verify, with its patience for the end of a line that is being written. */
bool kh_verify_within(int fd, uint32_t wait_ms, struct kh_verify_report *report,
		      struct kh_err *err);
/*
 * The same from an offset on, where the chain is as in the report's last_seq and head; at the
 * beginning of a file of which nothing is known (0 and 0) its first line says where. Both
 * move on to the last line that holds; a last line that lacks only its newline holds. *suspect:
 * where what no record explains begins, or UINT64_MAX. *whole: the bounds sufficed.
 */
bool kh_verify_behind(int fd, uint64_t from, const struct kh_recover_bounds *bounds,
		      struct kh_verify_report *report, uint64_t *suspect, bool *whole,
		      struct kh_err *err);

/* continued.c: what following a file takes at the most of which nothing is known. */
extern const struct kh_recover_bounds kh_continued_bounds;
/* kh_journal_is_continued within these bounds; NULL: its own. */
bool kh_continued_within(int fd, const struct kh_journal_base *base,
			 const struct kh_journal_past *past, const struct kh_recover_bounds *bounds,
			 enum kh_journal_followed *how, struct kh_checkpoint *last,
			 struct kh_err *err);

/* ids.c: the ids of exchanges that are open. */
struct kh_ids {
	uint64_t key[3];
	uint64_t *slots;
	size_t size, used, most;
	uint64_t unnamed; /* those that have no place */
};
/* Return: false, errno: no random key. */
bool kh_ids_init(struct kh_ids *ids, size_t most);
/* What they were is gone; it can be used on. */
void kh_ids_clear(struct kh_ids *ids);
/* Return: false: it was there already. */
bool kh_ids_add(struct kh_ids *ids, uint64_t id);
/* One that is not there is taken for one of those that have no place. Return: false: there are no
 * such. */
bool kh_ids_remove(struct kh_ids *ids, uint64_t id);
/* What a record does to them. */
enum kh_ids_fault {
	KH_IDS_NONE,
	KH_IDS_REOPENED,  /* it opens what is open */
	KH_IDS_UNMATCHED, /* it ends what is not open */
};
enum kh_ids_fault kh_ids_follow(struct kh_ids *ids, const struct kh_line *line,
				struct kh_slice text);

#endif
