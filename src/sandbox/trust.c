/*
 * trust.c - puts the proxy's CA into each place where clients look for it
 *
 * Most clients find it by variables (env.c). wget, apt, programs with GnuTLS, and programs that
 * clear their environment read the system's store. So the CA is added to the system's bundle, at
 * each usual path, to the folder of single certificates under its subject's hash, and to a PKCS#12
 * store for Java.
 */
#include <string.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <keyhole/tls/ca.h>
#include <keyhole/base/file.h>

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
		kh_auto_close int fd = kh_root_open(rootfs ? rootfs : "/", bundles[i]);
		if (fd >= 0 && kh_file_read_fd(fd, out, NULL))
			return;
		kh_buf_clear(out);
	}
}

static bool plan_bundle(struct kh_view *view, const struct kh_sandbox_spec *spec,
			struct kh_err *err)
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

/* OpenSSL finds a certificate in a folder by its subject's hash; the file may hold others too, so
 * each has one of its own. */
static bool plan_hash(struct kh_view *view, X509 *certificate, struct kh_err *err)
{
	kh_auto_free char *path =
		kh_strf("/etc/ssl/certs/%08lx.0", X509_subject_name_hash(certificate));
	BIO *bio = BIO_new(BIO_s_mem());
	char *text = NULL;
	bool ok = path && bio && PEM_write_bio_X509(bio, certificate) == 1;
	long len = ok ? BIO_get_mem_data(bio, &text) : 0;
	ok = len > 0 && kh_view_file(view, path, 0644, kh_slice_of(text, (size_t)len), err);
	BIO_free(bio);
	return ok;
}

static bool plan_java(struct kh_view *view, const struct kh_buf *ders, struct kh_err *err)
{
	struct kh_buf store kh_cleanup(kh_buf_fini);
	kh_buf_init(&store, P12_MOST_BYTES);
	if (!kh_ca_pkcs12_from_der(kh_buf_view(ders), &store, err) ||
	    !kh_view_file(view, KH_SANDBOX_P12, 0644, kh_buf_view(&store), err))
		return false;
	for (size_t i = 0; i < sizeof(java_stores) / sizeof(java_stores[0]); i++)
		kh_view_link(view, KH_SANDBOX_P12, java_stores[i]);
	return true;
}

/* Each of them; while the CA is changed there are two. */
static bool plan_each(struct kh_view *view, const char *pem, struct kh_buf *ders,
		      struct kh_err *err)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	X509 *certificate;
	bool ok = bio != NULL;
	while (ok && (certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
		unsigned char *der = NULL;
		int len = i2d_X509(certificate, &der);
		ok = len > 0 && kh_buf_append(ders, der, (size_t)len) &&
		     plan_hash(view, certificate, err);
		OPENSSL_free(der);
		X509_free(certificate);
	}
	ERR_clear_error(); /* of the text's end */
	BIO_free(bio);
	if (ok && kh_buf_len(ders) > 0)
		return true;
	return (err && err->code != KH_ERR_NONE)
		       ? false
		       : kh_err_set(err, KH_ERR_INTERNAL, "the CA certificate can't be read");
}

bool kh_trust_plan(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	struct kh_buf ders kh_cleanup(kh_buf_fini);
	kh_buf_init(&ders, P12_MOST_BYTES);
	if (!spec->ca_pem)
		return true;
	return plan_bundle(view, spec, err) && plan_each(view, spec->ca_pem, &ders, err) &&
	       plan_java(view, &ders, err);
}
