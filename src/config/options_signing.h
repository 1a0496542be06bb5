/* options_signing.h - the rows of placements that do not copy the value */
#ifndef KEYHOLE_CONFIG_OPTIONS_SIGNING_H
#define KEYHOLE_CONFIG_OPTIONS_SIGNING_H

#include "options_placement.h"

#define KH_SIGNING_SECTION(name, keys, text) \
	{ \
		.path = "credentials.*." name, .type = KH_OPTION_SECTION, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET, .expects = "a map, or {}", \
		.between = keys, .doc = text \
	}

/* A member of the placement's own struct. */
#define KH_SIGNING_ROW(name, form, wants, reader, carried, text) \
	{ \
		.path = "credentials.*." name, .type = KH_OPTION_CUSTOM, \
		.flags = KH_IN_FILE | KH_IN_PRESET | KH_IS_QUIET | KH_IN_PART, .expects = wants, \
		.read = reader, form, carried, .doc = text \
	}
#define KH_SIGNING_WORDS(...) .as = KH_OPTION_CHOICE, KH_WORDS(__VA_ARGS__)
#define KH_SIGNING_NAME(checked) .as = KH_OPTION_TEXT, .shape = JSON_REF("text"), .check = checked
#define KH_SIGNING_TEMPLATE() \
	.as = KH_OPTION_TEXT, .shape = "{\"type\":\"string\",\"minLength\":1,\"maxLength\":1024}", \
	.check = kh_config_check_hmac_sign
#define KH_SIGNING_VARIABLE() .as = KH_OPTION_TEXT, .shape = JSON_ENV, .check = kh_value_check_env

#define KH_SIGNING_OPTIONS \
	KH_SIGNING_SECTION("aws_sigv4", NULL, \
			   "replace the client's signature of the request (AWS Signature " \
			   "Version 4)"), \
		KH_SIGNING_ROW("aws_sigv4.region", KH_SIGNING_NAME(kh_config_check_sigv4_name), \
			       "a region such as eu-west-1", kh_config_read_sigv4, \
			       KH_CARRIED(kh_carry_text, kh_sigv4_config, region), \
			       "the region of the signature; by default that of the client's own " \
			       "signature or of the host's name"), \
		KH_SIGNING_ROW( \
			"aws_sigv4.service", KH_SIGNING_NAME(kh_config_check_sigv4_name), \
			"a service's name such as s3", kh_config_read_sigv4, \
			KH_CARRIED(kh_carry_text, kh_sigv4_config, service), \
			"the service of the signature; by default that of the client's own " \
			"signature or of the host's name"), \
		KH_SIGNING_ROW("aws_sigv4.access_key_id", KH_SIGNING_VARIABLE(), \
			       "the name of a variable", kh_config_read_sigv4, \
			       KH_KEPT(kh_sigv4_config, access_key_id), \
			       "the variable with the key's id, if the value is a secret access " \
			       "key alone; by default AWS_ACCESS_KEY_ID"), \
		KH_SIGNING_ROW("aws_sigv4.session_token", KH_SIGNING_VARIABLE(), \
			       "the name of a variable", kh_config_read_sigv4, \
			       KH_KEPT(kh_sigv4_config, session_token), \
			       "the variable with the session token, which need not be set; by " \
			       "default AWS_SESSION_TOKEN"), \
		KH_SIGNING_SECTION( \
			"mtls", NULL, \
			"the value is the private key (PEM) of a client certificate, which " \
			"keyhole shows to the upstream if it asks"), \
		KH_SIGNING_ROW("mtls.certificate", .shape = JSON_REF("text"), "a path", \
			       kh_config_read_mtls, KH_KEPT(kh_mtls_config, certificate), \
			       "the PEM file with the certificate and its intermediates; by " \
			       "default they are in the value, with the key"), \
		KH_SIGNING_SECTION("hmac", "\"required\":[\"sign\",\"header\"]", \
				   "sign the request: set fields with an HMAC over parts of it"), \
		KH_SIGNING_ROW("hmac.algorithm", \
			       KH_SIGNING_WORDS("sha256", "sha512", "sha384", "sha1"), \
			       "sha256, sha384, sha512 or sha1", kh_config_read_hmac, \
			       KH_CARRIED(kh_carry_word, kh_hmac_config, algorithm), \
			       "the hash function; by default sha256"), \
		KH_SIGNING_ROW("hmac.key", KH_SIGNING_WORDS("hex", "base64", "text"), \
			       "text, base64 or hex", kh_config_read_hmac, \
			       KH_CARRIED(kh_carry_word, kh_hmac_config, key), \
			       "how the value encodes the key; by default text"), \
		KH_SIGNING_ROW("hmac.encoding", KH_SIGNING_WORDS("hex", "base64"), \
			       "hex or base64", kh_config_read_hmac, \
			       KH_CARRIED(kh_carry_word, kh_hmac_config, encoding), \
			       "how {signature} is encoded; by default hex"), \
		KH_SIGNING_ROW("hmac.timestamp", KH_SIGNING_WORDS("s", "ms", "http", "iso"), \
			       "s, ms, http or iso", kh_config_read_hmac, \
			       KH_CARRIED(kh_carry_word, kh_hmac_config, timestamp), \
			       "the form of {timestamp}; by default s, seconds since 1970"), \
		KH_SIGNING_ROW("hmac.sign", KH_SIGNING_TEMPLATE(), \
			       "a template such as \"{timestamp}{method}{target}{body}\"", \
			       kh_config_read_hmac, \
			       KH_CARRIED(kh_carry_text, kh_hmac_config, sign), \
			       "the bytes that are signed"), \
		KH_SIGNING_ROW("hmac.header", .shape = JSON_HMAC_HEADER, \
			       "a map of field names to templates such as { x-signature: " \
			       "\"{signature}\" }", \
			       kh_config_read_hmac_header, \
			       KH_CARRIED(kh_carry_hmac_fields, kh_hmac_config, fields), \
			       "the fields to set")

#endif
