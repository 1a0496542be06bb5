/* test_subprotocols.c - keys among the subprotocols that a WebSocket's handshake offers */
#include <stdio.h>

#include <keyhole/credential/credential.h>

#include "unit.h"

/* The message of a handshake that offers these lists, one field each. */
static struct kh_message offering(const char *const *lists, size_t n)
{
	struct kh_message message = { 0 };

	message.fields[message.n_fields++] = (struct kh_field){ KH_SLICE("Host"), KH_SLICE("a") };
	for (size_t i = 0; i < n; i++)
		message.fields[message.n_fields++] =
			(struct kh_field){ KH_SLICE("sec-webSocket-protocol"),
					   kh_slice_str(lists[i]) };
	return message;
}

static void keeps(const char *list, const char *want)
{
	struct kh_message message = offering(&list, 1);
	struct kh_buf out;

	kh_buf_init(&out, 4096);
	assert_true(kh_carrier_strip_protocols(&out, &message));
	assert_string_equal(kh_buf_cstr(&out), want);
	assert_int_equal(kh_carrier_is_among_protocols(&message), strcmp(list, want) != 0);
	kh_buf_fini(&out);
}

static void test_names_of_protocols_stay(void **state)
{
	(void)state;
	keeps("realtime", "realtime");
	keeps("realtime, openai-beta.realtime-v1", "realtime, openai-beta.realtime-v1");
	keeps("graphql-transport-ws, graphql-ws", "graphql-transport-ws, graphql-ws");
	keeps("mqtt, wamp.2.json, v5.channel.k8s.io", "mqtt, wamp.2.json, v5.channel.k8s.io");
	keeps("soap, xmpp, stomp, json, v1.usp, keyboard, authentic, basics",
	      "soap, xmpp, stomp, json, v1.usp, keyboard, authentic, basics");
}

static void test_keys_go(void **state)
{
	(void)state;
	keeps("realtime, openai-insecure-api-key.sk-1, openai-beta.realtime-v1",
	      "realtime, openai-beta.realtime-v1");
	keeps("OPENAI-INSECURE-API_KEY.sk-1", "");
	keeps("xai-client-secret.abc, a", "a");
	keeps("base64url.bearer.authorization.k8s.io.dG9r, v5.channel.k8s.io", "v5.channel.k8s.io");
	keeps("v1.token.websocket.example.abc, b", "b");
	keeps("header-eyJob3N0IjoiYS5leGFtcGxlIn0, aws-appsync-event-ws", "aws-appsync-event-ws");
	keeps("auth-0123456789abcdef0123, a", "a");
	keeps("a, 0123456789012345678901234567890123456789012345678901234567890123456789, b",
	      "a, b");
}

/* What a server undoes before it looks, and what it takes for the same character. */
static void test_keys_go_in_every_spelling_of_the_telling_word(void **state)
{
	static const char *const spellings[] = {
		"my-api-key-1", "my-API_KEY-1",	      "my-api.key-1",	  "my-api%2dkey-1",
		"x%62earer-1",	"x%2562earer-1",      "x-b%45arer-1",	  "x%EF%BD%82earer-1",
		"session.id.1", "x-s%25%36%35cret-1", "%61uth-123456789", "x%00token",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(spellings) / sizeof(*spellings); i++) {
		char list[128];

		keeps(spellings[i], "");
		snprintf(list, sizeof(list), "chat, %s", spellings[i]);
		keeps(list, "chat");
	}
	/* An escaped word announces a key as a plain one does. */
	keeps("chat, %74%6f%6b%65%6e, 0123456789abcdef", "chat");
	keeps("chat, 50%25, a%2fb", "chat, 50%25, a%2fb");
}

/* "token, KEY": the key itself says nothing. */
static void test_an_announced_key_goes(void **state)
{
	static const char *const lists[] = { "a, token", "0123456789abcdef, b" };
	struct kh_message message = offering(lists, 2);
	struct kh_buf out;

	(void)state;
	keeps("token, 0123456789abcdef", "");
	keeps("Bearer, abc, chat", "chat");
	keeps("access_token, abc, chat", "chat");
	keeps("authorization, abc, token, def, chat", "chat");
	keeps("chat, key, abc", "chat");
	keeps("chat, token", "chat");
	/* Also where the list is cut into two fields. */
	kh_buf_init(&out, 4096);
	assert_true(kh_carrier_strip_protocols(&out, &message));
	assert_string_equal(kh_buf_cstr(&out), "a, b");
	kh_buf_fini(&out);
}

static void test_they_are_found_as_a_carrier(void **state)
{
	static const char *const bad = "chat, token, x", *const good = "chat";
	struct kh_message message = offering(&bad, 1);

	(void)state;
	assert_slice_equal(kh_carrier_find(&message, KH_SLICE("")), "sec-websocket-protocol");
	message = offering(&good, 1);
	assert_int_equal(kh_carrier_find(&message, KH_SLICE("")).len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_protocols_stay),
		cmocka_unit_test(test_keys_go),
		cmocka_unit_test(test_keys_go_in_every_spelling_of_the_telling_word),
		cmocka_unit_test(test_an_announced_key_goes),
		cmocka_unit_test(test_they_are_found_as_a_carrier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
