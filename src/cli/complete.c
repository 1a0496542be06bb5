/*
 * complete.c - `keyhole complete`: completions for shells
 *
 * It is called by the shells' completion functions (deploy/completion), with the words after
 * `keyhole` up to the cursor; the last one is as far as it was typed. The options of a subcommand
 * are parsed from its --help, so that they are in one place only. The answer has lines. A line is a
 * word, or a word, a tab and a description. Or it begins with ':' and tells the shell to complete
 * files, folders, commands, or files and folders after the last ':' of what was typed. After a word
 * that ends with ':' no space is added.
 */
#include "complete.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/config/agent_profile.h>
#include <keyhole/config/config.h>
#include <keyhole/sandbox/image.h>
#include <keyhole/sandbox/review.h>
#include <keyhole/sandbox/sandbox.h>
#include <keyhole/base/slice.h>

#include "audit_columns.h"
#include "audit_facts.h"
#include "cli_internal.h"

/* Words like the one that is being typed. */
struct typed {
	struct kh_slice word;
	struct kh_slice before; /* in front of it, in the same word of the shell's: "npm," */
};

static void offer(const struct typed *typed, struct kh_slice word, struct kh_slice help)
{
	if (!kh_slice_has_prefix(word, typed->word))
		return;
	printf("%.*s%.*s%s%.*s\n", (int)typed->before.len, typed->before.ptr, (int)word.len,
	       word.ptr, help.len > 0 ? "\t" : "", (int)help.len, help.ptr);
}

/* --- what a subcommand says of itself --------------------------------------------------------- */

/* On the heap; NULL without memory. */
static char *help_of(const struct kh_cli_subcommand *command)
{
	char name[32], option[] = "--help", *args[] = { name, option, NULL };
	char *text = NULL;
	size_t len;
	FILE *said = open_memstream(&text, &len), *before = stdout;

	if (!said)
		return NULL;
	(void)snprintf(name, sizeof(name), "%s", command->name);
	stdout = said;
	optind = 0;
	(void)command->run(2, args);
	stdout = before;
	return fclose(said) == 0 ? text : NULL;
}

static bool is_small(char c)
{
	return (c >= 'a' && c <= 'z') || c == '-';
}

static struct kh_slice take_word(struct kh_slice *line, bool (*is_part)(char c))
{
	size_t n = 0;

	while (n < line->len && (is_part ? is_part(line->ptr[n]) : line->ptr[n] != ' '))
		n++;
	struct kh_slice word = kh_slice_sub(*line, 0, n);
	*line = kh_slice_sub(*line, n, line->len);
	return word;
}

static struct kh_slice without_blanks(struct kh_slice line)
{
	while (line.len > 0 && line.ptr[0] == ' ')
		line = kh_slice_sub(line, 1, line.len);
	return line;
}

/* A row of a help: "  -c, --config FILE  the configuration" or "  sandbox ls   the sandboxes". */
struct row {
	struct kh_slice option; /* with its dashes; or it is a command */
	char letter;		/* 0: it has none */
	struct kh_slice argument;
	struct kh_slice words[2]; /* of a command */
	struct kh_slice help;
};

static bool read_option(struct kh_slice line, struct row *out)
{
	if (line.len > 4 && line.ptr[0] == '-' && line.ptr[2] == ',') {
		out->letter = line.ptr[1];
		line = without_blanks(kh_slice_sub(line, 3, line.len));
	}
	if (!kh_slice_has_prefix(line, KH_SLICE("--")))
		return false;
	out->option = take_word(&line, is_small);
	if (line.len > 1 && line.ptr[0] == ' ' && line.ptr[1] != ' ') {
		line = kh_slice_sub(line, 1, line.len);
		out->argument = take_word(&line, NULL);
	}
	out->help = without_blanks(line);
	return true;
}

static bool read_command(struct kh_slice line, struct row *out)
{
	for (int i = 0; i < 2; i++) {
		out->words[i] = take_word(&line, is_small);
		bool ends = line.len < 2 || (line.ptr[0] == ' ' && line.ptr[1] == ' ');
		if (out->words[i].len == 0 || out->words[i].ptr[0] == '-' ||
		    (!ends && line.ptr[0] != ' '))
			return i == 1;
		if (ends)
			break;
		line = kh_slice_sub(line, 1, line.len);
	}
	out->help = without_blanks(line);
	return true;
}

