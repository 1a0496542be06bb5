/* test_values.c - the worker's credential values: who asks, who waits, what is kept how long */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/cleanup.h>
#include <keyhole/clock.h>
#include <keyhole/limits.h>
#include <proxy/values.h>

/* wrap: kh_clock_mono_ms kh_clock_wall_ms */
static uint64_t mono_ms, wall_ms;
uint64_t __wrap_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_wall_ms(void);
uint64_t __wrap_kh_clock_mono_ms(void)
{
	return mono_ms;
}
uint64_t __wrap_kh_clock_wall_ms(void)
{
	return wall_ms;
}

enum { GENERATION = 3, ONE = 0, BY_TENANT = 1 };

static struct kh_channel keeper;
static struct kh_worker worker;
static struct kh_generation gen;
static struct kh_gate gate, other;
static struct kh_gate *asker; /* whose requests these are */

static const char yaml[] =
	"version: 1\n"
	"credentials:\n"
	"  one: { value: { env: ONE }, header: { x-a: \"{}\" }, hosts: [ a.test ] }\n"
	"  two: { value: { env: TWO }, header: { x-a: \"{}\" }, hosts: [ a.test ] }\n"
	"tenants: { acme: { rules: [] }, globex: { rules: [] } }\n";

static int set_up(void **state)
{
	int fds[2];
	struct kh_diagnostics diags = { 0 };
	(void)state;
	mono_ms = 1000000;
	wall_ms = 1800000000000;
	kh_secret_prepare();
	memset(&worker, 0, sizeof(worker));
	memset(&gen, 0, sizeof(gen));
	memset(&gate, 0, sizeof(gate));
	memset(&other, 0, sizeof(other));
	gate.number = 1;
	other.number = 2;
	asker = &gate;
	if (!kh_channel_pair(fds, NULL) || !kh_channel_init(&worker.channel, fds[0], NULL) ||
	    !kh_channel_init(&keeper, fds[1], NULL))
		return -1;
	pthread_mutex_init(&gen.lock, NULL);
	gen.number = GENERATION;
	gen.config = kh_config_parse("test", kh_slice_str(yaml), NULL, "/nowhere", &diags);
	kh_diagnostics_fini(&diags);
	gen.slots = calloc(3, sizeof(*gen.slots));
	if (!gen.config || !gen.slots)
		return -1;
	gen.config->credentials[BY_TENANT].by_tenant = true;
	worker.current = &gen;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kh_values_free(&gen);
	kh_config_free(gen.config);
	pthread_mutex_destroy(&gen.lock);
	kh_channel_fini(&keeper);
	kh_channel_fini(&worker.channel);
	return 0;
}

static struct kh_want wanted(uint16_t index, uint16_t tenant, const char *scope)
{
	return (struct kh_want){ index, tenant, kh_slice_str(scope) };
}

static char why[KH_ERR_TEXT_BYTES];

/* The value's first letter stands for it: 0: there is none. */
static bool first_letter(struct kh_slice value, void *arg)
{
	*(char *)arg = value.ptr[0];
	return true;
}

static enum kh_slot_state get(struct kh_want want, char *letter)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_secret *secret;
	enum kh_slot_state state = kh_worker_secret(&worker, &gen, &want, asker, &secret, &err);
	*letter = 0;
	assert_int_equal(secret != NULL, state == KH_SLOT_FULL);
	if (secret)
		assert_true(kh_secret_expose(secret, first_letter, letter));
	kh_secret_unref(secret);
	memcpy(why, err.text, sizeof(why));
	return state;
}

static void expect(struct kh_want want, enum kh_slot_state state, char letter)
{
	char got;
	assert_int_equal(get(want, &got), state);
	assert_int_equal(got, letter);
}

/* The keeper was asked for exactly this, or (NULL) for nothing. */
static void expect_question(const struct kh_want *want)
{
	struct kh_channel_message message;
	struct kh_want got;
	enum kh_channel_status status = kh_channel_receive(&keeper, false, &message);
	if (!want) {
		assert_int_equal(status, KH_CHANNEL_AGAIN);
		return;
	}
	assert_int_equal(status, KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_CHANNEL_CREDENTIAL_WANT);
	assert_int_equal(message.ref, GENERATION);
	struct kh_wire_reader r = { .rest = message.body };
	assert_true(kh_want_take(&r, &got));
	assert_int_equal(kh_wire_u64(&r), asker->number);
	assert_true(kh_wire_done(&r));
	assert_int_equal(got.index, want->index);
	assert_int_equal(got.tenant, want->tenant);
	assert_true(kh_slice_eq(got.scope, want->scope));
}

