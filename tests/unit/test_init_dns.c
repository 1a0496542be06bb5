/* test_init_dns.c - what keyhole-init answers to a question, and which address a name has */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/limits.h>

/* keyhole-init is no part of the library. */
#include "init/dns.c"	/* NOLINT(bugprone-suspicious-include) */
#include "init/names.c" /* NOLINT(bugprone-suspicious-include) */

static uint32_t fixed(const char *name)
{
	(void)name;
	return 0x7f400105;
}

static uint32_t none(const char *name)
{
	(void)name;
	return 0;
}

static uint32_t unasked(const char *name)
{
	fail_msg("asked for an address of \"%s\"", name);
	return 0;
}

static uint8_t query[1500], answer[INIT_DNS_ANSWER_BYTES];

/* A question as a stub resolver asks it; dots part the labels. */
static size_t ask(const char *name, unsigned type)
{
	static const uint8_t head[12] = { 0xab, 0xcd, 0x01, 0x20, 0, 1 };
	memcpy(query, head, sizeof(head));
	size_t at = sizeof(head);
	while (*name) {
		size_t label = strcspn(name, ".");
		query[at++] = (uint8_t)label;
		memcpy(query + at, name, label);
		at += label;
		name += label + (name[label] == '.');
	}
	query[at++] = 0;
	put16(query + at, type);
	put16(query + at + 2, CLASS_IN);
	return at + 4;
}

static unsigned rcode(void)
{
	return answer[3] & 0x0f;
}

static unsigned records(void)
{
	return get16(answer + 6);
}

static void a_name_has_one_address(void **state)
{
	(void)state;
	size_t len = ask("API.example.COM", TYPE_A);
	size_t n = init_dns_answer(query, len, fixed, answer);
	assert_int_equal(n, len + 16);
	/* The id and the question are the asker's, letter by letter. */
	assert_memory_equal(answer, query, 2);
	assert_memory_equal(answer + 12, query + 12, len - 12);
	assert_int_equal(answer[2], 0x81); /* an answer; recursion was desired */
	assert_int_equal(answer[3], 0x80); /* and is to be had; no error */
	static const uint8_t record[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 127, 64, 1, 5 };
	assert_memory_equal(answer + len, record, sizeof(record));
}

static void every_other_type_is_there_and_empty(void **state)
{
	(void)state;
	static const unsigned types[] = { 2, 5, 6, 12, 15, 16, TYPE_AAAA, 33, 64, 65, 252, 65535 };
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		size_t len = ask("api.example", types[i]);
		assert_int_equal(init_dns_answer(query, len, unasked, answer), len);
		assert_int_equal(rcode(), NOERROR);
		assert_int_equal(records(), 0);
	}
	size_t len = ask("api.example", TYPE_ANY);
	assert_int_equal(init_dns_answer(query, len, fixed, answer), len + 16);
}

static void localhost_is_the_sandbox_itself(void **state)
{
	(void)state;
	static const char *const names[] = { "localhost", "LocalHost", "a.localhost" };
	for (size_t i = 0; i < 3; i++) {
		size_t len = ask(names[i], TYPE_A);
		assert_int_equal(init_dns_answer(query, len, unasked, answer), len + 16);
		assert_memory_equal(answer + len + 12, "\x7f\0\0\1", 4);
		len = ask(names[i], TYPE_AAAA);
		assert_int_equal(init_dns_answer(query, len, unasked, answer), len + 28);
	}
	size_t len = ask("notlocalhost", TYPE_A);
	assert_int_equal(init_dns_answer(query, len, fixed, answer), len + 16);
	assert_memory_equal(answer + len + 12, "\x7f\x40\1\5", 4);
}

static void what_is_no_question_gets_no_address(void **state)
{
	(void)state;
	size_t len = ask("api.example", TYPE_A);
	for (size_t cut = 0; cut < len; cut++) {
		size_t n = init_dns_answer(query, cut, unasked, answer);
		assert_int_equal(n, cut < 12 ? 0 : 12);
		if (n)
			assert_int_equal(rcode(), FORMERR);
	}
	query[2] |= QR;
	assert_int_equal(init_dns_answer(query, len, unasked, answer), 0);

	ask("api.example", TYPE_A);
	query[2] = 0x28; /* an update */
	assert_int_equal(init_dns_answer(query, len, unasked, answer), 12);
	assert_int_equal(rcode(), NOTIMP);

	for (unsigned questions = 0; questions < 3; questions += 2) {
		ask("api.example", TYPE_A);
		put16(query + 4, questions);
		assert_int_equal(init_dns_answer(query, len, unasked, answer), 12);
		assert_int_equal(rcode(), FORMERR);
	}
	ask("api.example", TYPE_A);
	put16(query + len - 2, 3); /* CHAOS */
	assert_int_equal(init_dns_answer(query, len, unasked, answer), len);
	assert_int_equal(rcode(), REFUSED);
}

