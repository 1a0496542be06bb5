/*
 * fuzz_git_config.c - git's configuration, as an agent may have written it
 *
 * What is kept of a file because it is harmless is written anew. Read again it says the same, all
 * of it harmless, and writing that gives the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "sandbox/git_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static bool keep(void *arg, const struct kh_git_config_entry *entry)
{
	require(entry->section && entry->name && *entry->name);
	for (const char *c = entry->name; *c; c++)
		require(*c == '-' || kh_is_digit(*c) || (*c >= 'a' && *c <= 'z'));
	return !kh_git_config_is_harmless(entry) || kh_git_config_write(arg, entry);
}

static bool keep_all(void *arg, const struct kh_git_config_entry *entry)
{
	require(kh_git_config_is_harmless(entry));
	return kh_git_config_write(arg, entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_buf once, again;
	kh_buf_init(&once, 16 * 1024 * 1024);
	kh_buf_init(&again, 16 * 1024 * 1024);
	(void)kh_git_config_read(kh_slice_of(data, size), keep, &once);
	require(kh_git_config_read(kh_buf_view(&once), keep_all, &again));
	require(kh_slice_eq(kh_buf_view(&once), kh_buf_view(&again)));
	kh_buf_fini(&once);
	kh_buf_fini(&again);
	return 0;
}
