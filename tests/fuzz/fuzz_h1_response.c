/* fuzz_h1_response.c - responses; the first byte chooses the method of the request */
#include "h1_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const methods[] = { "GET", "HEAD", "CONNECT" };

	if (size > 0)
		trace_check(KH_H1_RESPONSES, methods[data[0] % 3], kh_slice_of(data + 1, size - 1));
	return 0;
}
