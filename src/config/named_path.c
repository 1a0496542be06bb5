/*
 * named_path.c - the files, folders, sockets and programs of this host that a configuration names
 *
 * Each row with a path has it read here, and nowhere else. So whoever has to know where all of them
 * are (`keyhole run` with a file that lies in the workspace) needs no list of rows, and no row can
 * be missing in it.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/file.h>

#include "config_internal.h"

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

static void note(struct kh_reader *reader, const struct kh_option *option, const char *path)
{
	struct kh_config *config = reader->config;

	if (!config)
		return;
	struct kh_named_path *one = kh_list_add(&config->named, &config->n_named, sizeof(*one));
	if (one)
		*one = (struct kh_named_path){ name_of(reader, option), strdup(path) };
	if (!one || !one->option || !one->path)
		(void)kh_reader_no_memory(reader);
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

/* Where a path may begin in a word: --file=/x, -I/x, PATH=/x:/y, @/x. */
static bool begins(const char *word, const char *at)
{
	return *at == '/' && (at == word || at[-1] != '/');
}

void kh_reader_note_word(struct kh_reader *reader, const struct kh_option *option, const char *word)
{
	static const char between[] = ":,; \t";

	/* A command runs in the folder "/". */
	if (word[0] != '/' && strchr(word, '/')) {
		char *whole = kh_strf("/%s", word);
		if (whole)
			note(reader, option, whole);
		else
			(void)kh_reader_no_memory(reader);
		free(whole);
	}
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

void kh_named_paths_free(struct kh_config *config)
{
	for (size_t i = 0; i < config->n_named; i++) {
		free(config->named[i].option);
		free(config->named[i].path);
	}
	free(config->named);
}
