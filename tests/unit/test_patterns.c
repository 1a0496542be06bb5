/* test_patterns.c - patterns match as a matcher does that is slow and obvious */
#include "policy_asked.h"

static bool slow_match(const char *pattern, const char *path)
{
	if (pattern[0] == '*' && pattern[1] == '*')
		return slow_match(pattern + 2, path) || (*path && slow_match(pattern, path + 1));
	if (pattern[0] == '*')
		return slow_match(pattern + 1, path) ||
		       (*path && *path != '/' && slow_match(pattern, path + 1));
	if (!*pattern || !*path)
		return !*pattern && !*path;
	return *pattern == *path && slow_match(pattern + 1, path + 1);
}

/* What a lenient reader sees, in letters of its own: stars of a pattern stay '*'. */
static void leniently(const char *text, bool pattern, bool parameters, char *out)
{
	char last = '\0';
	for (; *text; text++) {
		if (!parameters && *text == ';') {
			while (text[1] && text[1] != '/')
				text++;
			continue;
		}
		size_t dots = parameters ? 0 : strspn(text, ".");
		if (dots > 0 && (!text[dots] || strchr("/;", text[dots]))) {
			text += dots - 1;
			continue;
		}
		char c = *text;
		if (strncmp(text, "%2A", 3) == 0 || (c == '*' && !pattern))
			c = '\1';
		if (strncmp(text, "%3A", 3) == 0)
			c = ':';
		if (*text == '%')
			text += 2;
		if (c != '/' || last != '/')
			*out++ = c;
		last = c;
	}
	*out = '\0';
}

static void drop_slash(char *text)
{
	size_t len = strlen(text);
	if (len > 1 && text[len - 1] == '/')
		text[len - 1] = '\0';
}

/* A pattern's '/' at the end does not count, and a path's may be there or not. */
static bool slow_match_loosely(const char *pattern, const char *path)
{
	char short_pattern[128], short_path[128];
	(void)snprintf(short_pattern, sizeof(short_pattern), "%s", pattern);
	(void)snprintf(short_path, sizeof(short_path), "%s", path);
	drop_slash(short_pattern);
	drop_slash(short_path);
	return slow_match(short_pattern, path) || slow_match(short_pattern, short_path);
}

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void random_text(uint32_t *seed, const char *const *words, unsigned n, char *out)
{
	unsigned len = next_random(seed) % 11;
	out[0] = '\0';
	char *at = out;
	at += snprintf(at, 4, "/");
	for (unsigned i = 0; i < len; i++)
		at += snprintf(at, 8, "%s", words[next_random(seed) % n]);
}

static void patterns_match_as_the_obvious_matcher_does(void **state)
{
	(void)state;
	static const char *const pattern_words[] = { "a", "b", "/", "*", "*", "**", "a/", "/*" };
	static const char *const path_words[] = { "a", "b", "/", "a", "b", "aa", "a/", "/b" };
	uint32_t seed = 0x9e3779b9;
	unsigned hits = 0;
	for (unsigned i = 0; i < 200000; i++) {
		char pattern[128], path[128];
		random_text(&seed, pattern_words, 8, pattern);
		random_text(&seed, path_words, 8, path);
		if (strstr(pattern, "***"))
			continue; /* refused by the grammar */
		bool due = slow_match(pattern, path);
		if (kh_path_matches(kh_slice_str(pattern), kh_slice_str(path)) != due)
			fail_msg("%s on %s: should be %d", pattern, path, due);
		hits += due;
	}
	assert_true(hits > 5000);
}

static void denials_match_as_the_obvious_lenient_matcher_does(void **state)
{
	(void)state;
	static const char *const pattern_words[] = { "a",   ":",   "/", "*", "**",
						     "%3A", "%2A", ";", "." };
	static const char *const path_words[] = {
		"a", ":", "/", "//", ";", "%3A", "%2A", "a/", "."
	};
	uint32_t seed = 0x2545f491;
	unsigned hits = 0, wider = 0;
	for (unsigned i = 0; i < 200000; i++) {
		char pattern[128], path[128], plain_pattern[128], plain_path[128], bare_path[128];
		random_text(&seed, pattern_words, 9, pattern);
		random_text(&seed, path_words, 9, path);
		leniently(pattern, true, true, plain_pattern);
		leniently(path, false, true, plain_path);
		leniently(path, false, false, bare_path);
		if (strstr(pattern, "***"))
			continue;
		bool strict = slow_match_loosely(pattern, path);
		bool due = strict || slow_match_loosely(plain_pattern, plain_path) ||
			   slow_match_loosely(plain_pattern, bare_path);
		if (strncmp(path, "//", 2) == 0) { /* an authority, and a path behind it */
			const char *behind = strchr(path + strspn(path, "/"), '/');
			leniently(behind ? behind : "/", false, true, plain_path);
			leniently(behind ? behind : "/", false, false, bare_path);
			due = due || slow_match_loosely(plain_pattern, plain_path) ||
			      slow_match_loosely(plain_pattern, bare_path);
		}
		if (kh_path_matches_leniently(kh_slice_str(pattern), kh_slice_str(path)) != due)
			fail_msg("%s on %s: should be %d", pattern, path, due);
		hits += due;
		wider += due && !strict;
	}
	assert_true(hits > 5000);
	assert_true(wider > 1000);
}

static void a_long_path_against_many_stars_is_quick(void **state)
{
	(void)state;
	enum { LONG = 64 * 1024 };
	char *path = malloc(LONG + 1);
	assert_non_null(path);
	static const char *const patterns[] = { "/**a*a*a*a*a*a*b/c", "/*a*a*a*a*a*a*b",
						"/**a**a**a**a**b",   "/**a*b/**a*b/c",
						"/**/a*b/**/a*b/c",   "/**aaaaaaaaaaaaaaaab" };
	for (unsigned slashes = 0; slashes < 4; slashes++) {
		memset(path, slashes == 3 ? '.' : 'a', LONG);
		path[0] = '/';
		path[LONG] = '\0';
		/* None; one near the end; every second byte; and dots. */
		if (slashes == 1)
			path[LONG - 10] = '/';
		for (unsigned i = 0; slashes == 2 && i < LONG; i += 2)
			path[i] = '/';
		if (slashes == 1)
			path[LONG / 2] = ';';
		for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
			for (unsigned n = 0; n < 3; n++)
				assert_false(kh_path_matches_leniently(kh_slice_str(patterns[i]),
								       kh_slice_of(path, LONG)));
	}
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_match_as_the_obvious_matcher_does),
		cmocka_unit_test(denials_match_as_the_obvious_lenient_matcher_does),
		cmocka_unit_test(a_long_path_against_many_stars_is_quick),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