/* A request for it makes the worker ask the keeper. */
static void expect_to_ask(struct kh_want want)
{
	expect(want, KH_SLOT_ASKED, 0);
	expect_question(&want);
}

/* `value` NULL: there is none, for the reason "none". */
static void answer(struct kh_want want, const char *value, uint64_t expires_ms)
{
	struct kh_buf body;
	struct kh_channel_message message;
	struct kh_secret *secret = NULL;
	int fd = -1;
	kh_buf_init(&body, 1024);
	if (value) {
		char bytes[64];
		(void)snprintf(bytes, sizeof(bytes), "%s", value);
		secret = kh_secret_new(bytes, strlen(value), NULL);
		assert_non_null(secret);
		fd = kh_secret_fd(secret);
		assert_true(fd >= 0);
	}
	assert_true(kh_want_put(&body, &want) &&
		    kh_wire_put_u32(&body, value ? (uint32_t)strlen(value) : 0) &&
		    kh_wire_put_u64(&body, expires_ms) &&
		    kh_wire_put_str(&body, value ? NULL : "none"));
	assert_true(kh_channel_send(&keeper, KH_CHANNEL_CREDENTIAL, GENERATION, kh_buf_view(&body),
				    &fd, fd >= 0 ? 1 : 0, NULL));
	assert_int_equal(kh_channel_receive(&worker.channel, false, &message), KH_CHANNEL_GOT);
	assert_true(kh_values_came(&worker, &message));
	kh_channel_message_close(&message);
	kh_secret_unref(secret);
	kh_buf_fini(&body);
}

/* The value of all is asked for, and comes with an hour to live. */
static struct kh_want begin_hour(const char *value)
{
	const struct kh_want want = wanted(ONE, KH_NO_TENANT, "");
	expect_to_ask(want);
	answer(want, value, wall_ms + 3600 * 1000);
	return want;
}

static void say_stale_of(struct kh_want want, bool whole)
{
	struct kh_buf body;
	kh_buf_init(&body, 128);
	assert_true(kh_wire_put_u8(&body, whole) && kh_want_put(&body, &want));
	const struct kh_channel_message message = { .type = KH_CHANNEL_CREDENTIAL_STALE,
						    .ref = GENERATION,
						    .body = kh_buf_view(&body) };
	assert_true(kh_values_stale(&worker, &message));
	kh_buf_fini(&body);
}

static void say_stale(uint16_t index)
{
	say_stale_of(wanted(index, KH_NO_TENANT, ""), true);
}

static void one_question_serves_all_who_wait(void **state)
{
	(void)state;
	const struct kh_want of_all = wanted(ONE, KH_NO_TENANT, "");
	for (uint16_t i = 0; i < 5; i++)
		expect(wanted(ONE, i % 2, ""), KH_SLOT_ASKED, 0);
	expect_question(&of_all);
	expect_question(NULL);
	answer(of_all, "a-value", 0);
	for (uint16_t i = 0; i < 5; i++)
		expect(wanted(ONE, i % 2, ""), KH_SLOT_FULL, 'a');
	wall_ms += 1000ULL * 3600 * 24 * 365; /* without an end it has none */
	expect(of_all, KH_SLOT_FULL, 'a');
	expect_question(NULL);
}

static void tenants_have_values_of_their_own(void **state)
{
	(void)state;
	expect(wanted(BY_TENANT, 0, ""), KH_SLOT_ASKED, 0);
	expect(wanted(BY_TENANT, 1, ""), KH_SLOT_ASKED, 0);
	expect_question(&(struct kh_want){ BY_TENANT, 0, { "", 0 } });
	expect_question(&(struct kh_want){ BY_TENANT, 1, { "", 0 } });
	answer(wanted(BY_TENANT, 1, ""), "globex", 0);
	expect(wanted(BY_TENANT, 0, ""), KH_SLOT_ASKED, 0);
	expect(wanted(BY_TENANT, 1, ""), KH_SLOT_FULL, 'g');
	answer(wanted(BY_TENANT, 0, ""), "acme", 0);
	expect(wanted(BY_TENANT, 0, ""), KH_SLOT_FULL, 'a');
	expect(wanted(BY_TENANT, 1, ""), KH_SLOT_FULL, 'g');
}

