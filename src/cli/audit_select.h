/* audit_select.h - which records of a journal `keyhole audit` is asked for */
#ifndef KEYHOLE_CLI_AUDIT_SELECT_H
#define KEYHOLE_CLI_AUDIT_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <keyhole/config/config.h>

#include "journal_exchanges.h"

/* Filters by a text. Each may be given several times: one of its values must fit. */
enum kh_audit_filter {
	KH_FILTER_HOST, /* "api.example.com", "*.example.com", "10.0.0.0/8", "[::1]:8443" */
	KH_FILTER_SANDBOX,
	KH_FILTER_TENANT,
	KH_FILTER_VERDICT,
	KH_FILTER_OUTCOME,
	KH_FILTER_RULE, /* its text or its place, "FILE:LINE"; "*" stands for anything */
	KH_FILTER_CREDENTIAL,
	KH_FILTER_REASON,
	KH_FILTER_METHOD,
	KH_FILTER_ID,
	KH_N_FILTERS,
};
enum { KH_FILTER_VALUES = 64 };

/* The values of one filter. */
struct kh_audit_wanted {
	const char *texts[KH_FILTER_VALUES]; /* as they were given; they stay */
	bool met[KH_FILTER_VALUES];	     /* a record has it */
	size_t n;
	json_t *seen; /* a JSON object; its keys are values of records, some may be left out */
};
struct kh_audit_host {
	struct kh_host_pattern pattern;
	uint16_t port; /* 0: any */
};

/* `command` and zeros: every record. kh_audit_select_fini. */
struct kh_audit_select {
	const char *command; /* for messages: "audit show" */
	bool denied;	     /* refusals only */
	struct kh_audit_wanted wanted[KH_N_FILTERS];
	struct kh_audit_host hosts[KH_FILTER_VALUES]; /* of KH_FILTER_HOST */
	uint64_t since_ms, until_ms; /* since the epoch, both included; since 0, until UINT64_MAX or
					0: any */
	/* What was found in all journals: records that were asked for, whether refused or not; the
	 * refusals that were only counted and left out, because nobody knows what they would have
	 * to be compared with; the other refusals. */
	uint64_t found, counted, refused;
};
void kh_audit_select_fini(struct kh_audit_select *select);

/* The option of a filter, without its dashes. */
const char *kh_audit_filter_name(enum kh_audit_filter filter);
/* Adds a value. The text must stay. Return: false: an error was printed. */
bool kh_audit_select_add(struct kh_audit_select *select, enum kh_audit_filter filter,
			 const char *text);
/* Is the exchange asked for, apart from `denied`? A time that can't be read is no reason to hide a
 * record. Counts it, and notes its values. */
bool kh_audit_select_exchange(struct kh_audit_select *select,
			      const struct kh_journal_exchange *exchange);
/* The same for other records: what names no tenant, sandbox or host is of none. */
bool kh_audit_select_record(struct kh_audit_select *select, const json_t *record);
/* For who gets less to see than they may think: says that no record has the tenant, the sandbox or
 * the host, or that nothing was refused, and that refusals which were only counted may be of that
 * host. */
void kh_audit_select_complain(const struct kh_audit_select *select);

#endif
