/*
 * fuzz_geo.c - a database of countries or networks, damaged in any way
 *
 * The library reads it; what is held here is what we make of what it says: a place is a place, no
 * place or a failure, and none of these is allowed where it may not be.
 */
#include <keyhole/base/file.h>
#include <keyhole/net/geo.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The library keeps what it had read of metadata that turns out to be damaged; a few KiB a file. */
const char *__lsan_default_suppressions(void); // NOLINT(bugprone-reserved-identifier)
const char *__lsan_default_suppressions(void)  // NOLINT(bugprone-reserved-identifier)
{
	return "leak:libmaxminddb\n";
}

static void require(bool what)
{
	if (!what)
		abort();
}

static const char *const addresses[] = {
	"1.0.0.1",
	"8.8.8.8",
	"127.1.0.1",
	"127.2.0.1",
	"127.3.0.1",
	"0.0.0.0",
	"255.255.255.255",
	"203.0.113.1",
	"[::1]",
	"[2001:4860::1]",
	"[ffff::]",
	"[::ffff:8.8.8.8]",
	"[64:ff9b::808:808]",
	"[2002:808:808::]",
	"[8000::1]",
};

static void look_up(const struct kh_geo *geo, const char *text)
{
	static uint32_t us[] = { 'U' << 8 | 'S' }, one[] = { 15169 };
	const struct kh_geo_rules only_us = { .allow_countries = { us, 1 } };
	const struct kh_geo_rules no_us = { .deny_countries = { us, 1 },
					    .allow_unknown_country = true };
	const struct kh_geo_rules only_one = { .allow_asns = { one, 1 } };
	const struct kh_geo_levels allow = { .at = { &only_us } }, deny = { .at = { &no_us } };
	const struct kh_geo_levels network = { .at = { [KH_GEO_RULE] = &only_one } };
	struct kh_sockaddr addr;
	struct kh_place place;
	require(kh_sockaddr_parse(&addr, kh_slice_str(text), 443, NULL));
	kh_geo_find(geo, &addr, &place);
	size_t len = strlen(place.country);
	require(len == 0 || len == 2);
	for (size_t i = 0; i < len; i++)
		require(place.country[i] >= 'A' && place.country[i] <= 'Z');
	bool is_us = strcmp(place.country, "US") == 0;
	require(kh_geo_allows(geo, &allow, &addr, NULL) == (!place.failed && is_us));
	require(kh_geo_allows(geo, &deny, &addr, NULL) == (!place.failed && !is_us));
	require(kh_geo_allows(geo, &network, &addr, NULL) ==
		(!place.failed && place.asn == one[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = kh_file_sealed("fuzz", kh_slice_of(data, size), NULL);
	require(fd >= 0);
	for (int kind = 0; kind < 2; kind++) {
		struct kh_geo *geo = kh_geo_open(kind == 0 ? fd : -1, kind == 0 ? -1 : fd, NULL);
		for (size_t i = 0; geo && i < sizeof(addresses) / sizeof(addresses[0]); i++)
			look_up(geo, addresses[i]);
		kh_geo_unref(geo);
	}
	(void)close(fd);
	return 0;
}
