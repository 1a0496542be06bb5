/*
 * fuzz_bundle.c - the head of a bundle, as it comes out of an agent's sandbox
 *
 * Each ref that is taken lies below its review, is one word on one line, and has an object's name;
 * and what comes after the head lies inside of the bundle.
 */
#include <stdlib.h>
#include <string.h>

#include "sandbox/review_git.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void check(const struct kh_review_ref *ref)
{
	static const char below[] = "refs/keyhole/0123abcd/";
	size_t len = strlen(ref->object);
	require(len == 40 || len == 64);
	require(strspn(ref->object, "0123456789abcdefABCDEF") == len);
	require(strncmp(ref->name, below, strlen(below)) == 0);
	require(strcspn(ref->name, " \n\r\t\"") == strlen(ref->name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_review_refs refs = { 0 };
	size_t pack = 0;
	if (kh_review_bundle_head(kh_slice_of(data, size), "0123abcd", &refs, &pack)) {
		require(refs.n > 0 && pack <= size && data[pack - 1] == '\n');
		for (size_t i = 0; i < refs.n; i++)
			check(&refs.list[i]);
	}
	kh_review_refs_fini(&refs);
	return 0;
}
