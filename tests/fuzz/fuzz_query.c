/* fuzz_query.c - carriers of authentication in a query: none is left, and nothing else is lost */
#include <stdlib.h>

#include <keyhole/credential.h>
#include <keyhole/target.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

static struct kh_slice query_of(struct kh_slice raw)
{
	size_t mark = kh_slice_find(raw, '?', 0);

	return mark < raw.len ? kh_slice_sub(raw, mark + 1, raw.len) : kh_slice_of(NULL, 0);
}

/* Every parameter of `part` is found in `whole`, in that order. */
static void check_kept(struct kh_slice whole, struct kh_slice part)
{
	struct kh_slice name, value, other_name, other_value;

	while (kh_query_next(&part, &name, &value)) {
		bool found = false;

		while (!found && kh_query_next(&whole, &other_name, &other_value))
			found = kh_slice_eq(name, other_name) && kh_slice_eq(value, other_value);
		CHECK(found || (name.len == 0 && value.len == 0));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_slice raw = kh_slice_of(data, size), name, value;
	static struct kh_message no_fields;
	struct kh_buf once, twice;

	kh_buf_init(&once, 1024 << 10);
	kh_buf_init(&twice, 1024 << 10);
	CHECK(kh_carrier_strip_query(&once, raw));
	struct kh_slice rest = query_of(kh_buf_view(&once));
	CHECK(kh_carrier_find(&no_fields, rest).len == 0);
	while (kh_query_next(&rest, &name, &value))
		CHECK(!kh_carrier_is_query(name));
	check_kept(query_of(raw), query_of(kh_buf_view(&once)));
	CHECK(kh_carrier_strip_query(&twice, kh_buf_view(&once)));
	CHECK(kh_slice_eq(kh_buf_view(&once), kh_buf_view(&twice)));
	CHECK(kh_slice_eq(
		kh_slice_sub(raw, 0, kh_slice_find(raw, '?', 0)),
		kh_slice_sub(kh_buf_view(&once), 0, kh_slice_find(kh_buf_view(&once), '?', 0))));
	kh_buf_fini(&once);
	kh_buf_fini(&twice);
	return 0;
}
