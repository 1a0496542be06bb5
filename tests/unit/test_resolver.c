/* test_resolver.c - what nameservers answer, how long it is kept, and how long it is waited for */
#include "resolver_world.h"

static void test_both_families_come_interleaved_with_the_port(void **state)
{
	(void)state;
	struct result r = resolve("both.test", 8443);
	expect(&r, "[2001:db8::1]:8443 192.0.2.1:8443 [2001:db8::2]:8443 192.0.2.2:8443 "
		   "[2001:db8::3]:8443");
	assert_false(r.addresses.pinned);
	assert_int_equal(dns.edns, dns.questions);
}

static void test_one_family_alone_is_fine(void **state)
{
	(void)state;
	struct result r = resolve("four.test", 443);
	expect(&r, "192.0.2.4:443");
	r = resolve("half.test", 443); /* AAAA fails, A does not */
	expect(&r, "192.0.2.6:443");
}

static void test_a_cname_leads_to_addresses(void **state)
{
	(void)state;
	struct result r = resolve("alias.test", 443);
	expect(&r, "[2001:db8::5]:443 192.0.2.5:443");
}

static void test_failures_are_told_apart(void **state)
{
	(void)state;
	struct result r = resolve("nowhere.test", 443);
	assert_int_equal(r.err.code, KH_ERR_NAME_NOT_FOUND);
	assert_string_equal(r.err.text,
			    "nowhere.test: there is no such name (the host's nameserver says so)");
	r = resolve("empty.test", 443);
	assert_int_equal(r.err.code, KH_ERR_NAME_NOT_FOUND);
	assert_string_equal(r.err.text, "empty.test: the name has no address");
	r = resolve("broken.test", 443);
	assert_int_equal(r.err.code, KH_ERR_DNS_ERROR);
	r = resolve("mute.test", 443);
	assert_int_equal(r.err.code, KH_ERR_DNS_TIMEOUT);
}

static void test_no_search_domain_is_ever_appended(void **state)
{
	(void)state;
	(void)resolve("nowhere.test", 443);
	(void)resolve("single", 443);
	assert_null(strstr(dns.names, "corp.example"));
	assert_non_null(strstr(dns.names, "single "));
}

static void test_a_truncated_answer_is_asked_for_again_over_tcp(void **state)
{
	(void)state;
	struct result r = resolve("large.test", 443);
	assert_int_equal(r.err.code, KH_ERR_NONE);
	assert_int_equal(r.addresses.count, KH_LIMIT_ADDRESSES);
	assert_int_equal(dns.over_tcp, 1);
}

static void test_a_mute_second_family_costs_no_more_than_a_moment(void **state)
{
	(void)state;
	uint64_t start = kh_clock_mono_ms();
	struct result r = resolve("mute6.test", 443);
	expect(&r, "192.0.2.7:443");
	assert_in_range(r.at_ms - start, 30, 700);
	/* Asked again while the other family is still open: the same answer, no new question. */
	unsigned asked = dns.questions;
	start = kh_clock_mono_ms();
	r = resolve("mute6.test", 443);
	expect(&r, "192.0.2.7:443");
	assert_true(r.at_ms - start < 700);
	assert_int_equal(dns.questions, asked);
}

static void test_the_deadline_of_a_lookup_counts(void **state)
{
	struct result r = { 0 };
	struct kh_host host = host_of("mute.test");
	(void)state;
	uint64_t start = kh_clock_mono_ms();
	assert_non_null(kh_resolver_lookup(resolver, &host, 443, 60, on_result, &r));
	turn_until(&r.calls, 1, 3000);
	assert_int_equal(r.err.code, KH_ERR_DNS_TIMEOUT);
	assert_non_null(strstr(r.err.text, "within 60 ms"));
	assert_in_range(r.at_ms - start, 50, 500);
	turn_until(NULL, 0, 1500); /* the late failure reaches nobody */
	assert_int_equal(r.calls, 1);
}

static void test_answers_are_kept_for_their_ttl_and_failures_for_a_second(void **state)
{
	(void)state;
	struct result r = resolve("brief.test", 443);
	unsigned asked = dns.questions;
	r = resolve("brief.test", 80);
	expect(&r, "192.0.2.8:80"); /* the port is the lookup's, not the cache's */
	assert_int_equal(dns.questions, asked);
	(void)resolve("nowhere.test", 443);
	asked = dns.questions;
	(void)resolve("nowhere.test", 443);
	assert_int_equal(dns.questions, asked);
	turn_until(NULL, 0, 1100);
	(void)resolve("brief.test", 443);
	assert_int_equal(dns.questions, asked + 2);
	(void)resolve("nowhere.test", 443);
	assert_int_equal(dns.questions, asked + 4);
	/* TTL 0: not at all. */
	(void)resolve("once.test", 443);
	asked = dns.questions;
	(void)resolve("once.test", 443);
	assert_int_equal(dns.questions, asked + 2);
}

