/* test_ca.c - the certificate authority: its files, its leaves, its trust stores */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/x509v3.h>

#include <keyhole/authority.h>
#include <keyhole/file.h>
#include <keyhole/tls.h>

static char folder[64];
static char *cert_path, *key_path;

/* Runs a program. Return: its exit status; 127 where it is missing. */
static int run(const char *const *argv, char *output, size_t size)
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

static int setup(void **state)
{
	(void)state;
	memcpy(folder, "/tmp/kh-ca-XXXXXX", sizeof "/tmp/kh-ca-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	cert_path = kh_strf("%s/ca.pem", folder);
	key_path = kh_strf("%s/ca.key", folder);
	return cert_path && key_path ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(cert_path);
	free(key_path);
	return run((const char *[]){ "rm", "-rf", "--", folder, NULL }, NULL, 0);
}

static struct kh_host host_of(const char *text)
{
	struct kh_host host;
	assert_true(kh_host_parse(&host, kh_slice_str(text), NULL));
	return host;
}

static X509 *x509_of(struct kh_slice der)
{
	const unsigned char *at = (const unsigned char *)der.ptr;
	X509 *cert = d2i_X509(NULL, &at, (long)der.len);
	assert_non_null(cert);
	return cert;
}

static struct kh_ca *must_open(void)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_open(cert_path, key_path, &err);
	if (!ca)
		fail_msg("%s", err.text);
	return ca;
}

static void must_fail(const char *words)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_open(cert_path, key_path, &err);
	if (ca)
		fail_msg("opened, though: %s", words);
	if (!strstr(err.text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, err.text);
	assert_int_equal(ERR_peek_error(), 0); /* nothing is left for somebody else to trip over */
}

