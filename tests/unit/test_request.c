/* test_request.c - which request it is, and what is decided about it, before anything goes out */
/* wrap: kh_up_acquire */
#include "near_side.h"

/* One that goes nowhere: one answer of ours, one record. */
static void assert_refused(enum kh_err_code reason, const char *what)
{
	if (near.stream.exchange)
		fail_msg("%s: it was not refused", what);
	if (near.reason != reason)
		fail_msg("%s: refused as %s, not %s", what, kh_err_reason(near.reason),
			 kh_err_reason(reason));
	assert_int_equal(near.overs, 1);
	assert_int_equal(near.answers, 1);
	assert_int_equal(near.status, kh_err_status(reason));
	assert_records(0, 0, 1);
	assert_int_equal(world.n_fars, 0);
	world_end(0);
}

/* It goes out; the upstream sees that target. */
static void assert_sent(const char *head)
{
	assert_non_null(near.stream.exchange);
	assert_records(1, 0, 0);
	struct kh_slice got = kh_buf_view(&far_last()->head);
	assert_int_equal(got.len, strlen(head));
	assert_memory_equal(got.ptr, head, got.len);
	kh_exchange_gone(near.stream.exchange, KH_ERR_DOWN_CLOSED, NULL);
	world_end(0);
}

static void test_inside_a_tunnel_everything_names_its_authority(void **state)
{
	static const struct {
		const char *what, *target, *host;
		unsigned char minor;
		bool passes;
	} requests[] = {
		{ "the tunnel's own", "/", "b.example", 1, true },
		{ "with its port", "/", "b.example:443", 1, true },
		{ "in other letters", "/", "B.Example", 1, true },
		{ "the whole URL", "https://b.example/", "b.example", 1, true },
		{ "1.0 without Host", "/", "", 0, true },
		{ "another Host", "/", "a.example", 1, false },
		{ "another port", "/", "b.example:444", 1, false },
		{ "another URL", "https://a.example/", "b.example", 1, false },
		{ "another scheme", "http://b.example/", "b.example", 1, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		near_begin("b.example");
		struct kh_message *m = near_request("GET", requests[i].target, -1);
		m->host = kh_slice_str(requests[i].host);
		m->minor = requests[i].minor;
		(void)near_send();
		if (requests[i].passes)
			assert_sent("GET /\r\n");
		else
			assert_refused(KH_ERR_AUTHORITY_MISMATCH, requests[i].what);
	}
}

static void test_the_handshake_named_another_host(void **state)
{
	(void)state;
	near_begin("b.example");
	near.side.other_name = "a.example";
	(void)near_ask("GET", "/");
	assert_refused(KH_ERR_AUTHORITY_MISMATCH, "SNI");
}

static void test_without_a_tunnel_the_target_says_where_to(void **state)
{
	static const struct {
		const char *what, *target, *host;
		enum kh_err_code reason; /* NONE: it goes */
	} requests[] = {
		{ "the whole URL", "http://p.example/x", "p.example", KH_ERR_NONE },
		{ "another Host", "http://p.example/x", "b.example", KH_ERR_REQUEST_MALFORMED },
		{ "no Host", "http://p.example/x", "", KH_ERR_REQUEST_MALFORMED },
		{ "a path alone", "/x", "p.example", KH_ERR_REQUEST_MALFORMED },
		{ "no URL", "x", "p.example", KH_ERR_REQUEST_MALFORMED },
		{ "no host", "http:///x", "p.example", KH_ERR_REQUEST_MALFORMED },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		near_begin("p.example");
		near.side.tunnel = near.side.tls = false;
		near_request("GET", requests[i].target, -1)->host = kh_slice_str(requests[i].host);
		(void)near_send();
		if (requests[i].reason == KH_ERR_NONE)
			assert_sent("GET /x\r\n");
		else
			assert_refused(requests[i].reason, requests[i].what);
	}
}

static void test_in_http2_the_scheme_has_to_be_the_tunnels(void **state)
{
	static const struct {
		const char *scheme;
		bool tunnel;
		enum kh_err_code reason;
	} requests[] = {
		{ "https", true, KH_ERR_NONE },
		{ "http", true, KH_ERR_AUTHORITY_MISMATCH },
		{ "https", false, KH_ERR_NONE },
		{ "ftp", false, KH_ERR_REQUEST_MALFORMED },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		near_begin("b.example");
		near.side.tunnel = near.side.tls = requests[i].tunnel;
		struct kh_message *m = near_request("GET", "/", -1);
		m->h2 = true;
		m->scheme = kh_slice_str(requests[i].scheme);
		(void)near_send();
		if (requests[i].reason == KH_ERR_NONE)
			assert_sent("GET /\r\n");
		else
			assert_refused(requests[i].reason, requests[i].scheme);
	}
}

static void test_the_rules_decide(void **state)
{
	static const struct {
		const char *host, *target;
		enum kh_err_code reason;
	} requests[] = {
		{ "b.example", "/denied", KH_ERR_DENIED_BY_RULE },
		{ "other.example", "/", KH_ERR_NO_RULE },
		{ "b.example:8443", "/", KH_ERR_NO_RULE },
		{ "p.example", "/", KH_ERR_NO_RULE }, /* which is http alone */
		{ "d.example", "/", KH_ERR_TUNNEL_ONLY },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		near_begin(requests[i].host);
		struct kh_message *m = near_request("GET", requests[i].target, -1);
		m->host = kh_slice_str(requests[i].host);
		(void)near_send();
		assert_refused(requests[i].reason, requests[i].host);
	}
}

/* Where none goes in, and no rule lets it pass. */
static void test_the_clients_own_authentication_is_refused(void **state)
{
	static const char *const fields[] = { "Authorization", "Cookie", "X-Api-Key" };

	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		near_begin("b.example");
		(void)near_request("GET", "/", -1);
		near_add_field(fields[i], "mine");
		(void)near_send();
		assert_refused(KH_ERR_CLIENT_AUTH, fields[i]);
	}
}

