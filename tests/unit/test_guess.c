/* test_guess.c - what a person made up is easy to guess, what a machine drew is not */
#include "unit.h"

#include <openssl/rand.h>

#include <keyhole/base/guess.h>

static void what_people_make_up_is_easy(void **state)
{
	static const char *const easy[] = {
		"",
		"48151623",
		"hunter2",
		"svc-deploy:Winter2044",
		"correct-horse-battery-staple",
		"CorrectHorseBatteryStaple",
		"password12345678",
		"aaaaaaaaaaaaaaaaaaaaaaaaaa",
		"0123456789abcdef",
		"abcdefghijklmnopqrstuvwxyz",
		"01010101010101010101",
		"my-company-production-api-key",
		"administrator:letmein",
		"2024-01-01T00:00:00Z",
		"https://hooks.example.com/services/deploy",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(easy) / sizeof(easy[0]); i++)
		if (kh_guess_is_hard(kh_slice_str(easy[i])))
			fail_msg("\"%s\" counts %u bits", easy[i],
				 kh_guess_bits(kh_slice_str(easy[i]), NULL));
}

static void what_is_random_is_hard(void **state)
{
	static const struct {
		const char *alphabet;
		size_t len;
	} kinds[] = {
		{ "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 20 },
		{ "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", 24 },
		{ "abcdefghijklmnopqrstuvwxyz0123456789", 24 },
		{ "0123456789abcdef", 32 },
		{ "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 24 },
	};
	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		unsigned hard = 0;
		for (unsigned round = 0; round < 2000; round++) {
			unsigned char bytes[64];
			char text[64];
			size_t letters = strlen(kinds[k].alphabet);
			assert_int_equal(RAND_bytes(bytes, (int)kinds[k].len), 1);
			for (size_t i = 0; i < kinds[k].len; i++)
				text[i] = kinds[k].alphabet[bytes[i] % letters];
			hard += kh_guess_is_hard(kh_slice_of(text, kinds[k].len));
		}
		assert_in_range(hard, 1900, 2000); /* nineteen in twenty */
	}
}

static void it_says_where_the_hardest_part_begins(void **state)
{
	size_t at = 99;
	(void)state;
	assert_true(kh_guess_bits(KH_SLICE("production-key-9fQ2xZ7Lk0aWm8Rt-production-key"),
				  &at) >= KH_GUESS_LEAST_BITS);
	assert_in_range(at, 13, 17);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_people_make_up_is_easy),
		cmocka_unit_test(what_is_random_is_hard),
		cmocka_unit_test(it_says_where_the_hardest_part_begins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
