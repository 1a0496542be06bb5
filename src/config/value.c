/* value.c - parses one scalar of the configuration: durations, sizes, counts, words, paths, names
 */
#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "config_internal.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit duration_units[] = {
	{ "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { NULL, 0 }
};
static const struct unit size_units[] = {
	{ "B", 1 }, { "KiB", 1 << 10 }, { "MiB", 1 << 20 }, { "GiB", 1 << 30 }, { NULL, 0 }
};

static bool with_unit(struct kh_slice text, const struct unit *units, uint64_t *out)
{
	size_t digits = 0;
	while (digits < text.len && kh_is_digit(text.ptr[digits]))
		digits++;
	uint64_t number;
	if (!kh_slice_to_u64(kh_slice_sub(text, 0, digits), &number))
		return false;
	for (; units->name; units++)
		if (kh_slice_eq(kh_slice_sub(text, digits, text.len), kh_slice_str(units->name)))
			return !__builtin_mul_overflow(number, units->factor, out);
	return false;
}

bool kh_value_duration(struct kh_slice text, uint64_t *out_ms)
{
	return with_unit(text, duration_units, out_ms);
}

bool kh_value_size(struct kh_slice text, uint64_t *out_bytes)
{
	return with_unit(text, size_units, out_bytes);
}

static const char *show(uint64_t value, const struct unit *units, char out[KH_VALUE_BYTES])
{
	const struct unit *best = units;
	for (; units->name; units++)
		if (value && value % units->factor == 0)
			best = units;
	(void)snprintf(out, KH_VALUE_BYTES, "%llu%s", (unsigned long long)(value / best->factor),
		       best->name);
	return out;
}

const char *kh_value_show_duration(uint64_t ms, char out[KH_VALUE_BYTES])
{
	return show(ms, duration_units, out);
}

const char *kh_value_show_size(uint64_t bytes, char out[KH_VALUE_BYTES])
{
	return show(bytes, size_units, out);
}

/* The text in quotes, unless it might be a misplaced secret. */
static void expected(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_yaml_node *node, const char *what)
{
	bool quiet = option->flags & KH_IS_QUIET;
	kh_reader_error(reader, node, "%s: expected %s%s%s%s", option->path, what,
			quiet ? "" : ", got \"", quiet ? "" : kh_esc(node->text),
			quiet ? "" : "\"");
}

static bool in_range(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_yaml_node *node, const struct unit *units, uint64_t value)
{
	if (value >= option->least && value <= option->most)
		return true;
	static const struct unit plain[] = { { "", 1 }, { NULL, 0 } };
	char least[KH_VALUE_BYTES], most[KH_VALUE_BYTES], text[96];
	(void)snprintf(text, sizeof(text), "something from %s to %s",
		       show(option->least, units ? units : plain, least),
		       show(option->most, units ? units : plain, most));
	expected(reader, option, node, text);
	return false;
}

static void set_choice(struct kh_reader *reader, const struct kh_option *option,
		       const struct kh_yaml_node *node, unsigned *slot)
{
	char list[128] = "";
	size_t len = 0;
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, node->text);
	for (unsigned i = 0; option->choices[i]; i++) {
		if (kh_slice_eq(node->text, kh_slice_str(option->choices[i]))) {
			*slot = i;
			return;
		}
		kh_nearest_offer(&nearest, option->choices[i]);
		int wrote = snprintf(list + len, sizeof(list) - len, "%s%s", i ? ", " : "",
				     option->choices[i]);
		if (wrote > 0 && (size_t)wrote < sizeof(list) - len)
			len += (size_t)wrote;
	}
	char hint[KH_NEAREST_BYTES];
	kh_reader_error(reader, node, "%s: expected one of %s, got \"%s\"%s", option->path, list,
			kh_esc(node->text), kh_nearest_hint(&nearest, hint));
}

