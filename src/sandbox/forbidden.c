/*
 * forbidden.c - refuses mounts that would show a forbidden path
 *
 * Paths are compared by their place on a device, not by name, so that neither a symbolic link nor a
 * second mount of the same folder hides one. A mount shows its own tree and everything mounted
 * below it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "sandbox_internal.h"

/* One line of /proc/self/mountinfo: what of a device is mounted where. */
struct mounted {
	uint64_t id, major, minor;
	char *root, *point;
};

struct table {
	struct mounted *list;
	size_t n;
};

static void table_fini(struct table *table)
{
	for (size_t i = 0; i < table->n; i++) {
		free(table->list[i].root);
		free(table->list[i].point);
	}
	free(table->list);
}

void kh_forbidden_unescape(char *text)
{
	char *out = text;
	for (const char *in = text; *in;) {
		if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] && in[3]) {
			*out++ = (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
			in += 4;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
}

/* The next word of a line, and the line after it. */
static struct kh_slice take_word(struct kh_slice *line)
{
	size_t end = kh_slice_find(*line, ' ', 0);
	struct kh_slice word = kh_slice_sub(*line, 0, end);
	*line = kh_slice_sub(*line, end + 1, line->len);
	return word;
}

/* "36 35 98:0 /root/of/mount /mount/point options …" */
static bool read_line(struct table *table, struct kh_slice line)
{
	struct kh_slice id = take_word(&line);
	(void)take_word(&line);
	struct kh_slice device = take_word(&line), root = take_word(&line),
			point = take_word(&line);
	size_t colon = kh_slice_find(device, ':', 0);
	struct mounted m;
	if (!kh_slice_to_u64(id, &m.id) ||
	    !kh_slice_to_u64(kh_slice_sub(device, 0, colon), &m.major) ||
	    !kh_slice_to_u64(kh_slice_sub(device, colon + 1, device.len), &m.minor))
		return false;
	struct mounted *list = reallocarray(table->list, table->n + 1, sizeof(*list));
	if (!list)
		return false;
	table->list = list;
	m.root = kh_slice_dup(root);
	m.point = kh_slice_dup(point);
	list[table->n++] = m;
	if (!m.root || !m.point)
		return false;
	kh_forbidden_unescape(m.root);
	kh_forbidden_unescape(m.point);
	return true;
}

static bool read_table(struct table *table, struct kh_err *err)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	if (!file)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "/proc/self/mountinfo");
	char *line = NULL;
	size_t room = 0;
	bool ok = true;
	while (ok && getline(&line, &room, file) > 0)
		ok = read_line(table, kh_slice_str(line));
	free(line);
	fclose(file);
	return ok || kh_err_set(err, KH_ERR_SYSTEM, "/proc/self/mountinfo: can't be understood");
}

/* A place in a device. */
struct place {
	uint64_t major, minor;
	char path[PATH_MAX];
};

static bool is_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	if (len == 1)
		return true;
	return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* "/root/of/mount" + what comes after the mount point. */
static bool join(struct place *out, const struct mounted *m, const char *rest)
{
	const char *root = strcmp(m->root, "/") == 0 ? "" : m->root;
	rest += strspn(rest, "/");
	out->major = m->major;
	out->minor = m->minor;
	int n = snprintf(out->path, sizeof(out->path), "%s%s%s", root, *rest || !*root ? "/" : "",
			 rest);
	return n > 0 && (size_t)n < sizeof(out->path);
}

/* A tree, by a path without links; `fd`: it is held, and nothing goes by its path; -1. */
struct source {
	int fd;
	char *path; /* NULL: there is none */
};

static void source_fini(struct source *source)
{
	free(source->path);
	if (source->fd >= 0)
		close(source->fd);
}

/* What is held has its path from the kernel. That of the host's own may have links, which only the
 * host's owner makes. */
static struct source source_of(const struct kh_mount *m)
{
	int fd = m->fd >= 0 ? fcntl(m->fd, F_DUPFD_CLOEXEC, 0) : -1;
	return (struct source){ fd, fd >= 0	? kh_file_held_path(fd)
				    : m->fd < 0 ? realpath(m->source, NULL)
						: NULL };
}

