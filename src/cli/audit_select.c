/* audit_select.c - which records of a journal `keyhole audit show` is asked for */
#include "audit_select.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/timestamp.h>

#include "cli_internal.h"
#include "record_text.h"

enum { TENANTS_MOST = 64 };

/* ---- --host ---- */

/* Where its ":PORT" begins: not in the brackets of an address, and not in a bare address of version
 * 6, which has more than one colon. */
static size_t find_port(struct kh_slice text)
{
	size_t first = kh_slice_find(text, ':', 0), bracket = kh_slice_find(text, ']', 0);
	if (text.len > 0 && text.ptr[0] == '[')
		return bracket < text.len ? kh_slice_find(text, ':', bracket) : text.len;
	return kh_slice_find(text, ':', first + 1) < text.len ? text.len : first;
}

static bool refuse_host(const char *text, const char *why)
{
	/* What was pasted is often a URL. */
	if (strchr(text, '/'))
		why = "expected a host without a scheme and a path, such as api.example.com, "
		      "*.example.com or api.example.com:8443";
	kh_cli_complain("audit show: --host %s: %s", kh_esc_str(text), why);
	return false;
}

bool kh_audit_select_host(struct kh_audit_select *select, const char *text)
{
	struct kh_slice all = kh_slice_str(text);
	struct kh_err err = KH_ERR_INIT;
	size_t end = find_port(all);
	uint64_t port = 0;

	if (end < all.len && (!kh_slice_to_u64(kh_slice_sub(all, end + 1, all.len), &port) ||
			      port == 0 || port > UINT16_MAX))
		return refuse_host(text, "expected a port from 1 to 65535 after the colon");
	if (!kh_host_pattern_parse(&select->host, kh_slice_sub(all, 0, end), &err))
		return refuse_host(text, err.text);
	select->host_text = text;
	select->port = (uint16_t)port;
	return true;
}

static bool is_of_host(const struct kh_audit_select *select, const json_t *record)
{
	struct kh_host host;

	if (select->host.match == KH_MATCH_NOTHING)
		return true;
	return kh_host_parse(&host, kh_record_text(record, "server.address"), NULL) &&
	       kh_host_pattern_matches(&select->host, &host) &&
	       (select->port == 0 || kh_record_number(record, "server.port") == select->port);
}

/* ---- --since ---- */

/* "90s", "1h30m", "1d": numbers with a unit each. */
static bool read_duration(struct kh_slice text, uint64_t *out_ms)
{
	*out_ms = 0;
	while (text.len > 0) {
		uint64_t ms, number;
		size_t digits = 0, unit;
		while (digits < text.len && kh_is_digit(text.ptr[digits]))
			digits++;
		unit = digits;
		while (unit < text.len && !kh_is_digit(text.ptr[unit]))
			unit++;
		if (kh_slice_eq(kh_slice_sub(text, digits, unit), KH_SLICE("d"))) {
			if (!kh_slice_to_u64(kh_slice_sub(text, 0, digits), &number) ||
			    __builtin_mul_overflow(number, UINT64_C(86400000), &ms))
				return false;
		} else if (!kh_value_duration(kh_slice_sub(text, 0, unit), &ms)) {
			return false;
		}
		if (__builtin_add_overflow(*out_ms, ms, out_ms))
			return false;
		text = kh_slice_sub(text, unit, text.len);
	}
	return true;
}

bool kh_audit_select_since(struct kh_audit_select *select, const char *text, uint64_t now_ms)
{
	struct kh_slice all = kh_slice_str(text);
	kh_auto_free char *midnight = all.len == 10 ? kh_strf("%sT00:00:00Z", text) : NULL;
	uint64_t ms;

	if (all.len > 0 && read_duration(all, &ms)) {
		/* The times of records are read in whole seconds. One beyond the epoch is no bound.
		 */
		select->since_ms = ms < now_ms ? (now_ms - ms) / 1000 * 1000 : 0;
		return true;
	}
	if (kh_timestamp_read(all, KH_TIMESTAMP_LOOSE, &ms) ||
	    (midnight && kh_timestamp_read(kh_slice_str(midnight), KH_TIMESTAMP_RFC3339, &ms))) {
		select->since_ms = ms;
		return true;
	}
	kh_cli_complain(
		"audit show: --since %s: expected a time such as 2026-01-02T03:04:05Z, or a "
		"duration before now such as 10m, 2h or 1d",
		kh_esc_str(text));
	return false;
}

