/*
 * tables.c - the tables of options in docs/configuration.md and in the manual page
 *
 * A marker in the page says which options its next table has: `<!-- options: site tenants -->`, or
 * `.\" options: site tenants` in a manual page. Each word is the beginning of paths, up to a '.' or
 * '['. An option belongs to the marker with the longest word that fits. The rows of kh_options
 * replace what follows the marker, so nobody writes it by hand.
 */
#include <string.h>

#include "config_internal.h"

enum { WORDS_MOST = 64 };

struct page {
	struct kh_slice words[WORDS_MOST]; /* of all markers */
	size_t n_words;
	bool manual;
	const struct kh_options *options;
	struct kh_buf *out;
	bool ok;
};

static void put(struct page *page, struct kh_slice text)
{
	page->ok = page->ok && kh_buf_append_slice(page->out, text);
}

static void put_str(struct page *page, const char *text)
{
	put(page, kh_slice_str(text));
}

static struct kh_slice line_of(struct kh_slice *rest)
{
	size_t end = kh_slice_find(*rest, '\n', 0);
	struct kh_slice line = kh_slice_sub(*rest, 0, end < rest->len ? end + 1 : end);
	*rest = kh_slice_sub(*rest, line.len, rest->len);
	return line;
}

/* Return: is the line a marker? Its words in `words`. */
static bool marker(const struct page *page, struct kh_slice line, struct kh_slice *words)
{
	struct kh_slice head =
		page->manual ? KH_SLICE(".\\\" options: ") : KH_SLICE("<!-- options: ");
	if (!kh_slice_has_prefix(line, head))
		return false;
	size_t end = line.len;
	while (end > head.len && strchr("\n >-", line.ptr[end - 1]))
		end--;
	*words = kh_slice_sub(line, head.len, end);
	return true;
}

static bool next_word(struct kh_slice *words, struct kh_slice *word)
{
	size_t end = kh_slice_find(*words, ' ', 0);
	*word = kh_slice_sub(*words, 0, end);
	*words = kh_slice_sub(*words, end < words->len ? end + 1 : end, words->len);
	return word->len > 0;
}

static bool fits(const char *path, struct kh_slice word)
{
	return strncmp(path, word.ptr, word.len) == 0 && strchr(".[", path[word.len]);
}

/* The word that the option belongs to; an empty one where no marker has it. */
static struct kh_slice word_for(const struct page *page, const struct kh_option *option)
{
	struct kh_slice best = KH_SLICE("");
	for (size_t i = 0; i < page->n_words; i++)
		if (page->words[i].len > best.len && fits(option->path, page->words[i]))
			best = page->words[i];
	return best;
}

/* ---- what a row says ---- */

static void put_words(struct kh_buf *out, const char *const *words)
{
	for (size_t i = 0; words[i]; i++)
		(void)kh_buf_printf(out, "%s`%s`", i ? ", " : "", words[i]);
}

static void put_range(struct kh_buf *out, const struct kh_option *option)
{
	char least[KH_VALUE_BYTES], most[KH_VALUE_BYTES];
	if (option->type == KH_OPTION_DURATION)
		(void)kh_buf_printf(out, "a duration, %s to %s",
				    kh_value_show_duration(option->least, least),
				    kh_value_show_duration(option->most, most));
	else if (option->type == KH_OPTION_SIZE)
		(void)kh_buf_printf(out, "a size, %s to %s",
				    kh_value_show_size(option->least, least),
				    kh_value_show_size(option->most, most));
	else
		(void)kh_buf_printf(out, "a number, %llu to %llu",
				    (unsigned long long)option->least,
				    (unsigned long long)option->most);
}

static void put_takes(struct kh_buf *out, const struct kh_option *option)
{
	if (option->takes)
		(void)kh_buf_append_str(out, option->takes);
	else if (option->choices)
		put_words(out, option->choices);
	else if (option->expects)
		(void)kh_buf_append_str(out, option->expects);
	else if (option->type == KH_OPTION_COUNT || option->type == KH_OPTION_DURATION ||
		 option->type == KH_OPTION_SIZE)
		put_range(out, option);
	else
		(void)kh_buf_append_str(out, option->type == KH_OPTION_SECTION ? "a map"
					     : option->type == KH_OPTION_MAP   ? "a map by name"
					     : option->type == KH_OPTION_LIST  ? "a list"
					     : option->type == KH_OPTION_BOOL  ? "true or false"
					     : option->type == KH_OPTION_PATH  ? "a path"
									       : "a text");
}

/* A '|' would end the cell. */
static void put_cell(struct page *page, struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		put(page, text.ptr[i] == '|' ? KH_SLICE("\\|") : kh_slice_sub(text, i, i + 1));
}

