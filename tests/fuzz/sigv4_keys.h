/* sigv4_keys.h - the key of a day, packed as the keeper packs it for the worker */
#ifndef KEYHOLE_TESTS_SIGV4_KEYS_H
#define KEYHOLE_TESTS_SIGV4_KEYS_H

#include <stdlib.h>

#include <keyhole/credential/re_sign.h>

/* `given`: what stands in the credential: an identifier, a secret and perhaps a token, a line each.
 * Made once. */
static inline struct kh_secret *sigv4_keys(struct kh_slice given)
{
	static struct kh_secret *made;
	struct kh_sigv4_scope scope;
	struct kh_buf packed;
	uint64_t expires;

	if (made)
		return made;
	kh_secret_prepare();
	kh_buf_init_wiping(&packed, 4096);
	if (!kh_sigv4_scope_parse(&scope, KH_SLICE("20130524/us-east-1/s3")) ||
	    !kh_sigv4_pack(&packed, given, &scope, &expires, NULL))
		abort();
	made = kh_secret_new(packed.data + packed.head, kh_buf_len(&packed), NULL);
	if (!made)
		abort();
	kh_buf_fini(&packed);
	return made;
}

#endif
