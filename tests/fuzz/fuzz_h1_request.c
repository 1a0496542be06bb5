/* fuzz_h1_request.c - requests: however cut, the same events; written again, the same message */
#include "h1_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	trace_check(KH_H1_REQUESTS, "", kh_slice_of(data, size));
	return 0;
}
