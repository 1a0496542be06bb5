/* test_geo.c - where an address lies, and what the lists make of it */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/net/geo.h>
#include <keyhole/net/guard.h>

#define CORPUS "tests/fuzz/corpus/geo/"

static struct kh_sockaddr address(const char *text)
{
	struct kh_sockaddr addr;
	if (!kh_sockaddr_parse(&addr, kh_slice_str(text), 443, NULL))
		fail_msg("%s", text);
	return addr;
}

static struct kh_place place_of(const struct kh_geo *geo, const char *text)
{
	struct kh_sockaddr addr = address(text);
	struct kh_place place;
	kh_geo_find(geo, &addr, &place);
	return place;
}

static void lies_in(const struct kh_geo *geo, const char *text, const char *country, uint32_t asn)
{
	struct kh_place place = place_of(geo, text);
	if (strcmp(place.country, country) != 0 || place.asn != asn || place.failed)
		fail_msg("%s: %s AS%u%s", text, place.country, place.asn,
			 place.failed ? " failed" : "");
}

static struct kh_geo *load(const char *country, const char *asn)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_geo *geo = kh_geo_load(country, asn, &err);
	if (!geo)
		fail_msg("%s", err.text);
	return geo;
}

/* --- databases -------------------------------------------------------------------------------- */

static void addresses_are_found_in_both_databases(void **state)
{
	(void)state;
	struct kh_geo *geo = load(CORPUS "country", CORPUS "asn");
	lies_in(geo, "127.1.0.1", "DE", 64500);
	lies_in(geo, "127.2.255.255", "XX", 64501);
	lies_in(geo, "127.3.0.0", "", 0);
	lies_in(geo, "8.8.8.8", "US", 0);
	lies_in(geo, "[2001:4860::1]", "US", 15169);
	lies_in(geo, "[2001:4861::1]", "", 0);
	lies_in(geo, "203.0.113.1", "", 0); /* a continent is no country */
	kh_geo_unref(geo);
}

static void every_size_of_records_and_both_versions_are_read(void **state)
{
	(void)state;
	static const char *const files[] = { CORPUS "country", CORPUS "country24",
					     CORPUS "version4" };
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct kh_geo *geo = load(files[i], NULL);
		lies_in(geo, "127.1.0.1", "DE", 0);
		lies_in(geo, "1.0.0.255", "AU", 0);
		lies_in(geo, "9.9.9.9", "", 0);
		/* A database of version 4 knows none of version 6, and that is no failure. */
		lies_in(geo, "[2001:4860::1]", i < 2 ? "US" : "", 0);
		kh_geo_unref(geo);
	}
}

/* Where DNS64, or an attacker's name server, writes an IPv4 address as an IPv6 one. */
static void an_address_that_stands_for_another_lies_where_that_one_does(void **state)
{
	(void)state;
	static const char *const of_us[] = { "[::ffff:8.8.8.8]", "[64:ff9b::808:808]",
					     "[2002:808:808::1]", "[64:ff9b:1::808:808]",
					     "[2001:0:7f03:1::f7f7:f7f7]" };
	struct kh_geo *geo = load(CORPUS "country", NULL);
	for (size_t i = 0; i < sizeof(of_us) / sizeof(of_us[0]); i++)
		lies_in(geo, of_us[i], "US", 0);
	kh_geo_unref(geo);
}

static void each_address_that_may_be_meant_has_to_pass(void **state)
{
	(void)state;
	uint32_t us[] = { 'U' << 8 | 'S' };
	const struct kh_geo_rules no_us = { .deny_countries = { us, 1 },
					    .allow_unknown_country = true };
	const struct kh_geo_levels levels = { .at = { [KH_GEO_TENANT] = &no_us } };
	struct kh_geo *geo = load(CORPUS "country", NULL);
	/* Behind a /48 it is 127.1.0.1, as a /96 8.8.8.8; and the other way round. */
	static const char *const both[] = { "[64:ff9b:1:7f01:0:100:808:808]",
					    "[64:ff9b:1:808:8:800:7f01:1]" };
	for (size_t i = 0; i < 2; i++) {
		struct kh_sockaddr addr = address(both[i]);
		struct kh_err err = KH_ERR_INIT;
		assert_false(kh_geo_allows(geo, &levels, &addr, &err));
		assert_int_equal(err.code, KH_ERR_GEO_PROHIBITED);
	}
	kh_geo_unref(geo);
}