static void scopes_have_values_of_their_own(void **state)
{
	(void)state;
	const struct kh_want a = wanted(ONE, KH_NO_TENANT, "o/a"),
			     b = wanted(ONE, KH_NO_TENANT, "o/b");
	expect(a, KH_SLOT_ASKED, 0);
	expect(b, KH_SLOT_ASKED, 0);
	expect_question(&a);
	expect_question(&b);
	answer(b, "beta", 0);
	expect(a, KH_SLOT_ASKED, 0);
	expect(b, KH_SLOT_FULL, 'b');
}

static void a_value_ends_with_its_time_and_is_asked_for_ahead_of_it(void **state)
{
	(void)state;
	const struct kh_want want = begin_hour("first");
	wall_ms += 3500 * 1000;
	expect(want, KH_SLOT_FULL, 'f');
	expect_question(NULL);
	wall_ms += 45 * 1000; /* less than a minute is left */
	expect(want, KH_SLOT_FULL, 'f');
	expect(want, KH_SLOT_FULL, 'f');
	expect_question(&want); /* once */
	expect_question(NULL);
	answer(want, "second", wall_ms + 3600 * 1000);
	expect(want, KH_SLOT_FULL, 's');
	wall_ms += 3600 * 1000; /* its last moment is over */
	expect_to_ask(want);
}

static void a_value_that_is_not_replaced_serves_until_its_end(void **state)
{
	(void)state;
	const struct kh_want want = begin_hour("first");
	wall_ms += 3590 * 1000;
	expect(want, KH_SLOT_FULL, 'f');
	expect_question(&want);
	answer(want, NULL, 0);
	expect(want, KH_SLOT_FULL, 'f');
	expect_question(NULL); /* not at once */
	mono_ms += 1000;
	expect(want, KH_SLOT_FULL, 'f');
	expect_question(&want);
	wall_ms += 20 * 1000;
	expect(want, KH_SLOT_ASKED, 0); /* it has ended; the answer is under way */
	expect_question(NULL);
	answer(want, NULL, 0);
	expect(want, KH_SLOT_MISSING, 0);
	assert_string_equal(why, "none");
}

static void a_missing_one_is_asked_for_again_after_a_second(void **state)
{
	(void)state;
	const struct kh_want want = wanted(ONE, KH_NO_TENANT, "");
	expect_to_ask(want);
	answer(want, NULL, 0);
	expect(want, KH_SLOT_MISSING, 0);
	expect_question(NULL);
	mono_ms += 1000;
	expect_to_ask(want);
	answer(want, "late", 0);
	expect(want, KH_SLOT_FULL, 'l');
}

static void what_is_stale_is_asked_for_anew(void **state)
{
	(void)state;
	const struct kh_want want = wanted(ONE, KH_NO_TENANT, "");
	expect_to_ask(want);
	say_stale(ONE); /* the answer is still to come */
	expect(want, KH_SLOT_ASKED, 0);
	expect_question(NULL);
	answer(want, "first", 0);
	expect(want, KH_SLOT_FULL, 'f');
	say_stale(BY_TENANT);
	expect(want, KH_SLOT_FULL, 'f');
	say_stale(ONE);
	expect_to_ask(want);
	answer(want, "second", 0);
	expect(want, KH_SLOT_FULL, 's');
}

/* Asked for, and answered with its number's first digit where `answered`. */
static void fill_scope(const char *owner, unsigned i, bool answered)
{
	char scope[32];
	(void)snprintf(scope, sizeof(scope), "%s/%u", owner, i);
	const struct kh_want want = wanted(ONE, KH_NO_TENANT, scope);
	expect_to_ask(want);
	if (answered)
		answer(want, strchr(scope, '/') + 1, 0);
	mono_ms += 1000; /* so that it may ask for the next */
}