static void put_row(struct page *page, const struct kh_option *option)
{
	struct kh_buf takes;
	kh_buf_init(&takes, 1024);
	put_takes(&takes, option);
	put_str(page, "| `");
	put_str(page, option->path);
	put_str(page, "` | ");
	put_cell(page, kh_buf_view(&takes));
	put_str(page, option->flags & KH_IS_REQUIRED ? " | required | "
		      : option->fallback	     ? " | `"
						     : " |  | ");
	if (!(option->flags & KH_IS_REQUIRED) && option->fallback) {
		put_cell(page, kh_slice_str(option->fallback));
		put_str(page, "` | ");
	}
	put_cell(page, kh_slice_str(option->doc));
	put_str(page, " |\n");
	kh_buf_fini(&takes);
}

/* Text of mdoc(7): `x` is quoted, and a backslash is no escape. */
static void put_text(struct page *page, struct kh_slice text)
{
	bool quoted = false;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		if (c == '`')
			quoted = !quoted;
		if (c == '`')
			put_str(page, quoted ? "\\(oq" : "\\(cq");
		else if (c == '\\')
			put_str(page, "\\e");
		else
			put(page, kh_slice_sub(text, i, i + 1));
	}
	put_str(page, ".\n");
}

/* It begins with a capital letter, and no line with a '.', which would make it a macro. */
static void put_sentence(struct page *page, struct kh_slice text)
{
	char first[] = { text.len > 0 ? text.ptr[0] : '\0', '\0' };
	bool small = first[0] >= 'a' && first[0] <= 'z';
	first[0] = (char)(small ? first[0] - 'a' + 'A' : first[0]);
	if (first[0] == '.' || first[0] == '\'')
		put_str(page, "\\&");
	put_str(page, small ? first : "");
	put_text(page, kh_slice_sub(text, small, text.len));
}

static void put_entry(struct page *page, const struct kh_option *option)
{
	put_str(page, ".It Cm ");
	put_str(page, option->path);
	put_str(page, "\n");
	put_sentence(page, kh_slice_str(option->doc));
	struct kh_buf takes;
	kh_buf_init(&takes, 1024);
	put_takes(&takes, option);
	if (option->type != KH_OPTION_SECTION && option->type != KH_OPTION_MAP) {
		put_str(page, "Value: ");
		put_text(page, kh_buf_view(&takes));
	}
	kh_buf_fini(&takes);
	if (option->flags & KH_IS_REQUIRED) {
		put_str(page, "Required.\n");
	} else if (option->fallback) {
		put_str(page, "Default:\n.Ql ");
		put_str(page, option->fallback);
		put_str(page, " .\n");
	}
}

/* ---- the page ---- */

static void put_table(struct page *page, struct kh_slice words)
{
	struct kh_slice word;
	put_str(page, page->manual ? ".Bl -tag -width Ds\n"
				   : "| option | what it takes | default | what it is |\n"
				     "|---|---|---|---|\n");
	while (next_word(&words, &word))
		for (size_t i = 0; i < page->options->count; i++) {
			const struct kh_option *option = &page->options->rows[i];
			if (!kh_slice_eq(word_for(page, option), word))
				continue;
			if (page->manual)
				put_entry(page, option);
			else
				put_row(page, option);
		}
	if (page->manual)
		put_str(page, ".El\n");
}

/* The lines of the table that was there. */
static void skip_table(const struct page *page, struct kh_slice *rest)
{
	struct kh_slice after = *rest;
	if (page->manual && !kh_slice_has_prefix(line_of(&after), KH_SLICE(".Bl ")))
		return;
	while (page->manual && rest->len > 0)
		if (kh_slice_has_prefix(line_of(rest), KH_SLICE(".El")))
			return;
	while (rest->len > 0 && rest->ptr[0] == '|')
		(void)line_of(rest);
}

static void take_words(struct page *page, struct kh_slice text)
{
	struct kh_slice words, word;
	while (text.len > 0)
		if (marker(page, line_of(&text), &words))
			while (page->n_words < WORDS_MOST && next_word(&words, &word))
				page->words[page->n_words++] = word;
}

bool kh_options_tables(const struct kh_options *options, struct kh_slice text, bool manual,
		       struct kh_buf *out, struct kh_err *err)
{
	struct page page = { .manual = manual, .options = options, .out = out, .ok = true };
	take_words(&page, text);
	for (size_t i = 0; i < page.options->count; i++)
		if (word_for(&page, &page.options->rows[i]).len == 0)
			return kh_err_set(err, KH_ERR_INTERNAL, "no table of the page has %s",
					  page.options->rows[i].path);
	while (text.len > 0) {
		struct kh_slice line = line_of(&text), words;
		put(&page, line);
		if (!marker(&page, line, &words))
			continue;
		skip_table(&page, &text);
		put_table(&page, words);
	}
	return page.ok || kh_err_set(err, KH_ERR_NO_MEMORY, "a page that is too long");
}

bool kh_config_tables(struct kh_slice text, bool manual, struct kh_buf *out, struct kh_err *err)
{
	return kh_options_tables(&kh_options, text, manual, out, err);
}
