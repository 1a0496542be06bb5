/*
 * ws_handshake.c - the opening handshake of a WebSocket (RFC 6455 §4), towards both sides
 *
 * Nothing of it is forwarded: keyhole answers the sandbox's key, asks the upstream with a key of
 * its own, and forwards only tokens of subprotocols. Extensions are never offered.
 */
#include <keyhole/http/ws.h>

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/spelling.h>

#include "chars.h"
#include "message_internal.h"

enum { NONCE_BYTES = 16, SHA1_BYTES = 20, MOST_PROTOCOLS = 32 };

static const struct kh_slice handshake_fields[] = {
	KH_SLICE_INIT("sec-websocket-accept"),	KH_SLICE_INIT("sec-websocket-extensions"),
	KH_SLICE_INIT("sec-websocket-key"),	KH_SLICE_INIT("sec-websocket-protocol"),
	KH_SLICE_INIT("sec-websocket-version"),
};

bool kh_ws_is_handshake_field(struct kh_slice name)
{
	for (size_t i = 0; i < sizeof(handshake_fields) / sizeof(*handshake_fields); i++)
		if (kh_spelling_is_field(name, handshake_fields[i]))
			return true;
	return false;
}

/* Return: how often it is there; *value is the last one's. */
static size_t count_field(const struct kh_message *message, struct kh_slice name,
			  struct kh_slice *value)
{
	size_t n = 0;

	*value = KH_SLICE("");
	for (size_t i = 0; i < message->n_fields; i++) {
		if (!kh_slice_eq_nocase(message->fields[i].name, name))
			continue;
		*value = message->fields[i].value;
		n++;
	}
	return n;
}

/* One Upgrade field with one protocol, and the Connection option beside it. */
static bool upgrades_to_websocket(const struct kh_message *message)
{
	struct kh_slice value;

	return message->upgrade && count_field(message, KH_SLICE("Upgrade"), &value) == 1 &&
	       kh_slice_eq_nocase(value, KH_SLICE("websocket"));
}

bool kh_ws_is_request(const struct kh_message *request)
{
	if (request->h2)
		return kh_slice_eq_nocase(request->protocol, KH_SLICE("websocket"));
	return upgrades_to_websocket(request);
}

static bool is_key(struct kh_slice key)
{
	unsigned char nonce[NONCE_BYTES + 4];
	size_t len = 0;

	return key.len == KH_WS_KEY_BYTES - 1 && kh_base64_decode(key, KH_BASE64, nonce, &len) &&
	       len == NONCE_BYTES;
}

bool kh_ws_next_protocol(struct kh_slice *list, struct kh_slice *token)
{
	while (kh_list_next(list, token))
		if (token->len > 0)
			return true;
	return false;
}

/* §4.1, §11.3.4: tokens, each of them once. */
static bool check_protocols(const struct kh_message *request, struct kh_err *err)
{
	struct kh_slice seen[MOST_PROTOCOLS], list, token;
	size_t n = 0;

	for (size_t i = 0; i < request->n_fields; i++) {
		if (!kh_slice_eq_nocase(request->fields[i].name,
					KH_SLICE("Sec-WebSocket-Protocol")))
			continue;
		list = request->fields[i].value;
		while (kh_ws_next_protocol(&list, &token)) {
			if (!kh_chars_are_token(token) || n == MOST_PROTOCOLS)
				return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
						  "WebSocket: Sec-WebSocket-Protocol is not a "
						  "list of at most %d tokens",
						  MOST_PROTOCOLS);
			for (size_t j = 0; j < n; j++)
				if (kh_slice_eq(seen[j], token))
					return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
							  "WebSocket: a subprotocol is offered "
							  "twice");
			seen[n++] = token;
		}
	}
	return true;
}

