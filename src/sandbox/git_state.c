/*
 * git_state.c - the files in which git keeps an operation in progress
 *
 * git continues what these files describe, and trusts them: a todo list may have `exec`,
 * `apply-opt` may have options of git-apply that write a file, and git's prompt for shells expands
 * the numbers of a rebase as shell text. So each file must have its known form (git 2.39:
 * sequencer.c, builtin/am.c, builtin/bisect.c, contrib/completion/git-prompt.sh); anything else
 * counts as harmful.
 */
#include "git_state.h"

#include <string.h>
#include <strings.h>

#include "git_config.h"
#include "leads.h"
#include "name_fold.h"

enum form {
	TEXT,	  /* a message or a patch, which git takes as data; git-apply checks the paths */
	EMPTY,	  /* nothing but blanks */
	NUMBER,	  /* which a shell prompt may expand */
	IDS,	  /* object ids */
	REFS,	  /* names of refs, object ids, and `detached HEAD` */
	WORDS,	  /* names of options, in which a shell finds nothing to expand */
	COMMANDS, /* a list of what to do, without `exec` */
	AUTHOR,	  /* quoted for a shell */
	STRATEGY, /* git runs git-merge-STRATEGY */
	OPTIONS,  /* in the grammar of git-config(1) */
};

struct file {
	const char *name;
	enum form form;
};

static const struct file merge_files[] = {
	{ "allow_rerere_autoupdate", WORDS },
	{ "amend", IDS },
	{ "author-script", AUTHOR },
	{ "autostash", IDS },
	{ "cdate_is_adate", EMPTY },
	{ "current-fixups", TEXT },
	{ "done", TEXT },
	{ "drop_redundant_commits", EMPTY },
	{ "end", NUMBER },
	{ "git-rebase-todo", COMMANDS },
	{ "git-rebase-todo.backup", COMMANDS },
	{ "gpg_sign_opt", WORDS },
	{ "head-name", REFS },
	{ "ignore_date", EMPTY },
	{ "interactive", EMPTY },
	{ "keep_redundant_commits", EMPTY },
	{ "message", TEXT },
	{ "message-contents", TEXT },
	{ "message-fixup", TEXT },
	{ "message-squash", TEXT },
	{ "msgnum", NUMBER },
	{ "no-reschedule-failed-exec", EMPTY },
	{ "onto", IDS },
	{ "orig-head", IDS },
	{ "patch", TEXT },
	{ "quiet", WORDS },
	{ "refs-to-delete", REFS },
	{ "reschedule-failed-exec", EMPTY },
	{ "rewritten-list", IDS },
	{ "rewritten-pending", IDS },
	{ "signoff", WORDS },
	{ "squash-onto", IDS },
	{ "stopped-sha", IDS },
	{ "strategy", STRATEGY },
	{ "strategy_opts", WORDS },
	{ "update-refs", REFS },
	{ "verbose", WORDS },
};

static const struct file apply_files[] = {
	{ "abort-safety", IDS },
	{ "allow_rerere_autoupdate", WORDS },
	{ "apply-opt", EMPTY },
	{ "applying", EMPTY },
	{ "author-script", AUTHOR },
	{ "autostash", IDS },
	{ "dirtyindex", TEXT },
	{ "empty", WORDS },
	{ "final-commit", TEXT },
	{ "gpg_sign_opt", WORDS },
	{ "head-name", REFS },
	{ "info", TEXT },
	{ "keep", WORDS },
	{ "last", NUMBER },
	{ "messageid", WORDS },
	{ "msg", TEXT },
	{ "msg-clean", TEXT },
	{ "next", NUMBER },
	{ "no_inbody_headers", WORDS },
	{ "onto", IDS },
	{ "orig-head", IDS },
	{ "original-commit", IDS },
	{ "patch", TEXT },
	{ "patch-merge-index", TEXT },
	{ "quiet", WORDS },
	{ "quoted-cr", WORDS },
	{ "rebasing", EMPTY },
	{ "rewritten", IDS },
	{ "scissors", WORDS },
	{ "sign", WORDS },
	{ "signoff", WORDS },
	{ "strategy", STRATEGY },
	{ "strategy_opts", WORDS },
	{ "threeway", WORDS },
	{ "utf8", WORDS },
	{ "verbose", WORDS },
};

