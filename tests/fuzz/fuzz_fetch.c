/*
 * fuzz_fetch.c - what a token endpoint answers, and the closed messages of the fetcher
 *
 * The first byte chooses: an endpoint's JSON, the fetcher's answer, the keeper's order. Whatever an
 * endpoint says, what is made of it is read back as it was made, and holds no byte that a field of
 * a request could not.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/fetcher/fetch.h>
#include <keyhole/base/limits.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void endpoint(struct kh_slice json)
{
	struct kh_buf store, body;
	struct kh_fetch_answer answer = { .status = 200 }, back;
	kh_buf_init_wiping(&store, (size_t)3 * KH_LIMIT_TOKEN_BYTES);
	kh_buf_init_wiping(&body, KH_LIMIT_CHANNEL_BYTES);
	bool ok = kh_fetch_answer_read(&answer, json, &store);
	require(ok == answer.ok);
	require(kh_fetch_answer_put(&body, &answer));
	require(kh_fetch_answer_take(kh_buf_view(&body), &back));
	require(kh_slice_eq(back.token, answer.token) && kh_slice_eq(back.refresh, answer.refresh));
	require(back.ok == answer.ok && back.error == answer.error && back.id == answer.id);
	kh_buf_fini(&store);
	kh_buf_fini(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_fetch_answer answer;
	struct kh_fetch_order order;
	if (size == 0)
		return 0;
	struct kh_slice rest = kh_slice_of((const char *)data + 1, size - 1);
	if (data[0] == 'j') {
		endpoint(rest);
	} else if (data[0] == 'a') {
		(void)kh_fetch_answer_take(rest, &answer);
	} else {
		if (kh_fetch_order_take(rest, &order))
			require(order.port > 0 && order.target.len > 0);
		free(order.user);
	}
	return 0;
}
