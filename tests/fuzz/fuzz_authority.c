/* fuzz_authority.c - host and port: one spelling, which is read as itself */
#include <stdlib.h>

#include <keyhole/http/target.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_authority authority, again;
	struct kh_buf text;

	if (size == 0)
		return 0;
	/* 0: a port must be written, as in CONNECT. */
	uint16_t default_port = (uint16_t)(data[0] % 3 * 221);
	struct kh_slice in = kh_slice_of(data + 1, size - 1);
	if (!kh_authority_parse(&authority, in, default_port, &err)) {
		CHECK(err.code == KH_ERR_REQUEST_MALFORMED && err.text[0]);
		return 0;
	}
	CHECK(authority.port != 0 && authority.host.kind != KH_HOST_NONE);
	CHECK(authority.host.len > 0 && authority.host.len <= KH_HOST_MAX_BYTES);
	for (size_t i = 0; i < authority.host.len; i++) {
		char c = authority.host.text[i];

		CHECK((c >= 'a' && c <= 'z') || kh_is_digit(c) || c == '-' || c == '_' ||
		      c == '.' || (c == ':' && authority.host.kind == KH_HOST_IPV6));
	}
	kh_buf_init(&text, 1024);
	CHECK(kh_authority_format(&text, &authority, default_port));
	CHECK(kh_authority_parse(&again, kh_buf_view(&text), default_port, &err));
	CHECK(kh_authority_eq(&authority, &again));
	/* But for letter case, a name is its only spelling. */
	if (authority.host.kind == KH_HOST_NAME || authority.host.kind == KH_HOST_IPV4)
		CHECK(kh_slice_eq_nocase(kh_slice_sub(in, 0, authority.host.len),
					 kh_host_view(&authority.host)));
	kh_buf_fini(&text);
	return 0;
}