static void a_sandbox_has_few_questions_under_way(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KH_LIMIT_SCOPES_ASKED; i++)
		fill_scope("evil", i, false);
	for (unsigned i = 0; i < 3000; i++) {
		char scope[32];
		(void)snprintf(scope, sizeof(scope), "more/%u", i);
		expect(wanted(ONE, KH_NO_TENANT, scope), KH_SLOT_MISSING, 0);
		assert_non_null(strstr(why, "too many"));
	}
	expect_question(NULL);
	assert_int_equal(gen.slots[ONE].n_values, KH_LIMIT_SCOPES_ASKED);
	/* What it waits for already it may wait for with more requests. */
	expect(wanted(ONE, KH_NO_TENANT, "evil/0"), KH_SLOT_ASKED, 0);
	/* What has no scope is nobody's share; and another sandbox has its own. */
	const struct kh_want all = wanted(ONE, KH_NO_TENANT, "");
	expect_to_ask(all);
	asker = &other;
	fill_scope("good", 1, true);
	expect(wanted(ONE, KH_NO_TENANT, "good/1"), KH_SLOT_FULL, '1');
	/* An answer makes room for a question. */
	answer(wanted(ONE, KH_NO_TENANT, "evil/0"), "zero", 0);
	asker = &gate;
	fill_scope("evil", 99, false);
}

static void a_sandbox_asks_few_questions_a_second(void **state)
{
	(void)state;
	char scope[32];
	for (unsigned i = 0; i < KH_LIMIT_SCOPE_QUESTIONS_BURST; i++) {
		(void)snprintf(scope, sizeof(scope), "evil/%u", i);
		const struct kh_want want = wanted(ONE, KH_NO_TENANT, scope);
		expect_to_ask(want);
		answer(want, "value", wall_ms + 100 * 1000);
	}
	expect(wanted(ONE, KH_NO_TENANT, "evil/more"), KH_SLOT_MISSING, 0);
	assert_non_null(strstr(why, "too many"));
	expect_question(NULL);
	/* It can't ask for the next of what it has either; that serves on. */
	wall_ms += 90 * 1000;
	expect(wanted(ONE, KH_NO_TENANT, "evil/0"), KH_SLOT_FULL, 'v');
	expect_question(NULL);
	asker = &other;
	fill_scope("good", 1, true);
	asker = &gate;
	mono_ms += 1000;
	const struct kh_want want = wanted(ONE, KH_NO_TENANT, "evil/0");
	expect(want, KH_SLOT_FULL, 'v');
	expect_question(&want);
}

static void a_sandbox_that_floods_throws_out_its_own(void **state)
{
	(void)state;
	asker = &other;
	for (unsigned i = 0; i < 3; i++)
		fill_scope("good", i, true);
	asker = &gate;
	for (unsigned i = 0; i < 2 * KH_LIMIT_SCOPES; i++) {
		fill_scope("evil", i, true);
		if (i % 100 == 99) { /* not idle, and no more than that */
			asker = &other;
			for (unsigned j = 0; j < 3; j++) {
				char scope[32];
				(void)snprintf(scope, sizeof(scope), "good/%u", j);
				expect(wanted(ONE, KH_NO_TENANT, scope), KH_SLOT_FULL,
				       (char)('0' + j));
			}
			asker = &gate;
		}
	}
	assert_int_equal(gen.slots[ONE].n_values, KH_LIMIT_SCOPES);
	expect_question(NULL);
	/* There is room for the other one still, and the flood's is what makes it. */
	asker = &other;
	fill_scope("good", 7, true);
	expect(wanted(ONE, KH_NO_TENANT, "good/0"), KH_SLOT_FULL, '0');
	/* The value of all of it is not a sandbox's to crowd out, nor bounded by what is. */
	expect(wanted(ONE, KH_NO_TENANT, ""), KH_SLOT_ASKED, 0);
	assert_int_equal(gen.slots[ONE].n_values, KH_LIMIT_SCOPES + 1);
}

static void one_scope_that_is_stale_leaves_the_others(void **state)
{
	(void)state;
	fill_scope("o", 1, true);
	fill_scope("o", 2, true);
	say_stale_of(wanted(ONE, KH_NO_TENANT, "o/1"), false);
	expect(wanted(ONE, KH_NO_TENANT, "o/2"), KH_SLOT_FULL, '2');
	expect(wanted(ONE, KH_NO_TENANT, "o/1"), KH_SLOT_ASKED, 0);
	say_stale_of(wanted(ONE, 0, "o/2"), false); /* another tenant's */
	expect(wanted(ONE, KH_NO_TENANT, "o/2"), KH_SLOT_FULL, '2');
	say_stale(ONE);
	expect(wanted(ONE, KH_NO_TENANT, "o/2"), KH_SLOT_ASKED, 0);
}

