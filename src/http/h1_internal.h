/* h1_internal.h - shared by the files of the HTTP/1.1 codec */
#ifndef KEYHOLE_H1_INTERNAL_H
#define KEYHOLE_H1_INTERNAL_H

#include <keyhole/http/h1.h>
#include <keyhole/base/limits.h>

/* Where a connection's side stands. h1_parse.c holds the table of allowed transitions. */
enum kh_h1_state {
	KH_H1_S_IDLE = 0, /* between messages; also between an interim and the final response */
	KH_H1_S_BLANK,	  /* the CR of an empty line before a request */
	KH_H1_S_FIRST_LINE,
	KH_H1_S_FIELDS,
	KH_H1_S_LENGTH,	    /* `left` bytes of content to come */
	KH_H1_S_CLOSE,	    /* content until the end of the connection */
	KH_H1_S_CHUNK_LINE, /* `chunk` says where in the line */
	KH_H1_S_CHUNK_DATA, /* `left` bytes of the chunk to come */
	KH_H1_S_CHUNK_CR,
	KH_H1_S_CHUNK_LF,
	KH_H1_S_TRAILERS,
	KH_H1_S_END, /* complete; the event is owed */
	KH_H1_S_RAW, /* no longer HTTP */
	KH_H1_S_FAILED,
	KH_H1_S_COUNT
};

/* Within a chunk-size line (RFC 9112 §7.1, without its "bad whitespace"). */
enum kh_h1_chunk {
	KH_H1_C_SIZE = 0,
	KH_H1_C_NAME,  /* extension name */
	KH_H1_C_VALUE, /* its first byte */
	KH_H1_C_TOKEN,
	KH_H1_C_QUOTED,
	KH_H1_C_ESCAPED, /* behind a backslash in a quoted string */
	KH_H1_C_QUOTED_END,
	KH_H1_C_LF,
};

enum kh_h1_reply { KH_H1_REPLY_PLAIN = 0, KH_H1_REPLY_HEAD, KH_H1_REPLY_CONNECT };

/* Lines as they came, with their CRLFs; grows by doubling. */
struct kh_h1_text {
	char *data;
	size_t len;
	size_t alloc;
	size_t line; /* where the line that is being read begins */
	bool cr;     /* its CR has come */
};

/* Everything that only a message needs, so that an idle parser is small. */
struct kh_h1_work {
	struct kh_message message;
	struct kh_h1_text head;
	size_t method_len;
	size_t target_len;
	struct kh_h1_text trailer_text;
	struct kh_field *trailers;
	size_t n_trailers;
	struct kh_err err;
};

struct kh_h1 {
	enum kh_h1_side side;
	enum kh_h1_state state;
	enum kh_h1_chunk chunk;
	enum kh_h1_reply reply;
	uint64_t left;
	uint32_t ext_bytes;	/* chunk extensions of this message */
	uint32_t interim_bytes; /* heads of interim responses before this message's */
	uint16_t chunk_line_bytes;
	uint8_t chunk_digits;
	uint8_t interims;
	uint8_t blanks; /* empty lines before this request */
	bool has_head;	/* kh_h1_message may be asked */
	struct kh_h1_work *work;
};

/* What a step answers when it consumed something but has no event. */
#define KH_H1_GO_ON ((enum kh_h1_event)0)

/* h1_parse.c */
void kh_h1_enter(struct kh_h1 *h1, enum kh_h1_state state);
/* Malformed; the text is for people. Return: KH_H1_ERROR. */
enum kh_h1_event kh_h1_malformed(struct kh_h1 *h1, const char *what);
/* Past a cap of limits.h. */
enum kh_h1_event kh_h1_too_large(struct kh_h1 *h1, const char *what);
enum kh_h1_event kh_h1_no_memory(struct kh_h1 *h1);
/* The code that this side's malformed messages have. */
static inline enum kh_err_code kh_h1_malformed_code(enum kh_h1_side side)
{
	return side == KH_H1_REQUESTS ? KH_ERR_REQUEST_MALFORMED : KH_ERR_RESPONSE_MALFORMED;
}

/* h1_line.c */
enum kh_h1_line {
	KH_H1_LINE_MORE = 0,
	KH_H1_LINE_DONE,
	KH_H1_LINE_BAD, /* a control byte, a CR without LF, or a LF without CR */
	KH_H1_LINE_LONG,
	KH_H1_LINE_TOTAL, /* all lines together are too long */
	KH_H1_LINE_NO_MEMORY,
};

/*
 * Takes bytes from *in up to the end of a line, at most `line_cap` of them in the line (without its
 * CRLF) and `total_cap` in all lines. What it answers depends on the bytes alone and never on how
 * they were cut into pieces. `fields`, whose views point into `text`, follow it when it moves.
 */
enum kh_h1_line kh_h1_line_read(struct kh_h1_text *text, struct kh_slice *in, size_t line_cap,
				size_t total_cap, struct kh_field *fields, size_t n_fields);
/* The line that was read, without CRLF; the next one begins behind it. */
struct kh_slice kh_h1_line_take(struct kh_h1_text *text);
void kh_h1_text_reset(struct kh_h1_text *text);
void kh_h1_text_fini(struct kh_h1_text *text);

/* h1_head.c: one line each. Return: NULL, or what is wrong with it. */
const char *kh_h1_head_field(struct kh_slice line, struct kh_field *out);
const char *kh_h1_head_status_line(struct kh_slice line, struct kh_message *message);
/* Only the lengths of method and target, since the text may still move; *version_bad: well formed,
 * but not a version that we speak. */
const char *kh_h1_head_request_line(struct kh_slice line, size_t *method_len, size_t *target_len,
				    uint8_t *minor, bool *version_bad);

/* h1_framing.c: what the fields of a whole head say together. */
bool kh_h1_framing_decide(struct kh_message *message, enum kh_h1_side side, enum kh_h1_reply reply,
			  struct kh_err *err);

/* h1_chunk.c */
enum kh_h1_event kh_h1_chunk_line(struct kh_h1 *h1, struct kh_slice *in);
enum kh_h1_event kh_h1_chunk_trailers(struct kh_h1 *h1, struct kh_slice *in);

#endif
