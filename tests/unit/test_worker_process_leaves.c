/* test_worker_process_leaves.c - leaves for a worker: for hosts, for its own key, and not too many
 */
#include "config_text.h"
/* It has a `config` of its own. */
#include "worker_process_pair.h"

static void say_str(struct pair *pair, enum kh_worker_msg_to_keeper type, const char *str)
{
	struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES);
	assert_true(kh_wire_put_str(&body, str));
	say(pair, type, kh_buf_view(&body));
	kh_buf_fini(&body);
}

static void say_want_of(struct pair *pair, uint32_t generation, const char *host, uint16_t tenant,
			uint16_t port, const char *whose)
{
	struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES);
	assert_true(kh_wire_put_str(&body, host) && kh_wire_put_u16(&body, tenant) &&
		    kh_wire_put_u16(&body, port) && kh_wire_put_str(&body, whose));
	assert_true(kh_channel_send(&pair->worker, KH_WORKER_MSG_LEAF_REQUEST, generation,
				    kh_buf_view(&body), NULL, 0, NULL));
	kh_buf_fini(&body);
}

static void say_want(struct pair *pair, uint32_t generation, const char *host, uint16_t tenant,
		     uint16_t port)
{
	say_want_of(pair, generation, host, tenant, port, "");
}

static void want(struct pair *pair, const char *host)
{
	say_want(pair, GENERATION, host, 0, 443);
}

static void a_leaf_is_signed_for_the_host_and_the_workers_key(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	want(&pair, "api.example.com");
	hear(&pair, KH_WORKER_MSG_LEAF, &message);
	struct kh_wire_reader r = { .rest = message.body };
	kh_auto_free char *host = kh_wire_str(&r);
	struct kh_slice der = kh_wire_bytes(&r);
	kh_auto_free char *whose = kh_wire_str(&r);
	assert_true(kh_wire_done(&r));
	assert_string_equal(host, "api.example.com");
	assert_string_equal(whose, "");
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
		want(&pair, hosts[i]);
		expect_condemned(&pair);
	}
}

static void no_leaf_without_a_key_and_only_one_key(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	want(&pair, "api.example.com");
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
	say_str(&pair, KH_WORKER_MSG_LEAF_KEY, "this is no SubjectPublicKeyInfo");
	say_ready(&pair, GENERATION);
	want(&pair, "api.example.com");
	hear(&pair, KH_WORKER_MSG_LEAF, &message);
	struct kh_wire_reader r = { .rest = message.body };
	free(kh_wire_str(&r));
	assert_int_equal(kh_wire_bytes(&r).len, 0);
	free(kh_wire_str(&r));
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
	pair.worker_process.signer.refusals.tokens = 3;
	unsigned signatures = 0;
	for (int i = 0; i < 10; i++) {
		pair.worker_process.signer.refusals.tokens_ms = kh_clock_mono_ms();
		double before = pair.worker_process.signer.refusals.tokens;
		want(&pair, "api.example.com");
		hear(&pair, KH_WORKER_MSG_LEAF, &message);
		struct kh_wire_reader r = { .rest = message.body };
		free(kh_wire_str(&r));
		bool signed_one = kh_wire_bytes(&r).len > 0;
		signatures += signed_one;
		pair.worker_process.signer.refusals.tokens =
			before - (signed_one ? 1 : 0); /* time stands still */
	}
	assert_int_equal(signatures, 3);
	end(&pair);
}

/* Return: for how many seconds the leaf is good. */
static long life_of(struct pair *pair)
{
	struct kh_channel_message message;
	int days = 0, seconds = 0;
	assert_int_equal(kh_channel_receive(&pair->worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_WORKER_MSG_LEAF);
	struct kh_wire_reader r = { .rest = message.body };
	free(kh_wire_str(&r));
	struct kh_slice der = kh_wire_bytes(&r);
	const unsigned char *at = (const unsigned char *)der.ptr;
	X509 *leaf = d2i_X509(NULL, &at, (long)der.len);
	assert_non_null(leaf);
	assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(leaf)), 1);
	X509_free(leaf);
	return days * 86400L + seconds;
}

