/*
 * test_limbo.c - the verification of upstreams, held against x509-limbo's chains
 *
 * The cases are C2SP's (x509-limbo, Apache-2.0), and are read in place:
 * $KEYHOLE_TESTDATA/x509-limbo, by default beside the project. Where we decide otherwise than they
 * expect, the case stands in a table here with the reason; a case that stands there and is decided
 * as expected fails too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <jansson.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <keyhole/base/file.h>
#include <tls/verify_internal.h>

static const struct deviation {
	const char *id, *reason;
} deviations[] = {
	/* Refused, though they could be accepted. */
	{ "pathlen::validation-ignores-pathlen-in-leaf", "OpenSSL: a path length without CA" },
	{ "pathlen::max-chain-depth-1-self-issued", "OpenSSL counts self-issued certificates" },
	{ "rfc5280::nc::permitted-dn-match", "it has no alternative name, only a common one" },
	/* Accepted: contradicted by the same suite's rules of the web. */
	{ "rfc5280::nc::permitted-dns-match-noncritical", "webpki accepts it" },
	{ "webpki::eku::ee-without-eku", "RFC 5280 accepts it" },
	/* Accepted: a want of form without a meaning for whom we talk to, common in private CAs
	 * made by hand. */
	{ "rfc5280::aki::leaf-missing-aki", "form: the signature says who issued it" },
	{ "rfc5280::aki::intermediate-missing-aki", "form: the signature says who issued it" },
	{ "rfc5280::ski::intermediate-missing-ski", "form: the signature says who issued it" },
	{ "rfc5280::san::noncritical-with-empty-subject", "form: we read the names anyway" },
	{ "webpki::san::san-critical-with-nonempty-subject", "form: we read the names anyway" },
	{ "webpki::eku::ee-critical-eku", "form: we read the usage anyway" },
	{ "webpki::eku::ee-anyeku", "form: it is expressly for servers as well" },
	{ "rfc5280::serial::zero", "RFC 5280 §4.1.2.2: to be handled gracefully" },
	/* Accepted: a trust anchor is the operator's choice, not subject to the rules for a path.
	 */
	{ "rfc5280::ski::root-missing-ski", "a trust anchor" },
	{ "rfc5280::root-non-critical-basic-constraints", "a trust anchor" },
	{ "webpki::aki::root-with-aki-missing-keyidentifier", "a trust anchor" },
	{ "webpki::eku::root-has-eku", "a trust anchor" },
};

enum { DEVIATIONS = sizeof deviations / sizeof deviations[0] };

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static X509 *read_pem(const char *pem)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	return cert;
}

/* Return: false when one can't be read at all. */
static bool read_all(const json_t *list, STACK_OF(X509) * out)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		X509 *cert = read_pem(json_string_value(json_array_get(list, i)));
		if (!cert)
			return false;
		sk_X509_push(out, cert);
	}
	return true;
}

static time_t time_of(const json_t *test)
{
	const char *text = text_of(test, "validation_time");
	struct tm tm = { 0 };
	if (!text)
		return time(NULL);
	assert_non_null(strptime(text, "%Y-%m-%dT%H:%M:%S", &tm));
	return timegm(&tm);
}

static bool decide(const json_t *test, X509 *leaf, STACK_OF(X509) * roots,
		   STACK_OF(X509) * intermediates, char *why, size_t size)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	struct kh_host host;
	const char *fault = NULL;
	int depth = 0;
	for (int i = 0; i < sk_X509_num(roots); i++)
		X509_STORE_add_cert(store, sk_X509_value(roots, i));
	assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, intermediates), 1);
	/* As libssl prepares it for a client at the contexts' security level. */
	assert_int_equal(X509_STORE_CTX_set_default(ctx, "ssl_server"), 1);
	X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
	X509_VERIFY_PARAM_set_auth_level(param, 2);
	X509_VERIFY_PARAM_set_time(param, time_of(test));
	bool ok = kh_host_parse(
		&host, kh_slice_str(text_of(json_object_get(test, "expected_peer_name"), "value")),
		NULL);
	ok = ok && kh_verify_configure(param, &host);
	const json_t *most = json_object_get(test, "max_chain_depth");
	if (json_is_integer(most))
		X509_VERIFY_PARAM_set_depth(param, (int)json_integer_value(most));
	ok = ok && kh_verify_chain(ctx, &fault, &depth) == 1;
	snprintf(why, size, "%s",
		 fault ? fault : X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	ERR_clear_error();
	return ok;
}

/* Return: true when the case was decided as expected, or its deviation is listed. */
static bool run_case(const json_t *test, bool *seen)
{
	STACK_OF(X509) *roots = sk_X509_new_null(), *intermediates = sk_X509_new_null();
	X509 *leaf = read_pem(text_of(test, "peer_certificate"));
	const char *id = text_of(test, "id");
	char why[256] = "it can't be read";
	bool ok = read_all(json_object_get(test, "trusted_certs"), roots) &&
		  read_all(json_object_get(test, "untrusted_intermediates"), intermediates) &&
		  leaf && decide(test, leaf, roots, intermediates, why, sizeof why);
	bool wanted = strcmp(text_of(test, "expected_result"), "SUCCESS") == 0;
	X509_free(leaf);
	sk_X509_pop_free(roots, X509_free);
	sk_X509_pop_free(intermediates, X509_free);
	for (size_t i = 0; ok != wanted && i < DEVIATIONS; i++) {
		if (strcmp(deviations[i].id, id) == 0) {
			seen[i] = true;
			return true;
		}
	}
	if (ok != wanted)
		print_error("%s: %s (%s)\n", id, ok ? "accepted" : "refused", why);
	return ok == wanted;
}

static void test_chains_are_accepted_and_refused_as_limbo_says_or_with_a_reason(void **state)
{
	const char *data = getenv("KEYHOLE_TESTDATA");
	bool seen[DEVIATIONS] = { false };
	unsigned wrong = 0, bad_accepted = 0;
	char *path = kh_path_join(data ? data : "../shared/testdata", "x509-limbo/limbo.json");
	(void)state;
	json_t *limbo = json_load_file(path, 0, NULL);
	if (!limbo)
		print_message("skipped: x509-limbo's chains are not at %s (KEYHOLE_TESTDATA)\n",
			      path);
	free(path);
	if (!limbo)
		skip();
	const json_t *tests = json_object_get(limbo, "testcases");
	assert_true(json_array_size(tests) > 100);
	for (size_t i = 0; i < json_array_size(tests); i++)
		wrong += !run_case(json_array_get(tests, i), seen);
	json_decref(limbo);
	for (size_t i = 0; i < DEVIATIONS; i++) {
		if (!seen[i]) {
			print_error("%s: no deviation any more\n", deviations[i].id);
			wrong++;
		}
		bad_accepted += i >= 3;
	}
	print_message("%zu deviations, of them %u bad chains that are accepted\n",
		      (size_t)DEVIATIONS, bad_accepted);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_chains_are_accepted_and_refused_as_limbo_says_or_with_a_reason),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
