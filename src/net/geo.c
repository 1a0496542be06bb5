/*
 * geo.c - the country and network of an address, and whether it may be dialled
 *
 * The databases are read by libmaxminddb, which maps them. Others write these files. So only a
 * sealed copy is mapped (a mapped file that shrinks causes SIGBUS), and a damaged record is found
 * only when it is looked up. A lookup has three results: a place, no place, and failed. If a list
 * is configured, only the first two can be allowed.
 *
 * Before a database is used, a bounded walk through its tree searches for the first record with the
 * expected data. That detects a database of another kind, in which every address would be unknown.
 */
#include <keyhole/net/geo.h>

#include <arpa/inet.h>
#include <errno.h>
#include <maxminddb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/net/guard.h>
#include <keyhole/base/limits.h>

enum { COUNTRY = 0, ASN, KINDS, MOST_PENDING = 512 };

struct database {
	bool is_open;
	MMDB_s mmdb;
};

struct kh_geo {
	atomic_uint refs;
	struct database db[KINDS];
};

static const char *const holds[KINDS] = { "country.iso_code", "autonomous_system_number" };

/* ---- one record ---- */

enum found { NOT_THERE = 0, THERE, DAMAGED };

static enum found read_country(MMDB_entry_s *entry, struct kh_place *out)
{
	MMDB_entry_data_s data;
	int status = MMDB_get_value(entry, &data, "country", "iso_code", NULL);
	if (status == MMDB_LOOKUP_PATH_DOES_NOT_MATCH_DATA_ERROR ||
	    (status == MMDB_SUCCESS && !data.has_data))
		return NOT_THERE;
	if (status != MMDB_SUCCESS || data.type != MMDB_DATA_TYPE_UTF8_STRING ||
	    data.data_size != 2)
		return DAMAGED;
	for (unsigned i = 0; i < 2; i++)
		if (data.utf8_string[i] < 'A' || data.utf8_string[i] > 'Z')
			return DAMAGED;
	memcpy(out->country, data.utf8_string, 2);
	return THERE;
}

static enum found read_asn(MMDB_entry_s *entry, struct kh_place *out)
{
	MMDB_entry_data_s data;
	int status = MMDB_get_value(entry, &data, "autonomous_system_number", NULL);
	if (status == MMDB_LOOKUP_PATH_DOES_NOT_MATCH_DATA_ERROR ||
	    (status == MMDB_SUCCESS && !data.has_data))
		return NOT_THERE;
	if (status != MMDB_SUCCESS || data.type != MMDB_DATA_TYPE_UINT32)
		return DAMAGED;
	out->asn = data.uint32;
	return data.uint32 ? THERE : NOT_THERE;
}

static enum found read_entry(unsigned kind, MMDB_entry_s *entry, struct kh_place *out)
{
	return kind == COUNTRY ? read_country(entry, out) : read_asn(entry, out);
}

/* ---- opening ---- */

struct walk {
	uint32_t pending[MOST_PENDING];
	unsigned n;
	unsigned nodes;
};

/* Return: it has come to something; *ok says what. */
static bool take_record(struct walk *walk, unsigned kind, uint8_t type, uint64_t value,
			MMDB_entry_s *entry, enum found *out)
{
	struct kh_place place;
	switch (type) {
	case MMDB_RECORD_TYPE_SEARCH_NODE:
		if (walk->n == MOST_PENDING) /* deeper than addresses are long */
			*out = DAMAGED;
		else
			walk->pending[walk->n++] = (uint32_t)value;
		break;
	case MMDB_RECORD_TYPE_DATA:
		*out = read_entry(kind, entry, &place);
		break;
	case MMDB_RECORD_TYPE_EMPTY:
		break;
	default:
		*out = DAMAGED;
	}
	return *out != NOT_THERE;
}

/* What the first record of its kind says; NOT_THERE: none of those that were looked at is. */
static enum found look_into(const MMDB_s *mmdb, unsigned kind)
{
	struct walk walk = { .n = 1 };
	enum found found = NOT_THERE;
	while (walk.n > 0 && walk.nodes++ < KH_LIMIT_GEO_NODES) {
		MMDB_search_node_s node;
		if (MMDB_read_node(mmdb, walk.pending[--walk.n], &node) != MMDB_SUCCESS)
			return DAMAGED;
		if (take_record(&walk, kind, node.right_record_type, node.right_record,
				&node.right_record_entry, &found) ||
		    take_record(&walk, kind, node.left_record_type, node.left_record,
				&node.left_record_entry, &found))
			return found;
	}
	return NOT_THERE;
}

