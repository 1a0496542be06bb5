/* test_tls_stream.c - streams: handshakes of both sides, bytes, ends, events */
#include "tls_pair.h"

#include <time.h>

#include <keyhole/log.h>
#include <tls/sessions_internal.h>

static struct world w;

static int setup(void **state)
{
	(void)state;
	world_init(&w);
	world_trust(&w, kh_ca_pem(w.ca));
	world_mint(&w, "api.example.com");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	world_fini(&w);
	return 0;
}

static void finish_handshake(struct pair *p)
{
	TURN_UNTIL(&w, p->down.done && p->up.done);
}

static void test_both_sides_meet_and_say_what_they_speak(void **state)
{
	struct pair p;
	(void)state;
	pair_init(&p, &w);
	assert_false(kh_stream_is_tls(p.up.stream));
	assert_null(kh_stream_tls_version(p.up.stream));
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	assert_int_equal(p.down.calls + p.up.calls, 0); /* nothing from inside the calls */
	finish_handshake(&p);
	assert_string_equal(kh_stream_tls_version(p.up.stream), "TLSv1.3");
	assert_null(kh_stream_sni_mismatch(p.down.stream));
	pair_fini(&p);
}

static void test_large_transfers_go_both_ways_at_once_unchanged(void **state)
{
	struct pair p;
	(void)state;
	pair_init(&p, &w);
	p.down.to_write = 9 * 1000 * 1000 + 1;
	p.up.to_write = 7 * 1000 * 1000 + 3;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	/* While writing, both also read. */
	TURN_UNTIL(&w, p.down.read_bytes == p.up.to_write && p.up.read_bytes == p.down.to_write);
	assert_int_equal(p.down.sum, 0);
	assert_int_equal(p.up.sum, 0);
	pair_fini(&p);
}

static void test_a_reader_that_rests_holds_the_writer_back_and_loses_nothing(void **state)
{
	struct pair p;
	(void)state;
	pair_init(&p, &w);
	p.down.to_write = 5 * 1000 * 1000;
	p.up.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	finish_handshake(&p);
	turn_for(&w, 100);
	size_t held = p.down.written;
	assert_true(held < p.down.to_write);
	assert_int_equal(p.up.read_bytes, 0);
	turn_for(&w, 50);
	assert_int_equal(p.down.written, held);
	p.up.stop_reading = false;
	kh_stream_watch(p.up.stream, KH_STREAM_READABLE);
	TURN_UNTIL(&w, p.up.read_bytes == p.down.to_write);
	assert_int_equal(p.up.sum, 0);
	pair_fini(&p);
}

/* Reads three bytes an event and counts events. */
struct sipper {
	unsigned events;
	size_t len;
	char all[64];
};

static void on_sip(struct kh_stream *stream, unsigned events, void *arg)
{
	struct sipper *sipper = arg;
	size_t got = 0;
	if (!(events & KH_STREAM_READABLE))
		return;
	sipper->events++;
	assert_true(sipper->len + 3 < sizeof sipper->all);
	assert_int_equal(kh_stream_read(stream, sipper->all + sipper->len, 3, &got), KH_IO_OK);
	sipper->len += got;
}

static void test_readable_is_level_triggered_over_decrypted_bytes_and_never_spurious(void **state)
{
	struct pair p;
	struct sipper sipper = { 0 };
	size_t n;
	(void)state;
	pair_init(&p, &w);
	p.down.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	finish_handshake(&p);
	kh_stream_set_callback(p.down.stream, on_sip, &sipper);
	kh_stream_watch(p.down.stream, KH_STREAM_READABLE);
	turn_for(&w, 20);
	assert_int_equal(sipper.events, 0);
	assert_int_equal(kh_stream_write(p.up.stream, "abcdefghij", 10, &n), KH_IO_OK);
	assert_int_equal(kh_stream_write(p.up.stream, "klmnopqrst", 10, &n), KH_IO_OK);
	TURN_UNTIL(&w, sipper.len == 20);
	turn_for(&w, 30);
	assert_string_equal(sipper.all, "abcdefghijklmnopqrst");
	assert_int_equal(sipper.events, 8); /* 3+3+3+1 twice: each event had bytes */
	/* Unwatched, it is silent; watched again, it tells. */
	kh_stream_watch(p.down.stream, 0);
	assert_int_equal(kh_stream_write(p.up.stream, "uvw", 3, &n), KH_IO_OK);
	turn_for(&w, 30);
	assert_int_equal(sipper.events, 8);
	kh_stream_watch(p.down.stream, KH_STREAM_READABLE);
	TURN_UNTIL(&w, sipper.events == 9);
	pair_fini(&p);
}