/* It may be a value in the wrong place, and is not shown. */
bool kh_reader_path_is_plain(struct kh_reader *reader, const struct kh_option *option,
			     const struct kh_yaml_node *node)
{
	struct kh_slice text = node->text;
	bool home = kh_slice_eq(text, KH_SLICE("~")) || kh_slice_has_prefix(text, KH_SLICE("~/"));
	bool variable = false;
	for (size_t i = 0; i + 1 < text.len && !variable; i++)
		variable =
			text.ptr[i] == '$' && (text.ptr[i + 1] == '{' || text.ptr[i + 1] == '_' ||
					       kh_is_alpha(text.ptr[i + 1]));
	if (home || variable)
		kh_reader_error(reader, node,
				"%s: keyhole is no shell and puts %s into a path: write the path "
				"out (one that is relative begins at the folder of this file)",
				option->path,
				home ? "no home folder for ~" : "no value for a $VARIABLE");
	return !home && !variable;
}

static void set_text(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_yaml_node *node, char **slot)
{
	const char *why = option->check ? option->check(node->text) : NULL;
	if (!why && memchr(node->text.ptr, '\0', node->text.len))
		why = "contains a NUL";
	if (why && (option->flags & KH_IS_QUIET)) {
		kh_reader_error(reader, node, "%s: %s", option->path, why);
		return;
	}
	if (why) {
		kh_reader_error(reader, node, "%s: \"%s\" %s", option->path, kh_esc(node->text),
				why);
		return;
	}
	bool is_path = option->type == KH_OPTION_PATH;
	char *copy = is_path ? kh_reader_path(reader, option, node) : kh_slice_dup(node->text);
	if (!copy && !is_path)
		(void)kh_reader_no_memory(reader);
	if (!copy)
		return;
	free(*slot);
	*slot = copy;
}

static void set_number(struct kh_reader *reader, const struct kh_option *option,
		       const struct kh_yaml_node *node, void *slot)
{
	uint64_t value = 0;
	const struct unit *units = NULL;
	if (option->type == KH_OPTION_DURATION) {
		units = duration_units;
		if (!kh_value_duration(node->text, &value)) {
			expected(reader, option, node, "a duration such as 500ms, 10s, 5m or 24h");
			return;
		}
	} else if (option->type == KH_OPTION_SIZE) {
		units = size_units;
		if (!kh_value_size(node->text, &value)) {
			expected(reader, option, node, "a size such as 512B, 64KiB or 32MiB");
			return;
		}
	} else if (!kh_slice_to_u64(node->text, &value)) {
		expected(reader, option, node, "a whole number");
		return;
	}
	if (!in_range(reader, option, node, units, value))
		return;
	if (option->type == KH_OPTION_SIZE)
		*(uint64_t *)slot = value;
	else
		*(uint32_t *)slot = (uint32_t)value;
}

void kh_value_set(struct kh_reader *reader, const struct kh_option *option,
		  const struct kh_yaml_node *node, void *base)
{
	if (!kh_reader_scalar(reader, option, node))
		return;
	void *slot = (char *)base + option->offset;
	if (option->type == KH_OPTION_TEXT || option->type == KH_OPTION_PATH) {
		set_text(reader, option, node, slot);
	} else if (option->type == KH_OPTION_CHOICE) {
		set_choice(reader, option, node, slot);
	} else if (option->type == KH_OPTION_BOOL) {
		bool yes = kh_slice_eq(node->text, KH_SLICE("true"));
		if (!node->plain || (!yes && !kh_slice_eq(node->text, KH_SLICE("false"))))
			expected(reader, option, node, "true or false");
		else
			*(bool *)slot = yes;
	} else {
		set_number(reader, option, node, slot);
	}
}

/* ---- a part's member ---- */

/* Index of the word, -1: it is none of them. */
static int word_of(const char *const *words, struct kh_slice text)
{
	for (int i = 0; words[i]; i++)
		if (kh_slice_eq(text, kh_slice_str(words[i])))
			return i;
	return -1;
}

static void say_part(struct kh_reader *reader, const struct kh_option *option,
		     const struct kh_yaml_node *node, const char *why)
{
	kh_reader_error(reader, node, "%s: %s%s", option->path, *why ? why : "expected ",
			*why ? "" : option->expects);
}