bool kh_ws_check_request(const struct kh_message *request, struct kh_err *err)
{
	struct kh_slice key, version;

	if (!kh_slice_eq(request->method, KH_SLICE("GET")) || request->minor == 0)
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
				  "WebSocket: the handshake is a GET of HTTP/1.1");
	if (request->framing != KH_FRAMING_NONE)
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
				  "WebSocket: the handshake carries no content");
	if (count_field(request, KH_SLICE("Sec-WebSocket-Version"), &version) != 1 ||
	    !kh_slice_eq(version, KH_SLICE("13")))
		return kh_err_set(err, KH_ERR_UPGRADE_UNSUPPORTED,
				  "WebSocket: version 13 is spoken here and no other");
	if (!request->h2 &&
	    (count_field(request, KH_SLICE("Sec-WebSocket-Key"), &key) != 1 || !is_key(key)))
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED,
				  "WebSocket: one Sec-WebSocket-Key of 16 bytes in base64 is "
				  "needed");
	return check_protocols(request, err);
}

bool kh_ws_accept_for(struct kh_slice key, char accept[KH_WS_ACCEPT_BYTES])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	unsigned char digest[SHA1_BYTES];
	char text[KH_WS_KEY_BYTES - 1 + sizeof(guid) - 1];
	unsigned int len = 0;

	if (key.len != KH_WS_KEY_BYTES - 1)
		return false;
	memcpy(text, key.ptr, key.len);
	memcpy(text + key.len, guid, sizeof(guid) - 1);
	if (EVP_Digest(text, sizeof(text), digest, &len, EVP_sha1(), NULL) != 1 ||
	    len != sizeof(digest))
		return false;
	kh_base64_encode(digest, sizeof(digest), accept);
	return true;
}

bool kh_ws_key_new(char key[KH_WS_KEY_BYTES])
{
	unsigned char nonce[NONCE_BYTES];

	if (RAND_bytes(nonce, sizeof(nonce)) != 1)
		return false;
	kh_base64_encode(nonce, sizeof(nonce), key);
	return true;
}

static bool is_offered(struct kh_slice list, struct kh_slice chosen)
{
	struct kh_slice token;

	while (kh_ws_next_protocol(&list, &token))
		if (kh_slice_eq(token, chosen))
			return true;
	return false;
}

static bool not_an_answer(struct kh_err *err, const char *why)
{
	return kh_err_set(err, KH_ERR_RESPONSE_MALFORMED, "WebSocket: the upstream's answer %s",
			  why);
}

/* In HTTP/1; in HTTP/2 a status says the same. */
static bool check_switch(const struct kh_message *response, struct kh_slice key, struct kh_err *err)
{
	char want[KH_WS_ACCEPT_BYTES];
	struct kh_slice value;

	if (response->status != 101 || !upgrades_to_websocket(response))
		return not_an_answer(err, "does not switch to WebSocket");
	if (!kh_ws_accept_for(key, want))
		return kh_err_set(err, KH_ERR_INTERNAL, "WebSocket: no SHA-1");
	if (count_field(response, KH_SLICE("Sec-WebSocket-Accept"), &value) != 1 ||
	    !kh_slice_eq(value, kh_slice_str(want)))
		return not_an_answer(err, "has no Sec-WebSocket-Accept that fits");
	return true;
}

bool kh_ws_check_response(const struct kh_message *response, struct kh_slice key,
			  struct kh_slice protocols, struct kh_slice *protocol, struct kh_err *err)
{
	struct kh_slice value;

	*protocol = KH_SLICE("");
	if (!response->h2 && !check_switch(response, key, err))
		return false;
	if (count_field(response, KH_SLICE("Sec-WebSocket-Extensions"), &value) > 0)
		return not_an_answer(err, "has an extension that nobody offered");
	size_t n = count_field(response, KH_SLICE("Sec-WebSocket-Protocol"), &value);
	if (n > 1 || (n == 1 && !is_offered(protocols, value)))
		return not_an_answer(err, "has a subprotocol that nobody offered");
	*protocol = value;
	return true;
}