static void test_a_record_cut_in_half_neither_wakes_nor_spins(void **state)
{
	struct pair p;
	struct sipper sipper = { 0 };
	int raw[2];
	(void)state;
	/* A man in the middle that holds the second half of a record back. */
	pair_init(&p, &w);
	p.down.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	finish_handshake(&p);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, raw), 0);
	/* Put the pair of sockets between them: up's descriptor now leads to raw[0]. */
	assert_true(dup2(raw[0], p.up_fd) >= 0);
	int down_end = dup(p.down_fd);
	assert_true(down_end >= 0);
	int cut[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, cut), 0);
	kh_stream_watch(p.down.stream, 0);
	turn_for(&w, 5);
	assert_true(dup2(cut[0], p.down_fd) >= 0);
	kh_stream_set_callback(p.down.stream, on_sip, &sipper);
	kh_stream_watch(p.down.stream, KH_STREAM_READABLE);

	size_t n;
	char record[256];
	assert_int_equal(kh_stream_write(p.up.stream, "xyz", 3, &n), KH_IO_OK);
	ssize_t len = read(raw[1], record, sizeof record);
	assert_true(len > 10);
	assert_int_equal(write(cut[1], record, 9), 9);
	turn_for(&w, 50);
	assert_int_equal(sipper.events, 0);
	assert_int_equal(write(cut[1], record + 9, (size_t)len - 9), len - 9);
	TURN_UNTIL(&w, sipper.events == 1);
	assert_string_equal(sipper.all, "xyz");
	pair_fini(&p);
	close(raw[0]);
	close(raw[1]);
	close(cut[0]);
	close(cut[1]);
	close(down_end);
}

/* A client of OpenSSL's own, for what ours never does. It drives one end of a socketpair. */
struct client {
	SSL_CTX *ctx;
	SSL *ssl;
};

static void client_init(struct client *c, int fd)
{
	c->ctx = SSL_CTX_new(TLS_client_method());
	assert_non_null(c->ctx);
	c->ssl = SSL_new(c->ctx);
	assert_non_null(c->ssl);
	assert_int_equal(SSL_set_fd(c->ssl, fd), 1);
	SSL_set_connect_state(c->ssl);
}

/* The macros of OpenSSL want what they don't change to be writable. */
static void client_names(struct client *c, const char *name)
{
	char copy[256];
	snprintf(copy, sizeof copy, "%s", name);
	assert_int_equal(SSL_set_tlsext_host_name(c->ssl, copy), 1);
}

static void client_fini(struct client *c)
{
	SSL_free(c->ssl);
	SSL_CTX_free(c->ctx);
	ERR_clear_error();
}

/* Goes on until the client is through (1), has failed (-1), or the other side is. */
static int client_run(struct client *c, struct side *down)
{
	for (int i = 0; i < 400; i++) {
		int rc = SSL_do_handshake(c->ssl);
		if (rc == 1 && down->done)
			return 1;
		if (rc != 1 && SSL_get_error(c->ssl, rc) != SSL_ERROR_WANT_READ &&
		    SSL_get_error(c->ssl, rc) != SSL_ERROR_WANT_WRITE)
			return -1;
		turn_for(&w, 2);
		if (down->failed)
			return -1;
	}
	return 0;
}

/* The stream of the server's side, and the bare descriptor of the client's. */
static int half_init(struct side *down)
{
	int fds[2];
	*down = (struct side){ 0 };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
			 0);
	down->stream = kh_stream_new(w.base, fds[0], on_side, down);
	assert_non_null(down->stream);
	return fds[1];
}

static void accept_on(struct side *down, const char *name, struct kh_slice prefix, uint32_t ms)
{
	struct kh_host host = host_of(name);
	assert_true(kh_stream_accept_tls(down->stream, w.down, prefix, &host, ms));
}

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
	assert_true(kh_ca_sign(w.ca, kh_leaves_spki(others), &host, &der, &err));
	assert_false(kh_leaves_put(w.leaves, &host, kh_buf_view(&der), &err));
	assert_int_equal(err.code, KH_ERR_LEAF_UNAVAILABLE);
	assert_false(kh_leaves_put(w.leaves, &host, KH_SLICE("not DER"), &err));
	assert_false(kh_leaves_put(w.leaves, &host, KH_SLICE(""), &err));
	assert_false(kh_leaves_has(w.leaves, &host));
	/* Bytes behind the certificate make it another thing. */
	kh_buf_clear(&der);
	assert_true(kh_ca_sign(w.ca, kh_leaves_spki(w.leaves), &host, &der, &err));
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
	int fd = half_init(&down);
	accept_on(&down, "api.example.com", KH_SLICE(""), 5000);
	client_init(&c, fd);
	client_names(&c, "other.example.com");
	assert_int_equal(client_run(&c, &down), 1);
	assert_string_equal(kh_stream_sni_mismatch(down.stream), "other.example.com");
	X509 *leaf = SSL_get1_peer_certificate(c.ssl);
	assert_int_equal(X509_check_host(leaf, "api.example.com", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(leaf, "other.example.com", 0, 0, NULL), 0);
	X509_free(leaf);
	client_fini(&c);
	kh_stream_free(down.stream);
	close(fd);
}

