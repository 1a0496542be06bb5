/* test_mint.c - a row of a token that has no kind of its own makes none, least of all an OAuth2 one
 */
#include "unit.h"

#include <string.h>

#include "config/value_internal.h"

/* As a row that was added to the table, and not to what reads it. */
static void assert_read(const char *path, enum kh_mint_kind kind, const char *says)
{
	const struct kh_option row = { .path = path,
				       .type = KH_OPTION_CUSTOM,
				       .as = KH_OPTION_TEXT,
				       .member = offsetof(struct kh_mint, client_id),
				       .expects = "a name",
				       .check = kh_mint_check_text };
	struct kh_config config = { 0 };
	struct kh_diagnostics diags = { 0 };
	struct kh_reader reader = { .config = &config, .diags = &diags, .options = &kh_options };
	struct kh_credential_config credential = { 0 };
	struct kh_yaml_tree tree;
	struct kh_buf said;

	kh_buf_init(&said, 4096);
	assert_true(kh_tree_parse(&tree, KH_SLICE("name: robot"), &reader));
	kh_config_read_mint(&reader, &row, kh_node_get(tree.root, "name"), &credential);
	kh_diagnostics_put(&diags, &said);
	if (!strstr(kh_buf_cstr(&said), says) || (*says == '\0') != (kh_buf_len(&said) == 0))
		fail_msg("%s: %s", path, kh_buf_cstr(&said));
	assert_int_equal(credential.mint ? credential.mint->kind : KH_MINT_NONE, kind);
	kh_mint_free(credential.mint);
	kh_tree_free(&tree);
	kh_diagnostics_fini(&diags);
	kh_buf_fini(&said);
}

static void a_key_that_nobody_knows_makes_no_token(void **state)
{
	(void)state;
	assert_read("credentials.*.oauth2.client_id", KH_MINT_OAUTH2_CLIENT, "");
	assert_read("credentials.*.github_app.app_id", KH_MINT_GITHUB_APP, "");
	assert_read("credentials.*.gcp_service_account.name", KH_MINT_GCP, "");
	assert_read("credentials.*.oauth3.client_id", KH_MINT_NONE,
		    "keyhole makes no token by that name");
	assert_read("credentials.*.oauth.client_id", KH_MINT_NONE,
		    "keyhole makes no token by that name");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_that_nobody_knows_makes_no_token),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
