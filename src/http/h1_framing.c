/*
 * h1_framing.c - where a message ends (RFC 9112 §6), and what Host, Connection, Expect and Upgrade
 * mean
 *
 * One pass collects the few fields that matter; then each question is answered once. If two parsers
 * might answer differently, the message is refused, even if RFC 9112 says which one is right.
 */
#include "h1_internal.h"

#include "chars.h"
#include "message_internal.h"

struct framing {
	struct kh_message *message;
	enum kh_h1_side side;
	enum kh_h1_reply reply;
	struct kh_err *err;

	size_t n_length, n_coding, n_host, n_expect, n_options;
	struct kh_slice length, coding;
	bool close, keep_alive, upgrade_option, upgrade_field, expect_odd;
};

static bool refuse(const struct framing *f, const char *what)
{
	return kh_err_set(f->err, kh_h1_malformed_code(f->side), "%s: %s",
			  f->side == KH_H1_REQUESTS ? "request" : "response", what);
}

static bool is(struct kh_slice name, struct kh_slice known)
{
	return kh_slice_eq_nocase(name, known);
}

/* RFC 9110 §7.6.1. Empty list elements are legal (§5.6.1.2) and counted against the cap. */
static bool read_connection(struct framing *f, struct kh_slice value)
{
	struct kh_slice option;

	while (kh_list_next(&value, &option)) {
		if (++f->n_options > KH_LIMIT_CONNECTION_OPTIONS)
			return refuse(f, "too many connection options");
		if (option.len == 0)
			continue;
		if (!kh_chars_are_token(option))
			return refuse(f, "a connection option is not a token");
		if (kh_message_is_end_to_end(option))
			return refuse(f, "Connection names a field that is not of the connection");
		if (is(option, KH_SLICE("close")))
			f->close = true;
		else if (is(option, KH_SLICE("keep-alive")))
			f->keep_alive = true;
		else if (is(option, KH_SLICE("upgrade")))
			f->upgrade_option = true;
	}
	return true;
}

static bool sort_field(struct framing *f, const struct kh_field *field)
{
	if (kh_message_is_disguised_framing(field->name))
		return refuse(f, KH_DISGUISED_FRAMING);
	switch (field->name.len) {
	case 2:
		if (is(field->name, KH_SLICE("TE")) &&
		    kh_list_has(field->value, KH_SLICE("trailers")))
			f->message->te_trailers = true;
		break;
	case 4:
		if (is(field->name, KH_SLICE("Host"))) {
			f->n_host++;
			f->message->host = field->value;
		}
		break;
	case 6:
		if (is(field->name, KH_SLICE("Expect"))) {
			f->n_expect++;
			if (!is(field->value, KH_SLICE("100-continue")))
				f->expect_odd = true;
		}
		break;
	case 7:
		/* h2c (RFC 7540 §3.2, taken out by RFC 9113): it is an offer, and ignoring it is an
		 * answer (RFC 9110 §7.8). Neither field is forwarded. */
		if (is(field->name, KH_SLICE("Upgrade")) && !is(field->value, KH_SLICE("h2c")))
			f->upgrade_field = true;
		break;
	case 10:
		if (is(field->name, KH_SLICE("Connection")))
			return read_connection(f, field->value);
		break;
	case 14:
		if (is(field->name, KH_SLICE("Content-Length"))) {
			f->n_length++;
			f->length = field->value;
		}
		break;
	case 17:
		if (is(field->name, KH_SLICE("Transfer-Encoding"))) {
			f->n_coding++;
			f->coding = field->value;
		}
		break;
	default:
		break;
	}
	return true;
}

