/* test_credential.c - a value goes where it is bound, whole, into memory that is wiped */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include <keyhole/credential/credential.h>

/* Config's structs hold char *, and none of this writes to them. */
static char *text(const char *literal)
{
	return (char *)(uintptr_t)literal;
}

static struct kh_secret *secret(const char *value, size_t len)
{
	char copy[256];

	assert_true(len <= sizeof(copy));
	memcpy(copy, value, len);
	struct kh_secret *made = kh_secret_new(copy, len, NULL);
	assert_non_null(made);
	return made;
}

static void test_fields_are_written(void **state)
{
	struct kh_credential_field fields[] = {
		{ .name = text("Authorization"), .prefix = text("Bearer "), .suffix = text("") },
		{ .name = text("x-key"), .prefix = text(""), .suffix = text(";v=1") },
	};
	struct kh_placement placement = { .kind = KH_PLACEMENT_FIELDS,
					  .fields = fields,
					  .n_fields = 2 };
	struct kh_credential_config credential = { .name = text("c"), .placement = &placement };
	struct kh_secret *value = secret("s3cret value", 12);
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf out;

	(void)state;
	kh_buf_init_wiping(&out, 4096);
	assert_true(kh_buf_append_str(&out, "GET / HTTP/1.1\r\n"));
	assert_true(kh_credential_put_fields(&credential, value, &out, &err));
	assert_string_equal(kh_buf_cstr(&out),
			    "GET / HTTP/1.1\r\nAuthorization: Bearer s3cret value\r\n"
			    "x-key: s3cret value;v=1\r\n");
	kh_buf_fini(&out);

	/* Over the cap: not a byte of it stays. */
	kh_buf_init_wiping(&out, 50);
	assert_false(kh_credential_put_fields(&credential, value, &out, &err));
	assert_int_equal(err.code, KH_ERR_CREDENTIAL_UNAVAILABLE);
	assert_int_equal(kh_buf_len(&out), 0);
	kh_buf_fini(&out);

	/* A head that would not be wiped gets nothing. */
	kh_buf_init(&out, 4096);
	assert_false(kh_credential_put_fields(&credential, value, &out, &err));
	assert_int_equal(err.code, KH_ERR_INTERNAL);
	assert_int_equal(kh_buf_len(&out), 0);
	kh_buf_fini(&out);

	placement.n_fields = 0;
	kh_buf_init_wiping(&out, 4096);
	assert_false(kh_credential_put_fields(&credential, value, &out, &err));
	assert_int_equal(err.code, KH_ERR_CREDENTIAL_UNAVAILABLE);
	kh_buf_fini(&out);
	kh_secret_unref(value);
}

static void test_a_value_that_splits_a_head_is_refused_and_not_shown(void **state)
{
	static const struct kh_slice values[] = {
		{ "secret\r\nX: y", 12 }, { "secret\n", 7 },   { "secret\r", 7 },
		{ "sec\0ret", 7 },	  { "sec\x01ret", 7 }, { "sec\x7fret", 7 },
		{ " secret", 7 },	  { "secret ", 7 },    { "\tsecret", 7 },
	};
	struct kh_credential_field fields[] = {
		{ .name = text("x-key"), .prefix = text(""), .suffix = text("") },
	};
	struct kh_placement placement = { .kind = KH_PLACEMENT_FIELDS,
					  .fields = fields,
					  .n_fields = 1 };
	struct kh_credential_config credential = { .name = text("c"), .placement = &placement };

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		struct kh_secret *value = secret(values[i].ptr, values[i].len);
		struct kh_err err = KH_ERR_INIT;
		struct kh_buf out;

		kh_buf_init_wiping(&out, 4096);
		assert_false(kh_credential_put_fields(&credential, value, &out, &err));
		assert_int_equal(err.code, KH_ERR_CREDENTIAL_UNAVAILABLE);
		assert_null(strstr(err.text, "sec"));
		assert_int_equal(kh_buf_len(&out), 0);
		kh_buf_fini(&out);
		kh_secret_unref(value);
	}
}

static void test_it_goes_to_its_hosts_only(void **state)
{
	struct kh_host_pattern patterns[2] = { { .match = KH_MATCH_EXACT },
					       { .match = KH_MATCH_NOTHING } };
	struct kh_credential_config credential = { .hosts = patterns, .n_hosts = 2 };
	struct kh_host host, sub, other, nothing = { .kind = KH_HOST_NONE };

	(void)state;
	assert_true(kh_host_parse(&host, KH_SLICE("API.example"), NULL));
	assert_true(kh_host_parse(&sub, KH_SLICE("a.api.example"), NULL));
	assert_true(kh_host_parse(&other, KH_SLICE("api.example.evil.example"), NULL));
	patterns[0].host = host;
	assert_true(kh_credential_may_go_to(&credential, &host));
	assert_false(kh_credential_may_go_to(&credential, &sub));
	assert_false(kh_credential_may_go_to(&credential, &other));
	assert_false(kh_credential_may_go_to(&credential, &nothing));
	/* Bound to nothing, it goes nowhere. */
	credential.n_hosts = 0;
	assert_false(kh_credential_may_go_to(&credential, &host));
}

static void test_fields_that_it_sets(void **state)
{
	struct kh_credential_field fields[] = { { .name = text("X-Special-Key") } };
	struct kh_placement placement = { .kind = KH_PLACEMENT_FIELDS,
					  .fields = fields,
					  .n_fields = 1 };
	struct kh_credential_config credential = { .placement = &placement };

	(void)state;
	assert_true(kh_credential_sets_field(&credential, KH_SLICE("x-special-key")));
	assert_true(kh_credential_sets_field(&credential, KH_SLICE("X_SPECIAL_KEY")));
	assert_false(kh_credential_sets_field(&credential, KH_SLICE("x-special-keys")));
	assert_false(kh_credential_sets_field(&credential, KH_SLICE("x-special")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields_are_written),
		cmocka_unit_test(test_a_value_that_splits_a_head_is_refused_and_not_shown),
		cmocka_unit_test(test_it_goes_to_its_hosts_only),
		cmocka_unit_test(test_fields_that_it_sets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