static mode_t mode_of(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static unsigned count_files(void)
{
	char output[4096];
	unsigned lines = 0;
	assert_int_equal(run((const char *[]){ "ls", "-A", folder, NULL }, output, sizeof output),
			 0);
	for (const char *at = output; (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	return lines;
}

/* ---- files ---- */

static void test_a_ca_is_made_once_with_a_private_key_and_opened_again(void **state)
{
	(void)state;
	mode_t old = umask(0);
	struct kh_ca *made = must_open();
	umask(old);
	assert_int_equal(mode_of(key_path), 0600);
	assert_int_equal(mode_of(cert_path), 0644);
	assert_int_equal(count_files(), 2); /* no lock, no temporary file */
	struct kh_ca *again = must_open();
	assert_true(kh_slice_eq(kh_ca_der(made), kh_ca_der(again)));
	assert_true(kh_slice_eq(kh_ca_pem(made), kh_ca_pem(again)));
	kh_ca_free(made);
	kh_ca_free(again);
}

static void test_the_folder_is_made(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	char *c = kh_strf("%s/x/y/ca.pem", folder), *k = kh_strf("%s/x/z/ca.key", folder);
	char *z = kh_strf("%s/x/z", folder);
	(void)state;
	struct kh_ca *ca = kh_ca_open(c, k, &err);
	if (!ca)
		fail_msg("%s", err.text);
	assert_int_equal(mode_of(z), 0700);
	kh_ca_free(ca);
	free(c);
	free(k);
	free(z);
}

static void test_starts_at_once_make_one_ca(void **state)
{
	enum { STARTS = 8 };
	pid_t pids[STARTS];
	int ready[2];
	(void)state;
	assert_int_equal(pipe(ready), 0);
	for (int i = 0; i < STARTS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char go;
			struct kh_err err = KH_ERR_INIT;
			close(ready[1]);
			(void)!read(ready[0], &go, 1);
			struct kh_ca *ca = kh_ca_open(cert_path, key_path, &err);
			/* What each of them has is what the file says. */
			struct kh_buf text;
			kh_buf_init(&text, 65536);
			bool same = ca && kh_file_read(cert_path, &text, &err) &&
				    kh_slice_eq(kh_buf_view(&text), kh_ca_pem(ca));
			_exit(same ? 0 : 1);
		}
	}
	close(ready[0]);
	close(ready[1]);
	for (int i = 0; i < STARTS; i++) {
		int status;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
	assert_int_equal(count_files(), 2);
}

static void test_placeholders_are_drawn_from_the_key(void **state)
{
	struct kh_stand_in_key keys[KH_MARK_KEYS], one;
	struct kh_ca *ca = must_open();
	(void)state;
	assert_int_equal(kh_ca_stand_in_keys(ca, keys, NULL), 1);
	one = keys[0];
	assert_true(kh_stand_in_key_is_set(&one));
	kh_ca_free(ca);
	ca = must_open();
	assert_int_equal(kh_ca_stand_in_keys(ca, keys, NULL), 1);
	assert_memory_equal(&one, &keys[0], sizeof(one));
	kh_ca_free(ca);
	ca = kh_ca_new(NULL);
	assert_int_equal(kh_ca_stand_in_keys(ca, keys, NULL), 1);
	assert_memory_not_equal(&one, &keys[0], sizeof(one));
	kh_ca_free(ca);
}

static bool is_among(const struct kh_stand_in_key *key, const struct kh_stand_in_key *keys,
		     size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(key, &keys[i], sizeof(*key)) == 0)
			return true;
	return false;
}

static void test_placeholders_stay_known_until_the_old_ca_is_retired(void **state)
{
	struct kh_stand_in_key before[KH_MARK_KEYS], keys[KH_MARK_KEYS];
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = must_open();
	(void)state;
	assert_int_equal(kh_ca_stand_in_keys(ca, before, NULL), 1);
	kh_ca_free(ca);
	assert_true(kh_ca_announce(cert_path, key_path, &err));
	ca = must_open();
	assert_int_equal(kh_ca_stand_in_keys(ca, keys, NULL), 2);
	const struct kh_stand_in_key next = keys[0];
	assert_true(is_among(&before[0], keys + 1, 1));
	kh_ca_free(ca);
	assert_true(kh_ca_switch(cert_path, key_path, true, &err));
	ca = must_open();
	assert_int_equal(kh_ca_stand_in_keys(ca, keys, NULL), 2);
	assert_true(is_among(&next, keys, 1)); /* what is drawn now stays what it is */
	assert_true(is_among(&before[0], keys + 1, 1));
	kh_ca_free(ca);
	assert_true(kh_ca_retire(cert_path, key_path, &err));
	ca = must_open();
	assert_int_equal(kh_ca_stand_in_keys(ca, keys, NULL), 1);
	assert_true(is_among(&next, keys, 1));
	kh_ca_free(ca);
	assert_int_equal(count_files(), 2);
	/* At once: nothing of the old one is kept. */
	assert_true(kh_ca_announce(cert_path, key_path, &err));
	assert_true(kh_ca_switch(cert_path, key_path, false, &err));
	assert_int_equal(count_files(), 2);
}

static void test_a_switch_that_was_interrupted_is_finished_by_the_next(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	char next_key[PATH_MAX + 8], aside[PATH_MAX + 8];
	(void)state;
	(void)snprintf(next_key, sizeof(next_key), "%s.next", key_path);
	(void)snprintf(aside, sizeof(aside), "%s.aside", key_path);
	kh_ca_free(must_open());
	assert_true(kh_ca_announce(cert_path, key_path, &err));
	/* The new key can't be put in its place: the old one is whole. */
	assert_int_equal(rename(next_key, aside), 0);
	assert_int_equal(mkdir(next_key, 0700), 0);
	assert_false(kh_ca_switch(cert_path, key_path, true, &err));
	assert_int_equal(rmdir(next_key), 0);
	assert_int_equal(rename(aside, next_key), 0);
	kh_ca_free(must_open());
	/* The new key is in its place, the certificate is not. */
	assert_int_equal(rename(next_key, key_path), 0);
	assert_true(kh_ca_switch(cert_path, key_path, true, &err));
	kh_ca_free(must_open());
}

static void test_a_daemon_that_runs_makes_no_ca(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	assert_null(kh_ca_load(cert_path, key_path, &err));
	assert_non_null(strstr(err.text, "neither"));
	assert_int_equal(count_files(), 0);
	kh_ca_free(must_open());
	struct kh_ca *ca = kh_ca_load(cert_path, key_path, &err);
	assert_non_null(ca);
	kh_ca_free(ca);
}

static void test_half_a_ca_is_an_error_and_nothing_is_made(void **state)
{
	(void)state;
	kh_ca_free(must_open());
	assert_int_equal(unlink(key_path), 0);
	must_fail("ca.key is not (restore it");
	assert_int_equal(access(key_path, F_OK), -1);
	assert_int_equal(unlink(cert_path), 0);
	kh_ca_free(must_open());
	assert_int_equal(unlink(cert_path), 0);
	must_fail("ca.pem is not (restore it");
	assert_int_equal(access(cert_path, F_OK), -1);
}

static void test_a_key_that_others_may_read_is_refused(void **state)
{
	static const mode_t modes[] = { 0640, 0604, 0660, 0644, 0601, 0620 };
	(void)state;
	kh_ca_free(must_open());
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		assert_int_equal(chmod(key_path, modes[i]), 0);
		must_fail("can be read by others");
	}
	assert_int_equal(chmod(key_path, 0400), 0);
	kh_ca_free(must_open());
}

static void test_a_key_of_somebody_else_is_refused(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root can give a file away\n");
		skip();
	}
	kh_ca_free(must_open());
	assert_int_equal(chown(key_path, 12345, (gid_t)-1), 0);
	must_fail("belongs to uid 12345");
}