static void set_part_text(struct kh_reader *reader, const struct kh_option *option,
			  const struct kh_yaml_node *node, char **slot)
{
	const char *why = option->check(node->text);
	if (why) {
		say_part(reader, option, node, why);
		return;
	}
	free(*slot);
	*slot = kh_slice_dup(node->text);
	if (!*slot)
		(void)kh_reader_no_memory(reader);
}

void kh_value_part(struct kh_reader *reader, const struct kh_option *option,
		   const struct kh_yaml_node *node, void *part)
{
	static const char *const truths[] = { "false", "true", NULL };
	if (!part || !kh_reader_scalar(reader, option, node))
		return;
	void *member = (char *)part + option->member;
	if (option->as == KH_OPTION_TEXT) {
		set_part_text(reader, option, node, member);
		return;
	}
	uint64_t ms = 0;
	int word = option->as == KH_OPTION_DURATION
			   ? -1
			   : word_of(option->choices ? option->choices : truths, node->text);
	if (word >= 0 && option->as == KH_OPTION_BOOL)
		*(bool *)member = word == 1;
	else if (word >= 0)
		*(unsigned *)member = (unsigned)word;
	else if (option->as == KH_OPTION_DURATION && kh_value_duration(node->text, &ms) &&
		 ms >= option->least && ms <= option->most)
		*(uint32_t *)member = (uint32_t)ms;
	else
		say_part(reader, option, node, "");
}

const char *kh_value_check_id(struct kh_slice text)
{
	if (text.len == 0 || text.len > KH_NAME_MOST_BYTES)
		return "must have 1 to 64 characters";
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		bool inner = i > 0 && (c == '-' || c == '.' || c == '_');
		if (!kh_is_alpha(c) && !kh_is_digit(c) && !inner)
			return "must be letters, digits, '-', '.' and '_', and begin with a letter "
			       "or digit";
	}
	return NULL;
}

const char *kh_value_check_user(struct kh_slice text)
{
	if (kh_slice_eq(text, KH_SLICE("root")) || kh_slice_eq(text, KH_SLICE("0")))
		return "would leave the worker its power: name an ordinary user";
	return kh_value_check_id(text);
}

const char *kh_value_check_env(struct kh_slice text)
{
	bool good = text.len > 0 && text.len <= 128 && !kh_is_digit(text.ptr[0]);
	for (size_t i = 0; good && i < text.len; i++)
		good = kh_is_alpha(text.ptr[i]) || kh_is_digit(text.ptr[i]) || text.ptr[i] == '_';
	return good ? NULL
		    : "must be the name of a variable: letters, digits and '_', no digit in front";
}

/* What goes through a shell, an environment and a header field alike. */
static bool is_plain_byte(char c)
{
	return c > 0x20 && c < 0x7f && c != '"' && c != '\'' && c != '\\' && c != '$' && c != '`';
}

const char *kh_value_check_prefix(struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!is_plain_byte(text.ptr[i]))
			return "must be printable, without blanks, quotes, '$' and backslash";
	return text.len <= 64 ? NULL : "must have 64 characters at most";
}

const char *kh_value_check_alphabet(struct kh_slice text)
{
	if (text.len < 10 || text.len > 94)
		return "must have 10 to 94 characters, each once";
	for (size_t i = 0; i < text.len; i++) {
		if (!is_plain_byte(text.ptr[i]))
			return "must be printable, without blanks, quotes, '$' and backslash";
		if (kh_slice_find(text, text.ptr[i], i + 1) < text.len)
			return "must have each character once";
	}
	unsigned capitals = 0, digits = 0;
	for (size_t i = 0; i < text.len; i++) {
		capitals += text.ptr[i] >= 'A' && text.ptr[i] <= 'Z';
		digits += kh_is_digit(text.ptr[i]);
	}
	/* What a placeholder is known by is made of them (placeholder.h). */
	return capitals == 26 || digits == 10 ? NULL
					      : "must have all capital letters, or all digits";
}
