/*
 * fuzz_dynamic_sandbox.c - what a worker may ask of the keeper about sandboxes, and what it is told
 *
 * The first byte says which of the two. What is taken is within its bounds, and says the same when
 * it is put again.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/config/dynamic_sandbox.h>
#include <keyhole/base/limits.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void try_wish(struct kh_slice body)
{
	struct kh_dynamic_sandbox_wish wish;
	struct kh_buf again;

	kh_buf_init(&again, 2 * KH_LIMIT_CHANNEL_BYTES);
	if (kh_dynamic_sandbox_wish_take(body, &wish)) {
		require(!strchr(wish.tenant, '/') && !strchr(wish.id, '/') && wish.id[0] != '.');
		require(strlen(wish.id) <= 64 && wish.mode <= 0777);
		require(wish.narrow_len <= KH_LIMIT_NARROWING_BYTES);
		require(kh_dynamic_sandbox_wish_put(&again, &wish));
		require(kh_slice_eq(kh_buf_view(&again), body));
	}
	kh_dynamic_sandbox_wish_fini(&wish);
	kh_buf_fini(&again);
}

static void try_card(struct kh_slice body)
{
	struct kh_dynamic_sandbox_card card;
	struct kh_buf again;

	kh_buf_init(&again, 2 * KH_LIMIT_CHANNEL_BYTES);
	if (kh_dynamic_sandbox_card_take(body, &card)) {
		require(kh_dynamic_sandbox_card_put(&again, &card));
		require(kh_slice_eq(kh_buf_view(&again), body));
	}
	kh_dynamic_sandbox_card_fini(&card);
	kh_buf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > KH_LIMIT_CHANNEL_BYTES)
		return 0;
	/* Of its own size, so that a step too far is seen. */
	char *copy = malloc(size);
	require(copy != NULL);
	memcpy(copy, data, size);
	struct kh_slice body = kh_slice_of(copy + 1, size - 1);
	if (data[0] & 1)
		try_card(body);
	else
		try_wish(body);
	free(copy);
	return 0;
}
