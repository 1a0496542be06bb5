/*
 * fuzz_allow_text.c - a rule as it is written on a command line
 *
 * What is taken is a rule of the grammar of files, without a credential and for a host that it
 * names. What is refused has its place within the text, and words.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/config/config.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_slice text = kh_slice_of(data, size);
	struct kh_err err = KH_ERR_INIT;
	struct kh_rule rule, again;
	size_t at = SIZE_MAX;
	bool ok = kh_allow_text_parse(&rule, text, &at, &err);
	require(ok == (err.code == KH_ERR_NONE));
	if (!ok) {
		require(at <= size && err.text[0] != '\0' && !rule.text);
		return 0;
	}
	require(rule.n_credentials == 0 && !rule.client_auth_pass && rule.scheme != KH_SCHEME_NONE);
	require(rule.host.match != KH_MATCH_ANY && rule.host.match != KH_MATCH_NOTHING);
	require(kh_rule_parse(&again, text, NULL));
	kh_rule_fini(&again);
	kh_rule_fini(&rule);
	return 0;
}
