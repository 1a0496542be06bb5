/* jwt.c - a JSON Web Token (RFC 7519) signed with RS256 (RFC 7518 section 3.3), by a key in PEM */

#include "mint_internal.h"

#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/secret.h>
#include <keyhole/tls/private_key.h>

enum { LEAST_BITS = 2048, SIGNATURE_BYTES = 1024 };

static bool put_text(struct kh_buf *out, struct kh_slice text)
{
	return kh_base64_put(out, &text, 1, KH_BASE64URL);
}

static EVP_PKEY *read_key(struct kh_slice pem, struct kh_err *err)
{
	const char *why;
	EVP_PKEY *key = kh_private_key_read(pem, &why);

	if (key && EVP_PKEY_is_a(key, "RSA") && EVP_PKEY_get_bits(key) >= LEAST_BITS)
		return key;
	EVP_PKEY_free(key);
	kh_err_set(err, KH_ERR_CONFIG,
		   "its value contains no RSA key in PEM, of 2048 to 8192 bits and without a "
		   "passphrase");
	return NULL;
}

static bool put_signature(struct kh_buf *out, EVP_PKEY *key, struct kh_slice signed_part)
{
	unsigned char signature[SIGNATURE_BYTES];
	size_t len = sizeof(signature);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
		  EVP_DigestSign(ctx, signature, &len, (const unsigned char *)signed_part.ptr,
				 signed_part.len) == 1;
	EVP_MD_CTX_free(ctx);
	ok = ok && kh_buf_append_char(out, '.') && put_text(out, kh_slice_of(signature, len));
	ERR_clear_error();
	return ok;
}

bool kh_jwt_put(struct kh_buf *out, struct kh_slice pem, struct kh_slice claims, struct kh_err *err)
{
	static const char header[] = "{\"alg\":\"RS256\",\"typ\":\"JWT\"}";
	size_t before = kh_buf_len(out);
	EVP_PKEY *key = read_key(pem, err);
	if (!key)
		return false;
	bool ok = put_text(out, kh_slice_str(header)) && kh_buf_append_char(out, '.') &&
		  put_text(out, claims);
	struct kh_slice all = kh_buf_view(out);
	ok = ok && kh_buf_reserve(out, SIGNATURE_BYTES * 2) != NULL;
	all = kh_buf_view(out);
	ok = ok && put_signature(out, key, kh_slice_sub(all, before, all.len));
	EVP_PKEY_free(key);
	return ok || kh_err_set(err, KH_ERR_INTERNAL, "its JWT can't be signed");
}
