/* test_prints.c - real credentials are known again, raw and in base64, and nothing else is */
#include "unit.h"

#include <stdlib.h>

#include <openssl/evp.h>

#include <keyhole/prints.h>

static struct kh_secret *secret_of(const char *text)
{
	char *copy = strdup(text);
	struct kh_secret *secret = kh_secret_new(copy, strlen(text), NULL);
	assert_non_null(secret);
	free(copy);
	return secret;
}

static const char *const values[] = { "sk-ant-api03-abcdefgh+/ijklmnop?>", "12345678",
				      "hunter2", /* too short */
				      "a value with blanks, \"quotes\" and more" };
enum { VALUES = 4, SHORT = 2 };

static struct kh_prints *prints_of(void)
{
	struct kh_print_maker maker;
	assert_true(kh_print_maker_init(&maker, NULL));
	for (int i = 0; i < VALUES; i++) {
		struct kh_secret *value = secret_of(values[i]);
		assert_true(kh_print_maker_add(&maker, value, (uint16_t)i, NULL));
		kh_secret_unref(value);
	}
	struct kh_secret *list = kh_print_maker_take(&maker, NULL);
	assert_non_null(list);
	struct kh_prints *prints = kh_prints_new(&list, 1, NULL);
	assert_non_null(prints);
	assert_null(list);
	kh_print_maker_fini(&maker);
	return prints;
}

static void a_value_is_found_wherever_it_stands(void **state)
{
	struct kh_prints *prints = prints_of();
	char text[200];
	unsigned char encoded[400];
	(void)state;
	for (int v = 0; v < VALUES; v++) {
		for (size_t before = 0; before < 20; before++) {
			uint16_t index = 99;
			memset(text, 'u', before);
			(void)snprintf(text + before, sizeof(text) - before, "%s%s", values[v],
				       before % 2 ? "" : "..");
			struct kh_slice s = kh_slice_str(text);
			assert_int_equal(kh_prints_find(prints, s, &index), v != SHORT);
			assert_int_equal(index, v == SHORT ? 99 : v);
			int n = EVP_EncodeBlock(encoded, (unsigned char *)text, (int)s.len);
			s = kh_slice_of(encoded, (size_t)n);
			index = 99;
			assert_int_equal(kh_prints_find(prints, s, &index), v != SHORT);
			assert_int_equal(index, v == SHORT ? 99 : v);
			for (int i = 0; i < n; i++)
				encoded[i] = encoded[i] == '+'	 ? '-'
					     : encoded[i] == '/' ? '_'
								 : encoded[i];
			assert_int_equal(kh_prints_find(prints, s, &index), v != SHORT);
		}
	}
	kh_prints_unref(prints);
}

static void what_is_nearly_one_is_none(void **state)
{
	struct kh_prints *prints = prints_of();
	uint16_t index;
	char text[64];
	(void)state;
	/* Its end with another beginning, and all but its first or last byte. */
	(void)snprintf(text, sizeof(text), "%s", values[0]);
	text[3] ^= 1;
	assert_false(kh_prints_find(prints, kh_slice_str(text), &index));
	assert_false(kh_prints_find(prints, kh_slice_str(values[0] + 1), &index));
	assert_false(kh_prints_find(prints, kh_slice_of(values[0], strlen(values[0]) - 1), &index));
	assert_false(kh_prints_find(prints, KH_SLICE(""), &index));
	assert_false(kh_prints_find(prints, KH_SLICE("1234567"), &index));
	kh_prints_unref(prints);
}

static void nothing_is_found_among_none(void **state)
{
	uint16_t index;
	(void)state;
	struct kh_prints *prints = kh_prints_new(NULL, 0, NULL);
	assert_non_null(prints);
	assert_false(kh_prints_find(prints, kh_slice_str(values[0]), &index));
	kh_prints_unref(prints);
	/* What is no list is refused. */
	struct kh_secret *odd = secret_of("not a list of prints");
	assert_null(kh_prints_new(&odd, 1, NULL));
	assert_null(odd);
}

static void a_list_that_is_full_says_so_and_another_goes_on(void **state)
{
	struct kh_print_maker maker;
	struct kh_err err = KH_ERR_INIT;
	uint16_t n = 0, index = 0;
	char text[40];
	(void)state;
	assert_true(kh_print_maker_init(&maker, NULL));
	for (bool room = true; room && n < 2000; n++) {
		(void)snprintf(text, sizeof(text), "value number %u of many", n);
		struct kh_secret *value = secret_of(text);
		room = kh_print_maker_add(&maker, value, n, &err);
		kh_secret_unref(value);
	}
	assert_in_range(n, 250, 1000);
	assert_int_equal(err.code, KH_ERR_NO_MEMORY);
	struct kh_secret *lists[2] = { kh_print_maker_take(&maker, NULL), NULL };
	struct kh_secret *value = secret_of(text);
	assert_true(kh_print_maker_add(&maker, value, n, NULL));
	kh_secret_unref(value);
	lists[1] = kh_print_maker_take(&maker, NULL);
	struct kh_prints *prints = kh_prints_new(lists, 2, NULL);
	assert_true(kh_prints_find(prints, kh_slice_str(text), &index));
	assert_int_equal(index, n);
	assert_true(kh_prints_find(prints, KH_SLICE("value number 7 of many"), &index));
	assert_int_equal(index, 7);
	kh_prints_unref(prints);
	kh_print_maker_fini(&maker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_value_is_found_wherever_it_stands),
		cmocka_unit_test(what_is_nearly_one_is_none),
		cmocka_unit_test(nothing_is_found_among_none),
		cmocka_unit_test(a_list_that_is_full_says_so_and_another_goes_on),
	};

	kh_secret_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
