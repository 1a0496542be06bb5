/*
 * named_path.c - the files, folders, sockets and programs of this host that a configuration names
 *
 * The path of each row is read here, and nowhere else. So a caller that has to know where all of
 * them are (`keyhole run` with a file in the workspace) needs no list of rows, in which one could
 * be missing.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/writable.h>

#include "config_internal.h"

/* Room for one more? Said once. */
static bool has_room(struct kh_reader *reader, size_t bytes)
{
	struct kh_config *config = reader->config;

	if (config->named_bytes > KH_LIMIT_NAMED_BYTES)
		return false;
	config->named_bytes += bytes;
	if (config->named_bytes > KH_LIMIT_NAMED_BYTES)
		kh_reader_error(reader, NULL,
				"its options and commands name too many paths: more "
				"than %d MiB of them",
				KH_LIMIT_NAMED_BYTES / 1024 / 1024);
	return config->named_bytes <= KH_LIMIT_NAMED_BYTES;
}

static void keep(struct kh_reader *reader, const char *option, const char *path, bool unread)
{
	struct kh_config *config = reader->config;

	if (config &&
	    !has_room(reader, sizeof(struct kh_named_path) + strlen(option) + strlen(path)))
		return;
	struct kh_named_path *one =
		config ? kh_list_add(&config->named, &config->n_named, sizeof(*one)) : NULL;

	if (one)
		*one = (struct kh_named_path){ strdup(option), strdup(path), unread };
	if (config && (!one || !one->option || !one->path))
		(void)kh_reader_no_memory(reader);
}

void kh_reader_note_file(struct kh_reader *reader, const char *option, const char *path)
{
	keep(reader, option, path, false);
}

/* "credentials.key.value.file", on the heap. */
static char *name_of(const struct kh_reader *reader, const struct kh_option *option)
{
	const struct kh_reader_item *item = reader->item;
	size_t len = item ? strlen(item->path) : 0;

	if (len < 2 || strncmp(option->path, item->path, len) != 0 || item->path[len - 1] != '*')
		return strdup(option->path);
	return kh_strf("%.*s%.*s%s", (int)len - 1, item->path, (int)item->name.len, item->name.ptr,
		       option->path + len);
}

static void note_as(struct kh_reader *reader, const struct kh_option *option, const char *path,
		    bool unread)
{
	char *name = name_of(reader, option);

	if (name)
		keep(reader, name, path, unread);
	else
		(void)kh_reader_no_memory(reader);
	free(name);
}

static void note(struct kh_reader *reader, const struct kh_option *option, const char *path)
{
	note_as(reader, option, path, false);
}

char *kh_reader_path(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_yaml_node *node)
{
	if (!kh_reader_path_is_plain(reader, option, node))
		return NULL;
	char *path = reader->folder ? kh_path_join(reader->folder, node->text.ptr)
				    : kh_slice_dup(node->text);
	if (path)
		note(reader, option, path);
	else
		(void)kh_reader_no_memory(reader);
	return path;
}

/* Where a path may begin in a word: --file=/x, -I/x, PATH=/x:/y, @/x. Not in a/x, but of an option
 * nobody knows where its name ends; and a home's ~/x is another path. */
static bool begins(const char *word, const char *at)
{
	char before = at > word ? at[-1] : ' ';
	bool in_name = kh_is_alpha(before) || kh_is_digit(before) || (before & 0x80) ||
		       strchr("/._-~}", before);

	return *at == '/' && (!in_name || (word[0] == '-' && at == strchr(word, '/')));
}

/* What ends a path that is a part of a word. */
static const char between[] = ":,; \t\n=@'\"`|&()<>";

static void note_whole(struct kh_reader *reader, const struct kh_option *option, const char *top,
		       struct kh_slice rest)
{
	char *whole = top ? kh_strf("%s/%.*s", top, KH_FMT(rest)) : NULL;

	if (whole)
		note(reader, option, whole);
	else if (top)
		(void)kh_reader_no_memory(reader);
	free(whole);
}

/* As a shell would read it, which the command may be. */
static bool is_of_home(struct kh_slice *part)
{
	static const char *const homes[] = { "~/", "$HOME/", "${HOME}/" };

	for (size_t i = 0; i < sizeof(homes) / sizeof(homes[0]); i++)
		if (kh_slice_has_prefix(*part, kh_slice_str(homes[i]))) {
			*part = kh_slice_sub(*part, strlen(homes[i]), part->len);
			return true;
		}
	return false;
}

/* Each part that may be a path: a command runs in the folder "/". So the word as a whole, what
 * follows an "=", and what follows the letter of an option: -Iwork/x. */
static void note_relative(struct kh_reader *reader, const struct kh_option *option,
			  const char *word)
{
	if (word[0] != '/')
		note_whole(reader, option, "", kh_slice_str(word));
	for (const char *at = word; *at;) {
		size_t len = strcspn(at, between);
		struct kh_slice part = kh_slice_of(at, len);
		if (is_of_home(&part))
			note_whole(reader, option, getenv("HOME"), part);
		else if (len > 0 && at[0] != '/')
			note_whole(reader, option, "", part);
		if (at == word && at[0] == '-' && len > 2 && at[1] != '-')
			note_whole(reader, option, "", kh_slice_sub(part, 2, len));
		at += len + (at[len] != '\0');
	}
}