static void test_files_that_are_no_files_are_refused(void **state)
{
	(void)state;
	kh_ca_free(must_open());
	assert_int_equal(unlink(key_path), 0);
	assert_int_equal(mkfifo(key_path, 0600), 0);
	must_fail("no regular file"); /* and does not wait for a writer */
	assert_int_equal(unlink(key_path), 0);
	assert_int_equal(mkdir(key_path, 0700), 0);
	must_fail("no regular file");
}

static void test_garbage_in_the_files_is_refused(void **state)
{
	(void)state;
	kh_ca_free(must_open());
	write_file(cert_path, "not a certificate\n", 0644);
	must_fail("holds no certificate in PEM");
	write_file(cert_path, "", 0644);
	must_fail("holds no certificate in PEM");
	write_file(key_path, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		   0600);
	must_fail("holds no private key in PEM");
	write_file(key_path, "", 0600);
	must_fail("holds no private key in PEM");
}

static void test_an_encrypted_key_is_refused_without_asking_a_terminal(void **state)
{
	(void)state;
	kh_ca_free(must_open());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	BIO *bio = BIO_new_file(key_path, "w");
	assert_int_equal(
		PEM_write_bio_PKCS8PrivateKey(bio, key, EVP_aes_256_cbc(), "secret", 6, NULL, NULL),
		1);
	BIO_free_all(bio);
	EVP_PKEY_free(key);
	must_fail("is encrypted");
}

static void test_a_key_that_does_not_fit_is_refused(void **state)
{
	(void)state;
	kh_ca_free(must_open());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	BIO *bio = BIO_new_file(key_path, "w");
	assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
	BIO_free_all(bio);
	EVP_PKEY_free(key);
	must_fail("is not the one of the certificate");
}