static void a_pointer_is_not_followed(void **state)
{
	(void)state;
	size_t len = ask("api.example", TYPE_A);
	static const uint8_t firsts[] = { 0xc0, 0x40, 0x80, 0xff };
	for (size_t i = 0; i < sizeof(firsts); i++) {
		query[12] = firsts[i];
		assert_int_equal(init_dns_answer(query, len, unasked, answer), 12);
		assert_int_equal(rcode(), FORMERR);
	}
}

static void the_longest_name_fits_and_one_byte_more_does_not(void **state)
{
	(void)state;
	char name[300];
	memset(name, 'a', sizeof(name));
	name[63] = name[127] = name[191] = '.';
	name[253] = '\0';
	size_t len = ask(name, TYPE_A);
	assert_int_equal(len, 12 + 255 + 4);
	assert_int_equal(init_dns_answer(query, len, fixed, answer), len + 16);
	assert_true(len + 28 <= sizeof(answer));
	name[253] = 'a';
	name[254] = '\0';
	len = ask(name, TYPE_A);
	assert_int_equal(init_dns_answer(query, len, unasked, answer), 12);
	assert_int_equal(rcode(), FORMERR);
}

static void bytes_that_no_host_has_are_no_name(void **state)
{
	(void)state;
	static const char *const names[] = { "a b.example", "a\r\nHost: x", "a:443", "a/b",
					     "\xc3\xa4",    "a@b",	    "[::1]" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = ask(names[i], TYPE_A);
		assert_int_equal(init_dns_answer(query, len, unasked, answer), len);
		assert_int_equal(rcode(), NXDOMAIN);
	}
	size_t len = ask("aXb.example", TYPE_A);
	query[14] = '\0';
	assert_int_equal(init_dns_answer(query, len, unasked, answer), len);
	assert_int_equal(rcode(), NXDOMAIN);
	/* A dot inside of a label is not the dot between two. */
	len = ask("aXb.example", TYPE_A);
	query[14] = '.';
	assert_int_equal(init_dns_answer(query, len, unasked, answer), len);
	assert_int_equal(rcode(), NXDOMAIN);
	len = ask("", TYPE_A);
	assert_int_equal(init_dns_answer(query, len, unasked, answer), len);
	assert_int_equal(rcode(), NOERROR);
	len = ask("_x-9.example", TYPE_A);
	assert_int_equal(init_dns_answer(query, len, fixed, answer), len + 16);
}

static void where_there_is_no_address_the_server_failed(void **state)
{
	(void)state;
	size_t len = ask("api.example", TYPE_A);
	assert_int_equal(init_dns_answer(query, len, none, answer), len);
	assert_int_equal(rcode(), SERVFAIL);
}

static void what_stands_behind_the_question_is_not_read(void **state)
{
	(void)state;
	size_t len = ask("api.example", TYPE_A);
	static const uint8_t opt[] = { 0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0 };
	memcpy(query + len, opt, sizeof(opt));
	put16(query + 10, 1);
	assert_int_equal(init_dns_answer(query, len + sizeof(opt), fixed, answer), len + 16);
	assert_int_equal(get16(answer + 8) + get16(answer + 10), 0);
}

/* ---- names ---- */

static uint32_t numbered(unsigned i)
{
	char name[32];
	snprintf(name, sizeof(name), "n%u.example", i);
	return init_names_address(name);
}

static void a_name_keeps_its_address(void **state)
{
	(void)state;
	uint32_t one = init_names_address("one.example"), two = init_names_address("two.example");
	assert_true(init_names_in_range(one) && init_names_in_range(two) && one != two);
	assert_int_equal(init_names_address("one.example"), one);
	assert_string_equal(init_names_text(init_names_find(one)), "one.example");
	assert_string_equal(init_names_text(init_names_find(two)), "two.example");
	assert_int_equal(init_names_find(INIT_NAMES_ADDRESS), 0);
	assert_int_equal(init_names_find(0), 0);
}

