/*
 * ca_rotate.c - changing the CA so that every client always trusts the one that signs
 *
 *   steady ──announce──▶ announced ──switch──▶ switched ──retire──▶ steady
 *
 * For a while there are more files beside certificate and key. After announce: CERTIFICATE.next and
 * KEY.next; sandboxes that start now trust this CA, which signs nothing yet. After switch:
 * CERTIFICATE.old, which is still trusted and whose key is gone, and KEY.placeholders
 * (ca_placeholder.c). A command reads the state and makes all of its steps under the CA's lock:
 * otherwise two commands that begin together would announce and switch at once. A running daemon
 * takes over a step at its next reload. The switch replaces key and certificate one after the
 * other. A crash in between leaves a pair that does not match, which the next attempt detects and
 * completes.
 */
#include "tls_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

enum { CERTIFICATE_BYTES = 256 * 1024, TRIES = 100 };

static const char *const suffixes[KH_CA_ROLES] = { "", ".next", ".old" };

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static char *beside(const char *path, enum kh_ca_role role)
{
	return kh_strf("%s%s", path, suffixes[role]);
}

/* The one that signs is named by the operator, and may be a link; the others keyhole makes. */
static X509 *read_certificate(const char *path, const char *signs, struct kh_err *err)
{
	struct kh_buf text;
	kh_buf_init(&text, CERTIFICATE_BYTES);
	X509 *cert = NULL;
	bool named = strcmp(path, signs) == 0;
	if (named ? kh_file_read(path, &text, err) : kh_file_read_beside(path, signs, &text, err)) {
		struct kh_slice view = kh_buf_view(&text);
		kh_cleanup(BIO_free_all_slot) BIO *bio = BIO_new_mem_buf(view.ptr, (int)view.len);
		cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
		if (!cert)
			kh_err_openssl(err, KH_ERR_CONFIG, "CA: %s contains no certificate in PEM",
				       kh_esc_str(path));
	}
	kh_buf_fini(&text);
	return cert;
}

/* One more in PEM, and one more in DER. */
static bool append(struct kh_ca_trust *out, X509 *cert)
{
	kh_cleanup(BIO_free_all_slot) BIO *bio = BIO_new(BIO_s_mem());
	char *bytes = NULL;
	size_t len = 0;
	kh_auto_free uint8_t *der = kh_certificate_to_der(cert, &len);
	if (!der || !bio || PEM_write_bio_X509(bio, cert) != 1)
		return false;
	long n = BIO_get_mem_data(bio, &bytes);
	return n > 0 && kh_buf_append(&out->pem, bytes, (size_t)n) &&
	       kh_buf_append(&out->der, der, len);
}

static void note(struct kh_ca_facts *facts, X509 *cert)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	struct tm tm;

	facts->there = true;
	(void)X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, facts->name,
					(int)sizeof(facts->name));
	if (X509_digest(cert, EVP_sha256(), digest, &len) == 1 && len == 32)
		kh_hex_encode(digest, len, facts->sha256);
	if (ASN1_TIME_to_tm(X509_get0_notBefore(cert), &tm) == 1)
		facts->not_before = timegm(&tm);
	if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1)
		facts->not_after = timegm(&tm);
}

void kh_ca_trust_fini(struct kh_ca_trust *trust)
{
	kh_buf_fini(&trust->pem);
	kh_buf_fini(&trust->der);
}

/* Which files they are: each step makes a file, or gives it another name. */
struct state {
	struct {
		ino_t inode; /* 0: not there */
		struct timespec changed;
	} of[KH_CA_ROLES];
};

static struct state state_of(const char *certificate_path)
{
	struct state out = { .of = { { .inode = 0 } } };
	struct stat st;
	for (int role = 0; role < KH_CA_ROLES; role++) {
		kh_auto_free char *path = beside(certificate_path, (enum kh_ca_role)role);
		if (!path || stat(path, &st) != 0)
			continue;
		out.of[role].inode = st.st_ino;
		out.of[role].changed = st.st_ctim;
	}
	return out;
}

static bool same_state(const struct state *a, const struct state *b)
{
	for (int role = 0; role < KH_CA_ROLES; role++)
		if (a->of[role].inode != b->of[role].inode ||
		    a->of[role].changed.tv_sec != b->of[role].changed.tv_sec ||
		    a->of[role].changed.tv_nsec != b->of[role].changed.tv_nsec)
			return false;
	return true;
}

static bool read_trust(struct kh_ca_trust *out, const char *certificate_path, struct kh_err *err)
{
	*out = (struct kh_ca_trust){ .count = 0 };
	kh_buf_init(&out->pem, 4 * CERTIFICATE_BYTES);
	kh_buf_init(&out->der, 4 * CERTIFICATE_BYTES);
	for (int role = 0; role < KH_CA_ROLES; role++) {
		kh_auto_free char *path = beside(certificate_path, (enum kh_ca_role)role);
		if (!path)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
		if (role != KH_CA_SIGNS && !exists(path))
			continue;
		kh_cleanup(X509_free_slot) X509 *cert =
			read_certificate(path, certificate_path, err);
		if (!cert)
			return false;
		struct kh_ca_facts *facts = &out->facts[role];
		note(facts, cert);
		facts->trusted = X509_cmp_current_time(X509_get0_notAfter(cert)) > 0;
		if (!facts->trusted)
			continue;
		if (!append(out, cert))
			return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
		out->count++;
	}
	/* When the old one was put aside: as long as a leaf of it may live it is kept. */
	kh_auto_free char *old = beside(certificate_path, KH_CA_OLD);
	struct stat st;
	if (old && out->facts[KH_CA_OLD].there && stat(old, &st) == 0)
		out->old_until = st.st_mtime + KH_CA_LEAF_S;
	return true;
}

