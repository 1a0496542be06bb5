/* test_tls_leaf.c - the side of the sandbox: its leaf, the chain, what is agreed upon */
#include "tls_client.h"

#include <keyhole/base/log.h>

/* ---- leaves ---- */

static void test_the_handshake_rests_until_the_leaf_is_there(void **state)
{
	struct pair p;
	struct kh_host host = host_of("late.example.com");
	(void)state;
	pair_init(&p, &w);
	pair_accept(&p, &w, "late.example.com");
	pair_connect(&p, &w, "late.example.com", NULL);
	TURN_UNTIL(&w, p.down.leaf_asked == 1);
	turn_for(&w, 30);
	assert_int_equal(p.down.leaf_asked, 1);
	assert_false(kh_leaves_has(w.leaves, &host));
	world_mint(&w, "late.example.com");
	assert_true(kh_leaves_has(w.leaves, &host));
	kh_stream_leaf_ready(p.down.stream, true);
	assert_int_equal(p.down.done, 0);
	finish_handshake(&p);
	pair_fini(&p);
}

static void test_a_leaf_that_never_comes_fails_the_handshake_with_its_reason(void **state)
{
	struct pair p;
	(void)state;
	pair_init(&p, &w);
	pair_accept(&p, &w, "never.example.com");
	pair_connect(&p, &w, "never.example.com", NULL);
	TURN_UNTIL(&w, p.down.leaf_asked == 1);
	kh_stream_leaf_ready(p.down.stream, false);
	TURN_UNTIL(&w, p.down.failed && p.up.failed);
	assert_int_equal(kh_stream_error(p.down.stream)->code, KH_ERR_LEAF_UNAVAILABLE);
	assert_non_null(strstr(kh_stream_error(p.down.stream)->text, "never.example.com"));
	assert_int_equal(kh_stream_error(p.up.stream)->code, KH_ERR_TLS_PROTOCOL);
	pair_fini(&p);
}

static void test_a_leaf_that_is_late_fails_the_handshake_at_its_deadline(void **state)
{
	struct side down;
	struct client c;
	(void)state;
	int fd = half_init(&down);
	accept_on(&down, "late.example.com", KH_SLICE(""), 60);
	client_init(&c, fd);
	assert_int_equal(SSL_do_handshake(c.ssl), -1);
	TURN_UNTIL(&w, down.failed);
	assert_int_equal(down.leaf_asked, 1);
	assert_int_equal(kh_stream_error(down.stream)->code, KH_ERR_LEAF_UNAVAILABLE);
	assert_non_null(strstr(kh_stream_error(down.stream)->text, "within 60 ms"));
	/* What comes later than that changes nothing. */
	world_mint(&w, "late.example.com");
	kh_stream_leaf_ready(down.stream, true);
	turn_for(&w, 20);
	assert_int_equal(down.done, 0);
	client_fini(&c);
	kh_stream_free(down.stream);
	kh_stream_free(NULL);
	close(fd);
}

static void test_a_stream_may_be_freed_while_it_rests(void **state)
{
	struct pair p;
	(void)state;
	pair_init(&p, &w);
	pair_accept(&p, &w, "never.example.com");
	pair_connect(&p, &w, "never.example.com", NULL);
	TURN_UNTIL(&w, p.down.leaf_asked == 1);
	kh_stream_free(p.down.stream);
	p.down.stream = NULL;
	TURN_UNTIL(&w, p.up.failed);
	assert_int_equal(kh_stream_error(p.up.stream)->code, KH_ERR_UP_CLOSED);
	pair_fini(&p);
}

static void test_a_leaf_for_another_key_or_garbage_is_not_taken(void **state)
{
	struct kh_host host = host_of("x.example.com");
	struct kh_err err = KH_ERR_INIT;
	struct kh_leaves *others = kh_leaves_new(&err);
	struct kh_buf der;
	(void)state;
	kh_buf_init(&der, 8192);
	assert_true(kh_ca_sign(w.ca, kh_leaves_spki(others), &host, KH_CA_LEAF_S, &der, &err));
	assert_false(kh_leaves_put(w.leaves, &host, kh_buf_view(&der), &err));
	assert_int_equal(err.code, KH_ERR_LEAF_UNAVAILABLE);
	assert_false(kh_leaves_put(w.leaves, &host, KH_SLICE("not DER"), &err));
	assert_false(kh_leaves_put(w.leaves, &host, KH_SLICE(""), &err));
	assert_false(kh_leaves_has(w.leaves, &host));
	/* Bytes behind the certificate make it another thing. */
	kh_buf_clear(&der);
	assert_true(kh_ca_sign(w.ca, kh_leaves_spki(w.leaves), &host, KH_CA_LEAF_S, &der, &err));
	assert_true(kh_buf_append_char(&der, 'x'));
	assert_false(kh_leaves_put(w.leaves, &host, kh_buf_view(&der), &err));
	kh_buf_fini(&der);
	kh_leaves_free(others);
}

