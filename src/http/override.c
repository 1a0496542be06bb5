/*
 * override.c - what a request asks a server to take it for: another method, another path
 *
 * Frameworks let clients that can only GET and POST say what they mean in a field or a parameter.
 * To a rule that looks at methods or paths that is a second request in the first one's clothes, so
 * it is found in any spelling that one of them takes. A form's `_method` stands in the content,
 * which nobody reads here.
 */
#include <keyhole/message.h>
#include <keyhole/policy.h>

#include <string.h>

static const struct kh_slice method_fields[] = {
	KH_SLICE_INIT("x-http-method-override"), KH_SLICE_INIT("x-http-method"),
	KH_SLICE_INIT("x-method-override"),	 KH_SLICE_INIT("x-http-methodoverride"),
	KH_SLICE_INIT("http-method-override"),	 KH_SLICE_INIT("x-method"),
};

static const struct kh_slice path_fields[] = {
	KH_SLICE_INIT("x-original-url"),
	KH_SLICE_INIT("x-rewrite-url"),
	KH_SLICE_INIT("x-override-url"),
};

/* CGI and its heirs take '_' and '-' for the same. */
static bool is_field(struct kh_slice name, const struct kh_slice *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t at = 0;
		while (name.len == list[i].len && at < name.len &&
		       (name.ptr[at] == '_' ? '-' : kh_lower(name.ptr[at])) == list[i].ptr[at])
			at++;
		if (at == list[i].len && name.len == at)
			return true;
	}
	return false;
}
#define IS_FIELD(name, list) is_field(name, list, sizeof(list) / sizeof(*(list)))

static bool is_there(const struct kh_overrides *out, const char *method)
{
	for (size_t i = 0; i < out->n_methods; i++)
		if (strcmp(out->methods[i], method) == 0)
			return true;
	return false;
}

/* In capitals. Return: false: it can't be read. */
static bool read_method(struct kh_slice text, char out[KH_OVERRIDING_BYTES + 1])
{
	if (text.len > KH_OVERRIDING_BYTES)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		char c = kh_lower(text.ptr[i]);
		if ((c < 'a' || c > 'z') && c != '-' && c != '_')
			return false;
		out[i] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
	}
	return true;
}

/* `text` is decoded. What can't be read, and one too many, may be any. */
static void add_method(struct kh_overrides *out, struct kh_slice text)
{
	char method[KH_OVERRIDING_BYTES + 1] = "";
	if (!read_method(kh_slice_trim(text), method))
		memcpy(method, KH_OVERRIDING_ANY, sizeof(KH_OVERRIDING_ANY));
	if (is_there(out, method))
		return;
	if (out->n_methods == KH_OVERRIDING_METHODS)
		memcpy(out->methods[KH_OVERRIDING_METHODS - 1], KH_OVERRIDING_ANY,
		       sizeof(KH_OVERRIDING_ANY));
	else
		memcpy(out->methods[out->n_methods++], method, sizeof(method));
}

/* The byte that stands at *at; *at goes behind it. */
static char decoded(struct kh_slice text, size_t *at)
{
	char c = text.ptr[(*at)++];
	if (c == '+')
		return ' ';
	if (c != '%' || text.len - *at < 2)
		return c;
	int high = kh_hex_value(text.ptr[*at]), low = kh_hex_value(text.ptr[*at + 1]);
	if (high < 0 || low < 0)
		return c;
	*at += 2;
	return (char)(high * 16 + low);
}

/* PHP: blanks in front are left out, '.', ' ' and '[' are '_', and a NUL ends a name. */
static bool is_parameter(struct kh_slice name)
{
	static const char due[] = "_method";
	size_t at = 0, matched = 0;
	while (at < name.len) {
		char c = decoded(name, &at);
		if (matched == 0 && c == ' ')
			continue;
		if (due[matched] == '\0')
			return c == '[' || c == '\0';
		if (c == '.' || c == ' ' || c == '[')
			c = '_';
		if (kh_lower(c) != due[matched++])
			return false;
	}
	return due[matched] == '\0';
}

static void read_parameter(struct kh_overrides *out, struct kh_slice value)
{
	char text[KH_OVERRIDING_BYTES + 2];
	size_t len = 0;
	for (size_t at = 0; at < value.len && len < sizeof(text);)
		text[len++] = decoded(value, &at);
	add_method(out, kh_slice_of(text, len));
}

static void read_query(struct kh_overrides *out, struct kh_slice query)
{
	for (size_t at = 0; at < query.len;) {
		size_t end = at, equals;
		while (end < query.len && query.ptr[end] != '&' && query.ptr[end] != ';')
			end++;
		struct kh_slice one = kh_slice_sub(query, at, end);
		equals = kh_slice_find(one, '=', 0);
		if (is_parameter(kh_slice_sub(one, 0, equals)))
			read_parameter(out, kh_slice_sub(one, equals + 1, one.len));
		at = end + 1;
	}
}

void kh_overrides_read(struct kh_overrides *out, const struct kh_message *message,
		       struct kh_slice query)
{
	out->n_methods = 0;
	out->path = false;
	for (size_t i = 0; i < message->n_fields; i++) {
		const struct kh_field *field = &message->fields[i];
		/* None of them is shorter, and few begin otherwise. */
		if (field->name.len < 8 || (kh_lower(field->name.ptr[0]) | 16) != 'x')
			continue;
		if (IS_FIELD(field->name, method_fields))
			add_method(out, field->value);
		else if (IS_FIELD(field->name, path_fields))
			out->path = true;
	}
	if (query.len > 0)
		read_query(out, query);
}
