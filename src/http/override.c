/*
 * override.c - the other method, host or path that a request asks a server to use
 *
 * Frameworks let clients that can only GET and POST put the real method into a field or a
 * parameter. Servers behind a proxy take the client's original host and path from a field. For a
 * rule about methods, hosts or paths that is a second request in disguise. So it is recognised in
 * any spelling that some server accepts (override_name.h, spelling.h). A form's `_method` is in the
 * content, which is not read here.
 */
#include <keyhole/http/message.h>
#include <keyhole/policy/policy.h>
#include <keyhole/base/spelling.h>
#include <keyhole/http/target.h>

#include <string.h>

#include "message_internal.h"

static bool is_source(enum kh_override_kind kind)
{
	return kind >= KH_OVERRIDE_BUCKET_AND_KEY;
}

bool kh_override_is_field(struct kh_slice name)
{
	return kh_override_of_field(name) != KH_OVERRIDE_NONE;
}

bool kh_override_has_path(const struct kh_field *field, struct kh_slice *query)
{
	enum kh_override_kind kind = kh_override_of_field(field->name);
	if (kind != KH_OVERRIDE_PATH && kind != KH_OVERRIDE_MOVED && !is_source(kind))
		return false;
	size_t mark = kh_slice_find(field->value, '?', 0);
	*query = mark < field->value.len ? kh_slice_sub(field->value, mark + 1, field->value.len)
					 : kh_slice_of(NULL, 0);
	return true;
}

/* ---- methods ---- */

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

/* ---- hosts ---- */

