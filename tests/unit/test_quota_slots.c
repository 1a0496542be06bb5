/* test_quota_slots.c - which limit has which slot, over configurations, files and processes */
#include "config_text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/policy/quota_slots.h>
#include <keyhole/base/limits.h>
#include <keyhole/policy/quota.h>

enum { HOUR = 3600 * 1000, NOW = 100 * HOUR, FILE_BYTES = 64 * 1024 * 1024 };

/* What a worker would do. */
static uint64_t take(struct kh_quota_slots *quota_slots, const struct kh_rate *rate,
		     uint64_t now_ms, uint64_t n)
{
	struct kh_quota_ledger quota_ledger;
	uint64_t upto;
	assert_true(kh_quota_ledger_map(&quota_ledger, kh_quota_slots_fd(quota_slots),
					kh_quota_slots_slots(quota_slots), 0, NULL));
	assert_in_range(rate->slot, KH_QUOTA_LEDGER_FIRST_SLOT, quota_ledger.n_slots - 1);
	uint64_t got =
		kh_bucket_take(&quota_ledger.slots[rate->slot], rate, now_ms, n, false, &upto);
	quota_ledger.slots[KH_QUOTA_LEDGER_CHANGED] = 1;
	kh_quota_ledger_unmap(&quota_ledger);
	return got;
}

static struct kh_rate *tenants_rate(struct kh_config *config, size_t tenant)
{
	return &config->tenants[tenant].limits->rates[0];
}

static struct kh_config *assigned(struct kh_quota_slots *quota_slots, const char *yaml,
				  uint64_t now_ms)
{
	struct kh_config *config = config_of(yaml);
	assert_true(kh_quota_slots_assign(quota_slots, config, now_ms, NULL));
	return config;
}

#define A_TENANT(name, rate) "  " name ": { limits: { requests: " rate " }, rules: [] }\n"

static const char two[] = "version: 1\ntenants:\n" A_TENANT("a", "100/h") A_TENANT("b", "100/h");

static void each_limit_has_a_slot_of_its_own_and_keeps_it(void **state)
{
	static const char more[] =
		"version: 1\n"
		"site: { limits: { requests: 1/s, concurrency: 9 } }\n"
		"tenants:\n" A_TENANT("c", "9/s") A_TENANT("b", "100/h") A_TENANT("a", "100/h");
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	struct kh_config *one = assigned(quota_slots, two, NOW);
	struct kh_config *next = assigned(quota_slots, more, NOW);
	(void)state;
	assert_int_not_equal(tenants_rate(one, 0)->slot, tenants_rate(one, 1)->slot);
	assert_int_equal(tenants_rate(one, 0)->slot, tenants_rate(next, 2)->slot);
	assert_int_equal(tenants_rate(one, 1)->slot, tenants_rate(next, 1)->slot);
	assert_int_not_equal(next->site_limits->concurrency_slot, next->site_limits->rates[0].slot);
	kh_config_free(one);
	kh_config_free(next);
	kh_quota_slots_free(quota_slots);
}

/* A worker that was taken over has it open for writing. */
static void the_quota_ledger_can_be_made_neither_larger_nor_smaller(void **state)
{
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	struct stat before, after;
	int fd = kh_quota_slots_fd(quota_slots);
	(void)state;
	assert_int_equal(fstat(fd, &before), 0);
	assert_int_not_equal(ftruncate(fd, before.st_size + 1), 0);
	assert_int_not_equal(ftruncate(fd, before.st_size - 1), 0);
	assert_int_not_equal(fallocate(fd, 0, before.st_size, 4096), 0);
	assert_int_not_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	assert_int_equal(fstat(fd, &after), 0);
	assert_int_equal(before.st_size, after.st_size);
	/* It costs what is used of it. */
	assert_true(after.st_blocks * 512 <= 64 * 1024);
	kh_quota_slots_free(quota_slots);
}