static const struct file sequence_files[] = {
	{ "abort-safety", IDS }, { "done", TEXT },     { "head", IDS },
	{ "opts", OPTIONS },	 { "todo", COMMANDS },
};

static const struct file top_files[] = {
	{ "BISECT_START", REFS },
	{ "BISECT_TERMS", WORDS },
	{ "MERGE_AUTOSTASH", IDS },
	{ "MERGE_MODE", WORDS },
};

#define N(list) (sizeof(list) / sizeof((list)[0]))

static const struct {
	const char *name;
	const struct file *files;
	size_t n;
} folders[] = {
	{ "rebase-merge", merge_files, N(merge_files) },
	{ "rebase-apply", apply_files, N(apply_files) },
	{ "sequencer", sequence_files, N(sequence_files) },
};

static bool consists_of(struct kh_slice text, const char *others)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		if (!kh_is_alpha(c) && !kh_is_digit(c) && (c == '\0' || !strchr(others, c)))
			return false;
	}
	return true;
}

static bool is_number(struct kh_slice text)
{
	uint64_t value;
	return kh_slice_to_u64(kh_slice_chomp(text), &value) &&
	       kh_slice_chomp(text).len + 1 >= text.len;
}

static bool is_ids(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] == '\0' || !strchr("0123456789abcdefABCDEF \n", text.ptr[i]))
			return false;
	return true;
}

/* No line begins as an option does. */
static bool is_refs(struct kh_slice text)
{
	for (size_t at = 0; at < text.len;) {
		size_t end = kh_slice_find(text, '\n', at);
		if (text.ptr[at] == '-')
			return false;
		at = end + 1;
	}
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		if ((unsigned char)c < ' ' ? c != '\n' : c == 0x7f || strchr("$`\\\"!", c))
			return false;
	}
	return true;
}

static bool is_command(struct kh_slice line)
{
	static const char *const words[] = {
		"p",	 "pick", "revert", "e", "edit",	 "r", "reword",	    "f",
		"fixup", "s",	 "squash", "l", "label", "t", "reset",	    "m",
		"merge", "b",	 "break",  "d", "drop",	 "u", "update-ref", "noop",
	};
	size_t end = 0;
	while (end < line.len && line.ptr[end] != ' ' && line.ptr[end] != '\t')
		end++;
	struct kh_slice word = kh_slice_sub(line, 0, end);
	for (size_t i = 0; i < N(words); i++)
		if (kh_slice_eq(word, kh_slice_str(words[i])))
			return true;
	return false;
}

static bool is_commands(struct kh_slice text)
{
	for (size_t at = 0; at < text.len;) {
		size_t end = kh_slice_find(text, '\n', at);
		struct kh_slice line = kh_slice_trim(kh_slice_sub(text, at, end));
		if (line.len > 0 && line.ptr[line.len - 1] == '\r')
			line = kh_slice_trim(kh_slice_sub(line, 0, line.len - 1));
		if (line.len > 0 && line.ptr[0] != '#' && !is_command(line))
			return false;
		at = end + 1;
	}
	return true;
}

/* One quoted text, as git's sq_quote writes it: '...', with '\'' and '\!' in it. */
static bool skip_quoted(struct kh_slice text, size_t *at)
{
	size_t i = *at;
	if (i >= text.len || text.ptr[i] != '\'')
		return false;
	for (;;) {
		i = kh_slice_find(text, '\'', i + 1);
		if (i >= text.len)
			return false;
		struct kh_slice rest = kh_slice_sub(text, i, text.len);
		if (!kh_slice_has_prefix(rest, KH_SLICE("'\\''")) &&
		    !kh_slice_has_prefix(rest, KH_SLICE("'\\!'")))
			break;
		i += 3;
	}
	*at = i + 1;
	return true;
}

