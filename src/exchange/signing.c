/*
 * signing.c - an exchange whose request is signed when it is sent (aws_sigv4, hmac)
 *
 *   decide ─▶ begin: read the client's signature ─▶ (BUFFER: content without a hash) ─▶
 *   SECRET, with a scope ─▶ … ─▶ make: target and fields ─▶ head
 *
 * Nothing is sent before `make` has signed it, and any failure ends the exchange. Chunks with a
 * signature of their own come out of the signer into x->content, which is sent as the upstream
 * takes it (body_buffer.c); meanwhile no more is read.
 */
#include <stdlib.h>
#include <string.h>

#include <openssl/rand.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/encode.h>
#include <keyhole/credential/hmac.h>
#include <keyhole/credential/re_sign.h>
#include <keyhole/base/timestamp.h>

#include "exchange_internal.h"
#include "signing.h"

enum { SKEW_MS = 5 * 60 * 1000, CHUNKS_AHEAD_BYTES = 64 * 1024 };
/* A presigned address goes out now. Whoever gets a copy of it (a server's log, a redirect) could
 * use it without us for as long as it holds. */
enum { PRESIGNED_S = 15 * 60 };

struct kh_signing {
	size_t which;			   /* of x->injection */
	const struct kh_hmac_config *hmac; /* NULL: aws_sigv4, and `resign` */
	struct kh_re_sign re_sign;
	struct kh_re_signed made;
	bool is_made;
	struct kh_chunk_signer *chunks;
	size_t share; /* of the sandbox's listener_stats, for what the chunks take */
};

size_t kh_signing_share(const struct kh_exchange *x)
{
	return x->signing ? x->signing->share : 0;
}

void kh_signing_free(struct kh_exchange *x)
{
	struct kh_signing *s = x->signing;

	if (!s)
		return;
	if (s->share > 0)
		atomic_fetch_sub(&x->side->acceptor->listener_stats->held_bytes, s->share);
	kh_chunk_signer_free(s->chunks);
	kh_re_signed_fini(&s->made);
	free(s);
	x->signing = NULL;
}

/* Return: the injection's count where none signs. */
static size_t find(const struct kh_exchange *x)
{
	size_t i = 0;

	while (i < x->injection.count &&
	       !kh_placement_signs(x->injection.list[i].credential->placement))
		i++;
	return i;
}

static bool set_scope(struct kh_injected *one, const struct kh_re_sign *re_sign, struct kh_err *err)
{
	struct kh_buf text;

	kh_buf_init(&text, KH_SIGV4_SCOPE_BYTES);
	free(one->scope);
	one->scope = kh_re_sign_put_scope(&text, re_sign) ? kh_slice_dup(kh_buf_view(&text)) : NULL;
	kh_buf_fini(&text);
	return one->scope || kh_err_set(err, KH_ERR_NO_MEMORY, "no memory to sign a request");
}

static bool read_request(struct kh_exchange *x, struct kh_injected *one, struct kh_signing *s,
			 struct kh_err *err)
{
	struct kh_re_sign *re_sign = &s->re_sign;

	if (x->target.raw.len == 0 || x->target.raw.ptr[0] != '/')
		return kh_err_set(err, KH_ERR_CREDENTIAL_BINDING,
				  "a request for '*' can't be signed");
	if (!kh_re_sign_read(re_sign, one->credential->placement->sigv4, x->message, x->target.raw,
			     kh_host_view(&x->authority.host), kh_clock_wall_ms(), err))
		return false;
	if (re_sign->expires_s > PRESIGNED_S)
		re_sign->expires_s = PRESIGNED_S;
	if (kh_re_sign_wants_content(re_sign) && kh_exchange_has_content(x) &&
	    !kh_sigv4_digest(kh_buf_view(&x->content), re_sign->hash))
		return kh_err_set(err, KH_ERR_INTERNAL, "the content can't be hashed");
	return set_scope(one, re_sign, err);
}

static bool has_content(const struct kh_message *message)
{
	return message->framing == KH_FRAMING_CHUNKED ||
	       (message->framing == KH_FRAMING_LENGTH && message->content_length > 0);
}

bool kh_signing_begin(struct kh_exchange *x, struct kh_err *err)
{
	size_t which = find(x);

	kh_signing_free(x);
	if (which == x->injection.count)
		return true;
	x->signing = calloc(1, sizeof(*x->signing));
	if (!x->signing)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory to sign a request");
	kh_re_signed_init(&x->signing->made);
	x->signing->which = which;
	x->signing->hmac = x->injection.list[which].credential->placement->hmac;
	if (x->signing->hmac) {
		x->holds_for_credential = !kh_exchange_has_content(x) && has_content(x->message) &&
					  kh_hmac_wants_content(x->signing->hmac);
		return !x->holds_for_credential;
	}
	if (!read_request(x, &x->injection.list[which], x->signing, err))
		return kh_err_wrap(err, "credential %s", x->injection.list[which].credential->name);
	x->holds_for_credential = kh_re_sign_wants_content(&x->signing->re_sign);
	return !x->holds_for_credential;
}

