/* test_worker_process_values.c - values of credentials for a worker: what is there, for who may
 * have it */
/* wrap: kh_secret_fd */
#include "worker_process_pair.h"

#include <time.h>

/* How many of the next copies of secret pages can't be had. */
static unsigned n_denied;

int __real_kh_secret_fd(const struct kh_secret *secret);
int __wrap_kh_secret_fd(const struct kh_secret *secret);
int __wrap_kh_secret_fd(const struct kh_secret *secret)
{
	if (n_denied == 0)
		return __real_kh_secret_fd(secret);
	n_denied--;
	return -1;
}

/* A credential of the configuration with that number. */
static void want_value(struct pair *pair, uint32_t generation, const struct kh_credential_ref *want)
{
	struct kh_buf body;
	kh_buf_init(&body, 1024);
	assert_true(kh_credential_ref_put(&body, want) && kh_wire_put_u64(&body, 1) &&
		    kh_wire_put_u16(&body, 0));
	assert_true(kh_channel_send(&pair->worker, KH_WORKER_MSG_CREDENTIAL_REQUEST, generation,
				    kh_buf_view(&body), NULL, 0, NULL));
	kh_buf_fini(&body);
}

static void want_credential(struct pair *pair, uint32_t generation, uint16_t index)
{
	want_value(pair, generation, &(struct kh_credential_ref){ index, KH_NO_TENANT, { "", 0 } });
}

static void a_value_crosses_as_a_page_of_its_own(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	want_credential(&pair, GENERATION, 0);
	hear(&pair, KH_WORKER_MSG_CREDENTIAL, &message);
	assert_int_equal(message.n_fds, 1);
	struct kh_wire_reader r = { .rest = message.body };
	struct kh_credential_ref want;
	assert_true(kh_credential_ref_take(&r, &want));
	assert_int_equal(want.index, 0);
	assert_int_equal(want.tenant, KH_NO_TENANT);
	assert_int_equal(want.scope.len, 0);
	uint32_t len = kh_wire_u32(&r);
	assert_int_equal(kh_wire_u64(&r), 0); /* good for ever */
	kh_auto_free char *why = kh_wire_str(&r);
	assert_true(kh_wire_done(&r));
	assert_null(why);
	struct kh_secret *secret = kh_secret_from_fd(kh_steal_fd(&message.fds[0]), len, NULL);
	assert_true(kh_secret_equals(secret, KH_SLICE("sk-real-value")));
	/* The message itself holds no byte of it. */
	assert_null(memmem(message.body.ptr, message.body.len, "sk-real", 7));
	kh_secret_unref(secret);
	end(&pair);
}

static void a_missing_value_is_said_to_be_missing(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	want_credential(&pair, GENERATION, 1);
	hear(&pair, KH_WORKER_MSG_CREDENTIAL, &message);
	assert_int_equal(message.n_fds, 0);
	struct kh_wire_reader r = { .rest = message.body };
	struct kh_credential_ref want;
	assert_true(kh_credential_ref_take(&r, &want));
	assert_int_equal(want.index, 1);
	assert_int_equal(kh_wire_u32(&r), 0);
	assert_int_equal(kh_wire_u64(&r), 0);
	kh_auto_free char *why = kh_wire_str(&r);
	assert_true(kh_wire_done(&r));
	assert_non_null(strstr(why, "absent"));
	end(&pair);
}

static void a_credential_that_is_not_there_cannot_be_asked_for(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	want_credential(&pair, GENERATION, 2);
	expect_condemned(&pair);
}

/* An index of the configuration before means another credential now: no answer is the right one. */
static void an_index_is_taken_for_its_own_configuration_only(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	want_credential(&pair, GENERATION - 1, 0);
	want_credential(&pair, GENERATION - 1, 999);
	kh_worker_process_receive(&pair.worker_process);
	assert_int_equal(pair.worker_process.state, KH_WORKER_PROCESS_SERVING);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_AGAIN);
	/* One that the keeper has not made yet was never told to a worker. */
	want_credential(&pair, GENERATION + 1, 0);
	expect_condemned(&pair);
}

static void a_tenant_that_is_not_there_cannot_be_asked_for(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	want_value(&pair, GENERATION, &(struct kh_credential_ref){ 0, 999, { "", 0 } });
	expect_condemned(&pair);
}

