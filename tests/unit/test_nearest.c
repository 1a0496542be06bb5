/* test_nearest.c - "did you mean": the known word that is nearest to what was typed */
#include "unit.h"

#include <string.h>

#include <keyhole/base/nearest.h>

static const char *nearest(const char *typed)
{
	static const char *const words[] = { "workspace", "config", "engine",	     "env",
					     "ls",	  "rm",	    "sandbox remove" };
	static struct kh_nearest found;
	kh_nearest_init(&found, kh_slice_str(typed));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		kh_nearest_offer(&found, words[i]);
	return found.best ? found.best : "";
}

static void test_a_slip_of_the_fingers_is_one_edit(void **state)
{
	(void)state;
	assert_string_equal(nearest("worspace"), "workspace");	 /* left out */
	assert_string_equal(nearest("workkspace"), "workspace"); /* twice */
	assert_string_equal(nearest("workspcae"), "workspace");	 /* swapped */
	assert_string_equal(nearest("wprkspace"), "workspace");	 /* another */
	assert_string_equal(nearest("CONFIG"), "config");
	assert_string_equal(nearest("CNOFIG"), "config"); /* swapped in another case */
	assert_string_equal(nearest("sl"), "ls");
	assert_string_equal(nearest("sandbox rmeove"), "sandbox remove");
}

static void test_a_word_that_was_not_written_to_its_end_is_near(void **state)
{
	(void)state;
	assert_string_equal(nearest("works"), "workspace");
	assert_string_equal(nearest("eng"), "engine");
	assert_string_equal(nearest("en"), "env");
}

static void test_of_two_as_near_the_one_with_the_same_first_letter_is_meant(void **state)
{
	struct kh_nearest found;
	(void)state;
	kh_nearest_init(&found, KH_SLICE("nmp"));
	kh_nearest_offer(&found, "amp");
	kh_nearest_offer(&found, "npm");
	kh_nearest_offer(&found, "nap");
	assert_string_equal(found.best, "npm");
}

static void test_what_is_far_is_no_guess(void **state)
{
	char far[200];
	(void)state;
	assert_string_equal(nearest(""), "");
	assert_string_equal(nearest("x"), "");
	assert_string_equal(nearest("xy"), "");
	assert_string_equal(nearest("discard"), "");
	assert_string_equal(nearest("wokrspcaee"), "workspace");
	assert_string_equal(nearest("wkrpcabb"), "");
	memset(far, 'w', sizeof(far) - 1);
	far[sizeof(far) - 1] = '\0';
	assert_string_equal(nearest(far), "");
}

static void test_a_word_of_one_letter_is_not_guessed(void **state)
{
	struct kh_nearest found;
	(void)state;
	kh_nearest_init(&found, KH_SLICE("cc"));
	kh_nearest_offer(&found, "c");
	assert_null(found.best);
}

static void test_the_hint_is_a_part_of_a_sentence(void **state)
{
	char hint[KH_NEAREST_BYTES];
	struct kh_nearest found;
	(void)state;
	kh_nearest_init(&found, KH_SLICE("npn"));
	kh_nearest_offer(&found, "npm");
	assert_string_equal(kh_nearest_hint(&found, hint), " (did you mean \"npm\"?)");
	kh_nearest_init(&found, KH_SLICE("pypi"));
	kh_nearest_offer(&found, "npm");
	assert_string_equal(kh_nearest_hint(&found, hint), "");
}

static void test_another_word_counts_as_it_stands(void **state)
{
	struct kh_nearest found;
	(void)state;
	kh_nearest_init(&found, KH_SLICE("Command"));
	kh_nearest_offer_for(&found, "command", "exec");
	kh_nearest_offer(&found, "comment");
	assert_string_equal(found.best, "exec");
	kh_nearest_init(&found, KH_SLICE("commands"));
	kh_nearest_offer_for(&found, "command", "exec");
	assert_null(found.best);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_slip_of_the_fingers_is_one_edit),
		cmocka_unit_test(test_another_word_counts_as_it_stands),
		cmocka_unit_test(test_a_word_that_was_not_written_to_its_end_is_near),
		cmocka_unit_test(test_of_two_as_near_the_one_with_the_same_first_letter_is_meant),
		cmocka_unit_test(test_what_is_far_is_no_guess),
		cmocka_unit_test(test_a_word_of_one_letter_is_not_guessed),
		cmocka_unit_test(test_the_hint_is_a_part_of_a_sentence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
