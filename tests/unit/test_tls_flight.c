/* test_tls_flight.c - what an upstream may send of certificates and of authorities, and what is
 * kept of it */
#include "tls_world.h"

#include <openssl/core_names.h>
#include <openssl/param_build.h>

#include <keyhole/base/limits.h>
#include <tls/leaves_internal.h>
#include <tls/stream_internal.h>
#include <tls/verify_internal.h>

/* A server of OpenSSL's own: its version of TLS, how many certificates it sends, and how many
 * authorities it names (0: it asks for no client's certificate), each of so many bytes. */
struct server {
	int version;
	unsigned certificates, names, name_bytes;
};

static void use_certificates(SSL_CTX *ctx, unsigned n)
{
	struct kh_host host = host_of("api.example.com");
	X509 *leaf = NULL, *issuer = NULL;
	long left_s;

	assert_true(kh_leaves_get(w.leaves, &host, &leaf, &issuer, &left_s));
	assert_int_equal(SSL_CTX_use_certificate(ctx, leaf), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(ctx, kh_leaves_key(w.leaves)), 1);
	for (unsigned i = 1; i < n; i++)
		assert_int_equal(SSL_CTX_add1_chain_cert(ctx, issuer), 1);
	X509_free(leaf);
	X509_free(issuer);
}

static void ask_for_certificate(SSL_CTX *ctx, const struct server *server)
{
	STACK_OF(X509_NAME) *names = sk_X509_NAME_new_null();
	char text[64];

	assert_true(server->name_bytes < sizeof(text));
	memset(text, 'a', sizeof(text));
	for (unsigned i = 0; i < server->names; i++) {
		X509_NAME *name = X509_NAME_new();
		assert_true(server->name_bytes == 0 ||
			    X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_ASC,
						       (unsigned char *)text,
						       (int)server->name_bytes, -1, 0) == 1);
		assert_true(sk_X509_NAME_push(names, name) > 0);
	}
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set0_CA_list(ctx, names);
}

/* `refused`: a part of the error; NULL: it is connected, and nothing but the leaf is kept. */
static void meet(const struct server *server, const char *refused)
{
	enum { TURNS = 200 };
	struct kh_host host = host_of("api.example.com");
	struct side up = { 0 };
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	int fds[2];

	assert_int_equal(SSL_CTX_set_max_proto_version(ctx, server->version), 1);
	use_certificates(ctx, server->certificates);
	if (server->names > 0)
		ask_for_certificate(ctx, server);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	SSL *ssl = SSL_new(ctx);
	SSL_set_fd(ssl, fds[1]);
	SSL_set_accept_state(ssl);
	up.stream = kh_stream_new(w.base, fds[0], on_side, &up);
	assert_true(kh_stream_connect_tls(up.stream, w.up, &host, NULL, NULL, 5000));
	for (int i = 0; i < TURNS && !up.done && !up.failed; i++) {
		turn_for(&w, 1);
		(void)SSL_do_handshake(ssl);
	}
	if (refused) {
		assert_int_equal(up.failed, 1);
		assert_int_equal(kh_stream_error(up.stream)->code, KH_ERR_TLS_PROTOCOL);
		if (!strstr(kh_stream_error(up.stream)->text, refused))
			fail_msg("\"%s\" is not in \"%s\"", refused,
				 kh_stream_error(up.stream)->text);
	} else {
		if (!up.done)
			fail_msg("%s", kh_stream_error(up.stream)->text);
		assert_int_equal(sk_X509_num(SSL_get_peer_cert_chain(up.stream->ssl)), 1);
		assert_true(sk_X509_NAME_num(SSL_get0_peer_CA_list(up.stream->ssl)) <= 0);
		assert_non_null(SSL_get0_peer_certificate(up.stream->ssl));
	}
	kh_stream_free(up.stream);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	close(fds[1]);
	ERR_clear_error();
}

static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };

