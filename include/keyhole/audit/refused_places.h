/* refused_places.h - what was refused, each place once: for people who want to allow it */
#ifndef KEYHOLE_AUDIT_REFUSED_PLACES_H
#define KEYHOLE_AUDIT_REFUSED_PLACES_H

#include <stdint.h>

#include <keyhole/base/err.h>
#include <keyhole/base/slice.h>

/* A refused request, as the journal has it: all of it but the reason was a sandbox's to choose. */
struct kh_refused_request {
	struct kh_slice method, scheme, host, path; /* without a query; each may be empty */
	uint16_t port;
	enum kh_err_code reason;
	struct kh_slice denied_by; /* "site", "tenant", "sandbox"; empty: no rule did */
	struct kh_slice rule_at;   /* "FILE:LINE" of the rule that denies; empty */
	struct kh_slice model;	   /* that it asked for, if a rule depends on it; empty */
	struct kh_slice detail;	   /* the reason for people, keyhole's words; empty */
	/* Where an upstream answered, and did not take what was injected. */
	uint16_t status;
	struct kh_slice credential; /* its name, or several joined by ','; empty: none */
};

/*
 * Requests with one method, scheme, host, port, model, reason, status and credential, and paths
 * that are alike. A path is shown as a pattern, as rules have it: a segment becomes "*" if it is a
 * number, if it may be a key or a placeholder, or if a shell could read it as anything but itself.
 * What differs from the fourth path on becomes a last segment of two stars. A path that is too long
 * for a pattern, or that servers read in several ways, has none.
 */
struct kh_refused_place {
	char *methods; /* "GET", or "GET,POST" once they are settled; bytes of a sandbox */
	char *scheme, *host;
	uint16_t port;
	char *path;    /* the pattern; NULL: there is no path, or one that no rule names exactly */
	char *example; /* the path of the first of these requests, as it came */
	enum kh_err_code reason;
	char *denied_by, *rule_at, *model; /* "": none */
	char *detail;			   /* of the first of these requests; "": none */
	uint16_t status;
	char *credential; /* "": none */
	uint64_t count;
};

struct kh_refused_places {
	struct kh_refused_place *list;
	size_t count;
	uint64_t others; /* requests at further places, for which there was no room */
	const char *const *hidden;
	size_t n_hidden;
};

/* `hidden`: texts that are never shown (placeholders); they outlive the places. A host, a method, a
 * model or a detail that holds one is "*". */
void kh_refused_places_init(struct kh_refused_places *places, const char *const *hidden,
			    size_t n_hidden);
/* Up to KH_LIMIT_REFUSED_PLACES places, and without memory none, are told apart; what finds no room
 * is counted. */
void kh_refused_places_add(struct kh_refused_places *places,
			   const struct kh_refused_request *request);
/* Joins the methods of one place, and sorts: the most frequent first. Call it last. */
void kh_refused_places_settle(struct kh_refused_places *places);
void kh_refused_places_fini(struct kh_refused_places *places);

#endif
