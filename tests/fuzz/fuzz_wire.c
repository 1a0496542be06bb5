/*
 * fuzz_wire.c - the reader of what another process encoded
 *
 * The first half of the input says what is read, the second is what it is read from. Once bad, a
 * reader gives nothing any more; what it gives lies inside its input.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/wire.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void step(struct kh_wire_reader *r, uint8_t what)
{
	bool bad = r->bad;
	struct kh_slice before = r->rest;
	uint64_t number = 0;
	struct kh_slice view = { "", 0 };
	char *str = NULL;
	switch (what % 7) {
	case 0:
		number = kh_wire_u8(r);
		break;
	case 1:
		number = kh_wire_u16(r);
		break;
	case 2:
		number = kh_wire_u32(r);
		break;
	case 3:
		number = kh_wire_u64(r);
		break;
	case 4:
		view = kh_wire_bytes(r);
		break;
	case 5:
		str = kh_wire_str(r);
		require(!str || strlen(str) < before.len);
		break;
	default:
		number = kh_wire_count(r, what);
		require(number <= what && number <= r->rest.len);
	}
	require(!bad || r->bad);
	if (r->bad)
		require(number == 0 && view.len == 0 && !str && r->rest.len == 0);
	else
		require(r->rest.len < before.len &&
			r->rest.ptr + r->rest.len == before.ptr + before.len);
	if (view.len)
		require(view.ptr >= before.ptr && view.ptr + view.len <= r->rest.ptr);
	free(str);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t half = size / 2;
	struct kh_wire_reader r = { .rest = kh_slice_of(data + half, size - half) };
	for (size_t i = 0; i < half; i++)
		step(&r, data[i]);
	require(!kh_wire_done(&r) || !r.bad);
	return 0;
}
