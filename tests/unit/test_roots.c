/* test_roots.c - trust roots that are read when they are asked for */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <keyhole/base/log.h>
#include <tls/roots_internal.h>

static void add(X509 *cert, X509V3_CTX *ctx, int nid, const char *value)
{
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, ctx, nid, value);
	assert_non_null(ext);
	X509_add_ext(cert, ext, -1);
	X509_EXTENSION_free(ext);
}

/* By its identifier a key is told from another of the same name. */
static void extend(X509 *cert, X509V3_CTX *ctx, const X509 *issuer)
{
	add(cert, ctx, NID_basic_constraints, issuer ? "CA:FALSE" : "CA:TRUE");
	if (!issuer)
		add(cert, ctx, NID_subject_key_identifier, "hash");
	else if (X509_get_version(issuer) == X509_VERSION_3)
		add(cert, ctx, NID_authority_key_identifier, "keyid:always");
}

static X509 *make(const char *name, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key, long version)
{
	X509 *cert = X509_new();
	X509V3_CTX ctx;
	X509_set_version(cert, version);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 7);
	X509_gmtime_adj(X509_getm_notBefore(cert), -100);
	X509_gmtime_adj(X509_getm_notAfter(cert), 10000);
	X509_set_pubkey(cert, key);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
				   (const unsigned char *)name, -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert));
	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer ? issuer : cert, cert, NULL, NULL, 0);
	if (version == X509_VERSION_3)
		extend(cert, &ctx, issuer);
	assert_true(X509_sign(cert, issuer_key, EVP_sha256()) > 0);
	return cert;
}

/* A CA, and a leaf of its. */
struct family {
	EVP_PKEY *key;
	X509 *root, *leaf;
};

static struct family family_of(const char *name)
{
	struct family f = { .key = EVP_EC_gen("P-256") };
	f.root = make(name, f.key, NULL, f.key, X509_VERSION_3);
	f.leaf = make("leaf", f.key, f.root, f.key, X509_VERSION_3);
	return f;
}

static void family_free(struct family *f)
{
	EVP_PKEY_free(f->key);
	X509_free(f->root);
	X509_free(f->leaf);
}

/* ---- a file of roots ---- */

static void write_pem(FILE *file, X509 *cert)
{
	assert_int_equal(PEM_write_X509(file, cert), 1);
}

/* A certificate of this subject whose key is of no form: its subject can be read, it can't. */
static void write_hollow(FILE *file, const X509 *cert)
{
	unsigned char *der = NULL;
	int len = i2d_X509(cert, &der);
	/* The BIT STRING of P-256's point: 03 42 00 04. Its length made one too long. */
	unsigned char *key = memmem(der, (size_t)len, "\x03\x42\x00\x04", 4);
	assert_non_null(key);
	key[0] = 0x1e;
	assert_true(PEM_write(file, PEM_STRING_X509, "", der, len) > 0);
	OPENSSL_free(der);
}

struct file {
	int fd;
	FILE *stream;
};

static struct file file_new(void)
{
	struct file f = { .fd = memfd_create("roots", MFD_CLOEXEC) };
	f.stream = fdopen(dup(f.fd), "w");
	assert_non_null(f.stream);
	return f;
}

static struct kh_roots *load(struct file *files, unsigned n)
{
	struct kh_roots *roots = kh_roots_new();
	struct kh_err err = KH_ERR_INIT;
	int fds[4];
	for (unsigned i = 0; i < n; i++) {
		fclose(files[i].stream);
		fds[i] = files[i].fd;
	}
	if (!kh_roots_load(roots, fds, n, &err))
		fail_msg("%s", err.text);
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
	return roots;
}

static bool verifies(struct kh_roots *roots, X509 *leaf)
{
	unsigned long generation;
	X509_STORE *store = kh_roots_get(roots, &generation);
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	bool ok = X509_STORE_CTX_init(ctx, store, leaf, NULL) == 1 && X509_verify_cert(ctx) == 1;
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	ERR_clear_error();
	return ok;
}

static int n_read(struct kh_roots *roots)
{
	unsigned long generation;
	X509_STORE *store = kh_roots_get(roots, &generation);
	int n = sk_X509_OBJECT_num(X509_STORE_get0_objects(store));
	X509_STORE_free(store);
	return n;
}

/* ---- */

static void test_a_root_is_read_when_a_chain_leads_to_it(void **state)
{
	struct family a = family_of("a"), b = family_of("b"), c = family_of("c"),
		      stranger = family_of("stranger");
	struct file file = file_new();
	(void)state;
	write_pem(file.stream, a.root);
	write_pem(file.stream, b.root);
	write_pem(file.stream, c.root);
	struct kh_roots *roots = load(&file, 1);
	assert_int_equal(n_read(roots), 1); /* the first says that the file is one of roots */
	assert_false(verifies(roots, stranger.leaf));
	assert_int_equal(n_read(roots), 1);
	for (int i = 0; i < 3; i++) {
		assert_true(verifies(roots, c.leaf));
		assert_int_equal(n_read(roots), 2);
	}
	assert_true(verifies(roots, a.leaf));
	assert_true(verifies(roots, b.leaf));
	assert_int_equal(n_read(roots), 3);
	kh_roots_free(roots);
	family_free(&a);
	family_free(&b);
	family_free(&c);
	family_free(&stranger);
}

