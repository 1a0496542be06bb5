/*
 * chunk_signer.c - re-signs each chunk of aws-chunked content
 *
 *   SIZE;chunk-signature=HEX CRLF data CRLF … 0;chunk-signature=HEX CRLF
 *   [name:value CRLF … x-amz-trailer-signature:HEX CRLF] CRLF
 *
 * ("Transferring Payload in Multiple Chunks", S3 API Reference.) Each signature covers the one
 * before it, and the first covers the request's. A new signature is as long as the old one, so the
 * announced length of the content stays right. A chunk is held until it is complete. Content in
 * another form ends the exchange before any byte of that chunk is sent.
 */
#include <keyhole/credential/re_sign.h>

#include <stdlib.h>

enum state {
	HEAD = 1, /* the line before a chunk */
	DATA,	  /* the chunk, and CRLF */
	TRAILER,  /* lines behind the last one */
	DONE,
};

enum { SIZE_DIGITS = 8 };

static const struct kh_slice extension = KH_SLICE_INIT(";chunk-signature=");
static const struct kh_slice trailer_signature = KH_SLICE_INIT("x-amz-trailer-signature:");

struct kh_chunk_signer {
	enum state state;
	bool with_trailer;
	struct kh_sigv4_scope scope;
	char time[KH_SIGV4_TIME_BYTES];
	char before[KH_SIGV4_HEX_BYTES]; /* the signature before */
	struct kh_secret *keys;
	struct kh_buf in; /* not yet whole */
	char size_text[SIZE_DIGITS];
	size_t size_len, size;
	size_t signatures;     /* made, that nobody was told of */
	struct kh_buf trailer; /* "name:value\n" … as they are signed */
};

struct kh_chunk_signer *kh_chunk_signer_new(const struct kh_re_sign *re_sign, const char *seed,
					    struct kh_secret *keys)
{
	struct kh_chunk_signer *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->state = HEAD;
	s->with_trailer = re_sign->payload == KH_RE_SIGN_CHUNKS_TRAILER;
	s->scope = re_sign->scope;
	memcpy(s->time, re_sign->time, sizeof(s->time));
	memcpy(s->before, seed, sizeof(s->before));
	s->keys = kh_secret_ref(keys);
	kh_buf_init(&s->in, KH_LIMIT_SIGNED_CHUNK_BYTES + KH_LIMIT_CHUNK_LINE_BYTES);
	kh_buf_init(&s->trailer, KH_LIMIT_TRAILER_BYTES);
	return s;
}

void kh_chunk_signer_free(struct kh_chunk_signer *s)
{
	if (!s)
		return;
	kh_secret_unref(s->keys);
	kh_buf_fini(&s->in);
	kh_buf_fini(&s->trailer);
	free(s);
}

size_t kh_chunk_signer_held(const struct kh_chunk_signer *s)
{
	return kh_buf_len(&s->in);
}

size_t kh_chunk_signer_take_signatures(struct kh_chunk_signer *s)
{
	size_t n = s->signatures;

	s->signatures = 0;
	return n;
}

static bool malformed(const char *what, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
			  "the content is not what x-amz-content-sha256 says (signed chunks): %s",
			  what);
}

/* ---- signing ---- */

struct job {
	struct kh_slice text;
	char *out;
};

static bool sign_text(struct kh_slice packed, void *arg)
{
	struct job *job = arg;
	struct kh_sigv4_keys keys;

	return kh_sigv4_unpack(&keys, packed) && kh_sigv4_sign(keys.key, job->text, job->out);
}

/* `middle`: what is between the signature before and the hash. */
static bool sign(struct kh_chunk_signer *s, const char *algorithm, const char *middle,
		 struct kh_slice bytes, struct kh_err *err)
{
	char digest[KH_SIGV4_HEX_BYTES], fresh[KH_SIGV4_HEX_BYTES];
	struct kh_buf text;

