/* test_spelling.c - one verdict for every spelling in every place that compares names */
#include "config_text.h"

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/credential/body.h>
#include <keyhole/credential/credential.h>
#include <keyhole/http/message.h>
#include <keyhole/llm/model.h>
#include <keyhole/exchange/dry_run.h>
#include <keyhole/base/spelling.h>
#include <keyhole/http/ws.h>

#include "credential/body_internal.h"
#include "http/message_internal.h"

enum { BYTES = 1024 };

/* ---- parameters: "%s" is the name's rest, the first letter is spelled ---- */

static void repeat(char *out, const char *text, size_t n, const char *name)
{
	size_t len = 0;
	while (n-- > 0)
		len += (size_t)snprintf(out + len, BYTES - 1 - len, "%s", text);
	(void)snprintf(out + len, BYTES - 1 - len, "%s", name);
}

/* What servers take off in front of a name, more of it than any buffer has room for. */
static const struct {
	const char *text;
	size_t n;
} fronts[] = {
	{ "[", 1 },	   { "[", 2 },	       { "[", 60 },	    { "[", 400 },
	{ "]", 400 },	   { "!", 400 },       { "!+", 200 },	    { "[%20]", 150 },
	{ "?", 1 },	   { "?", 400 },       { "%3F%5B", 90 },    { "%5B", 1 },
	{ "%5B", 200 },	   { "%255b", 150 },   { "%25255B", 100 },  { "]%09!", 100 },
	{ "%C1%9B", 120 }, { "[%C2%A0", 120 }, { "%EF%BC%BB", 90 },
};
enum { PLAIN = 23, FRONTS = 3 * sizeof(fronts) / sizeof(fronts[0]) };

static void spell_front(char *out, unsigned how, const char *name)
{
	static const char *const ends[] = { "", "]", "+++++++++[0]" };
	char whole[128];
	if (how < PLAIN + FRONTS) {
		size_t i = (how - PLAIN) / 3;
		(void)snprintf(whole, sizeof(whole), "%s%s", name, ends[(how - PLAIN) % 3]);
		repeat(out, fronts[i].text, fronts[i].n, whole);
		return;
	}
	switch (how - PLAIN - FRONTS) { /* other names */
	case 0:
		(void)snprintf(out, BYTES, "%ss", name);
		return;
	case 1:
		(void)snprintf(out, BYTES, "y%s", name);
		return;
	case 2:
		repeat(out, "+", 400, "xyz");
		return;
	case 3:
		(void)snprintf(whole, sizeof(whole), "z%s", name);
		repeat(out, "[", 400, whole);
		return;
	case 4:
		(void)snprintf(out, BYTES, "%s%070dx", name, 0);
		for (char *at = out; *at; at++)
			*at = *at == '0' ? '+' : *at;
		return;
	default:
		repeat(out, "x", 400, name);
	}
}

