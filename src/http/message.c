/* message.c - looks up and classifies the fields of a message head */
#include <keyhole/base/spelling.h>

#include "message_internal.h"

/* Each list is sorted by nothing: short, and asked rarely. */
#define NAME(text) \
	{ \
		text, sizeof(text) - 1 \
	}

/* RFC 9110 §7.6.1, and the length, which the sender sets itself. */
static const struct kh_slice hop_fields[] = {
	NAME("Connection"),
	NAME("Keep-Alive"),
	NAME("Proxy-Connection"),
	NAME("Proxy-Authenticate"),
	NAME("Proxy-Authentication-Info"),
	NAME("Proxy-Authorization"),
	NAME("TE"),
	NAME("Trailer"),
	NAME("Transfer-Encoding"),
	NAME("Upgrade"),
	NAME("HTTP2-Settings"), /* RFC 7540 §3.2.1 */
	NAME("Content-Length"),
};

static const struct kh_slice end_to_end_fields[] = {
	NAME("Accept"),
	NAME("Age"),
	NAME("Authorization"),
	NAME("Cache-Control"),
	NAME("Content-Encoding"),
	NAME("Content-Length"),
	NAME("Content-Range"),
	NAME("Content-Type"),
	NAME("Cookie"),
	NAME("Date"),
	NAME("Expect"),
	NAME("Forwarded"),
	NAME("Host"),
	NAME("Location"),
	NAME("Origin"),
	NAME("Proxy-Authenticate"),
	NAME("Proxy-Authorization"),
	NAME("Range"),
	NAME("Set-Cookie"),
	NAME("Transfer-Encoding"),
	NAME("Vary"),
	NAME("Via"),
	NAME("WWW-Authenticate"),
	NAME("X-Api-Key"),
	NAME("Api-Key"),
	NAME("X-Goog-Api-Key"),
};

static const struct kh_slice no_trailers[] = {
	/* framing and the connection */
	NAME("Connection"),
	NAME("Content-Length"),
	NAME("Keep-Alive"),
	NAME("Proxy-Connection"),
	NAME("TE"),
	NAME("Trailer"),
	NAME("Transfer-Encoding"),
	NAME("Upgrade"),
	/* routing */
	NAME("Forwarded"),
	NAME("Host"),
	NAME("Location"),
	NAME("Origin"),
	NAME("Via"),
	NAME("X-Forwarded-For"),
	NAME("X-Forwarded-Proto"),
	/* authentication; see also below */
	NAME("Authorization"),
	NAME("Cookie"),
	NAME("Proxy-Authenticate"),
	NAME("Set-Cookie"),
	NAME("WWW-Authenticate"),
	/* the form of the content */
	NAME("Content-Encoding"),
	NAME("Content-Range"),
	NAME("Content-Type"),
	/* controls and conditions */
	NAME("Age"),
	NAME("Cache-Control"),
	NAME("Expect"),
	NAME("Expires"),
	NAME("If-Match"),
	NAME("If-Modified-Since"),
	NAME("If-None-Match"),
	NAME("If-Range"),
	NAME("If-Unmodified-Since"),
	NAME("Max-Forwards"),
	NAME("Pragma"),
	NAME("Range"),
	NAME("Retry-After"),
	NAME("Vary"),
};

/* What a service calls its own key field, it ends like this: nobody sends such a thing in a trailer
 * but to get past whoever looks at the head. */
static const struct kh_slice no_trailer_endings[] = {
	NAME("-Auth"),	NAME("-Authorization"), NAME("-Key"),
	NAME("ApiKey"), NAME("-Secret"),	NAME("-Token"),
};

static bool is_one_of(struct kh_slice name, const struct kh_slice *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (kh_spelling_is_field(name, list[i]))
			return true;
	return false;
}
#define IS_ONE_OF(name, list) is_one_of(name, list, sizeof(list) / sizeof(*(list)))

bool kh_message_is_end_to_end(struct kh_slice name)
{
	return IS_ONE_OF(name, end_to_end_fields);
}

bool kh_message_is_listed_no_trailer(struct kh_slice name)
{
	return IS_ONE_OF(name, no_trailers) || kh_override_is_field(name);
}