static void test_an_sni_in_another_case_or_none_is_no_mismatch(void **state)
{
	static const char *const names[] = { "API.Example.COM", NULL };
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct side down;
		struct client c;
		int fd = half_init(&down);
		accept_on(&down, "api.example.com", KH_SLICE(""), 5000);
		client_init(&c, fd);
		if (names[i])
			client_names(&c, names[i]);
		assert_int_equal(client_run(&c, &down), 1);
		assert_null(kh_stream_sni_mismatch(down.stream));
		client_fini(&c);
		kh_stream_free(down.stream);
		close(fd);
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
		int fd = half_init(&down);
		accept_on(&down, "api.example.com", KH_SLICE(""), 5000);
		client_init(&c, fd);
		client_names(&c, names[i]);
		assert_int_equal(client_run(&c, &down), 1);
		assert_string_equal(kh_stream_sni_mismatch(down.stream), shown[i]);
		client_fini(&c);
		kh_stream_free(down.stream);
		close(fd);
	}
}

static void test_a_second_client_hello_with_another_sni_does_not_hide_the_first(void **state)
{
	struct side down;
	struct client c;
	(void)state;
	/* A group that the server has not: HelloRetryRequest. The SNI differs in both hellos from
	 * the tunnel's host. */
	int fd = half_init(&down);
	accept_on(&down, "api.example.com", KH_SLICE(""), 5000);
	client_init(&c, fd);
	char groups[] = "X448:P-256";
	assert_int_equal(SSL_set1_groups_list(c.ssl, groups), 1);
	client_names(&c, "front.example.com");
	assert_int_equal(client_run(&c, &down), 1);
	assert_string_equal(kh_stream_sni_mismatch(down.stream), "front.example.com");
	client_fini(&c);
	kh_stream_free(down.stream);
	close(fd);
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
		int fd = half_init(&down);
		accept_on(&down, "api.example.com", KH_SLICE(""), 5000);
		client_init(&c, fd);
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
		client_fini(&c);
		kh_stream_free(down.stream);
		close(fd);
	}
}

static void test_the_chain_that_is_sent_is_leaf_and_ca(void **state)
{
	struct side down;
	struct client c;
	(void)state;
	int fd = half_init(&down);
	accept_on(&down, "api.example.com", KH_SLICE(""), 5000);
	client_init(&c, fd);
	assert_int_equal(client_run(&c, &down), 1);
	STACK_OF(X509) *chain = SSL_get_peer_cert_chain(c.ssl);
	assert_int_equal(sk_X509_num(chain), 2);
	assert_int_equal(X509_check_ca(sk_X509_value(chain, 1)), 1);
	client_fini(&c);
	kh_stream_free(down.stream);
	close(fd);
}

static void test_older_tls_than_1_2_is_refused(void **state)
{
	struct side down;
	struct client c;
	(void)state;
	int fd = half_init(&down);
	accept_on(&down, "api.example.com", KH_SLICE(""), 5000);
	client_init(&c, fd);
	SSL_set_security_level(c.ssl, 0);
	SSL_set_min_proto_version(c.ssl, TLS1_VERSION);
	SSL_set_max_proto_version(c.ssl, TLS1_1_VERSION);
	assert_int_equal(client_run(&c, &down), -1);
	TURN_UNTIL(&w, down.failed);
	assert_int_equal(kh_stream_error(down.stream)->code, KH_ERR_DOWN_TLS);
	client_fini(&c);
	kh_stream_free(down.stream);
	close(fd);
}

static void test_a_client_that_distrusts_the_ca_is_told_apart(void **state)
{
	struct side down;
	struct client c;
	(void)state;
	int fd = half_init(&down);
	accept_on(&down, "api.example.com", KH_SLICE(""), 5000);
	client_init(&c, fd);
	SSL_set_verify(c.ssl, SSL_VERIFY_PEER, NULL);
	assert_int_equal(client_run(&c, &down), -1);
	TURN_UNTIL(&w, down.failed);
	assert_non_null(strstr(kh_stream_error(down.stream)->text, "does not trust"));
	client_fini(&c);
	kh_stream_free(down.stream);
	close(fd);
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

/* ---- ends ---- */

static void test_close_notify_is_an_end_and_its_absence_is_not(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair p;
		pair_init(&p, &w);
		p.down.to_write = 100 * 1000;
		pair_accept(&p, &w, "api.example.com");
		pair_connect(&p, &w, "api.example.com", NULL);
		TURN_UNTIL(&w, p.up.read_bytes == p.down.to_write);
		if (i == 0)
			kh_stream_shutdown_write(p.down.stream);
		else
			assert_int_equal(shutdown(p.down_fd, SHUT_WR), 0);
		TURN_UNTIL(&w, p.up.end != 0);
		assert_int_equal(p.up.end, i == 0 ? KH_IO_EOF : KH_IO_TRUNCATED);
		/* The end stays the end. */
		char byte;
		size_t got;
		assert_int_equal(kh_stream_read(p.up.stream, &byte, 1, &got), p.up.end);
		/* The other direction still works in both cases. */
		p.up.to_write = 50 * 1000;
		kh_stream_watch(p.up.stream, KH_STREAM_WRITABLE);
		TURN_UNTIL(&w, p.down.read_bytes == p.up.to_write);
		assert_int_equal(p.down.sum, 0);
		pair_fini(&p);
	}
}