static void spell(char *out, unsigned how, const char *name)
{
	char hex[64];
	char c = name[0];
	unsigned full = (unsigned)(c - '!') + 0x81; /* U+FF01 + … : EF BC 81 … EF BD … */
	unsigned third = full & 0xbf, second = full < 0xc0 ? 0xbc : 0xbd;
	switch (how) {
	case 0:
		(void)snprintf(out, BYTES, "%%%02x%s", (unsigned)c, name + 1);
		return;
	case 1:
		(void)snprintf(out, BYTES, "%%25%02x%s", (unsigned)c, name + 1);
		return;
	case 2:
		(void)snprintf(out, BYTES, "%%2525%02X%s", (unsigned)c, name + 1);
		return;
	case 3:
		(void)snprintf(out, BYTES, "%%C1%%%02X%s", (unsigned)(c & 0x3f) | 0x80, name + 1);
		return;
	case 4:
		(void)snprintf(out, BYTES, "%%EF%%%02X%%%02X%s", second, third, name + 1);
		return;
	case 5:
		(void)snprintf(out, BYTES, "%%20%s", name);
		return;
	case 6:
		(void)snprintf(out, BYTES, "%s%%00x", name);
		return;
	case 7:
		(void)snprintf(out, BYTES, "%s[0]", name);
		return;
	case 8:
		(void)snprintf(out, BYTES, "%s%%5B%%5D", name);
		return;
	case 9:
		(void)snprintf(out, BYTES, "%s+", name);
		return;
	case 10:
		(void)snprintf(out, BYTES, "+%s", name);
		return;
	case 11: /* and in the other case */
		(void)snprintf(out, BYTES, "%s", name);
		for (char *at = out; *at; at++)
			*at = (char)(*at >= 'a' && *at <= 'z' ? *at - 32 : *at);
		return;
	case 12: /* what PHP makes an underscore of */
		(void)snprintf(out, BYTES, "%s", name);
		for (char *at = out; *at; at++)
			*at = *at == '_' ? '.' : *at;
		return;
	case 13: /* and that of what no ']' closes */
		(void)snprintf(out, BYTES, "%s", name);
		for (char *at = out; *at; at++)
			*at = *at == '_' ? '[' : *at;
		return;
	case 14:
		(void)snprintf(out, BYTES, "%.*s%%5B%s", (int)strcspn(name, "_"), name,
			       strchr(name, '_') + 1);
		return;
	case 15: /* many blanks in front of it */
		repeat(out, "+", 400, name);
		return;
	case 16:
		repeat(out, "%20", 100, name);
		return;
	case 17:
		repeat(out, "%2520", 150, name);
		return;
	case 18:
		repeat(out, "%09+", 150, name);
		return;
	case 19:
		repeat(out, "%E3%80%80", 100, name);
		return;
	case 20:
		repeat(out, "%C2%A0", 150, name);
		return;
	case 21: /* escapes of escapes */
		(void)snprintf(hex, sizeof(hex), "%02x%s", (unsigned)c, name + 1);
		out[0] = '%';
		repeat(out + 1, "25", 300, hex);
		return;
	case 22:
		(void)snprintf(hex, sizeof(hex), "%02x%s", (unsigned)c, name + 1);
		out[0] = '%';
		repeat(out + 1, "2%35", 150, hex);
		return;
	default:
		spell_front(out, how, name);
	}
}

enum { SPELLINGS = PLAIN + FRONTS, OTHERS = 6 };

static bool is_carrier(const char *how)
{
	return kh_carrier_is_query(kh_slice_str(how));
}

static bool is_named(const char *how)
{
	return kh_carrier_is_named(kh_slice_str(how), KH_SLICE("access_token"));
}

static bool overrides(const char *how)
{
	struct kh_message message = { .n_fields = 0 };
	struct kh_overrides out;
	char query[BYTES + 16];
	(void)snprintf(query, sizeof(query), "a=1&%s=DELETE", how);
	kh_overrides_read(&out, &message, kh_slice_str(query));
	return out.n_methods > 0;
}

/* In the query of a path that a field names. */
static struct kh_field path_field(const char *how, const char *value, char out[2 * BYTES])
{
	(void)snprintf(out, 2 * BYTES, "/x?a=1&%s=%s", how, value);
	return (struct kh_field){ KH_SLICE("X-Original-URL"), kh_slice_str(out) };
}

static bool overrides_elsewhere(const char *how)
{
	struct kh_message message = { .n_fields = 1 };
	struct kh_overrides out;
	char value[2 * BYTES];
	message.fields[0] = path_field(how, "DELETE", value);
	kh_overrides_read(&out, &message, kh_slice_of(NULL, 0));
	return out.n_methods > 0;
}

static bool is_carrier_elsewhere(const char *how)
{
	char value[2 * BYTES];
	struct kh_field field = path_field(how, "mine", value);
	return kh_carrier_is_in_path_field(&field);
}

/* Fed in pieces of so many bytes. */
static bool in_pieces(const char *how, size_t piece)
{
	struct kh_form_carriers form = { .in_value = false };
	char text[BYTES + 16];
	int len = snprintf(text, sizeof(text), "a=1&%s=x", how);
	bool found = false;
	for (size_t at = 0; at < (size_t)len; at += piece)
		found = kh_form_carries(&form, kh_slice_sub(kh_slice_str(text), at, at + piece));
	return found;
}