static void a_damaged_record_fails_and_is_never_allowed(void **state)
{
	(void)state;
	uint32_t fr[] = { 'F' << 8 | 'R' };
	const struct kh_geo_rules no_fr = { .deny_countries = { fr, 1 },
					    .allow_unknown_country = true };
	const struct kh_geo_levels levels = { .at = { &no_fr } }, none = { .at = { NULL } };
	static const char *const damaged[] = { "127.1.0.1", "127.2.0.1", "127.3.0.1", "127.4.0.1" };
	struct kh_geo *geo = load(CORPUS "damaged", NULL);
	lies_in(geo, "1.0.0.1", "AU", 0);
	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		struct kh_sockaddr addr = address(damaged[i]);
		assert_true(place_of(geo, damaged[i]).failed);
		assert_false(kh_geo_allows(geo, &levels, &addr, NULL));
		assert_true(kh_geo_allows(geo, &none, &addr, NULL));
	}
	kh_geo_unref(geo);
}

static void what_is_no_database_of_its_kind_is_refused(void **state)
{
	(void)state;
	static const char *const files[][2] = {
		{ CORPUS "asn", NULL },	    { NULL, CORPUS "country" },
		{ CORPUS "cut", NULL },	    { "/dev/null", NULL },
		{ "/nowhere", NULL },	    { "Makefile", NULL },
		{ "/proc/self/mem", NULL }, { "src", NULL },
	};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct kh_err err = KH_ERR_INIT;
		assert_null(kh_geo_load(files[i][0], files[i][1], &err));
		assert_non_null(strstr(err.text, files[i][0] ? "upstream.geo.country_db: "
							     : "upstream.geo.asn_db: "));
	}
}

static void without_databases_nothing_is_known(void **state)
{
	(void)state;
	uint32_t us[] = { 'U' << 8 | 'S' };
	const struct kh_geo_rules only_us = { .allow_countries = { us, 1 } };
	const struct kh_geo_levels levels = { .at = { &only_us } };
	struct kh_sockaddr addr = address("8.8.8.8");
	lies_in(NULL, "8.8.8.8", "", 0);
	assert_false(kh_geo_allows(NULL, &levels, &addr, NULL));
	kh_geo_unref(kh_geo_ref(NULL));
}

/* --- lists ------------------------------------------------------------------------------------ */

enum { DE = 'D' << 8 | 'E', FR = 'F' << 8 | 'R', US = 'U' << 8 | 'S' };

static bool allows(struct kh_geo_rules rules, struct kh_place place)
{
	const struct kh_geo_levels levels = { .at = { [KH_GEO_RULE] = &rules } };
	return kh_geo_denies(&levels, &place) == NULL;
}

static void lists_mean_what_they_say(void **state)
{
	(void)state;
	uint32_t de_fr[] = { DE, FR }, fr[] = { FR }, seven[] = { 7 };
	const struct kh_numbers both = { de_fr, 2 }, france = { fr, 1 }, as7 = { seven, 1 };
	const struct kh_place germany = { .country = "DE", .asn = 5 };
	const struct kh_place in_7 = { .country = "DE", .asn = 7 };
	const struct kh_place nowhere = { .asn = 7 }, failed = { .country = "DE", .failed = true };

	assert_true(allows((struct kh_geo_rules){ .allow_countries = both }, germany));
	assert_false(allows((struct kh_geo_rules){ .allow_countries = france }, germany));
	assert_false(allows((struct kh_geo_rules){ .deny_countries = both }, germany));
	assert_true(allows((struct kh_geo_rules){ .deny_countries = france }, germany));
	/* What is denied is denied, whatever is allowed; and both kinds have to allow it. */
	assert_false(allows(
		(struct kh_geo_rules){ .allow_countries = both, .deny_countries = both }, germany));
	assert_false(allows((struct kh_geo_rules){ .allow_countries = both, .allow_asns = as7 },
			    germany));
	assert_true(
		allows((struct kh_geo_rules){ .allow_countries = both, .allow_asns = as7 }, in_7));
	assert_false(allows((struct kh_geo_rules){ .allow_countries = france, .allow_asns = as7 },
			    in_7));
	assert_false(
		allows((struct kh_geo_rules){ .allow_countries = both, .deny_asns = as7 }, in_7));
	/* Unknown counts for the kind that it is unknown of. */
	assert_false(allows((struct kh_geo_rules){ .deny_countries = both }, nowhere));
	assert_true(allows(
		(struct kh_geo_rules){ .deny_countries = both, .allow_unknown_country = true },
		nowhere));
	assert_true(allows((struct kh_geo_rules){ .allow_asns = as7 }, nowhere));
	assert_false(allows((struct kh_geo_rules){ .deny_countries = france,
						   .allow_unknown_country = true,
						   .allow_unknown_asn = true },
			    failed));
}

