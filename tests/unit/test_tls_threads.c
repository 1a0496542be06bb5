/* test_tls_threads.c - what threads share: leaves, roots, ticket keys; and what they must not */
#include "tls_pair.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 40 };

static struct world shared;
static atomic_uint failures;
static atomic_bool stop;

struct worker_thread {
	pthread_t id;
	unsigned number;
};

static void note(bool ok)
{
	if (!ok)
		atomic_fetch_add(&failures, 1);
}

/* As an event thread of a worker: its own loop, contexts and sessions; shared leaves and roots. */
static void *serve(void *arg)
{
	const struct worker_thread *me = arg;
	struct world w = shared;
	struct kh_err err = KH_ERR_INIT;
	w.base = event_base_new();
	w.sessions = kh_sessions_new(16);
	w.down = kh_tls_down_ctx(w.leaves, &err);
	w.up = kh_tls_up_ctx(w.roots, &err);
	note(w.base && w.sessions && w.down && w.up);
	for (int round = 0; round < ROUNDS; round++) {
		struct pair p;
		char name[64];
		snprintf(name, sizeof name, "h%d.example.com", (round + (int)me->number) % 8);
		pair_init(&p, &w);
		p.down.to_write = p.up.to_write = 1000;
		pair_accept(&p, &w, name);
		pair_connect(&p, &w, name, "key");
		for (int i = 0; i < 4000 && !p.up.failed; i++) {
			turn(&w, 5);
			if (p.down.leaf_asked) { /* another thread has just emptied the cache */
				p.down.leaf_asked = 0;
				world_mint(&w, name);
				kh_stream_leaf_ready(p.down.stream, true);
			}
			if (p.down.read_bytes == 1000 && p.up.read_bytes == 1000)
				break;
		}
		note(p.down.read_bytes == 1000 && p.up.read_bytes == 1000);
		pair_fini(&p);
	}
	SSL_CTX_free(w.down);
	SSL_CTX_free(w.up);
	kh_sessions_free(w.sessions);
	event_base_free(w.base);
	return NULL;
}

/* As the main thread at reloads. */
static void *reload(void *arg)
{
	struct kh_err err = KH_ERR_INIT;
	(void)arg;
	while (!atomic_load(&stop)) {
		int fd = fd_of(kh_ca_pem(shared.ca));
		note(kh_roots_load(shared.roots, &fd, 1, &err));
		note(kh_leaves_set_issuer(shared.leaves, kh_ca_der(shared.ca), &err));
		close(fd);
		usleep(20 * 1000);
	}
	return NULL;
}

static void test_threads_share_leaves_and_roots_while_both_are_reloaded(void **state)
{
	struct worker_thread threads[THREADS];
	pthread_t reloader;
	(void)state;
	world_init(&shared);
	world_trust(&shared, kh_ca_pem(shared.ca));
	assert_int_equal(pthread_create(&reloader, NULL, reload, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i].number = i;
		assert_int_equal(pthread_create(&threads[i].id, NULL, serve, &threads[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i].id, NULL), 0);
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(reloader, NULL), 0);
	assert_int_equal(failures, 0);
	world_fini(&shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_share_leaves_and_roots_while_both_are_reloaded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
