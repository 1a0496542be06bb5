/*
 * fuzz_git_index.c - git's index and the state of an operation, as an agent may have written them
 *
 * An index that counts as harmless holds no name that leads out of the work tree as bytes that an
 * entry could be made of: with the work tree's parent or its git folder put in the place of a name,
 * it is not harmless any more.
 */
#include <stdlib.h>
#include <string.h>

#include "sandbox/git_index.h"
#include "sandbox/git_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

/* Version 2: the first entry's name is where it always is. */
static void try_name(struct kh_slice all, size_t id_bytes, const char *name)
{
	size_t at = 12 + 40 + id_bytes + 2, len = strlen(name);
	if (all.len < at + len + id_bytes || all.ptr[7] != 2 || (all.ptr[at - 2] & 0x40))
		return;
	char *copy = malloc(all.len);
	if (!copy)
		return;
	memcpy(copy, all.ptr, all.len);
	memcpy(copy + at, name, len);
	if (all.ptr[11] || all.ptr[10] || all.ptr[9] || all.ptr[8])
		require(!kh_git_index_is_harmless(kh_slice_of(copy, all.len), id_bytes));
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const folders[] = { "rebase-merge", "rebase-apply", "sequencer" };
	static const char *const names[] = { "author-script", "git-rebase-todo", "opts",
					     "todo",	      "msgnum",		 "next",
					     "head-name" };
	struct kh_slice all = kh_slice_of(data, size);
	for (size_t id_bytes = KH_GIT_INDEX_SHA1; id_bytes <= KH_GIT_INDEX_SHA256; id_bytes += 12) {
		if (!kh_git_index_is_harmless(all, id_bytes))
			continue;
		try_name(all, id_bytes, "/");
		try_name(all, id_bytes, "../");
		try_name(all, id_bytes, ".git/");
	}
	for (size_t i = 0; i < 3; i++)
		for (size_t n = 0; n < 7; n++)
			(void)kh_git_state_is_harmless(folders[i], names[n], all);
	(void)kh_git_state_is_harmless_at_top("BISECT_START", all);
	return 0;
}
