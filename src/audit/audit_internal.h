/* audit_internal.h - the line, which writer, recovery and verification agree on */
#ifndef KEYHOLE_AUDIT_INTERNAL_H
#define KEYHOLE_AUDIT_INTERNAL_H

#include <openssl/evp.h>
#include <pthread.h>

#include <keyhole/audit.h>
#include <keyhole/clock.h>
#include <keyhole/limits.h>

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
};

/* Hash of what stands before the first line. */
extern const char kh_genesis_hex[KH_HASH_HEX + 1];

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

/* Views into the line. */
struct kh_line {
	struct kh_slice event;
	uint64_t seq;
	struct kh_slice prev, hash; /* hex */
	struct kh_slice hashed;	    /* what the hash covers */
};
/* Form only; the line is without its newline. */
bool kh_line_parse(struct kh_line *out, struct kh_slice line);
/* The hash is that of the bytes. */
bool kh_line_is_sound(struct kh_digest *digest, const struct kh_line *line);
/* "x" and 16 hex digits in the third place. Return: false for any other id or none. */
bool kh_line_id(struct kh_slice line, uint64_t *id);
/* Values of records that hold no foreign text (recovered, aborted). */
bool kh_line_number(struct kh_slice line, struct kh_slice key, uint64_t *out);
struct kh_slice kh_line_hex(struct kh_slice line, struct kh_slice key);

/* record.c */
/* Begins a body: {"event":"…","time":"<now>". */
bool kh_record_begin(struct kh_buf *body, const char *event);
void kh_id_format(uint64_t id, char out[KH_EXCHANGE_ID_BYTES]);
/* Appends a body behind its length. */
bool kh_batch_put(struct kh_batch *batch, struct kh_slice body);

/* journal.c */
struct kh_journal {
	pthread_mutex_t lock;
	int fd;
	enum kh_durability durability;
	uint64_t end;		    /* of the file: where the next byte goes */
	uint64_t seq;		    /* of the last line */
	char head[KH_HASH_HEX + 1]; /* its hash */
	/* Bytes at the end that are no record: the last `torn` of the file. */
	uint64_t torn;
	bool unended;  /* the last line is whole but for its newline */
	bool stopped;  /* the last line is a `stop`, as it was found */
	uint64_t base; /* seq of the line that this segment continues; 0: none */
	struct kh_buf out;
	struct kh_digest digest;
};

/* What was there, without a record of its own: `report` as far as it is known. */
struct kh_journal *kh_journal_resume(int fd, enum kh_durability durability,
				     const struct kh_journal_base *base,
				     struct kh_journal_report *report, struct kh_err *err);
/* Without a farewell: as a death would leave it. */
void kh_journal_free(struct kh_journal *journal);

/* recover.c: what an earlier life left, found from the end backwards. */
/* Sets end, torn, unended and stopped; seq and head where a line is there, else they stay. */
bool kh_recover_tail(struct kh_journal *journal, struct kh_err *err);
/* Writes an `aborted` record for each open of the last life that has no end; those above `most_ids`
 * are counted in one. */
enum { KH_RECOVER_IDS = 1024 * 1024 }; /* 16 MiB of ids at the most */
bool kh_recover_opens(struct kh_journal *journal, size_t most_ids, uint64_t *aborted,
		      struct kh_err *err);

/* lines.c: a descriptor as lines. */
struct kh_lines {
	int fd;
	bool at;	  /* pread at `next`; else read */
	uint64_t next;	  /* offset of the next byte to be read */
	uint64_t most;	  /* offset behind which no line begins any more */
	uint32_t wait_ms; /* for the rest of a line that is being written */
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

/* verify.c: kh_journal_verify, with its patience for the end of a line that is being written. */
bool kh_verify_within(int fd, uint32_t wait_ms, struct kh_verify_report *report,
		      struct kh_err *err);

#endif