static void the_name_used_longest_ago_goes_and_one_in_use_stays(void **state)
{
	(void)state;
	uint32_t held = init_names_address("held.example");
	uint32_t asked = init_names_address("asked.example");
	uint32_t idle = init_names_address("idle.example");
	init_names_hold(init_names_find(held));
	for (unsigned i = 0; i < 4 * KH_LIMIT_INIT_NAMES; i++) {
		assert_true(numbered(i) != 0);
		if (i % 1000 == 0)
			assert_int_equal(init_names_address("asked.example"), asked);
	}
	assert_string_equal(init_names_text(init_names_find(held)), "held.example");
	assert_int_equal(init_names_address("asked.example"), asked);
	/* An address that was given up leads nowhere, not to another name. */
	assert_int_equal(init_names_find(idle), 0);
	uint32_t anew = init_names_address("idle.example");
	assert_true(anew != idle);
	init_names_release(init_names_find(held));
	for (unsigned i = 0; i < KH_LIMIT_INIT_NAMES; i++)
		numbered(1000000 + i);
	assert_int_equal(init_names_find(held), 0);
}

static void all_places_taken_is_said(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KH_LIMIT_INIT_NAMES; i++)
		init_names_hold(init_names_find(numbered(2000000 + i)));
	assert_int_equal(init_names_address("one.more"), 0);
	init_names_release(init_names_find(numbered(2000005)));
	assert_true(init_names_address("one.more") != 0);
	assert_int_equal(init_names_address("and.another"), init_names_address("and.another"));
	for (unsigned i = 0; i < KH_LIMIT_INIT_NAMES; i++)
		if (i != 5)
			init_names_release(init_names_find(numbered(2000000 + i)));
}

/* Four million addresses later the first comes again, but not one that is in use. */
static void the_addresses_begin_anew(void **state)
{
	(void)state;
	uint32_t kept = init_names_address("kept.example");
	unsigned place = init_names_find(kept);
	init_names_hold(place);
	bool again = false;
	for (unsigned i = 0; i < (UINT32_MAX >> INIT_NAMES_PREFIX_BITS) + 11; i++) {
		uint32_t address = numbered(i);
		assert_true(init_names_in_range(address) && init_names_in_range(address - 1) &&
			    init_names_in_range(address + 1));
		assert_int_not_equal(address, kept);
		again = again || address == INIT_NAMES_ADDRESS + 1;
	}
	assert_true(again);
	assert_int_equal(init_names_address("kept.example"), kept);
	init_names_release(place);
}

/* The smallest and the largest, with their neighbours. */
static void addresses_are_of_the_range_that_was_set(void **state)
{
	(void)state;
	static const struct {
		uint32_t address, last;
		unsigned bits;
	} ranges[] = {
		{ 0x0b000000, 0x0bffffff, 8 },
		{ 0xdfffc000, 0xdfffffff, 18 },
		{ INIT_NAMES_ADDRESS, 0x7f7fffff, INIT_NAMES_PREFIX_BITS },
	};

	for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		char name[32];
		snprintf(name, sizeof(name), "range%u.example", i);
		init_names_set_range(ranges[i].address, ranges[i].bits);
		assert_int_equal(init_names_address(name), ranges[i].address + 1);
		assert_true(init_names_in_range(ranges[i].address));
		assert_true(init_names_in_range(ranges[i].last));
		assert_false(init_names_in_range(ranges[i].address - 1));
		assert_false(init_names_in_range(ranges[i].last + 1));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_has_one_address),
		cmocka_unit_test(every_other_type_is_there_and_empty),
		cmocka_unit_test(localhost_is_the_sandbox_itself),
		cmocka_unit_test(what_is_no_question_gets_no_address),
		cmocka_unit_test(a_pointer_is_not_followed),
		cmocka_unit_test(the_longest_name_fits_and_one_byte_more_does_not),
		cmocka_unit_test(bytes_that_no_host_has_are_no_name),
		cmocka_unit_test(where_there_is_no_address_the_server_failed),
		cmocka_unit_test(what_stands_behind_the_question_is_not_read),
		cmocka_unit_test(a_name_keeps_its_address),
		cmocka_unit_test(the_name_used_longest_ago_goes_and_one_in_use_stays),
		cmocka_unit_test(all_places_taken_is_said),
		cmocka_unit_test(the_addresses_begin_anew),
		cmocka_unit_test(addresses_are_of_the_range_that_was_set),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
