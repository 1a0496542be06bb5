/*
 * override.c - what a request asks a server to take it for: another method, another host or path
 *
 * Frameworks let clients that can only GET and POST say what they mean in a field or a parameter.
 * Servers behind a proxy take the host and the path that the client asked for from a field. To a
 * rule that looks at methods, hosts or paths that is a second request in the first one's clothes,
 * so it is found in any spelling that one of them takes (spelling.h). A form's `_method` stands in
 * the content, which nobody reads here.
 */
#include <keyhole/http/message.h>
#include <keyhole/policy/policy.h>
#include <keyhole/base/spelling.h>
#include <keyhole/http/target.h>

#include <string.h>

#include "message_internal.h"

static const struct kh_slice method_fields[] = {
	KH_SLICE_INIT("x-http-method-override"), KH_SLICE_INIT("x-http-method"),
	KH_SLICE_INIT("x-method-override"),	 KH_SLICE_INIT("x-http-methodoverride"),
	KH_SLICE_INIT("http-method-override"),	 KH_SLICE_INIT("x-method"),
	KH_SLICE_INIT("x-original-method"),	 KH_SLICE_INIT("x-forwarded-method"),
};

static const struct kh_slice path_fields[] = {
	KH_SLICE_INIT("x-original-url"),	KH_SLICE_INIT("x-rewrite-url"),
	KH_SLICE_INIT("x-override-url"),	KH_SLICE_INIT("x-ms-original-url"),
	KH_SLICE_INIT("x-envoy-original-path"), KH_SLICE_INIT("x-original-uri"),
	KH_SLICE_INIT("x-original-path"),	KH_SLICE_INIT("x-forwarded-uri"),
	KH_SLICE_INIT("x-forwarded-path"),	KH_SLICE_INIT("x-forwarded-prefix"),
	KH_SLICE_INIT("x-waws-unencoded-url"),	KH_SLICE_INIT("x-unencoded-url"),
	KH_SLICE_INIT("x-rewrite-uri"),		KH_SLICE_INIT("x-proxy-url"),
	KH_SLICE_INIT("x-forwarded-url"),	KH_SLICE_INIT("destination"), /* RFC 4918 §10.3 */
};

static const struct kh_slice host_fields[] = {
	KH_SLICE_INIT("x-forwarded-host"),	KH_SLICE_INIT("x-host"),
	KH_SLICE_INIT("x-original-host"),	KH_SLICE_INIT("x-forwarded-server"),
	KH_SLICE_INIT("x-http-host-override"),	KH_SLICE_INIT("x-host-override"),
	KH_SLICE_INIT("x-envoy-original-host"), KH_SLICE_INIT("x-forwarded-authority"),
	KH_SLICE_INIT("x-backend-host"),	KH_SLICE_INIT("x-rewrite-host"),
	KH_SLICE_INIT("x-real-host"),
};

static const struct kh_slice forwarded = KH_SLICE_INIT("forwarded"); /* RFC 7239 */

/* Parameters that name a method: Rails, Laravel and Symfony; Google's APIs; Salesforce; and what
 * some take as a parameter as well as as a field. */
static const struct kh_slice method_parameters[] = {
	KH_SLICE_INIT("_method"),	KH_SLICE_INIT("$httpMethod"),
	KH_SLICE_INIT("_HttpMethod"),	KH_SLICE_INIT("X-HTTP-Method-Override"),
	KH_SLICE_INIT("X-HTTP-Method"), KH_SLICE_INIT("X-Method-Override"),
};
/* One that does so where its value is a method; in most APIs it means something else. */
static const struct kh_slice method_word = KH_SLICE_INIT("method");
static const struct kh_slice method_values[] = {
	KH_SLICE_INIT("GET"),	KH_SLICE_INIT("HEAD"),	  KH_SLICE_INIT("POST"),
	KH_SLICE_INIT("PUT"),	KH_SLICE_INIT("PATCH"),	  KH_SLICE_INIT("DELETE"),
	KH_SLICE_INIT("TRACE"), KH_SLICE_INIT("OPTIONS"), KH_SLICE_INIT("PURGE"),
};
/* Parameters that stand for whole fields, or for the content (Google's APIs): what they say may be
 * anything. */
static const struct kh_slice any_parameters[] = {
	KH_SLICE_INIT("$httpHeaders"),
	KH_SLICE_INIT("$req"),
	KH_SLICE_INIT("$ct"),
};

