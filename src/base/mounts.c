/*
 * mounts.c - what is mounted where, and which other paths lead to the same folder
 *
 * The same folder of a file system can be seen at many paths: by a mount of it, of a folder above
 * it, or of one in it (a part). For each mount the kernel names the file system (its device), the
 * folder of it that the mount shows (the root), and the path at which it is seen (the point). So a
 * folder's place in its file system is the root of its mount, and then its path below the point.
 */
#include <keyhole/base/mounts.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

void kh_mounts_fini(struct kh_mounts *mounts)
{
	for (size_t i = 0; i < mounts->n; i++) {
		free(mounts->list[i].root);
		free(mounts->list[i].point);
	}
	free(mounts->list);
	*mounts = (struct kh_mounts){ NULL, 0 };
}

/* ---- the table ---- */

static bool is_octal(const char *text)
{
	return text[0] >= '0' && text[0] <= '3' && text[1] >= '0' && text[1] <= '7' &&
	       text[2] >= '0' && text[2] <= '7' && strncmp(text, "000", 3) != 0;
}

/* "\040" is a blank. Heap. */
static char *unescape(struct kh_slice text)
{
	char *all = kh_slice_dup(text), *out = all;

	for (const char *in = all; in && *in;) {
		if (in[0] == '\\' && is_octal(in + 1)) {
			*out++ = (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
			in += 4;
		} else {
			*out++ = *in++;
		}
	}
	if (out)
		*out = '\0';
	return all;
}

/* What is in front of the next `end`, and then it is after it. */
static struct kh_slice take(struct kh_slice *rest, char end)
{
	size_t at = kh_slice_find(*rest, end, 0);
	struct kh_slice part = kh_slice_sub(*rest, 0, at);

	*rest = kh_slice_sub(*rest, at + 1, SIZE_MAX);
	return part;
}

static bool is_kernels(struct kh_slice type)
{
	static const char *const types[] = { "proc",   "sysfs",	  "devtmpfs",
					     "devpts", "cgroup2", "cgroup" };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (kh_slice_eq(type, kh_slice_str(types[i])))
			return true;
	return false;
}

/* "36 35 98:0 /root /point options [more...] - type source options" */
static bool read_line(struct kh_slice line, struct kh_mounts_entry *out)
{
	struct kh_slice id = take(&line, ' ');
	(void)take(&line, ' ');
	struct kh_slice major = take(&line, ':'), minor = take(&line, ' ');
	struct kh_slice root = take(&line, ' '), point = take(&line, ' ');
	struct kh_slice options = take(&line, ' ');

	while (line.len > 0 && !kh_slice_eq(take(&line, ' '), KH_SLICE("-")))
		;
	out->is_writable =
		!kh_slice_eq(take(&options, ','), KH_SLICE("ro")) && !is_kernels(take(&line, ' '));
	if (line.len == 0 || root.len == 0 || point.len == 0 || point.ptr[0] != '/' ||
	    !kh_slice_to_u64(id, &out->id) || !kh_slice_to_u64(major, &out->major) ||
	    !kh_slice_to_u64(minor, &out->minor))
		return false;
	out->root = unescape(root);
	out->point = unescape(point);
	return out->root && out->point;
}

bool kh_mounts_parse(struct kh_slice text, struct kh_mounts *out)
{
	size_t lines = 0;

	*out = (struct kh_mounts){ NULL, 0 };
	for (size_t i = 0; i < text.len; i++)
		lines += text.ptr[i] == '\n';
	if (lines == 0 || text.ptr[text.len - 1] != '\n')
		return false; /* cut short */
	out->list = calloc(lines, sizeof(*out->list));
	if (!out->list)
		return false;
	while (out->n < lines)
		if (!read_line(take(&text, '\n'), &out->list[out->n++])) {
			kh_mounts_fini(out);
			return false;
		}
	return true;
}

bool kh_mounts_read(struct kh_mounts *out, struct kh_err *err)
{
	static const char path[] = "/proc/self/mountinfo";
	struct kh_buf text kh_cleanup(kh_buf_fini);

	kh_buf_init(&text, KH_LIMIT_MOUNTS_BYTES);
	*out = (struct kh_mounts){ NULL, 0 };
	return kh_file_read(path, &text, err) &&
	       (kh_mounts_parse(kh_buf_view(&text), out) ||
		kh_err_set(err, KH_ERR_SYSTEM, "%s: can't be understood", path));
}

bool kh_mounts_id(int fd, uint64_t *id)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) != 0)
		return false;
	*id = st.stx_mnt_id;
	errno = ENOSYS;
	return (st.stx_mask & STATX_MNT_ID) != 0;
}

