/*
 * trust.c - the CA that signs for the proxy, where each kind of client looks for it
 *
 * Variables reach most (env.c); wget, apt, everything on GnuTLS and everything that clears its
 * environment read the system's store: so the CA stands in the system's bundle, over each usual
 * path, under its subject's hash among the single files, and in a PKCS#12 store for Java.
 */
#include <string.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <keyhole/authority.h>
#include <keyhole/file.h>

#include "sandbox_internal.h"

enum { BUNDLE_MOST_BYTES = 8 * 1024 * 1024, P12_MOST_BYTES = 64 * 1024 };

/* Where distributions keep the one file with all roots. */
static const char *const bundles[] = {
	KH_SANDBOX_BUNDLE,
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
};

static const char *const java_stores[] = {
	"/etc/ssl/certs/java/cacerts",
	"/etc/pki/ca-trust/extracted/java/cacerts",
	"/etc/pki/java/cacerts",
};

/* The roots of the sandbox's own root, if it has one: its programs pin what its distribution
 * trusts. None at all is fine too: then the CA stands alone. */
static void read_system(struct kh_buf *out, const char *rootfs)
{
	for (size_t i = 0; i < sizeof(bundles) / sizeof(bundles[0]); i++) {
		kh_auto_free char *path = kh_strf("%s%s", rootfs ? rootfs : "", bundles[i]);
		if (path && kh_file_read(path, out, NULL))
			return;
		kh_buf_clear(out);
	}
}

static bool lay_bundle(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	struct kh_buf bundle kh_cleanup(kh_buf_fini);
	kh_buf_init(&bundle, BUNDLE_MOST_BYTES);
	read_system(&bundle, spec->rootfs);
	if ((kh_buf_len(&bundle) > 0 && !kh_buf_append_char(&bundle, '\n')) ||
	    !kh_buf_append_str(&bundle, spec->ca_pem))
		return kh_err_set(err, KH_ERR_SYSTEM, "the system's roots are too large");
	if (!kh_view_file(view, KH_SANDBOX_BUNDLE, 0644, kh_buf_view(&bundle), err))
		return false;
	for (size_t i = 1; i < sizeof(bundles) / sizeof(bundles[0]); i++)
		kh_view_link(view, KH_SANDBOX_BUNDLE, bundles[i]);
	return kh_view_file(view, KH_SANDBOX_CA, 0644, kh_slice_str(spec->ca_pem), err);
}

static X509 *parse(const char *pem)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
	BIO_free(bio);
	return certificate;
}

/* OpenSSL finds a certificate in a folder by its subject's hash. */
static bool lay_hash(struct kh_view *view, X509 *certificate)
{
	kh_auto_free char *path =
		kh_strf("/etc/ssl/certs/%08lx.0", X509_subject_name_hash(certificate));
	if (!path)
		return false;
	kh_view_link(view, KH_SANDBOX_CA, path);
	return true;
}

static bool lay_java(struct kh_view *view, X509 *certificate, struct kh_err *err)
{
	unsigned char *der = NULL;
	int len = i2d_X509(certificate, &der);
	if (len <= 0)
		return kh_err_openssl(err, KH_ERR_INTERNAL, "the CA certificate");
	struct kh_buf store kh_cleanup(kh_buf_fini);
	kh_buf_init(&store, P12_MOST_BYTES);
	bool made = kh_ca_pkcs12_from_der(kh_slice_of(der, (size_t)len), &store, err);
	OPENSSL_free(der);
	if (!made || !kh_view_file(view, KH_SANDBOX_P12, 0644, kh_buf_view(&store), err))
		return false;
	for (size_t i = 0; i < sizeof(java_stores) / sizeof(java_stores[0]); i++)
		kh_view_link(view, KH_SANDBOX_P12, java_stores[i]);
	return true;
}

bool kh_trust_lay(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	if (!spec->ca_pem)
		return true;
	X509 *certificate = parse(spec->ca_pem);
	if (!certificate)
		return kh_err_openssl(err, KH_ERR_INTERNAL, "the CA certificate");
	bool ok = lay_bundle(view, spec, err) && lay_hash(view, certificate) &&
		  lay_java(view, certificate, err);
	X509_free(certificate);
	return ok;
}
