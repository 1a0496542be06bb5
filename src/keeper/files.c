/* files.c - what a worker reads at its start; the keeper opens it, since the worker can't */

#include "keeper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/log.h>

/* A hosts file that blocks advertisers has a few megabytes. */
enum { RESOLVER_FILE_BYTES = 8 * 1024 * 1024, ROOTS_FILE_BYTES = 16 * 1024 * 1024 };

/* Where distributions keep the system's roots, as one PEM file. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt",		     /* Debian, Arch, Gentoo */
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora */
	"/etc/ssl/ca-bundle.pem",			     /* openSUSE */
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/cert.pem", /* Alpine */
};

static int open_regular(const char *path)
{
	kh_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		return -1;
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	return kh_steal_fd(&fd);
}

/* Its first certificate is enough; the worker reads them all. */
static bool holds_certificate(int fd, const char *path, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf pem;
	kh_buf_init(&pem, ROOTS_FILE_BYTES);
	if (!kh_file_read_fd(fd, &pem, err))
		return kh_err_wrap(err, "upstream.ca_file %s", kh_esc_str(path));
	BIO *bio = BIO_new_mem_buf(kh_buf_view(&pem).ptr, (int)kh_buf_len(&pem));
	X509 *cert = bio ? PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL) : NULL;
	bool found = cert != NULL;
	X509_free(cert);
	BIO_free(bio);
	ERR_clear_error();
	return found || kh_err_set(err, KH_ERR_CONFIG,
				   "upstream.ca_file %s: it contains no certificate in PEM",
				   kh_esc_str(path));
}

static int open_roots(const char *path, struct kh_err *err)
{
	kh_auto_close int fd = open_regular(path);
	if (fd < 0)
		kh_err_sys(err, KH_ERR_CONFIG, errno, "upstream.ca_file %s", kh_esc_str(path));
	return fd >= 0 && holds_certificate(fd, path, err) ? kh_steal_fd(&fd) : -1;
}

bool kh_roots_look(const char *path, struct kh_err *err)
{
	kh_auto_close int fd = open_roots(path, err);
	return fd >= 0;
}

bool kh_roots_open(const struct kh_config *config, int fds[KH_ROOTS_MOST], unsigned *n,
		   struct kh_err *err)
{
	*n = 0;
	for (size_t i = 0;
	     config->upstream_system_roots && *n == 0 && i < sizeof(bundles) / sizeof(bundles[0]);
	     i++) {
		int fd = open_regular(bundles[i]);
		if (fd >= 0)
			fds[(*n)++] = fd;
	}
	if (config->upstream_ca_file) {
		int fd = open_roots(config->upstream_ca_file, err);
		if (fd < 0) {
			while (*n > 0)
				(void)close(fds[--*n]);
			return false;
		}
		fds[(*n)++] = fd;
	}
	if (*n == 0)
		kh_log_warn("no trust roots: every TLS connection to an upstream will fail "
			    "(install ca-certificates, or set upstream.ca_file)");
	return true;
}

static int sealed_copy(const char *path, struct kh_err *err)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	kh_buf_init(&text, RESOLVER_FILE_BYTES);
	struct kh_err why = KH_ERR_INIT;
	if (!kh_file_read(path, &text, &why) && why.sys != ENOENT)
		kh_log_warn("%s; going on without it", why.text);
	return kh_file_sealed(path, kh_buf_view(&text), err);
}

bool kh_resolver_files(int fds[2], struct kh_err *err)
{
	fds[0] = sealed_copy("/etc/resolv.conf", err);
	fds[1] = fds[0] >= 0 ? sealed_copy("/etc/hosts", err) : -1;
	if (fds[1] >= 0)
		return true;
	if (fds[0] >= 0)
		(void)close(fds[0]);
	return false;
}
