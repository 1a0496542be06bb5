/* ctl_trust.c - checks whether the process that answers at an admin socket can be trusted */
#include "ctl_trust.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

enum { LINKS_MOST = 8, OTHERS_WRITE = 0022 };

/* --- whose server it is -------------------------------------------------------------------------
 */

static bool is_of(const struct stat *st, uid_t uid)
{
	return st->st_uid == 0 || st->st_uid == uid;
}

/* In the place of the link, which ends at `len`, what it leads to. Heap. */
static char *follow(const char *path, size_t len)
{
	kh_auto_free char *link = kh_slice_dup(kh_slice_of(path, len));
	kh_auto_free char *real = link ? realpath(link, NULL) : NULL;
	return real ? kh_strf("%s%s", strcmp(real, "/") == 0 ? "" : real, path + len) : NULL;
}

/* Could nobody but root, the caller and `server` have put something at `path`? */
static bool is_kept(const char *path, uid_t server)
{
	kh_auto_free char *rest = strdup(path);
	int links = 0;
	size_t len = 0;
	while (rest) {
		struct stat st;
		const char *next = strchr(rest + len + 1, '/');
		kh_auto_free char *one = len ? kh_slice_dup(kh_slice_of(rest, len)) : strdup("/");
		if (!one || lstat(one, &st) != 0)
			return false;
		if (S_ISLNK(st.st_mode)) {
			char *real = is_of(&st, geteuid()) && links++ < LINKS_MOST
					     ? follow(rest, len)
					     : NULL;
			free(rest);
			rest = real;
			len = 0;
			continue;
		}
		if (!S_ISDIR(st.st_mode) || (st.st_mode & OTHERS_WRITE) ||
		    !(is_of(&st, geteuid()) || st.st_uid == server))
			return false;
		if (!next)
			return true; /* what is left is the socket's own name */
		len = (size_t)(next - rest);
	}
	return false;
}

static char *absolute(const char *path)
{
	kh_auto_free char *here = path[0] == '/' ? NULL : realpath(".", NULL);
	return path[0] == '/' ? strdup(path) : here ? kh_strf("%s/%s", here, path) : NULL;
}

bool kh_ctl_judge_server(int fd, const char *path, uid_t *uid, struct kh_err *err)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "ctl: whose server %s is",
				  kh_esc_str(path));
	*uid = peer.uid;
	if (peer.uid == 0 || peer.uid == geteuid())
		return true;
	kh_auto_free char *whole = absolute(path);
	return (whole && is_kept(whole, peer.uid)) ||
	       kh_err_set(
		       err, KH_ERR_CONFIG,
		       "ctl: user %u listens at %s, and others may write to a folder on the way "
		       "there: it may be nobody's daemon (let the daemon listen in a folder that "
		       "it alone may write to)",
		       (unsigned)peer.uid, kh_esc_str(path));
}

/* --- a folder that an answer names --------------------------------------------------------------
 */

static int refuse_folder(const char *base, const char *tenant, const char *id, const char *why,
			 struct kh_err *err)
{
	kh_err_set(err, KH_ERR_CONFIG,
		   "the folder of the sandbox, %s/%s/%s, %s: it is not shown to anybody",
		   kh_esc_str(base), kh_esc_str(tenant), kh_esc_str(id), why);
	return -1;
}

/* Return: why it is not what a daemon made; NULL: it is. */
static const char *judge_folder(int fd, uid_t server)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return "can't be looked at";
	if (!is_of(&st, server))
		return "is not the daemon's";
	return st.st_mode & OTHERS_WRITE ? "can be written to by others" : NULL;
}

static const char *judge_content(int folder)
{
	struct stat st;
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return "can't be read";
	}
	const struct dirent *one;
	const char *why =
		fstatat(folder, "s", &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISSOCK(st.st_mode)
			? "has no socket \"s\""
			: NULL;
	while (!why && (one = readdir(dir)))
		if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0 &&
		    strcmp(one->d_name, "s") != 0)
			why = "contains more than the socket \"s\"";
	(void)closedir(dir);
	return why;
}

int kh_ctl_hold_folder(const char *base, const char *tenant, const char *id, uid_t server,
		       bool *absent, struct kh_err *err)
{
	const char *const names[] = { base, tenant, id };
	kh_auto_close int folder = -1;
	*absent = false;
	for (int i = 0; i < 3; i++) {
		int next = openat(i ? folder : AT_FDCWD, names[i],
				  O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		*absent = next < 0 && i == 0 && errno == ENOENT;
		if (next < 0)
			return refuse_folder(base, tenant, id, "can't be opened as a folder", err);
		if (folder >= 0)
			(void)close(folder);
		folder = next;
		const char *why = judge_folder(folder, server);
		if (why)
			return refuse_folder(base, tenant, id, why, err);
	}
	const char *why = judge_content(folder);
	return why ? refuse_folder(base, tenant, id, why, err) : kh_steal_fd(&folder);
}

bool kh_ctl_leads_to(const char *path, int held)
{
	struct stat there, here;
	return stat(path, &there) == 0 && fstat(held, &here) == 0 && there.st_dev == here.st_dev &&
	       there.st_ino == here.st_ino;
}

/* --- text ---------------------------------------------------------------------------------------
 */

/* Outside of strings JSON has nothing but ASCII. */
bool kh_ctl_put_json(FILE *out, struct kh_slice json)
{
	bool ok = true;
	for (size_t i = 0; ok && i < json.len;) {
		unsigned char c = (unsigned char)json.ptr[i];
		uint32_t point = 0xfffd;
		if ((c >= ' ' && c < 0x7f) || c == '\n' || c == '\t' || c == '\r') {
			ok = putc(c, out) != EOF;
			i++;
			continue;
		}
		size_t n =
			kh_utf8_decode((const unsigned char *)json.ptr + i, json.len - i, &point);
		if (n == 0)
			point = 0xfffd;
		if (point < 0x10000)
			ok = fprintf(out, "\\u%04x", (unsigned)point) > 0;
		else
			ok = fprintf(out, "\\u%04x\\u%04x",
				     0xd800u + (unsigned)((point - 0x10000) >> 10),
				     0xdc00u + (unsigned)((point - 0x10000) & 0x3ff)) > 0;
		i += n ? n : 1;
	}
	return ok;
}
