/*
 * ca_files.c - where the CA is kept: two files, made together
 *
 * Each file is written under a random name, synced, and linked to its own name, which fails if that
 * name exists by then: nothing is ever overwritten. The key file is created with mode 0600.
 *
 * The lock is a file beside the key that nobody else can open: whoever may open a file or folder,
 * even only to read it, may lock it for as long as they like. The lock file is removed before the
 * lock is released, so whoever gets the lock checks that the file still has its name.
 */
#include "tls_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/hidden.h>
#include <keyhole/base/lock_file.h>
#include <keyhole/tls/private_key.h>

enum { FILE_BYTES = 256 * 1024, LOCK_TRIES = 500, LOCK_PAUSE_US = 20 * 1000 };

static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return strdup(".");
	return slash > path ? kh_slice_dup(kh_slice_of(path, (size_t)(slash - path))) : strdup("/");
}

static bool make_folder(const char *path, mode_t mode, struct kh_err *err)
{
	kh_auto_free char *folder = folder_of(path);
	if (!folder)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
	if (access(folder, F_OK) == 0)
		return true;
	if (!kh_file_mkdirs(folder, mode, err))
		return kh_err_wrap(err, "CA");
	return true;
}

static char *lock_path_of(const char *key_path)
{
	return kh_strf("%s.lock", key_path);
}

static bool still_has_its_name(int fd, const char *path)
{
	struct stat ours, there;
	return fstat(fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_dev == there.st_dev &&
	       ours.st_ino == there.st_ino;
}

/* One try. Return: the descriptor; -1 with errno EWOULDBLOCK where another one holds the lock, and
 * with `err` where there is no use in trying again. */
static int try_lock(const char *path, struct kh_err *err)
{
	struct kh_err why = KH_ERR_INIT;
	kh_auto_close int fd = kh_lock_file_open(path, &why);
	if (fd < 0 && why.sys == EACCES && access(path, F_OK) == 0) {
		errno = EWOULDBLOCK; /* root's, who is about to end */
		return -1;
	}
	if (fd < 0) {
		if (err)
			*err = why;
		kh_err_wrap(err, "CA");
		return -1;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			kh_err_sys(err, KH_ERR_SYSTEM, errno, "CA: %s can't be locked",
				   kh_esc_str(path));
		return -1;
	}
	if (still_has_its_name(fd, path))
		return kh_steal_fd(&fd);
	errno = EWOULDBLOCK;
	return -1;
}

int kh_ca_files_lock(const char *key_path, struct kh_err *err)
{
	struct kh_err why = KH_ERR_INIT;
	kh_auto_free char *path = lock_path_of(key_path);
	if (!path || !make_folder(key_path, 0700, err))
		return -1;
	for (int i = 0; i < LOCK_TRIES; i++) {
		int fd = try_lock(path, &why);
		if (fd >= 0)
			return fd;
		if (why.code) {
			if (err)
				*err = why;
			return -1;
		}
		(void)usleep(LOCK_PAUSE_US);
	}
	kh_err_set(err, KH_ERR_SYSTEM,
		   "CA: another process has held the lock %s for %d seconds (is a change of the CA "
		   "hanging there?)",
		   kh_esc_str(path), LOCK_TRIES * LOCK_PAUSE_US / 1000000);
	return -1;
}

void kh_ca_files_unlock(const char *key_path, int lock)
{
	kh_auto_free char *path = lock_path_of(key_path);
	if (lock < 0)
		return;
	if (path && still_has_its_name(lock, path))
		(void)unlink(path);
	(void)close(lock);
}

/* The key's file: regular, ours or root's, and nobody else's to read. */
static bool check_private(int fd, const char *path, struct kh_err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "CA: %s", kh_esc_str(path));
	if (!S_ISREG(st.st_mode))
		return kh_err_set(err, KH_ERR_CONFIG, "CA: %s is no regular file",
				  kh_esc_str(path));
	if (st.st_mode & 077)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "CA: the key %s can be read by others (mode %04o; chmod 600 it, "
				  "and make a new CA if somebody may have read it)",
				  kh_esc_str(path), (unsigned)(st.st_mode & 07777));
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "CA: the key %s belongs to uid %lu, who can change it (chown it)",
				  kh_esc_str(path), (unsigned long)st.st_uid);
	return true;
}

/* Wiped, since it is the key's too. */
static bool read_pem(const char *path, bool private, struct kh_buf *text, struct kh_err *err)
{
	kh_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_CONFIG, errno, "CA: %s", kh_esc_str(path));
	if (private && !check_private(fd, path, err))
		return false;
	if (!kh_file_read_fd(fd, text, err))
		return kh_err_wrap(err, "CA: %s", kh_esc_str(path));
	return true;
}