static void test_what_was_written_arrives_though_the_stream_is_freed_at_once(void **state)
{
	struct pair p;
	size_t put = 0;
	(void)state;
	pair_init(&p, &w);
	p.down.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	finish_handshake(&p);
	/* Unread bytes of the other side must not turn the close into a reset. */
	assert_int_equal(kh_stream_write(p.up.stream, "unread request body", 19, &put), KH_IO_OK);
	uint8_t bytes[3000];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = pattern_at(i);
	assert_int_equal(kh_stream_write(p.down.stream, bytes, sizeof bytes, &put), KH_IO_OK);
	assert_int_equal(put, sizeof bytes);
	kh_stream_free(p.down.stream);
	p.down.stream = NULL;
	TURN_UNTIL(&w, p.up.end != 0);
	assert_int_equal(p.up.end, KH_IO_EOF);
	assert_int_equal(p.up.read_bytes, sizeof bytes);
	assert_int_equal(p.up.sum, 0);
	pair_fini(&p);
}

static void test_shutdown_behind_a_full_socket_is_sent_when_there_is_room(void **state)
{
	struct pair p;
	size_t put = 0;
	char bytes[16384] = { 0 };
	(void)state;
	pair_init(&p, &w);
	p.up.stop_reading = true;
	p.down.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	finish_handshake(&p);
	/* Leave no room for the alert: fill the raw socket behind whole records. */
	while (kh_stream_write(p.down.stream, bytes, 1, &put) == KH_IO_OK)
		continue;
	p.up.stop_reading = false;
	kh_stream_watch(p.up.stream, KH_STREAM_READABLE);
	turn_for(&w, 50);
	size_t got = p.up.read_bytes;
	assert_true(got > 0);
	/* The byte that was left over has to be given again before anything else may follow. */
	assert_int_equal(kh_stream_write(p.down.stream, bytes, 1, &put), KH_IO_OK);
	kh_stream_shutdown_write(p.down.stream);
	TURN_UNTIL(&w, p.up.end != 0);
	assert_int_equal(p.up.end, KH_IO_EOF);
	assert_int_equal(p.up.read_bytes, got + 1);
	pair_fini(&p);
}

static void test_the_callback_may_free_the_stream_at_any_event(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct pair p;
		pair_init(&p, &w);
		if (i == 0)
			p.down.free_on_event = true; /* WANTS_LEAF */
		pair_accept(&p, &w, i == 0 ? "never.example.com" : "api.example.com");
		pair_connect(&p, &w, i == 1 ? "wrong.example.com" : "api.example.com", NULL);
		if (i == 1)
			p.up.free_on_event = true; /* HANDSHAKE_FAILED */
		if (i == 2)
			p.up.free_on_event = true; /* HANDSHAKE_DONE */
		if (i == 3) {
			p.down.to_write = 10;
			finish_handshake(&p);
			p.up.free_on_event = true; /* READABLE */
		}
		TURN_UNTIL(&w, !p.down.stream || !p.up.stream);
		turn_for(&w, 20);
		pair_fini(&p);
	}
}

/* ---- upstream certificates ---- */

static void expect_refusal(const char *dialled, const char *words)
{
	struct pair p;
	pair_init(&p, &w);
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, dialled, NULL);
	TURN_UNTIL(&w, p.up.failed == 1);
	const struct kh_err *err = kh_stream_error(p.up.stream);
	assert_int_equal(err->code, KH_ERR_TLS_CERTIFICATE);
	if (!strstr(err->text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, err->text);
	assert_int_equal(p.up.done, 0);
	pair_fini(&p);
}

static void test_a_certificate_for_another_host_is_refused_and_its_names_are_told(void **state)
{
	(void)state;
	expect_refusal("example.com", "hostname mismatch (it is for: api.example.com)");
	expect_refusal("127.0.0.1", "IP address mismatch");
}

static void test_a_certificate_of_an_unknown_ca_is_refused(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *other = kh_ca_new(&err);
	(void)state;
	world_trust(&w, kh_ca_pem(other));
	expect_refusal("api.example.com",
		       "self-signed certificate in certificate chain at depth 1");
	expect_refusal("api.example.com", "upstream.ca_file");
	kh_ca_free(other);
}

static void test_no_roots_at_all_refuse_everything(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	assert_true(kh_roots_load(w.roots, NULL, 0, &err));
	expect_refusal("api.example.com", "certificate of api.example.com");
}

