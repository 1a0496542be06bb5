/* test_known_secrets.c - what was a secret is known until it can no longer be valid, within bounds
 */
/* wrap: kh_clock_wall_ms kh_secret_scoped_most_bytes */
#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keeper/keeper_internal.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>

static uint64_t wall_ms;

uint64_t __wrap_kh_clock_wall_ms(void);
uint64_t __wrap_kh_clock_wall_ms(void)
{
	return wall_ms;
}

static size_t most_bytes;

size_t __wrap_kh_secret_scoped_most_bytes(void);
size_t __wrap_kh_secret_scoped_most_bytes(void)
{
	return most_bytes;
}

static char folder[] = "/tmp";
static struct kh_config *config;
static struct kh_vault vaults[3], *vault;

/* Those that are known, in order: "one two (old)". */
static char known_text[16 * 1024];

static bool append(struct kh_slice value, void *arg)
{
	const struct kh_known_secret *known = arg;
	size_t len = strlen(known_text);

	(void)snprintf(known_text + len, sizeof(known_text) - len,
		       known->former ? "%s(%.*s)" : "%s%.*s", len ? " " : "", (int)value.len,
		       value.ptr);
	return true;
}

static void append_known(const struct kh_known_secret *known, void *arg)
{
	struct kh_known_secret copy = *known;
	size_t *n = arg;

	*n += 1;
	assert_true(kh_secret_expose(known->secret, append, &copy));
}

static size_t gather(void)
{
	size_t n = 0;

	known_text[0] = '\0';
	assert_true(kh_known_secrets_each(vault, append_known, NULL, &n));
	return n;
}

static void assert_known(const char *text)
{
	(void)gather();
	assert_string_equal(known_text, text);
}

static struct kh_secret *secret_of(const char *text)
{
	char copy[64];

	(void)snprintf(copy, sizeof(copy), "%s", text);
	struct kh_secret *secret = kh_secret_new(copy, strlen(text), NULL);
	assert_non_null(secret);
	return secret;
}

static struct kh_config *make_config(const char *order)
{
	static const char one[] =
		"  one: { value: { env: ONE }, bearer: true, hosts: [ a.test ] }\n";
	static const char two[] =
		"  two: { value: { env: TWO }, bearer: true, hosts: [ a.test ] }\n";
	char yaml[1024];

	(void)snprintf(yaml, sizeof(yaml),
		       "version: 1\nlisten: [ { unix: d/s, tenant: acme } ]\ncredentials:\n%s%s"
		       "tenants: { acme: { rules: [] } }\n",
		       strcmp(order, "21") == 0 ? two : one,
		       strcmp(order, "21") == 0	 ? one
		       : strcmp(order, "1") == 0 ? ""
						 : two);
	return config_in(folder, yaml);
}

static int set_up(void **state)
{
	(void)state;
	wall_ms = 1000000;
	most_bytes = 64 * 1024 * 1024;
	config = make_config("12");
	memset(vaults, 0, sizeof(vaults));
	vault = vaults;
	return kh_vault_make(vault, config, NULL) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	kh_vault_close(vault);
	kh_config_free(config);
	return 0;
}

static void fill(size_t index, const char *text)
{
	kh_item_fill(&vault->slots[index].holdings[0].raw, secret_of(text), 0, 0);
}

static void a_value_is_known_when_another_has_taken_its_place(void **state)
{
	(void)state;
	fill(0, "first");
	fill(1, "other");
	assert_known("first other");
	fill(0, "second");
	assert_known("second other (first)");
	/* Read anew, and the same: nothing has changed. */
	fill(0, "second");
	assert_known("second other (first)");
	/* And back. */
	fill(0, "first");
	assert_known("first other (second)");
	kh_item_fini(&vault->slots[1].holdings[0].raw);
	assert_known("first (second) (other)");
}

static void a_token_is_known_until_its_end(void **state)
{
	struct kh_made *made = calloc(1, sizeof(*made));
	(void)state;
	assert_non_null(made);
	vault->slots[0].holdings[0].made = made;
	fill(0, "value");
	kh_item_fill(&made->item, secret_of("token"), wall_ms + 5000, 0);
	assert_known("value token");
	kh_item_fini(&made->item);
	wall_ms += 5000 + KH_LIMIT_FORMER_SECRET_MS;
	assert_known("value (token)");
	wall_ms += 1;
	assert_known("value");
}

static void former_ones_are_bounded_and_the_youngest_stay(void **state)
{
	char text[32];
	(void)state;
	fill(1, "other");
	(void)gather();
	fill(1, "another");
	for (unsigned i = 0; i < 2 * KH_LIMIT_FORMER_SECRETS; i++) {
		(void)snprintf(text, sizeof(text), "value-%u", i);
		fill(0, text);
		(void)gather();
	}
	/* Its own, and those of the other. */
	assert_int_equal(gather(), 1 + KH_LIMIT_FORMER_SECRETS + 2);
	assert_non_null(strstr(known_text, "(other)"));
	assert_non_null(strstr(known_text, "(value-30)"));
	assert_null(strstr(known_text, "(value-14)"));
}

