/*
 * form_carriers.c - finds a token of the client's own in a form's content (RFC 6750 §2.2)
 *
 * A server that takes a token from the Authorization field also takes one from a form, and some
 * prefer that. Content is searched while it is forwarded, and only one decoded name is kept.
 */
#include <string.h>

#include <keyhole/credential/body.h>
#include <keyhole/policy/policy.h>
#include <keyhole/base/spelling.h>

static const struct kh_slice carriers[] = {
	KH_SLICE_INIT("access-token"),
	KH_SLICE_INIT("accesstoken"),
	KH_SLICE_INIT("oauth-token"),
	KH_SLICE_INIT("bearer-token"),
	/* From here on of single services. What has another meaning in forms is not among them:
	 * `token` is what is revoked or inspected (RFC 7009, 7662), and `client_secret` and
	 * `refresh_token` are what a token is asked for with. */
	KH_SLICE_INIT("private-token"),
	KH_SLICE_INIT("job-token"),
	KH_SLICE_INIT("api-key"),
	KH_SLICE_INIT("apikey"),
	KH_SLICE_INIT("api-token"),
	KH_SLICE_INIT("apitoken"),
	KH_SLICE_INIT("auth-token"),
	KH_SLICE_INIT("authtoken"),
	KH_SLICE_INIT("subscription-key"),
};

/* To some server: by a field or parameter that names the method, too. */
static bool is_post(const struct kh_message *message, struct kh_slice query)
{
	struct kh_overrides overrides;

	if (kh_slice_eq_nocase(message->method, KH_SLICE("POST")))
		return true;
	kh_overrides_read(&overrides, message, query);
	for (size_t i = 0; i < overrides.n_methods; i++)
		if (strcmp(overrides.methods[i], "POST") == 0 ||
		    strcmp(overrides.methods[i], KH_OVERRIDING_ANY) == 0)
			return true;
	return false;
}

bool kh_form_is_one(const struct kh_message *message, struct kh_slice query)
{
	static const struct kh_slice form = KH_SLICE_INIT("x-www-form-urlencoded");
	bool typed = false;

	for (size_t i = 0; i < message->n_fields; i++) {
		struct kh_slice value = message->fields[i].value;

		if (!kh_spelling_is_field(message->fields[i].name, KH_SLICE("content-type")))
			continue;
		/* Anywhere in it: in quotes, in a list, behind another. */
		if (kh_spelling_has_word(value, form))
			return true;
		value = kh_spelling_of_value(value, KH_VALUE_TO_PARAMETERS);
		typed = typed || (value.len > 0 && value.ptr[0] != ',');
	}
	/* To Rack and its like. */
	return !typed && is_post(message, query);
}

bool kh_form_is_encoded(const struct kh_message *message)
{
	for (size_t i = 0; i < message->n_fields; i++) {
		struct kh_slice value = kh_slice_trim(message->fields[i].value);

		if (kh_spelling_is_field(message->fields[i].name, KH_SLICE("content-encoding")) &&
		    value.len > 0 && !kh_slice_eq_nocase(value, KH_SLICE("identity")))
			return true;
	}
	return false;
}

enum { SHORTEST = 6 }; /* "apikey" */

/* Could a name that begins so be one of them? Most could not: JSON that is sent without a type. */
static bool may_begin(char first)
{
	if (kh_is_alpha(first))
		return strchr("abjops", kh_lower(first));
	return first == '%' || first == '+' || kh_spelling_is_front(first) ||
	       (unsigned char)first >= 0x80;
}

static void end_name(struct kh_form_carriers *form)
{
	const struct kh_form_name *name = &form->name;

	if (name->len >= SHORTEST && may_begin(name->text[0])) {
		bool ours = form->own.len > 0 && kh_form_name_is(name, form->own);

		for (size_t i = 0; i < sizeof(carriers) / sizeof(carriers[0]) && !ours; i++)
			form->found = form->found || kh_form_name_is(name, carriers[i]);
		form->looked_at++;
	}
	kh_form_name_begin(&form->name);
}

/* More of a name; `whole`: all of it. */
static void name_bytes(struct kh_form_carriers *form, struct kh_slice bytes, bool whole)
{
	if (bytes.len == 0 || (form->name.len == 0 && whole && bytes.len < SHORTEST))
		return;
	if (form->name.len == 0 && !may_begin(bytes.ptr[0]))
		form->name.full = true;
	for (size_t i = 0; i < bytes.len && !form->name.full; i++)
		kh_form_name_byte(&form->name, bytes.ptr[i]);
}

/* Where `c` stands next, from `at` on; *known is what was found last, which mostly still holds. */
static size_t next_of(struct kh_slice piece, char c, size_t at, size_t *known)
{
	if (*known < at || *known == SIZE_MAX) {
		const char *hit = memchr(piece.ptr + at, c, piece.len - at);
		*known = hit ? (size_t)(hit - piece.ptr) : piece.len;
	}
	return *known;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

bool kh_form_carries(struct kh_form_carriers *form, struct kh_slice piece)
{
	size_t ampersand = SIZE_MAX, semicolon = SIZE_MAX, equals = SIZE_MAX, at = 0;

	while (at < piece.len && !form->found) {
		size_t end = least(next_of(piece, '&', at, &ampersand),
				   next_of(piece, ';', at, &semicolon));
		size_t name_end =
			form->in_value ? at : least(end, next_of(piece, '=', at, &equals));

		name_bytes(form, kh_slice_sub(piece, at, name_end), name_end < piece.len);
		at = form->in_value ? end : name_end;
		if (at == piece.len)
			break;
		if (!form->in_value)
			end_name(form);
		form->in_value = piece.ptr[at] == '=';
		at++;
	}
	return form->found;
}