static void test_lookups_of_one_name_share_one_question(void **state)
{
	enum { MANY = 50 };
	static struct result results[MANY];
	struct kh_host host = host_of("both.test");
	(void)state;
	memset(results, 0, sizeof results);
	for (int i = 0; i < MANY; i++)
		assert_non_null(
			kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &results[i]));
	for (int i = 0; i < MANY; i++)
		turn_until(&results[i].calls, 1, 3000);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(results[i].calls, 1);
		assert_int_equal(results[i].addresses.count, 5);
	}
	assert_int_equal(dns.questions, 2);
}

static void test_the_number_of_lookups_is_bounded(void **state)
{
	static struct kh_lookup *lookups[KH_LIMIT_RESOLVES];
	struct kh_host host = host_of("mute.test");
	struct result r = { 0 };
	(void)state;
	for (int i = 0; i < KH_LIMIT_RESOLVES; i++) {
		lookups[i] = kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &r);
		assert_non_null(lookups[i]);
	}
	assert_null(kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &r));
	for (int i = 0; i < KH_LIMIT_RESOLVES; i++)
		kh_lookup_cancel(lookups[i]);
	assert_int_equal(r.calls, 0);
	kh_lookup_cancel(kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &r));
}

static void test_a_cancelled_lookup_is_never_answered(void **state)
{
	struct result gone = { 0 }, stays = { 0 };
	struct kh_host host = host_of("both.test"), literal = host_of("192.0.2.77");
	(void)state;
	struct kh_lookup *first = kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &gone);
	assert_non_null(kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &stays));
	struct kh_lookup *ready =
		kh_resolver_lookup(resolver, &literal, 443, 3000, on_result, &gone);
	kh_lookup_cancel(first);
	kh_lookup_cancel(ready);
	turn_until(&stays.calls, 1, 3000);
	turn_until(NULL, 0, 50);
	assert_int_equal(gone.calls, 0);
	assert_int_equal(stays.calls, 1);
}

/* ---- who pays ---- */

/* A lookup that `account` pays for. */
static struct kh_lookup *look_up_paid(const char *name, uint32_t ms, struct kh_account *account,
				      struct kh_charge *charge, struct result *r)
{
	struct kh_host host = host_of(name);
	assert_true(kh_charge_take(charge, account, KH_RESOURCE_LOOKUPS, 1));
	struct kh_lookup *lookup = kh_resolver_lookup(resolver, &host, 443, ms, on_result, r);
	assert_non_null(lookup);
	kh_lookup_charge(lookup, charge);
	return lookup;
}

static size_t paid(const struct kh_account *account)
{
	return kh_account_held(account, KH_RESOURCE_LOOKUPS, 0);
}

static void test_a_question_that_nobody_waits_for_is_paid_for_until_it_ends(void **state)
{
	struct kh_account *whole = kh_account_new_whole(), *tenant = kh_account_new(whole),
			  *box = kh_account_new(tenant);
	struct kh_charge charges[4] = { 0 };
	struct result r = { 0 };
	(void)state;
	kh_lookup_cancel(look_up_paid("mute.test", 3000, box, &charges[0], &r));
	assert_false(kh_charge_holds(&charges[0]));
	assert_int_equal(paid(box), 1);
	/* One question, and two that waited for it: one of them pays for it. */
	struct kh_lookup *first = look_up_paid("mute2.test", 3000, box, &charges[1], &r);
	struct kh_lookup *second = look_up_paid("mute2.test", 3000, box, &charges[2], &r);
	kh_lookup_cancel(second);
	assert_true(kh_charge_holds(&charges[2]));
	kh_charge_release(&charges[2]);
	kh_lookup_cancel(first);
	assert_false(kh_charge_holds(&charges[1]));
	assert_int_equal(paid(box), 2);
	/* Its deadline was sooner than the nameserver's. */
	unsigned calls = r.calls;
	look_up_paid("mute3.test", 30, box, &charges[3], &r);
	turn_until(&r.calls, calls + 1, 3000);
	assert_false(kh_charge_holds(&charges[3]));
	assert_int_equal(paid(box), 3);
	for (int i = 0; i < 40 && paid(box) > 0; i++)
		turn_until(NULL, 0, 100);
	assert_int_equal(paid(box), 0); /* nameservers are asked once, for a second */
	kh_account_unref(box);
	kh_account_unref(tenant);
	kh_account_unref(whole);
}