static void rules_of_one_text_have_limits_of_their_own(void **state)
{
	static const char yaml[] =
		"version: 1\nsite: { rules: [ { allow: 'https://x.test', limits: { requests: 1/h } "
		"} ] }\n"
		"tenants:\n  a:\n    rules:\n"
		"    - { allow: 'https://x.test', query: { v: '1' }, limits: { requests: 5/h } }\n"
		"    - { allow: 'https://x.test', limits: { requests: 5/h } }\n"
		"  b: { rules: [ { allow: 'https://x.test', limits: { requests: 5/h } } ] }\n";
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	struct kh_config *config = assigned(quota_slots, yaml, NOW),
			 *again = assigned(quota_slots, yaml, NOW);
	uint32_t slots[4], n = 0;
	(void)state;
	slots[n++] = config->site.list[0].more->limits->rates[0].slot;
	slots[n++] = config->tenants[0].rules.list[0].more->limits->rates[0].slot;
	slots[n++] = config->tenants[0].rules.list[1].more->limits->rates[0].slot;
	slots[n++] = config->tenants[1].rules.list[0].more->limits->rates[0].slot;
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < i; j++)
			assert_int_not_equal(slots[i], slots[j]);
	assert_int_equal(again->tenants[0].rules.list[1].more->limits->rates[0].slot, slots[2]);
	kh_config_free(config);
	kh_config_free(again);
	kh_quota_slots_free(quota_slots);
}

static void another_amount_goes_on_from_what_is_used(void **state)
{
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	struct kh_config *one = assigned(quota_slots, two, NOW);
	(void)state;
	assert_int_equal(take(quota_slots, tenants_rate(one, 0), NOW, 80), 80);
	struct kh_config *next =
		assigned(quota_slots, "version: 1\ntenants:\n" A_TENANT("a", "90/h"), NOW);
	/* The old number is left alone: who counts by it does so in another measure. */
	assert_int_not_equal(tenants_rate(one, 0)->slot, tenants_rate(next, 0)->slot);
	assert_int_equal(take(quota_slots, tenants_rate(next, 0), NOW, 50), 10);
	kh_config_free(one);
	kh_config_free(next);
	kh_quota_slots_free(quota_slots);
}

static void slots_are_given_out_again_when_they_have_rested(void **state)
{
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	uint32_t most = kh_quota_slots_slots(quota_slots);
	char yaml[128];
	(void)state;
	for (int i = 0; i < 5000; i++) {
		(void)snprintf(
			yaml, sizeof(yaml),
			"version: 1\ntenants:\n  t%d: { limits: { requests: 9/h }, rules: [] }\n",
			i);
		kh_config_free(assigned(quota_slots, yaml, NOW + (uint64_t)i * 61 * 1000));
	}
	assert_int_equal(kh_quota_slots_slots(quota_slots), most);
	/* Within a minute none is. */
	struct kh_config *one = assigned(quota_slots, two, NOW);
	struct kh_config *other =
		assigned(quota_slots, "version: 1\ntenants:\n" A_TENANT("z", "1/h"), NOW);
	assert_int_not_equal(tenants_rate(other, 0)->slot, tenants_rate(one, 0)->slot);
	assert_int_not_equal(tenants_rate(other, 0)->slot, tenants_rate(one, 1)->slot);
	kh_config_free(one);
	kh_config_free(other);
	kh_quota_slots_free(quota_slots);
}

static void ten_thousand_tenants_are_small(void **state)
{
	enum { TENANTS = 10000 };
	struct kh_buf yaml;
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	(void)state;
	kh_buf_init(&yaml, FILE_BYTES);
	assert_true(kh_buf_append_str(&yaml, "version: 1\ntenants:\n"));
	for (int i = 0; i < TENANTS; i++)
		assert_true(kh_buf_printf(&yaml,
					  "  t%d: { limits: { requests: 600/min, bytes_up: 1GiB/h, "
					  "concurrency: 64 }, rules: [] }\n",
					  i));
	struct kh_config *config = assigned(quota_slots, kh_buf_cstr(&yaml), NOW);
	assert_in_range(kh_quota_slots_slots(quota_slots) * sizeof(uint64_t), 1, 512 * 1024);
	for (int i = 0; i < TENANTS; i++)
		assert_int_equal(take(quota_slots, tenants_rate(config, (size_t)i), NOW, 3), 3);
	kh_buf_clear(&yaml);
	assert_true(kh_quota_slots_write(quota_slots, NOW, NOW, &yaml));
	assert_in_range(kh_buf_len(&yaml), TENANTS * 40, TENANTS * 64);
	struct kh_quota_slots *again = kh_quota_slots_new(NULL);
	assert_true(kh_quota_slots_read(again, kh_buf_view(&yaml), NOW, NOW, NULL));
	struct kh_config *same = config;
	assert_true(kh_quota_slots_assign(again, same, NOW, NULL));
	assert_int_equal(take(again, tenants_rate(same, 77), NOW, 600), 597);
	kh_config_free(config);
	kh_quota_slots_free(quota_slots);
	kh_quota_slots_free(again);
	kh_buf_fini(&yaml);
}