	kh_buf_init(&text, 1024);
	bool ok = kh_sigv4_digest(bytes, digest) && kh_buf_append_str(&text, algorithm) &&
		  kh_buf_append_char(&text, '\n') && kh_buf_append_str(&text, s->time) &&
		  kh_buf_append_char(&text, '\n') && kh_sigv4_scope_put(&text, &s->scope) &&
		  kh_buf_append_str(&text, "/aws4_request\n") &&
		  kh_buf_append_str(&text, s->before) && kh_buf_append_char(&text, '\n') &&
		  kh_buf_append_str(&text, middle) && kh_buf_append_str(&text, digest);
	struct job job = { kh_buf_view(&text), fresh };
	ok = ok && kh_secret_expose(s->keys, sign_text, &job);
	kh_buf_fini(&text);
	if (!ok)
		return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
				  "a chunk of the content can't be signed");
	memcpy(s->before, fresh, sizeof(fresh));
	s->signatures++;
	return true;
}

/* ---- the parts ---- */

/* Which of them is there as a whole? */
enum found { PART = 1, MORE, BAD };

static enum found find_line(const struct kh_chunk_signer *s, size_t most, struct kh_slice *line,
			    const char **why)
{
	struct kh_slice in = kh_buf_view(&s->in);
	size_t end = kh_slice_find(in, '\r', 0);

	*why = "a line is too long";
	if (end + 1 >= in.len)
		return in.len > most ? BAD : MORE;
	*why = "a CR without its LF";
	if (in.ptr[end + 1] != '\n')
		return BAD;
	*line = kh_slice_sub(in, 0, end);
	*why = "a line is too long";
	return end > most ? BAD : PART;
}

static bool is_signature(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (kh_hex_value(text.ptr[i]) < 0)
			return false;
	return text.len == KH_SIGV4_HEX_BYTES - 1;
}

static bool read_head(struct kh_chunk_signer *s, struct kh_slice line, struct kh_err *err)
{
	size_t digits = kh_slice_find(line, ';', 0);
	struct kh_slice rest = kh_slice_sub(line, digits, line.len);

	if (digits == 0 || digits > SIZE_DIGITS)
		return malformed("a chunk has no size, or one of too many digits", err);
	s->size = 0;
	for (size_t i = 0; i < digits; i++) {
		int value = kh_hex_value(line.ptr[i]);

		if (value < 0)
			return malformed("a chunk's size is no number", err);
		s->size = s->size << 4 | (size_t)value;
	}
	if (!kh_slice_has_prefix(rest, extension) ||
	    !is_signature(kh_slice_sub(rest, extension.len, rest.len)))
		return malformed("a chunk has no chunk-signature", err);
	if (s->size > KH_LIMIT_SIGNED_CHUNK_BYTES)
		return kh_err_set(
			err, KH_ERR_CONTENT_TOO_LARGE,
			"a signed chunk of %zu bytes is larger than what is held to sign it "
			"anew (%d bytes): let the client make smaller ones",
			s->size, KH_LIMIT_SIGNED_CHUNK_BYTES);
	memcpy(s->size_text, line.ptr, digits);
	s->size_len = digits;
	return true;
}

static bool no_room(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a signed chunk");
}

/* Its head, with the signature that it has now. */
static bool put_head(struct kh_chunk_signer *s, struct kh_slice data, struct kh_buf *out,
		     struct kh_err *err)
{
	static const char empty[] =
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n";

	if (!sign(s, "AWS4-HMAC-SHA256-PAYLOAD", empty, data, err))
		return false;
	return (kh_buf_append(out, s->size_text, s->size_len) &&
		kh_buf_append_slice(out, extension) && kh_buf_append_str(out, s->before) &&
		kh_buf_append_str(out, "\r\n")) ||
	       no_room(err);
}

static enum found step_head(struct kh_chunk_signer *s, struct kh_buf *out, struct kh_err *err)
{
	struct kh_slice line;
	const char *why;
	enum found found = find_line(s, KH_LIMIT_CHUNK_LINE_BYTES, &line, &why);

	if (found == BAD)
		(void)malformed(why, err);
	if (found != PART)
		return found;
	if (!read_head(s, line, err))
		return BAD;
	kh_buf_consume(&s->in, line.len + 2);
	if (s->size > 0) {
		s->state = DATA;
		return PART;
	}
	s->state = TRAILER;
	return put_head(s, KH_SLICE(""), out, err) ? PART : BAD;
}

static enum found step_data(struct kh_chunk_signer *s, struct kh_buf *out, struct kh_err *err)
{
	struct kh_slice in = kh_buf_view(&s->in), data = kh_slice_sub(in, 0, s->size);