/* What the keeper is told, or (false) that it is told nothing. */
static void refuse(struct kh_want want, const struct kh_secret *token, bool told)
{
	struct kh_channel_message message;
	struct kh_want got;
	kh_values_refused(&worker, &gen, &want, token);
	enum kh_channel_status status = kh_channel_receive(&keeper, false, &message);
	assert_int_equal(status, told ? KH_CHANNEL_GOT : KH_CHANNEL_AGAIN);
	if (!told)
		return;
	assert_int_equal(message.type, KH_CHANNEL_CREDENTIAL_REFUSED);
	struct kh_wire_reader r = { .rest = message.body };
	assert_true(kh_want_take(&r, &got) && kh_wire_done(&r));
	assert_true(got.index == want.index && kh_slice_eq(got.scope, want.scope));
}

static struct kh_secret *token_of(struct kh_want want)
{
	struct kh_secret *secret;
	assert_int_equal(kh_worker_secret(&worker, &gen, &want, asker, &secret, NULL),
			 KH_SLOT_FULL);
	return secret;
}

static void a_token_that_was_refused_goes_once_and_not_often(void **state)
{
	(void)state;
	const struct kh_want want = wanted(ONE, KH_NO_TENANT, "");
	expect_to_ask(want);
	refuse(want, NULL, false);
	answer(want, "first", 0);
	struct kh_secret *first = token_of(want);
	refuse(want, first, true);
	refuse(want, first, false); /* by the other requests that it went with */
	expect_to_ask(want);
	answer(want, "second", 0);
	refuse(want, first, false); /* late: that is not what serves now */
	struct kh_secret *second = token_of(want);
	refuse(want, second, false); /* who says so of each is not believed at once */
	expect(want, KH_SLOT_FULL, 's');
	mono_ms += KH_LIMIT_REFUSED_AGAIN_MS;
	refuse(want, second, true);
	kh_secret_unref(first);
	kh_secret_unref(second);
}

static void a_token_that_is_refused_while_the_next_is_asked_for_waits_for_that(void **state)
{
	(void)state;
	const struct kh_want want = begin_hour("first");
	wall_ms += 3590 * 1000;
	struct kh_secret *first = token_of(want);
	expect_question(&want);
	refuse(want, first, true);
	expect(want, KH_SLOT_ASKED, 0);
	expect_question(NULL);
	answer(want, "second", wall_ms + 3600 * 1000);
	expect(want, KH_SLOT_FULL, 's');
	kh_secret_unref(first);
}

static void a_scope_that_is_none_is_not_asked_for(void **state)
{
	(void)state;
	expect(wanted(ONE, KH_NO_TENANT, "a b"), KH_SLOT_MISSING, 0);
	expect_question(NULL);
	expect(wanted(9, KH_NO_TENANT, ""), KH_SLOT_MISSING, 0);
	expect_question(NULL);
}

static void what_no_keeper_says_is_not_taken(void **state)
{
	(void)state;
	struct kh_channel_message message = { .type = KH_CHANNEL_CREDENTIAL,
					      .ref = GENERATION,
					      .body = KH_SLICE("\0\0\0\0") };
	assert_false(kh_values_came(&worker, &message));
	assert_false(kh_values_stale(&worker, &message));
	/* Of a credential that is not there; of another configuration. */
	message.body = (struct kh_slice){ "\1\0\7\0\0\0\0\0\0", 9 };
	assert_false(kh_values_stale(&worker, &message));
	message.ref = GENERATION - 1;
	assert_true(kh_values_stale(&worker, &message));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(one_question_serves_all_who_wait),
		TEST(tenants_have_values_of_their_own),
		TEST(scopes_have_values_of_their_own),
		TEST(a_value_ends_with_its_time_and_is_asked_for_ahead_of_it),
		TEST(a_value_that_is_not_replaced_serves_until_its_end),
		TEST(a_missing_one_is_asked_for_again_after_a_second),
		TEST(what_is_stale_is_asked_for_anew),
		TEST(a_sandbox_has_few_questions_under_way),
		TEST(a_sandbox_asks_few_questions_a_second),
		TEST(a_sandbox_that_floods_throws_out_its_own),
		TEST(one_scope_that_is_stale_leaves_the_others),
		TEST(a_token_that_was_refused_goes_once_and_not_often),
		TEST(a_token_that_is_refused_while_the_next_is_asked_for_waits_for_that),
		TEST(a_scope_that_is_none_is_not_asked_for),
		TEST(what_no_keeper_says_is_not_taken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