/* A worker that was taken over keeps its leaves and their key: for a day where it may be asked for
 * the host anyway, for minutes where it may not. */
static void a_leaf_lives_a_day_for_a_host_of_a_rule_and_ten_minutes_for_others(void **state)
{
	static const struct {
		const char *host;
		uint32_t generation;
		uint16_t tenant, port;
		bool allowed;
	} wants[] = {
		{ "api.example.com", GENERATION, 0, 443, true },
		{ "deep.wild.example.com", GENERATION, 0, 8443, true },
		{ "only.example.com", GENERATION, 1, 443, true },
		{ "only.example.com", GENERATION, 0, 443, false }, /* another tenant's */
		{ "api.example.com", GENERATION, 1, 443, false },
		{ "api.example.com", GENERATION, 0, 444, false },
		{ "deep.wild.example.com", GENERATION, 0, 443, false },
		{ "plain.example.com", GENERATION, 0, 80, false }, /* no TLS there */
		{ "accounts.google.com", GENERATION, 0, 443, false },
		{ "api.example.com", GENERATION, 7, 443, false },
		{ "api.example.com", GENERATION, UINT16_MAX, 443, false },
		{ "api.example.com", GENERATION - 1, 0, 443, false },
		{ "api.example.com", GENERATION + 1, 0, 443, false },
	};
	(void)state;
	struct pair pair;
	struct kh_config *before = config;
	config = config_of("version: 1\ntenants:\n"
			   "  a: { rules: [ { allow: 'https://api.example.com' }, "
			   "{ allow: 'https://*.wild.example.com:8443' }, "
			   "{ allow: 'http://plain.example.com' } ] }\n"
			   "  b: { rules: [ { allow: 'https://only.example.com/one/path' } ] }\n");
	begin(&pair);
	serve(&pair);
	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
		say_want(&pair, wants[i].generation, wants[i].host, wants[i].tenant, wants[i].port);
		kh_worker_process_receive(&pair.worker_process);
		long life = life_of(&pair), most = wants[i].allowed ? 24 * 3600 : 10 * 60;
		if (life > most || life < most - 60)
			fail_msg("%zu: %s lives %ld s", i, wants[i].host, life);
	}
	end(&pair);
	kh_config_free(config);
	config = before;
}

/* Names without end use up what is for them, and no more. */
static void leaves_for_hosts_of_no_rule_leave_the_others_theirs(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_config *before = config;
	config = config_of("version: 1\ntenants:\n"
			   "  a: { rules: [ { allow: 'https://api.example.com' } ] }\n");
	begin(&pair);
	serve(&pair);
	pair.worker_process.signer.refusals.tokens = -1e9;
	for (int i = 0; i < 3; i++) {
		struct kh_channel_message message;
		want(&pair, "no-rule.example.com");
		hear(&pair, KH_WORKER_MSG_LEAF, &message);
		struct kh_wire_reader r = { .rest = message.body };
		free(kh_wire_str(&r));
		assert_int_equal(kh_wire_bytes(&r).len, 0);
		want(&pair, "api.example.com");
		kh_worker_process_receive(&pair.worker_process);
		assert_true(life_of(&pair) > 3600);
	}
	end(&pair);
	kh_config_free(config);
	config = before;
}

