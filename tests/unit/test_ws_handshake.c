/* test_ws_handshake.c - RFC 6455 §4: who may ask, and what counts as an answer */
#include <stdio.h>

#include <keyhole/http/h1.h>
#include <keyhole/http/ws.h>

#include "unit.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
#define ASK \
	"GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\n" \
	"Connection: Upgrade\r\n"
#define ANSWER "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"

static struct kh_err err;

/* The head of one message; the codec that holds it is freed by the next call. */
static const struct kh_message *head(enum kh_h1_side side, const char *text)
{
	static struct kh_h1 *h1;
	struct kh_slice in = kh_slice_str(text), body;

	kh_h1_free(h1);
	h1 = NULL;
	if (!text)
		return NULL;
	h1 = kh_h1_new(side);
	assert_non_null(h1);
	assert_int_equal(kh_h1_feed(h1, &in, &body), KH_H1_HEAD);
	return kh_h1_message(h1);
}

static int tear_down(void **state)
{
	(void)state;
	(void)head(KH_H1_REQUESTS, NULL);
	return 0;
}

static enum kh_err_code asks(const char *text)
{
	err = (struct kh_err)KH_ERR_INIT;
	return kh_ws_check_request(head(KH_H1_REQUESTS, text), &err) ? KH_ERR_NONE : err.code;
}

#define REST "Sec-WebSocket-Key: " KEY "\r\nSec-WebSocket-Version: 13\r\n\r\n"

static void test_what_asks_for_a_websocket(void **state)
{
	static const char *const others[] = {
		"GET / HTTP/1.1\r\nHost: a\r\n" REST,
		"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n" REST,
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n" REST,
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" REST,
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket, "
		"h2c\r\n" REST,
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: "
		"websocket/13\r\n" REST,
		"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		"Upgrade: h2c\r\n" REST,
	};

	(void)state;
	assert_true(kh_ws_is_request(head(KH_H1_REQUESTS, ASK REST)));
	assert_true(kh_ws_is_request(head(KH_H1_REQUESTS,
					  "GET / HTTP/1.1\r\nHost: a\r\nupgrade: WebSocket\r\n"
					  "connection: keep-alive, UPGRADE\r\n" REST)));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(kh_ws_is_request(head(KH_H1_REQUESTS, others[i])));
}

static void test_how_it_asks(void **state)
{
#define V13 "Sec-WebSocket-Version: 13\r\n"
#define K(key) "Sec-WebSocket-Key: " key "\r\n"
	static const char *const malformed[] = {
		/* no key, two, the wrong length, not base64, not its one form */
		ASK V13 "\r\n",
		ASK V13 K("") "\r\n",
		ASK V13 K(KEY) K(KEY) "\r\n",
		ASK V13 K("dGhlIHNhbXBsZSBub25jZQ=") "\r\n",
		ASK V13 K("dGhlIHNhbXBsZSBub25jZQ") "\r\n",
		ASK V13 K("dGhlIHNhbXBsZSBub25jZWU=") "\r\n",
		ASK V13 K("dGhlIHNhbXBsZSBub25jZR==") "\r\n",
		ASK V13 K("dGhlIHNhbXBs-SBub25jZQ==") "\r\n",
		ASK V13 K("dGhlIHNhbXBsZSBub25jZQ==, x") "\r\n",
		/* method, version, content */
		"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" REST,
		"GET / HTTP/1.0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" REST,
		ASK "Content-Length: 0\r\n" REST,
		ASK "Content-Length: 4\r\n" REST,
		ASK "Transfer-Encoding: chunked\r\n" REST,
		/* subprotocols */
		ASK "Sec-WebSocket-Protocol: a b\r\n" REST,
		ASK "Sec-WebSocket-Protocol: a, \"b\"\r\n" REST,
		ASK "Sec-WebSocket-Protocol: a, b, a\r\n" REST,
		ASK "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: a\r\n" REST,
		ASK "Sec-WebSocket-Protocol: 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,"
		    "22,23,24,25,26,27,28,29,30,31,32,33\r\n" REST,
	};
	static const char *const versions[] = { "", "12", "8", "013", "13, 8", "14", "x" };
	char text[512];

	(void)state;
	assert_int_equal(asks(ASK REST), KH_ERR_NONE);
	assert_int_equal(asks(ASK "Sec-WebSocket-Protocol: chat, super-chat\r\n" REST),
			 KH_ERR_NONE);
	assert_int_equal(asks(ASK "Sec-WebSocket-Extensions: permessage-deflate\r\n" REST),
			 KH_ERR_NONE);
	for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++)
		assert_int_equal(asks(malformed[i]), KH_ERR_REQUEST_MALFORMED);
	/* §4.4: the answer to another version names ours. */
	assert_int_equal(asks(ASK K(KEY) "\r\n"), KH_ERR_UPGRADE_UNSUPPORTED);
	assert_int_equal(asks(ASK V13 V13 K(KEY) "\r\n"), KH_ERR_UPGRADE_UNSUPPORTED);
	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		snprintf(text, sizeof(text), ASK K(KEY) "Sec-WebSocket-Version: %s\r\n\r\n",
			 versions[i]);
		assert_int_equal(asks(text), KH_ERR_UPGRADE_UNSUPPORTED);
	}
}