static void test_roots_of_the_handshakes_moment_count(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_roots *late = kh_roots_new();
	SSL_CTX *ctx = kh_tls_up_ctx(late, &err);
	struct kh_host host = host_of("api.example.com");
	struct pair p;
	(void)state;
	assert_false(kh_roots_ready(late));
	pair_init(&p, &w);
	pair_accept(&p, &w, "api.example.com");
	assert_true(kh_stream_connect_tls(p.up.stream, ctx, &host, NULL, NULL, 5000));
	turn_for(&w, 60);
	assert_int_equal(p.up.done + p.up.failed, 0); /* it waits */
	int fd = fd_of(kh_ca_pem(w.ca));
	assert_true(kh_roots_load(late, &fd, 1, &err));
	close(fd);
	finish_handshake(&p);
	pair_fini(&p);
	/* Roots that never come: the deadline counts. */
	struct kh_roots *never = kh_roots_new();
	SSL_CTX *ctx2 = kh_tls_up_ctx(never, &err);
	pair_init(&p, &w);
	assert_true(kh_stream_connect_tls(p.up.stream, ctx2, &host, NULL, NULL, 40));
	TURN_UNTIL(&w, p.up.failed);
	assert_int_equal(kh_stream_error(p.up.stream)->code, KH_ERR_TLS_TIMEOUT);
	assert_non_null(strstr(kh_stream_error(p.up.stream)->text, "trust roots"));
	pair_fini(&p);
	SSL_CTX_free(ctx);
	SSL_CTX_free(ctx2);
	kh_roots_free(late);
	kh_roots_free(never);
}

static void test_a_roots_file_without_a_certificate_is_an_error(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_roots *roots = kh_roots_new();
	static const char broken[] = "-----BEGIN CERTIFICATE-----\nAAAA\n"
				     "-----END CERTIFICATE-----\n";
	static const char *const texts[] = { "", "no certificate\n", broken };
	(void)state;
	kh_log_set_level(KH_LOG_ERROR);
	for (size_t i = 0; i < 3; i++) {
		int fd = fd_of(kh_slice_str(texts[i]));
		assert_false(kh_roots_load(roots, &fd, 1, &err));
		assert_false(kh_roots_ready(roots));
		assert_int_equal(err.code, KH_ERR_CONFIG);
		close(fd);
	}
	kh_roots_free(roots);
}

/* A server of OpenSSL's own with a certificate of our making. */
struct odd_certificate {
	long from_s, until_s;
	const char *san;
	bool self_signed;
};

static X509 *make_odd(const struct odd_certificate *odd, EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key)
{
	X509 *cert = X509_new();
	X509V3_CTX ctx;
	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 77);
	X509_gmtime_adj(X509_getm_notBefore(cert), odd->from_s);
	X509_gmtime_adj(X509_getm_notAfter(cert), odd->until_s);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
				   (const unsigned char *)"api.example.com", -1, -1, 0);
	X509_set_issuer_name(cert, odd->self_signed ? X509_get_subject_name(cert)
						    : X509_get_subject_name(ca));
	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, odd->self_signed ? cert : ca, cert, NULL, NULL, 0);
	if (odd->san) {
		X509_EXTENSION *ext =
			X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_alt_name, odd->san);
		assert_non_null(ext);
		X509_add_ext(cert, ext, -1);
		X509_EXTENSION_free(ext);
	}
	assert_true(X509_sign(cert, odd->self_signed ? key : ca_key, EVP_sha256()) > 0);
	return cert;
}

static void expect_odd(const struct odd_certificate *odd, const char *words)
{
	EVP_PKEY *ca_key = EVP_EC_gen("P-256"), *key = EVP_EC_gen("P-256");
	struct odd_certificate as_ca = { .from_s = -100, .until_s = 10000, .self_signed = true };
	X509 *ca = make_odd(&as_ca, ca_key, NULL, NULL);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(ca), "O", MBSTRING_ASC,
				   (const unsigned char *)"odd CA", -1, -1, 0);
	X509_set_issuer_name(ca, X509_get_subject_name(ca));
	X509V3_CTX v3;
	X509V3_set_ctx_nodb(&v3);
	X509V3_set_ctx(&v3, ca, ca, NULL, NULL, 0);
	X509_EXTENSION *bc =
		X509V3_EXT_conf_nid(NULL, &v3, NID_basic_constraints, "critical,CA:TRUE");
	X509_add_ext(ca, bc, -1);
	X509_EXTENSION_free(bc);
	assert_true(X509_sign(ca, ca_key, EVP_sha256()) > 0);
	X509 *cert = make_odd(odd, key, ca, ca_key);

	BIO *mem = BIO_new(BIO_s_mem());
	char *pem = NULL;
	PEM_write_bio_X509(mem, ca);
	long len = BIO_get_mem_data(mem, &pem);
	world_trust(&w, kh_slice_of(pem, (size_t)len));
	BIO_free(mem);

	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	assert_int_equal(SSL_CTX_use_certificate(ctx, cert), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	SSL *ssl = SSL_new(ctx);
	SSL_set_fd(ssl, fds[1]);
	SSL_set_accept_state(ssl);
	struct side up = { 0 };
	struct kh_host host = host_of("api.example.com");
	up.stream = kh_stream_new(w.base, fds[0], on_side, &up);
	assert_true(kh_stream_connect_tls(up.stream, w.up, &host, NULL, NULL, 5000));
	for (int i = 0; i < 200 && !up.done && !up.failed; i++) {
		turn_for(&w, 2);
		(void)SSL_do_handshake(ssl);
	}
	if (words) {
		assert_int_equal(up.failed, 1);
		assert_int_equal(kh_stream_error(up.stream)->code, KH_ERR_TLS_CERTIFICATE);
		if (!strstr(kh_stream_error(up.stream)->text, words))
			fail_msg("\"%s\" is not in \"%s\"", words,
				 kh_stream_error(up.stream)->text);
	} else {
		if (!up.done)
			fail_msg("%s", kh_stream_error(up.stream)->text);
	}
	kh_stream_free(up.stream);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fds[1]);
	X509_free(cert);
	X509_free(ca);
	EVP_PKEY_free(key);
	EVP_PKEY_free(ca_key);
	ERR_clear_error();
}