/* The next row of what is left of a help. Return: false: there is none. */
static bool next_row(struct kh_slice *rest, struct row *out)
{
	while (rest->len > 0) {
		size_t end = kh_slice_find(*rest, '\n', 0);
		struct kh_slice line = kh_slice_sub(*rest, 0, end);
		*rest = kh_slice_sub(*rest, end + 1, rest->len);
		*out = (struct row){ .letter = 0 };
		if (!kh_slice_has_prefix(line, KH_SLICE("  ")))
			continue;
		if (read_option(without_blanks(line), out))
			return true;
		line = kh_slice_sub(line, 2, line.len);
		if (line.len > 0 && line.ptr[0] != ' ' && read_command(line, out))
			return true;
	}
	return false;
}

/* The row of an option as it was typed: "-c", "--config". */
static bool find_option(struct kh_slice help, const char *typed, struct row *out)
{
	while (next_row(&help, out)) {
		if (out->option.len == 0)
			continue;
		if (kh_slice_eq(out->option, kh_slice_str(typed)) ||
		    (out->letter && typed[0] == '-' && typed[1] == out->letter && !typed[2]))
			return true;
	}
	return false;
}

/* --- what may stand there --------------------------------------------------------------------- */

static void offer_presets(struct typed *typed)
{
	size_t n = 0, comma = 0;
	char **names = kh_preset_names(NULL, &n);

	for (size_t at; (at = kh_slice_find(typed->word, ',', comma)) < typed->word.len;)
		comma = at + 1;
	typed->before = kh_slice_sub(typed->word, 0, comma);
	typed->word = kh_slice_sub(typed->word, comma, typed->word.len);
	for (size_t i = 0; names && i < n; i++) {
		offer(typed, kh_slice_str(names[i]), kh_slice_of("", 0));
		free(names[i]);
	}
	free(names);
}

static void offer_agents(const struct typed *typed)
{
	size_t n = 0;
	char **names = kh_agent_profile_names(&n);

	for (size_t i = 0; i < n; i++) {
		offer(typed, kh_slice_str(names[i]), kh_slice_of("", 0));
		free(names[i]);
	}
	free(names);
	offer(typed, KH_SLICE("none"), KH_SLICE("without a profile"));
}

/* Of the file that an earlier word names. */
static void offer_tenants(const struct typed *typed, int n, char *const *words)
{
	const char *file = NULL;
	struct kh_diagnostics diags = { 0 };

	for (int i = 0; i + 1 < n; i++)
		if (strcmp(words[i], "-c") == 0 || strcmp(words[i], "--config") == 0)
			file = words[i + 1];
	struct kh_config *config = file ? kh_config_load(file, NULL, &diags) : NULL;
	for (size_t i = 0; config && i < config->n_tenants; i++)
		if (!strpbrk(config->tenants[i].name, "\n\t"))
			offer(typed, kh_slice_str(config->tenants[i].name), kh_slice_of("", 0));
	kh_diagnostics_fini(&diags);
	kh_config_free(config);
}

static void offer_engines(const struct typed *typed)
{
	const char *name;

	for (size_t i = 0; (name = kh_sandbox_engine(i)); i++)
		offer(typed, kh_slice_str(name), kh_slice_of("", 0));
	offer(typed, KH_SLICE("auto"), KH_SLICE("container, or process where that does not work"));
}

/* Words of an image that are no name: how it is said where it is. */
static const struct image_form {
	const char *word, *help,
		*behind; /* what may stand behind it; NULL: nothing that is known */
} image_forms[] = {
	{ "debian", "made from this host's mirrors", NULL },
	{ "oci:", "a folder, an OCI image layout", ":folders-behind" },
	{ "oci-archive:", "the same as one file", ":files-behind" },
	{ "docker-archive:", "what docker save and podman save write", ":files-behind" },
	{ "podman:", "an image that podman keeps", NULL },
};

