/* option.c - getopt_long(3) with keyhole's own error messages */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/escape.h>

#include "cli_internal.h"

enum { LONGS_MOST = 64 };

/* What people type who know other programs. */
static const struct {
	const char *where, *typed, *hint;
} others[] = {
	{ "run", "--review", "--workspace DIR:review" },
	{ "run", "-w", "--workspace DIR" },
	{ "run", "-v", "--ro DIR, or --workspace DIR" },
	{ "run", "-e", "--env NAME" },
	{ "suggest", "-o", "> FILE" },
	{ "suggest", "--output", "> FILE" },
};

static const char *hint_for(const char *where, const char *typed)
{
	size_t len = strcspn(typed, "=");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(where, others[i].where) == 0 && strlen(others[i].typed) == len &&
		    strncmp(typed, others[i].typed, len) == 0)
			return others[i].hint;
	return NULL;
}

void kh_cli_unknown_option(const char *where, const char *typed, const char *const *names, size_t n)
{
	char word[64];
	const char *near = NULL, *hint = hint_for(where, typed);

	if (!hint && strncmp(typed, "--", 2) == 0) {
		(void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(typed + 2, "="), typed + 2);
		near = kh_cli_nearest(word, names, n);
	}
	if (hint)
		kh_cli_complain("%s: unknown option %s (did you mean %s?)", where,
				kh_esc_str(typed), hint);
	else if (near)
		kh_cli_complain("%s: unknown option %s (did you mean --%s?)", where,
				kh_esc_str(typed), near);
	else
		kh_cli_complain("%s: unknown option %s (`keyhole %.*s --help` lists them)", where,
				kh_esc_str(typed), (int)strcspn(where, " "), where);
}

/* How many long options begin with what was typed after "--". */
static size_t count_beginning(const char *const *names, size_t n, const char *typed)
{
	size_t len = strcspn(typed, "="), found = 0;

	for (size_t i = 0; i < n; i++)
		found += strncmp(names[i], typed, len) == 0;
	return found;
}

/* optopt is the character, or the value of a long option that got a value; 0 for a long one that
 * is unknown or not the only one with that beginning. The word of a long one is behind us. */
static void complain(const char *where, char *const *argv, const char *const *names, size_t n)
{
	const char *typed = argv[optind - 1];
	const char one[] = { '-', (char)optopt, '\0' };

	if (optopt != 0 && (strncmp(typed, "--", 2) != 0 || !strchr(typed, '=')))
		kh_cli_unknown_option(where, one, names, n);
	else if (optopt != 0)
		kh_cli_complain("%s: %.*s takes no value", where, (int)strcspn(typed, "="), typed);
	else if (count_beginning(names, n, typed + 2) > 1)
		kh_cli_complain("%s: %s may be more than one option (`keyhole %s --help` lists "
				"them)",
				where, kh_esc_str(typed), where);
	else
		kh_cli_unknown_option(where, typed, names, n);
}

/* The word by which a long option was typed, which is behind us, maybe with its value. */
static const char *word_of(char *const *argv, const struct option *one)
{
	bool apart = one->has_arg == required_argument && optarg == argv[optind - 1];

	return argv[optind - (apart ? 2 : 1)];
}

/* Not by its beginning alone, which getopt would take: one letter is no way to switch rules off. */
static bool is_whole(char *const *argv, const struct option *one)
{
	const char *typed = word_of(argv, one) + 2;

	return strncmp(typed, one->name, strcspn(typed, "=")) == 0 &&
	       strlen(one->name) == strcspn(typed, "=");
}

int kh_cli_option(int argc, char **argv, const char *shorts, const struct option *longs)
{
	const char *names[LONGS_MOST];
	size_t n = 0;
	bool stops = shorts[0] == '+';
	char with_colon[64];

	for (; longs[n].name && n < LONGS_MOST; n++)
		names[n] = longs[n].name;
	/* A colon in front tells a value that is missing from an option that is unknown. */
	(void)snprintf(with_colon, sizeof(with_colon), "%s:%s", stops ? "+" : "", shorts + stops);
	opterr = 0;
	int which = -1;
	int option = getopt_long(argc, argv, with_colon, longs, &which);
	if (option != '?' && option != ':' && which >= 0 && !is_whole(argv, &longs[which])) {
		kh_cli_unknown_option(argv[0], word_of(argv, &longs[which]), names, n);
		return '?';
	}
	if (option == ':')
		kh_cli_complain("%s: %s needs a value (`keyhole %s --help` says which)", argv[0],
				kh_esc_str(argv[optind - 1]), argv[0]);
	else if (option == '?')
		complain(argv[0], argv, names, n);
	return option == ':' ? '?' : option;
}
