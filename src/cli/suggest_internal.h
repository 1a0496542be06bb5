/* suggest_internal.h - `keyhole suggest`: its results, and its text */
#ifndef KEYHOLE_CLI_SUGGEST_INTERNAL_H
#define KEYHOLE_CLI_SUGGEST_INTERNAL_H

#include <keyhole/exchange/preset_match.h>
#include <keyhole/policy/suggest.h>

/* Of a preset's parameter; of more of them any is suggested. */
enum { KH_SUGGEST_VALUES = 8 };

/* Of journals. In all groups `kind` is the tenant's name, but for `closed`. */
struct kh_suggest {
	char guarded[1024];	      /* why the guard refuses what is read just now */
	const char *tenant, *sandbox; /* only these, or NULL */
	struct kh_preset_match *presets;
	/* Requests that a preset allows, by the sets of presets: marks are the masks `allow`, `may`
	 * and `deny` of kh_preset_matches. */
	struct kh_path_groups preset;
	/* All others that a rule may allow: by method, place and path. Marks are masks of presets:
	 * those that deny one of them, the chosen ones among these, and those that know the place
	 * and do not allow one of them; then those with a parameter that would
	 * (kh_preset_match_turned). */
	struct kh_path_groups rule;
	/* What the requests that presets allow are about: `method` is a preset's name, `place` a
	 * value of the parameter that narrows it; "": it can't be narrowed. */
	struct kh_path_groups value;
	/* What no rule is suggested for: `kind` is why. */
	struct kh_path_groups closed;
	uint64_t requests, refused;
	uint64_t observed;  /* of the requests: passed only since the rules were not enforced */
	uint64_t telemetry; /* of the requests: an agent's, of which `closed` has all */
	uint64_t counted;   /* refusals that the journals only count */
	uint64_t astray;    /* records that do not continue the chain of their journal: left out */
};

/* suggest_text.c. A configuration in YAML, with comments. It marks groups of `rule` that a chosen
 * preset denies as `apart`. Return: false without memory. */
bool kh_suggest_put(struct kh_suggest *suggest, struct kh_buf *out);

#endif
