/* preset_match.h - which presets would allow a request, each used as it is */
#ifndef KEYHOLE_EXCHANGE_PRESET_MATCH_H
#define KEYHOLE_EXCHANGE_PRESET_MATCH_H

#include <keyhole/exchange/recorded.h>

/* The presets of a folder, read and compiled once: each with its defaults, in a configuration of
 * its own. One that can't be used without a parameter is left out. */
struct kh_preset_match;

/* A set of presets is a mask: the nth bit is the nth preset. */
enum { KH_PRESET_MATCH_MOST = 64 };

/* `preset_dir`: NULL for kh_preset_dir(). Return: NULL without memory, or if one of them can't be
 * compiled; a folder without presets is no error. */
struct kh_preset_match *kh_preset_match_new(const char *preset_dir, struct kh_err *err);
void kh_preset_match_free(struct kh_preset_match *match);
size_t kh_preset_match_count(const struct kh_preset_match *match);
/* How many found no room. */
size_t kh_preset_match_left_out(const struct kh_preset_match *match);
const char *kh_preset_match_name(const struct kh_preset_match *match, size_t nth);
/* With one tenant, index 0, that uses that preset and nothing else. */
const struct kh_config *kh_preset_match_config(const struct kh_preset_match *match, size_t nth);

struct kh_preset_matches {
	uint64_t allow;	 /* they allow it, whatever is not recorded */
	uint64_t may;	 /* whether they allow it depends on what is not recorded */
	uint64_t deny;	 /* a rule of theirs denies it */
	uint64_t refuse; /* no rule of theirs allows it, though some allow other requests there */
};
void kh_preset_match_ask(const struct kh_preset_match *match,
			 const struct kh_recorded_question *question,
			 struct kh_preset_matches *out);

#endif
