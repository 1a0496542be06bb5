/* recorded.h - a request of a journal, decided by today's rules as far as its record goes */
#ifndef KEYHOLE_EXCHANGE_RECORDED_H
#define KEYHOLE_EXCHANGE_RECORDED_H

#include <keyhole/base/limits.h>
#include <keyhole/exchange/dry_run.h>

/*
 * What an `open` or `deny` record says of a request, with the size of its `close`. Views of text
 * that a sandbox chose. A record has no value of a field or of the query, and no content: a
 * decision that depends on them is not guessed (KH_RECORDED_UNDECIDED).
 */
struct kh_recorded {
	struct kh_slice method, scheme, host, path;
	uint64_t port;
	bool path_is_cut; /* url.path_bytes */
	bool tunnel;	  /* nobody read it: host and port are all that is known */
	bool websocket;	  /* it asked for one */
	struct kh_slice query_names[KH_LIMIT_AUDIT_QUERY_NAMES];
	size_t n_query_names;
	uint64_t query_unshown;
	struct kh_slice model;	  /* that a rule depended on; empty: none did */
	struct kh_slice stripped; /* carriers of authentication, joined by commas */
	bool has_size;
	uint64_t size; /* of the content, all of which was sent */
};

/* What a decision would need beside the record; bits. */
enum kh_recorded_need {
	KH_NEEDS_PATH = 1,     /* all of it */
	KH_NEEDS_OVERRIDE = 2, /* the method, host or path that a parameter names */
	KH_NEEDS_QUERY = 4,    /* values of its query */
	KH_NEEDS_FIELDS = 8,
	KH_NEEDS_CONTENT_TYPE = 16,
	KH_NEEDS_MODEL = 32,
	KH_NEEDS_SIZE = 64,    /* of its content */
	KH_NEEDS_TUNNEL = 128, /* what is in it */
};
enum { KH_RECORDED_NEEDS = 8 };
/* "the values of its query": of the nth bit. */
const char *kh_recorded_need_text(size_t nth);

/* A record, read as a request. */
struct kh_recorded_question {
	const struct kh_recorded *of;
	struct kh_dry_run ask;
	struct kh_buf url;
	bool nameless;	  /* it has parameters whose names are not known */
	unsigned unclear; /* NEEDS_PATH, NEEDS_OVERRIDE: it may be another request than `ask` */
};
/* `of` and its views outlive the question; kh_recorded_fini in any case. Return: false for what the
 * proxy would not read as a request, or has not read. */
bool kh_recorded_ask(struct kh_recorded_question *out, const struct kh_recorded *of,
		     struct kh_err *err);
void kh_recorded_fini(struct kh_recorded_question *question);
/* Does every server read it alike? If not, a rule has to allow each reading of it. */
bool kh_recorded_has_one_reading(const struct kh_recorded_question *question);

/* A zeroed one refuses. */
enum kh_recorded_fate { KH_RECORDED_REFUSED = 0, KH_RECORDED_ALLOWED, KH_RECORDED_UNDECIDED };

struct kh_recorded_answer {
	enum kh_recorded_fate fate;
	unsigned needs; /* of UNDECIDED: enum kh_recorded_need */
	/* As if nothing that is not recorded were there. */
	struct kh_outcome outcome;
	/* The reason of a refusal, and the rule that decides with all that it asks and does:
	 * "no_rule", "allow GET https://h.example/, credential x", "no such tenant". Empty of an
	 * undecided one that may be another request than `ask`. */
	struct kh_buf by;
	/* The same text for each rule that may take part, in their order. `open`: some found no
	 * room. */
	struct kh_buf trail;
	bool open;
};
/* `tenant` is an index, or -1: the configuration has none of that name, and refuses. */
void kh_recorded_decide(const struct kh_recorded_question *question, const struct kh_config *config,
			const struct kh_policy *policy, int tenant,
			const struct kh_narrowing *narrowing, struct kh_recorded_answer *out);
void kh_recorded_answer_fini(struct kh_recorded_answer *answer);

enum kh_recorded_change {
	KH_CHANGE_NONE = 0,
	KH_CHANGE_REFUSES, /* allowed → refused */
	KH_CHANGE_ALLOWS,
	KH_CHANGE_RULE, /* allowed by both or refused by both, by another rule, credential or reason
			 */
	KH_CHANGE_UNDECIDED,
};
/* Two answers to one question. NONE also where neither is decided, and both would be alike whatever
 * is not recorded. */
enum kh_recorded_change kh_recorded_compare(const struct kh_recorded_answer *before,
					    const struct kh_recorded_answer *after);

#endif