static bool in_form(const char *how)
{
	bool found = in_pieces(how, 2 * BYTES);
	static const size_t sizes[] = { 1, 2, 3, 5, 7, 128, 256, 257 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (in_pieces(how, sizes[i]) != found)
			fail_msg("\"%s\" reads differently in pieces of %zu", how, sizes[i]);
	return found;
}

/* A member beside the credential's own place, which some server may take for that. */
static bool in_body(const char *how)
{
	struct kh_body_form form;
	const char *why = NULL;
	kh_body_form_init(&form, "access_token");
	for (; *how; how++)
		if (kh_body_form_byte(&form, (unsigned char)*how, &why) == KH_BODY_FAULT)
			return true;
	return kh_body_form_byte(&form, '=', &why) == KH_BODY_FAULT;
}

/* The same beside a credential that goes into another member. */
static bool in_form_with_another(const char *how)
{
	struct kh_form_carriers form = { .own = KH_SLICE("api_key") };
	return !kh_form_carries(&form, KH_SLICE("api_key=1&")) &&
	       (kh_form_carries(&form, kh_slice_str(how)) || kh_form_carries(&form, KH_SLICE("&")));
}

static bool asks_both(const char *rules, const char *how, bool elsewhere, bool allowed_is)
{
	static struct kh_dry_run question;
	struct kh_decision decision;
	char yaml[1024], url[BYTES + 64], value[2 * BYTES];
	struct kh_field field = path_field(how, "no&access_token=ok", value);
	(void)snprintf(yaml, sizeof(yaml), "version: 1\ntenants: { a: { rules: [ %s ] } }\n",
		       rules);
	struct fixture f = policy_of(yaml);
	(void)snprintf(url, sizeof(url), "https://h.example/?access_token=ok&%s=no",
		       elsewhere ? "x" : how);
	kh_dry_run_init(&question);
	assert_true(!elsewhere || kh_dry_run_field(&question, field.name, field.value));
	decision.allow = false; /* a malformed escape is refused before any rule */
	if (kh_dry_run_ask(&question, KH_SLICE("GET"), kh_slice_str(url), NULL))
		kh_policy_decide(f.policy, 0, NULL, &question.view, &decision);
	kh_dry_run_fini(&question);
	fini(&f);
	return decision.allow == allowed_is;
}

static bool asks(const char *rules, const char *how, bool allowed_is)
{
	return asks_both(rules, how, false, allowed_is);
}

static const char denial[] = "{ deny: \"https://h.example\", query: { access_token: \"no\" } }, "
			     "{ allow: \"https://h.example\" }";

static bool is_denied(const char *how)
{
	return asks(denial, how, false);
}

static bool is_denied_elsewhere(const char *how)
{
	return asks_both(denial, how, true, false);
}

static bool breaks_an_allowance_elsewhere(const char *how)
{
	return asks_both("{ allow: \"https://h.example\", query: { access_token: ok } }", how, true,
			 false);
}

static bool breaks_an_allowance(const char *how)
{
	return asks("{ allow: \"https://h.example\", query: { access_token: ok } }", how, false);
}

static void every_place_gives_a_parameter_one_verdict(void **state)
{
	(void)state;
	static const struct {
		const char *what, *name;
		bool (*sees)(const char *how);
	} places[] = {
		{ "a carrier", "access_token", is_carrier },
		{ "a carrier of that name", "access_token", is_named },
		{ "a condition of a denial", "access_token", is_denied },
		{ "a condition of an allowance", "access_token", breaks_an_allowance },
		{ "a token in a form", "access_token", in_form },
		{ "another token in a form", "private_token", in_form },
		{ "a token beside a form's credential", "access_token", in_form_with_another },
		{ "a form's member", "access_token", in_body },
		{ "an override", "_method", overrides },
		{ "a service's override", "_HttpMethod", overrides },
		{ "a field's name as an override", "X_HTTP_Method_Override", overrides },
		{ "a carrier in a field's path", "access_token", is_carrier_elsewhere },
		{ "a denial's condition, in a field's path", "access_token", is_denied_elsewhere },
		{ "an allowance's condition, in a field's path", "access_token",
		  breaks_an_allowance_elsewhere },
		{ "an override in a field's path", "_method", overrides_elsewhere },
	};
	char how[BYTES];
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		for (unsigned n = 0; n < SPELLINGS + OTHERS; n++) {
			bool first_is_letter = places[i].name[0] != '_';
			if (n == 4 && !first_is_letter)
				continue;
			spell(how, n, places[i].name);
			bool due = n < SPELLINGS;
			if (places[i].sees(how) != due)
				fail_msg("%s: \"%s\" should be %d", places[i].what, how, due);
		}
}

/* ---- fields ---- */

static bool field_overrides(struct kh_slice name)
{
	static struct kh_message message;
	struct kh_overrides out;
	message.n_fields = 1;
	message.fields[0] = (struct kh_field){ name, KH_SLICE("DELETE") };
	kh_overrides_read(&out, &message, kh_slice_of(NULL, 0));
	return kh_overrides_any(&out);
}

static bool is_no_trailer(struct kh_slice name)
{
	return kh_message_is_no_trailer(name) && kh_message_is_listed_no_trailer(name);
}

static void every_place_gives_a_field_one_verdict(void **state)
{
	(void)state;
	static const struct {
		const char *what, *name;
		bool (*sees)(struct kh_slice name);
	} places[] = {
		{ "a carrier", "x-api-key", kh_carrier_is_field },
		{ "a method's override", "x-http-method-override", field_overrides },
		{ "a host's override", "x-forwarded-host", field_overrides },
		{ "a path's override", "x-original-url", field_overrides },
		{ "a copy's destination", "destination", field_overrides },
		{ "a trailer that frames", "content-length", is_no_trailer },
		{ "a trailer that overrides", "x-forwarded-host", is_no_trailer },
		{ "a trailer that describes", "content-type", is_no_trailer },
		{ "what a Connection option may not name", "content-type",
		  kh_message_is_end_to_end },
		{ "a handshake's field", "sec-websocket-key", kh_ws_is_handshake_field },
	};
	static const char separators[] = "-_.~";
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		for (unsigned n = 0; n < 2 * sizeof(separators); n++) {
			char how[BYTES];
			(void)snprintf(how, sizeof(how), "%s", places[i].name);
			for (char *at = how; *at; at++) {
				char separator = separators[n / 2 % (sizeof(separators) - 1)];
				if (*at == '-')
					*at = separator;
				else if (n % 2)
					*at = (char)(*at - 32);
			}
			if (!places[i].sees(kh_slice_str(how)))
				fail_msg("%s: \"%s\" is not seen", places[i].what, how);
			(void)snprintf(how, sizeof(how), "%sx", places[i].name);
			if (places[i].sees(kh_slice_str(how)))
				fail_msg("%s: \"%s\" is seen", places[i].what, how);
		}
	static const char *const framing[] = { "content_length", "Content.Length",
					       "transfer_encoding", "TRANSFER_ENCODING" };
	for (size_t i = 0; i < sizeof(framing) / sizeof(framing[0]); i++)
		assert_true(kh_message_is_disguised_framing(kh_slice_str(framing[i])));
	assert_false(kh_message_is_disguised_framing(KH_SLICE("Content-Length")));
}

/* ---- members of JSON ---- */

static void a_member_in_another_spelling_is_refused(void **state)
{
	(void)state;
	static const char *const spellings[] = { "model\\u0000",     "model\\u0000x", "MODEL",
						 "mod\\u0065l",	     " model",	      "model\\t",
						 "\357\275\215odel", "\\uff4dodel",   "model[0]" };
	static const char *const others[] = { "modest", "xmodel", "mode", "", "mo del" };
	struct kh_model model;
	const char *why;
	char text[BYTES];
	for (size_t i = 0; i < sizeof(spellings) / sizeof(spellings[0]); i++) {
		(void)snprintf(text, sizeof(text), "{\"model\":\"a\",\"%s\":\"b\"}", spellings[i]);
		if (kh_model_in_json(kh_slice_str(text), &model, &why) != KH_MODEL_UNREAD)
			fail_msg("%s", text);
		(void)snprintf(text, sizeof(text), "{\"%s\":\"b\"}", spellings[i]);
		assert_int_equal(kh_model_in_json(kh_slice_str(text), &model, &why),
				 KH_MODEL_UNREAD);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		(void)snprintf(text, sizeof(text), "{\"model\":\"a\",\"%s\":\"b\"}", others[i]);
		assert_int_equal(kh_model_in_json(kh_slice_str(text), &model, &why),
				 KH_MODEL_NAMED);
	}
}

/* ---- bounds ---- */

static void many_escapes_are_read_in_bounded_time(void **state)
{
	(void)state;
	enum { LONG = 8 * 1024 };
	static char text[LONG + 1];
	for (size_t i = 0; i < LONG; i++)
		text[i] = "%25"[i % 3];
	size_t characters = 0;
	for (size_t at = 0; at < LONG; characters++)
		at += kh_spelling_at(kh_slice_of(text, LONG), at, KH_PLUS_IS_PLUS).width;
	assert_true(characters > 0 && characters <= LONG);
	memset(text, '%', LONG);
	for (size_t at = 0; at < LONG;)
		at += kh_spelling_at(kh_slice_of(text, LONG), at, KH_PLUS_IS_PLUS).width;
	assert_false(kh_carrier_is_query(kh_slice_of(text, LONG)));
}

static void most_names_in_a_form_need_no_look(void **state)
{
	(void)state;
	static const struct {
		const char *unit;
		size_t most; /* names in a MiB that are compared */
	} contents[] = {
		{ ";", 0 }, { "a&", 0 }, { "%61&", 0 }, { "+&", 0 }, { "value=access_token&", 0 }
	};
	static char text[1 << 20];
	for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
		struct kh_form_carriers form = { .in_value = false };
		size_t len = strlen(contents[i].unit), n = sizeof(text) / len * len;
		for (size_t at = 0; at < n; at += len)
			memcpy(text + at, contents[i].unit, len);
		assert_false(kh_form_carries(&form, kh_slice_of(text, n)));
		assert_int_equal(form.looked_at, contents[i].most);
	}
	struct kh_form_carriers form = { .in_value = false };
	assert_false(kh_form_carries(&form, KH_SLICE("{\"access_token\":1,")));
	assert_int_equal(form.name.len, 0); /* nothing of it is decoded */
	assert_false(kh_form_carries(&form, KH_SLICE("\"a\":1}&")));
	assert_int_equal(form.looked_at, 0);
	assert_false(kh_form_carries(&form, KH_SLICE("agent-name=x&")));
	assert_int_equal(form.looked_at, 1);
}

