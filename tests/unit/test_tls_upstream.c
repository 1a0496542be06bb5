/* test_tls_upstream.c - the side of the upstream: its certificate, and sessions that are resumed */
#include "tls_client.h"

#include <time.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <tls/sessions_internal.h>

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

/* ECDHE's curves are those of the list; a group of DHE has whatever size the server likes. */
static void test_no_suite_lets_an_upstream_choose_a_group_of_its_own(void **state)
{
	STACK_OF(SSL_CIPHER) *suites = SSL_CTX_get_ciphers(w.up);
	(void)state;
	assert_in_range(sk_SSL_CIPHER_num(suites), 1, 64);
	for (int i = 0; i < sk_SSL_CIPHER_num(suites); i++) {
		int exchange = SSL_CIPHER_get_kx_nid(sk_SSL_CIPHER_value(suites, i));
		assert_true(exchange == NID_kx_ecdhe || exchange == NID_kx_any);
	}
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
		SSL_SESSION_set_time(session, times[i]);
		assert_true(kh_sessions_put(w.sessions, key, session));
		assert_null(kh_sessions_take(w.sessions, key));
	}
	SSL_SESSION_free(session);
}

static void test_what_is_kept_of_a_session_is_bounded(void **state)
{
	struct kh_slice key = KH_SLICE("1 api.example.com k");
	static const unsigned char more[KH_LIMIT_TLS_SESSION_BYTES];
	(void)state;
	assert_false(connect_once("api.example.com", "k", false));
	SSL_SESSION *session = kh_sessions_take(w.sessions, key);
	SSL *ssl = SSL_new(w.up);
	assert_int_equal(SSL_set_session(ssl, session), 1);
	assert_non_null(SSL_SESSION_get0_peer(session));
	assert_null(SSL_get_peer_cert_chain(ssl)); /* the issuer was in it */
	SSL_free(ssl);
	assert_true(kh_sessions_put(w.sessions, key, session));
	assert_int_equal(SSL_SESSION_set1_ticket_appdata(session, more, sizeof more), 1);
	assert_false(kh_sessions_put(w.sessions, key, session));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_certificate_for_another_host_is_refused_and_its_names_are_told),
		T(test_a_certificate_of_an_unknown_ca_is_refused),
		T(test_no_roots_at_all_refuse_everything),
		T(test_roots_of_the_handshakes_moment_count),
		T(test_a_roots_file_without_a_certificate_is_an_error),
		T(test_expired_early_selfsigned_and_nameless_certificates_are_refused),
		T(test_an_upstream_that_speaks_no_tls_is_told_apart),
		T(test_no_suite_lets_an_upstream_choose_a_group_of_its_own),
		T(test_sessions_are_resumed_once_a_ticket_under_their_key_alone),
		T(test_a_ticket_is_used_once),
		T(test_tickets_are_kept_for_a_few_connections_at_a_time),
		T(test_a_session_of_tls_1_2_serves_again_and_again),
		T(test_an_old_session_is_not_offered),
		T(test_what_is_kept_of_a_session_is_bounded),
		T(test_sessions_do_not_outlive_the_roots_they_were_verified_with),
		T(test_the_sandbox_resumes_only_for_the_same_host_also_on_another_thread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
