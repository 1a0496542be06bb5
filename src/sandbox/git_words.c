/*
 * git_words.c - finds the paths that a value of git's configuration may name
 *
 * git passes a command to sh, and what sh makes of it is known only when it runs. So each plausible
 * reading of a word counts: a word too many only makes a file read-only without need, but a missed
 * word is a program that an agent may overwrite. So besides the shell's words (quotes, a few
 * variables, and commands that print the work tree) it also gives the parts between any special
 * characters.
 */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/program.h>

#include "git_words.h"

enum { NESTED_MOST = 3, WHOLE = 1 << 20 };

struct splitting {
	struct kh_git_words *out;
	const char *at;
	struct kh_buf word;
	bool is_begun;
	bool is_program;
	bool is_after_option;
	size_t cut;   /* where the first unknown part begins; WHOLE: there is none */
	size_t again; /* and where the last ends */
	size_t n;
	int depth;
};

/* ---- what is expanded ---- */

/* Without "%(prefix)": where git is installed. */
static char *expand_prefix(const char *rest)
{
	kh_auto_free char *git = kh_program_find("git");
	for (int i = 0; git && i < 2 && strrchr(git, '/'); i++)
		*strrchr(git, '/') = '\0';
	return kh_strf("%s%s", git ? git : "/usr", rest);
}

char *kh_git_words_expand(const char *home, const char *text)
{
	static const char prefix[] = "%(prefix)";
	if (strncmp(text, prefix, sizeof(prefix) - 1) == 0)
		return expand_prefix(text + sizeof(prefix) - 1);
	if (text[0] != '~')
		return strdup(text);
	size_t len = strcspn(text, "/");
	if (len == 1)
		return home ? kh_strf("%s%s", home, text + 1) : strdup(text);
	kh_auto_free char *name = strndup(text + 1, len - 1);
	/* cppcheck-suppress getpwnamCalled ; one thread */
	const struct passwd *user = name ? getpwnam(name) : NULL;
	return user && user->pw_dir ? kh_strf("%s%s", user->pw_dir, text + len) : strdup(text);
}

/* What stands for the work tree or its git folder, wherever that is; NULL: the home. */
static const struct {
	const char *text, *means;
} known[] = {
	{ "$(git rev-parse --show-toplevel)", "." },
	{ "$(git rev-parse --show-toplevel 2>/dev/null)", "." },
	{ "`git rev-parse --show-toplevel`", "." },
	{ "$(git rev-parse --show-cdup)", "./" },
	{ "`git rev-parse --show-cdup`", "./" },
	{ "$(git rev-parse --git-dir)", ".git" },
	{ "`git rev-parse --git-dir`", ".git" },
	{ "$(git rev-parse --git-common-dir)", ".git" },
	{ "${GIT_DIR}", ".git" },
	{ "$GIT_DIR", ".git" },
	{ "$(pwd)", "." },
	{ "`pwd`", "." },
	{ "${PWD}", "." },
	{ "$PWD", "." },
	{ "${HOME}", NULL },
	{ "$HOME", NULL },
};

/* What git itself hands to a command: names of files, and never one of a program. */
static const char *const data[] = { "LOCAL", "REMOTE", "BASE", "MERGED", "GIT_PREFIX" };

static size_t name_len(const char *text)
{
	size_t n = 0;
	while (text[n] == '_' || kh_is_alpha(text[n]) || kh_is_digit(text[n]))
		n++;
	return n;
}

static bool is_data(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++)
		if (strlen(data[i]) == len && strncmp(data[i], name, len) == 0)
			return true;
	return len > 0 && kh_is_digit(name[0]);
}

static void put(struct splitting *s, const char *text, size_t len)
{
	s->is_begun = true;
	if (kh_buf_len(&s->word) < KH_LIMIT_SURVEY_PATH_BYTES &&
	    !kh_buf_append(&s->word, text, len))
		s->out->failed = true;
}

static void put_unknown(struct splitting *s, bool is_data_only)
{
	s->is_begun = true;
	if (s->cut == WHOLE)
		s->cut = kh_buf_len(&s->word);
	s->again = kh_buf_len(&s->word);
	s->out->is_unknown = s->out->is_unknown || !is_data_only;
}

/* From the "(" or "{" to the sign that ends it. */
static size_t bracket_len(const char *text, char open, char close)
{
	int depth = 0;
	for (size_t i = 0; text[i]; i++) {
		depth += (text[i] == open) - (text[i] == close);
		if (depth == 0)
			return i + 1;
	}
	return strlen(text);
}

static bool take_known(struct splitting *s)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		size_t len = strlen(known[i].text);
		if (strncmp(s->at, known[i].text, len) != 0 ||
		    (s->at[1] != '{' && s->at[1] != '(' && *s->at == '$' &&
		     name_len(s->at + len) > 0))
			continue;
		const char *means = known[i].means ? known[i].means : s->out->home;
		if (!means)
			return false;
		put(s, means, strlen(means));
		s->at += len;
		return true;
	}
	return false;
}

/* At "$" or a backtick. What a command in it names is found by the other way to take it apart. */
static void take_expansion(struct splitting *s)
{
	if (take_known(s))
		return;
	const char *next = s->at + 1;
	if (*s->at == '`') {
		put_unknown(s, false);
		s->at = next + strcspn(next, "`");
		s->at += *s->at == '`';
		return;
	}
	size_t len = name_len(next);
	if (*next == '(' || *next == '{') {
		size_t inner = name_len(next + 1);
		put_unknown(s, *next == '{' && next[1 + inner] == '}' && is_data(next + 1, inner));
		len = bracket_len(next, *next, *next == '(' ? ')' : '}');
	} else if (*next && strchr("@*#?$!-", *next)) {
		put_unknown(s, true);
		len = 1;
	} else if (len > 0) {
		put_unknown(s, is_data(next, len));
	} else {
		put(s, s->at, 1);
	}
	s->at = next + len;
}