static void test_a_credential_takes_its_place(void **state)
{
	(void)state;
	near_begin("a.example");
	world_value(world.gen);
	(void)near_request("GET", "/?q=1", -1);
	near_add_field("Authorization", "mine");
	near_add_field("X-Api-Key", "mine too");
	struct kh_exchange *x = near_send();
	assert_string_equal(x->stripped, "Authorization,X-Api-Key");
	assert_false(kh_request_forwards(x, &near.message.fields[0]));
	assert_false(kh_request_forwards(x, &near.message.fields[1]));
	assert_sent("GET /?q=1\r\nx-api-key: the-real-key-of-this-test\r\n");
}

static void test_without_its_credential_nothing_goes(void **state)
{
	(void)state;
	near_begin("a.example");
	struct kh_exchange *x = near_ask("GET", "/");
	assert_records(0, 0, 0);
	assert_int_equal(world.n_fars, 0);
	world.loop->now_ms = kh_exchange_deadline(x);
	kh_exchange_timed_out(x);
	assert_refused(KH_ERR_CREDENTIAL_UNAVAILABLE, "no value");
}

static void test_an_upgrade_needs_a_rule_of_its_own(void **state)
{
	(void)state;
	near_begin("b.example");
	near_request("GET", "/", -1)->upgrade = true;
	near_add_field("Connection", "Upgrade");
	near_add_field("Upgrade", "websocket");
	(void)near_send();
	assert_refused(KH_ERR_UPGRADE_UNSUPPORTED, "WebSocket");
}

/* The model may be said by what is in the content, and then another rule decides. */
static void test_the_model_in_the_content_decides(void **state)
{
	static const struct {
		const char *content;
		enum kh_err_code reason;
	} requests[] = {
		{ "{\"model\":\"one\"}", KH_ERR_NONE },
		{ "{\"model\":\"two\"}", KH_ERR_NO_RULE },
		{ "{\"other\":\"one\"}", KH_ERR_NO_RULE },
		{ "{\"model\":\"one\"", KH_ERR_MODEL_UNREADABLE },
		{ "{\"model\":\"one\",\"model\":\"two\"}", KH_ERR_MODEL_UNREADABLE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		near_begin("m.example");
		(void)near_request("POST", "/", (int)strlen(requests[i].content));
		struct kh_exchange *x = near_send();
		assert_int_equal(x->state, KH_EXCHANGE_BUFFER);
		kh_exchange_body(x, kh_slice_str(requests[i].content));
		kh_exchange_request_end(x, NULL, 0);
		if (requests[i].reason == KH_ERR_NONE)
			assert_sent("POST /\r\n");
		else
			assert_refused(requests[i].reason, requests[i].content);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inside_a_tunnel_everything_names_its_authority),
		cmocka_unit_test(test_the_handshake_named_another_host),
		cmocka_unit_test(test_without_a_tunnel_the_target_says_where_to),
		cmocka_unit_test(test_in_http2_the_scheme_has_to_be_the_tunnels),
		cmocka_unit_test(test_the_rules_decide),
		cmocka_unit_test(test_the_clients_own_authentication_is_refused),
		cmocka_unit_test(test_a_credential_takes_its_place),
		cmocka_unit_test(test_without_its_credential_nothing_goes),
		cmocka_unit_test(test_an_upgrade_needs_a_rule_of_its_own),
		cmocka_unit_test(test_the_model_in_the_content_decides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