static void test_another_issuer_empties_the_cache(void **state)
{
	struct kh_host host = host_of("api.example.com");
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *other = kh_ca_new(&err);
	(void)state;
	assert_true(kh_leaves_has(w.leaves, &host));
	assert_true(kh_leaves_set_issuer(w.leaves, kh_ca_der(w.ca), &err));
	assert_true(kh_leaves_has(w.leaves, &host));
	assert_false(kh_leaves_had(w.leaves, &host));
	assert_true(kh_leaves_set_issuer(w.leaves, kh_ca_der(other), &err));
	assert_false(kh_leaves_has(w.leaves, &host));
	assert_true(kh_leaves_had(w.leaves, &host));
	struct kh_host never = host_of("never.example.com");
	assert_false(kh_leaves_had(w.leaves, &never));
	/* Back to the one before: what it signed then stays out. */
	assert_true(kh_leaves_set_issuer(w.leaves, kh_ca_der(w.ca), &err));
	assert_false(kh_leaves_has(w.leaves, &host));
	world_mint(&w, "api.example.com");
	assert_true(kh_leaves_has(w.leaves, &host));
	assert_false(kh_leaves_had(w.leaves, &host));
	kh_ca_free(other);
}

/* ---- ALPN, chain ---- */

static void test_alpn_takes_h2_then_http11_and_refuses_offers_of_neither(void **state)
{
	static const struct {
		const char *offered, *chosen; /* NULL: none */
		bool fails;
	} cases[] = {
		{ "\x02h2\x08http/1.1", "h2", false },
		{ "\x08http/1.1\x02h2", "h2", false },
		{ "\x02h2", "h2", false },
		{ "\x08http/1.1", "http/1.1", false },
		{ "\x02h3\x08http/1.0", NULL, true },
		{ NULL, NULL, false },
		{ "\x03h2c\x08http/1.1", "http/1.1", false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct side down;
		struct client c;
		const unsigned char *chosen = NULL;
		unsigned len = 0;
		int fd = half_begin(&down, &c);
		if (cases[i].offered)
			SSL_set_alpn_protos(c.ssl, (const unsigned char *)cases[i].offered,
					    (unsigned)strlen(cases[i].offered));
		assert_int_equal(client_run(&c, &down), cases[i].fails ? -1 : 1);
		SSL_get0_alpn_selected(c.ssl, &chosen, &len);
		assert_true(kh_slice_eq(kh_slice_of(chosen, len),
					kh_slice_str(cases[i].chosen ? cases[i].chosen : "")));
		assert_int_equal(kh_stream_is_h2(down.stream), len == 2);
		if (cases[i].fails)
			assert_non_null(strstr(kh_stream_error(down.stream)->text, "ALPN"));
		half_end(&down, &c, fd);
	}
}

static void test_the_chain_that_is_sent_is_leaf_and_ca(void **state)
{
	struct side down;
	struct client c;
	(void)state;
	int fd = half_begin(&down, &c);
	assert_int_equal(client_run(&c, &down), 1);
	STACK_OF(X509) *chain = SSL_get_peer_cert_chain(c.ssl);
	assert_int_equal(sk_X509_num(chain), 2);
	assert_int_equal(X509_check_ca(sk_X509_value(chain, 1)), 1);
	half_end(&down, &c, fd);
}

static void test_older_tls_than_1_2_is_refused(void **state)
{
	struct side down;
	struct client c;
	(void)state;
	int fd = half_begin(&down, &c);
	SSL_set_security_level(c.ssl, 0);
	SSL_set_min_proto_version(c.ssl, TLS1_VERSION);
	SSL_set_max_proto_version(c.ssl, TLS1_1_VERSION);
	assert_int_equal(client_run(&c, &down), -1);
	TURN_UNTIL(&w, down.failed);
	assert_int_equal(kh_stream_error(down.stream)->code, KH_ERR_DOWN_TLS);
	half_end(&down, &c, fd);
}

static void test_a_client_that_distrusts_the_ca_is_told_apart(void **state)
{
	struct side down;
	struct client c;
	(void)state;
	int fd = half_begin(&down, &c);
	SSL_set_verify(c.ssl, SSL_VERIFY_PEER, NULL);
	assert_int_equal(client_run(&c, &down), -1);
	TURN_UNTIL(&w, down.failed);
	assert_non_null(strstr(kh_stream_error(down.stream)->text, "does not trust"));
	half_end(&down, &c, fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_the_handshake_rests_until_the_leaf_is_there),
		T(test_a_leaf_that_never_comes_fails_the_handshake_with_its_reason),
		T(test_a_leaf_that_is_late_fails_the_handshake_at_its_deadline),
		T(test_a_stream_may_be_freed_while_it_rests),
		T(test_a_leaf_for_another_key_or_garbage_is_not_taken),
		T(test_another_issuer_empties_the_cache),
		T(test_alpn_takes_h2_then_http11_and_refuses_offers_of_neither),
		T(test_the_chain_that_is_sent_is_leaf_and_ca),
		T(test_older_tls_than_1_2_is_refused),
		T(test_a_client_that_distrusts_the_ca_is_told_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