/* ---- each reading of a word ---- */

static void give(struct splitting *s, const char *text, unsigned how)
{
	kh_auto_free char *path = kh_git_words_expand(s->out->home, text);
	if (!path)
		s->out->failed = true;
	else if (*path)
		s->out->each(s->out->arg, path, how);
}

/* --dir=tools, PATH=a:b, @file, -Itools. */
static void give_parts(struct splitting *s, const char *word)
{
	static const char marks[] = "=:,@";
	if (word[0] == '-' && word[1] && word[1] != '-' && word[2])
		give(s, word + 2, KH_GIT_WORD_OPTION);
	for (const char *at = strpbrk(word, marks); at; at = strpbrk(at, marks)) {
		at++;
		kh_auto_free char *part = strndup(at, strcspn(at, marks));
		if (!part)
			s->out->failed = true;
		else if (at[strlen(part)])
			give(s, part, KH_GIT_WORD_OPTION);
		give(s, at, KH_GIT_WORD_OPTION);
	}
	kh_auto_free char *first = strndup(word, strcspn(word, marks));
	if (first && word[strlen(first)])
		give(s, first, KH_GIT_WORD_OPTION);
}

/* The folder above what is unknown, and what comes after it, from the top of the work tree. */
static void give_around(struct splitting *s, const char *word)
{
	kh_auto_free char *above = strndup(word, s->cut);
	char *slash = above ? strrchr(above, '/') : NULL;
	if (!above)
		s->out->failed = true;
	if (slash && slash > above) {
		*slash = '\0';
		give(s, above, KH_GIT_WORD_PART);
		give_parts(s, above);
	}
	const char *rest = word + s->again;
	if (*rest == '/')
		give(s, rest + strspn(rest, "/"), KH_GIT_WORD_OPTION);
}

static void split(struct kh_git_words *out, const char *value, int depth);

static void end_word(struct splitting *s)
{
	if (!s->is_begun)
		return;
	unsigned how = (s->is_program ? KH_GIT_WORD_PROGRAM : 0u) |
		       (s->is_after_option ? KH_GIT_WORD_OPTION : 0u);
	const char *word = kh_buf_cstr(&s->word);
	if (!word) {
		s->out->failed = true;
	} else if (s->cut != WHOLE) {
		give_around(s, word);
	} else {
		give(s, word, how);
		give_parts(s, word);
		if (s->depth < NESTED_MOST && strpbrk(word, " \t\n|&;()<>$`'\"\\"))
			split(s->out, word, s->depth + 1);
	}
	/* NAME=value comes before the program. */
	s->is_program = s->is_program && word && word[name_len(word)] == '=';
	s->is_after_option = word && word[0] == '-';
	s->n++;
	s->is_begun = false;
	s->cut = WHOLE;
	s->again = 0;
	kh_buf_clear(&s->word);
}

/* ---- the shell's words ---- */

static void take_quoted(struct splitting *s, char quote)
{
	s->is_begun = true;
	s->at++;
	while (*s->at && *s->at != quote) {
		if (quote == '"' && (*s->at == '$' || *s->at == '`')) {
			take_expansion(s);
			continue;
		}
		if (quote == '"' && *s->at == '\\' && s->at[1] && strchr("$`\"\\", s->at[1]))
			s->at++;
		put(s, s->at++, 1);
	}
	s->at += *s->at == quote;
}

static void take_plain(struct splitting *s)
{
	char c = *s->at;
	if (c == '\\' && s->at[1]) {
		put(s, s->at + 1, 1);
		s->at += 2;
	} else if (strchr("*?[{", c)) {
		put_unknown(s, false);
		s->at++;
	} else {
		put(s, s->at++, 1);
	}
}

static void split(struct kh_git_words *out, const char *value, int depth)
{
	struct splitting s = {
		.out = out, .at = value, .is_program = true, .cut = WHOLE, .depth = depth
	};
	kh_buf_init(&s.word, 2 * KH_LIMIT_SURVEY_PATH_BYTES);
	while (*s.at) {
		char c = *s.at;
		if (strchr(" \t\n|&;()<>", c)) {
			end_word(&s);
			s.is_program = s.is_program || strchr("\n|&;(", c) != NULL;
			s.is_after_option = s.is_after_option && !strchr("|&;()<>", c);
			s.at++;
		} else if (c == '\'' || c == '"') {
			take_quoted(&s, c);
		} else if (c == '$' || c == '`') {
			take_expansion(&s);
		} else {
			take_plain(&s);
		}
	}
	end_word(&s);
	out->is_several = out->is_several || s.n > 1;
	kh_buf_fini(&s.word);
}

/* Whatever is between signs: also in what is quoted or run for its output. */
static void split_at_signs(struct kh_git_words *out, const char *value)
{
	static const char between[] = " \t\n'\"|&;()<>=!`$";
	struct splitting s = { .out = out };
	unsigned how = KH_GIT_WORD_PROGRAM;
	for (const char *at = value; *at; how = 0) {
		at += strspn(at, between);
		kh_auto_free char *word = strndup(at, strcspn(at, between));
		if (!word) {
			out->failed = true;
			return;
		}
		at += strlen(word);
		give(&s, word, how);
	}
}

void kh_git_words_each(struct kh_git_words *words, const char *value)
{
	/* "!" is git's own mark of a command. */
	const char *command = value + (value[0] == '!');
	words->is_several = command[strcspn(command, " \t\n")] != '\0';
	split(words, command, 0);
	split_at_signs(words, command);
}
