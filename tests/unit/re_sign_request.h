/*
 * re_sign_request.h - keys of the reference, and a request that is signed with them
 *
 * The examples with fixed signatures are those of the S3 API Reference ("Authenticating Requests").
 * That any other request is signed as AWS checks it is for tests/integration, whose verifier is of
 * its own.
 */
#ifndef KEYHOLE_TESTS_RE_SIGN_REQUEST_H
#define KEYHOLE_TESTS_RE_SIGN_REQUEST_H

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/credential/credential.h>
#include <keyhole/credential/re_sign.h>
#include <keyhole/http/target.h>

static inline struct kh_secret *pack(const char *value, const char *scope_text)
{
	struct kh_sigv4_scope scope;
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf packed;
	uint64_t expires;

	assert_true(kh_sigv4_scope_parse(&scope, kh_slice_str(scope_text)));
	kh_buf_init_wiping(&packed, KH_LIMIT_SECRET_BYTES);
	if (!kh_sigv4_pack(&packed, kh_slice_str(value), &scope, &expires, &err))
		fail_msg("%s", err.text);
	struct kh_secret *secret =
		kh_secret_new(packed.data + packed.head, kh_buf_len(&packed), &err);
	assert_non_null(secret);
	kh_buf_fini(&packed);
	return secret;
}

#define KEYS \
	"\"AccessKeyId\":\"AKIAIOSFODNN7EXAMPLE\",\"SecretAccessKey\":" \
	"\"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\""

static inline struct kh_secret *example_keys(void)
{
	return pack("AKIAIOSFODNN7EXAMPLE\nwJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n",
		    "20130524/us-east-1/s3");
}

#endif
