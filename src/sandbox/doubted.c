/* doubted.c - protected names under which the agent may have put something while a sandbox ran */
#include "doubted.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/file.h>

#include "aside.h"

enum { SMALL_BYTES = 16 * 1024 };

bool kh_doubted_identify(const char *path, struct kh_doubted_id *id)
{
	struct statx st;
	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &st) != 0)
		return false;
	bool has_birth = st.stx_mask & STATX_BTIME;
	*id = (struct kh_doubted_id){ .dev = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor,
				      .ino = st.stx_ino,
				      .made_s = has_birth ? st.stx_btime.tv_sec : 0,
				      .made_ns = has_birth ? st.stx_btime.tv_nsec : 0 };
	return true;
}

bool kh_doubted_is_same(const struct kh_doubted_id *a, const struct kh_doubted_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->made_s == b->made_s &&
	       a->made_ns == b->made_ns;
}

bool kh_doubted_is(const char *path, const struct kh_doubted_id *id)
{
	struct kh_doubted_id now;
	return kh_doubted_identify(path, &now) && kh_doubted_is_same(id, &now);
}

/* ---- what is guarded ---- */

bool kh_doubted_digest(const char *path, char out[KH_DOUBTED_DIGEST_ROOM])
{
	unsigned char digest[KH_DOUBTED_DIGEST_ROOM / 2];
	struct stat st;
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_auto_close int fd =
		open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	kh_buf_init(&text, SMALL_BYTES + 16);
	out[0] = '\0';
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
	    st.st_size > SMALL_BYTES || !kh_file_read_fd(fd, &text, NULL))
		return false;
	/* Who may read, write and run it is as good as what it says. */
	if (!kh_buf_printf(&text, " %o", (unsigned)(st.st_mode & 07777)))
		return false;
	struct kh_slice bytes = kh_buf_view(&text);
	if (EVP_Digest(bytes.ptr, bytes.len, digest, NULL, EVP_sha256(), NULL) != 1)
		return false;
	kh_hex_encode(digest, sizeof(digest), out);
	return true;
}

bool kh_doubted_guarded(struct kh_buf *note, const char *path, const struct kh_doubted_id *id,
			const char *digest)
{
	return kh_buf_printf(note, "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRIu32 " %s %s", id->dev,
			     id->ino, id->made_s, id->made_ns, *digest ? digest : "-", path) &&
	       kh_buf_append(note, "", 1);
}

static bool write_guarded(const char *path, int flags, struct kh_slice entries, struct kh_err *err)
{
	kh_auto_close int fd =
		open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "the list of protected names");
	return kh_file_write_all(fd, entries, err) ||
	       kh_err_wrap(err, "the list of protected names");
}

bool kh_doubted_guard(const char *record, struct kh_slice entries, bool adds, struct kh_err *err)
{
	if (!record)
		return true;
	kh_auto_free char *path = kh_strf("%s/guarded", record);
	kh_auto_free char *new = kh_strf("%s/guarded.new", record);
	if (!path || !new)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");
	if (entries.len == 0)
		return unlink(path) == 0 || errno == ENOENT;
	if (adds)
		return write_guarded(path, O_APPEND, entries, err);
	/* If the launcher comes to an end here, the list of before holds. */
	return write_guarded(new, O_TRUNC, entries, err) &&
	       (rename(new, path) == 0 ||
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "the list of protected names"));
}

/* A path that ends in a slash is of a folder around what is doubted. */
bool kh_doubted_note(const char *record, const char *path, bool is_around, struct kh_err *err)
{
	if (!record)
		return true;
	kh_auto_free char *list = kh_strf("%s/doubted", record);
	kh_auto_free char *entry = kh_strf("%s%s", path, is_around ? "/" : "");
	kh_auto_close int fd =
		list && entry
			? open(list, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)
			: -1;
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, list && entry ? errno : ENOMEM,
				  "the list of protected names that were replaced");
	return kh_file_write_all(fd, kh_slice_of(entry, strlen(entry) + 1), err) ||
	       kh_err_wrap(err, "the list of protected names that were replaced");
}

/* One that was cut short has no NUL, and is none. */
static const char *next(struct kh_slice list, size_t *at)
{
	const char *path = list.ptr + *at;
	size_t end = *at < list.len ? kh_slice_find(list, '\0', *at) : list.len;
	if (end >= list.len)
		return NULL;
	*at = end + 1;
	return path;
}

/* Return: the path of an entry; NULL: damaged. */
static const char *read_entry(const char *entry, struct kh_doubted_id *id,
			      char digest[KH_DOUBTED_DIGEST_ROOM])
{
	int at = -1;
	if (sscanf(entry, "%" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNu32 " %64s %n", &id->dev,
		   &id->ino, &id->made_s, &id->made_ns, digest, &at) != 5 ||
	    at < 0 || entry[at] != '/')
		return NULL;
	if (strcmp(digest, "-") == 0)
		digest[0] = '\0';
	else if (strlen(digest) != 64 || !kh_hex_is_valid(kh_slice_str(digest)))
		return NULL;
	return entry + at;
}

static int compare_paths(const void *one, const void *other)
{
	const struct kh_doubted_entry *a = one, *b = other;
	return strcmp(a->path, b->path);
}