/* A page for each: there is room for eight, and one tenant's file changes without end. */
static void no_tenant_pushes_out_the_former_value_of_another(void **state)
{
	char text[32];
	(void)state;
	vault->slots[0].holdings[0].tenant = 0;
	vault->slots[1].holdings[0].tenant = 1;
	fill(1, "other");
	(void)gather();
	most_bytes = 2 * 8 * kh_secret_locked_bytes(vault->known[0].secret);
	fill(1, "another");
	for (unsigned i = 0; i < KH_LIMIT_FORMER_SECRETS; i++) {
		(void)snprintf(text, sizeof(text), "value-%u", i);
		fill(0, text);
		(void)gather();
	}
	assert_int_equal(gather(), 2 + 8);
	assert_non_null(strstr(known_text, "(other)"));
	assert_non_null(strstr(known_text, "(value-8)"));
	assert_null(strstr(known_text, "(value-7)"));
}

/* What has no known end is not pushed out by tokens, which a sandbox may have made. */
static void tokens_push_out_no_former_value(void **state)
{
	struct kh_made *made = calloc(1, sizeof(*made));
	char text[32];
	(void)state;
	assert_non_null(made);
	vault->slots[0].holdings[0].made = made;
	fill(0, "first");
	(void)gather();
	fill(0, "second");
	for (unsigned i = 0; i < 2 * KH_LIMIT_FORMER_SECRETS; i++) {
		(void)snprintf(text, sizeof(text), "token-%u", i);
		kh_item_fill(&made->item, secret_of(text), wall_ms + 5000 + i, 0);
		(void)gather();
	}
	assert_int_equal(gather(), 2 + KH_LIMIT_FORMER_SECRETS);
	assert_non_null(strstr(known_text, "(first)"));
	assert_null(strstr(known_text, "(token-0)"));
}

static void another_configuration_knows_them_too(void **state)
{
	static const char *const orders[] = { "21", "1" };
	(void)state;
	fill(0, "first");
	(void)gather();
	fill(0, "second");
	fill(1, "other");
	(void)gather();
	for (size_t i = 0; i < 2; i++) {
		struct kh_config *other = make_config(orders[i]);
		struct kh_vault *next = vault + 1;
		assert_true(kh_vault_make(next, other, NULL));
		kh_known_secrets_hand_on(next, vault);
		kh_vault_close(vault);
		kh_config_free(config);
		vault = next;
		config = other;
		/* Nothing is held here. */
		assert_known("(first) (second) (other)");
		assert_int_equal(vault->known[0].index, i == 0 ? 1 : 0);
		assert_int_equal(vault->known[2].index, i == 0 ? 0 : KH_KNOWN_NOBODYS);
	}
}

static struct kh_made *chosen(const char *text, uint16_t tenant, size_t scope_len,
			      struct kh_made *next)
{
	struct kh_made *made = calloc(1, sizeof(*made) + scope_len);

	assert_non_null(made);
	made->scope_len = scope_len;
	made->asker.tenant = tenant;
	made->next = next;
	kh_item_fill(&made->item, secret_of(text), 0, 0);
	return made;
}

/* There is room for so many: a tenant pushes out neither a value nor another tenant's tokens. */
static void what_sandboxes_chose_comes_last_and_each_tenant_has_its_share(void **state)
{
	struct kh_holding *holding = &vault->slots[0].holdings[0];
	(void)state;
	fill(0, "older");
	(void)gather();
	fill(0, "value");
	fill(1, "other");
	holding->made = chosen("its-own", KH_NO_TENANT, 0, NULL);
	holding->made = chosen("b1", KH_NO_TENANT, 1, holding->made);
	for (unsigned i = 3; i > 0; i--) {
		char text[8];
		(void)snprintf(text, sizeof(text), "a%u", i);
		holding->made = chosen(text, 0, 1, holding->made);
	}
	assert_known("value other its-own (older) a1 b1 a2 a3");
	/* Also when they are former ones. */
	kh_item_fini(&holding->made->item);
	assert_known("value other its-own (older) a2 b1 a3 (a1)");
}

static void a_variable_of_a_command_is_known_and_a_credentials_own_once(void **state)
{
	(void)state;
	fill(0, "first");
	struct kh_secret *own = kh_secret_ref(vault->slots[0].holdings[0].raw.secret);
	assert_true(kh_variables_add(vault, strdup("ONE"), own));
	assert_true(kh_variables_add(vault, strdup("VAULT_TOKEN"), secret_of("key")));
	assert_known("first key");
	assert_int_equal(vault->known[1].index, KH_KNOWN_NOBODYS); /* no command names it now */
	assert_true(vault->known[1].variable);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_value_is_known_when_another_has_taken_its_place,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_token_is_known_until_its_end, set_up, tear_down),
		cmocka_unit_test_setup_teardown(former_ones_are_bounded_and_the_youngest_stay,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_tenant_pushes_out_the_former_value_of_another,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(tokens_push_out_no_former_value, set_up, tear_down),
		cmocka_unit_test_setup_teardown(another_configuration_knows_them_too, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			a_variable_of_a_command_is_known_and_a_credentials_own_once, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			what_sandboxes_chose_comes_last_and_each_tenant_has_its_share, set_up,
			tear_down),
	};

	kh_secret_prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