static bool is_nothing(int why)
{
	return why == ENOENT || why == ENOTDIR || why == ELOOP || why == EACCES ||
	       why == ENAMETOOLONG;
}

bool kh_mounts_hold(const char *name, uint64_t id, int *fd)
{
	uint64_t is;
	kh_auto_close int there = kh_file_hold(name);

	*fd = -1;
	if (there < 0)
		return is_nothing(errno);
	if (!kh_mounts_id(there, &is))
		return false;
	if (is == id)
		*fd = kh_steal_fd(&there);
	return true;
}

/* ---- names ---- */

/* What follows in `path` below `folder`: "" or "/x". NULL: it is not in there. */
static const char *rest_of(const char *path, const char *folder)
{
	size_t len = strcmp(folder, "/") == 0 ? 0 : strlen(folder);

	return strncmp(path, folder, len) == 0 && (path[len] == '/' || !path[len]) ? path + len
										   : NULL;
}

/* Heap; NULL without memory. `rest`: of rest_of. */
static char *join(const char *folder, const char *rest)
{
	bool ends = !*rest || strcmp(rest, "/") == 0;

	if (strcmp(folder, "/") == 0)
		return strdup(ends ? "/" : rest);
	return kh_strf("%s%s", folder, ends ? "" : rest);
}

/* How a mount shows a place, or a part of it. */
struct shown {
	const struct kh_mounts_entry *by;
	const char *name; /* by that mount */
	const char *own;  /* what the same has for a name below the path that is asked for */
};

/* By each mount that shows the place `root` of a file system, or a part of it. */
static bool each_view(const struct kh_mounts *mounts, const struct kh_mounts_entry *of,
		      const char *root, const char *path,
		      bool (*each)(void *arg, const struct shown *shown), void *arg)
{
	for (size_t i = 0; i < mounts->n; i++) {
		const struct kh_mounts_entry *m = &mounts->list[i];
		const char *rest = rest_of(root, m->root), *part = rest_of(m->root, root);
		if (m->major != of->major || m->minor != of->minor || (!rest && !part))
			continue;
		kh_auto_free char *name = join(m->point, rest ? rest : "");
		kh_auto_free char *own = join(path, rest ? "" : part);
		if (!name || !own || !each(arg, &(struct shown){ m, name, own }))
			return false;
	}
	return true;
}

/* By each mount that shows the folder, or a part of it; and each that shows what is mounted in it,
 * if that is writable: the agent sees that. */
static bool each_shown(const struct kh_mounts *mounts, uint64_t id, const char *folder,
		       bool (*each)(void *arg, const struct shown *shown), void *arg)
{
	const struct kh_mounts_entry *own = NULL;

	for (size_t i = 0; i < mounts->n && !own; i++)
		if (mounts->list[i].id == id)
			own = &mounts->list[i];
	const char *rest = own ? rest_of(folder, own->point) : NULL;
	kh_auto_free char *root = rest ? join(own->root, rest) : NULL;
	bool ok = root && each_view(mounts, own, root, folder, each, arg);
	for (size_t i = 0; ok && i < mounts->n; i++) {
		const struct kh_mounts_entry *m = &mounts->list[i];
		rest = rest_of(m->point, folder);
		if (rest && *rest && m->is_writable)
			ok = each_view(mounts, m, m->root, m->point, each, arg);
	}
	return ok;
}

struct naming {
	const char *but;
	bool (*each)(void *arg, const char *name, uint64_t id);
	void *arg;
};

static bool name_one(void *arg, const struct shown *shown)
{
	const struct naming *n = arg;

	return strcmp(shown->name, n->but) == 0 || n->each(n->arg, shown->name, shown->by->id);
}

bool kh_mounts_each_name(const struct kh_mounts *mounts, uint64_t id, const char *folder,
			 bool (*each)(void *arg, const char *name, uint64_t id), void *arg)
{
	struct naming naming = { folder, each, arg };

	return each_shown(mounts, id, folder, name_one, &naming);
}

static bool name_second(void *arg, const struct shown *shown)
{
	const struct naming *n = arg;

	return !shown->by->is_writable || strcmp(shown->name, shown->own) == 0 ||
	       n->each(n->arg, shown->name, shown->by->id);
}

bool kh_mounts_each_second_name(const struct kh_mounts *mounts, uint64_t id, const char *folder,
				bool (*each)(void *arg, const char *name, uint64_t id), void *arg)
{
	struct naming naming = { folder, each, arg };

	return each_shown(mounts, id, folder, name_second, &naming);
}

bool kh_mounts_has_below(const struct kh_mounts *mounts, const char *folder)
{
	for (size_t i = 0; i < mounts->n; i++) {
		const char *rest = rest_of(mounts->list[i].point, folder);
		if (rest && *rest)
			return true;
	}
	return false;
}