/* ---- the file ---- */

static struct kh_slice written(struct kh_quota_slots *quota_slots, struct kh_buf *out,
			       uint64_t now_ms, uint64_t wall_ms)
{
	kh_buf_init(out, FILE_BYTES);
	assert_true(kh_quota_slots_write(quota_slots, now_ms, wall_ms, out));
	return kh_buf_view(out);
}

static uint64_t left_after(struct kh_slice bytes, uint64_t wall_ms)
{
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	/* Another life: its clock begins anew. */
	assert_true(kh_quota_slots_read(quota_slots, bytes, 5000, wall_ms, NULL));
	struct kh_config *config = assigned(quota_slots, two, 5000);
	uint64_t got = take(quota_slots, tenants_rate(config, 0), 5000, 1000);
	kh_config_free(config);
	kh_quota_slots_free(quota_slots);
	return got;
}

static void time_fills_while_nobody_is_there_and_a_clock_set_back_does_not(void **state)
{
	static const uint64_t WALL = UINT64_C(1000) * HOUR;
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	struct kh_config *config = assigned(quota_slots, two, NOW);
	struct kh_buf out;
	(void)state;
	assert_int_equal(take(quota_slots, tenants_rate(config, 0), NOW, 100), 100);
	assert_true(kh_quota_slots_has_changed(quota_slots));
	assert_false(kh_quota_slots_has_changed(quota_slots));
	struct kh_slice bytes = written(quota_slots, &out, NOW, WALL);
	assert_int_equal(left_after(bytes, WALL), 0);
	assert_int_equal(left_after(bytes, WALL + HOUR / 2), 50);
	assert_int_equal(left_after(bytes, WALL + 40 * HOUR), 100);
	assert_int_equal(left_after(bytes, WALL - 40 * HOUR), 0);
	kh_buf_fini(&out);
	kh_config_free(config);
	kh_quota_slots_free(quota_slots);
}

static void any_damage_is_seen_and_leaves_nothing(void **state)
{
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	struct kh_config *config = assigned(quota_slots, two, NOW);
	struct kh_buf out;
	(void)state;
	assert_int_equal(take(quota_slots, tenants_rate(config, 0), NOW, 10), 10);
	struct kh_slice bytes = written(quota_slots, &out, NOW, NOW);
	char *copy = malloc(bytes.len);
	assert_non_null(copy);
	for (size_t i = 0; i < 2 * bytes.len; i++) {
		struct kh_quota_slots *other = kh_quota_slots_new(NULL);
		bool cut = i >= bytes.len;
		memcpy(copy, bytes.ptr, bytes.len);
		if (!cut)
			copy[i] = (char)(copy[i] ^ 0x10);
		struct kh_slice bad = kh_slice_of(copy, cut ? i - bytes.len : bytes.len);
		assert_false(kh_quota_slots_read(other, bad, NOW, NOW, NULL));
		struct kh_config *same = assigned(other, two, NOW);
		assert_int_equal(take(other, tenants_rate(same, 0), NOW, 1), 0);
		assert_int_equal(take(other, tenants_rate(same, 1), NOW, 1), 0);
		assert_int_equal(take(other, tenants_rate(same, 1), NOW + HOUR, 1000), 100);
		assert_true(kh_quota_slots_has_changed(other));
		kh_config_free(same);
		kh_quota_slots_free(other);
	}
	free(copy);
	kh_buf_fini(&out);
	kh_config_free(config);
	kh_quota_slots_free(quota_slots);
}