static void a_scope_that_is_none_cannot_be_asked_for(void **state)
{
	(void)state;
	static char longest[KH_LIMIT_SCOPE_BYTES + 1];
	memset(longest, 'a', sizeof(longest));
	const struct kh_slice scopes[] = {
		KH_SLICE("a b"),      KH_SLICE("a\"b"), KH_SLICE("a\nb"),
		KH_SLICE("\xc3\xa4"), { "\0", 1 },	{ longest, sizeof(longest) },
	};
	for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
		struct pair pair;
		begin(&pair);
		serve(&pair);
		want_value(&pair, GENERATION,
			   &(struct kh_credential_ref){ 0, KH_NO_TENANT, scopes[i] });
		expect_condemned(&pair);
	}
}

/* It asks in good form for what there is not. */
static void a_value_for_a_part_is_refused_where_there_are_no_parts(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	want_value(&pair, GENERATION,
		   &(struct kh_credential_ref){ 0, KH_NO_TENANT, KH_SLICE("owner/repo") });
	hear(&pair, KH_WORKER_MSG_CREDENTIAL, &message);
	assert_int_equal(message.n_fds, 0);
	struct kh_wire_reader r = { .rest = message.body };
	struct kh_credential_ref want;
	assert_true(kh_credential_ref_take(&r, &want));
	assert_true(kh_slice_eq(want.scope, KH_SLICE("owner/repo")));
	assert_int_equal(kh_wire_u32(&r), 0);
	(void)kh_wire_u64(&r);
	kh_auto_free char *why = kh_wire_str(&r);
	assert_non_null(strstr(why, "part"));
	end(&pair);
}

static bool is_of_drain(uint32_t type)
{
	return type == KH_WORKER_MSG_DRAIN || type == KH_WORKER_MSG_RETIRE;
}

/* It uses them for what is under way: a token renewed meanwhile must not leave unrecognised. */
static void a_worker_that_drains_hears_how_to_recognise_the_values_that_it_gets(void **state)
{
	(void)state;
	for (int retires = 0; retires < 2; retires++) {
		struct pair pair;
		struct kh_channel_message message;
		begin(&pair);
		serve(&pair);
		if (retires)
			kh_worker_process_retire(&pair.worker_process);
		else
			kh_worker_process_drain(&pair.worker_process);
		assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
		assert_true(is_of_drain(message.type));
		want_credential(&pair, GENERATION, 0);
		hear(&pair, KH_WORKER_MSG_CREDENTIAL, &message);
		assert_int_equal(message.n_fds, 1);
		kh_channel_message_close(&message);
		kh_worker_process_tell_fingerprints(&pair.worker_process);
		assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
		assert_int_equal(message.type, KH_WORKER_MSG_FINGERPRINTS);
		kh_channel_message_close(&message);
		end(&pair);
	}
}

static unsigned lists_heard(struct pair *pair)
{
	struct kh_channel_message message;
	unsigned n = 0;
	while (kh_channel_receive(&pair->worker, false, &message) == KH_CHANNEL_GOT) {
		assert_int_equal(message.type, KH_WORKER_MSG_FINGERPRINTS);
		kh_channel_message_close(&message);
		n++;
	}
	return n;
}

/* Each list is made of all values that there are, and sandboxes can have tokens made. */
static void many_changes_make_the_fingerprints_anew_a_few_times_a_second(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	uint64_t began = kh_clock_mono_ms();
	for (unsigned i = 0; i < 100; i++) {
		kh_worker_process_note_secret(&pair.worker_process);
		kh_worker_process_look_at_fingerprints(&pair.worker_process);
	}
	unsigned heard = lists_heard(&pair);
	assert_in_range(heard, 1, 1 + (kh_clock_mono_ms() - began) / 250);
	kh_worker_process_note_secret(&pair.worker_process);
	while (kh_clock_mono_ms() < pair.worker_process.fingerprints_due_ms)
		(void)usleep(1000);
	kh_worker_process_look_at_fingerprints(&pair.worker_process);
	assert_int_equal(lists_heard(&pair), 1);
	assert_int_equal(pair.worker_process.fingerprints_due_ms, 0);
	end(&pair);
}

static void a_worker_can_recognise_a_value_before_it_has_it(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	kh_worker_process_note_secret(&pair.worker_process);
	kh_worker_process_look_at_fingerprints(&pair.worker_process);
	assert_int_equal(lists_heard(&pair), 1);
	kh_worker_process_note_secret(&pair.worker_process); /* soon */
	want_credential(&pair, GENERATION, 0);
	kh_worker_process_receive(&pair.worker_process);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_WORKER_MSG_FINGERPRINTS);
	kh_channel_message_close(&message);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_WORKER_MSG_CREDENTIAL);
	kh_channel_message_close(&message);
	end(&pair);
}

