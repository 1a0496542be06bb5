/* test_names.c - what has a name is found by it, however many there are */
#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/config_internal.h"

enum { MANY = 3000 };

static char *big(void)
{
	struct kh_buf out;
	kh_buf_init(&out, 16 * 1024 * 1024);
	assert_true(kh_buf_append_str(&out, "version: 1\ncredentials:\n"));
	for (unsigned i = 0; i < MANY; i++)
		assert_true(kh_buf_printf(&out,
					  "  c%u: { value: { env: C }, header: { x: \"{}\" }, "
					  "hosts: [ h.example ] }\n",
					  i));
	assert_true(kh_buf_append_str(&out, "tenants:\n"));
	for (unsigned i = 0; i < MANY; i++)
		assert_true(kh_buf_printf(&out,
					  "  t%u: { rules: [ { allow: \"https://h.example\", "
					  "credential: [ c%u, c%u ] } ] }\n",
					  i, i, MANY - 1 - i == i ? 0 : MANY - 1 - i));
	assert_true(kh_buf_append_str(&out, "listen:\n"));
	for (unsigned i = 0; i < MANY; i++)
		assert_true(kh_buf_printf(&out,
					  "  - { unix: /s/%u/s, tenant: t%u, sandbox: s%u }\n", i,
					  MANY - 1 - i, i));
	assert_true(kh_buf_append_str(&out, "expect:\n"));
	for (unsigned i = 0; i < MANY; i++)
		assert_true(kh_buf_printf(
			&out, "  - { sandbox: s%u, allow: \"GET https://h.example/\" }\n", i));
	char *text = kh_slice_dup(kh_buf_view(&out));
	kh_buf_fini(&out);
	assert_non_null(text);
	return text;
}

static void thousands_of_each_find_their_own(void **state)
{
	(void)state;
	char *text = big();
	struct kh_config *config = config_of(text);
	assert_int_equal(config->n_credentials, MANY);
	assert_null(config->names);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(config->tenants[i].rules.list[0].credentials[0], i);
		assert_int_equal(config->listeners[i].tenant, MANY - 1 - i);
		assert_int_equal(config->expectations[i].listener, i);
		assert_int_equal(config->expectations[i].tenant, MANY - 1 - i);
	}
	/* The same with the tables and without. */
	kh_names_begin(config);
	for (unsigned round = 0; round < 2; round++) {
		assert_int_equal(kh_config_tenant(config, "t2999"), 2999);
		assert_int_equal(kh_config_tenant(config, "t3000"), KH_NAME_NONE);
		assert_int_equal(kh_config_credential(config, KH_SLICE("c0")), 0);
		assert_int_equal(kh_config_credential(config, KH_SLICE("")), KH_NAME_NONE);
		assert_int_equal(kh_config_sandbox(config, "s77"), 77);
		config->listeners[78].sandbox[1] = '7'; /* s78 is s77 as well */
		config->listeners[78].sandbox[2] = '7';
		kh_names_end(config);
		assert_int_equal(kh_config_sandbox(config, "s77"), KH_SANDBOX_SEVERAL);
		if (round == 0)
			kh_names_begin(config);
		assert_int_equal(kh_config_sandbox(config, "s77"), KH_SANDBOX_SEVERAL);
		config->listeners[78].sandbox[2] = '8';
		kh_names_end(config);
	}
	kh_config_free(config);
	free(text);
}

/* What may not be named is not found: the password of a proxy, the token of a listener. */
static void what_no_rule_can_name_is_not_found(void **state)
{
	(void)state;
	struct kh_config *config = config_of(
		"version: 1\n"
		"upstream: { proxy: { url: http://p.example:1, username: u, password: { "
		"env: P } } }\n"
		"credentials: { c: { value: { env: C }, header: { x: \"{}\" }, hosts: [ "
		"h.example ] } }\n"
		"tenants: { t: { rules: [ { allow: \"https://h.example\", credential: c } "
		"] } }\n"
		"listen: [ { tcp: \"127.0.0.1:1\", token: { env: T } } ]\n");
	assert_int_equal(config->n_credentials, 3);
	for (unsigned round = 0; round < 2; round++) {
		for (size_t i = 0; i < 3; i++) {
			const struct kh_credential_config *one = &config->credentials[i];
			int found = kh_config_credential(config, kh_slice_str(one->name));
			assert_int_equal(found,
					 one->of_proxy || one->of_listener ? KH_NAME_NONE : (int)i);
		}
		kh_names_begin(config);
	}
	kh_config_free(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thousands_of_each_find_their_own),
		cmocka_unit_test(what_no_rule_can_name_is_not_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