/* No shell would read it otherwise than it stands. */
static bool is_plain(const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "._-+/:@";
	return text[strspn(text, plain)] == '\0';
}

static bool is_offered(const struct kh_image_kept *kept, size_t i)
{
	for (size_t k = 0; k < sizeof(image_forms) / sizeof(image_forms[0]); k++)
		if (strcmp(kept[i].reference, image_forms[k].word) == 0)
			return true;
	for (size_t k = 0; k < i; k++)
		if (strcmp(kept[i].reference, kept[k].reference) == 0)
			return true;
	return false;
}

static void offer_images(const struct typed *typed)
{
	for (size_t i = 0; i < sizeof(image_forms) / sizeof(image_forms[0]); i++) {
		const struct image_form *form = &image_forms[i];
		if (form->behind && kh_slice_has_prefix(typed->word, kh_slice_str(form->word))) {
			(void)puts(form->behind);
			return;
		}
		offer(typed, kh_slice_str(form->word), kh_slice_str(form->help));
	}
	kh_auto_free char *cache = kh_image_cache(NULL);
	size_t n = 0;
	struct kh_image_kept *kept = cache ? kh_image_list(cache, &n) : NULL;

	for (size_t i = 0; i < n; i++)
		if (is_plain(kept[i].reference) && !is_offered(kept, i))
			offer(typed, kh_slice_str(kept[i].reference), KH_SLICE("kept"));
	kh_image_list_free(kept, n);
}

static void offer_reviews(const struct typed *typed)
{
	size_t n = 0;
	struct kh_review *list = kh_reviews(&n, NULL);

	for (size_t i = 0; list && i < n; i++)
		offer(typed, kh_slice_str(list[i].id), KH_SLICE(""));
	kh_reviews_free(list, n);
}

static void offer_words(const struct typed *typed, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		offer(typed, kh_slice_str(words[i]), kh_slice_of("", 0));
}

/* The columns of a list: the last one is being typed. */
static void offer_columns(struct typed *typed)
{
	const char *name;
	size_t comma = 0;

	for (size_t at; (at = kh_slice_find(typed->word, ',', comma)) < typed->word.len;)
		comma = at + 1;
	typed->before = kh_slice_sub(typed->word, 0, comma);
	typed->word = kh_slice_sub(typed->word, comma, typed->word.len);
	for (size_t i = 0; (name = kh_audit_column_name(i)); i++)
		offer(typed, kh_slice_str(name), kh_slice_of("", 0));
}

static void offer_argument(const struct row *option, struct typed *typed, int n, char *const *words)
{
	if (kh_slice_has_prefix(option->argument, KH_SLICE("PRESET")))
		offer_presets(typed);
	else if (kh_slice_eq(option->option, KH_SLICE("--tenant")))
		offer_tenants(typed, n, words);
	else if (kh_slice_eq(option->option, KH_SLICE("--engine")))
		offer_engines(typed);
	else if (kh_slice_eq(option->option, KH_SLICE("--agent")))
		offer_agents(typed);
	else if (kh_slice_eq(option->option, KH_SLICE("--image")))
		offer_images(typed);
	else if (kh_slice_eq(option->option, KH_SLICE("--review")))
		offer_reviews(typed);
	else if (kh_slice_eq(option->option, KH_SLICE("--columns")))
		offer_columns(typed);
	else if (kh_slice_eq(option->option, KH_SLICE("--verdict")))
		offer_words(typed, kh_audit_verdicts, 3);
	else if (kh_slice_eq(option->option, KH_SLICE("--outcome")))
		offer_words(typed, kh_audit_outcomes, 5);
	else if (kh_slice_has_prefix(option->argument, KH_SLICE("DIR")))
		(void)puts(":folders");
	else if (kh_slice_has_prefix(option->argument, KH_SLICE("FILE")) ||
		 kh_slice_has_prefix(option->argument, KH_SLICE("PATH")))
		(void)puts(":files");
}

static void offer_options(struct kh_slice help, const struct typed *typed)
{
	struct row row;

	while (next_row(&help, &row))
		if (row.option.len > 0)
			offer(typed, row.option, row.help);
}

