/*
 * ca_placeholder.c - what placeholders are derived from: a digest of a CA's key
 *
 * A change of the CA destroys the old key. Running sandboxes hold placeholders that were derived
 * from that key, and must go on working: a sandbox that fetches the new bundle needs no restart. So
 * the digest is kept beside the key, as KEY.placeholders, until the old CA is retired. With it one
 * can only make placeholders, which are worthless.
 */
#include "tls_internal.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <openssl/core_names.h>
#include <openssl/hmac.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/hidden.h>

enum {
	RSA_MOST_BYTES = 2048, /* of a private number */
	HEX_BYTES = 2 * sizeof(((struct kh_placeholder_key *)0)->bytes),
	FILE_BYTES = 4096,
};

/* HMAC-SHA256 under the private number itself, which is the same however the key is written. */
bool kh_ca_derive_placeholder(EVP_PKEY *key, struct kh_placeholder_key *out, struct kh_err *err)
{
	/* As it was from the start: sandboxes hold what was derived from it. */
	static const unsigned char label[] = "keyhole stand-in key 1";
	const char *which =
		EVP_PKEY_is_a(key, "RSA") ? OSSL_PKEY_PARAM_RSA_D : OSSL_PKEY_PARAM_PRIV_KEY;
	uint8_t number[RSA_MOST_BYTES];
	BIGNUM *bn = NULL;
	unsigned len = 0;
	int n = -1;

	kh_hidden_begin();
	if (EVP_PKEY_get_bn_param(key, which, &bn) == 1)
		n = BN_num_bytes(bn) <= RSA_MOST_BYTES ? BN_bn2bin(bn, number) : -1;
	bool ok = n > 0 &&
		  HMAC(EVP_sha256(), number, n, label, sizeof(label) - 1, out->bytes, &len) &&
		  len == sizeof(out->bytes);
	BN_clear_free(bn);
	kh_hidden_end();
	OPENSSL_cleanse(number, sizeof(number));
	return ok || kh_err_openssl(err, KH_ERR_INTERNAL, "CA: its key can't be read");
}

static char *path_of(const char *key_path)
{
	return kh_strf("%s.placeholders", key_path);
}

bool kh_ca_old_placeholder_write(const char *key_path, EVP_PKEY *old, struct kh_err *err)
{
	kh_auto_free char *path = path_of(key_path);
	struct kh_placeholder_key key;
	char text[HEX_BYTES + 2];

	if (!path)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
	if (!kh_ca_derive_placeholder(old, &key, err))
		return false;
	kh_hex_encode(key.bytes, sizeof(key.bytes), text);
	text[HEX_BYTES] = '\n';
	bool ok = kh_file_write(path, kh_slice_of(text, HEX_BYTES + 1), 0600, err) ||
		  kh_err_wrap(err, "CA");
	OPENSSL_cleanse(&key, sizeof(key));
	OPENSSL_cleanse(text, sizeof(text));
	return ok;
}

static bool read_hex(struct kh_slice text, struct kh_placeholder_key *out)
{
	return text.len == HEX_BYTES + 1 && text.ptr[HEX_BYTES] == '\n' &&
	       kh_hex_decode(kh_slice_sub(text, 0, HEX_BYTES), out->bytes, sizeof(out->bytes));
}

bool kh_ca_old_placeholder_read(const char *certificate_path, const char *key_path,
				struct kh_placeholder_key *out, struct kh_err *err)
{
	kh_auto_free char *old = kh_strf("%s.old", certificate_path);
	kh_auto_free char *path = path_of(key_path);
	struct kh_buf text;

	memset(out, 0, sizeof(*out));
	if (!old || !path)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
	if (access(old, F_OK) != 0 || access(path, F_OK) != 0)
		return true;
	kh_buf_init_wiping(&text, FILE_BYTES);
	bool ok = kh_file_read_beside(path, key_path, &text, err) || kh_err_wrap(err, "CA");
	if (ok && !read_hex(kh_buf_view(&text), out)) {
		memset(out, 0, sizeof(*out));
		ok = kh_err_set(err, KH_ERR_CONFIG,
				"CA: %s is not as it was written (remove it: placeholders from "
				"before the change of the CA are no longer known then)",
				kh_esc_str(path));
	}
	kh_buf_fini(&text);
	return ok;
}

bool kh_ca_old_placeholder_remove(const char *key_path, struct kh_err *err)
{
	kh_auto_free char *path = path_of(key_path);

	if (!path)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
	return unlink(path) == 0 || errno == ENOENT ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "CA: %s", kh_esc_str(path));
}