static void test_of_several_with_one_subject_each_is_found(void **state)
{
	struct family first = family_of("one name"), second = family_of("one name"),
		      third = family_of("One  NAME"), other = family_of("other"),
		      stranger = family_of("one name");
	struct file files[2] = { file_new(), file_new() };
	(void)state;
	write_pem(files[0].stream, other.root);
	write_pem(files[0].stream, first.root);
	write_pem(files[0].stream, third.root); /* equal by RFC 5280 §7.1 */
	write_pem(files[1].stream, second.root);
	write_pem(files[1].stream, first.root); /* and once more */
	struct kh_roots *roots = load(files, 2);
	assert_true(verifies(roots, third.leaf));
	assert_true(verifies(roots, second.leaf));
	assert_true(verifies(roots, first.leaf));
	assert_true(verifies(roots, other.leaf));
	/* The name alone is not enough. */
	assert_false(verifies(roots, stranger.leaf));
	assert_int_equal(n_read(roots), 4);
	kh_roots_free(roots);
	family_free(&first);
	family_free(&second);
	family_free(&third);
	family_free(&other);
	family_free(&stranger);
}

static void test_one_that_cannot_be_read_is_left_out_and_no_other(void **state)
{
	struct family a = family_of("a"), b = family_of("b"), c = family_of("c");
	struct file file = file_new();
	(void)state;
	kh_log_set_level(KH_LOG_ERROR);
	write_hollow(file.stream, a.root); /* at the head of the file */
	write_pem(file.stream, b.root);
	write_hollow(file.stream, c.root); /* found out when it is asked for */
	write_hollow(file.stream, b.root); /* with the subject of one that is well */
	fputs("-----BEGIN CERTIFICATE-----\nMAIwAA==\n-----END CERTIFICATE-----\n", file.stream);
	fputs("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", file.stream);
	fputs("-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n", file.stream);
	struct kh_roots *roots = load(&file, 1);
	assert_false(verifies(roots, a.leaf));
	assert_false(verifies(roots, c.leaf));
	assert_false(verifies(roots, c.leaf));
	assert_true(verifies(roots, b.leaf));
	assert_int_equal(n_read(roots), 1);
	kh_roots_free(roots);
	family_free(&a);
	family_free(&b);
	family_free(&c);
}

static void test_a_root_of_version_1_is_found(void **state)
{
	struct family filler = family_of("filler"), old = { .key = EVP_EC_gen("P-256") };
	struct file file = file_new();
	(void)state;
	old.root = make("old", old.key, NULL, old.key, X509_VERSION_1);
	old.leaf = make("leaf", old.key, old.root, old.key, X509_VERSION_3);
	write_pem(file.stream, filler.root);
	write_pem(file.stream, old.root);
	struct kh_roots *roots = load(&file, 1);
	assert_true(verifies(roots, old.leaf));
	kh_roots_free(roots);
	family_free(&filler);
	family_free(&old);
}

/* Threads that ask for the same roots for the first time, at once. */
enum { N_FAMILIES = 8, N_THREADS = 4 };
static struct family families[N_FAMILIES];

static void *verify_all(void *roots)
{
	size_t refused = 0;
	for (int i = 0; i < N_FAMILIES; i++)
		refused += !verifies(roots, families[i].leaf);
	return (void *)refused;
}

static void test_threads_may_ask_for_the_same_root_at_once(void **state)
{
	struct file file = file_new();
	char name[16];
	(void)state;
	for (int i = 0; i < N_FAMILIES; i++) {
		(void)snprintf(name, sizeof(name), "ca %d", i);
		families[i] = family_of(name);
		write_pem(file.stream, families[i].root);
	}
	struct kh_roots *roots = load(&file, 1);
	pthread_t threads[N_THREADS];
	for (int i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, verify_all, roots), 0);
	for (int i = 0; i < N_THREADS; i++) {
		void *refused = roots;
		pthread_join(threads[i], &refused);
		assert_null(refused);
	}
	assert_int_equal(n_read(roots), N_FAMILIES);
	kh_roots_free(roots);
	for (int i = 0; i < N_FAMILIES; i++)
		family_free(&families[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_root_is_read_when_a_chain_leads_to_it),
		cmocka_unit_test(test_of_several_with_one_subject_each_is_found),
		cmocka_unit_test(test_one_that_cannot_be_read_is_left_out_and_no_other),
		cmocka_unit_test(test_a_root_of_version_1_is_found),
		cmocka_unit_test(test_threads_may_ask_for_the_same_root_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
