/* audit_select.h - which records of a journal `keyhole audit show` is asked for */
#ifndef KEYHOLE_CLI_AUDIT_SELECT_H
#define KEYHOLE_CLI_AUDIT_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <keyhole/config/config.h>

/* All zeros: every record. */
struct kh_audit_select {
	bool denied;		      /* refusals only */
	const char *tenant, *sandbox; /* NULL: any */
	const char *host_text;	      /* as it was given */
	struct kh_host_pattern host;  /* KH_MATCH_NOTHING: any */
	uint16_t port;		      /* 0: any */
	uint64_t since_ms;	      /* since the epoch; 0: any time */
	/* What was found in all journals: records that were asked for, whether refused or not; the
	 * refusals among them that were only counted, of which nobody knows the host; the other
	 * refusals; and the tenants of records (a JSON object with their names as keys; the
	 * caller's), of which some may be left out. */
	uint64_t found, counted, refused;
	json_t *tenants;
};

/* --host: "api.example.com", "*.example.com", "10.0.0.0/8", "[::1]", each with or without ":PORT".
 * The text must stay. Return: false: an error was printed. */
bool kh_audit_select_host(struct kh_audit_select *select, const char *text);
/* --since: a time (RFC 3339; also without an offset, which means UTC, or a day alone), or a
 * duration before `now_ms`: "10m", "1h30m", "1d". Return: false: an error was printed. */
bool kh_audit_select_since(struct kh_audit_select *select, const char *text, uint64_t now_ms);
/* Is the record asked for, apart from `denied`? What names no tenant, sandbox or host is of none. A
 * time that can't be read is no reason to hide a record. Counts it, and notes its tenant. */
bool kh_audit_select_takes(struct kh_audit_select *select, const json_t *record);
/* For who gets less to see than they may think: says that no record has the tenant, the sandbox or
 * the host, or that nothing was refused, and that refusals which were only counted may be of that
 * host. */
void kh_audit_select_complain(const struct kh_audit_select *select);

#endif