bool kh_signing_has_chunks(const struct kh_exchange *x)
{
	return x->signing && !x->signing->hmac &&
	       (x->signing->re_sign.payload == KH_RE_SIGN_CHUNKS ||
		x->signing->re_sign.payload == KH_RE_SIGN_CHUNKS_TRAILER);
}

/* ---- the head ---- */

/* As it will be written. */
struct head {
	struct kh_field fields[KH_LIMIT_FIELDS + 2];
	size_t n;
	char digits[KH_U64_DIGITS];
	struct kh_buf host;
};

static bool collect(const struct kh_exchange *x, struct head *head)
{
	const struct kh_message *message = x->message;

	head->n = 0;
	if (!kh_request_put_authority(x, &head->host))
		return false;
	head->fields[head->n++] = (struct kh_field){ KH_SLICE("host"), kh_buf_view(&head->host) };
	for (size_t i = 0; i < message->n_fields; i++)
		if (kh_request_forwards(x, &message->fields[i]))
			head->fields[head->n++] = message->fields[i];
	if (message->framing == KH_FRAMING_LENGTH)
		head->fields[head->n++] =
			(struct kh_field){ KH_SLICE("content-length"),
					   kh_slice_from_u64(message->content_length,
							     head->digits) };
	return true;
}

static bool make_head(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_signing *s = x->signing;
	struct head head;

	kh_buf_init(&head.host, KH_HOST_MAX_BYTES + 16);
	bool ok = collect(x, &head) || kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a head");
	if (ok) {
		const struct kh_re_sign_head made = { x->message->method, x->target.raw,
						      head.fields, head.n };
		ok = kh_re_sign_make(&s->made, &s->re_sign, &made,
				     x->injection.list[s->which].secret, err);
	}
	kh_buf_fini(&head.host);
	return ok;
}

