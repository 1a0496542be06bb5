/*
 * mount_spelling.c - do the mounts of a view hold for every spelling of a name?
 *
 * A mount is attached to a dentry: a name in a folder, as the kernel keeps it. Where the kernel
 * compares the names itself without case (casefold of ext4, f2fs and tmpfs; VFAT, exFAT, NTFS3),
 * all spellings have one dentry, and a mount on it holds for all. But with FUSE, virtiofs, 9p
 * (/mnt/c in WSL), vboxsf, NFS and some SMB mounts it is the server that ignores case. For the
 * kernel each spelling is another name, and the mount is on one of them: .GIT/hooks leads past a
 * mount on .git/hooks.
 *
 * The kind of a file system does not tell which of the two it is, so the names themselves are
 * tested: whatever is mounted over is looked up in other spellings. A spelling that leads
 * somewhere, and that is no entry of the folder, must have the dentry of the first. It has if the
 * kernel has one name for both (/proc/self/fd/N). The first is kept open meanwhile, and its name is
 * read before the second is looked up, since some servers have the kernel rename it then.
 */
#include "mount_spelling.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "sandbox_internal.h"

/* ---- the kernel's answers ---- */

static void read_called(int fd, char called[NAME_MAX + 1])
{
	char link[64], path[PATH_MAX];
	called[0] = '\0';
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof(path));
	if (n <= 0 || (size_t)n >= sizeof(path))
		return;
	path[n] = '\0';
	const char *slash = strrchr(path, '/');
	if (slash && strlen(slash + 1) <= NAME_MAX)
		memcpy(called, slash + 1, strlen(slash + 1) + 1);
}

static int reach(int folder, const char *name, struct kh_mount_spelling_seen *seen)
{
	struct stat st;
	int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	*seen = (struct kh_mount_spelling_seen){ 0 };
	if (fstat(fd, &st) == 0) {
		seen->dev = st.st_dev;
		seen->ino = st.st_ino;
	}
	read_called(fd, seen->called);
	return fd;
}

static bool lists(int folder, const char *name)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		kh_cleanup_close(&fd);
		return false;
	}
	bool found = false;
	const struct dirent *entry;
	/* cppcheck-suppress readdirCalled ; nobody else has this stream */
	while (!found && (entry = readdir(dir)))
		found = strcmp(entry->d_name, name) == 0;
	closedir(dir);
	return found;
}

const struct kh_mount_spelling_look kh_mount_spelling_kernel = { reach, lists };

/* ---- other spellings ---- */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool other_case(const char *name, char out[KH_MOUNT_SPELLING_BYTES])
{
	enum { CASE_BIT = 0x20 };
	bool has_letter = false;
	size_t n = strlen(name);
	for (size_t i = 0; i <= n; i++) {
		has_letter = has_letter || is_letter(name[i]);
		out[i] = is_letter(name[i]) ? (char)(name[i] ^ CASE_BIT) : name[i];
	}
	return has_letter;
}

static bool with_end(const char *name, const char *end, char out[KH_MOUNT_SPELLING_BYTES])
{
	int n = snprintf(out, KH_MOUNT_SPELLING_BYTES, "%s%s", name, end);
	return n > 0 && n < KH_MOUNT_SPELLING_BYTES;
}

static bool with_dot(const char *name, char out[KH_MOUNT_SPELLING_BYTES])
{
	return with_end(name, ".", out);
}

/* The content, as a stream of the file. */
static bool with_stream(const char *name, char out[KH_MOUNT_SPELLING_BYTES])
{
	return with_end(name, "::$DATA", out);
}

/* The first short name that Windows gives, if it is one that needs it: .git is GIT~1. */
static bool short_name(const char *name, char out[KH_MOUNT_SPELLING_BYTES])
{
	enum { STEM = 8, KEPT = 6, ENDING = 3 };
	const char *from = name + strspn(name, ". "), *dot = strrchr(from, '.');
	size_t stem = dot ? (size_t)(dot - from) : strlen(from), n = 0;
	if (from == name && stem <= STEM && (!dot || strlen(dot + 1) <= ENDING) &&
	    !memchr(from, '.', stem))
		return false;
	for (size_t i = 0; i < stem && n < KEPT; i++)
		if (from[i] != '.' && from[i] != ' ')
			out[n++] = upper(from[i]);
	memcpy(out + n, "~1", sizeof("~1"));
	n += 2;
	for (size_t i = 0; dot && dot[1] && dot[i] && i <= ENDING; i++)
		out[n++] = upper(dot[i]);
	out[n] = '\0';
	return true;
}

/* VFAT has one dentry for both, and renames it, with its mount, to what is looked up. */
static bool has_short_names_of_its_own(int folder)
{
	struct statfs fs;
	return fstatfs(folder, &fs) == 0 && fs.f_type == MSDOS_SUPER_MAGIC;
}

static bool leads_past(const struct kh_mount_spelling_look *look, int folder,
		       const struct kh_mount_spelling_seen *own, const char *other)
{
	struct kh_mount_spelling_seen seen;
	kh_auto_close int fd = look->reach(folder, other, &seen);
	if (fd < 0)
		return false;
	bool same = seen.dev == own->dev && seen.ino == own->ino;
	if (same && *own->called && strcmp(seen.called, own->called) == 0)
		return false;
	if (look->lists(folder, other))
		return false;
	/* Not one that somebody has just removed. */
	kh_auto_close int still = look->reach(folder, other, &seen);
	return still >= 0;
}

