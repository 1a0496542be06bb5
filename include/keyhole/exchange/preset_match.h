/* preset_match.h - which presets would allow a request, and with which of their parameters */
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

/*
 * ---- parameters ----
 *
 * A preset for repositories, projects or modules opens any of them, unless a use names some. Which
 * one a request is about is found by asking the preset with what is in the path, not by reading its
 * rules: the value that is found answers the request as the preset itself does.
 */
/* The parameter that says so, "repos"; NULL: it has none. */
const char *kh_preset_match_narrowed_by(const struct kh_preset_match *match, size_t nth);
/* For what the nth preset allows, or may allow. Return: heap: "a/b", of letters, digits and "-._/";
 * "": any value answers it so; NULL: none was found. */
char *kh_preset_match_narrow(struct kh_preset_match *match, size_t nth,
			     const struct kh_recorded_question *question);

/* Presets with one of their booleans the other way round: the nth bit is the nth of them. Return:
 * those of `presets` that allow it, whatever is not recorded. */
uint64_t kh_preset_match_turned(struct kh_preset_match *match, uint64_t presets,
				const struct kh_recorded_question *question);
/* "github: { push: true }". */
const char *kh_preset_match_turned_text(const struct kh_preset_match *match, size_t nth);

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
