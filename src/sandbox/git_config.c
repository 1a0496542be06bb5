/*
 * git_config.c - parses git's configuration files, and tells which settings are harmless
 *
 * git has about a hundred variables that name a command, and filters, drivers and helpers may have
 * any name. So this file has no list of dangerous settings, but a short list of harmless ones:
 * those that git writes when it makes or clones a repository.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/limits.h>

#include "git_config.h"

enum { TEXT_MOST = KH_LIMIT_SURVEY_FILE_BYTES, ENTRIES_MOST = 20 * 1000 };

struct reader {
	struct kh_slice bytes;
	size_t at;
	bool ended; /* the end was given as a line end already */
	struct kh_buf section, subsection, name, value;
	bool has_subsection, has_value;
	size_t entries;
};

static void reader_fini(struct reader *r)
{
	kh_buf_fini(&r->section);
	kh_buf_fini(&r->subsection);
	kh_buf_fini(&r->name);
	kh_buf_fini(&r->value);
}

/* CRLF is a line end, and so is the end of the file. */
static int next(struct reader *r)
{
	if (r->at >= r->bytes.len) {
		r->ended = true;
		return '\n';
	}
	unsigned char c = (unsigned char)r->bytes.ptr[r->at++];
	if (c == '\r' && r->at < r->bytes.len && r->bytes.ptr[r->at] == '\n') {
		r->at++;
		return '\n';
	}
	return c;
}

static bool is_space(int c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_key(int c)
{
	return c == '-' || kh_is_alpha((char)c) || kh_is_digit((char)c);
}

static bool add(struct kh_buf *out, int c)
{
	return kh_buf_append_char(out, (char)c);
}

/* [section "sub\"section"], from after the space. */
static bool read_subsection(struct reader *r)
{
	int c;
	do
		if ((c = next(r)) == '\n')
			return false;
	while (is_space(c));
	if (c != '"' || (r->has_subsection && !add(&r->subsection, '.')))
		return false;
	r->has_subsection = true;
	while ((c = next(r)) != '"') {
		if (c == '\n' || (c == '\\' && (c = next(r)) == '\n') || !add(&r->subsection, c))
			return false;
	}
	return next(r) == ']';
}

static bool read_section(struct reader *r)
{
	kh_buf_clear(&r->section);
	kh_buf_clear(&r->subsection);
	r->has_subsection = false;
	for (;;) {
		int c = next(r);
		if (r->ended)
			return false;
		if (c == ']')
			return true;
		if (is_space(c))
			return c != '\n' && read_subsection(r);
		if (!is_key(c) && c != '.')
			return false;
		/* [a.b] is an old form of [a "b"]. */
		bool first_dot = c == '.' && !r->has_subsection;
		if (first_dot)
			r->has_subsection = true;
		else if (!add(r->has_subsection ? &r->subsection : &r->section, kh_lower((char)c)))
			return false;
	}
}

static bool read_escape(struct reader *r)
{
	int c = next(r);
	switch (c) {
	case '\n':
		return !r->ended;
	case 't':
		return add(&r->value, '\t');
	case 'b':
		return add(&r->value, '\b');
	case 'n':
		return add(&r->value, '\n');
	case '\\':
	case '"':
		return add(&r->value, c);
	default:
		return false;
	}
}

static bool read_value(struct reader *r)
{
	bool quoted = false, comment = false;
	size_t kept = 0; /* without the space that may turn out to be at the end */
	r->has_value = true;
	for (;;) {
		int c = next(r);
		if (c == '\n') {
			kh_buf_truncate(&r->value, kept);
			return !quoted;
		}
		if (comment)
			continue;
		if (is_space(c) && !quoted) {
			if (kh_buf_len(&r->value) > 0 && !add(&r->value, c))
				return false;
			continue;
		}
		if (!quoted && (c == ';' || c == '#')) {
			comment = true;
			continue;
		}
		if (c == '"')
			quoted = !quoted;
		else if (c == '\\' ? !read_escape(r) : !add(&r->value, c))
			return false;
		kept = kh_buf_len(&r->value);
	}
}

static bool read_variable(struct reader *r, int c)
{
	kh_buf_clear(&r->name);
	kh_buf_clear(&r->value);
	r->has_value = false;
	for (; is_key(c) && !r->ended; c = next(r))
		if (!add(&r->name, kh_lower((char)c)))
			return false;
	while (c == ' ' || c == '\t')
		c = next(r);
	if (c == '\n')
		return true;
	return c == '=' && read_value(r);
}

static bool give(struct reader *r, bool (*each)(void *, const struct kh_git_config_entry *),
		 void *arg)
{
	struct kh_git_config_entry entry = {
		.section = kh_buf_cstr(&r->section),
		.subsection = r->has_subsection ? kh_buf_cstr(&r->subsection) : NULL,
		.name = kh_buf_cstr(&r->name),
		.value = r->has_value ? kh_buf_cstr(&r->value) : NULL,
	};
	bool whole = entry.section && entry.name && (entry.subsection || !r->has_subsection) &&
		     (entry.value || !r->has_value);
	return whole && ++r->entries <= ENTRIES_MOST && each(arg, &entry);
}

static bool read_all(struct reader *r, bool (*each)(void *, const struct kh_git_config_entry *),
		     void *arg)
{
	bool comment = false;
	while (r->at < r->bytes.len) {
		int c = next(r);
		if (c == '\n') {
			comment = false;
			continue;
		}
		if (comment || is_space(c))
			continue;
		if (c == '#' || c == ';') {
			comment = true;
			continue;
		}
		if (c == '[') {
			if (!read_section(r))
				return false;
			continue;
		}
		if (!kh_is_alpha((char)c) || !read_variable(r, c) || !give(r, each, arg))
			return false;
	}
	return true;
}

bool kh_git_config_read(struct kh_slice bytes,
			bool (*each)(void *arg, const struct kh_git_config_entry *entry), void *arg)
{
	struct reader r kh_cleanup(reader_fini) = { .bytes = bytes };
	kh_buf_init(&r.section, TEXT_MOST);
	kh_buf_init(&r.subsection, TEXT_MOST);
	kh_buf_init(&r.name, TEXT_MOST);
	kh_buf_init(&r.value, TEXT_MOST);
	if (bytes.len >= 3 && memcmp(bytes.ptr, "\xef\xbb\xbf", 3) == 0)
		r.at = 3;
	return kh_slice_find(bytes, '\0', 0) == bytes.len && read_all(&r, each, arg);
}

static bool count(void *arg, const struct kh_git_config_entry *entry)
{
	size_t *n = arg;
	(void)entry;
	return ++*n < ENTRIES_MOST;
}

bool kh_git_config_is_beyond(struct kh_slice bytes)
{
	size_t n = 0;
	if (kh_slice_find(bytes, '\0', 0) < bytes.len)
		return true;
	(void)kh_git_config_read(bytes, count, &n);
	return n >= ENTRIES_MOST;
}

/* ---- what is harmless ---- */

enum kind {
	ANY = 1,
	BOOLEAN,
	VERSION,
	HASH,
	REFS,
	REFSPEC, /* branches to a place that is no branch, or tags */
	URL,	 /* of a repository, which names no program of its own (helper::address) */
	WORD,	 /* letters, digits, dots and hyphens */
};

static bool is_boolean(const char *value)
{
	static const char *const words[] = { "true", "yes", "on", "1", "false", "no", "off", "0" };
	if (!value || !*value)
		return true;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasecmp(value, words[i]) == 0)
			return true;
	return false;
}

