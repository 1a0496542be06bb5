/* home_template.c - files for the home: how they are read, and their places filled */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>

#include "config_internal.h"

enum { FILLED_BYTES = 256 * 1024 };

/* Below the home, and nowhere else. */
const char *kh_home_template_check_path(struct kh_slice text)
{
	static const char why[] = "must be a path below the home, such as .config/agent.json";
	if (text.len == 0 || text.len > 255 || text.ptr[0] == '/')
		return why;
	for (size_t at = 0; at <= text.len;) {
		size_t end = kh_slice_find(text, '/', at);
		struct kh_slice part = kh_slice_sub(text, at, end);
		if (part.len == 0 || kh_slice_eq(part, KH_SLICE(".")) ||
		    kh_slice_eq(part, KH_SLICE("..")))
			return why;
		at = end + 1;
	}
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] < 0x21 || text.ptr[i] > 0x7e)
			return "must be visible ASCII";
	return NULL;
}

void *kh_home_template_add(struct kh_reader *reader, void *parent, const struct kh_yaml_node *node)
{
	struct kh_home_templates *all = parent;
	struct kh_home_template *one = kh_list_add(&all->list, &all->count, sizeof(*one));
	(void)node;
	return one ? one : kh_reader_no_memory(reader);
}

bool kh_home_templates_append(struct kh_home_templates *templates, struct kh_home_templates *more)
{
	for (size_t i = 0; i < more->count; i++) {
		struct kh_home_template *slot =
			kh_list_add(&templates->list, &templates->count, sizeof(*slot));
		if (!slot)
			return false;
		*slot = more->list[i];
		more->list[i] = (struct kh_home_template){ 0 };
	}
	kh_home_templates_fini(more);
	return true;
}

void kh_home_templates_fini(struct kh_home_templates *templates)
{
	for (size_t i = 0; i < templates->count; i++) {
		free(templates->list[i].path);
		free(templates->list[i].content);
		free(templates->list[i].needs);
	}
	free(templates->list);
	*templates = (struct kh_home_templates){ 0 };
}

/* ---- places ---- */

/* The inside of a JSON string. */
static bool put_inside(struct kh_buf *out, struct kh_slice text)
{
	size_t before = kh_buf_len(out);
	if (!kh_json_string(out, text))
		return false;
	size_t len = kh_buf_len(out) - before;
	char *begin = out->data + out->head + before;
	memmove(begin, begin + 1, len - 2);
	kh_buf_truncate(out, before + len - 2);
	return true;
}

/* What a place stands for: "workspace", "NAME" or "NAME:-N". */
static struct kh_slice value_of(struct kh_slice place, const char *workspace,
				kh_home_placeholder *placeholder, void *arg)
{
	if (kh_slice_eq(place, KH_SLICE("workspace")))
		return kh_slice_str(workspace);
	size_t colon = kh_slice_find(place, ':', 0);
	uint64_t last = UINT64_MAX;
	if (colon < place.len) {
		struct kh_slice number = kh_slice_sub(place, colon + 1, SIZE_MAX);
		if (!kh_slice_has_prefix(number, KH_SLICE("-")) ||
		    !kh_slice_to_u64(kh_slice_sub(number, 1, SIZE_MAX), &last))
			return (struct kh_slice){ 0 };
	}
	kh_auto_free char *name = kh_slice_dup(kh_slice_sub(place, 0, colon));
	struct kh_slice value = kh_slice_str(name ? placeholder(name, arg) : NULL);
	return last < value.len ? kh_slice_sub(value, value.len - (size_t)last, SIZE_MAX) : value;
}

char *kh_home_template_fill(const char *content, const char *workspace,
			    kh_home_placeholder *placeholder, void *arg)
{
	struct kh_buf out kh_cleanup(kh_buf_fini);
	struct kh_slice rest = kh_slice_str(content);
	kh_buf_init(&out, FILLED_BYTES);
	for (size_t at = 0; at < rest.len;) {
		struct kh_slice from = kh_slice_sub(rest, at, SIZE_MAX);
		if (kh_slice_has_prefix(from, KH_SLICE("$${"))) {
			if (!kh_buf_append_str(&out, "${"))
				return NULL;
			at += 3;
		} else if (kh_slice_has_prefix(from, KH_SLICE("${"))) {
			size_t end = kh_slice_find(from, '}', 2);
			if (end >= from.len ||
			    !put_inside(&out, value_of(kh_slice_sub(from, 2, end), workspace,
						       placeholder, arg)))
				return NULL;
			at += end + 1;
		} else {
			if (!kh_buf_append_char(&out, from.ptr[0]))
				return NULL;
			at++;
		}
	}
	return kh_slice_dup(kh_buf_view(&out));
}
