/* test_tls_hello.c - the side of the sandbox: names in a hello, and hellos that are none */
#include "tls_client.h"

#include "../../src/tls/stream_internal.h"

/* ---- SNI ---- */

static void test_another_sni_is_remembered_and_the_leaf_is_the_tunnels(void **state)
{
	struct pair p;
	(void)state;
	/* The client names evil.example.com in a tunnel to api.example.com; it is shown
	 * api.example.com's leaf, which here makes its own check fail. */
	pair_init(&p, &w);
	world_mint(&w, "evil.example.com");
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "evil.example.com", NULL);
	TURN_UNTIL(&w, p.up.failed);
	assert_string_equal(kh_stream_sni_mismatch(p.down.stream), "evil.example.com");
	const struct kh_err *err = kh_stream_error(p.up.stream);
	assert_int_equal(err->code, KH_ERR_TLS_CERTIFICATE);
	assert_non_null(strstr(err->text, "hostname mismatch"));
	assert_non_null(strstr(err->text, "api.example.com"));
	pair_fini(&p);
}

static void
test_a_handshake_with_another_sni_is_completed_so_that_the_refusal_can_be_read(void **state)
{
	struct side down;
	struct client c;
	(void)state;
	int fd = half_begin(&down, &c);
	client_names(&c, "other.example.com");
	assert_int_equal(client_run(&c, &down), 1);
	assert_string_equal(kh_stream_sni_mismatch(down.stream), "other.example.com");
	X509 *leaf = SSL_get1_peer_certificate(c.ssl);
	assert_int_equal(X509_check_host(leaf, "api.example.com", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(leaf, "other.example.com", 0, 0, NULL), 0);
	X509_free(leaf);
	half_end(&down, &c, fd);
}

static void test_an_sni_in_another_case_or_none_is_no_mismatch(void **state)
{
	static const char *const names[] = { "API.Example.COM", NULL };
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct side down;
		struct client c;
		int fd = half_begin(&down, &c);
		if (names[i])
			client_names(&c, names[i]);
		assert_int_equal(client_run(&c, &down), 1);
		assert_null(kh_stream_sni_mismatch(down.stream));
		half_end(&down, &c, fd);
	}
}

static void test_an_sni_that_is_no_host_is_a_mismatch_and_shown_escaped(void **state)
{
	static const char *const names[] = { "api.example.com\n", "api.example.com." };
	static const char *const shown[] = { "api.example.com\\x0a", "api.example.com." };
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct side down;
		struct client c;
		int fd = half_begin(&down, &c);
		client_names(&c, names[i]);
		assert_int_equal(client_run(&c, &down), 1);
		assert_string_equal(kh_stream_sni_mismatch(down.stream), shown[i]);
		half_end(&down, &c, fd);
	}
}

static void test_a_second_client_hello_with_another_sni_does_not_hide_the_first(void **state)
{
	struct side down;
	struct client c;
	(void)state;
	/* A group that the server has not: HelloRetryRequest. The SNI differs in both hellos from
	 * the tunnel's host. */
	int fd = half_begin(&down, &c);
	char groups[] = "X448:P-256";
	assert_int_equal(SSL_set1_groups_list(c.ssl, groups), 1);
	client_names(&c, "front.example.com");
	assert_int_equal(client_run(&c, &down), 1);
	assert_string_equal(kh_stream_sni_mismatch(down.stream), "front.example.com");
	half_end(&down, &c, fd);
}

/* Of other groups one handshake would cost as much as ten that are charged. */
static void test_a_sandbox_has_only_groups_that_cost_what_is_charged(void **state)
{
	static char mixed[] = "P-384:P-256", others[] = "P-384:P-521";
	(void)state;
	for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
		struct side down;
		struct client c;
		int fd = half_begin(&down, &c);
		assert_int_equal(SSL_set_max_proto_version(c.ssl, version), 1);
		assert_int_equal(SSL_set1_groups_list(c.ssl, mixed), 1);
		assert_int_equal(client_run(&c, &down), 1);
		assert_int_equal(SSL_get_negotiated_group(c.ssl), NID_X9_62_prime256v1);
		half_end(&down, &c, fd);
		fd = half_begin(&down, &c);
		assert_int_equal(SSL_set_max_proto_version(c.ssl, version), 1);
		assert_int_equal(SSL_set1_groups_list(c.ssl, others), 1);
		assert_int_equal(client_run(&c, &down), -1);
		half_end(&down, &c, fd);
	}
}

/* OpenSSL would make a hundred times as many bytes of them. */
static void test_a_hello_names_few_authorities(void **state)
{
	(void)state;
	for (int n = 60; n <= 70; n += 10) {
		STACK_OF(X509_NAME) *names = sk_X509_NAME_new_null();
		struct side down;
		struct client c;
		for (int i = 0; i < n; i++)
			assert_true(sk_X509_NAME_push(names, X509_NAME_new()) > 0);
		int fd = half_begin(&down, &c);
		SSL_set0_CA_list(c.ssl, names);
		assert_int_equal(client_run(&c, &down), n == 60 ? 1 : -1);
		half_end(&down, &c, fd);
	}
}

