/*
 * fuzz_review_base.c - the notes of what a workspace held, torn or damaged
 *
 * What is read is in the order of its paths, each once, lies inside of the notes, and is found.
 */
#include <stdlib.h>
#include <string.h>

#include "sandbox/review_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_base base = { .bytes = malloc(size ? size : 1), .len = size };
	require(base.bytes);
	memcpy(base.bytes, data, size);
	require(kh_base_read(&base));
	for (size_t i = 0; i < base.n; i++) {
		const struct kh_base_row *row = &base.rows[i];
		require(row->path > base.bytes && row->path < base.bytes + size);
		require(i == 0 || strcmp(base.rows[i - 1].path, row->path) < 0);
		const struct kh_base_entry *found = kh_base_find(&base, row->path);
		require(found == (row->entry.mode ? &row->entry : NULL));
	}
	kh_base_fini(&base);
	return 0;
}