/* Return: which of them signed the leaf that came; NULL: none came. */
static const struct kh_ca *signer_of(struct pair *pair, struct kh_ca *const *cas, size_t n)
{
	struct kh_channel_message message;
	const struct kh_ca *found = NULL;
	hear(pair, KH_WORKER_MSG_LEAF, &message);
	struct kh_wire_reader r = { .rest = message.body };
	free(kh_wire_str(&r));
	struct kh_slice der = kh_wire_bytes(&r);
	const unsigned char *at = (const unsigned char *)der.ptr;
	X509 *leaf = der.len > 0 ? d2i_X509(NULL, &at, (long)der.len) : NULL;
	for (size_t i = 0; leaf && i < n; i++) {
		struct kh_slice issuer = kh_ca_der(cas[i]);
		at = (const unsigned char *)issuer.ptr;
		X509 *one = d2i_X509(NULL, &at, (long)issuer.len);
		if (X509_verify(leaf, X509_get0_pubkey(one)) == 1)
			found = cas[i];
		X509_free(one);
	}
	X509_free(leaf);
	return found;
}

/* By name: the place in the list is of a configuration that may be another one by now. A worker
 * that asks for one tenant's leaf gets none of another, and none of the CA that is for all. */
static void a_tenants_leaf_is_signed_by_its_own_ca(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_config *before = config;
	config = config_of("version: 1\nauthority: { per_tenant: true }\ntenants:\n"
			   "  a: { rules: [ { allow: 'https://api.example.com' } ] }\n"
			   "  b: { rules: [ { allow: 'https://api.example.com' } ] }\n");
	struct kh_ca *cas[] = { kh_ca_new(NULL), kh_ca_new(NULL), ca };
	begin(&pair);
	serve(&pair);
	pair.worker_process.tenant_cas = (struct kh_tenant_cas){ .list = cas, .n = 2 };
	for (uint16_t index = 0; index < 3; index++) {
		say_want_of(&pair, GENERATION, "api.example.com", index, 443, "a");
		assert_ptr_equal(signer_of(&pair, cas, 3), cas[0]);
		say_want_of(&pair, GENERATION, "api.example.com", index, 443, "b");
		assert_ptr_equal(signer_of(&pair, cas, 3), cas[1]);
		say_want_of(&pair, GENERATION, "api.example.com", index, 443, "c");
		assert_null(signer_of(&pair, cas, 3));
		say_want_of(&pair, GENERATION, "api.example.com", index, 443, "");
		assert_null(signer_of(&pair, cas, 3));
	}
	end(&pair);
	kh_ca_free(cas[0]);
	kh_ca_free(cas[1]);
	kh_config_free(config);
	config = before;
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
	assert_return_code(setsockopt(pair.worker_process.channel.fd, SOL_SOCKET, SO_SNDBUF, &least,
				      sizeof(least)),
			   0);
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, 256);
	assert_true(kh_wire_put_str(&body, "api.example.com") && kh_wire_put_u16(&body, 0) &&
		    kh_wire_put_u16(&body, 443) && kh_wire_put_str(&body, ""));
	for (int i = 0; i < ASKED; i++)
		say(&pair, KH_WORKER_MSG_LEAF_REQUEST, kh_buf_view(&body));
	struct slow_reader reader = { &pair, ASKED };
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
	uint64_t began = kh_clock_mono_ms(), longest = 0;
	for (uint64_t before = began; kh_clock_mono_ms() - began < 1500;) {
		kh_worker_process_receive(&pair.worker_process);
		uint64_t now = kh_clock_mono_ms();
		longest = now - before > longest ? now - before : longest;
		before = now;
	}
	assert_true(longest < 1000);
	assert_int_equal(pair.worker_process.state, KH_WORKER_PROCESS_SERVING);
	while (kill(pair.worker_process.pid, 0) == 0 && kh_clock_mono_ms() - began < 20000) {
		kh_worker_process_receive(&pair.worker_process);
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
		cmocka_unit_test(
			a_leaf_lives_a_day_for_a_host_of_a_rule_and_ten_minutes_for_others),
		cmocka_unit_test(leaves_for_hosts_of_no_rule_leave_the_others_theirs),
		cmocka_unit_test(a_tenants_leaf_is_signed_by_its_own_ca),
		cmocka_unit_test(a_worker_that_reads_slowly_does_not_keep_the_keeper),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
