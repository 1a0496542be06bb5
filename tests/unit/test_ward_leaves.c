/* test_ward_leaves.c - leaves for a worker: for hosts, for its own key, and not too many */
#include "ward_pair.h"

static void say_str(struct pair *pair, enum kh_channel_type type, const char *str)
{
	struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES);
	assert_true(kh_wire_put_str(&body, str));
	say(pair, type, kh_buf_view(&body));
	kh_buf_fini(&body);
}

static void a_leaf_is_signed_for_the_host_and_the_workers_key(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	say_str(&pair, KH_CHANNEL_LEAF_WANT, "api.example.com");
	hear(&pair, KH_CHANNEL_LEAF, &message);
	struct kh_wire_reader r = { .rest = message.body };
	kh_auto_free char *host = kh_wire_str(&r);
	struct kh_slice der = kh_wire_bytes(&r);
	assert_true(kh_wire_done(&r));
	assert_string_equal(host, "api.example.com");
	const unsigned char *at = (const unsigned char *)der.ptr;
	X509 *leaf = d2i_X509(NULL, &at, (long)der.len);
	assert_non_null(leaf);
	assert_int_equal(X509_check_host(leaf, "api.example.com", 0, 0, NULL), 1);
	unsigned char *spki = NULL;
	int len = i2d_PUBKEY(X509_get0_pubkey(leaf), &spki);
	assert_true(kh_slice_eq(kh_slice_of(spki, (size_t)len), kh_leaves_spki(leaves)));
	OPENSSL_free(spki);
	X509_free(leaf);
	end(&pair);
}

static void a_host_is_read_anew(void **state)
{
	(void)state;
	static const char *const hosts[] = { "",
					     "API.example.com.",
					     "a b.com",
					     "*.example.com",
					     "a..b",
					     "x\ny.com",
					     "0x7f.1",
					     "exa\xc3\xa4mple.com",
					     "host/../../x",
					     "-x.com" };
	kh_log_set_level(KH_LOG_ERROR);
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		struct pair pair;
		begin(&pair);
		serve(&pair);
		say_str(&pair, KH_CHANNEL_LEAF_WANT, hosts[i]);
		expect_condemned(&pair);
	}
}

static void no_leaf_without_a_key_and_only_one_key(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	say_str(&pair, KH_CHANNEL_LEAF_WANT, "api.example.com");
	expect_condemned(&pair);

	begin(&pair);
	say_key(&pair);
	say_key(&pair);
	expect_condemned(&pair);

	begin(&pair);
	serve(&pair);
	say_key(&pair);
	expect_condemned(&pair);
}

static void a_key_that_is_none_gives_no_leaf(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	say_str(&pair, KH_CHANNEL_LEAF_KEY, "this is no SubjectPublicKeyInfo");
	say(&pair, KH_CHANNEL_READY, nothing);
	say_str(&pair, KH_CHANNEL_LEAF_WANT, "api.example.com");
	hear(&pair, KH_CHANNEL_LEAF, &message);
	struct kh_wire_reader r = { .rest = message.body };
	free(kh_wire_str(&r));
	assert_int_equal(kh_wire_bytes(&r).len, 0);
	assert_true(kh_wire_done(&r));
	end(&pair);
}

static void signatures_are_bounded(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	pair.ward.signer.tokens = 3;
	unsigned signatures = 0;
	for (int i = 0; i < 10; i++) {
		pair.ward.signer.tokens_ms = kh_clock_mono_ms();
		double before = pair.ward.signer.tokens;
		say_str(&pair, KH_CHANNEL_LEAF_WANT, "api.example.com");
		hear(&pair, KH_CHANNEL_LEAF, &message);
		struct kh_wire_reader r = { .rest = message.body };
		free(kh_wire_str(&r));
		bool signed_one = kh_wire_bytes(&r).len > 0;
		signatures += signed_one;
		pair.ward.signer.tokens = before - (signed_one ? 1 : 0); /* time stands still */
	}
	assert_int_equal(signatures, 3);
	end(&pair);
}

struct slow_reader {
	struct pair *pair;
	unsigned answers;
};

static void *read_slowly(void *arg)
{
	struct slow_reader *reader = arg;
	for (unsigned i = 0; i < reader->answers; i++) {
		struct kh_channel_message message;
		(void)usleep(20 * 1000);
		if (kh_channel_receive(&reader->pair->worker, true, &message) != KH_CHANNEL_GOT)
			break;
		kh_channel_message_close(&message);
	}
	return NULL;
}

/* Each answer takes its time; signals must not wait for all of them. */
static void a_worker_that_reads_slowly_does_not_keep_the_keeper(void **state)
{
	enum { ASKED = 100 };
	(void)state;
	struct pair pair;
	pthread_t thread;
	int least = 1;
	begin(&pair);
	serve(&pair);
	assert_return_code(
		setsockopt(pair.ward.channel.fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, 256);
	assert_true(kh_wire_put_str(&body, "api.example.com"));
	for (int i = 0; i < ASKED; i++)
		say(&pair, KH_CHANNEL_LEAF_WANT, kh_buf_view(&body));
	struct slow_reader reader = { &pair, ASKED };
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
	uint64_t began = kh_clock_mono_ms(), longest = 0;
	for (uint64_t before = began; kh_clock_mono_ms() - began < 1500;) {
		kh_ward_receive(&pair.ward);
		uint64_t now = kh_clock_mono_ms();
		longest = now - before > longest ? now - before : longest;
		before = now;
	}
	assert_true(longest < 1000);
	assert_int_equal(pair.ward.state, KH_WARD_SERVING);
	while (kill(pair.ward.pid, 0) == 0 && kh_clock_mono_ms() - began < 20000) {
		kh_ward_receive(&pair.ward);
		if (pthread_tryjoin_np(thread, NULL) == 0)
			break;
		(void)usleep(1000);
	}
	end(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leaf_is_signed_for_the_host_and_the_workers_key),
		cmocka_unit_test(a_host_is_read_anew),
		cmocka_unit_test(no_leaf_without_a_key_and_only_one_key),
		cmocka_unit_test(a_key_that_is_none_gives_no_leaf),
		cmocka_unit_test(signatures_are_bounded),
		cmocka_unit_test(a_worker_that_reads_slowly_does_not_keep_the_keeper),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
