/*
 * fuzz_doubted.c - the lists of protected names in a run's record, torn or damaged
 *
 * Input: a path, a NUL, a list. What is read lies inside of the list, each path once; written anew
 * it says the same. A list names each path that is in it, and marks nothing else.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>

#include "sandbox/doubted.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void check_guarded(struct kh_slice note)
{
	struct kh_buf anew kh_cleanup(kh_buf_fini);
	size_t n, n_again;
	kh_auto_free struct kh_doubted_entry *list = kh_doubted_read(note, &n);
	require(list);
	kh_buf_init(&anew, 16 * 1024 * 1024);
	for (size_t i = 0; i < n; i++) {
		const char *path = list[i].path;
		require(path > note.ptr && path < note.ptr + note.len && *path == '/');
		require(i == 0 || strcmp(list[i - 1].path, path) < 0);
		require(kh_doubted_guarded(&anew, path, &list[i].id, list[i].digest));
	}
	kh_auto_free struct kh_doubted_entry *again = kh_doubted_read(kh_buf_view(&anew), &n_again);
	require(again && n == n_again);
	for (size_t i = 0; i < n; i++)
		require(strcmp(list[i].path, again[i].path) == 0 &&
			kh_doubted_is_same(&list[i].id, &again[i].id) &&
			strcmp(list[i].digest, again[i].digest) == 0);
}

static void check_list(struct kh_slice list, const char *path)
{
	size_t n = kh_doubted_count(list), i = 0;
	kh_auto_free bool *marks = calloc(n + 1, sizeof(*marks));
	require(marks);
	bool has = kh_doubted_mark(list, path, marks);
	require(has == kh_doubted_has(list, path));
	for (size_t at = 0; i < n; i++) {
		const char *entry = list.ptr + at;
		size_t len = strlen(entry);
		require(!marks[i] || (has && strcmp(entry, path) == 0));
		require(len == 0 || strcmp(entry, "/") == 0 || kh_doubted_has(list, entry));
		at += len + 1;
	}
	require(!marks[n]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_slice all = kh_slice_of(data, size);
	size_t end = kh_slice_find(all, '\0', 0);
	struct kh_slice list = kh_slice_sub(all, end + 1, SIZE_MAX);
	kh_auto_free char *path = kh_slice_dup(kh_slice_sub(all, 0, end));
	require(path);
	if (size > 4096) /* each entry is compared with each */
		return 0;
	check_guarded(list);
	check_list(list, path);
	return 0;
}
