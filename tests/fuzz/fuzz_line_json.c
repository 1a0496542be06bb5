/*
 * fuzz_line_json.c - what a journal's reader takes for JSON, jansson takes too
 *
 * The other way round it holds but for what the reader refuses on purpose: blanks, escapes in the
 * names of the outermost object, more members or deeper nesting than records have.
 */
#include <stdlib.h>

#include <jansson.h>

#include "audit/audit_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *parsed = json_loadb((const char *)data, size,
				    JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
	bool ours = kh_line_is_json(kh_slice_of(data, size));

	/* A number past a double's range is JSON, and too much for jansson. */
	if (ours && !parsed && !memchr(data, 'e', size) && !memchr(data, 'E', size) && size < 300)
		abort();
	if (ours && parsed && !json_is_object(parsed))
		abort();
	/* Written anew it is what a record could be, but for the bounds and escapes in names. */
	if (!ours && json_is_object(parsed) && size < 60) {
		char *compact = json_dumps(parsed, JSON_COMPACT | JSON_ENSURE_ASCII);

		if (compact && !strpbrk(compact + 1, "\\[{") &&
		    !kh_line_is_json(kh_slice_str(compact)))
			abort();
		free(compact);
	}
	json_decref(parsed);
	return 0;
}