/* Commands of a subcommand, of which `before` was said already. Return: it has some. */
static bool offer_commands(struct kh_slice help, const struct typed *typed, const char *before)
{
	struct row row, last = { .letter = 0 };
	bool any = false;

	while (next_row(&help, &row)) {
		if (row.option.len > 0)
			continue;
		any = true;
		if (!before) {
			/* One of two words is offered by its first, once. */
			if (row.words[1].len > 0 && kh_slice_eq(last.words[0], row.words[0]))
				continue;
			offer(typed, row.words[0],
			      row.words[1].len > 0 ? kh_slice_of("", 0) : row.help);
		} else if (kh_slice_eq(row.words[0], kh_slice_str(before)) &&
			   row.words[1].len > 0) {
			offer(typed, row.words[1], row.help);
		}
		last = row;
	}
	return any;
}

/* As arguments, when `n_said` words were said that are no options. */
static bool takes_files(const char *command, int n_said)
{
	static const char *const after_a_word[] = { "audit", "policy", "workspace" };
	for (size_t i = 0; i < sizeof(after_a_word) / sizeof(after_a_word[0]); i++)
		if (strcmp(command, after_a_word[i]) == 0)
			return n_said > 0;
	return strcmp(command, "suggest") == 0;
}

/* Behind a subcommand: `words` are n, the last of which is being typed. */
static void complete(const struct kh_cli_subcommand *command, struct kh_slice help, int n,
		     char *const *words)
{
	struct typed typed = { .word = kh_slice_str(words[n - 1]) };
	bool runs = memmem(help.ptr, help.len, "COMMAND [ARGUMENT", 17) != NULL;
	const char *said[2] = { NULL, NULL };
	int n_said = 0;
	struct row row;

	for (int i = 0; i < n - 1; i++) {
		if (runs && strcmp(words[i], "--") == 0) {
			(void)puts(i == n - 2 ? ":commands" : ":files");
			return;
		}
		if (words[i][0] != '-') {
			if (n_said < 2)
				said[n_said] = words[i];
			n_said++;
		} else if (find_option(help, words[i], &row) && row.argument.len > 0 &&
			   ++i == n - 1) {
			offer_argument(&row, &typed, n, words);
			return;
		}
		if (runs && n_said > 0) {
			(void)puts(":files"); /* of a command that is not ours */
			return;
		}
	}
	if (typed.word.len > 0 && typed.word.ptr[0] == '-')
		offer_options(help, &typed);
	else if (runs)
		(void)puts(":commands");
	else if (n_said < 2 && offer_commands(help, &typed, said[0]) && n_said == 0)
		return;
	else if (strcmp(command->name, "preset") == 0 && n_said > 0 && strcmp(said[0], "show") == 0)
		offer_presets(&typed);
	else if (takes_files(command->name, n_said))
		(void)puts(":files");
}

int kh_cli_complete_of(const struct kh_cli_subcommand *commands, size_t n_commands, int argc,
		       char **argv)
{
	struct typed typed = { .word = kh_slice_str(argc > 1 ? argv[argc - 1] : "") };

	for (size_t i = 0; i < n_commands; i++) {
		if (!commands[i].summary)
			continue;
		if (argc <= 2 || (argc == 3 && strcmp(argv[1], "help") == 0)) {
			offer(&typed, kh_slice_str(commands[i].name),
			      kh_slice_str(commands[i].summary));
		} else if (strcmp(argv[1], commands[i].name) == 0) {
			kh_auto_free char *help = help_of(&commands[i]);
			if (help)
				complete(&commands[i], kh_slice_str(help), argc - 2, argv + 2);
		}
	}
	if (argc <= 2 && typed.word.len > 0 && typed.word.ptr[0] == '-') {
		offer(&typed, KH_SLICE("--help"), KH_SLICE("the commands"));
		offer(&typed, KH_SLICE("--version"), KH_SLICE("the version"));
	}
	return fflush(stdout) == 0 ? EXIT_SUCCESS : KH_EXIT_FAILED;
}
