/* test_tls_trim.c - what a connection costs while nothing happens on it */
#include "tls_pair.h"

#include <malloc.h>

/* OpenSSL's memory, counted. */
static size_t live;

static void *count_malloc(size_t n, const char *file, int line)
{
	void *p = malloc(n);
	(void)file;
	(void)line;
	live += p ? malloc_usable_size(p) : 0;
	return p;
}

static void count_free(void *p, const char *file, int line)
{
	(void)file;
	(void)line;
	live -= p ? malloc_usable_size(p) : 0;
	free(p);
}

static void *count_realloc(void *p, size_t n, const char *file, int line)
{
	size_t before = p ? malloc_usable_size(p) : 0;
	if (n == 0) {
		count_free(p, file, line);
		return NULL;
	}
	void *moved = realloc(p, n);
	if (moved)
		live += malloc_usable_size(moved) - before;
	return moved;
}

static void test_a_tunnel_at_rest_gives_its_buffers_back(void **state)
{
	enum { PAIRS = 20, DOWN_AND_UP_BYTES = 42 * 1024 };
	static struct pair pairs[PAIRS];
	static struct world w;
	(void)state;
	if (OPENSSL_version_major() == 3 && OPENSSL_version_minor() == 0 &&
	    OPENSSL_version_patch() < 14) {
		print_message("OpenSSL %s frees buffers that are in use, so it is not asked to\n",
			      OpenSSL_version(OPENSSL_VERSION_STRING));
		skip();
	}
	world_init(&w);
	world_trust(&w, kh_ca_pem(w.ca));
	world_mint(&w, "api.example.com");
	size_t before = 0;
	for (int i = 0; i < PAIRS; i++) {
		struct pair *p = &pairs[i];
		if (i == 1)
			before = live; /* what is made once was made for the first one */
		pair_init(p, &w);
		p->down.to_write = p->up.to_write = 100 * 1000;
		pair_accept(p, &w, "api.example.com");
		pair_connect(p, &w, "api.example.com", NULL);
		TURN_UNTIL(&w, p->down.read_bytes == p->up.to_write &&
				       p->up.read_bytes == p->down.to_write);
	}
	turn_for(&w, 20);
	size_t each = (live - before) / (PAIRS - 1);
	print_message("%zu bytes of OpenSSL's a pair\n", each);
	assert_true(each < DOWN_AND_UP_BYTES);
	for (int i = 0; i < PAIRS; i++)
		pair_fini(&pairs[i]);
	world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_tunnel_at_rest_gives_its_buffers_back),
	};
	if (CRYPTO_set_mem_functions(count_malloc, count_realloc, count_free) != 1)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