/* The syntax of both fields, before what they mean: a bad one is never passed over. */
static bool check_length_and_coding(struct framing *f)
{
	enum { MOST_DIGITS = 19 }; /* those of 2^63 - 1 */
	uint64_t length = 0;

	if (f->n_length > 0 && f->n_coding > 0)
		return refuse(f, "both Content-Length and Transfer-Encoding");
	if (f->n_length > 1)
		return refuse(f, "more than one Content-Length");
	if (f->n_length == 1) {
		if (f->length.len > MOST_DIGITS || !kh_slice_to_u64(f->length, &length) ||
		    length > INT64_MAX)
			return refuse(f, "Content-Length is not a number below 2^63");
		f->message->has_content_length = true;
		f->message->content_length = length;
	}
	if (f->n_coding > 0) {
		if (f->message->minor == 0)
			return refuse(f, "Transfer-Encoding in HTTP/1.0");
		if (f->n_coding > 1 || !is(f->coding, KH_SLICE("chunked")))
			return refuse(f, "Transfer-Encoding is not 'chunked' alone");
	}
	return true;
}

static bool decide_request(struct framing *f)
{
	struct kh_message *message = f->message;
	bool connect = kh_slice_eq(message->method, KH_SLICE("CONNECT"));

	if (f->n_host > 1)
		return refuse(f, "more than one Host");
	if (f->n_host == 1 && message->host.len == 0)
		return refuse(f, "Host is empty");
	/* HTTP/1.0 knew no Host: there the target itself must say where it goes. */
	if (f->n_host == 0 && (message->minor == 1 || (!connect && message->target.ptr[0] == '/') ||
			       kh_slice_eq(message->target, KH_SLICE("*"))))
		return refuse(f, "no Host");
	/* RFC 9110 §9.3.6: no content, and some clients say so. */
	if (connect && (f->n_coding > 0 || message->content_length > 0))
		return refuse(f, "CONNECT with content");
	if (f->n_coding > 0)
		message->framing = KH_FRAMING_CHUNKED;
	else if (f->n_length > 0 && !connect)
		message->framing = KH_FRAMING_LENGTH;
	if (f->n_expect > 0) {
		if (f->expect_odd)
			return kh_err_set(f->err, KH_ERR_EXPECTATION_FAILED,
					  "request: Expect is not '100-continue'");
		/* §10.1.1 of RFC 9110: nothing to wait for without content, nor in 1.0. */
		message->expect_continue =
			message->minor == 1 && (f->n_coding > 0 || message->content_length > 0);
	}
	/* RFC 9112 §9.3: a proxy keeps no connection of HTTP/1.0 open behind a request. */
	message->keep_alive = message->minor == 1 && !f->close;
	return true;
}

static bool decide_response(struct framing *f)
{
	struct kh_message *message = f->message;
	unsigned status = message->status;

	message->keep_alive = !f->close && (message->minor == 1 || f->keep_alive);
	/* RFC 9110 §8.6, RFC 9112 §6.1: a server must not send either there. A length of 0 is seen
	 * in the wild, and nobody can read it in two ways. */
	if ((status < 200 || status == 204) && (f->n_coding > 0 || message->content_length > 0))
		return refuse(f, "a status that has no content announces some");
	if (status < 200 || status == 204 || status == 304 || f->reply == KH_H1_REPLY_HEAD)
		return true;
	/* Both fields mean nothing behind CONNECT (RFC 9110 §9.3.6). */
	if (f->reply == KH_H1_REPLY_CONNECT && status < 300)
		return true;
	if (f->n_coding > 0) {
		message->framing = KH_FRAMING_CHUNKED;
	} else if (f->n_length > 0) {
		message->framing = KH_FRAMING_LENGTH;
	} else {
		message->framing = KH_FRAMING_CLOSE;
		message->keep_alive = false;
	}
	return true;
}

bool kh_h1_framing_decide(struct kh_message *message, enum kh_h1_side side, enum kh_h1_reply reply,
			  struct kh_err *err)
{
	struct framing f = { .message = message, .side = side, .reply = reply, .err = err };

	for (size_t i = 0; i < message->n_fields; i++)
		if (!sort_field(&f, &message->fields[i]))
			return false;
	if (!check_length_and_coding(&f))
		return false;
	/* RFC 9110 §7.8: Upgrade counts with its option, and not in HTTP/1.0. */
	message->upgrade = f.upgrade_field && f.upgrade_option && message->minor == 1;
	return side == KH_H1_REQUESTS ? decide_request(&f) : decide_response(&f);
}