static void scope_today(const char *region, char out[64])
{
	time_t now = time(NULL);
	struct tm utc;
	char day[16];
	assert_non_null(gmtime_r(&now, &utc));
	assert_int_equal(strftime(day, sizeof(day), "%Y%m%d", &utc), 8);
	(void)snprintf(out, 64, "%s/%s/s3", day, region);
}

/* What a derived value is answered with; false: with none. */
static bool hears_key(struct pair *pair)
{
	struct kh_channel_message message;
	assert_int_equal(kh_channel_receive(&pair->worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_WORKER_MSG_CREDENTIAL);
	struct kh_wire_reader r = { .rest = message.body };
	struct kh_credential_ref want;
	assert_true(kh_credential_ref_take(&r, &want));
	uint32_t len = kh_wire_u32(&r);
	bool has = message.n_fds == 1;
	if (has) {
		struct kh_secret *secret =
			kh_secret_from_fd(kh_steal_fd(&message.fds[0]), len, NULL);
		assert_non_null(secret);
		kh_secret_unref(secret);
	}
	kh_channel_message_close(&message);
	return has;
}

/* The value that is being given is one of those whose pages are given up. */
static void a_derived_value_is_given_where_pages_are_given_up_for_it(void **state)
{
	(void)state;
	struct kh_diagnostics diags = { .count = 0 };
	struct kh_vault scarce;
	struct kh_channel_message message;
	struct pair pair;
	char scope[64];
	assert_int_equal(setenv("KH_AWS",
				"{\"Version\":1,\"AccessKeyId\":\"AKIDEXAMPLE12345\","
				"\"SecretAccessKey\":\"wJalrXUtnFEMI\"}",
				1),
			 0);
	struct kh_config *aws =
		kh_config_parse("k.yaml",
				KH_SLICE("version: 1\n"
					 "listen: [ { unix: d/s, tenant: acme } ]\n"
					 "credentials:\n"
					 "  aws: { value: { env: KH_AWS }, aws_sigv4: {}, hosts: "
					 "[ \"*.amazonaws.com\" ], shared_host: accept }\n"
					 "tenants: { acme: { rules: [] } }\n"),
				"/nonexistent", NULL, &diags);
	kh_diagnostics_fini(&diags);
	assert_non_null(aws);
	assert_true(kh_vault_open(&scarce, aws, false, NULL));
	begin(&pair);
	pair.worker_process.vault = &scarce;
	pair.worker_process.config = aws;
	serve(&pair);
	static const char *const regions[] = { "us-east-1", "us-east-2", "eu-west-1" };
	for (unsigned i = 0; i < 3; i++) {
		scope_today(regions[i], scope);
		const struct kh_credential_ref want = { 0, KH_NO_TENANT, kh_slice_str(scope) };
		/* The second has no page for the fingerprints, the third none for itself. */
		if (i == 1)
			kh_worker_process_note_secret(&pair.worker_process);
		n_denied = i > 0;
		want_value(&pair, GENERATION, &want);
		kh_worker_process_receive(&pair.worker_process);
		assert_int_equal(n_denied, 0);
		if (i == 1) {
			assert_int_equal(kh_channel_receive(&pair.worker, false, &message),
					 KH_CHANNEL_GOT);
			assert_int_equal(message.type, KH_WORKER_MSG_FINGERPRINTS);
			kh_channel_message_close(&message);
		}
		assert_true(hears_key(&pair));
		assert_int_equal(pair.worker_process.state, KH_WORKER_PROCESS_SERVING);
		assert_non_null(kh_scopes_find(&scarce.slots[0].holdings[0], want.scope));
		kh_vault_turn(&scarce);
		assert_int_equal(scarce.slots[0].holdings[0].n_made, 1);
	}
	end(&pair);
	kh_vault_close(&scarce);
	kh_config_free(aws);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_crosses_as_a_page_of_its_own),
		cmocka_unit_test(a_missing_value_is_said_to_be_missing),
		cmocka_unit_test(a_credential_that_is_not_there_cannot_be_asked_for),
		cmocka_unit_test(a_tenant_that_is_not_there_cannot_be_asked_for),
		cmocka_unit_test(a_scope_that_is_none_cannot_be_asked_for),
		cmocka_unit_test(a_value_for_a_part_is_refused_where_there_are_no_parts),
		cmocka_unit_test(many_changes_make_the_fingerprints_anew_a_few_times_a_second),
		cmocka_unit_test(a_worker_can_recognise_a_value_before_it_has_it),
		cmocka_unit_test(a_derived_value_is_given_where_pages_are_given_up_for_it),
		cmocka_unit_test(an_index_is_taken_for_its_own_configuration_only),
		cmocka_unit_test(
			a_worker_that_drains_hears_how_to_recognise_the_values_that_it_gets),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
