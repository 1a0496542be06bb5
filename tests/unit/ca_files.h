/* ca_files.h - a folder with a CA in it, and what is asked of it */
#ifndef KEYHOLE_TESTS_CA_FILES_H
#define KEYHOLE_TESTS_CA_FILES_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/x509v3.h>

#include <keyhole/tls/ca.h>
#include <keyhole/base/file.h>
#include <keyhole/tls/tls.h>

static char folder[64];
static char *cert_path, *key_path;

/* Runs a program. Return: its exit status; 127 where it is missing. */
static inline int run(const char *const *argv, char *output, size_t size)
{
	int out[2];
	size_t len = 0;
	ssize_t n = 0;
	assert_int_equal(pipe(out), 0);
	pid_t pid = fork();
	if (pid == 0) {
		union {
			const char *const *from;
			char *const *to;
		} unconst = { .from = argv };
		dup2(out[1], 1);
		dup2(out[1], 2);
		close(out[0]);
		execvp(argv[0], unconst.to);
		_exit(127);
	}
	close(out[1]);
	while (output && len + 1 < size && (n = read(out[0], output + len, size - len - 1)) > 0)
		len += (size_t)n;
	if (output)
		output[len] = '\0';
	close(out[0]);
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline int setup(void **state)
{
	(void)state;
	memcpy(folder, "/tmp/kh-ca-XXXXXX", sizeof "/tmp/kh-ca-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	cert_path = kh_strf("%s/ca.pem", folder);
	key_path = kh_strf("%s/ca.key", folder);
	return cert_path && key_path ? 0 : -1;
}

static inline int teardown(void **state)
{
	(void)state;
	free(cert_path);
	free(key_path);
	return run((const char *[]){ "rm", "-rf", "--", folder, NULL }, NULL, 0);
}

static inline X509 *x509_of(struct kh_slice der)
{
	const unsigned char *at = (const unsigned char *)der.ptr;
	X509 *cert = d2i_X509(NULL, &at, (long)der.len);
	assert_non_null(cert);
	return cert;
}

static inline struct kh_ca *must_open(void)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_open(cert_path, key_path, &err);
	if (!ca)
		fail_msg("%s", err.text);
	return ca;
}

/* A certificate of its own key with these extensions, in the two files. */
static inline void store_odd(EVP_PKEY *key, long from_s, long until_s, const char *constraints,
			     const char *usage, bool with_ski)
{
	X509 *cert = X509_new();
	X509V3_CTX ctx;
	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), from_s);
	X509_gmtime_adj(X509_getm_notAfter(cert), until_s);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
				   (const unsigned char *)"odd", -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(cert));
	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
	const struct {
		int nid;
		const char *value;
	} list[] = { { NID_basic_constraints, constraints },
		     { NID_key_usage, usage },
		     { NID_subject_key_identifier, with_ski ? "hash" : NULL } };
	for (size_t i = 0; i < 3; i++) {
		if (!list[i].value)
			continue;
		X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, list[i].nid, list[i].value);
		assert_non_null(ext);
		assert_int_equal(X509_add_ext(cert, ext, -1), 1);
		X509_EXTENSION_free(ext);
	}
	assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
	BIO *bio = BIO_new_file(cert_path, "w");
	assert_int_equal(PEM_write_bio_X509(bio, cert), 1);
	BIO_free_all(bio);
	bio = BIO_new_file(key_path, "w");
	assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
	BIO_free_all(bio);
	assert_int_equal(chmod(key_path, 0600), 0);
	X509_free(cert);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