static bool is_one_of(struct kh_slice name, const struct kh_slice *list, size_t n,
		      bool is_same(struct kh_slice, struct kh_slice))
{
	for (size_t i = 0; i < n; i++)
		if (is_same(name, list[i]))
			return true;
	return false;
}
#define COUNT(list) (sizeof(list) / sizeof(*(list)))
#define IS_FIELD(name, list) is_one_of(name, list, COUNT(list), kh_spelling_is_field)
#define IS_PARAMETER(name, list) is_one_of(name, list, COUNT(list), kh_spelling_is_parameter)

bool kh_override_is_field(struct kh_slice name)
{
	return IS_FIELD(name, method_fields) || IS_FIELD(name, path_fields) ||
	       IS_FIELD(name, host_fields) || kh_spelling_is_field(name, forwarded) ||
	       is_source(name);
}

bool kh_override_has_path(const struct kh_field *field, struct kh_slice *query)
{
	if (!IS_FIELD(field->name, path_fields) && !is_source(field->name))
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
		if (kh_slice_eq_nocase(name, KH_SLICE("host")))
			add_host(out, kh_slice_sub(pair, equals + 1, pair.len));
		at = end + 1;
	}
}

/* ---- the query ---- */

enum { PARAMETER_BYTES = KH_OVERRIDING_BYTES + 2 };

static struct kh_slice decode(struct kh_slice value, char out[PARAMETER_BYTES])
{
	size_t len = 0;
	for (size_t at = 0; at < value.len && len < PARAMETER_BYTES;) {
		struct kh_character c = kh_spelling_at(value, at, KH_PLUS_IS_BLANK);
		out[len++] = (char)c.byte;
		at += c.width;
	}
	return kh_slice_of(out, len);
}

static void read_parameter(struct kh_overrides *out, struct kh_slice value)
{
	char text[PARAMETER_BYTES];
	add_method(out, decode(value, text));
}

static bool is_method(struct kh_slice value)
{
	char text[PARAMETER_BYTES];
	struct kh_slice word = kh_slice_trim(decode(value, text));
	word = kh_slice_sub(word, 0, kh_slice_find(word, '\0', 0));
	return is_one_of(word, method_values, COUNT(method_values), kh_slice_eq_nocase);
}

/* No parameter of ours begins otherwise; most queries end here. */
static bool may_name(struct kh_slice name)
{
	return name.len > 0 && (kh_lower(name.ptr[0]) == 'm' || kh_lower(name.ptr[0]) == 'x' ||
				(!kh_is_alpha(name.ptr[0]) && !kh_is_digit(name.ptr[0])));
}

static void read_query(struct kh_overrides *out, struct kh_slice query)
{
	struct kh_slice rest = query, name, value;
	while (kh_query_next(&rest, &name, &value)) {
		if (!may_name(name))
			continue;
		if (IS_PARAMETER(name, method_parameters) ||
		    (kh_spelling_is_parameter(name, method_word) && is_method(value))) {
			read_parameter(out, value);
		} else if (IS_PARAMETER(name, any_parameters)) {
			add_method(out, KH_SLICE(KH_OVERRIDING_ANY));
			out->path = out->any_host = out->any_query = out->any_field = true;
		}
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
	read_query(out, query);
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

/* Of several the first is kept, for people. */
static void take_field(struct kh_overrides *out, const struct kh_field *field)
{
	if (out->host_field.len == 0)
		out->host_field = field->name;
	add_hosts(out, field->value);
}

/* A copy's source, or what is moved: that goes away, so it is as if it were deleted too. */
static void take_source(struct kh_overrides *out, const struct kh_field *field)
{
	if (kh_copy_source_note(out, field) != KH_SOURCE_MOVES)
		return;
	read_path(out, field->value);
	add_method(out, KH_SLICE("DELETE"));
}

void kh_overrides_read(struct kh_overrides *out, const struct kh_message *message,
		       struct kh_slice query)
{
	out->n_methods = out->n_hosts = out->n_queries = 0;
	out->host_field = KH_SLICE("");
	out->path = out->any_host = out->any_query = out->any_field = false;
	out->source = KH_COPY_NONE;
	out->source_len = 0;
	for (size_t i = 0; i < message->n_fields; i++) {
		const struct kh_field *field = &message->fields[i];
		char first = field->name.len > 5 ? kh_lower(field->name.ptr[0]) : '\0';
		/* Few fields begin like one of them. */
		if (first != 'x' && first != 'h' && first != 'f' && first != 'd')
			continue;
		if (IS_FIELD(field->name, method_fields))
			add_method(out, field->value);
		else if (IS_FIELD(field->name, path_fields))
			read_path(out, field->value);
		else if (IS_FIELD(field->name, host_fields))
			take_field(out, field);
		else if (kh_spelling_is_field(field->name, forwarded))
			read_forwarded(out, field->value);
		else if (first == 'x')
			take_source(out, field);
	}
	if (query.len > 0)
		read_query(out, query);
}