/* A certificate of its own key with these extensions, in the two files. */
static void store_odd(EVP_PKEY *key, long from_s, long until_s, const char *constraints,
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

static void test_certificates_that_clients_would_not_take_are_refused(void **state)
{
	EVP_PKEY *key = EVP_EC_gen("P-256"), *small = EVP_RSA_gen(1024);
	(void)state;
	store_odd(key, -100, 100000, "critical,CA:TRUE", "critical,keyCertSign", true);
	kh_ca_free(must_open());
	store_odd(key, -100, 100000, "critical,CA:FALSE", "critical,keyCertSign", true);
	must_fail("is no CA certificate");
	store_odd(key, -100, 100000, NULL, "critical,keyCertSign", true);
	must_fail("is no CA certificate");
	store_odd(key, -100, 100000, "critical,CA:TRUE", "critical,digitalSignature", true);
	must_fail("is no CA certificate");
	store_odd(key, -100, 100000, "critical,CA:TRUE", NULL, true);
	must_fail("is no CA certificate");
	store_odd(key, -100, 100000, "critical,CA:TRUE", "critical,keyCertSign", false);
	must_fail("subject key identifier");
	store_odd(key, -1000, -100, "critical,CA:TRUE", "critical,keyCertSign", true);
	must_fail("has expired");
	store_odd(key, 1000, 10000, "critical,CA:TRUE", "critical,keyCertSign", true);
	must_fail("is not valid yet");
	store_odd(small, -100, 100000, "critical,CA:TRUE", "critical,keyCertSign", true);
	must_fail("neither EC nor RSA of at least 2048 bits");
	EVP_PKEY_free(key);
	EVP_PKEY_free(small);
}

static void test_a_folder_that_may_not_be_written_is_an_error(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	(void)state;
	assert_null(kh_ca_open("/proc/self/ca.pem", "/proc/self/ca.key", &err));
	assert_non_null(strstr(err.text, "/proc/self"));
}

/* ---- the certificate ---- */

static void test_the_ca_is_what_strict_clients_ask_for(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err), *other = kh_ca_new(&err);
	char name[128], others_name[128];
	int days = 0, seconds = 0;
	(void)state;
	X509 *cert = x509_of(kh_ca_der(ca)), *others = x509_of(kh_ca_der(other));
	assert_int_equal(X509_check_ca(cert), 1);
	assert_int_equal(X509_get_pathlen(cert), 0);
	assert_int_equal(X509_get_key_usage(cert), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
	assert_non_null(X509_get0_subject_key_id(cert));
	assert_int_equal(EVP_PKEY_get_bits(X509_get0_pubkey(cert)), 256);
	assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert)), 1);
	assert_in_range(days, 3650, 3653);
	assert_true(X509_cmp_current_time(X509_get0_notBefore(cert)) < 0);
	X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, sizeof name);
	X509_NAME_get_text_by_NID(X509_get_subject_name(others), NID_commonName, others_name,
				  sizeof others_name);
	assert_int_equal(strncmp(name, "keyhole CA ", 11), 0);
	assert_int_equal(strlen(name), 11 + 16);
	assert_string_not_equal(name, others_name);
	X509_free(cert);
	X509_free(others);
	kh_ca_free(ca);
	kh_ca_free(other);
}

/* ---- leaves ---- */

static X509 *sign(const struct kh_ca *ca, const struct kh_leaves *leaves, const char *name)
{
	struct kh_host host = host_of(name);
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf der;
	kh_buf_init(&der, 8192);
	if (!kh_ca_sign(ca, kh_leaves_spki(leaves), &host, &der, &err))
		fail_msg("%s", err.text);
	X509 *leaf = x509_of(kh_buf_view(&der));
	kh_buf_fini(&der);
	return leaf;
}

/* X509_V_FLAG_X509_STRICT, server purpose, and the host. */
static int verify(struct kh_slice ca_der, X509 *leaf, const struct kh_host *host)
{
	X509 *ca = x509_of(ca_der);
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_STORE_add_cert(store, ca);
	X509_STORE_CTX_init(ctx, store, leaf, NULL);
	X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
	X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);
	X509_VERIFY_PARAM_set_purpose(param, X509_PURPOSE_SSL_SERVER);
	if (host->kind == KH_HOST_NAME)
		X509_VERIFY_PARAM_set1_host(param, host->text, host->len);
	else
		X509_VERIFY_PARAM_set1_ip(param, host->addr, host->kind == KH_HOST_IPV4 ? 4 : 16);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	(void)X509_verify_cert(ctx);
	int result = X509_STORE_CTX_get_error(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	X509_free(ca);
	return result;
}

static const char long_name[] =
	"a-rather-long-label-of-a-resource.and-another-one-in-front-of-it.example.com";

static void test_leaves_verify_strictly_for_names_and_addresses(void **state)
{
	static const char *const names[] = { "api.example.com",		"127.0.0.1", "2001:db8::1",
					     "under_score.example.com", long_name,   "localhost" };
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_leaves *leaves = kh_leaves_new(&err);
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct kh_host host = host_of(names[i]), wrong = host_of("wrong.example.com");
		X509 *leaf = sign(ca, leaves, names[i]);
		int result = verify(kh_ca_der(ca), leaf, &host);
		if (result != X509_V_OK)
			fail_msg("%s: %s", names[i], X509_verify_cert_error_string((long)result));
		assert_int_not_equal(verify(kh_ca_der(ca), leaf, &wrong), X509_V_OK);
		X509_free(leaf);
	}
	kh_leaves_free(leaves);
	kh_ca_free(ca);
}