static void test_expired_early_selfsigned_and_nameless_certificates_are_refused(void **state)
{
	(void)state;
	expect_odd(&(struct odd_certificate){ -100, 1000, "DNS:api.example.com", false }, NULL);
	expect_odd(&(struct odd_certificate){ -1000, -100, "DNS:api.example.com", false },
		   "certificate has expired");
	expect_odd(&(struct odd_certificate){ 100, 1000, "DNS:api.example.com", false },
		   "not yet valid");
	expect_odd(&(struct odd_certificate){ -100, 1000, "DNS:api.example.com", true },
		   "self-signed certificate");
	/* A common name is no host name, and a star stands for a whole label. */
	expect_odd(&(struct odd_certificate){ -100, 1000, NULL, false }, "hostname mismatch");
	expect_odd(&(struct odd_certificate){ -100, 1000, "DNS:*.example.com", false }, NULL);
	expect_odd(&(struct odd_certificate){ -100, 1000, "DNS:ap*.example.com", false },
		   "hostname mismatch");
	expect_odd(&(struct odd_certificate){ -100, 1000, "DNS:*.com", false },
		   "hostname mismatch");
}

static void test_an_upstream_that_speaks_no_tls_is_told_apart(void **state)
{
	struct side up = { 0 };
	struct kh_host host = host_of("api.example.com");
	int fds[2];
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	up.stream = kh_stream_new(w.base, fds[0], on_side, &up);
	assert_true(kh_stream_connect_tls(up.stream, w.up, &host, NULL, NULL, 5000));
	assert_true(write(fds[1], "HTTP/1.1 400 Bad Request\r\n\r\n", 28) == 28);
	TURN_UNTIL(&w, up.failed == 1);
	assert_int_equal(kh_stream_error(up.stream)->code, KH_ERR_TLS_PROTOCOL);
	assert_non_null(strstr(kh_stream_error(up.stream)->text, "does not speak TLS"));
	kh_stream_free(up.stream);
	close(fds[1]);
}

/* ---- resumption ---- */

/* One connection with a byte each way, so that tickets arrive. Return: was it resumed? */
static bool connect_once(const char *name, const char *key, bool shut_first)
{
	struct pair p;
	pair_init(&p, &w);
	p.down.to_write = 1;
	p.up.to_write = 1;
	pair_accept(&p, &w, name);
	pair_connect(&p, &w, name, key);
	TURN_UNTIL(&w, p.up.read_bytes == 1 && p.down.read_bytes == 1);
	bool reused = kh_stream_is_resumed(p.up.stream);
	if (shut_first)
		kh_stream_shutdown_write(p.up.stream);
	pair_fini(&p);
	return reused;
}

static void test_sessions_are_resumed_once_a_ticket_under_their_key_alone(void **state)
{
	(void)state;
	assert_false(connect_once("api.example.com", "tenant a", false));
	assert_true(connect_once("api.example.com", "tenant a", true));
	assert_true(connect_once("api.example.com", "tenant a", false));
	assert_false(connect_once("api.example.com", "tenant b", false));
	assert_false(connect_once("api.example.com", NULL, false));
}

static void test_a_ticket_is_used_once(void **state)
{
	(void)state;
	assert_false(connect_once("api.example.com", "k", false)); /* leaves one ticket */
	struct pair p[2];
	for (int i = 0; i < 2; i++) {
		pair_init(&p[i], &w);
		pair_accept(&p[i], &w, "api.example.com");
		pair_connect(&p[i], &w, "api.example.com", "k");
	}
	TURN_UNTIL(&w, p[0].up.done && p[1].up.done && p[0].down.done && p[1].down.done);
	assert_int_equal(
		kh_stream_is_resumed(p[0].up.stream) + kh_stream_is_resumed(p[1].up.stream), 1);
	pair_fini(&p[0]);
	pair_fini(&p[1]);
}

static void test_tickets_are_kept_for_a_few_connections_at_a_time(void **state)
{
	enum { MANY = 7, KEPT = 4 };
	struct pair p[MANY];
	int reused = 0;
	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MANY; i++) {
			pair_init(&p[i], &w);
			p[i].down.to_write = 1;
			pair_accept(&p[i], &w, "api.example.com");
			pair_connect(&p[i], &w, "api.example.com", "k");
		}
		for (int i = 0; i < MANY; i++) {
			TURN_UNTIL(&w, p[i].up.read_bytes == 1);
			reused += kh_stream_is_resumed(p[i].up.stream);
			pair_fini(&p[i]);
		}
		assert_int_equal(reused, round == 0 ? 0 : KEPT);
	}
}