static void test_a_question_is_paid_for_after_half_an_answer_was_enough(void **state)
{
	struct kh_account *whole = kh_account_new_whole(), *tenant = kh_account_new(whole),
			  *box = kh_account_new(tenant);
	struct kh_charge charge = { 0 };
	struct result r = { 0 };
	(void)state;
	look_up_paid("mute6.test", 3000, box, &charge, &r);
	turn_until(&r.calls, 1, 3000);
	expect(&r, "192.0.2.7:443");
	assert_false(kh_charge_holds(&charge));
	assert_int_equal(paid(box), 1);
	kh_account_unref(box); /* the sandbox goes, and the question does not point to it */
	kh_resolver_free(resolver);
	resolver = NULL;
	assert_int_equal(paid(tenant), 0);
	kh_account_unref(tenant);
	kh_account_unref(whole);
}

/* A reload, a moment after one family has answered: what was heard of the nameservers before counts
 * no more, so there is no half of an answer that could be enough. */
static void test_a_change_of_nameservers_forgets_half_an_answer(void **state)
{
	static const struct record mute[] = {
		{ "mute6.test", RR_A, "", 30, 0, true, 0, NULL, 0, 0 },
		{ "mute6.test", RR_AAAA, "", 30, 0, true, 0, NULL, 0, 0 },
	};
	struct kh_host host = host_of("mute6.test");
	struct result r = { 0 };
	unsigned none = 0;
	(void)state;
	assert_non_null(kh_resolver_lookup(resolver, &host, 443, 5000, on_result, &r));
	turn_until(&dns.questions, 2, 1000);
	for (int i = 0; i < 20; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(r.calls, 0);
	dns.records = mute;
	dns.n_records = 2;
	kh_resolver_configure(resolver, &config);
	turn_until(&none, 1, 200);
	assert_int_equal(r.calls, 0);
	dns.records = records;
	dns.n_records = sizeof records / sizeof records[0];
	kh_resolver_configure(resolver, &config);
	turn_until(&r.calls, 1, 2000);
	expect(&r, "192.0.2.7:443");
}

static void test_an_answer_to_another_question_is_not_taken(void **state)
{
	(void)state;
	struct result r = resolve("spoof.test", 443);
	assert_int_not_equal(r.err.code, KH_ERR_NONE);
}

static void on_result_free(const struct kh_addresses *addresses, const struct kh_err *err,
			   void *arg)
{
	(void)addresses;
	(void)err;
	++*(unsigned *)arg;
	kh_resolver_free(resolver);
	resolver = NULL;
}

static void test_the_resolver_may_be_freed_under_its_lookups(void **state)
{
	struct kh_host mute = host_of("mute.test"), literal = host_of("192.0.2.1");
	struct result r = { 0 };
	unsigned calls = 0;
	(void)state;
	assert_non_null(kh_resolver_lookup(resolver, &mute, 443, 3000, on_result, &r));
	assert_non_null(kh_resolver_lookup(resolver, &literal, 443, 3000, on_result_free, &calls));
	assert_non_null(kh_resolver_lookup(resolver, &literal, 443, 3000, on_result, &r));
	turn_until(&calls, 1, 1000);
	assert_int_equal(calls, 1);
	assert_null(resolver);
	turn_until(NULL, 0, 50);
	assert_int_equal(r.calls, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_both_families_come_interleaved_with_the_port),
		T(test_one_family_alone_is_fine),
		T(test_a_cname_leads_to_addresses),
		T(test_failures_are_told_apart),
		T(test_no_search_domain_is_ever_appended),
		T(test_a_truncated_answer_is_asked_for_again_over_tcp),
		T(test_a_mute_second_family_costs_no_more_than_a_moment),
		T(test_the_deadline_of_a_lookup_counts),
		T(test_answers_are_kept_for_their_ttl_and_failures_for_a_second),
		T(test_lookups_of_one_name_share_one_question),
		T(test_the_number_of_lookups_is_bounded),
		T(test_a_cancelled_lookup_is_never_answered),
		T(test_a_question_that_nobody_waits_for_is_paid_for_until_it_ends),
		T(test_a_question_is_paid_for_after_half_an_answer_was_enough),
		T(test_a_change_of_nameservers_forgets_half_an_answer),
		T(test_an_answer_to_another_question_is_not_taken),
		T(test_the_resolver_may_be_freed_under_its_lookups),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