/* `path` is resolved and exists. */
static bool locate_held(const struct table *table, int fd, const char *path, struct place *out)
{
	struct statx st;
	if (statx(fd >= 0 ? fd : AT_FDCWD, fd >= 0 ? "" : path,
		  AT_SYMLINK_NOFOLLOW | (fd >= 0 ? AT_EMPTY_PATH : 0), STATX_MNT_ID, &st) != 0 ||
	    !(st.stx_mask & STATX_MNT_ID))
		return false;
	for (size_t i = 0; i < table->n; i++) {
		const struct mounted *m = &table->list[i];
		if (m->id == st.stx_mnt_id && is_below(path, m->point))
			return join(out, m, strlen(m->point) > 1 ? path + strlen(m->point) : path);
	}
	return false;
}

static bool locate(const struct table *table, const char *path, struct place *out)
{
	return locate_held(table, -1, path, out);
}

static bool holds(const struct place *tree, const struct place *what)
{
	return tree->major == what->major && tree->minor == what->minor &&
	       is_below(what->path, tree->path);
}

/* Does the tree at `source`, with all that is mounted in it, show the place? */
static bool shows(const struct table *table, const struct source *source, const struct place *what)
{
	struct place tree;
	if (!locate_held(table, source->fd, source->path, &tree))
		return true; /* What can't be told apart is taken for the worst. */
	if (holds(&tree, what))
		return true;
	for (size_t i = 0; i < table->n; i++) {
		const struct mounted *m = &table->list[i];
		if (!is_below(m->point, source->path))
			continue;
		if (join(&tree, m, "") && holds(&tree, what))
			return true;
	}
	return false;
}

/* What doesn't exist yet is as visible as the folder in which it will be. */
static char *resolve(const char *path)
{
	char *resolved = realpath(path, NULL);
	kh_auto_free char *above = resolved ? NULL : strdup(path);
	while (!resolved && above && above[0] == '/' && above[1]) {
		char *slash = strrchr(above, '/');
		slash[slash == above ? 1 : 0] = '\0';
		resolved = realpath(above, NULL);
	}
	return resolved;
}

/* A second name of the same file may be anywhere on the device. */
static bool may_have_second_name(const struct source *source, const struct stat *file)
{
	struct stat st;
	if (!S_ISREG(file->st_mode) || file->st_nlink <= 1)
		return false;
	bool known = source->fd >= 0 ? fstat(source->fd, &st) == 0 : stat(source->path, &st) == 0;
	return known && st.st_dev == file->st_dev;
}

/* Was the file, or one in the folder, copied into the sandbox's root? A folder in the place of what
 * doesn't exist yet (resolve) holds nothing that could have been. */
static bool is_copied(const struct kh_mount *m, const char *path, const char *resolved,
		      const struct stat *st)
{
	return m->kind == KH_MOUNT_FILE && m->source &&
	       ((m->dev == st->st_dev && m->ino == st->st_ino) ||
		(S_ISDIR(st->st_mode) && access(path, F_OK) == 0 && is_below(m->source, resolved)));
}

static bool refuse_seen(const char *path, const struct kh_mount *m, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_CONFIG,
			  "%s: the sandbox would see it through %s (put it in a folder that the "
			  "sandbox is not given)",
			  kh_esc_str(path), kh_esc_str(m->source));
}

static bool check_one(const struct table *table, const struct kh_view *view, const char *path,
		      struct kh_err *err)
{
	kh_auto_free char *resolved = resolve(path);
	struct place what;
	struct stat file;
	if (!resolved || !locate(table, resolved, &what) || stat(resolved, &file) != 0)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "%s: can't tell whether the sandbox would see it",
				  kh_esc_str(path));
	const char *chosen = NULL;
	for (size_t i = 0; i < view->n; i++) {
		const struct kh_mount *m = &view->list[i];
		if (is_copied(m, path, resolved, &file))
			return refuse_seen(path, m, err);
		if (!kh_mount_is_tree(m))
			continue;
		/* A part of the tree before, laid over it. */
		if (chosen && m->tree == KH_TREE_HOST && is_below(m->source, chosen))
			continue;
		if (m->tree != KH_TREE_HOST)
			chosen = m->source;
		struct source source kh_cleanup(source_fini) = source_of(m);
		if (source.path ? shows(table, &source, &what) : m->fd >= 0)
			return refuse_seen(path, m, err);
		if (source.path && m->tree != KH_TREE_HOST && may_have_second_name(&source, &file))
			return kh_err_set(err, KH_ERR_CONFIG,
					  "%s: the file has a second name, which may lie in %s "
					  "(make a copy of its own)",
					  kh_esc_str(path), kh_esc_str(m->source));
	}
	return true;
}

bool kh_forbidden_check(const struct kh_view *view, const char *const *paths, size_t n,
			struct kh_err *err)
{
	if (n == 0)
		return true;
	struct table table kh_cleanup(table_fini) = { 0 };
	bool ok = read_table(&table, err);
	for (size_t i = 0; ok && i < n; i++)
		ok = check_one(&table, view, paths[i], err);
	return ok;
}

