/* remedy.h - what would allow a request that the rules refuse: a preset, or a rule */
#ifndef KEYHOLE_EXCHANGE_REMEDY_H
#define KEYHOLE_EXCHANGE_REMEDY_H

#include <keyhole/exchange/dry_run.h>

/* A preset that would allow it. */
struct kh_remedy {
	char *use;	 /* as `--use` takes it: "npm", "github:repos=a/b,push=true". A value may
			    have a star, and nothing else that a shell knows */
	char *preset;	 /* its name */
	char *parameter; /* with its value, "push=true"; NULL: as it is */
	char *variables; /* from which its keys come, with commas between; "": it has none */
	char *narrows;	 /* its parameters that take a list, "repos": less of it may do; "": none */
};

/* The presets of a folder, compiled when they are first asked. For a program of one thread. */
struct kh_remedies;
/* The words are for whoever adds them in front of `rules` (NULL: of none): a preset that these
 * narrow is only offered with what narrows it. `preset_dir` (NULL: kh_preset_dir()) and `rules`
 * outlive it. Return: NULL without memory. */
struct kh_remedies *kh_remedies_new(const char *preset_dir, const struct kh_rules *rules);
void kh_remedies_free(struct kh_remedies *all);
/*
 * Tries each preset as it is. If none allows the request, tries each with one of its booleans the
 * other way round. What only a query, a field or the content decides counts as allowed, since a
 * journal doesn't have these. A preset that allows the request whatever they are comes first. Then,
 * of several: the one that was given for an earlier request, else one without keys, else the one
 * with the fewest rules. A preset with a parameter that must be set is not tried. Return: NULL when
 * there is none. It lives as long as `all`.
 */
const struct kh_remedy *kh_remedies_find(struct kh_remedies *all,
					 const struct kh_dry_run *question);

/*
 * The text of a rule for what a place stands for: `methods` ("GET,POST"), scheme, host, port and a
 * path or pattern (NULL: any path). It holds only bytes that no shell and no YAML reads as anything
 * but themselves between quotes. Return: false if no rule of the command line (allow_text.c) can
 * say it; then `out` is unchanged.
 */
bool kh_remedy_rule(struct kh_buf *out, const char *methods, const char *scheme, const char *host,
		    uint16_t port, const char *path);

#endif
