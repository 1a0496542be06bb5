/* test_tunnel_handshake.c - what the TLS of a tunnel costs, and how long it may take to begin */
/* wrap: kh_up_acquire kh_work_share_charge */
#include "tunnel_client.h"

static size_t charged;

void __real_kh_work_share_charge(struct kh_work_share *share, size_t work);
void __wrap_kh_work_share_charge(struct kh_work_share *share, size_t work);
void __wrap_kh_work_share_charge(struct kh_work_share *share, size_t work)
{
	charged += work;
	__real_kh_work_share_charge(share, work);
}

/* A handshake costs as much as three heads. Without a share left it does not begin, and is not
 * answered either. */
static void test_a_handshake_is_charged_and_waits_for_a_share(void **state)
{
	enum { TURNS = 20 };
	const size_t step = KH_LIMIT_WORK_PER_READ;
	char bytes[4096];
	size_t len = hello("a.example", bytes, sizeof(bytes));

	(void)state;
	client_begin();
	client_says(CONNECT("a.example:443"));
	assert_heard("HTTP/1.1 200 ");
	struct kh_work_share *share = &world.acceptor.work;
	kh_work_share_charge(share, TURNS * (size_t)KH_LIMIT_WORK_SHARE);
	charged = 0;
	client_puts(bytes, len);
	assert_state(KH_SESSION_TUNNEL);
	assert_true(kh_session_is_in_line(session()));
	for (int i = 0; i < TURNS; i++)
		client_turn();
	assert_state(KH_SESSION_HANDSHAKE);
	assert_int_equal(session()->leaf_state, KH_LEAF_STATE_AWAITED);
	assert_int_equal(charged, 2 * step + len);
	kh_work_share_charge(share, TURNS * (size_t)KH_LIMIT_WORK_SHARE);
	charged = 0;
	leaf_comes("a.example");
	client_turn();
	assert_int_equal(kh_buf_len(&client.out), 0);
	assert_true(kh_session_is_in_line(session()));
	for (int i = 0; i < TURNS; i++)
		client_turn();
	assert_heard("\x16\3\3");
	assert_state(KH_SESSION_HANDSHAKE);
	assert_int_equal(charged, step + KH_LIMIT_WORK_PER_HANDSHAKE);
	client_goes();
	client_end(0);
}

static void say_flight(SSL *ssl, size_t *len)
{
	char *bytes;
	long n = BIO_get_mem_data(SSL_get_wbio(ssl), &bytes);

	assert_true(n > 0);
	*len = (size_t)n;
	client_puts(bytes, (size_t)n);
	assert_int_equal(BIO_reset(SSL_get_wbio(ssl)), 1);
}

/* In TLS 1.2 the keys are made with the second flight, which costs as much as the first. */
static void test_the_second_flight_of_tls_1_2_is_charged_too(void **state)
{
	const size_t step = KH_LIMIT_WORK_PER_READ;
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	BIO *in = BIO_new(BIO_s_mem()), *sent = BIO_new(BIO_s_mem());
	size_t len;

	(void)state;
	assert_true(ctx && ssl && in && sent);
	SSL_set_bio(ssl, in, sent);
	assert_int_equal(SSL_set_max_proto_version(ssl, TLS1_2_VERSION), 1);
	assert_true(SSL_connect(ssl) < 0);
	client_begin();
	client_says(CONNECT("a.example:443"));
	assert_heard("HTTP/1.1 200 ");
	say_flight(ssl, &len);
	leaf_comes("a.example");
	client_turn();
	struct kh_slice said = kh_buf_view(&client.out);
	assert_int_equal(BIO_write(in, said.ptr, (int)said.len), (int)said.len);
	assert_heard("\x16\3\3");
	assert_true(SSL_connect(ssl) < 0);
	charged = 0;
	say_flight(ssl, &len);
	assert_in_range(charged, step + len + KH_LIMIT_WORK_PER_HANDSHAKE,
			3 * step + len + KH_LIMIT_WORK_PER_HANDSHAKE);
	assert_state(KH_SESSION_HEAD);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	client_goes();
	client_end(0);
}

/* Until it shows how long it is; then the handshake has its own. No byte begins another. */
static void test_a_hello_that_comes_by_the_byte_has_one_time(void **state)
{
	enum { SHOWN = 9 }; /* the heads of the record and of the message */
	char bytes[4096];
	size_t len = hello("a.example", bytes, sizeof(bytes));

	(void)state;
	assert_true(len > SHOWN);
	client_begin();
	client_says(CONNECT("a.example:443"));
	assert_heard("HTTP/1.1 200 ");
	uint64_t idle = session()->deadline_ms;
	client_puts(bytes, 1);
	assert_true(session()->deadline_ms < idle);
	uint64_t ends = session()->deadline_ms - 1000;
	client.session->deadline_ms = ends;
	for (size_t i = 1; i < SHOWN - 1; i++) {
		client_puts(bytes + i, 1);
		assert_int_equal(session()->deadline_ms, ends);
	}
	client_times_out();
	assert_false(client_is_there());
	client_end(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_handshake_is_charged_and_waits_for_a_share),
		cmocka_unit_test(test_the_second_flight_of_tls_1_2_is_charged_too),
		cmocka_unit_test(test_a_hello_that_comes_by_the_byte_has_one_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
