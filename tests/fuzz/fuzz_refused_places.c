/*
 * fuzz_refused_places.c - paths that a sandbox chose, as the patterns that a person is shown
 *
 * A line is a path. Each place has a pattern of plain bytes, which is one of rules, shows no
 * placeholder, and together they cover every path. However many there are, the places have an end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/audit/refused_places.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/path.h>
#include <keyhole/exchange/remedy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES_MOST = 64, RULE_BYTES = 1024 };

static void require(bool condition)
{
	if (!condition)
		abort();
}

static bool next_line(struct kh_slice *rest, struct kh_slice *line)
{
	size_t end = kh_slice_find(*rest, '\n', 0);
	if (rest->len == 0)
		return false;
	*line = kh_slice_sub(*rest, 0, end);
	*rest = kh_slice_sub(*rest, end + 1, rest->len);
	return true;
}

/* It can be pasted, and says what it seems to. */
static void look_at(const struct kh_refused_place *place)
{
	struct kh_buf rule;
	kh_buf_init(&rule, RULE_BYTES);
	require(!strstr(place->path, "placeholder"));
	require(!strpbrk(place->path, "'\"\\$`;&|<>()!?# \t\r\n%"));
	require(kh_remedy_rule(&rule, place->methods, place->scheme, place->host, place->port,
			       place->path));
	kh_buf_fini(&rule);
}

static bool is_covered(const struct kh_refused_places *places, struct kh_slice normal)
{
	for (size_t i = 0; i < places->count; i++)
		if (places->list[i].path &&
		    kh_path_matches(kh_slice_str(places->list[i].path), normal))
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const hidden[] = { "placeholder" };
	struct kh_refused_places places;
	struct kh_refused_request request = { .method = KH_SLICE("GET"),
					      .scheme = KH_SLICE("https"),
					      .host = KH_SLICE("a.test"),
					      .port = 443,
					      .reason = KH_ERR_NO_RULE };
	struct kh_slice rest = kh_slice_of(data, size);
	uint64_t n = 0, sum = 0;
	kh_refused_places_init(&places, hidden, 1);
	for (; n < LINES_MOST && next_line(&rest, &request.path); n++)
		kh_refused_places_add(&places, &request);
	require(places.count <= KH_LIMIT_REFUSED_PLACES);
	kh_refused_places_settle(&places);
	for (size_t i = 0; i < places.count; i++) {
		sum += places.list[i].count;
		if (places.list[i].path)
			look_at(&places.list[i]);
	}
	require(sum + places.others == n);
	rest = kh_slice_of(data, size);
	for (uint64_t i = 0; i < n && next_line(&rest, &request.path); i++) {
		struct kh_buf normal;
		kh_buf_init(&normal, request.path.len + 1);
		/* One with a NUL is none that a journal has. */
		if (!memchr(request.path.ptr, '\0', request.path.len) &&
		    kh_path_normalise(request.path, &normal, NULL))
			require(is_covered(&places, kh_buf_view(&normal)));
		kh_buf_fini(&normal);
	}
	kh_refused_places_fini(&places);
	return 0;
}