static bool make_hmac(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_signing *s = x->signing;
	struct kh_hmac_request request = { .method = x->message->method,
					   .content = kh_buf_view(&x->content),
					   .now_ms = kh_clock_wall_ms() };
	unsigned char random[(KH_HMAC_NONCE_BYTES - 1) / 2];
	struct kh_buf host;

	if (RAND_bytes(random, sizeof(random)) != 1)
		return kh_err_set(err, KH_ERR_INTERNAL, "no random bytes");
	kh_hex_encode(random, sizeof(random), request.nonce);
	kh_buf_init(&host, KH_HOST_MAX_BYTES + 16);
	bool ok = (kh_request_put_authority(x, &host) ||
		   kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a head")) &&
		  kh_injection_put_target(&x->injection, x->target.raw, &s->made.target, err);
	if (ok) {
		request.host = kh_buf_view(&host);
		request.target = kh_buf_view(&s->made.target);
		ok = kh_hmac_make(&s->made.fields, s->hmac, &request,
				  x->injection.list[s->which].secret, err) ||
		     kh_err_wrap(err, "credential %s",
				 x->injection.list[s->which].credential->name);
	}
	kh_buf_fini(&host);
	return ok;
}

/* Room for one chunk here and one on its way, out of the sandbox's share. */
static bool make_chunks(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_signing *s = x->signing;
	struct kh_listener_stats *listener_stats = x->side->acceptor->listener_stats;
	uint64_t most = x->gen->config->held_content * KH_LIMIT_HELD_CONTENTS;
	size_t share = 2 * (size_t)KH_LIMIT_SIGNED_CHUNK_BYTES;
	struct kh_buf before = x->content; /* what was held of it raw */

	if (atomic_fetch_add(&listener_stats->held_bytes, share) + share > most) {
		atomic_fetch_sub(&listener_stats->held_bytes, share);
		return kh_err_set(err, KH_ERR_LIMIT,
				  "too much content is held for this sandbox already to sign more");
	}
	s->share = share;
	s->chunks =
		kh_chunk_signer_new(&s->re_sign, s->made.seed, x->injection.list[s->which].secret);
	if (!s->chunks)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory to sign chunks");
	kh_buf_init(&x->content, 0);
	bool ok = kh_buf_len(&before) == 0 || kh_signing_take_content(x, kh_buf_view(&before), err);
	kh_buf_fini(&before);
	return ok && (!kh_exchange_has_request(x) || kh_signing_end_content(x, err));
}

bool kh_signing_make(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_signing *s = x->signing;

	if (!s || s->is_made)
		return true;
	if (s->hmac) {
		s->is_made = make_hmac(x, err);
		return s->is_made;
	}
	s->is_made = make_head(x, err) && (!kh_signing_has_chunks(x) || make_chunks(x, err));
	return s->is_made;
}

bool kh_signing_sets_target(const struct kh_exchange *x)
{
	return x->signing && !x->signing->hmac && x->signing->re_sign.form == KH_RE_SIGN_QUERY;
}

/* Is it one of those that make a presigned URL ours? All else in it is the client's, or no secret.
 */
static bool is_signed_parameter(struct kh_slice name)
{
	return kh_slice_eq(name, KH_SLICE("X-Amz-Credential")) ||
	       kh_slice_eq(name, KH_SLICE("X-Amz-Signature")) ||
	       kh_slice_eq(name, KH_SLICE("X-Amz-Security-Token"));
}

static bool hide_parameter(struct kh_slice value, struct kh_buf *text)
{
	char *room = malloc(value.len + 1);
	struct kh_buf next;
	bool found;

	if (!room)
		return false;
	kh_buf_init_wiping(&next, text->cap);
	bool ok = kh_reflection_hide_value(kh_sigv4_decode(value, room, value.len + 1),
					   kh_buf_view(text), &next, &found);
	kh_secret_wipe(room, value.len + 1);
	free(room);
	kh_buf_fini(text);
	*text = next;
	return ok;
}

bool kh_signing_hide(const struct kh_exchange *x, struct kh_slice text, struct kh_buf *out,
		     bool *found)
{
	struct kh_slice name, value, rest = { NULL, 0 };
	struct kh_buf made;

	if (kh_signing_sets_target(x) && x->signing->is_made) {
		struct kh_slice target = kh_buf_view(&x->signing->made.target);
		size_t mark = kh_slice_find(target, '?', 0);
		rest = kh_slice_sub(target, mark < target.len ? mark + 1 : mark, target.len);
	}
	kh_buf_init_wiping(&made, out->cap);
	bool ok = kh_buf_append_slice(&made, text);
	while (ok && rest.len > 0 && kh_query_next(&rest, &name, &value))
		if (is_signed_parameter(name))
			ok = hide_parameter(value, &made);
	*found = ok && !kh_slice_eq(kh_buf_view(&made), text);
	ok = ok && kh_buf_append_slice(out, kh_buf_view(&made));
	kh_buf_fini(&made);
	return ok;
}

bool kh_signing_put_target(const struct kh_exchange *x, struct kh_buf *out)
{
	return x->signing->is_made &&
	       kh_buf_append_slice(out, kh_buf_view(&x->signing->made.target));
}

bool kh_signing_put_fields(const struct kh_exchange *x, struct kh_buf *out)
{
	return !x->signing || (x->signing->is_made &&
			       kh_buf_append_slice(out, kh_buf_view(&x->signing->made.fields)));
}

/* ---- the content, in chunks ---- */

bool kh_signing_take_content(struct kh_exchange *x, struct kh_slice piece, struct kh_err *err)
{
	size_t most = 2 * (size_t)KH_LIMIT_SIGNED_CHUNK_BYTES + CHUNKS_AHEAD_BYTES;

	if (!x->content.data && !kh_buf_set_cap(&x->content, most))
		return kh_err_set(err, KH_ERR_INTERNAL, "content without memory has a length");
	/* Also of what was held before a reload. */
	if (!kh_exchange_is_within_max_body(x, piece, err))
		return false;
	x->content_bytes += piece.len;
	bool ok = kh_chunk_signer_feed(x->signing->chunks, piece, &x->content, err);
	kh_work_share_charge(&x->side->acceptor->work,
			     kh_chunk_signer_take_signatures(x->signing->chunks) *
				     KH_LIMIT_WORK_PER_SIGNATURE);
	return ok;
}

bool kh_signing_end_content(struct kh_exchange *x, struct kh_err *err)
{
	return kh_exchange_set_request(x, KH_REQUEST_HELD, err) &&
	       kh_chunk_signer_end(x->signing->chunks, err);
}

/* ---- the clock ---- */

void kh_signing_answered(const struct kh_exchange *x, const struct kh_message *response)
{
	const struct kh_field *date;
	struct kh_loop *loop = x->side->loop;

	if (!x->signing || x->signing->hmac ||
	    !(date = kh_message_field(response, KH_SLICE("date"))))
		return;
	uint64_t theirs, ours = kh_clock_wall_ms();
	if (!kh_timestamp_read(date->value, KH_TIMESTAMP_HTTP, &theirs))
		return;
	uint64_t apart = theirs > ours ? theirs - ours : ours - theirs;
	if (apart <= SKEW_MS)
		return;
	kh_count(loop, KH_COUNT_CLOCK_SKEWS);
	if (loop->skew_said_ms != 0 && loop->now_ms - loop->skew_said_ms < SKEW_MS)
		return;
	loop->skew_said_ms = loop->now_ms;
	kh_log_warn("credential %s: the clock of this host is %llu seconds %s that of %s, which "
		    "refuses signatures that are 5 to 15 minutes off: set the clock (NTP)",
		    x->injection.list[x->signing->which].credential->name,
		    (unsigned long long)(apart / 1000), theirs > ours ? "behind" : "ahead of",
		    x->authority.host.text);
}