static void test_names_of_authorities_are_bounded_and_not_kept(void **state)
{
	const char *words = "named too many authorities";
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		meet(&(struct server){ versions[i], 2, 1, 0 }, NULL);
		meet(&(struct server){ versions[i], 2, KH_LIMIT_TLS_AUTHORITIES, 0 }, NULL);
		meet(&(struct server){ versions[i], 2, KH_LIMIT_TLS_AUTHORITIES + 1, 0 }, words);
		meet(&(struct server){ versions[i], 2, 8000, 0 }, words);
	}
}

static void test_certificates_are_bounded_and_the_leaf_alone_is_kept(void **state)
{
	const char *words = "more certificates than a chain can have";
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		meet(&(struct server){ versions[i], 2, 0, 0 }, NULL);
		meet(&(struct server){ versions[i], KH_LIMIT_TLS_CERTIFICATES, 0, 0 }, NULL);
		meet(&(struct server){ versions[i], KH_LIMIT_TLS_CERTIFICATES + 1, 0, 0 }, words);
	}
}

static void test_bytes_of_either_message_are_bounded(void **state)
{
	enum { NAME_BYTES = 60, NAMES = KH_LIMIT_TLS_CHAIN_BYTES / NAME_BYTES };
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		meet(&(struct server){ versions[i], 2, NAMES / 2, NAME_BYTES }, NULL);
		meet(&(struct server){ versions[i], 2, NAMES, NAME_BYTES },
		     "excessive message size");
		meet(&(struct server){ versions[i], 100, 0, 0 }, "excessive message size");
	}
}

/* ---- keys ---- */

/* A certificate with a key that nobody has the other half of. */
static X509 *with_rsa(int bits, int exponent_bits)
{
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
	BIGNUM *n = BN_new(), *e = BN_new();
	EVP_PKEY *key = NULL;
	X509 *cert = X509_new();

	assert_int_equal(BN_rand(n, bits, BN_RAND_TOP_TWO, BN_RAND_BOTTOM_ODD), 1);
	assert_int_equal(BN_rand(e, exponent_bits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ODD), 1);
	assert_int_equal(OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n), 1);
	assert_int_equal(OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e), 1);
	OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
	assert_int_equal(EVP_PKEY_fromdata_init(ctx), 1);
	assert_int_equal(EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params), 1);
	assert_int_equal(X509_set_pubkey(cert, key), 1);
	EVP_PKEY_free(key);
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(build);
	EVP_PKEY_CTX_free(ctx);
	BN_free(n);
	BN_free(e);
	return cert;
}

static void test_rsa_keys_that_take_long_to_verify_by_are_refused(void **state)
{
	static const struct {
		int bits, exponent_bits;
		const char *fault;
	} keys[] = {
		{ 2048, 17, NULL },
		{ KH_LIMIT_TLS_RSA_BITS, 17, NULL },
		{ KH_LIMIT_TLS_RSA_BITS + 1, 17, "an RSA key of more than 8192 bits" },
		{ 16384, 17, "an RSA key of more than 8192 bits" },
		{ 2048, KH_LIMIT_TLS_RSA_EXPONENT_BITS, NULL },
		{ 2048, KH_LIMIT_TLS_RSA_EXPONENT_BITS + 1,
		  "an RSA key with an exponent of more than 64 bits" },
		{ 3072, 3000, "an RSA key with an exponent of more than 64 bits" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		STACK_OF(X509) *sent = sk_X509_new_null();
		int depth = 0;
		assert_true(sk_X509_push(sent, with_rsa(2048, 17)) > 0);
		assert_true(sk_X509_push(sent, with_rsa(keys[i].bits, keys[i].exponent_bits)) > 0);
		const char *fault = kh_verify_cost_fault(sent, &depth);
		if (keys[i].fault) {
			assert_non_null(fault);
			assert_string_equal(fault, keys[i].fault);
			assert_int_equal(depth, 1);
		} else {
			assert_null(fault);
		}
		sk_X509_pop_free(sent, X509_free);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_names_of_authorities_are_bounded_and_not_kept),
		T(test_certificates_are_bounded_and_the_leaf_alone_is_kept),
		T(test_bytes_of_either_message_are_bounded),
		T(test_rsa_keys_that_take_long_to_verify_by_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
