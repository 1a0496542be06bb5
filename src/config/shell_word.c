/*
 * shell_word.c - a script of a command, with what a shell would make of its quotes and variables
 *
 * `sh -c '. "$HOME"/x'` names a file, as plainly as a word that is a path. The rest of a shell's
 * language is not read: what can't be told is marked, so that a path that depends on it is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "config_internal.h"

/* The variable at `at`, after the "$": its name, and how long all of it is. Return: false: it is
 * another expansion. */
static bool variable_at(const char *at, struct kh_slice *name, size_t *len)
{
	bool braces = *at == '{';
	const char *from = at + braces, *end = from;

	while (kh_is_alpha(*end) || *end == '_' || (end > from && kh_is_digit(*end)))
		end++;
	if (end == from || (braces && *end != '}'))
		return false;
	*name = kh_slice_of(from, (size_t)(end - from));
	*len = (size_t)(end - at) + braces;
	return true;
}

/* What the command's own environment has of it, or else keyhole's. */
static const char *value_of(const struct kh_exec *exec, struct kh_slice name)
{
	for (size_t i = 0; exec && i < exec->n_environment; i++) {
		const char *text = exec->environment[i];
		if (strncmp(text, name.ptr, name.len) == 0 && text[name.len] == '=')
			return text + name.len + 1;
	}
	char *copy = kh_slice_dup(name);
	const char *value = copy ? getenv(copy) : NULL;
	free(copy);
	return value;
}

/* `at` is after the "$". Return: how much of it was taken. */
static size_t expand(const struct kh_exec *exec, const char *at, struct kh_buf *out, bool *ok)
{
	static const char mark[] = { KH_SHELL_UNREAD };
	struct kh_slice name;
	size_t len = 0;
	const char *value = variable_at(at, &name, &len) ? value_of(exec, name) : NULL;

	*ok = value ? kh_buf_append_str(out, value) : kh_buf_append(out, mark, sizeof(mark));
	return len;
}

/* Unquoted, which of these a shell replaces by names that only it knows. */
static bool is_pattern(const char *word, const char *at)
{
	bool begins = at == word || strchr(" \t\n=:;|&(", at[-1]);

	return strchr("*?[{", *at) || (*at == '~' && begins && at[1] != '/');
}

bool kh_shell_word_read(const struct kh_exec *exec, const char *word, struct kh_buf *out)
{
	static const char mark[] = { KH_SHELL_UNREAD };
	char quote = '\0';
	bool ok = true;

	for (const char *at = word; ok && *at; at++) {
		bool is_read = quote != '\'';
		if (*at == quote) {
			quote = '\0';
		} else if (is_read && *at == '\\' && at[1]) {
			at++; /* a line that goes on in the next has no end here */
			ok = *at == '\n' || kh_buf_append(out, at, 1);
		} else if (is_read && *at == '$') {
			at += expand(exec, at + 1, out, &ok);
		} else if (!quote && (*at == '\'' || *at == '"')) {
			quote = *at;
		} else {
			bool hidden =
				is_read && (strchr("`)", *at) || (!quote && is_pattern(word, at)));
			ok = kh_buf_append(out, hidden ? mark : at, 1);
		}
	}
	return ok && kh_buf_append(out, "", 1);
}

bool kh_shell_runs(const struct kh_exec *exec, size_t i)
{
	static const char *const shells[] = { "sh",  "bash", "dash", "ash",    "zsh",
					      "ksh", "mksh", "fish", "busybox" };
	const char *before = i > 0 ? exec->argv[i - 1] : NULL;
	bool is_script = before && before[0] == '-' && before[1] && before[1] != '-' &&
			 before[strlen(before) - 1] == 'c';

	for (size_t j = 0; is_script && j + 1 < i; j++) {
		const char *slash = exec->argv[j] ? strrchr(exec->argv[j], '/') : NULL;
		const char *name = slash ? slash + 1 : exec->argv[j];
		for (size_t k = 0; name && k < sizeof(shells) / sizeof(shells[0]); k++)
			if (strcmp(name, shells[k]) == 0)
				return true;
	}
	return false;
}