/* Would anything be visible that is in the folder, but for what is in `except` (NULL: nothing)?
 */
static bool check_within(const struct kh_view *view, const char *folder, const char *except,
			 struct kh_err *err)
{
	struct table table kh_cleanup(table_fini) = { 0 };
	kh_auto_free char *resolved = realpath(folder, NULL);
	struct place within, place;
	if (!resolved && errno == ENOENT)
		return true; /* nothing is in it */
	if (!read_table(&table, err))
		return false;
	if (!resolved || !locate(&table, resolved, &within))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "%s: can't tell whether the sandbox would see it",
				  kh_esc_str(folder));
	for (size_t i = 0; i < view->n; i++) {
		const struct kh_mount *m = &view->list[i];
		if (!kh_mount_is_tree(m) || (except && is_below(m->source, except)))
			continue;
		struct source source kh_cleanup(source_fini) = source_of(m);
		if (source.path ? !locate_held(&table, source.fd, source.path, &place) ||
					  holds(&within, &place)
				: m->fd >= 0)
			return kh_err_set(err, KH_ERR_CONFIG,
					  "%s: the sandbox would see it through %s, which is "
					  "there (keyhole's own files are no sandbox's: name "
					  "another folder)",
					  kh_esc_str(folder), kh_esc_str(m->source));
	}
	return true;
}

/* Neither keyhole's state as a whole nor any part of it, but for the files of this run's review. */
static bool check_state(const struct kh_view *view, const char *state,
			const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	return !state ||
	       (kh_forbidden_check(view, &state, 1, err) &&
		check_within(view, state, spec->review ? spec->review->folder : NULL, err));
}

bool kh_forbidden_check_own(const struct kh_view *view, const struct kh_sandbox_spec *spec,
			    struct kh_err *err)
{
	return check_state(view, spec->state, spec, err) &&
	       check_state(view, spec->user_state, spec, err) &&
	       (!spec->cache || check_within(view, spec->cache, spec->rootfs, err));
}

bool kh_forbidden_overlap(const char *one, const char *other, bool *overlap, struct kh_err *err)
{
	struct table table kh_cleanup(table_fini) = { 0 };
	struct source first kh_cleanup(source_fini) = { kh_file_hold_again(one, NULL, err), NULL };
	if (first.fd < 0)
		return false;
	struct source second kh_cleanup(source_fini) = { kh_file_hold_again(other, NULL, err),
							 NULL };
	if (second.fd < 0)
		return false;
	struct place of_first, of_second;
	if (!read_table(&table, err))
		return false;
	first.path = kh_file_held_path(first.fd);
	second.path = kh_file_held_path(second.fd);
	if (!first.path || !second.path || !locate_held(&table, first.fd, first.path, &of_first) ||
	    !locate_held(&table, second.fd, second.path, &of_second))
		return kh_err_set(err, KH_ERR_USAGE, "%s: can't tell where it is",
				  kh_esc_str(first.path ? other : one));
	*overlap = shows(&table, &first, &of_second) || shows(&table, &second, &of_first);
	return true;
}

/* "8:1 /folder" */
static bool say_place(const struct place *place, bool (*each)(void *arg, const char *where),
		      void *arg)
{
	kh_auto_free char *text =
		kh_strf("%" PRIu64 ":%" PRIu64 " %s", place->major, place->minor, place->path);
	return text && each(arg, text);
}

bool kh_forbidden_places(const char *path, int fd, bool (*each)(void *arg, const char *where),
			 void *arg, struct kh_err *err)
{
	struct table table kh_cleanup(table_fini) = { 0 };
	struct place place;
	if (!read_table(&table, err))
		return false;
	kh_auto_free char *source = fd >= 0 ? kh_file_held_path(fd) : realpath(path, NULL);
	if (!source)
		return kh_err_sys(err, KH_ERR_USAGE, errno, "%s", kh_esc_str(path));
	if (!locate_held(&table, fd, source, &place))
		return kh_err_set(err, KH_ERR_USAGE, "%s: can't tell where it is",
				  kh_esc_str(path));
	bool ok = say_place(&place, each, arg);
	for (size_t i = 0; ok && i < table.n; i++)
		if (is_below(table.list[i].point, source))
			ok = join(&place, &table.list[i], "") && say_place(&place, each, arg);
	return ok ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "%s: too much is mounted there", kh_esc_str(path));
}
