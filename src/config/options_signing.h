/* options_signing.h - the rows of placements that are no copy of the value */
#ifndef KEYHOLE_CONFIG_OPTIONS_SIGNING_H
#define KEYHOLE_CONFIG_OPTIONS_SIGNING_H

#include "options_placement.h"

#define KH_SIGNING_SECTION(name, text) \
	{ \
		.path = "credentials.*." name, .type = KH_OPTION_SECTION, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, .expects = "a map, or {}", \
		.doc = text \
	}

#define KH_SIGNING_OPTIONS \
	KH_SIGNING_SECTION("aws_sigv4", \
			   "requests are signed anew, as AWS Signature Version 4 has it"), \
		KH_PLACEMENT("aws_sigv4.region", "a region such as eu-west-1", kh_read_sigv4, \
			     "the region that is signed for; that of the client's own signature " \
			     "or the host's unless said"), \
		KH_PLACEMENT("aws_sigv4.service", "a service's name such as s3", kh_read_sigv4, \
			     "the service that is signed for; likewise"), \
		KH_PLACEMENT("aws_sigv4.access_key_id", "the name of a variable", kh_read_sigv4, \
			     "the variable with the key's id, where the value is a secret access " \
			     "key alone; AWS_ACCESS_KEY_ID unless said"), \
		KH_PLACEMENT("aws_sigv4.session_token", "the name of a variable", kh_read_sigv4, \
			     "likewise, of the session's token, which may be absent; " \
			     "AWS_SESSION_TOKEN unless said"), \
		KH_SIGNING_SECTION("mtls", "the value is the private key (PEM) of a client " \
					   "certificate, which the upstream gets if it asks"), \
		KH_PLACEMENT( \
			"mtls.certificate", "a path", kh_read_mtls, \
			"the PEM file of the certificate and of those behind it; where it is " \
			"not said they stand with the key"), \
		KH_SIGNING_SECTION("hmac", "fields with an HMAC over parts of the request"), \
		KH_PLACEMENT("hmac.algorithm", "sha256, sha384, sha512 or sha1", kh_read_hmac, \
			     "its hash; sha256 unless said"), \
		KH_PLACEMENT("hmac.key", "text, base64 or hex", kh_read_hmac, \
			     "how the value stands for the key's bytes; text unless said"), \
		KH_PLACEMENT("hmac.encoding", "hex or base64", kh_read_hmac, \
			     "of {signature}; hex unless said"), \
		KH_PLACEMENT("hmac.timestamp", "s, ms, http or iso", kh_read_hmac, \
			     "what {timestamp} is; s, seconds since 1970, unless said"), \
		KH_PLACEMENT("hmac.sign", \
			     "a template such as \"{timestamp}{method}{target}{body}\"", \
			     kh_read_hmac, "the bytes that are signed"), \
		KH_PLACEMENT("hmac.header", \
			     "a map of field names to templates such as { x-signature: " \
			     "\"{signature}\" }", \
			     kh_read_hmac, "the fields that it sets")

#endif
