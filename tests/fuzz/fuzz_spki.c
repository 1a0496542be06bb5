/*
 * fuzz_spki.c - the public key that a worker asks the keeper to sign
 *
 * It comes from the process that faces hostile bytes. What is signed must be a P-256 key, and the
 * leaf must say exactly that key.
 */
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/x509.h>

#include <keyhole/tls/ca.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void check_leaf(struct kh_slice der)
{
	const unsigned char *at = (const unsigned char *)der.ptr;
	char group[32];
	X509 *leaf = d2i_X509(NULL, &at, (long)der.len);
	require(leaf != NULL);
	EVP_PKEY *key = X509_get0_pubkey(leaf);
	require(key && EVP_PKEY_get_group_name(key, group, sizeof group, NULL) == 1);
	require(strcmp(group, "prime256v1") == 0);
	X509_free(leaf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct kh_ca *ca;
	static struct kh_host host;
	struct kh_buf out;
	if (!ca) {
		ca = kh_ca_new(NULL);
		require(ca && kh_host_parse(&host, KH_SLICE("api.example.com"), NULL));
	}
	kh_buf_init(&out, 16384);
	if (kh_ca_sign(ca, kh_slice_of(data, size), &host, KH_CA_LEAF_S, &out, NULL))
		check_leaf(kh_buf_view(&out));
	else
		require(kh_buf_len(&out) == 0);
	require(ERR_peek_error() == 0);
	kh_buf_fini(&out);
	return 0;
}