/* ---- a worker that wrote whatever it liked ---- */

static const char kinds[] = "version: 1\ntenants:\n  a: { limits: { requests: 600/min, bytes_up: "
			    "1GiB/day, concurrency: 5, connections: 7 }, rules: [] }\n";

static void write_all(struct kh_quota_slots *quota_slots, uint64_t value)
{
	struct kh_quota_ledger quota_ledger;
	assert_true(kh_quota_ledger_map(&quota_ledger, kh_quota_slots_fd(quota_slots),
					kh_quota_slots_slots(quota_slots), 0, NULL));
	for (uint32_t i = KH_QUOTA_LEDGER_FIRST_SLOT; i < quota_ledger.n_slots; i++)
		quota_ledger.slots[i] = value;
	kh_quota_ledger_unmap(&quota_ledger);
}

static uint64_t number_at(struct kh_quota_slots *quota_slots, uint32_t slot)
{
	struct kh_quota_ledger quota_ledger;
	assert_true(kh_quota_ledger_map(&quota_ledger, kh_quota_slots_fd(quota_slots),
					kh_quota_slots_slots(quota_slots), 0, NULL));
	uint64_t value = quota_ledger.slots[slot];
	kh_quota_ledger_unmap(&quota_ledger);
	return value;
}

static void what_a_worker_wrote_uses_up_no_more_than_one_window(void **state)
{
	static const uint64_t written_by_it[] = { UINT64_MAX, INT64_MAX, UINT64_MAX / 3,
						  0,	      1,	 UINT64_C(1) << 63 };
	(void)state;
	for (size_t i = 0; i < sizeof(written_by_it) / sizeof(written_by_it[0]); i++) {
		struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
		struct kh_config *config = assigned(quota_slots, kinds, NOW);
		struct kh_limits *limits = config->tenants[0].limits;
		write_all(quota_slots, written_by_it[i]);
		kh_quota_slots_end_worker(quota_slots, 0, true, NOW);
		assert_true(kh_quota_slots_has_changed(quota_slots));
		for (size_t n = 0; n < limits->n_rates; n++) {
			const struct kh_rate *rate = &limits->rates[n];
			uint64_t value = number_at(quota_slots, rate->slot);
			assert_true(kh_bucket_used(value, rate, NOW) <= rate->burst);
			assert_true(kh_bucket_wait_ms(value, rate, NOW, rate->burst) <=
				    rate->period_ms);
			assert_int_equal(
				take(quota_slots, rate, NOW + rate->period_ms, rate->burst + 1),
				rate->burst);
		}
		assert_int_equal(number_at(quota_slots, limits->concurrency_slot), 0);
		assert_int_equal(number_at(quota_slots, limits->connections_slot), 0);
		kh_config_free(config);
		kh_quota_slots_free(quota_slots);
	}
}

static void what_was_used_stays_used_when_a_worker_ends(void **state)
{
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	struct kh_config *config = assigned(quota_slots, two, NOW);
	(void)state;
	assert_int_equal(take(quota_slots, tenants_rate(config, 0), NOW, 80), 80);
	kh_quota_slots_end_worker(quota_slots, 0, true, NOW);
	assert_int_equal(take(quota_slots, tenants_rate(config, 0), NOW, 100), 20);
	kh_config_free(config);
	kh_quota_slots_free(quota_slots);
}

static void the_other_worker_of_a_handover_keeps_its_places(void **state)
{
	struct kh_quota_slots *quota_slots = kh_quota_slots_new(NULL);
	struct kh_config *config = assigned(quota_slots, kinds, NOW);
	uint32_t slot = config->tenants[0].limits->concurrency_slot;
	(void)state;
	write_all(quota_slots, UINT64_C(3) << 32 | 2);
	kh_quota_slots_end_worker(quota_slots, 0, false, NOW);
	assert_int_equal(number_at(quota_slots, slot), UINT64_C(3) << 32);
	/* And no more than the limit allows, whatever was written. */
	write_all(quota_slots, UINT64_MAX);
	kh_quota_slots_end_worker(quota_slots, 0, false, NOW);
	assert_int_equal(number_at(quota_slots, slot), UINT64_C(5) << 32);
	write_all(quota_slots, UINT64_MAX);
	kh_quota_slots_end_worker(quota_slots, 1, false, NOW);
	assert_int_equal(number_at(quota_slots, slot), 5);
	kh_config_free(config);
	kh_quota_slots_free(quota_slots);
}