static void test_an_upstream_may_choose_other_groups(void **state)
{
	static char others[] = "P-521:P-384";
	struct pair p;
	(void)state;
	pair_init(&p, &w);
	pair_accept(&p, &w, "api.example.com");
	assert_int_equal(SSL_set1_groups_list(p.down.stream->ssl, others), 1);
	pair_connect(&p, &w, "api.example.com", "groups");
	finish_handshake(&p);
	pair_fini(&p);
}

/* ---- bad hellos ---- */

static void test_what_is_not_tls_fails_with_a_clear_word(void **state)
{
	static const char *const texts[] = {
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\x16\x03\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"SSH-2.0-OpenSSH_9.2p1\r\n",
	};
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct side down;
		int fd = half_init(&down);
		accept_on(&down, "api.example.com", kh_slice_str(texts[i]), 5000);
		TURN_UNTIL(&w, down.failed == 1);
		assert_int_equal(kh_stream_error(down.stream)->code, KH_ERR_DOWN_TLS);
		assert_non_null(strstr(kh_stream_error(down.stream)->text, "does not speak TLS"));
		assert_false(kh_stream_is_tls(down.stream));
		kh_stream_free(down.stream);
		close(fd);
	}
}

static size_t catch_hello(char *bytes, size_t room)
{
	struct client c;
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	client_init(&c, fds[0]);
	client_names(&c, "api.example.com");
	assert_int_equal(SSL_do_handshake(c.ssl), -1);
	ssize_t n = read(fds[1], bytes, room);
	assert_true(n > 100);
	client_fini(&c);
	close(fds[0]);
	close(fds[1]);
	return (size_t)n;
}

static void test_half_a_hello_and_then_the_end_fails_at_every_length(void **state)
{
	char hello[4096];
	size_t len = catch_hello(hello, sizeof hello);
	(void)state;
	for (size_t cut = 1; cut < len; cut += 7) {
		struct side down;
		int fd = half_init(&down);
		accept_on(&down, "api.example.com", kh_slice_of(hello, cut), 5000);
		close(fd);
		TURN_UNTIL(&w, down.failed == 1);
		assert_int_equal(kh_stream_error(down.stream)->code, KH_ERR_DOWN_TLS);
		assert_non_null(strstr(kh_stream_error(down.stream)->text, "in the middle"));
		kh_stream_free(down.stream);
	}
}

static void test_a_hello_with_any_byte_changed_never_harms_the_server(void **state)
{
	char hello[4096];
	size_t len = catch_hello(hello, sizeof hello);
	(void)state;
	for (size_t at = 0; at < len; at++) {
		struct side down;
		char changed[4096];
		memcpy(changed, hello, len);
		changed[at] = (char)(changed[at] ^ (1 << at % 8));
		int fd = half_init(&down);
		accept_on(&down, "api.example.com", kh_slice_of(changed, len), 5000);
		close(fd);
		TURN_UNTIL(&w, down.failed == 1);
		assert_int_equal(down.done, 0);
		kh_stream_free(down.stream);
	}
}

static void test_silence_ends_at_the_deadline(void **state)
{
	struct side down;
	(void)state;
	int fd = half_init(&down);
	accept_on(&down, "api.example.com", KH_SLICE("\x16\x03\x01"), 40);
	TURN_UNTIL(&w, down.failed == 1);
	assert_non_null(strstr(kh_stream_error(down.stream)->text, "within 40 ms"));
	turn_for(&w, 80);
	assert_int_equal(down.calls, 1); /* once, and nothing after it */
	kh_stream_free(down.stream);
	close(fd);
}

static void test_hello_and_all_may_come_as_prefix(void **state)
{
	struct side down;
	struct client c;
	char hello[4096];
	int fds[2];
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	client_init(&c, fds[1]);
	client_names(&c, "api.example.com");
	assert_int_equal(SSL_do_handshake(c.ssl), -1);
	ssize_t n = read(fds[0], hello, sizeof hello);
	assert_true(n > 0);
	down = (struct side){ 0 };
	down.stream = kh_stream_new(w.base, fds[0], on_side, &down);
	accept_on(&down, "api.example.com", kh_slice_of(hello, (size_t)n), 5000);
	memset(hello, 0, sizeof hello); /* copied */
	assert_int_equal(client_run(&c, &down), 1);
	assert_null(kh_stream_sni_mismatch(down.stream));
	client_fini(&c);
	kh_stream_free(down.stream);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_another_sni_is_remembered_and_the_leaf_is_the_tunnels),
		T(test_a_handshake_with_another_sni_is_completed_so_that_the_refusal_can_be_read),
		T(test_an_sni_in_another_case_or_none_is_no_mismatch),
		T(test_an_sni_that_is_no_host_is_a_mismatch_and_shown_escaped),
		T(test_a_second_client_hello_with_another_sni_does_not_hide_the_first),
		T(test_a_sandbox_has_only_groups_that_cost_what_is_charged),
		T(test_a_hello_names_few_authorities),
		T(test_an_upstream_may_choose_other_groups),
		T(test_what_is_not_tls_fails_with_a_clear_word),
		T(test_half_a_hello_and_then_the_end_fails_at_every_length),
		T(test_a_hello_with_any_byte_changed_never_harms_the_server),
		T(test_silence_ends_at_the_deadline),
		T(test_hello_and_all_may_come_as_prefix),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
