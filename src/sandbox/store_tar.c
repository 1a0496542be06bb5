/* store_tar.c - writes the parts of a view that are not mounts as a tar (POSIX.1-1988, "ustar") */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "sandbox_internal.h"
#include "store.h"

enum { BLOCK = 512 };

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], kind, link[100],
		magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155],
		rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a block of a tar");

/* Docker writes these itself, and mounts them. */
static const char *const dockers[] = { "/etc/hosts", "/etc/hostname", "/etc/resolv.conf" };

bool kh_store_in_tar(const struct kh_mount *m)
{
	for (size_t i = 0; i < sizeof(dockers) / sizeof(dockers[0]); i++)
		if (strcmp(m->target, dockers[i]) == 0)
			return false;
	return m->kind == KH_MOUNT_DIR || m->kind == KH_MOUNT_LINK || m->kind == KH_MOUNT_FILE;
}

static bool write_all(int fd, const void *bytes, size_t n)
{
	return write(fd, bytes, n) == (ssize_t)n;
}

/* Of what begins here: the name without the first slash. */
static bool put_header(int fd, const char *target, char kind, mode_t mode, uint64_t size,
		       const char *link)
{
	struct header h = { .kind = kind, .magic = "ustar", .version = { '0', '0' } };
	const char *name = target + 1;
	size_t len = strlen(name), cut = 0;
	/* A long one in two, at a slash. */
	while (len - cut > sizeof(h.name)) {
		const char *slash = strchr(name + cut, '/');
		if (!slash || (size_t)(slash - name) > sizeof(h.prefix))
			break;
		cut = (size_t)(slash - name) + 1;
	}
	errno = ENAMETOOLONG;
	if (len - cut > sizeof(h.name) || (link && strlen(link) > sizeof(h.link)))
		return false;
	if (cut > 0)
		memcpy(h.prefix, name, cut - 1);
	memcpy(h.name, name + cut, len - cut);
	if (link)
		memcpy(h.link, link, strlen(link));
	snprintf(h.mode, sizeof(h.mode), "%07o", (unsigned)(mode & 07777));
	snprintf(h.uid, sizeof(h.uid), "%07o", 0u);
	snprintf(h.gid, sizeof(h.gid), "%07o", 0u);
	snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)size);
	snprintf(h.mtime, sizeof(h.mtime), "%011o", 0u);
	memset(h.checksum, ' ', sizeof(h.checksum));
	unsigned sum = 0;
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	snprintf(h.checksum, sizeof(h.checksum), "%06o", sum);
	return write_all(fd, &h, sizeof(h));
}

static bool put_content(int fd, const struct kh_mount *m)
{
	static const char zeros[BLOCK];
	struct stat st;
	off_t at = 0;
	if (fstat(m->fd, &st) != 0 ||
	    !put_header(fd, m->target, '0', m->mode, (uint64_t)st.st_size, NULL))
		return false;
	while (at < st.st_size)
		if (sendfile(fd, m->fd, &at, (size_t)(st.st_size - at)) <= 0)
			return false;
	size_t over = (size_t)st.st_size % BLOCK;
	return over == 0 || write_all(fd, zeros, BLOCK - over);
}

/* Else they would be made with whatever mode. */
static bool put_parents(int fd, const struct kh_view *view, const char *target)
{
	for (const char *slash = strchr(target + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		kh_auto_free char *parent = strndup(target, (size_t)(slash - target));
		if (!parent ||
		    (!kh_view_has(view, parent) && !put_header(fd, parent, '5', 0755, 0, NULL)))
			return false;
	}
	return true;
}

static bool put_one(int fd, const struct kh_view *view, const struct kh_mount *m)
{
	if (!put_parents(fd, view, m->target))
		return false;
	if (m->kind == KH_MOUNT_DIR)
		return put_header(fd, m->target, '5', m->mode, 0, NULL);
	if (m->kind == KH_MOUNT_LINK)
		return put_header(fd, m->target, '2', 0777, 0, m->source);
	return put_content(fd, m);
}

int kh_store_tar(const struct kh_view *view, struct kh_err *err)
{
	static const char end[2 * BLOCK];
	kh_auto_close int fd = memfd_create("keyhole-root", MFD_CLOEXEC);
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "memory for a file"), -1;
	for (size_t i = 0; i < view->n; i++) {
		const struct kh_mount *m = &view->list[i];
		if (kh_store_in_tar(m) && !put_one(fd, view, m))
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(m->target)),
			       -1;
	}
	if (!write_all(fd, end, sizeof(end)) || lseek(fd, 0, SEEK_SET) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "memory for a file"), -1;
	return kh_steal_fd(&fd);
}