/* A daemon has nobody to ask. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	*(bool *)arg = true;
	return -1;
}

static EVP_PKEY *parse_key(const struct kh_buf *text, const char *path, struct kh_err *err)
{
	struct kh_slice view = kh_buf_view(text);
	const char *why;
	kh_hidden_prepare();
	kh_hidden_begin();
	EVP_PKEY *key = kh_private_key_read(view, &why);
	kh_hidden_end();
	if (!key)
		kh_err_set(err, KH_ERR_CONFIG, "CA: %s: %s", kh_esc_str(path), why);
	return key;
}

static X509 *parse_certificate(const struct kh_buf *text, const char *path, struct kh_err *err)
{
	struct kh_slice view = kh_buf_view(text);
	kh_cleanup(BIO_free_all_slot) BIO *bio = BIO_new_mem_buf(view.ptr, (int)view.len);
	bool unused = false;
	X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, no_passphrase, &unused) : NULL;
	if (!cert)
		kh_err_openssl(err, KH_ERR_CONFIG, "CA: %s contains no certificate in PEM",
			       kh_esc_str(path));
	return cert;
}

bool kh_ca_files_load(const char *certificate_path, const char *key_path, EVP_PKEY **key,
		      X509 **certificate, struct kh_err *err)
{
	bool has_certificate = access(certificate_path, F_OK) == 0;
	bool has_key = access(key_path, F_OK) == 0;
	if (has_certificate != has_key)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "CA: %s is there, but %s is not (restore it, or move the first "
				  "away to have a new CA made)",
				  kh_esc_str(has_certificate ? certificate_path : key_path),
				  kh_esc_str(has_certificate ? key_path : certificate_path));

	struct kh_buf text;
	kh_buf_init_wiping(&text, FILE_BYTES);
	*key = NULL;
	*certificate = NULL;
	if (read_pem(key_path, true, &text, err))
		*key = parse_key(&text, key_path, err);
	kh_buf_clear(&text);
	if (*key && read_pem(certificate_path, false, &text, err))
		*certificate = parse_certificate(&text, certificate_path, err);
	kh_buf_fini(&text);
	if (*certificate)
		return true;
	EVP_PKEY_free(*key);
	*key = NULL;
	return false;
}

/* Syncs the folder, so that the name survives the host as the content does. */
static void sync_folder(const char *path)
{
	kh_auto_free char *folder = folder_of(path);
	kh_auto_close int dir = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (dir >= 0)
		(void)fsync(dir);
}

static bool store(const char *path, struct kh_slice content, mode_t mode, struct kh_err *err)
{
	uint64_t number;
	if (!make_folder(path, 0700, err))
		return false;
	if (getrandom(&number, sizeof number, 0) != sizeof number)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "CA: no random number");
	kh_auto_free char *temporary = kh_strf("%s.%016llx", path, (unsigned long long)number);
	if (!temporary)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
	kh_auto_close int fd =
		open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode & 0600);
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "CA: %s", kh_esc_str(temporary));
	bool ok = kh_file_write_all(fd, content, err);
	if (ok && (fchmod(fd, mode) < 0 || fsync(fd) < 0 || link(temporary, path) < 0))
		ok = kh_err_sys(err, KH_ERR_SYSTEM, errno, "CA: %s", kh_esc_str(path));
	(void)unlink(temporary);
	if (ok)
		sync_folder(path);
	return ok;
}

/* The key's text goes through a memory that is wiped. */
static bool store_key(const char *path, EVP_PKEY *key, struct kh_err *err)
{
	char *bytes = NULL;
	kh_cleanup(BIO_free_all_slot) BIO *bio = BIO_new(BIO_s_secmem());
	if (!bio || PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1)
		return kh_err_openssl(err, KH_ERR_INTERNAL, "CA: its key can't be written");
	long len = BIO_get_mem_data(bio, &bytes);
	bool ok = store(path, kh_slice_of(bytes, (size_t)len), 0600, err);
	OPENSSL_cleanse(bytes, (size_t)len);
	return ok;
}

bool kh_ca_files_store(const char *certificate_path, const char *key_path, EVP_PKEY *key,
		       X509 *certificate, struct kh_err *err)
{
	char *bytes = NULL;
	kh_cleanup(BIO_free_all_slot) BIO *bio = BIO_new(BIO_s_mem());
	if (!bio || PEM_write_bio_X509(bio, certificate) != 1)
		return kh_err_openssl(err, KH_ERR_INTERNAL, "CA: its certificate can't be written");
	long len = BIO_get_mem_data(bio, &bytes);
	if (!store_key(key_path, key, err))
		return false;
	if (!store(certificate_path, kh_slice_of(bytes, (size_t)len), 0644, err)) {
		(void)unlink(key_path); /* made a moment ago: half a CA is no CA */
		return false;
	}
	return true;
}
