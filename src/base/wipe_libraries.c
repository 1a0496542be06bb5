/* wipe_libraries.c - what OpenSSL and jansson give back is overwritten first */

#include <keyhole/secret.h>

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <openssl/crypto.h>

static void wiping_free(void *block)
{
	if (block)
		kh_wipe(block, malloc_usable_size(block));
	free(block);
}

static void *crypto_malloc(size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	return malloc(size);
}

/* As realloc, which would leave a copy where the block stood. */
static void *crypto_realloc(void *block, size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	if (size == 0) {
		wiping_free(block);
		return NULL;
	}
	void *next = malloc(size);
	if (!next || !block)
		return next;
	size_t had = malloc_usable_size(block);
	memcpy(next, block, had < size ? had : size);
	wiping_free(block);
	return next;
}

static void crypto_free(void *block, const char *file, int line)
{
	(void)file;
	(void)line;
	wiping_free(block);
}

bool kh_wipe_libraries(void)
{
	json_set_alloc_funcs(malloc, wiping_free);
	return CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free) == 1;
}