static void no_number_of_blanks_hides_a_name_in_a_form(void **state)
{
	/* In ASCII and U+3000; as they are, and escaped. */
	static const char *const blanks[] = {
		"+", " ", "%20", "%0a", "\xe3\x80\x80", "%E3%80%80", "%25E3%2580%80"
	};
	(void)state;
	for (size_t i = 0; i < sizeof(blanks) / sizeof(blanks[0]); i++)
		for (int in_front = 0; in_front < 2; in_front++) {
			struct kh_form_carriers form = { .in_value = false };
			bool found = !in_front && kh_form_carries(&form, KH_SLICE("access_token"));
			for (int n = 0; n < 5000; n++)
				found = kh_form_carries(&form, kh_slice_str(blanks[i])) || found;
			if (in_front)
				found = kh_form_carries(&form, KH_SLICE("access_token")) || found;
			assert_true(kh_form_carries(&form, KH_SLICE("=x")) || found);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_place_gives_a_parameter_one_verdict),
		cmocka_unit_test(every_place_gives_a_field_one_verdict),
		cmocka_unit_test(a_member_in_another_spelling_is_refused),
		cmocka_unit_test(many_escapes_are_read_in_bounded_time),
		cmocka_unit_test(most_names_in_a_form_need_no_look),
		cmocka_unit_test(no_number_of_blanks_hides_a_name_in_a_form),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