static bool open_database(struct database *db, unsigned kind, int fd, struct kh_err *err)
{
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	(void)kh_file_lend(fd);
	int status = MMDB_open(path, MMDB_MODE_MMAP, &db->mmdb), why = errno;
	(void)kh_file_lend(-1);
	if (status == MMDB_FILE_OPEN_ERROR || status == MMDB_OUT_OF_MEMORY_ERROR)
		return kh_err_sys(err, KH_ERR_CONFIG, why, "it can't be opened as a database");
	if (status != MMDB_SUCCESS)
		return kh_err_set(err, KH_ERR_CONFIG, "it is no database, or damaged: %s",
				  MMDB_strerror(status));
	db->is_open = true;
	switch (look_into(&db->mmdb, kind)) {
	case THERE:
		return true;
	case NOT_THERE:
		return kh_err_set(err, KH_ERR_CONFIG,
				  "%s is in none of its first records: it is a database of "
				  "another kind, or an empty one",
				  holds[kind]);
	case DAMAGED:
		break;
	}
	return kh_err_set(err, KH_ERR_CONFIG, "it is damaged: its tree can't be read");
}

struct kh_geo *kh_geo_open(int country, int asn, struct kh_err *err)
{
	struct kh_geo *geo = calloc(1, sizeof(*geo));
	if (!geo) {
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a database");
		return NULL;
	}
	atomic_init(&geo->refs, 1);
	if ((country < 0 || open_database(&geo->db[COUNTRY], COUNTRY, country, err)) &&
	    (asn < 0 || open_database(&geo->db[ASN], ASN, asn, err)))
		return geo;
	kh_geo_unref(geo);
	return NULL;
}

static bool load(struct kh_geo *geo, unsigned kind, const char *path, struct kh_err *err)
{
	struct stat was;
	if (!path)
		return true;
	kh_auto_close int fd = kh_file_sealed_copy(path, KH_LIMIT_GEO_BYTES, &was, err);
	if (fd < 0)
		return false;
	return open_database(&geo->db[kind], kind, fd, err) || kh_err_wrap(err, "%s", path);
}

struct kh_geo *kh_geo_load(const char *country, const char *asn, struct kh_err *err)
{
	struct kh_geo *geo = kh_geo_open(-1, -1, err);
	if (!geo)
		return NULL;
	if ((load(geo, COUNTRY, country, err) || kh_err_wrap(err, "upstream.geo.country_db")) &&
	    (load(geo, ASN, asn, err) || kh_err_wrap(err, "upstream.geo.asn_db")))
		return geo;
	kh_geo_unref(geo);
	return NULL;
}

struct kh_geo *kh_geo_ref(struct kh_geo *geo)
{
	if (geo)
		atomic_fetch_add_explicit(&geo->refs, 1, memory_order_relaxed);
	return geo;
}