bool kh_mount_spelling_leads_past(const struct kh_mount_spelling_look *look, int folder,
				  const char *name, char other[KH_MOUNT_SPELLING_BYTES])
{
	static bool (*const spellings[])(const char *, char[KH_MOUNT_SPELLING_BYTES]) = {
		other_case, with_dot, with_stream, short_name
	};
	struct kh_mount_spelling_seen own;
	kh_auto_close int fd = look->reach(folder, name, &own);
	if (fd < 0)
		return false;
	for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++)
		if (spellings[i](name, other) &&
		    !(spellings[i] == short_name && has_short_names_of_its_own(folder)) &&
		    leads_past(look, folder, &own, other))
			return true;
	return false;
}

/* ---- a view ---- */

/* Something that is to keep what it is over from the sandbox, or its name from being changed. */
static bool is_cover(const struct kh_mount *m)
{
	return m->kind == KH_MOUNT_READ || m->kind == KH_MOUNT_WRITE || m->kind == KH_MOUNT_BLANK ||
	       m->kind == KH_MOUNT_EMPTY || m->kind == KH_MOUNT_TMPFS;
}

/* The tree of the host in which the entry `i` of the view is mounted. NULL: none; it is a name of
 * the sandbox's own root. */
static const struct kh_mount *tree_around(const struct kh_view *view, size_t i)
{
	const struct kh_mount *found = NULL;
	size_t longest = 0;
	const char *target = view->list[i].target;
	for (size_t k = 0; k < i; k++) {
		const struct kh_mount *m = &view->list[k];
		size_t len = strcmp(m->target, "/") == 0 ? 0 : strlen(m->target);
		bool is_tree = kh_mount_is_tree(m) && m->kind != KH_MOUNT_UPPER;
		if ((!is_tree && m->kind != KH_MOUNT_TMPFS) || len < longest ||
		    strncmp(m->target, target, len) != 0 || target[len] != '/')
			continue;
		longest = len;
		found = m;
	}
	return found && found->kind != KH_MOUNT_TMPFS ? found : NULL;
}

static int open_tree_folder(const struct kh_mount *tree)
{
	/* The layer below: the one above has what an earlier run put there. */
	const char *path = tree->kind == KH_MOUNT_OVERLAY ? tree->target : tree->source;
	if (tree->fd >= 0 && tree->kind != KH_MOUNT_OVERLAY)
		return openat(tree->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The folder in which an entry is mounted. Return: -1 with errno. */
static int open_around(const struct kh_mount *tree, const char *target)
{
	size_t len = strcmp(tree->target, "/") == 0 ? 0 : strlen(tree->target);
	const char *rest = target + len + 1, *slash = strrchr(rest, '/');
	kh_auto_close int top = open_tree_folder(tree);
	if (top < 0 || !slash)
		return kh_steal_fd(&top);
	kh_auto_free char *path = kh_slice_dup(kh_slice_of(rest, (size_t)(slash - rest)));
	return path ? kh_file_open_below(top, path, O_PATH | O_DIRECTORY) : -1;
}

static bool refuse(const struct kh_mount *m, const char *other, struct kh_err *err)
{
	kh_auto_free char *path = strdup(kh_esc_str(m->target));
	return kh_err_set(err, KH_ERR_CONFIG,
			  "%s: is found as %s too, past what keyhole mounts over it: this file "
			  "system takes both for one name, and the kernel does not, so the sandbox "
			  "could %s it by that name (%s, or move the project to a file system that "
			  "tells them apart)",
			  path ? path : "?", kh_esc_str(other),
			  m->kind == KH_MOUNT_EMPTY ? "read or use" : "change",
			  m->kind == KH_MOUNT_EMPTY
				  ? "leave out --mask-env if that is what masks it"
				  : "use --workspace DIR:ro or DIR:review");
}

/* No mount point of the host's: there is no such folder, or it is reached in another way. */
static bool is_elsewhere(int why)
{
	return why == ENOENT || why == ENOTDIR || why == ELOOP || why == EACCES;
}

static bool check_one(const struct kh_view *view, size_t i,
		      const struct kh_mount_spelling_look *look, struct kh_err *err)
{
	const struct kh_mount *m = &view->list[i];
	const struct kh_mount *tree = is_cover(m) ? tree_around(view, i) : NULL;
	char other[KH_MOUNT_SPELLING_BYTES];
	if (!tree)
		return true;
	kh_auto_close int folder = open_around(tree, m->target);
	if (folder < 0)
		return is_elsewhere(errno) ||
		       kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(m->target));
	return !kh_mount_spelling_leads_past(look, folder, strrchr(m->target, '/') + 1, other) ||
	       refuse(m, other, err);
}

bool kh_mount_spelling_check(const struct kh_view *view, const struct kh_mount_spelling_look *look,
			     struct kh_err *err)
{
	bool ok = true;
	for (size_t i = 0; ok && !view->failed && i < view->n; i++)
		ok = check_one(view, i, look, err);
	return ok;
}
