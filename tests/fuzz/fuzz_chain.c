/*
 * fuzz_chain.c - certificates of an upstream, as our own checks see them behind OpenSSL's
 *
 * The input is DER, one certificate behind the other, leaf first.
 */
#include <stdlib.h>

#include <openssl/err.h>

#include <tls/verify_internal.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { MOST = 4 };
	STACK_OF(X509) *chain = sk_X509_new_null();
	const unsigned char *at = data, *end = data + size;
	int depth = -1;
	while (at < end && sk_X509_num(chain) < MOST) {
		X509 *cert = d2i_X509(NULL, &at, end - at);
		if (!cert)
			break;
		kh_certificate_settle(cert);
		sk_X509_push(chain, cert);
	}
	ERR_clear_error();
	if (sk_X509_num(chain) > 0) {
		const char *fault = kh_verify_chain_fault(chain, &depth);
		if (depth < 0 || depth >= sk_X509_num(chain) || (fault && !fault[0]) ||
		    ERR_peek_error() != 0)
			abort();
	}
	sk_X509_pop_free(chain, X509_free);
	return 0;
}