/* ---- the other process ---- */

static void another_process_counts_in_the_same_memory(void **state)
{
	static const char yaml[] = "version: 1\ntenants:\n  a: { limits: { requests: 100/h, "
				   "connections: 4 }, rules: [] }\n";
	struct kh_quota_slots *old = kh_quota_slots_new(NULL);
	struct kh_config *config = assigned(old, yaml, NOW);
	struct kh_buf offer;
	(void)state;
	assert_int_equal(take(old, tenants_rate(config, 0), NOW, 30), 30);
	kh_buf_init(&offer, FILE_BYTES);
	assert_true(kh_quota_slots_offer(old, &offer));
	int fd = fcntl(kh_quota_slots_fd(old), F_DUPFD_CLOEXEC, 3);
	struct kh_quota_slots *heir = kh_quota_slots_take(fd, kh_buf_view(&offer), NULL);
	assert_non_null(heir);
	struct kh_config *next = assigned(heir, yaml, NOW);
	assert_int_equal(tenants_rate(next, 0)->slot, tenants_rate(config, 0)->slot);
	assert_int_equal(take(heir, tenants_rate(next, 0), NOW, 30), 30);
	assert_int_equal(take(old, tenants_rate(config, 0), NOW, 100), 40);
	assert_int_equal(take(heir, tenants_rate(next, 0), NOW, 1), 0);
	kh_config_free(next);
	kh_config_free(config);
	kh_quota_slots_free(heir);
	kh_quota_slots_free(old);
	kh_buf_fini(&offer);
}

static void an_offer_that_is_cut_is_refused_wherever(void **state)
{
	struct kh_quota_slots *old = kh_quota_slots_new(NULL);
	struct kh_config *config = assigned(old, two, NOW);
	struct kh_buf offer;
	(void)state;
	kh_buf_init(&offer, FILE_BYTES);
	assert_true(kh_quota_slots_offer(old, &offer));
	for (size_t n = 0; n < kh_buf_len(&offer); n++) {
		int fd = fcntl(kh_quota_slots_fd(old), F_DUPFD_CLOEXEC, 3);
		struct kh_slice cut = kh_slice_sub(kh_buf_view(&offer), 0, n);
		assert_null(kh_quota_slots_take(fd, cut, NULL));
	}
	kh_config_free(config);
	kh_quota_slots_free(old);
	kh_buf_fini(&offer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_limit_has_a_slot_of_its_own_and_keeps_it),
		cmocka_unit_test(the_quota_ledger_can_be_made_neither_larger_nor_smaller),
		cmocka_unit_test(rules_of_one_text_have_limits_of_their_own),
		cmocka_unit_test(another_amount_goes_on_from_what_is_used),
		cmocka_unit_test(slots_are_given_out_again_when_they_have_rested),
		cmocka_unit_test(ten_thousand_tenants_are_small),
		cmocka_unit_test(time_fills_while_nobody_is_there_and_a_clock_set_back_does_not),
		cmocka_unit_test(any_damage_is_seen_and_leaves_nothing),
		cmocka_unit_test(what_a_worker_wrote_uses_up_no_more_than_one_window),
		cmocka_unit_test(what_was_used_stays_used_when_a_worker_ends),
		cmocka_unit_test(the_other_worker_of_a_handover_keeps_its_places),
		cmocka_unit_test(another_process_counts_in_the_same_memory),
		cmocka_unit_test(an_offer_that_is_cut_is_refused_wherever),
	};
	return cmocka_run_group_tests_name("quota_slots", tests, NULL, NULL);
}
