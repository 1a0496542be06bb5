/* test_vault_reload.c - what a reload makes of a refresh that is under way */
#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keeper/mint_internal.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/log.h>

enum { MANY = 40, LONG_MS = 600 * 1000 };

/* With so many credentials. */
static struct kh_config *configure(unsigned n)
{
	struct kh_buf text;
	kh_buf_init(&text, 64 * 1024);
	assert_true(kh_buf_append_str(&text, "version: 1\nlisten: [ { unix: d/s, tenant: acme } ]\n"
					     "tenants: { acme: { rules: [] } }\n"));
	for (unsigned i = 0; i < n; i++)
		assert_true(kh_buf_printf(&text,
					  "%s  c%u: { value: { env: KH_NONE_%u }, header: "
					  "{ x-a: \"{}\" }, hosts: [ a.test ] }\n",
					  i == 0 ? "credentials:\n" : "", i, i));
	struct kh_config *config = config_of(kh_buf_cstr(&text));
	kh_buf_fini(&text);
	return config;
}

static void reload(struct kh_vault *vault, struct kh_config **config, unsigned n)
{
	struct kh_config *next = configure(n);
	struct kh_vault values;
	assert_true(kh_vault_reopen(&values, vault, next, NULL));
	kh_vault_adopt(vault, &values);
	kh_config_free(*config);
	*config = next;
}

/* The token that it brings belongs to nobody any more, but the refresh token in it is kept. Its
 * credential's place in an older configuration means nothing in the one in force. */
static void a_refresh_that_nobody_owns_outlives_any_number_of_reloads(void **state)
{
	struct kh_config *config = configure(MANY);
	struct kh_vault vault;
	char value[] = "a-refresh-token";
	(void)state;
	kh_log_set_level(KH_LOG_ERROR);
	assert_true(kh_vault_open(&vault, config, false, NULL));
	struct kh_secret *raw = kh_secret_new(value, strlen(value), NULL);
	struct kh_job *job = kh_job_new(LONG_MS);
	assert_true(raw && job);
	job->index = MANY - 1;
	job->holding = &vault.slots[MANY - 1].holdings[0];
	job->rotation = kh_rotation_new("/nonexistent", raw);
	job->state = KH_JOB_RUNNING;
	assert_non_null(job->rotation);
	assert_true(kh_jobs_add(&vault.jobs, job, NULL));
	static const unsigned then[] = { 1, 1, 0, 0, MANY };
	for (size_t i = 0; i < sizeof(then) / sizeof(then[0]); i++) {
		reload(&vault, &config, then[i]);
		assert_ptr_equal(vault.jobs.list.next, &job->link);
		assert_null(job->holding);
		assert_int_equal(job->index, KH_JOB_NOBODYS);
	}
	kh_vault_close(&vault);
	kh_config_free(config);
	kh_secret_unref(raw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refresh_that_nobody_owns_outlives_any_number_of_reloads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
