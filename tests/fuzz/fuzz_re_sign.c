/*
 * fuzz_re_sign.c - what a client says of its own signature, and the request that is made of it
 *
 * Lines: the host, the target, then fields. What comes out holds neither what the client signed
 * with nor a byte that ends a line or a target early, and the keys only where they belong.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/credential/credential.h>
#include <keyhole/credential/re_sign.h>
#include <keyhole/http/target.h>

#include "sigv4_keys.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct kh_secret *keys(void)
{
	return sigv4_keys(KH_SLICE("ID\nSECRET\nTOKEN"));
}

static struct kh_slice take_line(struct kh_slice *rest)
{
	size_t end = kh_slice_find(*rest, '\n', 0);
	struct kh_slice line = kh_slice_sub(*rest, 0, end);

	*rest = kh_slice_sub(*rest, end + 1, rest->len);
	return line;
}

/* As the codec would have taken it. */
static bool is_value(struct kh_slice value)
{
	for (size_t i = 0; i < value.len; i++)
		if ((unsigned char)value.ptr[i] < 0x20 && value.ptr[i] != '\t')
			return false;
	return true;
}

static bool read_fields(struct kh_message *message, struct kh_slice rest)
{
	while (rest.len > 0 && message->n_fields < KH_LIMIT_FIELDS) {
		struct kh_slice line = take_line(&rest);
		size_t colon = kh_slice_find(line, ':', 0);
		struct kh_slice name = kh_slice_sub(line, 0, colon);
		struct kh_slice value = kh_slice_trim(kh_slice_sub(line, colon + 1, line.len));

		for (size_t i = 0; i < name.len; i++)
			if (!kh_is_alpha(name.ptr[i]) && !kh_is_digit(name.ptr[i]) &&
			    name.ptr[i] != '-')
				return false;
		if (name.len == 0 || !is_value(value))
			return false;
		message->fields[message->n_fields++] = (struct kh_field){ name, value };
	}
	return true;
}

static void check_made(const struct kh_re_sign *re_sign, const struct kh_re_signed *made)
{
	struct kh_slice target = kh_buf_view(&made->target), fields = kh_buf_view(&made->fields);
	struct kh_slice rest = fields;
	unsigned signatures = 0;

	for (size_t i = 0; i < target.len; i++)
		CHECK(target.ptr[i] > ' ' && target.ptr[i] <= '~');
	while (rest.len > 0) {
		struct kh_slice line = take_line(&rest);

		CHECK(line.len > 1 && line.ptr[line.len - 1] == '\r' &&
		      is_value(kh_slice_sub(line, 0, line.len - 1)));
		signatures += kh_slice_has_prefix(line, KH_SLICE("Authorization: AWS4"));
	}
	struct kh_slice query = kh_slice_sub(target, kh_slice_find(target, '?', 0) + 1, target.len);
	struct kh_slice name, value;
	unsigned in_query = 0;
	while (query.len > 0 && kh_query_next(&query, &name, &value)) {
		char room[64];

		in_query += kh_slice_eq_nocase(kh_sigv4_decode(name, room, sizeof(room)),
					       KH_SLICE("x-amz-signature"));
	}
	CHECK(signatures == (re_sign->form == KH_RE_SIGN_HEADER ? 1u : 0u));
	CHECK(in_query == (re_sign->form == KH_RE_SIGN_QUERY ? 1u : 0u));
	CHECK(!memmem(target.ptr, target.len, "SECRET", 6));
	CHECK(!memmem(fields.ptr, fields.len, "SECRET", 6));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_slice rest = kh_slice_of(data, size);
	struct kh_slice host_text = take_line(&rest), raw = take_line(&rest);
	const struct kh_sigv4_config config = { .region = NULL };
	struct kh_message message = { .method = KH_SLICE_INIT("PUT"),
				      .framing = KH_FRAMING_CHUNKED };
	struct kh_err err = KH_ERR_INIT;
	struct kh_target target;
	struct kh_host host;
	struct kh_re_sign re_sign;

	if (memmem(data, size, "SECRET", 6) || !kh_host_parse(&host, host_text, NULL) ||
	    !read_fields(&message, rest))
		return 0;
	if (kh_target_parse(&target, message.method, raw, NULL)) {
		bool ok = kh_re_sign_read(&re_sign, &config, &message, target.raw,
					  kh_host_view(&host),
					  UINT64_C(1369353600000) /* 2013-05-24 */, &err);
		CHECK(ok == (err.code == KH_ERR_NONE));
		if (ok) {
			struct kh_field fields[KH_LIMIT_FIELDS + 1];
			struct kh_re_signed made;
			size_t n = 0;

			CHECK(kh_sigv4_host_fits_service(kh_host_view(&host),
							 kh_slice_str(re_sign.scope.service)));
			fields[n++] = (struct kh_field){ KH_SLICE("Host"), host_text };
			for (size_t i = 0; i < message.n_fields; i++)
				if (!kh_carrier_is_field(message.fields[i].name) &&
				    !kh_re_sign_replaces(message.fields[i].name))
					fields[n++] = message.fields[i];
			const struct kh_re_sign_head head = { message.method, target.raw, fields,
							      n };
			kh_re_signed_init(&made);
			CHECK(kh_re_sign_make(&made, &re_sign, &head, keys(), &err));
			check_made(&re_sign, &made);
			kh_re_signed_fini(&made);
		}
	}
	kh_target_fini(&target);
	return 0;
}