/* RFC 8441 §5: a GET by now; the version counts, a key is not looked at. */
static void test_how_it_asks_by_extended_connect(void **state)
{
	struct kh_message message =
		*head(KH_H1_REQUESTS, "GET /chat HTTP/1.1\r\nHost: a\r\n" V13 "\r\n");

	(void)state;
	message.h2 = true;
	assert_false(kh_ws_is_request(&message));
	message.protocol = KH_SLICE("connect-udp");
	assert_false(kh_ws_is_request(&message));
	message.protocol = KH_SLICE("websocket");
	assert_true(kh_ws_is_request(&message));
	assert_true(kh_ws_check_request(&message, &err));
	message.n_fields--;
	assert_false(kh_ws_check_request(&message, &err));
	assert_int_equal(err.code, KH_ERR_UPGRADE_UNSUPPORTED);
}

static void test_the_key_and_its_answer(void **state)
{
	char accept[KH_WS_ACCEPT_BYTES], key[KH_WS_KEY_BYTES], other[KH_WS_KEY_BYTES];
	char text[256];

	(void)state;
	assert_true(kh_ws_accept_for(KH_SLICE(KEY), accept));
	assert_string_equal(accept, ACCEPT);
	assert_false(kh_ws_accept_for(KH_SLICE("short"), accept));
	for (int i = 0; i < 64; i++) {
		assert_true(kh_ws_key_new(key) && kh_ws_key_new(other));
		assert_string_not_equal(key, other);
		snprintf(text, sizeof(text), ASK V13 "Sec-WebSocket-Key: %s\r\n\r\n", key);
		assert_int_equal(asks(text), KH_ERR_NONE);
	}
}

static void test_fields_of_the_handshake(void **state)
{
	(void)state;
	assert_true(kh_ws_is_handshake_field(KH_SLICE("Sec-WebSocket-Key")));
	assert_true(kh_ws_is_handshake_field(KH_SLICE("SEC-WEBSOCKET-EXTENSIONS")));
	assert_true(kh_ws_is_handshake_field(KH_SLICE("Sec_WebSocket_Protocol")));
	assert_true(kh_ws_is_handshake_field(KH_SLICE("sec-websocket-version")));
	assert_true(kh_ws_is_handshake_field(KH_SLICE("sec-websocket-accept")));
	assert_false(kh_ws_is_handshake_field(KH_SLICE("Sec-WebSocket-Keys")));
	assert_false(kh_ws_is_handshake_field(KH_SLICE("Origin")));
}

/* With the RFC's key, and `protocols` offered. */
static bool answers(const char *text, const char *protocols, struct kh_slice *protocol)
{
	err = (struct kh_err)KH_ERR_INIT;
	return kh_ws_check_response(head(KH_H1_RESPONSES, text), KH_SLICE(KEY),
				    kh_slice_str(protocols), protocol, &err);
}

static void test_what_counts_as_an_answer(void **state)
{
#define GOOD "Sec-WebSocket-Accept: " ACCEPT "\r\n"
	static const char *const bad[] = {
		ANSWER "\r\n",
		ANSWER GOOD GOOD "\r\n",
		ANSWER "Sec-WebSocket-Accept: " KEY "\r\n\r\n",
		ANSWER "Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
		ANSWER GOOD "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
		ANSWER GOOD "Sec-WebSocket-Extensions:\r\n\r\n",
		ANSWER GOOD "Sec-WebSocket-Protocol: other\r\n\r\n",
		ANSWER GOOD "Sec-WebSocket-Protocol: Chat\r\n\r\n",
		ANSWER GOOD "Sec-WebSocket-Protocol: chat, more\r\n\r\n",
		ANSWER GOOD "Sec-WebSocket-Protocol:\r\n\r\n",
		ANSWER GOOD "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol: chat\r\n\r\n",
		"HTTP/1.1 101 x\r\nUpgrade: websocket\r\n" GOOD "\r\n",
		"HTTP/1.1 101 x\r\nConnection: Upgrade\r\n" GOOD "\r\n",
		"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" GOOD "\r\n",
		"HTTP/1.1 200 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" GOOD "\r\n",
	};
	struct kh_slice protocol;

	(void)state;
	assert_true(answers(ANSWER GOOD "\r\n", "", &protocol));
	assert_int_equal(protocol.len, 0);
	assert_true(answers(ANSWER GOOD "\r\n", "chat, more", &protocol));
	assert_int_equal(protocol.len, 0);
	assert_true(answers(ANSWER GOOD "Sec-WebSocket-Protocol: more\r\n\r\n", "chat, more",
			    &protocol));
	assert_slice_equal(protocol, "more");
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_false(answers(bad[i], "chat, more", &protocol));
		assert_int_equal(err.code, KH_ERR_RESPONSE_MALFORMED);
		assert_int_equal(protocol.len, 0);
	}
	assert_false(answers(ANSWER GOOD "Sec-WebSocket-Protocol: chat\r\n\r\n", "", &protocol));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_asks_for_a_websocket),
		cmocka_unit_test(test_how_it_asks),
		cmocka_unit_test(test_how_it_asks_by_extended_connect),
		cmocka_unit_test(test_the_key_and_its_answer),
		cmocka_unit_test(test_fields_of_the_handshake),
		cmocka_unit_test(test_what_counts_as_an_answer),
	};

	return cmocka_run_group_tests(tests, NULL, tear_down);
}
