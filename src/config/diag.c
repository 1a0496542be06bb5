/* diag.c - collects errors and warnings of a configuration, and sorts them by file and line */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "config_internal.h"

/* A file of nothing but mistakes: enough is enough. */
enum { MOST_DIAGNOSTICS = 200, TEXT_BYTES = 768 };

static void put_text(char text[TEXT_BYTES], const char *fmt, va_list args)
	__attribute__((format(printf, 2, 0)));

static void put_text(char text[TEXT_BYTES], const char *fmt, va_list args)
{
	if (vsnprintf(text, TEXT_BYTES, fmt, args) >= TEXT_BYTES)
		kh_esc_mark_cut(text);
}

void kh_diagnostics_add(struct kh_diagnostics *d, bool warning, struct kh_where where,
			const char *fmt, ...)
{
	if (!warning)
		d->errors++;
	if (d->count >= MOST_DIAGNOSTICS)
		return;
	char text[TEXT_BYTES];
	if (d->count == MOST_DIAGNOSTICS - 1) {
		(void)snprintf(text, sizeof(text), "too many mistakes: the rest is not shown");
	} else {
		va_list args;
		va_start(args, fmt);
		put_text(text, fmt, args);
		va_end(args);
	}
	/* A preset with a mistake may be used by a thousand tenants. */
	for (size_t i = 0; i < d->count; i++)
		if (memcmp(&d->list[i].where, &where, sizeof(where)) == 0 && d->list[i].text &&
		    strcmp(d->list[i].text, text) == 0)
			return;
	struct kh_diagnostic *one = kh_list_add(&d->list, &d->count, sizeof(*one));
	if (!one)
		return; /* counted above, and that is what fails the configuration */
	one->warning = warning;
	one->where = where;
	one->text = kh_slice_dup(kh_slice_str(text));
}

static int compare_u32(uint32_t a, uint32_t b)
{
	return a < b ? -1 : a > b;
}

static int compare(const struct kh_diagnostic *a, const struct kh_diagnostic *b)
{
	int order = compare_u32(a->where.file, b->where.file);
	if (order == 0)
		order = compare_u32(a->where.line, b->where.line);
	return order ? order : compare_u32(a->where.column, b->where.column);
}

/* By insertion: stable, and at most MOST_DIAGNOSTICS of them. */
void kh_diagnostics_sort(struct kh_diagnostics *d)
{
	for (size_t i = 1; i < d->count; i++) {
		struct kh_diagnostic one = d->list[i];
		size_t j = i;
		for (; j > 0 && compare(&d->list[j - 1], &one) > 0; j--)
			d->list[j] = d->list[j - 1];
		d->list[j] = one;
	}
}

struct kh_where kh_reader_where(const struct kh_reader *reader, const struct kh_yaml_node *node)
{
	return (struct kh_where){ .file = reader->file,
				  .line = node ? node->line : 0,
				  .column = node ? node->column : 0 };
}

/* Return: how long the row's path is that begins at `at`, a word's beginning; 0: none does. */
static size_t path_at(const struct kh_reader_item *item, const char *text, const char *at)
{
	size_t len = strlen(item->path);
	bool begins = at == text || strchr(" (\"'", at[-1]);
	return begins && strncmp(at, item->path, len) == 0 && (!at[len] || !strchr("*[", at[len]))
		       ? len
		       : 0;
}

/* In the place of the star, which is the path's last character. */
static bool put_named(const struct kh_reader *reader, const char *text, struct kh_buf *out)
{
	for (const char *at = text; *at; at++) {
		size_t len = 0;
		const struct kh_reader_item *item = reader->item;
		for (; item && !(len = path_at(item, text, at)); item = item->above)
			;
		if (len == 0) {
			if (!kh_buf_append_char(out, *at))
				return false;
			continue;
		}
		if (!kh_buf_append(out, at, len - 1) || !kh_buf_append_slice(out, item->name))
			return false;
		at += len - 1;
	}
	return true;
}

void kh_reader_say(struct kh_reader *reader, bool warning, const struct kh_yaml_node *node,
		   const char *fmt, ...)
{
	char text[TEXT_BYTES];
	struct kh_buf named kh_cleanup(kh_buf_fini);
	va_list args;
	va_start(args, fmt);
	put_text(text, fmt, args);
	va_end(args);
	kh_buf_init(&named, 2u * TEXT_BYTES);
	const char *shown = put_named(reader, text, &named) ? kh_buf_cstr(&named) : NULL;
	kh_diagnostics_add(reader->diags, warning, kh_reader_where(reader, node), "%s",
			   shown ? shown : text);
}

void *kh_reader_no_memory(struct kh_reader *reader)
{
	if (!reader->no_memory)
		kh_reader_error(reader, NULL, "out of memory");
	reader->no_memory = true;
	return NULL;
}

static void free_files(struct kh_diagnostics *d)
{
	for (size_t i = 0; i < d->n_files; i++)
		free(d->files[i]);
	free(d->files);
	d->files = NULL;
	d->n_files = 0;
}

void kh_diagnostics_take_files(struct kh_diagnostics *d, const struct kh_config *config)
{
	free_files(d);
	for (size_t i = 0; i < config->n_files; i++) {
		char **slot = kh_list_add(&d->files, &d->n_files, sizeof(*slot));
		if (slot)
			*slot = kh_slice_dup(kh_slice_str(config->files[i]));
	}
}

void kh_diagnostics_fini(struct kh_diagnostics *d)
{
	for (size_t i = 0; i < d->count; i++)
		free(d->list[i].text);
	free(d->list);
	free_files(d);
	*d = (struct kh_diagnostics){ 0 };
}

const char *kh_diagnostics_file(const struct kh_diagnostics *d, uint32_t index)
{
	return index < d->n_files && d->files[index] ? d->files[index] : "configuration";
}

static bool put_line(const struct kh_diagnostics *d, size_t index, struct kh_buf *line)
{
	const struct kh_diagnostic *one = &d->list[index];
	const char *file = kh_diagnostics_file(d, one->where.file);
	/* An option is no file that an editor could open: it is keyhole that speaks. */
	return kh_buf_printf(line, "%s%s:", strncmp(file, "--", 2) == 0 ? "keyhole: " : "",
			     kh_esc_str(file)) &&
	       (one->where.line == 0 ||
		kh_buf_printf(line, "%u:%u:", one->where.line, one->where.column)) &&
	       kh_buf_printf(line, " %s: %s\n", one->warning ? "warning" : "error",
			     one->text ? one->text : "out of memory");
}

void kh_diagnostics_put(const struct kh_diagnostics *d, struct kh_buf *out)
{
	for (size_t i = 0; i < d->count; i++) {
		size_t before = kh_buf_len(out);
		if (!put_line(d, i, out)) {
			kh_buf_truncate(out, before);
			return;
		}
	}
}

void kh_diagnostics_print(const struct kh_diagnostics *d, const struct kh_config *config, int fd)
{
	(void)config;
	for (size_t i = 0; i < d->count; i++) {
		struct kh_buf line;
		kh_buf_init(&line, 8192);
		if (put_line(d, i, &line))
			(void)kh_file_write_all(fd, kh_buf_view(&line), NULL);
		kh_buf_fini(&line);
	}
}