bool kh_message_is_no_trailer(struct kh_slice name)
{
	for (size_t i = 0; i < sizeof(no_trailer_endings) / sizeof(*no_trailer_endings); i++) {
		size_t len = no_trailer_endings[i].len;

		if (name.len >= len &&
		    kh_spelling_is_field(kh_slice_sub(name, name.len - len, name.len),
					 no_trailer_endings[i]))
			return true;
	}
	return IS_ONE_OF(name, no_trailers) || kh_override_is_field(name);
}

bool kh_message_is_disguised_framing(struct kh_slice name)
{
	static const struct kh_slice framing[] = { NAME("Content-Length"),
						   NAME("Transfer-Encoding") };

	for (size_t i = 0; i < sizeof(framing) / sizeof(*framing); i++)
		if (kh_spelling_is_field(name, framing[i]) && !kh_slice_eq_nocase(name, framing[i]))
			return true;
	return false;
}

bool kh_list_next(struct kh_slice *rest, struct kh_slice *element)
{
	if (!rest->ptr)
		return false;
	size_t comma = kh_slice_find(*rest, ',', 0);
	*element = kh_slice_trim(kh_slice_sub(*rest, 0, comma));
	if (comma == rest->len)
		*rest = kh_slice_of(NULL, 0);
	else
		*rest = kh_slice_sub(*rest, comma + 1, rest->len);
	return true;
}

bool kh_list_has(struct kh_slice list, struct kh_slice token)
{
	struct kh_slice element;

	while (kh_list_next(&list, &element))
		if (kh_slice_eq_nocase(element, token))
			return true;
	return false;
}

const struct kh_field *kh_message_field(const struct kh_message *message, struct kh_slice name)
{
	for (size_t i = 0; i < message->n_fields; i++)
		if (message->fields[i].name.len == name.len &&
		    kh_slice_eq_nocase(message->fields[i].name, name))
			return &message->fields[i];
	return NULL;
}

uint32_t kh_message_kept_seconds(const struct kh_message *message)
{
	const struct kh_field *field = kh_message_field(message, KH_SLICE("Keep-Alive"));
	struct kh_slice rest = field ? field->value : kh_slice_of(NULL, 0), element;
	uint64_t seconds;

	while (kh_list_next(&rest, &element)) {
		size_t equals = kh_slice_find(element, '=', 0);
		struct kh_slice name = kh_slice_trim(kh_slice_sub(element, 0, equals));
		struct kh_slice value =
			kh_slice_trim(kh_slice_sub(element, equals + 1, element.len));

		if (kh_slice_eq_nocase(name, KH_SLICE("timeout")) &&
		    kh_slice_to_u64(value, &seconds) && seconds < UINT32_MAX)
			return (uint32_t)seconds;
	}
	return UINT32_MAX;
}

bool kh_message_is_hop_field(const struct kh_message *message, const struct kh_field *field)
{
	if (IS_ONE_OF(field->name, hop_fields))
		return true;
	for (size_t i = 0; i < message->n_fields; i++) {
		struct kh_slice options = message->fields[i].value, option;

		if (message->fields[i].name.len != sizeof("Connection") - 1 ||
		    !kh_slice_eq_nocase(message->fields[i].name, KH_SLICE("Connection")))
			continue;
		while (kh_list_next(&options, &option))
			if (option.len == field->name.len &&
			    kh_slice_eq_nocase(option, field->name))
				return true;
	}
	return false;
}

static void find_forwarded(struct kh_forwarded *out)
{
	_Static_assert(KH_LIMIT_FIELDS <= UINT8_MAX, "the index of a field fits into a byte");
	out->n = 0;
	for (size_t i = 0; i < out->message->n_fields; i++)
		if (!kh_message_is_hop_field(out->message, &out->message->fields[i]))
			out->fields[out->n++] = (uint8_t)i;
	out->known = true;
}

bool kh_message_next_forwarded(void *of, size_t *at, struct kh_slice *name, struct kh_slice *value)
{
	struct kh_forwarded *forwarded = of;

	if (!forwarded->known)
		find_forwarded(forwarded);
	if (*at >= forwarded->n)
		return false;
	const struct kh_field *field = &forwarded->message->fields[forwarded->fields[(*at)++]];
	*name = field->name;
	*value = field->value;
	return true;
}
