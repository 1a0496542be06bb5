/*
 * subprotocols.c - authentication among a WebSocket's subprotocols
 *
 * A browser can't set a field on a WebSocket handshake, so services take keys in
 * Sec-WebSocket-Protocol: as a subprotocol that begins with a telling name
 * ("openai-insecure-api-key.…", "base64url.bearer.authorization.k8s.io.…"), or as the one after a
 * telling name ("token, …"). There is no list of services: the telling words are few, and a
 * subprotocol that is longer than any real name counts as a key.
 */
#include <keyhole/credential/credential.h>

#include <keyhole/base/spelling.h>
#include <keyhole/http/ws.h>

enum { NAME_BYTES = 64, WORD_BYTES = 20 };

/* Anywhere in a token, in the form in which names are compared (spelling.h). */
static const struct kh_slice telling[] = {
	KH_SLICE_INIT("api-key"), KH_SLICE_INIT("apikey"),     KH_SLICE_INIT("authorization"),
	KH_SLICE_INIT("bearer"),  KH_SLICE_INIT("credential"), KH_SLICE_INIT("jwt"),
	KH_SLICE_INIT("passw"),	  KH_SLICE_INIT("secret"),     KH_SLICE_INIT("session-id"),
	KH_SLICE_INIT("token"),
};

/* By themselves; the key comes after them, or in the next token. */
static const struct kh_slice heads[] = {
	KH_SLICE_INIT("auth"),	 KH_SLICE_INIT("basic"), KH_SLICE_INIT("cookie"),
	KH_SLICE_INIT("header"), KH_SLICE_INIT("key"),
};

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static bool matches_at(struct kh_slice name, size_t at, struct kh_slice word)
{
	return kh_slice_eq(kh_slice_sub(name, at, at + word.len), word);
}

static bool is_word_byte(char c)
{
	return kh_is_alpha(c) || kh_is_digit(c);
}

/* A token in the form in which names are compared. What does not fit is left out. */
static struct kh_slice fold(struct kh_slice token, char room[NAME_BYTES])
{
	return (struct kh_slice){ room, kh_spelling_of_text(token, room, NAME_BYTES) };
}

static bool is_carrier(struct kh_slice token)
{
	char room[NAME_BYTES];
	struct kh_slice name = fold(token, room);

	if (token.len > NAME_BYTES)
		return true;
	for (size_t at = 0; at < name.len; at++)
		for (size_t i = 0; i < COUNT(telling); i++)
			if (matches_at(name, at, telling[i]))
				return true;
	for (size_t i = 0; i < COUNT(heads); i++)
		if (matches_at(name, 0, heads[i]) &&
		    (name.len == heads[i].len || !is_word_byte(name.ptr[heads[i].len])))
			return true;
	return false;
}

/* Hardly more than the telling word: the key is the next token. */
static bool announces(struct kh_slice token)
{
	char room[NAME_BYTES];

	return token.len <= NAME_BYTES && fold(token, room).len <= WORD_BYTES &&
	       kh_slice_find(token, '.', 0) == token.len && is_carrier(token);
}

/* Return: there was one. `kept` (unless NULL) gets the others, as one list. */
static bool sort(const struct kh_message *message, struct kh_buf *kept, bool *ok)
{
	bool any = false, next_too = false, first = true;
	struct kh_slice list, token;

	for (size_t i = 0; i < message->n_fields; i++) {
		if (!kh_slice_eq_nocase(message->fields[i].name,
					KH_SLICE("Sec-WebSocket-Protocol")))
			continue;
		list = message->fields[i].value;
		while (kh_ws_next_protocol(&list, &token)) {
			bool carries = is_carrier(token) || next_too;
			next_too = !next_too && announces(token);
			any = any || carries;
			if (carries || !kept)
				continue;
			*ok = *ok && (first || kh_buf_append_str(kept, ", ")) &&
			      kh_buf_append_slice(kept, token);
			first = false;
		}
	}
	return any;
}

bool kh_carrier_is_among_protocols(const struct kh_message *message)
{
	bool ok = true;

	return sort(message, NULL, &ok);
}

bool kh_carrier_strip_protocols(struct kh_buf *out, const struct kh_message *message)
{
	bool ok = true;

	(void)sort(message, out, &ok);
	return ok;
}
