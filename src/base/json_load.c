/* json_load.c - a JSON document that somebody else wrote, as a tree */

#include <keyhole/base/json_load.h>

#include <stdio.h>
#include <string.h>

#include <keyhole/base/limits.h>

/* Where it nests too deep; text.len: nowhere. As far as the text is JSON, a bracket outside of
 * strings opens or closes something; jansson reads no further than that. */
static size_t find_too_deep(struct kh_slice text)
{
	unsigned depth = 0;
	bool in_string = false;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		if (in_string && c == '\\')
			i++;
		else if (c == '"')
			in_string = !in_string;
		else if (!in_string && (c == '[' || c == '{') && ++depth > KH_LIMIT_JSON_TREE_DEPTH)
			return i;
		else if (!in_string && (c == ']' || c == '}') && depth > 0)
			depth--;
	}
	return text.len;
}

static void say_too_deep(struct kh_slice before, json_error_t *why)
{
	memset(why, 0, sizeof(*why));
	why->line = 1;
	for (size_t i = 0; i < before.len; i++)
		why->line += before.ptr[i] == '\n';
	why->position = (int)before.len;
	(void)snprintf(why->text, sizeof(why->text), "it nests deeper than %d levels",
		       KH_LIMIT_JSON_TREE_DEPTH);
}

json_t *kh_json_load(struct kh_slice text, size_t flags, json_error_t *why)
{
	size_t at = find_too_deep(text);

	if (at == text.len)
		return json_loadb(text.ptr, text.len, flags, why);
	if (why)
		say_too_deep(kh_slice_sub(text, 0, at), why);
	return NULL;
}
