/* test_ca.c - the CA's files: made once, kept private, refused where they are odd */
/* wrap: flock */
#include "ca_files.h"

#include <sys/file.h>

static bool locks_fail; /* as on a file system that has none */

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
	if (!locks_fail)
		return __real_flock(fd, operation);
	errno = ENOLCK;
	return -1;
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

static void test_placeholders_are_derived_from_the_key(void **state)
{
	struct kh_placeholder_key keys[KH_MARK_KEYS], one;
	struct kh_ca *ca = must_open();
	(void)state;
	assert_int_equal(kh_ca_placeholder_keys(ca, keys, NULL), 1);
	one = keys[0];
	assert_true(kh_placeholder_key_is_set(&one));
	kh_ca_free(ca);
	ca = must_open();
	assert_int_equal(kh_ca_placeholder_keys(ca, keys, NULL), 1);
	assert_memory_equal(&one, &keys[0], sizeof(one));
	kh_ca_free(ca);
	ca = kh_ca_new(NULL);
	assert_int_equal(kh_ca_placeholder_keys(ca, keys, NULL), 1);
	assert_memory_not_equal(&one, &keys[0], sizeof(one));
	kh_ca_free(ca);
}

static bool is_among(const struct kh_placeholder_key *key, const struct kh_placeholder_key *keys,
		     size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(key, &keys[i], sizeof(*key)) == 0)
			return true;
	return false;
}

static bool announce(struct kh_err *err)
{
	struct kh_ca_change change;
	bool ok = kh_ca_change_begin(&change, cert_path, key_path, err) && !change.overtaken &&
		  kh_ca_announce(&change, err);
	kh_ca_change_end(&change);
	return ok;
}

static bool switch_over(bool keep_old, struct kh_err *err)
{
	struct kh_ca_change change;
	bool ok = kh_ca_change_begin(&change, cert_path, key_path, err) && !change.overtaken &&
		  kh_ca_switch(&change, keep_old, err);
	kh_ca_change_end(&change);
	return ok;
}

static bool retire(struct kh_err *err)
{
	struct kh_ca_change change;
	bool ok = kh_ca_change_begin(&change, cert_path, key_path, err) && !change.overtaken &&
		  kh_ca_retire(&change, err);
	kh_ca_change_end(&change);
	return ok;
}

static void test_placeholders_stay_known_until_the_old_ca_is_retired(void **state)
{
	struct kh_placeholder_key before[KH_MARK_KEYS], keys[KH_MARK_KEYS];
	struct kh_err err = KH_ERR_INIT;
	struct kh_ca *ca = must_open();
	(void)state;
	assert_int_equal(kh_ca_placeholder_keys(ca, before, NULL), 1);
	kh_ca_free(ca);
	assert_true(announce(&err));
	ca = must_open();
	assert_int_equal(kh_ca_placeholder_keys(ca, keys, NULL), 2);
	const struct kh_placeholder_key next = keys[0];
	assert_true(is_among(&before[0], keys + 1, 1));
	kh_ca_free(ca);
	assert_true(switch_over(true, &err));
	ca = must_open();
	assert_int_equal(kh_ca_placeholder_keys(ca, keys, NULL), 2);
	assert_true(is_among(&next, keys, 1)); /* what is derived now stays what it is */
	assert_true(is_among(&before[0], keys + 1, 1));
	kh_ca_free(ca);
	assert_true(retire(&err));
	ca = must_open();
	assert_int_equal(kh_ca_placeholder_keys(ca, keys, NULL), 1);
	assert_true(is_among(&next, keys, 1));
	kh_ca_free(ca);
	assert_int_equal(count_files(), 2);
	/* At once: nothing of the old one is kept. */
	assert_true(announce(&err));
	assert_true(switch_over(false, &err));
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
	assert_true(announce(&err));
	/* The new key can't be put in its place: the old one is whole. */
	assert_int_equal(rename(next_key, aside), 0);
	assert_int_equal(mkdir(next_key, 0700), 0);
	assert_false(switch_over(true, &err));
	assert_int_equal(rmdir(next_key), 0);
	assert_int_equal(rename(aside, next_key), 0);
	kh_ca_free(must_open());
	/* The new key is in its place, the certificate is not. */
	assert_int_equal(rename(next_key, key_path), 0);
	assert_true(switch_over(true, &err));
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

static void test_where_nothing_can_be_locked_the_files_fault_is_still_named(void **state)
{
	(void)state;
	kh_ca_free(must_open());
	assert_int_equal(chmod(key_path, 0644), 0);
	locks_fail = true;
	must_fail("can be read by others");
	assert_int_equal(unlink(cert_path), 0);
	must_fail("can't be locked"); /* nothing else is known yet */
	locks_fail = false;
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
	must_fail("contains no certificate in PEM");
	write_file(cert_path, "", 0644);
	must_fail("contains no certificate in PEM");
	write_file(key_path, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		   0600);
	must_fail("is not a private key in PEM");
	write_file(key_path, "", 0600);
	must_fail("is not a private key in PEM");
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
	must_fail("has a passphrase");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_ca_is_made_once_with_a_private_key_and_opened_again),
		T(test_the_folder_is_made),
		T(test_starts_at_once_make_one_ca),
		T(test_placeholders_are_derived_from_the_key),
		T(test_placeholders_stay_known_until_the_old_ca_is_retired),
		T(test_a_switch_that_was_interrupted_is_finished_by_the_next),
		T(test_a_daemon_that_runs_makes_no_ca),
		T(test_half_a_ca_is_an_error_and_nothing_is_made),
		T(test_a_key_that_others_may_read_is_refused),
		T(test_where_nothing_can_be_locked_the_files_fault_is_still_named),
		T(test_a_key_of_somebody_else_is_refused),
		T(test_files_that_are_no_files_are_refused),
		T(test_garbage_in_the_files_is_refused),
		T(test_an_encrypted_key_is_refused_without_asking_a_terminal),
		T(test_a_key_that_does_not_fit_is_refused),
		T(test_certificates_that_clients_would_not_take_are_refused),
		T(test_a_folder_that_may_not_be_written_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