static void test_a_leaf_has_the_extensions_that_the_header_promises(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_leaves *leaves = kh_leaves_new(&err);
	(void)state;
	X509 *leaf = sign(ca, leaves, "api.example.com");
	X509 *again = sign(ca, leaves, "api.example.com");
	X509 *issuer = x509_of(kh_ca_der(ca));
	time_t now = time(NULL), hour_back = now - 3600 + 5, bit_more = now - 3600 - 60;
	time_t days29 = now + 29 * 86400, days31 = now + 31 * 86400;
	int critical = -1;

	assert_int_equal(X509_check_ca(leaf), 0);
	assert_int_equal(X509_get_key_usage(leaf), KU_DIGITAL_SIGNATURE);
	assert_int_equal(X509_get_extended_key_usage(leaf), XKU_SSL_SERVER);
	assert_int_equal(ASN1_OCTET_STRING_cmp(X509_get0_authority_key_id(leaf),
					       X509_get0_subject_key_id(issuer)),
			 0);
	assert_non_null(X509_get0_subject_key_id(leaf));
	BASIC_CONSTRAINTS *bc = X509_get_ext_d2i(leaf, NID_basic_constraints, &critical, NULL);
	assert_non_null(bc);
	assert_int_equal(critical, 1);
	BASIC_CONSTRAINTS_free(bc);
	assert_true(X509_cmp_time(X509_get0_notBefore(leaf), &hour_back) < 0);
	assert_true(X509_cmp_time(X509_get0_notBefore(leaf), &bit_more) > 0);
	assert_true(X509_cmp_time(X509_get0_notAfter(leaf), &days29) > 0);
	assert_true(X509_cmp_time(X509_get0_notAfter(leaf), &days31) < 0);
	assert_int_not_equal(
		ASN1_INTEGER_cmp(X509_get0_serialNumber(leaf), X509_get0_serialNumber(again)), 0);
	BIGNUM *serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(leaf), NULL);
	assert_in_range(BN_num_bits(serial), 90, 128);
	assert_false(BN_is_negative(serial));
	BN_free(serial);
	assert_int_equal(X509_get_signature_nid(leaf), NID_ecdsa_with_SHA256);
	X509_free(leaf);
	X509_free(again);
	X509_free(issuer);
	kh_leaves_free(leaves);
	kh_ca_free(ca);
}

static void test_a_name_too_long_for_a_common_name_is_in_a_critical_san(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_leaves *leaves = kh_leaves_new(&err);
	int critical = -1;
	(void)state;
	X509 *leaf = sign(ca, leaves, long_name);
	assert_int_equal(X509_NAME_entry_count(X509_get_subject_name(leaf)), 0);
	GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, &critical, NULL);
	assert_int_equal(sk_GENERAL_NAME_num(names), 1);
	assert_int_equal(critical, 1);
	GENERAL_NAMES_free(names);
	X509_free(leaf);
	kh_leaves_free(leaves);
	kh_ca_free(ca);
}

static void test_a_leaf_never_outlives_the_ca(void **state)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	struct kh_err err = KH_ERR_INIT;
	struct kh_leaves *leaves = kh_leaves_new(&err);
	(void)state;
	store_odd(key, -100, 3 * 86400, "critical,CA:TRUE", "critical,keyCertSign", true);
	struct kh_ca *ca = must_open();
	X509 *issuer = x509_of(kh_ca_der(ca)), *leaf = sign(ca, leaves, "api.example.com");
	assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(leaf), X509_get0_notAfter(issuer)),
			 0);
	assert_int_equal(ASN1_TIME_compare(X509_get0_notBefore(leaf), X509_get0_notBefore(issuer)),
			 0);
	X509_free(issuer);
	X509_free(leaf);
	kh_ca_free(ca);
	kh_leaves_free(leaves);
	EVP_PKEY_free(key);
}