void kh_reader_note_word(struct kh_reader *reader, const struct kh_option *option, const char *word)
{
	note_relative(reader, option, word);
	for (const char *at = word; *at; at++) {
		if (!begins(word, at))
			continue;
		/* To its end, and to where another may begin. */
		note(reader, option, at);
		size_t len = strcspn(at, between);
		char *part = at[len] ? kh_slice_dup(kh_slice_of(at, len)) : NULL;
		if (part)
			note(reader, option, part);
		else if (at[len])
			(void)kh_reader_no_memory(reader);
		free(part);
		/* What follows in the same path is no other one. */
		at += len ? len - 1 : 0;
	}
}

/* A path of which only the shell knows a part. Of a URL it is another host's. */
static void note_unread(struct kh_reader *reader, const struct kh_option *option,
			const char *script, const char *part, size_t len)
{
	bool of_url =
		part > script && part[-1] == ':' && len > 1 && part[0] == '/' && part[1] == '/';

	if (of_url || !memchr(part, KH_SHELL_UNREAD, len) || !memchr(part, '/', len))
		return;
	char *copy = kh_slice_dup(kh_slice_of(part, len));
	for (char *c = copy; c && *c; c++)
		*c = *c == KH_SHELL_UNREAD ? '?' : *c;
	if (copy)
		note_as(reader, option, copy, true);
	else
		(void)kh_reader_no_memory(reader);
	free(copy);
}

/* Where `cd` may have led to before the name was used: to the home, and to what the script names.
 */
static void note_from_there(struct kh_reader *reader, const struct kh_option *option,
			    const char *script, struct kh_slice part)
{
	size_t len;

	if (part.len == 0 || part.ptr[0] == '/')
		return;
	note_whole(reader, option, getenv("HOME"), part);
	for (const char *at = script; *at; at += len + (at[len] != '\0')) {
		len = strcspn(at, between);
		char *folder = at[0] == '/' ? kh_slice_dup(kh_slice_of(at, len)) : NULL;
		if (folder)
			note_whole(reader, option, folder, part);
		free(folder);
	}
}

static bool changes_folder(const char *script)
{
	size_t len;

	for (const char *at = script; *at; at += len + (at[len] != '\0')) {
		len = strcspn(at, between);
		struct kh_slice part = kh_slice_of(at, len);
		if (kh_slice_eq(part, KH_SLICE("cd")) || kh_slice_eq(part, KH_SLICE("pushd")))
			return true;
	}
	return false;
}

static size_t count_folders(const char *script)
{
	size_t n = 0, len;

	for (const char *at = script; *at; at += len + (at[len] != '\0')) {
		len = strcspn(at, between);
		n += at[0] == '/';
	}
	return n;
}

/* With the values of its variables. */
enum { SCRIPT_MOST_BYTES = 4 * 1024 * 1024 };

void kh_reader_note_script(struct kh_reader *reader, const struct kh_option *option,
			   const struct kh_exec *exec, const char *script)
{
	struct kh_buf text;
	size_t len;

	kh_buf_init(&text, SCRIPT_MOST_BYTES);
	if (!kh_shell_word_read(exec, script, &text)) {
		(void)kh_reader_no_memory(reader);
		kh_buf_fini(&text);
		return;
	}
	const char *read = kh_buf_cstr(&text);
	bool cd = changes_folder(read);
	kh_reader_note_word(reader, option, read);
	if (cd && count_folders(read) > KH_LIMIT_NAMED_FOLDERS) {
		note_as(reader, option, "many folders and a cd", true);
		cd = false;
	}
	for (const char *at = read; *at; at += len + (at[len] != '\0')) {
		len = strcspn(at, between);
		note_unread(reader, option, read, at, len);
		if (cd)
			note_from_there(reader, option, read, kh_slice_of(at, len));
	}
	kh_buf_fini(&text);
}

static bool check_unread(const struct kh_named_path *one, struct kh_err *err)
{
	return !kh_writable_any() ||
	       kh_err_set(err, KH_ERR_CONFIG,
			  "a script names %s, and keyhole can't tell whether an agent may write "
			  "there (write that path in full, or put the script into a file)",
			  kh_esc_str(one->path));
}

bool kh_config_check_named(const struct kh_config *config, struct kh_err *err)
{
	for (size_t i = 0; i < config->n_named; i++) {
		const struct kh_named_path *one = &config->named[i];
		if (!(one->unread ? check_unread(one, err) : kh_writable_check(one->path, err)))
			return kh_err_wrap(err, "%s: %s",
					   config->n_files ? kh_esc_str(config->files[0]) : "",
					   kh_esc_str(one->option));
	}
	return true;
}

void kh_named_paths_free(struct kh_config *config)
{
	for (size_t i = 0; i < config->n_named; i++) {
		free(config->named[i].option);
		free(config->named[i].path);
	}
	free(config->named);
}