bool kh_ca_trust_read(struct kh_ca_trust *out, const char *certificate_path, struct kh_err *err)
{
	for (int i = 0;; i++) {
		struct kh_err why = KH_ERR_INIT;
		const struct state before = state_of(certificate_path);
		bool ok = read_trust(out, certificate_path, &why);
		const struct state after = state_of(certificate_path);
		if (same_state(&before, &after) || i == TRIES) {
			if (!ok && err)
				*err = why;
			return ok;
		}
		/* A step was made between two files: what was read is of none of both. */
		kh_ca_trust_fini(out);
	}
}

bool kh_ca_change_begin(struct kh_ca_change *out, const char *certificate_path,
			const char *key_path, struct kh_err *err)
{
	const struct state before = state_of(certificate_path);
	*out = (struct kh_ca_change){ .certificate_path = certificate_path,
				      .key_path = key_path,
				      .lock = kh_ca_files_lock(key_path, err) };
	const struct state now = state_of(certificate_path);
	out->overtaken = !same_state(&before, &now);
	return out->lock >= 0;
}

void kh_ca_change_end(struct kh_ca_change *change)
{
	kh_ca_files_unlock(change->key_path, change->lock);
	change->lock = -1;
}

bool kh_ca_announce(const struct kh_ca_change *change, struct kh_err *err)
{
	kh_auto_free char *next = beside(change->certificate_path, KH_CA_NEXT);
	kh_auto_free char *next_key = beside(change->key_path, KH_CA_NEXT);
	if (!next || !next_key)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
	if (!kh_ca_files_check(change->certificate_path, change->key_path, err))
		return false;
	/* Half of one that was begun: nobody has seen it. */
	if (exists(next_key) && !exists(next) && unlink(next_key) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "CA: %s", kh_esc_str(next_key));
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;
	if (!kh_ca_make(&key, &cert, err))
		return false;
	bool ok = kh_ca_files_store(next, next_key, key, cert, err);
	EVP_PKEY_free(key);
	X509_free(cert);
	return ok;
}

/* The bytes on the disk as well, as far as the file system does that. */
static void overwrite(int fd)
{
	struct stat st;
	static const char zeros[4096];
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		for (off_t left = st.st_size; left > 0;) {
			size_t n = left < (off_t)sizeof(zeros) ? (size_t)left : sizeof(zeros);
			if (!kh_file_write_all(fd, kh_slice_of(zeros, n), NULL))
				break;
			left -= (off_t)n;
		}
	if (fd >= 0)
		(void)fsync(fd);
}

/* What of the one that signs now outlives it. */
static bool keep(const char *certificate_path, const char *key_path, const char *old,
		 struct kh_err *err)
{
	EVP_PKEY *key = NULL;
	X509 *cert = NULL;
	struct kh_buf text;

	if (!kh_ca_files_load(certificate_path, key_path, &key, &cert, err))
		return false;
	X509_free(cert);
	bool ok = kh_ca_old_placeholder_write(key_path, key, err);
	EVP_PKEY_free(key);
	kh_buf_init(&text, CERTIFICATE_BYTES);
	ok = ok && kh_file_read(certificate_path, &text, err) &&
	     kh_file_write(old, kh_buf_view(&text), 0644, err);
	kh_buf_fini(&text);
	return ok;
}

bool kh_ca_switch(const struct kh_ca_change *change, bool keep_old, struct kh_err *err)
{
	const char *certificate_path = change->certificate_path, *key_path = change->key_path;
	kh_auto_free char *next = beside(certificate_path, KH_CA_NEXT);
	kh_auto_free char *next_key = beside(key_path, KH_CA_NEXT);
	kh_auto_free char *old = beside(certificate_path, KH_CA_OLD);
	if (!next || !next_key || !old)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
	if (!exists(next))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "CA: there is no next one to change to (begin with `keyhole ca "
				  "rotate`)");
	if (exists(next_key)) {
		if (keep_old ? !keep(certificate_path, key_path, old, err)
			     : !kh_ca_old_placeholder_remove(key_path, err))
			return false;
		if (!keep_old)
			(void)unlink(old);
		/* Its name goes to the next one first: an end in between leaves a pair that the
		 * next try can finish. */
		kh_auto_close int old_key = open(key_path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
		if (rename(next_key, key_path) != 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "CA: %s",
					  kh_esc_str(key_path));
		overwrite(old_key);
	}
	if (rename(next, certificate_path) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "CA: %s",
				  kh_esc_str(certificate_path));
	return true;
}

bool kh_ca_retire(const struct kh_ca_change *change, struct kh_err *err)
{
	kh_auto_free char *old = beside(change->certificate_path, KH_CA_OLD);
	if (!old)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
	if (unlink(old) != 0 && errno != ENOENT)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "CA: %s", kh_esc_str(old));
	return kh_ca_old_placeholder_remove(change->key_path, err);
}

bool kh_ca_next_load(const char *certificate_path, const char *key_path, EVP_PKEY **key,
		     struct kh_err *err)
{
	kh_auto_free char *next = beside(certificate_path, KH_CA_NEXT);
	kh_auto_free char *next_key = beside(key_path, KH_CA_NEXT);
	X509 *cert = NULL;
	*key = NULL;
	if (!next || !next_key)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
	if (!exists(next) || !exists(next_key))
		return true;
	if (!kh_ca_files_load(next, next_key, key, &cert, err))
		return false;
	X509_free(cert);
	return true;
}