static void any_level_denies(void **state)
{
	(void)state;
	uint32_t de[] = { DE }, us[] = { US };
	const struct kh_geo_rules allow = { .allow_countries = { de, 1 } };
	const struct kh_geo_rules deny = { .allow_countries = { us, 1 } };
	const struct kh_place place = { .country = "DE" };
	for (unsigned i = 0; i < KH_GEO_LEVELS; i++) {
		struct kh_geo_levels levels = { .at = { &allow, &allow, &allow, &allow } };
		assert_null(kh_geo_denies(&levels, &place));
		levels.at[i] = NULL;
		assert_null(kh_geo_denies(&levels, &place));
		levels.at[i] = &deny;
		assert_non_null(kh_geo_denies(&levels, &place));
	}
}

/* --- databases that others made ------------------------------------------------------------------
 */

static const char *root(void)
{
	const char *data = getenv("KEYHOLE_TESTDATA");
	return data ? data : "../shared/testdata";
}

static void ask_everywhere(const struct kh_geo *geo)
{
	uint32_t us[] = { US };
	const struct kh_geo_rules only_us = { .allow_countries = { us, 1 },
					      .allow_asns = { us, 1 } };
	const struct kh_geo_levels levels = { .at = { &only_us } };
	for (unsigned i = 0; i < 4096; i++) {
		char text[64];
		(void)snprintf(text, sizeof(text), i % 2 ? "%u.%u.1.1" : "[%x:%x::1]", i / 16,
			       i % 16 * 16);
		struct kh_sockaddr addr = address(text);
		struct kh_place place;
		kh_geo_find(geo, &addr, &place);
		bool is_us = strcmp(place.country, "US") == 0 && place.asn == US;
		assert_int_equal(kh_geo_allows(geo, &levels, &addr, NULL), is_us && !place.failed);
	}
}

static void a_corrupt_database_is_refused_or_harmless(void **state)
{
	(void)state;
	kh_auto_free char *folder = kh_path_join(root(), "mmdb/bad");
	DIR *dir = opendir(folder);
	unsigned n = 0, refused = 0;
	if (!dir) {
		print_message("skipped: no databases in %s (KEYHOLE_TESTDATA)\n", folder);
		free(kh_steal_ptr(&folder));
		skip();
	}
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		kh_auto_free char *path = kh_path_join(folder, entry->d_name);
		for (int kind = 0; kind < 2; kind++) {
			struct kh_geo *geo =
				kh_geo_load(kind ? NULL : path, kind ? path : NULL, NULL);
			n++;
			refused += geo == NULL;
			if (geo)
				ask_everywhere(geo);
			kh_geo_unref(geo);
		}
	}
	(void)closedir(dir);
	assert_true(n >= 20);
	assert_int_equal(refused, n); /* none of them is a database of countries or networks */
}

static void published_test_databases_say_what_their_sources_say(void **state)
{
	(void)state;
	kh_auto_free char *country = kh_path_join(root(), "mmdb/GeoLite2-Country-Test.mmdb");
	kh_auto_free char *asn = kh_path_join(root(), "mmdb/GeoLite2-ASN-Test.mmdb");
	struct kh_geo *geo = kh_geo_load(country, asn, NULL);
	if (!geo) {
		print_message("skipped: no databases in %s/mmdb (KEYHOLE_TESTDATA)\n", root());
		free(kh_steal_ptr(&country));
		free(kh_steal_ptr(&asn));
		skip();
	}
	lies_in(geo, "2.125.160.217", "GB", 0);
	lies_in(geo, "89.160.20.113", "SE", 29518);
	lies_in(geo, "1.128.0.1", "", 1221);
	lies_in(geo, "[::ffff:2.125.160.217]", "GB", 0);
	lies_in(geo, "192.0.2.1", "", 0);
	kh_geo_unref(geo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_found_in_both_databases),
		cmocka_unit_test(every_size_of_records_and_both_versions_are_read),
		cmocka_unit_test(an_address_that_stands_for_another_lies_where_that_one_does),
		cmocka_unit_test(each_address_that_may_be_meant_has_to_pass),
		cmocka_unit_test(a_damaged_record_fails_and_is_never_allowed),
		cmocka_unit_test(what_is_no_database_of_its_kind_is_refused),
		cmocka_unit_test(without_databases_nothing_is_known),
		cmocka_unit_test(lists_mean_what_they_say),
		cmocka_unit_test(any_level_denies),
		cmocka_unit_test(a_corrupt_database_is_refused_or_harmless),
		cmocka_unit_test(published_test_databases_say_what_their_sources_say),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