/* `text`: "host", "host:port", or the beginning of a URL. What can't be read may be any. */
static void add_host(struct kh_overrides *out, struct kh_slice text)
{
	text = kh_slice_trim(text);
	if (text.len >= 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"')
		text = kh_slice_sub(text, 1, text.len - 1);
	struct kh_overriding_host *host = &out->hosts[out->n_hosts];
	if (out->n_hosts == KH_OVERRIDING_HOSTS ||
	    !kh_host_port_parse(&host->host, &host->port, text, UINT16_MAX)) {
		out->any_host = true;
		return;
	}
	/* A port of 65535 that is written is as good as none: nobody means it. */
	host->port = host->port == UINT16_MAX ? 0 : host->port;
	out->n_hosts++;
}

/* "a.example, b.example": one a proxy. */
static void add_hosts(struct kh_overrides *out, struct kh_slice list)
{
	struct kh_slice one;
	while (kh_list_next(&list, &one))
		add_host(out, one);
}

/* RFC 7239 §4. A comma or semicolon inside of quotes parts nothing there; none stands in a host, so
 * what it would part can't be read. */
static void read_forwarded(struct kh_overrides *out, struct kh_slice value)
{
	for (size_t at = 0; at < value.len;) {
		size_t end = at;
		while (end < value.len && value.ptr[end] != ';' && value.ptr[end] != ',')
			end++;
		struct kh_slice pair = kh_slice_trim(kh_slice_sub(value, at, end));
		size_t equals = kh_slice_find(pair, '=', 0);
		struct kh_slice name = kh_slice_trim(kh_slice_sub(pair, 0, equals));
		if (kh_spelling_is_value(name, KH_SLICE("host")))
			add_host(out, kh_slice_sub(pair, equals + 1, pair.len));
		at = end + 1;
	}
}

/* ---- the query ---- */

enum { PARAMETER_BYTES = KH_OVERRIDING_BYTES + 2 };

/* Without the blanks in front of it; what does not fit is left out. */
static struct kh_slice decode(struct kh_slice value, char out[PARAMETER_BYTES])
{
	size_t len = 0;
	for (size_t at = 0; at < value.len && len < PARAMETER_BYTES;) {
		struct kh_character c = kh_spelling_at(value, at, KH_PLUS_IS_BLANK);
		if (len > 0 || !kh_spelling_is_blank((char)c.byte))
			out[len++] = (char)c.byte;
		at += c.width;
	}
	return kh_slice_of(out, len);
}

static bool is_method(struct kh_slice value)
{
	static const struct kh_slice methods[] = {
		KH_SLICE_INIT("GET"),	KH_SLICE_INIT("HEAD"),	  KH_SLICE_INIT("POST"),
		KH_SLICE_INIT("PUT"),	KH_SLICE_INIT("PATCH"),	  KH_SLICE_INIT("DELETE"),
		KH_SLICE_INIT("TRACE"), KH_SLICE_INIT("OPTIONS"), KH_SLICE_INIT("PURGE"),
	};
	char text[PARAMETER_BYTES];
	struct kh_slice word = kh_slice_trim(decode(value, text));
	word = kh_slice_sub(word, 0, kh_slice_find(word, '\0', 0));
	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (kh_slice_eq_nocase(word, methods[i]))
			return true;
	return false;
}

static bool is_absolute(struct kh_slice value)
{
	char text[PARAMETER_BYTES];
	struct kh_slice word = decode(value, text);
	return word.len > 0 && (word.ptr[0] == '/' || word.ptr[0] == '\\');
}

/* "sha256:…" */
static bool is_digest(struct kh_slice value)
{
	size_t at = 0;
	while (at < value.len) {
		struct kh_character c = kh_spelling_at(value, at, KH_PLUS_IS_BLANK);
		if (c.byte == ':')
			return true;
		at += c.width;
	}
	return false;
}

static bool is_get(struct kh_slice value)
{
	char text[PARAMETER_BYTES];
	return kh_slice_eq_nocase(kh_slice_trim(decode(value, text)), KH_SLICE("get"));
}

/* Does such a parameter name something, with this value? */
static bool is_named_by(enum kh_override_kind kind, struct kh_slice value)
{
	if (kind == KH_OVERRIDE_METHOD_WORD)
		return is_method(value);
	if (kind == KH_OVERRIDE_PATH_WORD || kind == KH_OVERRIDE_UNREADABLE_WORD)
		return is_absolute(value);
	if (kind == KH_OVERRIDE_UNREADABLE_MANIFEST)
		return !is_get(value);
	return kind != KH_OVERRIDE_NONE && (kind != KH_OVERRIDE_BLOB || is_digest(value));
}

/* It may be any path, and where it has a query or a host of its own, any of these as well: nobody
 * knows how often the server decodes it. */
static void read_path_parameter(struct kh_overrides *out, struct kh_slice value)
{
	unsigned char first = 0, before = 0;
	bool has_query = false;
	for (size_t at = 0; at < value.len;) {
		struct kh_character c = kh_spelling_at(value, at, KH_PLUS_IS_BLANK);
		first = first ? first : c.byte;
		has_query = has_query || c.byte == '?';
		if (c.byte == '/' && before == '/' && first != '/')
			out->any_host = true;
		before = c.byte;
		at += c.width;
	}
	out->path = true;
	if (has_query || out->n_queries == KH_OVERRIDING_QUERIES)
		out->any_query = true;
	else
		out->queries[out->n_queries++] = kh_slice_of(NULL, 0);
	if (has_query)
		add_method(out, KH_SLICE(KH_OVERRIDING_ANY));
}

/* Of several the first is kept, for people. */
static void take_hosts(struct kh_overrides *out, struct kh_slice name, struct kh_slice value)
{
	if (out->host_field.len == 0)
		out->host_field = name;
	add_hosts(out, value);
}

/* Where a ';' parts parameters for some servers and not for others, no source can be read. */
static void take_parameter_source(struct kh_overrides *out, enum kh_override_kind kind,
				  struct kh_slice query, struct kh_slice name,
				  struct kh_slice value)
{
	if (kh_slice_find(query, ';', 0) < query.len)
		kind = KH_OVERRIDE_UNREADABLE;
	kh_copy_source_note(out, kind, name, value);
	out->source_in_query = true;
}

static void take_parameter(struct kh_overrides *out, struct kh_slice query, struct kh_slice name,
			   struct kh_slice value)
{
	char text[PARAMETER_BYTES];
	enum kh_override_kind kind = kh_override_of_parameter(name);
	if (!is_named_by(kind, value))
		return;
	if (kind == KH_OVERRIDE_METHOD || kind == KH_OVERRIDE_METHOD_WORD) {
		add_method(out, decode(value, text));
	} else if (kind == KH_OVERRIDE_HOST) {
		take_hosts(out, name, value);
	} else if (kind == KH_OVERRIDE_ANYTHING) {
		add_method(out, KH_SLICE(KH_OVERRIDING_ANY));
		out->path = out->any_host = out->any_query = out->any_field = true;
	} else if (kind == KH_OVERRIDE_REPOSITORY) {
		kh_copy_source_note_repository(out, name, value);
	} else if (is_source(kind)) {
		take_parameter_source(out, kind, query, name, value);
	} else {
		read_path_parameter(out, value);
		if (kind == KH_OVERRIDE_MOVED)
			add_method(out, KH_SLICE("DELETE"));
	}
}

void kh_overrides_read_query(struct kh_overrides *out, struct kh_slice query)
{
	struct kh_slice rest = query, name, value;
	while (kh_query_next(&rest, &name, &value)) {
		out->parameters++;
		take_parameter(out, query, name, value);
	}
}

/* ---- paths ---- */

/* Where the query of a path or URL begins; `path.len` where there is none. *doubtful: a '?' is
 * escaped in front of it. */
static size_t find_query(struct kh_slice path, bool *doubtful)
{
	*doubtful = false;
	size_t at = 0;
	while (at < path.len && path.ptr[at] != '?') {
		struct kh_character c = kh_spelling_at(path, at, KH_PLUS_IS_PLUS);
		*doubtful = *doubtful || c.byte == '?';
		at += c.width;
	}
	return at;
}

static void add_query(struct kh_overrides *out, struct kh_slice path)
{
	bool doubtful;
	size_t mark = find_query(path, &doubtful);
	struct kh_slice query = kh_slice_of(NULL, 0);
	if (mark < path.len)
		query = kh_slice_sub(path, mark + 1, path.len);
	if (doubtful || out->n_queries == KH_OVERRIDING_QUERIES)
		out->any_query = true;
	else
		out->queries[out->n_queries++] = query;
	kh_overrides_read_query(out, query);
	/* It may hold any parameter, one that names a method too. */
	if (doubtful)
		add_method(out, KH_SLICE(KH_OVERRIDING_ANY));
}

/* A path, which may be any, or a URL with a host in it. */
static void read_path(struct kh_overrides *out, struct kh_slice value)
{
	out->path = true;
	value = kh_slice_trim(value);
	add_query(out, value);
	size_t slashes = 0;
	if (value.len > 0 && value.ptr[0] != '/')
		slashes = kh_slice_find(value, '/', 0);
	if (slashes >= value.len || slashes + 1 >= value.len || value.ptr[slashes + 1] != '/')
		return;
	size_t end = slashes + 2;
	while (end < value.len && !strchr("/?#\\", value.ptr[end]))
		end++;
	add_host(out, kh_slice_sub(value, slashes + 2, end));
}

static void take_field(struct kh_overrides *out, const struct kh_field *field)
{
	enum kh_override_kind kind = kh_override_of_field(field->name);
	if (kind == KH_OVERRIDE_NONE)
		return;
	if (kind == KH_OVERRIDE_METHOD)
		add_method(out, field->value);
	else if (kind == KH_OVERRIDE_HOST)
		take_hosts(out, field->name, field->value);
	else if (kind == KH_OVERRIDE_FORWARDED)
		read_forwarded(out, field->value);
	else if (is_source(kind))
		kh_copy_source_note(out, kind, field->name, kh_slice_trim(field->value));
	else
		read_path(out, field->value);
	/* What is moved goes away, so it is as if it were deleted too. */
	if (kind == KH_OVERRIDE_MOVED)
		add_method(out, KH_SLICE("DELETE"));
}

void kh_overrides_read(struct kh_overrides *out, const struct kh_message *message,
		       struct kh_slice query)
{
	out->n_methods = out->n_hosts = out->n_queries = 0;
	out->host_field = KH_SLICE("");
	out->path = out->any_host = out->any_query = out->any_field = false;
	out->source = KH_COPY_NONE;
	out->source_in_query = false;
	out->repositories = 0;
	out->parameters = 0;
	out->source_len = 0;
	for (size_t i = 0; i < message->n_fields; i++)
		take_field(out, &message->fields[i]);
	kh_overrides_read_query(out, query);
}
