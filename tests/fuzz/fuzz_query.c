/* fuzz_query.c - carriers of authentication in a query: none is left, and nothing else is lost */
#include <stdlib.h>

#include <keyhole/credential/credential.h>
#include <keyhole/http/target.h>

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

/* With a value of ours: it stands there once, whole, and beside it nothing that a server could take
 * for the same, or for another key. */
static void check_injected(struct kh_slice raw)
{
	static char parameter[] = "sig", value[] = "the value&=";
	static struct kh_placement place = { .kind = KH_PLACEMENT_QUERY, .name = parameter };
	static struct kh_credential_config credential = { .name = parameter, .placement = &place };
	static struct kh_injection injection = { .list = { { .credential = &credential } },
						 .count = 1 };
	struct kh_slice name, given, path = kh_slice_sub(raw, 0, kh_slice_find(raw, '?', 0));
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf out;
	size_t n = 0;

	if (!injection.list[0].secret) {
		kh_secret_prepare();
		injection.list[0].secret = kh_secret_new(value, sizeof(value) - 1, NULL);
		CHECK(injection.list[0].secret);
	}
	kh_buf_init_wiping(&out, 1024 << 10);
	bool ok = kh_injection_put_target(&injection, raw, &out, &err);
	CHECK(ok == (raw.len > 0 && raw.ptr[0] == '/'));
	CHECK(ok || kh_buf_len(&out) == 0);
	struct kh_slice rest = query_of(kh_buf_view(&out));
	CHECK(!ok || kh_slice_eq(path, kh_slice_sub(kh_buf_view(&out), 0, path.len)));
	while (ok && kh_query_next(&rest, &name, &given)) {
		bool ours = kh_carrier_is_named(name, KH_SLICE("sig"));
		CHECK(ours || !kh_carrier_is_query(name));
		CHECK(!ours || kh_slice_eq(given, KH_SLICE("the%20value%26%3D")));
		n += ours;
	}
	CHECK(!ok || n == 1);
	kh_buf_fini(&out);
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
	check_injected(raw);
	kh_buf_fini(&once);
	kh_buf_fini(&twice);
	return 0;
}