static void test_a_session_of_tls_1_2_serves_again_and_again(void **state)
{
	(void)state;
	SSL_CTX_set_max_proto_version(w.down, TLS1_2_VERSION);
	assert_false(connect_once("api.example.com", "k", false));
	for (int i = 0; i < 3; i++)
		assert_true(connect_once("api.example.com", "k", i == 1));
	assert_false(connect_once("api.example.com", "other", false));
}

static void test_an_old_session_is_not_offered(void **state)
{
	struct kh_slice key = KH_SLICE("1 api.example.com k"); /* load, host, the pool's own */
	(void)state;
	assert_false(connect_once("api.example.com", "k", false));
	SSL_SESSION *session = kh_sessions_take(w.sessions, key);
	assert_non_null(session);
	long now = (long)time(NULL);
	const long times[] = { now - 25 * 3600, now + 3600 }; /* a day; a clock that was set back */
	for (size_t i = 0; i < 2; i++) {
		SSL_SESSION_up_ref(session);
		SSL_SESSION_set_time(session, times[i]);
		assert_true(kh_sessions_put(w.sessions, key, session));
		assert_null(kh_sessions_take(w.sessions, key));
	}
	SSL_SESSION_free(session);
}

static void test_sessions_do_not_outlive_the_roots_they_were_verified_with(void **state)
{
	(void)state;
	assert_false(connect_once("api.example.com", "k", false));
	assert_true(connect_once("api.example.com", "k", false));
	world_trust(&w, kh_ca_pem(w.ca)); /* a reload */
	assert_false(connect_once("api.example.com", "k", false));
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *other = kh_ca_new(&err);
	world_trust(&w, kh_ca_pem(other));
	expect_refusal("api.example.com", "self-signed");
	kh_ca_free(other);
}

