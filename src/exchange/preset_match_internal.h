/* preset_match_internal.h - the presets of a kh_preset_match, and their uses with a parameter */
#ifndef KEYHOLE_EXCHANGE_PRESET_MATCH_INTERNAL_H
#define KEYHOLE_EXCHANGE_PRESET_MATCH_INTERNAL_H

#include <keyhole/exchange/preset_match.h>

/* Uses of presets with a value that a path has: each takes memory, and a sandbox chooses paths. */
enum { KH_PRESET_MATCH_VALUES = 128 };

struct kh_preset_one {
	char *name;
	struct kh_config *config;
	struct kh_policy *policy;
	char *parameter; /* that narrows it; NULL: none */
	char *fallback;	 /* its value unless said, as a use has it */
};

/* With a value of `parameter`, or with a boolean turned. */
struct kh_preset_variant {
	size_t of;
	char *text; /* the value; "github: { push: true }" */
	struct kh_config *config;
	struct kh_policy *policy; /* NULL: the preset can't be used so */
};

struct kh_preset_match {
	struct kh_preset_one list[KH_PRESET_MATCH_MOST];
	size_t count, left_out;
	char *dir; /* NULL: kh_preset_dir() */
	struct kh_preset_variant valued[KH_PRESET_MATCH_VALUES];
	struct kh_preset_variant turned[KH_PRESET_MATCH_MOST];
	size_t n_valued, n_turned;
	bool has_turned; /* they were read */
};

/* preset_narrow.c. Reads which parameter narrows it. */
void kh_preset_narrow_learn(const struct kh_preset_match *match, struct kh_preset_one *one);
void kh_preset_narrow_fini(struct kh_preset_match *match);

#endif
