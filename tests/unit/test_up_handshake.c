/* test_up_handshake.c - a handshake with an upstream is work of the sandbox that it is for */
/* wrap: kh_up_acquire kh_work_share_charge */
#include "pipe_client.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <keyhole/tls/ca.h>
#include <tls/leaves_internal.h>

#include "upstream/upstream.c" /* NOLINT(bugprone-suspicious-include) */

enum { USERS = 2, TURNS = 20 };

static struct {
	struct kh_up *up;
	struct kh_up_user users[USERS];
	struct kh_work_share shares[USERS];
	SSL_CTX *ctx;
	SSL *ssl; /* the server's */
	size_t charged[USERS];
	unsigned charges, ready, failed;
} scene;

static const struct kh_message get = { .method = { "GET", 3 } };

void __real_kh_work_share_charge(struct kh_work_share *share, size_t work);
void __wrap_kh_work_share_charge(struct kh_work_share *share, size_t work);
void __wrap_kh_work_share_charge(struct kh_work_share *share, size_t work)
{
	for (size_t i = 0; i < USERS; i++)
		scene.charged[i] += share == &scene.shares[i] ? work : 0;
	scene.charges++;
	__real_kh_work_share_charge(share, work);
}

/* ---- the server, at the other end of a pipe ---- */

static ssize_t server_says(void *pipe, void *bytes, size_t room)
{
	int n = BIO_read(SSL_get_wbio(scene.ssl), bytes, (int)room);

	(void)pipe;
	if (n > 0)
		return n;
	errno = EAGAIN;
	return -1;
}

static ssize_t server_hears(void *pipe, const void *bytes, size_t len)
{
	(void)pipe;
	return BIO_write(SSL_get_rbio(scene.ssl), bytes, (int)len);
}

static unsigned server_ready(const void *pipe)
{
	bool says = BIO_ctrl_pending(SSL_get_wbio(scene.ssl)) > 0;

	(void)pipe;
	return KH_STREAM_WRITABLE | (says ? (unsigned)KH_STREAM_READABLE : 0u);
}

static void server_nothing(void *pipe)
{
	(void)pipe;
}

static const struct kh_pipe_ops server_ops = {
	.read = server_says,
	.write = server_hears,
	.ready = server_ready,
	.shutdown = server_nothing,
	.close = server_nothing,
};

