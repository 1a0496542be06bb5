/*
 * fuzz_exec_output.c - what a command printed, read as a value and its end
 *
 * The first byte says what is asked for: a member, an end, the first line, a document, text or
 * JSON. A value that is taken is within its bound, an end that is given lies ahead, and no JSON
 * that is cut off is a value unless text is asked for.
 */
#include <stdlib.h>

#include <jansson.h>

#include <keeper/job_internal.h>
#include <keyhole/base/limits.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint64_t now = UINT64_C(1800000000000);
	static char json[] = "data.0.key", expires[] = "data.0.until";
	if (size == 0)
		return 0;
	const struct kh_exec exec = { .json = data[0] & 1 ? json : NULL,
				      .expires = data[0] & 2 ? expires : NULL,
				      .first_line = data[0] & 4,
				      .format = (enum kh_exec_format)(data[0] >> 4 & 3) % 3 };
	struct kh_exec_output exec_output;
	struct kh_err err = KH_ERR_INIT;
	bool read = kh_exec_output_read(&exec_output, kh_slice_of((const char *)data + 1, size - 1),
					&exec, data[0] & 8, now, &err);
	if (kh_buf_len(&exec_output.value) > KH_LIMIT_SECRET_BYTES ||
	    (read && exec_output.expires_ms && exec_output.expires_ms <= now) ||
	    (!read && !err.code))
		abort();
	if (read && !exec.first_line && exec.format == KH_EXEC_AUTO && data[1] == '{') {
		json_t *root = json_loadb((const char *)data + 1, size - 1, 0, NULL);
		if (!root)
			abort();
		json_decref(root);
	}
	kh_exec_output_fini(&exec_output);
	return 0;
}
