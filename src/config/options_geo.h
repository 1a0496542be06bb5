/* options_geo.h - the rows of `geo`, which three owners have, and of its databases */
#ifndef KEYHOLE_CONFIG_OPTIONS_GEO_H
#define KEYHOLE_CONFIG_OPTIONS_GEO_H

#include "carry.h"
#include "config_internal.h"
#include "options_json.h"

#define KH_GEO_DATABASE(key_path, member, about) \
	{ \
		.path = key_path, .type = KH_OPTION_CUSTOM, .flags = KH_IN_FILE, \
		.offset = offsetof(struct kh_config, member), \
		KH_CARRIED(kh_carry_geo_file, kh_config, member), .expects = "a path", \
		.read = kh_config_read_geo_file, .shape = JSON_REF("text"), .doc = about \
	}

#define KH_GEO_DATABASES \
	{ .path = "upstream.geo", \
	  .type = KH_OPTION_SECTION, \
	  .flags = KH_IN_FILE, \
	  .doc = "databases (MMDB) of the countries and networks of addresses" }, \
		KH_GEO_DATABASE("upstream.geo.country_db", country_db, \
				"the database of countries, such as GeoLite2-Country.mmdb"), \
		KH_GEO_DATABASE("upstream.geo.asn_db", asn_db, \
				"the database of autonomous systems (networks), such as " \
				"GeoLite2-ASN.mmdb")

/* `struct_name` has a `struct kh_geo_rules *member`. */
#define KH_GEO(owner, struct_name, member, about) \
	{ \
		.path = owner ".geo", .type = KH_OPTION_CUSTOM, .flags = KH_IN_FILE, \
		.offset = offsetof(struct struct_name, member), \
		KH_CARRIED(kh_carry_geo, struct_name, member), .expects = "a map of lists", \
		.read = kh_config_read_geo, .shape = JSON_REF("geo"), .doc = about \
	}

#endif
