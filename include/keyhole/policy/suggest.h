/*
 * suggest.h - the rules that would allow requests: as few as possible, and none wider than the
 * requests
 */
#ifndef KEYHOLE_POLICY_SUGGEST_H
#define KEYHOLE_POLICY_SUGGEST_H

#include <keyhole/policy/path_groups.h>

/* A rule that allows, as keyhole.yaml has it: methods, a place and a pattern of paths. */
struct kh_suggestion {
	char *text; /* "GET,POST https://api.example.com/v1/users" */
	const char *example;
	/* Of the groups that it is made of, and all marks of theirs. */
	uint64_t requests, refused, observed, with_credential;
	uint64_t marks[4];
};

struct kh_suggestions {
	struct kh_suggestion *list; /* by place, then by path */
	size_t count;
	size_t unwritten; /* groups that no rule can name */
};

/* Can a rule name this one method, place and path, and nothing else? */
bool kh_suggest_can_name(const char *method, const char *place, struct kh_slice path);

/*
 * The rules for the groups of that kind that are not `apart`, in which `method` is a method,
 * `place` is "scheme://host[:port]", and no path has a '*' of its own. A group that the pattern of
 * another one of its method and place covers has no rule of its own; groups of one place and
 * pattern share a rule. A rule names each method that it allows, one host and a path: never a
 * credential, never a wildcard in the host, never "**". Return: false without memory. `out` is the
 * caller's either way, and lives no longer than `groups`.
 */
bool kh_suggest_rules(const struct kh_path_groups *groups, const char *kind,
		      struct kh_suggestions *out);
void kh_suggestions_fini(struct kh_suggestions *suggestions);

#endif