void kh_geo_unref(struct kh_geo *geo)
{
	if (!geo || atomic_fetch_sub_explicit(&geo->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (unsigned i = 0; i < KINDS; i++)
		if (geo->db[i].is_open)
			MMDB_close(&geo->db[i].mmdb);
	free(geo);
}

/* ---- looking up ---- */

static void find_in(const struct database *db, unsigned kind, const struct sockaddr *addr,
		    struct kh_place *out)
{
	int status = MMDB_SUCCESS;
	if (!db->is_open)
		return;
	MMDB_lookup_result_s result = MMDB_lookup_sockaddr(&db->mmdb, addr, &status);
	/* A database of version 4 knows no address of version 6. */
	if (status == MMDB_IPV6_LOOKUP_IN_IPV4_DATABASE_ERROR)
		return;
	if (status != MMDB_SUCCESS ||
	    (result.found_entry && read_entry(kind, &result.entry, out) == DAMAGED))
		out->failed = true;
}

static void find(const struct kh_geo *geo, const struct sockaddr *addr, struct kh_place *out)
{
	*out = (struct kh_place){ .failed = false };
	for (unsigned i = 0; geo && i < KINDS; i++)
		find_in(&geo->db[i], i, addr, out);
}

/* The addresses that are reached by `addr`: itself, or those that it stands for. */
static unsigned reached_by(const struct kh_sockaddr *addr, struct kh_sockaddr out[2])
{
	uint8_t v4[2][4];
	unsigned n = kh_guard_carried(addr, v4);
	for (unsigned i = 0; i < n; i++) {
		out[i] = (struct kh_sockaddr){ .len = sizeof(out[i].v4) };
		out[i].v4.sin_family = AF_INET;
		memcpy(&out[i].v4.sin_addr, v4[i], sizeof(v4[i]));
	}
	if (n == 0)
		out[0] = *addr;
	return n ? n : 1;
}

void kh_geo_find(const struct kh_geo *geo, const struct kh_sockaddr *addr, struct kh_place *out)
{
	struct kh_sockaddr reached[2];
	(void)reached_by(addr, reached);
	find(geo, &reached[0].any, out);
}

/* ---- judging ---- */

static bool has(const struct kh_numbers *numbers, uint32_t number)
{
	size_t from = 0, to = numbers->count;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (numbers->list[middle] == number)
			return true;
		if (numbers->list[middle] < number)
			from = middle + 1;
		else
			to = middle;
	}
	return false;
}

/* One kind of lists; `number` 0: not known. */
static bool lists_allow(const struct kh_numbers *allow, const struct kh_numbers *deny,
			uint32_t number, bool allow_unknown)
{
	if (allow->count == 0 && deny->count == 0)
		return true;
	if (number == 0)
		return allow_unknown;
	return !has(deny, number) && (allow->count == 0 || has(allow, number));
}

static bool level_allows(const struct kh_geo_rules *geo, const struct kh_place *place)
{
	uint32_t country =
		(uint32_t)(unsigned char)place->country[0] << 8 | (unsigned char)place->country[1];
	return !place->failed &&
	       lists_allow(&geo->allow_countries, &geo->deny_countries, country,
			   geo->allow_unknown_country) &&
	       lists_allow(&geo->allow_asns, &geo->deny_asns, place->asn, geo->allow_unknown_asn);
}

const char *kh_geo_denies(const struct kh_geo_levels *levels, const struct kh_place *place)
{
	static const char *const names[KH_GEO_LEVELS] = {
		[KH_GEO_SITE] = "site.geo",
		[KH_GEO_TENANT] = "the tenant's geo",
		[KH_GEO_SITE_RULE] = "the geo of the site's rule",
		[KH_GEO_RULE] = "the rule's geo",
	};
	for (unsigned i = 0; i < KH_GEO_LEVELS; i++)
		if (levels->at[i] && !level_allows(levels->at[i], place))
			return names[i];
	return NULL;
}

static bool prohibit(const struct kh_sockaddr *addr, const struct kh_place *place,
		     const char *level, struct kh_err *err)
{
	char text[KH_SOCKADDR_TEXT_BYTES], network[32] = "";
	kh_sockaddr_format(addr, text);
	if (place->failed)
		return kh_err_set(
			err, KH_ERR_GEO_PROHIBITED,
			"the country or network of %s can't be looked up (the database is "
			"damaged), and "
			"%s asks for it",
			text, level);
	if (place->asn)
		(void)snprintf(network, sizeof(network), " (AS%u)", place->asn);
	return kh_err_set(err, KH_ERR_GEO_PROHIBITED, "%s is in %s%s, where %s lets nobody connect",
			  text, place->country[0] ? place->country : "no known country", network,
			  level);
}

bool kh_geo_allows(const struct kh_geo *geo, const struct kh_geo_levels *levels,
		   const struct kh_sockaddr *addr, struct kh_err *err)
{
	struct kh_sockaddr reached[2];
	if (!kh_geo_asks(levels))
		return true;
	unsigned n = reached_by(addr, reached);
	for (unsigned i = 0; i < n; i++) {
		struct kh_place place;
		find(geo, &reached[i].any, &place);
		const char *level = kh_geo_denies(levels, &place);
		if (level)
			return prohibit(addr, &place, level, err);
	}
	return true;
}