static bool is_author(struct kh_slice text)
{
	static const char *const names[] = { "GIT_AUTHOR_NAME=", "GIT_AUTHOR_EMAIL=",
					     "GIT_AUTHOR_DATE=" };
	size_t at = 0;
	for (size_t i = 0; i < N(names); i++) {
		struct kh_slice name = kh_slice_str(names[i]);
		if (!kh_slice_has_prefix(kh_slice_sub(text, at, text.len), name))
			return false;
		at += name.len;
		if (!skip_quoted(text, &at))
			return false;
		if (at < text.len && text.ptr[at++] != '\n')
			return false;
	}
	return at == text.len;
}

static bool is_strategy(struct kh_slice text)
{
	static const char *const known[] = { "ort",	"recursive", "resolve",
					     "octopus", "ours",	     "subtree" };
	for (size_t i = 0; i < N(known); i++)
		if (kh_slice_eq(text, kh_slice_str(known[i])))
			return true;
	return false;
}

static bool is_harmless_option(void *arg, const struct kh_git_config_entry *e)
{
	static const char *const names[] = { "no-commit",
					     "edit",
					     "allow-empty",
					     "allow-empty-message",
					     "drop-redundant-commits",
					     "keep-redundant-commits",
					     "signoff",
					     "record-origin",
					     "allow-ff",
					     "mainline",
					     "gpg-sign",
					     "strategy-option",
					     "allow-rerere-auto",
					     "commit-use-reference",
					     "default-msg-cleanup" };
	(void)arg;
	if (strcmp(e->section, "options") != 0 || e->subsection)
		return false;
	if (strcmp(e->name, "strategy") == 0)
		return e->value && is_strategy(kh_slice_str(e->value));
	for (size_t i = 0; i < N(names); i++)
		if (strcmp(e->name, names[i]) == 0)
			return true;
	return false;
}

static bool has_form(enum form form, struct kh_slice text)
{
	switch (form) {
	case TEXT:
		return true;
	case EMPTY:
		for (size_t i = 0; i < text.len; i++)
			if (text.ptr[i] != ' ' && text.ptr[i] != '\n')
				return false;
		return true;
	case NUMBER:
		return is_number(text);
	case IDS:
		return is_ids(text);
	case REFS:
		return is_refs(text);
	case WORDS:
		return consists_of(text, " \n-_=+@.,:%'/<>");
	case COMMANDS:
		return is_commands(text);
	case AUTHOR:
		return is_author(text);
	case STRATEGY:
		return is_strategy(kh_slice_chomp(text));
	case OPTIONS:
		return kh_git_config_read(text, is_harmless_option, NULL);
	}
	return false;
}

static const struct file *find(const struct file *files, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(files[i].name, name) == 0)
			return &files[i];
	return NULL;
}

/* The mails that git-am has split: 0001 and so on. */
static bool is_mail(const char *name)
{
	return strlen(name) >= 4 && strspn(name, "0123456789") == strlen(name);
}

bool kh_git_state_is_folder(const char *name)
{
	for (size_t i = 0; i < N(folders); i++)
		if (kh_name_fold_is(name, folders[i].name))
			return true;
	return false;
}

bool kh_git_state_is_harmless(const char *folder, const char *name, struct kh_slice text)
{
	for (size_t i = 0; i < N(folders); i++) {
		if (!kh_name_fold_is(folder, folders[i].name))
			continue;
		const struct file *file = find(folders[i].files, folders[i].n, name);
		if (!file)
			return folders[i].files == apply_files && is_mail(name);
		return has_form(file->form, text);
	}
	return false;
}

/* In any case: a file system may know no difference. */
static const struct file *find_at_top(const char *name)
{
	for (size_t i = 0; i < N(top_files); i++)
		if (kh_name_fold_is(name, top_files[i].name))
			return &top_files[i];
	return NULL;
}

bool kh_git_state_is_at_top(const char *name)
{
	return find_at_top(name) != NULL;
}

bool kh_git_state_is_harmless_at_top(const char *name, struct kh_slice text)
{
	const struct file *file = find_at_top(name);
	return !file || has_form(file->form, text);
}
