/* test_tls_tickets.c - the sandbox's session tickets: for how long, and whose leaves they stand for
 */
#include "tls_client.h"

#include <time.h>

static void mint(struct kh_leaves *leaves, const struct kh_ca *ca, uint32_t life_s)
{
	struct kh_host host = host_of("api.example.com");
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf der;
	kh_buf_init(&der, 1 << 16);
	assert_true(kh_ca_sign(ca, kh_leaves_spki(leaves), &host, life_s, &der, &err));
	assert_true(kh_leaves_put(leaves, &host, kh_buf_view(&der), &err));
	kh_buf_fini(&der);
}

/* One connection, `leaves` shown (NULL: the context's). *session, which is offered, is replaced by
 * the one that came. Return: it was resumed. */
static bool connect_once(struct kh_leaves *leaves, SSL_SESSION **session)
{
	struct side down;
	struct client c;
	char byte;
	size_t n;
	struct kh_host host = host_of("api.example.com");
	int fd = half_init(&down);
	assert_true(kh_stream_accept_tls(down.stream, w.down, KH_SLICE(""), &host, 5000));
	assert_true(!leaves || kh_stream_use_leaves(down.stream, leaves));
	client_init(&c, fd);
	if (*session)
		SSL_set_session(c.ssl, *session);
	assert_int_equal(client_run(&c, &down), 1);
	bool resumed = SSL_session_reused(c.ssl) == 1;
	assert_int_equal(kh_stream_write(down.stream, "x", 1, &n), KH_IO_OK);
	assert_int_equal(SSL_read(c.ssl, &byte, 1), 1); /* the ticket comes with it */
	SSL_SESSION_free(*session);
	*session = SSL_get1_session(c.ssl);
	SSL_set_shutdown(c.ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	client_fini(&c);
	kh_stream_free(down.stream);
	close(fd);
	return resumed;
}

static void wait_until(double since, double seconds)
{
	struct timespec now;
	do {
		turn_for(&w, 20);
		clock_gettime(CLOCK_REALTIME, &now);
	} while ((double)now.tv_sec + (double)now.tv_nsec / 1e9 < since + seconds);
}

/* Each resumption gives a ticket that is new, and good for no longer than the first. */
static void test_no_ticket_outlives_the_first_handshakes_leaf(void **state)
{
	enum { LIFE_S = 3 };
	struct timespec now;
	SSL_SESSION *session = NULL;
	(void)state;
	mint(w.leaves, w.ca, LIFE_S);
	clock_gettime(CLOCK_REALTIME, &now);
	const double since = (double)now.tv_sec;
	assert_false(connect_once(NULL, &session));
	wait_until(since, 1.5);
	assert_true(connect_once(NULL, &session));
	mint(w.leaves, w.ca, 3600);
	wait_until(since, LIFE_S + 0.2);
	assert_false(connect_once(NULL, &session));
	assert_true(connect_once(NULL, &session));
	SSL_SESSION_free(session);
}

static void test_a_tenants_leaf_and_ticket_are_no_other_tenants(void **state)
{
	struct kh_host host = host_of("api.example.com");
	struct kh_err err = KH_ERR_INIT;
	struct kh_leaves *a = kh_leaves_branch(w.leaves), *b = kh_leaves_branch(w.leaves);
	struct kh_ca *cas[] = { kh_ca_new(&err), kh_ca_new(&err) };
	SSL_SESSION *session = NULL;
	(void)state;
	assert_true(kh_leaves_has(w.leaves, &host));
	assert_false(kh_leaves_has_issuer(a));
	assert_true(kh_leaves_set_issuer(a, kh_ca_der(cas[0]), &err));
	assert_true(kh_leaves_set_issuer(b, kh_ca_der(cas[1]), &err));
	mint(a, cas[0], 3600);
	assert_true(kh_leaves_has(a, &host));
	assert_false(kh_leaves_has(b, &host));
	mint(b, cas[1], 3600);
	assert_false(connect_once(a, &session));
	assert_true(connect_once(a, &session));
	assert_false(connect_once(b, &session));
	assert_true(connect_once(b, &session));
	assert_false(connect_once(NULL, &session));
	assert_false(connect_once(a, &session));
	/* What one of them signs with changes for that one alone. */
	assert_true(kh_leaves_set_issuer(a, kh_ca_der(w.ca), &err));
	assert_false(kh_leaves_has(a, &host));
	assert_true(kh_leaves_has(b, &host));
	SSL_SESSION_free(session);
	kh_leaves_free(a);
	kh_leaves_free(b);
	kh_ca_free(cas[0]);
	kh_ca_free(cas[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_no_ticket_outlives_the_first_handshakes_leaf),
		T(test_a_tenants_leaf_and_ticket_are_no_other_tenants),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