static void test_a_ca_with_an_rsa_key_signs_too(void **state)
{
	EVP_PKEY *key = EVP_RSA_gen(2048);
	struct kh_err err = KH_ERR_INIT;
	struct kh_leaves *leaves = kh_leaves_new(&err);
	struct kh_host host = host_of("api.example.com");
	(void)state;
	store_odd(key, -100, 100000, "critical,CA:TRUE", "critical,keyCertSign", true);
	struct kh_ca *ca = must_open();
	X509 *leaf = sign(ca, leaves, "api.example.com");
	assert_int_equal(verify(kh_ca_der(ca), leaf, &host), X509_V_OK);
	X509_free(leaf);
	kh_ca_free(ca);
	kh_leaves_free(leaves);
	EVP_PKEY_free(key);
}

static void test_a_key_that_is_not_the_workers_kind_is_not_signed(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_host host = host_of("api.example.com"), none = { 0 };
	struct kh_leaves *leaves = kh_leaves_new(&err);
	EVP_PKEY *keys[] = { EVP_RSA_gen(2048), EVP_EC_gen("P-384"),
			     EVP_PKEY_Q_keygen(NULL, NULL, "ED25519") };
	struct kh_buf out;
	(void)state;
	kh_buf_init(&out, 8192);
	for (size_t i = 0; i < 3; i++) {
		unsigned char *spki = NULL;
		int len = i2d_PUBKEY(keys[i], &spki);
		assert_true(len > 0);
		assert_false(kh_ca_sign(ca, kh_slice_of(spki, (size_t)len), &host, &out, &err));
		assert_int_equal(err.code, KH_ERR_LEAF_UNAVAILABLE);
		OPENSSL_free(spki);
		EVP_PKEY_free(keys[i]);
	}
	struct kh_slice good = kh_leaves_spki(leaves);
	assert_false(kh_ca_sign(ca, KH_SLICE(""), &host, &out, &err));
	assert_false(kh_ca_sign(ca, KH_SLICE("garbage"), &host, &out, &err));
	assert_false(kh_ca_sign(ca, kh_slice_sub(good, 0, good.len - 1), &host, &out, &err));
	char longer[256];
	memcpy(longer, good.ptr, good.len);
	longer[good.len] = 0;
	assert_false(kh_ca_sign(ca, kh_slice_of(longer, good.len + 1), &host, &out, &err));
	assert_false(kh_ca_sign(ca, good, &none, &out, &err));
	assert_int_equal(kh_buf_len(&out), 0);
	assert_int_equal(ERR_peek_error(), 0);
	/* Too small a buffer: nothing half. */
	struct kh_buf small;
	kh_buf_init(&small, 10);
	assert_false(kh_ca_sign(ca, good, &host, &small, &err));
	assert_int_equal(err.code, KH_ERR_NO_MEMORY);
	assert_int_equal(kh_buf_len(&small), 0);
	kh_buf_fini(&small);
	kh_buf_fini(&out);
	kh_leaves_free(leaves);
	kh_ca_free(ca);
}

static void test_openssl_verify_agrees_strictly(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = must_open();
	struct kh_leaves *leaves = kh_leaves_new(&err);
	char output[1024];
	(void)state;
	char *leaf_path = kh_strf("%s/leaf.pem", folder);
	X509 *leaf = sign(ca, leaves, "api.example.com");
	BIO *bio = BIO_new_file(leaf_path, "w");
	assert_int_equal(PEM_write_bio_X509(bio, leaf), 1);
	BIO_free_all(bio);
	const char *argv[] = { "openssl",	  "verify",    "-x509_strict",
			       "-purpose",	  "sslserver", "-verify_hostname",
			       "api.example.com", "-CAfile",   cert_path,
			       leaf_path,	  NULL };
	int status = run(argv, output, sizeof output);
	if (status == 127) {
		print_message("skipped: no openssl command here\n");
	} else if (status != 0) {
		fail_msg("%s", output);
	}
	free(leaf_path);
	X509_free(leaf);
	kh_leaves_free(leaves);
	kh_ca_free(ca);
	if (status == 127)
		skip();
}

/* ---- trust stores ---- */