/* Its certificate, and the CA among the roots. */
static void server_begin(void)
{
	struct kh_leaves *leaves = world.worker.leaves;
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_slice pem = kh_ca_pem(ca);
	X509 *leaf = NULL, *issuer = NULL;
	struct kh_host host;
	struct kh_buf der;
	long left_s;

	kh_buf_init(&der, 8192);
	assert_true(kh_host_parse(&host, KH_SLICE("a.example"), NULL));
	assert_true(kh_leaves_set_issuer(leaves, kh_ca_der(ca), &err));
	assert_true(kh_ca_sign(ca, kh_leaves_spki(leaves), &host, KH_CA_LEAF_S, &der, &err));
	assert_true(kh_leaves_put(leaves, &host, kh_buf_view(&der), &err));
	assert_true(kh_leaves_get(leaves, &host, &leaf, &issuer, &left_s));
	int fd = memfd_create("roots", MFD_CLOEXEC);
	assert_true(fd >= 0 && write(fd, pem.ptr, pem.len) == (ssize_t)pem.len);
	assert_true(kh_roots_load(world.worker.roots, &fd, 1, &err));
	close(fd);
	scene.ctx = SSL_CTX_new(TLS_server_method());
	assert_int_equal(SSL_CTX_use_certificate(scene.ctx, leaf), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(scene.ctx, kh_leaves_key(leaves)), 1);
	scene.ssl = SSL_new(scene.ctx);
	SSL_set_bio(scene.ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set_accept_state(scene.ssl);
	X509_free(leaf);
	X509_free(issuer);
	kh_buf_fini(&der);
	kh_ca_free(ca);
}

/* ---- the users ---- */

static void user_ready(struct kh_up_user *user, const struct kh_up_facts *facts)
{
	(void)user;
	(void)facts;
	scene.ready++;
}

static void user_failed(struct kh_up_user *user, const struct kh_err *err)
{
	struct kh_up_stream *stream = user->stream;

	(void)err;
	scene.failed++;
	user->stream = NULL;
	stream->ops->release(stream, false);
}

static void user_turn(void *side)
{
	(void)side;
}

static const struct kh_up_user_ops user_ops = {
	.ready = user_ready,
	.failed = user_failed,
	.turn = user_turn,
	.touch = user_turn,
};

static void leave(size_t n)
{
	struct kh_up_stream *stream = scene.users[n].stream;

	scene.users[n].stream = NULL;
	stream->ops->release(stream, false);
}

/* ---- the scene ---- */

static void turns(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		assert_true(event_base_loop(world.loop->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
		kh_loop_turn_end(world.loop);
	}
}

/* The server does what it can, and keyhole gets to know that there is something to read. */
static void server_goes_on(void)
{
	(void)SSL_do_handshake(scene.ssl);
	ERR_clear_error();
	kh_stream_pipe_changed(scene.up->leg.stream);
}

/* The first user's connection, and the server's whole first flight is there to be read. */
static void scene_begin(void)
{
	struct kh_up_key key = { .scheme = KH_SCHEME_HTTPS };

	memset(&scene, 0, sizeof(scene));
	world_begin(&client_loop_ops);
	server_begin();
	assert_true(kh_host_parse(&key.host, KH_SLICE("a.example"), NULL));
	for (size_t i = 0; i < USERS; i++) {
		kh_work_share_init(&scene.shares[i], world.loop);
		scene.users[i] = (struct kh_up_user){ .ops = &user_ops,
						      .loop = world.loop,
						      .work = &scene.shares[i],
						      .message = &get,
						      .progress_ms = &world.loop->now_ms };
	}
	scene.up = new_up(world.loop, &key, world.gen);
	assert_non_null(scene.up);
	scene.up->leg.stream = kh_stream_new_over(world.loop->base, &server_ops, &scene,
						  kh_up_on_stream, scene.up);
	assert_non_null(scene.up->leg.stream);
	kh_count(world.loop, KH_COUNT_UP_OPEN);
	kh_list_append(&world.loop->ups->made, &scene.up->link);
	borrow(&scene.users[0], scene.up);
	assert_true(kh_up_set_state(scene.up, KH_UP_CONNECTING, NULL));
	kh_up_connected(scene.up);
	turns(2);
	assert_int_equal(scene.charges, 1); /* for the ClientHello */
	assert_true(scene.charged[0] > KH_LIMIT_WORK_PER_READ);
	kh_work_share_charge(&scene.shares[0], TURNS * (size_t)KH_LIMIT_WORK_SHARE);
	scene.charges = 0;
	scene.charged[0] = 0;
	server_goes_on();
	turns(2);
	assert_true(kh_up_is_in_line(scene.up));
	assert_int_equal(scene.charges, 0);
}

static void scene_end(void)
{
	turns(2);
	kh_up_close_idle(world.loop);
	turns(2);
	for (size_t i = 0; i < USERS; i++) {
		assert_true(kh_list_is_empty(&scene.shares[i].waiting));
		kh_work_share_fini(&scene.shares[i]);
	}
	SSL_free(scene.ssl);
	SSL_CTX_free(scene.ctx);
	world_end(0);
}

static void a_step_waits_for_a_share_and_is_charged(void **state)
{
	(void)state;
	scene_begin();
	turns(TURNS + 2);
	server_goes_on();
	turns(2);
	assert_int_equal(scene.ready, 1);
	/* It verified signatures, which no machine does in the time of a read. */
	assert_true(scene.charged[0] > 2 * KH_LIMIT_WORK_PER_READ);
	leave(0);
	scene_end();
}

static void whoever_leaves_takes_the_connection_out_of_the_line(void **state)
{
	(void)state;
	scene_begin();
	leave(0);
	assert_true(kh_list_is_empty(&scene.shares[0].waiting));
	turns(TURNS + 2);
	assert_int_equal(scene.charges, 0);
	assert_int_equal(scene.ready + scene.failed, 0);
	scene_end();
}

/* Who takes it over waits in its own line, and pays for what follows. */
static void a_connection_that_is_taken_over_changes_the_line(void **state)
{
	(void)state;
	scene_begin();
	assert_true(kh_up_mux_wait(&scene.users[1], &scene.up->key));
	leave(0);
	assert_ptr_equal(scene.up->only.user, &scene.users[1]);
	assert_true(kh_list_is_empty(&scene.shares[0].waiting));
	assert_false(kh_list_is_empty(&scene.shares[1].waiting));
	turns(3); /* its share is whole */
	server_goes_on();
	turns(2);
	assert_int_equal(scene.ready, 1);
	assert_int_equal(scene.charged[0], 0);
	assert_true(scene.charged[1] > 2 * KH_LIMIT_WORK_PER_READ);
	leave(1);
	scene_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_waits_for_a_share_and_is_charged),
		cmocka_unit_test(whoever_leaves_takes_the_connection_out_of_the_line),
		cmocka_unit_test(a_connection_that_is_taken_over_changes_the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
