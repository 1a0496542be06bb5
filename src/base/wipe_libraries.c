/*
 * wipe_libraries.c - makes OpenSSL and jansson overwrite memory that they free, and use hidden
 * memory while a credential is in use
 *
 * Buffers for TLS records are the exception: they are large, allocated and freed with each record,
 * and hold only what was encrypted, or decrypted and passed on. The buffer into which a credential
 * is copied to be encrypted is hidden (kh_stream_write).
 */

#include <keyhole/base/secret.h>

#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <openssl/crypto.h>

#include <keyhole/base/hidden.h>

static void wiping_free(void *block)
{
	if (block)
		kh_secret_wipe(block, kh_hidden_usable(block));
	kh_hidden_give(block);
}

static void *fetch(size_t size)
{
	return kh_hidden_is_on() ? kh_hidden_get(&size, KH_HIDDEN_BRIEF) : malloc(size);
}

static void *crypto_malloc(size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	return fetch(size);
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
	void *next = fetch(size);
	if (!next || !block)
		return next;
	size_t had = kh_hidden_usable(block);
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

/* The worker's: see above. */
static void crypto_free_but_records(void *block, const char *file, int line)
{
	enum { RECORD_BYTES = 16 * 1024 };
	(void)file;
	(void)line;
	if (block && kh_hidden_usable(block) >= RECORD_BYTES)
		kh_hidden_give(block);
	else
		wiping_free(block);
}

bool kh_wipe_libraries(bool but_records)
{
	json_set_alloc_funcs(fetch, wiping_free);
	return CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc,
					but_records ? crypto_free_but_records : crypto_free) == 1;
}