/* "ext::sh -c …" runs a program. An address that begins with a hyphen is an option to somebody. */
static bool is_url(const char *value)
{
	if (!value || value[0] == '-' || strstr(value, "::") || strstr(value, "://-"))
		return false;
	for (const char *c = value; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return false;
	static const char *const schemes[] = { "https", "http", "ssh", "git", "file" };
	/* git takes a host's name off, and undoes escapes. */
	if (strncmp(value, "file://", 7) == 0 && (value[7] != '/' || strchr(value, '%')))
		return false;
	const char *mark = strstr(value, "://");
	if (!mark)
		return true; /* a path, or host:path */
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if ((size_t)(mark - value) == strlen(schemes[i]) &&
		    strncmp(value, schemes[i], strlen(schemes[i])) == 0)
			return true;
	return false;
}

/* A fetch that writes to refs/heads would replace branches of the user's. */
static bool is_refspec(const char *value)
{
	const char *colon = value ? strchr(value, ':') : NULL;
	if (!value || (value[0] == '-'))
		return false;
	return !colon || strncmp(colon, ":refs/remotes/", 14) == 0 ||
	       strncmp(colon, ":refs/tags/", 11) == 0 || strncmp(colon, ":refs/notes/", 12) == 0;
}

static bool is_word(const char *value)
{
	for (const char *c = value; c && *c; c++)
		if (!is_key((unsigned char)*c) && *c != '.')
			return false;
	return value && *value && *value != '-';
}

/* Any other has git refuse the repository. */
static bool is_either(const char *value, const char *one, const char *other)
{
	return value && (strcmp(value, one) == 0 || strcmp(value, other) == 0);
}

static const struct {
	const char *section, *name;
	bool named; /* it has a subsection */
	enum kind kind;
} harmless[] = {
	{ "core", "repositoryformatversion", false, VERSION },
	{ "core", "filemode", false, BOOLEAN },
	{ "core", "bare", false, BOOLEAN },
	{ "core", "logallrefupdates", false, WORD },
	{ "core", "ignorecase", false, BOOLEAN },
	{ "core", "precomposeunicode", false, BOOLEAN },
	{ "core", "symlinks", false, BOOLEAN },
	{ "core", "autocrlf", false, WORD },
	{ "core", "eol", false, WORD },
	{ "core", "sparsecheckout", false, BOOLEAN },
	{ "core", "sparsecheckoutcone", false, BOOLEAN },
	{ "index", "sparse", false, BOOLEAN },
	{ "extensions", "objectformat", false, HASH },
	{ "extensions", "refstorage", false, REFS },
	{ "extensions", "worktreeconfig", false, BOOLEAN },
	{ "remote", "url", true, URL },
	{ "remote", "fetch", true, REFSPEC },
	{ "remote", "tagopt", true, ANY },
	{ "branch", "remote", true, URL },
	{ "branch", "pushremote", true, URL },
	{ "branch", "merge", true, ANY },
	{ "branch", "rebase", true, WORD },
	{ "branch", "description", true, ANY },
	{ "branch", "vscode-merge-base", true, ANY },
	{ "branch", "gh-merge-base", true, ANY },
	{ "submodule", "active", true, BOOLEAN },
	{ "submodule", "active", false, ANY },
	{ "submodule", "url", true, URL },
	{ "user", "name", false, ANY },
	{ "user", "email", false, ANY },
	{ "user", "signingkey", false, ANY },
	{ "user", "useconfigonly", false, BOOLEAN },
};

static bool is_of(enum kind kind, const char *value)
{
	switch (kind) {
	case ANY:
		return true;
	case BOOLEAN:
		return is_boolean(value);
	case VERSION:
		return is_either(value, "0", "1");
	case HASH:
		return is_either(value, "sha1", "sha256");
	case REFS:
		return is_either(value, "files", "reftable");
	case REFSPEC:
		return is_refspec(value);
	case URL:
		return is_url(value);
	case WORD:
		return is_word(value);
	}
	return false;
}

/* `git fetch --all` hands the names of remotes to a git of their own, where one with a hyphen in
 * front is an option; and git makes paths of names. */
static bool is_name(const char *name)
{
	if (!*name || *name == '-' || *name == '/' || strstr(name, "::"))
		return false;
	for (const char *c = name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f ||
		    (strncmp(c, "..", 2) == 0 && (c == name || c[-1] == '/') &&
		     (c[2] == '/' || c[2] == '\0')))
			return false;
	return true;
}

bool kh_git_config_is_harmless(const struct kh_git_config_entry *entry)
{
	if (entry->subsection && !is_name(entry->subsection))
		return false;
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (strcmp(entry->section, harmless[i].section) == 0 &&
		    strcmp(entry->name, harmless[i].name) == 0 &&
		    (entry->subsection != NULL) == harmless[i].named)
			return is_of(harmless[i].kind, entry->value);
	return false;
}

const char *kh_git_config_local(const struct kh_git_config_entry *entry)
{
	const char *value = entry->value;
	bool branch = strcmp(entry->section, "branch") == 0;
	if (!value || !entry->subsection ||
	    (branch ? strcmp(entry->name, "remote") != 0 && strcmp(entry->name, "pushremote") != 0
		    : strcmp(entry->name, "url") != 0))
		return NULL;
	if (strncmp(value, "file://", 7) == 0)
		return value + 7;
	size_t part = strcspn(value, "/");
	/* HOST:PATH; or with another scheme. */
	return memchr(value, ':', part) ? NULL : value;
}

bool kh_git_config_is_worktree(const struct kh_git_config_entry *entry)
{
	return strcmp(entry->section, "core") == 0 && !entry->subsection &&
	       strcmp(entry->name, "worktree") == 0 && entry->value && *entry->value;
}

/* ---- the other way ---- */

/* A subsection knows no other escapes than of these two. */
static bool write_quoted(struct kh_buf *out, const char *text, bool is_value)
{
	bool ok = kh_buf_append_char(out, '"');
	for (; ok && *text; text++) {
		if (is_value && *text == '\n')
			ok = kh_buf_append_str(out, "\\n");
		else
			ok = ((*text != '"' && *text != '\\') || kh_buf_append_char(out, '\\')) &&
			     kh_buf_append_char(out, *text);
	}
	return ok && kh_buf_append_char(out, '"');
}

bool kh_git_config_write(struct kh_buf *out, const struct kh_git_config_entry *entry)
{
	bool ok = kh_buf_printf(out, "[%s", entry->section);
	if (ok && entry->subsection)
		ok = kh_buf_append_char(out, ' ') && write_quoted(out, entry->subsection, false);
	ok = ok && kh_buf_printf(out, "]\n\t%s", entry->name);
	if (ok && entry->value)
		ok = kh_buf_append_str(out, " = ") && write_quoted(out, entry->value, true);
	return ok && kh_buf_append_char(out, '\n');
}