static bool is_recent(const struct kh_audit_select *select, const json_t *record)
{
	uint64_t ms;

	return select->since_ms == 0 ||
	       !kh_timestamp_read(kh_record_text(record, "time"), KH_TIMESTAMP_RFC3339, &ms) ||
	       ms >= select->since_ms;
}

/* ---- each record ---- */

static bool has(const json_t *record, const char *key, const char *wanted)
{
	return !wanted || kh_slice_eq(kh_record_text(record, key), kh_slice_str(wanted));
}

/* For who asked for a tenant that there is not. */
static void note_tenant(struct kh_audit_select *select, const json_t *record)
{
	kh_auto_free char *name = kh_slice_dup(kh_record_text(record, "tenant"));
	if (name && *name && select->tenants && json_object_size(select->tenants) < TENANTS_MOST)
		(void)json_object_set_new_nocheck(select->tenants, name, json_true());
}

bool kh_audit_select_takes(struct kh_audit_select *select, const json_t *record)
{
	bool asked = has(record, "tenant", select->tenant) &&
		     has(record, "sandbox", select->sandbox) && is_recent(select, record);
	note_tenant(select, record);
	if (asked && has(record, "event", "denials"))
		select->counted += kh_record_number(record, "count");
	asked = asked && is_of_host(select, record);
	select->found += asked;
	return asked;
}

/* ---- what was not found ---- */

static void complain_of_tenant(const struct kh_audit_select *select)
{
	const char *names[TENANTS_MOST], *name;
	json_t *value;
	size_t n = 0;
	char known[256] = "";

	json_object_foreach(select->tenants, name, value)
	{
		size_t used = strlen(known);
		if (n < sizeof(names) / sizeof(names[0]))
			names[n++] = name;
		(void)snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "",
			       kh_esc_str(name));
	}
	const char *near = kh_cli_nearest(select->tenant, names, n);
	kh_cli_complain(
		"audit show: no record has the tenant %s%s%s%s (tenants of the records: %s)",
		kh_esc_str(select->tenant), near ? "; did you mean " : "",
		near ? kh_esc_str(near) : "", near ? "?" : "", known[0] ? known : "none");
}

static void complain_of_none(const struct kh_audit_select *select)
{
	const struct {
		const char *what, *value;
	} parts[] = { { "host", select->host_text },
		      { "sandbox", select->sandbox },
		      { "tenant", select->tenant } };
	char all[KH_ERR_TEXT_BYTES] = "";

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		size_t used = strlen(all);
		if (parts[i].value)
			(void)snprintf(all + used, sizeof(all) - used, "%sthe %s %s",
				       used ? " and " : "", parts[i].what,
				       kh_esc_str(parts[i].value));
	}
	kh_cli_complain("audit show: no record has %s%s%s", all,
			select->since_ms ? ", since that time" : "",
			select->host_text && !select->since_ms
				? " (`keyhole audit show --summary` lists the hosts)"
				: "");
}

void kh_audit_select_complain(const struct kh_audit_select *select)
{
	if (select->tenant && !json_object_get(select->tenants, select->tenant) &&
	    select->found == 0)
		complain_of_tenant(select);
	else if (select->found == 0 && (select->tenant || select->sandbox || select->host_text))
		complain_of_none(select);
	else if (select->denied && select->refused == 0 && select->counted == 0)
		kh_cli_complain("audit show: none of the requests was refused");
	if (select->host_text && select->counted > 0)
		kh_cli_complain("audit show: %" PRIu64 " more refusals were only counted: nobody "
				"knows of which hosts",
				select->counted);
}