static void test_the_sandbox_resumes_only_for_the_same_host_also_on_another_thread(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	SSL_CTX *other_thread = kh_tls_down_ctx(w.leaves, &err);
	SSL_SESSION *session = NULL;
	(void)state;
	world_mint(&w, "b.example.com");
	for (int i = 0; i < 3; i++) {
		struct side down;
		struct client c;
		char byte;
		size_t n;
		struct kh_host host = host_of(i == 2 ? "b.example.com" : "api.example.com");
		int fd = half_init(&down);
		assert_true(kh_stream_accept_tls(down.stream, i == 1 ? other_thread : w.down,
						 KH_SLICE(""), &host, 5000));
		client_init(&c, fd);
		if (session)
			SSL_set_session(c.ssl, session);
		assert_int_equal(client_run(&c, &down), 1);
		assert_int_equal(SSL_session_reused(c.ssl), i == 1);
		assert_int_equal(kh_stream_write(down.stream, "x", 1, &n), KH_IO_OK);
		assert_int_equal(SSL_read(c.ssl, &byte, 1), 1); /* the ticket comes with it */
		SSL_SESSION_free(session);
		session = SSL_get1_session(c.ssl);
		SSL_set_shutdown(c.ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
		client_fini(&c);
		kh_stream_free(down.stream);
		close(fd);
	}
	SSL_SESSION_free(session);
	SSL_CTX_free(other_thread);
}

/* ---- idle connections ---- */

static void test_an_idle_connection_is_alive_until_something_comes(void **state)
{
	struct pair p;
	size_t n;
	(void)state;
	/* The ticket that follows the handshake is nothing to read. */
	pair_init(&p, &w);
	p.up.stop_reading = true;
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", "k");
	finish_handshake(&p);
	turn_for(&w, 10);
	assert_true(kh_stream_is_alive(p.up.stream));
	assert_true(kh_stream_is_alive(p.up.stream));
	unsigned calls = p.up.calls;
	kh_stream_watch(p.up.stream, KH_STREAM_READABLE);
	turn_for(&w, 20);
	assert_int_equal(p.up.calls, calls);
	kh_stream_watch(p.up.stream, 0);
	assert_int_equal(kh_stream_write(p.down.stream, "x", 1, &n), KH_IO_OK);
	assert_false(kh_stream_is_alive(p.up.stream));
	assert_true(kh_stream_is_alive(p.down.stream));
	kh_stream_shutdown_write(p.up.stream);
	assert_false(kh_stream_is_alive(p.down.stream));
	pair_fini(&p);
	/* Half a record may be of anything: an answer, or the end. */
	pair_init(&p, &w);
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", "half");
	finish_handshake(&p);
	turn_for(&w, 10);
	assert_true(kh_stream_is_alive(p.up.stream));
	assert_false(kh_stream_has_news(p.up.stream));
	assert_int_equal(write(kh_stream_fd(p.down.stream), "\x15\x03\x03", 3), 3);
	assert_true(kh_stream_has_news(p.up.stream));
	assert_false(kh_stream_is_alive(p.up.stream));
	assert_false(kh_stream_is_alive(p.up.stream)); /* it was read by now */
	assert_false(kh_stream_has_news(p.up.stream));
	assert_int_equal(write(kh_stream_fd(p.down.stream), "\0", 1), 1);
	assert_true(kh_stream_has_news(p.up.stream));
	pair_fini(&p);
	/* Plain ones too. */
	pair_init(&p, &w);
	assert_true(kh_stream_is_alive(p.up.stream));
	assert_int_equal(kh_stream_write(p.down.stream, "x", 1, &n), KH_IO_OK);
	assert_false(kh_stream_is_alive(p.up.stream));
	kh_stream_shutdown_write(p.up.stream);
	assert_false(kh_stream_is_alive(p.down.stream));
	pair_fini(&p);
}

static void test_a_plain_stream_reads_writes_ends_and_fails(void **state)
{
	struct pair p;
	(void)state;
	pair_init(&p, &w);
	p.down.to_write = 3 * 1000 * 1000;
	p.down.close_when_written = true;
	kh_stream_watch(p.down.stream, KH_STREAM_WRITABLE);
	kh_stream_watch(p.up.stream, KH_STREAM_READABLE);
	TURN_UNTIL(&w, p.up.end != 0);
	assert_int_equal(p.up.end, KH_IO_EOF);
	assert_int_equal(p.up.read_bytes, p.down.to_write);
	assert_int_equal(p.up.sum, 0);
	kh_stream_free(p.down.stream);
	p.down.stream = NULL;
	size_t n;
	assert_int_equal(kh_stream_write(p.up.stream, "x", 1, &n), KH_IO_ERROR);
	assert_int_equal(kh_stream_error(p.up.stream)->code, KH_ERR_UP_CLOSED);
	pair_fini(&p);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_both_sides_meet_and_say_what_they_speak),
		T(test_large_transfers_go_both_ways_at_once_unchanged),
		T(test_a_reader_that_rests_holds_the_writer_back_and_loses_nothing),
		T(test_readable_is_level_triggered_over_decrypted_bytes_and_never_spurious),
		T(test_a_record_cut_in_half_neither_wakes_nor_spins),
		T(test_the_handshake_rests_until_the_leaf_is_there),
		T(test_a_leaf_that_never_comes_fails_the_handshake_with_its_reason),
		T(test_a_leaf_that_is_late_fails_the_handshake_at_its_deadline),
		T(test_a_stream_may_be_freed_while_it_rests),
		T(test_a_leaf_for_another_key_or_garbage_is_not_taken),
		T(test_another_issuer_empties_the_cache),
		T(test_another_sni_is_remembered_and_the_leaf_is_the_tunnels),
		T(test_a_handshake_with_another_sni_is_completed_so_that_the_refusal_can_be_read),
		T(test_an_sni_in_another_case_or_none_is_no_mismatch),
		T(test_an_sni_that_is_no_host_is_a_mismatch_and_shown_escaped),
		T(test_a_second_client_hello_with_another_sni_does_not_hide_the_first),
		T(test_alpn_takes_h2_then_http11_and_refuses_offers_of_neither),
		T(test_the_chain_that_is_sent_is_leaf_and_ca),
		T(test_older_tls_than_1_2_is_refused),
		T(test_a_client_that_distrusts_the_ca_is_told_apart),
		T(test_what_is_not_tls_fails_with_a_clear_word),
		T(test_half_a_hello_and_then_the_end_fails_at_every_length),
		T(test_a_hello_with_any_byte_changed_never_harms_the_server),
		T(test_silence_ends_at_the_deadline),
		T(test_hello_and_all_may_come_as_prefix),
		T(test_close_notify_is_an_end_and_its_absence_is_not),
		T(test_what_was_written_arrives_though_the_stream_is_freed_at_once),
		T(test_shutdown_behind_a_full_socket_is_sent_when_there_is_room),
		T(test_the_callback_may_free_the_stream_at_any_event),
		T(test_a_certificate_for_another_host_is_refused_and_its_names_are_told),
		T(test_a_certificate_of_an_unknown_ca_is_refused),
		T(test_no_roots_at_all_refuse_everything),
		T(test_roots_of_the_handshakes_moment_count),
		T(test_a_roots_file_without_a_certificate_is_an_error),
		T(test_expired_early_selfsigned_and_nameless_certificates_are_refused),
		T(test_an_upstream_that_speaks_no_tls_is_told_apart),
		T(test_sessions_are_resumed_once_a_ticket_under_their_key_alone),
		T(test_a_ticket_is_used_once),
		T(test_tickets_are_kept_for_a_few_connections_at_a_time),
		T(test_a_session_of_tls_1_2_serves_again_and_again),
		T(test_an_old_session_is_not_offered),
		T(test_sessions_do_not_outlive_the_roots_they_were_verified_with),
		T(test_the_sandbox_resumes_only_for_the_same_host_also_on_another_thread),
		T(test_an_idle_connection_is_alive_until_something_comes),
		T(test_a_plain_stream_reads_writes_ends_and_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