	if (in.len < s->size + 2)
		return MORE;
	if (!kh_slice_eq(kh_slice_sub(in, s->size, s->size + 2), KH_SLICE("\r\n"))) {
		(void)malformed("a chunk is longer than it says", err);
		return BAD;
	}
	if (!put_head(s, data, out, err))
		return BAD;
	if (!kh_buf_append_slice(out, kh_slice_sub(in, 0, s->size + 2))) {
		(void)no_room(err);
		return BAD;
	}
	kh_buf_consume(&s->in, s->size + 2);
	s->state = HEAD;
	return PART;
}

/* A line "name:value", in some clients with a LF of its own before the CRLF. */
static bool take_trailer(struct kh_chunk_signer *s, struct kh_slice line, struct kh_buf *out,
			 struct kh_err *err)
{
	struct kh_slice signed_part = line;

	if (kh_slice_has_suffix(line, KH_SLICE("\n")))
		signed_part.len--;
	if (!s->with_trailer)
		return malformed("there are fields after the last chunk, and it does not say so",
				 err);
	if (kh_slice_has_prefix(line, trailer_signature)) {
		if (!is_signature(kh_slice_sub(line, trailer_signature.len, line.len)))
			return malformed("the signature of the trailer is none", err);
		if (!sign(s, "AWS4-HMAC-SHA256-TRAILER", "", kh_buf_view(&s->trailer), err))
			return false;
		kh_buf_clear(&s->trailer);
		s->with_trailer = false; /* nothing comes after it */
		return (kh_buf_append_slice(out, trailer_signature) &&
			kh_buf_append_str(out, s->before) && kh_buf_append_str(out, "\r\n")) ||
		       no_room(err);
	}
	if (kh_slice_find(signed_part, '\n', 0) < signed_part.len ||
	    kh_slice_find(signed_part, ':', 0) == signed_part.len)
		return malformed("a field after the last chunk is none", err);
	if (!kh_buf_append_slice(&s->trailer, signed_part) ||
	    !kh_buf_append_char(&s->trailer, '\n'))
		return malformed("there is too much after the last chunk", err);
	return (kh_buf_append_slice(out, line) && kh_buf_append_str(out, "\r\n")) || no_room(err);
}

static enum found step_trailer(struct kh_chunk_signer *s, struct kh_buf *out, struct kh_err *err)
{
	struct kh_slice line;
	const char *why;
	enum found found = find_line(s, KH_LIMIT_TRAILER_BYTES, &line, &why);

	if (found == BAD)
		(void)malformed(why, err);
	if (found != PART)
		return found;
	if (line.len > 0) {
		if (!take_trailer(s, line, out, err))
			return BAD;
		kh_buf_consume(&s->in, line.len + 2);
		return PART;
	}
	if (s->with_trailer) {
		(void)malformed("no x-amz-trailer-signature after the last chunk", err);
		return BAD;
	}
	if (!kh_buf_append_str(out, "\r\n")) {
		(void)no_room(err);
		return BAD;
	}
	kh_buf_consume(&s->in, 2);
	s->state = DONE;
	return PART;
}

static enum found step(struct kh_chunk_signer *s, struct kh_buf *out, struct kh_err *err)
{
	switch (s->state) {
	case HEAD:
		return step_head(s, out, err);
	case DATA:
		return step_data(s, out, err);
	case TRAILER:
		return step_trailer(s, out, err);
	case DONE:
		break;
	}
	if (kh_buf_len(&s->in) == 0)
		return MORE;
	(void)malformed("something comes after its end", err);
	return BAD;
}

bool kh_chunk_signer_feed(struct kh_chunk_signer *s, struct kh_slice in, struct kh_buf *out,
			  struct kh_err *err)
{
	enum found found;

	do {
		struct kh_slice piece = kh_slice_sub(in, 0, kh_buf_room(&s->in));

		if ((in.len > 0 && piece.len == 0) || !kh_buf_append_slice(&s->in, piece))
			return no_room(err);
		in = kh_slice_sub(in, piece.len, in.len);
		while ((found = step(s, out, err)) == PART)
			;
	} while (found == MORE && in.len > 0);
	return found == MORE;
}

bool kh_chunk_signer_end(const struct kh_chunk_signer *s, struct kh_err *err)
{
	return s->state == DONE || malformed("it ends before its last chunk", err);
}
