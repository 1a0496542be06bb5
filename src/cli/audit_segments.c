/* audit_segments.c - the files of a journal, in the order in which they were written */
#include "audit_segments.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

enum { SEGMENTS_MOST = 65536, DIGITS_LEAST = 12 };

static bool add(struct kh_audit_segments *s, char *path, uint64_t number, uint64_t again)
{
	if (path && s->n == s->room && s->n < SEGMENTS_MOST) {
		size_t room = s->room ? s->room * 2 : 16;
		struct kh_audit_segment *list = realloc(s->list, room * sizeof(*list));
		if (list) {
			s->list = list;
			s->room = room;
		}
	}
	if (!path || s->n == s->room) {
		free(path);
		return false;
	}
	s->list[s->n++] = (struct kh_audit_segment){ path, number, again };
	return true;
}

/* "audit.jsonl.000000000123" and "audit.jsonl.000000000123.2" of "audit.jsonl". */
static bool read_numbers(struct kh_slice name, struct kh_slice base, uint64_t *number,
			 uint64_t *again)
{
	if (!kh_slice_has_prefix(name, base) || name.len == base.len || name.ptr[base.len] != '.')
		return false;
	struct kh_slice rest = kh_slice_sub(name, base.len + 1, name.len);
	size_t dot = kh_slice_find(rest, '.', 0);

	*again = 1;
	return dot >= DIGITS_LEAST && kh_slice_to_u64(kh_slice_sub(rest, 0, dot), number) &&
	       (dot == rest.len || kh_slice_to_u64(kh_slice_sub(rest, dot + 1, rest.len), again));
}

static int by_number(const void *left, const void *right)
{
	const struct kh_audit_segment *a = left, *b = right;

	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return a->again < b->again ? -1 : a->again > b->again;
}

static bool list_folder(const char *folder, const char *base, struct kh_audit_segments *out,
			struct kh_err *err)
{
	DIR *dir = opendir(folder);
	bool ok = true;

	if (!dir)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "its folder");
	/* cppcheck-suppress readdirCalled ; nobody else has this stream */
	for (struct dirent *entry; ok && (entry = readdir(dir));) {
		uint64_t number, again;
		if (read_numbers(kh_slice_str(entry->d_name), kh_slice_str(base), &number, &again))
			ok = add(out, kh_path_join(folder, entry->d_name), number, again);
	}
	(void)closedir(dir);
	return ok || kh_err_set(err, KH_ERR_NO_MEMORY, "its folder: too many segments");
}

bool kh_audit_segments_find(const char *file, struct kh_audit_segments *out, struct kh_err *err)
{
	const char *slash = strrchr(file, '/');
	kh_auto_free char *folder = kh_path_folder(file);
	bool ok = folder ? list_folder(folder, slash ? slash + 1 : file, out, err)
			 : kh_err_set(err, KH_ERR_NO_MEMORY, "no memory");

	if (!ok)
		kh_audit_segments_fini(out);
	if (out->n > 0)
		qsort(out->list, out->n, sizeof(*out->list), by_number);
	return add(out, strdup(file), UINT64_MAX, 1) && ok;
}

void kh_audit_segments_fini(struct kh_audit_segments *segments)
{
	for (size_t i = 0; i < segments->n; i++)
		free(segments->list[i].path);
	free(segments->list);
	*segments = (struct kh_audit_segments){ .n = 0 };
}

bool kh_audit_segments_have(const struct kh_audit_segments *segments, uint64_t number)
{
	for (size_t i = 0; i < segments->n; i++)
		if (segments->list[i].number == number)
			return true;
	return false;
}