static int compare(const void *one, const void *other)
{
	const struct kh_doubted_entry *a = one, *b = other;
	int by_path = compare_paths(a, b);
	return by_path != 0 ? by_path : a->order < b->order ? -1 : a->order > b->order;
}

struct kh_doubted_entry *kh_doubted_read(struct kh_slice note, size_t *n)
{
	struct kh_doubted_entry *list = calloc(kh_doubted_count(note) + 1, sizeof(*list));
	const char *text;
	size_t found = 0, kept = 0;
	*n = 0;
	for (size_t at = 0; list && (text = next(note, &at));) {
		struct kh_doubted_entry *entry = &list[found];
		entry->order = found;
		entry->path = read_entry(text, &entry->id, entry->digest);
		found += entry->path != NULL;
	}
	if (!list)
		return NULL;
	qsort(list, found, sizeof(*list), compare);
	for (size_t i = 0; i < found; i++)
		if (i + 1 == found || strcmp(list[i].path, list[i + 1].path) != 0)
			list[kept++] = list[i];
	*n = kept;
	return list;
}

static bool has_content(const char *path, const char *digest)
{
	char now[KH_DOUBTED_DIGEST_ROOM];
	return *digest && kh_doubted_digest(path, now) && strcmp(now, digest) == 0;
}

static bool append(struct kh_buf *list, const char *path)
{
	return kh_buf_append(list, path, strlen(path) + 1);
}

bool kh_doubted_list(struct kh_slice guarded, struct kh_slice doubted, struct kh_buf *list)
{
	size_t n;
	kh_auto_free struct kh_doubted_entry *entries = kh_doubted_read(guarded, &n);
	const char *path;
	if (!entries)
		return false;
	for (size_t at = 0; (path = next(doubted, &at));) {
		const struct kh_doubted_entry wanted = { .path = path };
		const struct kh_doubted_entry *of =
			bsearch(&wanted, entries, n, sizeof(wanted), compare_paths);
		if (!(of && has_content(path, of->digest)) && !append(list, path))
			return false;
	}
	for (size_t i = 0; i < n; i++) {
		const struct kh_doubted_entry *entry = &entries[i];
		if (entry->id.ino && !kh_doubted_is(entry->path, &entry->id) &&
		    !has_content(entry->path, entry->digest) && !append(list, entry->path))
			return false;
	}
	return true;
}

static bool is_around(const char *entry)
{
	size_t len = strlen(entry);
	return len > 0 && entry[len - 1] == '/';
}

static bool covers(const char *entry, const char *path)
{
	size_t len = strlen(entry) - is_around(entry);
	return len > 0 && strncmp(path, entry, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

size_t kh_doubted_count(struct kh_slice list)
{
	size_t n = 0;
	for (size_t at = 0; next(list, &at);)
		n++;
	return n;
}

bool kh_doubted_has(struct kh_slice list, const char *path)
{
	return kh_doubted_mark(list, path, NULL);
}

bool kh_doubted_mark(struct kh_slice list, const char *path, bool *marks)
{
	const char *entry;
	bool found = false;
	for (size_t at = 0, i = 0; (entry = next(list, &at)); i++) {
		if (!covers(entry, path))
			continue;
		found = true;
		if (marks && strcmp(entry, path) == 0)
			marks[i] = true;
	}
	return found;
}

const char kh_doubted_why[] =
	"it was protected, and was replaced, or removed and made again, while the sandbox ran, by "
	"the host or by the agent";

bool kh_doubted_is_empty(int folder, const char *name)
{
	struct stat st;
	kh_auto_close int fd =
		openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 && fstat(fd, &st) == 0 &&
	       (S_ISDIR(st.st_mode) ? kh_file_is_empty_folder(fd)
				    : S_ISREG(st.st_mode) && st.st_size == 0);
}

/* git's own are judged one by one, and its samples are nothing. */
static bool is_hooks_of_git(const char *path)
{
	size_t len = strlen(path);
	kh_auto_free char *head = len > 6 && strcmp(path + len - 6, "/hooks") == 0
					  ? kh_strf("%.*s/HEAD", (int)(len - 6), path)
					  : NULL;
	struct stat st;
	return head && lstat(head, &st) == 0;
}

/* The path itself, or the first thing on its way that is no folder: a link leads elsewhere. */
static void take(const char *root, char *path, struct kh_aside *aside)
{
	for (size_t i = strlen(root) + 1;; i++) {
		const char *name = NULL;
		struct stat st;
		char was = path[i];
		if (was != '/' && was)
			continue;
		path[i] = '\0';
		kh_auto_close int dir = kh_mountpoint_open_parent(path, &name);
		if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			return;
		if (!S_ISDIR(st.st_mode) || !was) {
			if (!kh_doubted_is_empty(dir, name))
				kh_aside_take(aside, dir, name, path, kh_doubted_why, NULL);
			return;
		}
		path[i] = was;
	}
}

void kh_doubted_take(struct kh_slice list, const bool *marks, const char *root,
		     struct kh_aside *aside)
{
	const char *entry;
	size_t len = strlen(root);
	for (size_t at = 0, i = 0; (entry = next(list, &at)); i++) {
		kh_auto_free char *path = strdup(entry);
		if (path && !marks[i] && !is_around(entry) && !is_hooks_of_git(entry) &&
		    strncmp(path, root, len) == 0 && path[len] == '/')
			take(root, path, aside);
	}
}