static void test_the_java_trust_store_opens_with_its_password_and_holds_the_ca(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_buf out, from_der;
	STACK_OF(X509) *certs = NULL;
	EVP_PKEY *key = NULL;
	X509 *own = NULL;
	(void)state;
	kh_buf_init(&out, 65536);
	kh_buf_init(&from_der, 65536);
	assert_true(kh_ca_pkcs12(ca, &out, &err));
	assert_true(kh_ca_pkcs12_from_der(kh_ca_der(ca), &from_der, &err));
	assert_int_equal(kh_buf_len(&out), kh_buf_len(&from_der));
	const unsigned char *at = (const unsigned char *)kh_buf_view(&out).ptr;
	PKCS12 *p12 = d2i_PKCS12(NULL, &at, (long)kh_buf_len(&out));
	assert_non_null(p12);
	assert_int_equal(PKCS12_verify_mac(p12, "changeit", -1), 1);
	assert_int_equal(PKCS12_verify_mac(p12, "changedit", -1), 0);
	assert_int_equal(PKCS12_parse(p12, "changeit", &key, &own, &certs), 1);
	assert_null(key);
	assert_int_equal(sk_X509_num(certs), 1);
	X509 *cert = x509_of(kh_ca_der(ca));
	assert_int_equal(X509_cmp(sk_X509_value(certs, 0), cert), 0);
	X509_free(cert);
	sk_X509_pop_free(certs, X509_free);
	PKCS12_free(p12);
	assert_false(kh_ca_pkcs12_from_der(KH_SLICE("no"), &out, &err));
	kh_buf_fini(&out);
	kh_buf_fini(&from_der);
	kh_ca_free(ca);
	ERR_clear_error();
}

static void test_keytool_calls_it_a_trusted_entry(void **state)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = kh_ca_new(&err);
	struct kh_buf out;
	char output[4096];
	char *path = kh_strf("%s/trust.p12", folder);
	(void)state;
	kh_buf_init(&out, 65536);
	assert_true(kh_ca_pkcs12(ca, &out, &err));
	assert_true(kh_file_write(path, kh_buf_view(&out), 0644, &err));
	kh_buf_fini(&out);
	kh_ca_free(ca);
	const char *argv[] = { "keytool",  "-list",	 "-keystore", path, "-storepass",
			       "changeit", "-storetype", "PKCS12",    NULL };
	int status = run(argv, output, sizeof output);
	free(path);
	if (status == 127) {
		print_message("skipped: no keytool here\n");
		skip();
	}
	assert_int_equal(status, 0);
	if (!strstr(output, "trustedCertEntry") || !strstr(output, "keyhole"))
		fail_msg("%s", output);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_ca_is_made_once_with_a_private_key_and_opened_again),
		T(test_the_folder_is_made),
		T(test_starts_at_once_make_one_ca),
		T(test_placeholders_are_drawn_from_the_key),
		T(test_placeholders_stay_known_until_the_old_ca_is_retired),
		T(test_a_switch_that_was_interrupted_is_finished_by_the_next),
		T(test_a_daemon_that_runs_makes_no_ca),
		T(test_half_a_ca_is_an_error_and_nothing_is_made),
		T(test_a_key_that_others_may_read_is_refused),
		T(test_a_key_of_somebody_else_is_refused),
		T(test_files_that_are_no_files_are_refused),
		T(test_garbage_in_the_files_is_refused),
		T(test_an_encrypted_key_is_refused_without_asking_a_terminal),
		T(test_a_key_that_does_not_fit_is_refused),
		T(test_certificates_that_clients_would_not_take_are_refused),
		T(test_a_folder_that_may_not_be_written_is_an_error),
		T(test_the_ca_is_what_strict_clients_ask_for),
		T(test_leaves_verify_strictly_for_names_and_addresses),
		T(test_a_leaf_has_the_extensions_that_the_header_promises),
		T(test_a_name_too_long_for_a_common_name_is_in_a_critical_san),
		T(test_a_leaf_never_outlives_the_ca),
		T(test_a_ca_with_an_rsa_key_signs_too),
		T(test_a_key_that_is_not_the_workers_kind_is_not_signed),
		T(test_openssl_verify_agrees_strictly),
		T(test_the_java_trust_store_opens_with_its_password_and_holds_the_ca),
		T(test_keytool_calls_it_a_trusted_entry),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
