/* test_model.c - a model's name is read in one way, or not at all */
#include <stdlib.h>

#include "unit.h"

#include <stdio.h>
#include <keyhole/http/target.h>
#include <keyhole/llm/model.h>

static void names(const char *content, const char *name)
{
	struct kh_model model;
	const char *why;
	enum kh_model_state state = kh_model_in_json(kh_slice_str(content), &model, &why);
	if (state != (name ? KH_MODEL_NAMED : KH_MODEL_NONE) ||
	    strcmp(model.name, name ? name : "") != 0)
		fail_msg("%s: %d \"%s\" %s", content, state, model.name, why ? why : "");
}

static void is_refused(struct kh_slice content)
{
	struct kh_model model;
	const char *why;
	if (kh_model_in_json(content, &model, &why) != KH_MODEL_UNREAD || !why || model.len != 0)
		fail_msg("taken: %.*s", (int)content.len, content.ptr);
}

static void the_outermost_key_is_the_name(void **state)
{
	(void)state;
	names("{\"model\":\"a\"}", "a");
	names(" \t\r\n{ \"x\" : 1 , \"model\" : \"claude-haiku-4-5\" } \n", "claude-haiku-4-5");
	names("{\"x\":{\"model\":\"b\"},\"y\":[{\"model\":\"c\"}],\"model\":\"a\"}", "a");
	names("{\"model\":\"anthropic\\/claude\\u002d3\"}", "anthropic/claude-3");
	names("{\"model\":\"a\",\"x\":[[],{},[{}],\"\\\"model\\\":\\\"b\\\"\"]}", "a");
	names("{\"modes\":\"b\",\"mode\":\"c\",\"model\":\"a\",\"modell\":\"d\"}", "a");
}

static void without_the_key_there_is_none(void **state)
{
	(void)state;
	names("", NULL);
	names("{}", NULL);
	names("{\"x\":{\"model\":\"b\"}}", NULL);
	names("{\"x\":[1,-0,0.5,1e9,-1.25E-3,true,false,null,\"\\b\\f\\n\\r\\t\\\\\\\"\"]}", NULL);
}

static void what_is_not_json_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		" ",
		"{",
		"}",
		"[]",
		"\"model\"",
		"1",
		"null",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1,}",
		"{,}",
		"{\"a\":1 \"b\":2}",
		"{a:1}",
		"{'a':1}",
		"{\"a\":1}}",
		"{\"a\":1}x",
		"{\"a\":[1,]}",
		"{\"a\":[,1]}",
		"{\"a\":[1 2]}",
		"{\"a\":[1}",
		"{\"a\":{]}",
		"{\"a\":01}",
		"{\"a\":-}",
		"{\"a\":+1}",
		"{\"a\":.5}",
		"{\"a\":1.}",
		"{\"a\":1e}",
		"{\"a\":1e+}",
		"{\"a\":0x1}",
		"{\"a\":NaN}",
		"{\"a\":Infinity}",
		"{\"a\":tru}",
		"{\"a\":True}",
		"{\"a\":truefalse}",
		"{\"a\":\"\\x\"}",
		"{\"a\":\"\\u12\"}",
		"{\"a\":\"\\u12g4\"}",
		"{\"a\":\"\\ud800\"}",
		"{\"a\":\"\\udc00\"}",
		"{\"a\":\"\\ud800\\u0041\"}",
		"{\"a\":\"\\ud800x\"}",
		"{\"a\":\"\t\"}",
		"{\"a\":\"",
		"{\"a\":\"\\",
		"{\"a\":\"\\u",
		"{\"a\" 1}",
		"{\"a\":1}//",
		"/**/{}",
		"{\"a\":\"\xff\"}",
		"{\"a\":\"\xc0\xaf\"}",
		"{\"a\":\"\xed\xa0\x80\"}",
		"{\"a\":\"\xf4\x90\x80\x80\"}",
		"{\"a\":\"\xe2\x82\"}",
		"{\"a\":\"\xe0\x80\xaf\"}",
		"{\"a\":\"\x80\"}",
		"\xef\xbb\xbf{}",
		"{\"a\":1}\x0b",
		"\xc2\xa0{}",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_refused(kh_slice_str(bad[i]));
	is_refused(KH_SLICE("{\"a\":1}\0"));
	is_refused(KH_SLICE("{\"a\":\"\0\"}"));
}

static void what_another_reader_could_take_for_it_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"{\"model\":\"a\",\"model\":\"a\"}",
		"{\"model\":\"a\",\"x\":1,\"model\":\"b\"}",
		"{\"mod\\u0065l\":\"a\"}",
		"{\"\\u006D\\u006f\\u0064\\u0065\\u006c\":\"a\"}",
		"{\"model\":\"a\",\"mode\\u006c\":\"b\"}",
		"{\"Model\":\"a\"}",
		"{\"model\":\"a\",\"MODEL\":\"b\"}",
		"{\"model\":\"a\",\"\\u004dodel\":\"b\"}",
		"{\"model\":null}",
		"{\"model\":1}",
		"{\"model\":{}}",
		"{\"model\":[\"a\"]}",
		"{\"model\":\"\"}",
		"{\"model\":\"a b\"}",
		"{\"model\":\"a\\u0000\"}",
		"{\"model\":\"\\u00e9\"}",
		"{\"model\":\"a\\n\"}",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_refused(kh_slice_str(bad[i]));
}

static void every_beginning_of_a_text_is_refused(void **state)
{
	(void)state;
	struct kh_slice whole = KH_SLICE("{\"model\":\"a\",\"x\":[1.5e3,\"\\u00e9\xc3\xa9\",{\"y\":"
					 "null}]}");
	for (size_t len = 1; len < whole.len; len++)
		is_refused(kh_slice_sub(whole, 0, len));
	struct kh_model model;
	const char *why;
	assert_int_equal(kh_model_in_json(whole, &model, &why), KH_MODEL_NAMED);
}

static char *nested(size_t depth, size_t *len)
{
	static const char head[] = "{\"x\":", tail[] = ",\"model\":\"a\"}";
	size_t n = sizeof(head) - 1;
	char *text = malloc(2 * depth + sizeof(head) + sizeof(tail));
	memcpy(text, head, n);
	memset(text + n, '[', depth);
	memset(text + n + depth, ']', depth);
	memcpy(text + n + 2 * depth, tail, sizeof(tail) - 1);
	*len = n + 2 * depth + sizeof(tail) - 1;
	return text;
}

static void depth_and_length_are_bounded(void **state)
{
	(void)state;
	struct kh_model model;
	const char *why;
	size_t len;
	char *text = nested(KH_LIMIT_JSON_DEPTH - 1, &len);
	assert_int_equal(kh_model_in_json(kh_slice_of(text, len), &model, &why), KH_MODEL_NAMED);
	free(text);
	text = nested(KH_LIMIT_JSON_DEPTH, &len);
	is_refused(kh_slice_of(text, len));
	free(text);

	for (size_t n = KH_LIMIT_MODEL_BYTES; n <= KH_LIMIT_MODEL_BYTES + 1; n++) {
		static const char head[] = "{\"model\":\"";
		char name[KH_LIMIT_MODEL_BYTES + 32];
		memcpy(name, head, sizeof(head) - 1);
		memset(name + sizeof(head) - 1, 'm', n);
		memcpy(name + sizeof(head) - 1 + n, "\"}", 2);
		len = sizeof(head) - 1 + n + 2;
		if (n > KH_LIMIT_MODEL_BYTES)
			is_refused(kh_slice_of(name, len));
		else
			assert_int_equal(kh_model_in_json(kh_slice_of(name, len), &model, &why),
					 KH_MODEL_NAMED);
	}
}

static void paths_of_known_forms_name_it(void **state)
{
	(void)state;
	static const char *const forms[][2] = {
		{ "/v1beta/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro" },
		{ "/v1/models/gemini%3AstreamGenerateContent", "gemini" },
		{ "/v1beta/tunedModels/mine-1:generateContent", "mine-1" },
		{ "/v1/projects/p/locations/l/publishers/anthropic/models/claude@1:rawPredict",
		  "claude@1" },
		{ "/model/eu.anthropic.claude-v1%3A0/invoke", "eu.anthropic.claude-v1:0" },
		{ "/model/arn%3Aaws%3Abedrock%3A%3A1%3Ax%2Fy/converse-stream",
		  "arn:aws:bedrock::1:x/y" },
		{ "/openai/deployments/gpt-4o/chat/completions", "gpt-4o" },
		{ "/v1/publishers/google/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro" },
		{ "/v1/models/gpt-4o", NULL },
		{ "/v1/messages", NULL },
		{ "/v1/models/:generateContent", NULL },
		{ "/v1/models/a:", NULL },
		{ "/models/a:generateContent", NULL },
		{ "/x/v1/models/a:generateContent", NULL },
		{ "/v1/models/a:generateContent/x", NULL },
		{ "/model/a/other", NULL },
		{ "/model/a/invoke/x", NULL },
		{ "/model//invoke", NULL },
		{ "/model/a%20b/invoke", NULL },
		{ "/openai/deployments/a", NULL },
		{ "/", NULL },
		{ "", NULL },
	};
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct kh_model model;
		const char *why;
		enum kh_model_state got = kh_model_in_path(
			&(struct kh_path_readings){ .path = kh_slice_str(forms[i][0]) }, &model,
			&why);
		const char *due = forms[i][1] ? forms[i][1] : "";
		if (got != (forms[i][1] ? KH_MODEL_NAMED : KH_MODEL_UNREAD) ||
		    strcmp(model.name, due) != 0)
			fail_msg("%s: %d \"%s\"", forms[i][0], got, model.name);
	}
}

/* What the content says must not count where a server takes the path for it. */
static void a_path_that_is_nearly_of_a_known_form_says_nothing_and_nothing_may(void **state)
{
	(void)state;
	static const char *const nearly[] = {
		"//v1beta/models/a:generateContent",
		"/v1beta//models/a:generateContent",
		"/v1beta/models/a:generateContent/",
		"/v1beta/models/a:generateContent;x",
		"/v1beta/models;x/a:generateContent",
		"/v1beta/Models/a:generateContent",
		"/models/a:generateContent",
		"/gateway/v1beta/models/a:generateContent",
		"//model/a/invoke",
		"/model//a/invoke",
		"/MODEL/a/invoke",
		"/model/a;b/invoke",
		"/x/model/a/converse/",
		"//openai/deployments/a/chat/completions",
		"/openai//deployments/a/chat/completions",
		"/x/OpenAI/deployments/a/chat/completions",
		"/openai/deployments/a;b/chat/completions",
		"/v1beta/%256Dodels/a:generateContent",
		"/v1beta/models./a:generateContent",
		"/v1beta/models%20/a:generateContent",
		"/v1beta/models/a-p%2572o:generateContent",
		"/v1beta/models/a-%C1%B0ro:generateContent",
		"/v1beta/%EF%BD%8Dodels/a:generateContent",
		"/v1beta/models/%20/a:generateContent",
		"/v1beta/models/a%253Agenerate",
		"/model/a%2525/invoke",
		"/model/a/invoke%20",
		"/model/a/%2569nvoke",
		"/%256Dodel/a/invoke.",
		"/openai/%2564eployments/a/chat",
		"/openai./deployments/a/chat",
	};
	for (size_t i = 0; i < sizeof(nearly) / sizeof(nearly[0]); i++) {
		struct kh_model model;
		const char *why;
		if (kh_model_in_path(&(struct kh_path_readings){ .path = kh_slice_str(nearly[i]) },
				     &model, &why) != KH_MODEL_UNREAD ||
		    !why || model.len != 0)
			fail_msg("%s", nearly[i]);
	}
	static const char *const others[] = { "/v1/messages",
					      "/v1/models/gpt-4o",
					      "/v1/models",
					      "/v1/fine_tunes/models/x",
					      "/models/a:/x",
					      "/v1/chat/completions",
					      "/model/a/other",
					      "/model/a/invoke/x",
					      "/openai/v1/responses",
					      "/openai/deployments/a",
					      "////",
					      "/" };
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct kh_model model;
		const char *why;
		if (kh_model_in_path(&(struct kh_path_readings){ .path = kh_slice_str(others[i]) },
				     &model, &why) != KH_MODEL_UNREAD ||
		    why)
			fail_msg("%s: %s", others[i], why);
	}
}

static void two_readings_of_a_path_must_not_name_two_models(void **state)
{
	(void)state;
	static const struct {
		const char *path, *slashed, *name; /* NULL: unreadable */
	} cases[] = {
		{ "/v1%2Fmodels%2Fa:b", "/v1/models/a:b", NULL },
		{ "/v1%2Fmodels/a:b", "/v1/models/a:b", NULL },
		{ "/x%2Fv1/models/a:b", "/x/v1/models/a:b", NULL },
		{ "/model%2Fa/invoke", "/model/a/invoke", NULL },
		{ "/model/arn%2Fa/invoke", "/model/arn/a/invoke", "arn/a" },
		{ "/openai/deployments/a/x%2Fy", "/openai/deployments/a/x/y", "a" },
		{ "/openai/deployments/a%2Fb/x", "/openai/deployments/a/b/x", NULL },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_model model;
		const char *why;
		const struct kh_path_readings path = { .path = kh_slice_str(cases[i].path),
						       .slashed = kh_slice_str(cases[i].slashed) };
		enum kh_model_state got = kh_model_in_path(&path, &model, &why);
		if (got != (cases[i].name ? KH_MODEL_NAMED : KH_MODEL_UNREAD) ||
		    (why != NULL) != (cases[i].name == NULL) ||
		    strcmp(model.name, cases[i].name ? cases[i].name : "") != 0)
			fail_msg("%s: %d \"%s\" %s", cases[i].path, got, model.name, why);
	}
}

static void content_is_not_believed_where_the_path_may_name_a_model(void **state)
{
	(void)state;
	static const char *const may[] = {
		"/v1/projects/p/locations/l/endpoints/99:generateContent",
		"/v1/projects/p/locations/l/endpoints/99:predict",
		"/v1/projects/p/locations/l/endpoints/99/chat/completions",
		"/v1/projects/p/locations/l/endpoints/99%3ArawPredict",
		"/v1beta/dynamic/a:generateContent",
		"/async-invoke",
		"/Async-Invoke/",
		"/model-invocation-job",
		"/v1/engines/a/completions",
		"/v1/models/owner/a/predictions",
		"/v1/deployments/owner/a/predictions",
		"/v1/predictions",
		"/deployments/a/chat/completions",
		"/openai/deployments/a",
		"/models/gpt2",
		"/model/a/other",
		"/model/a/invoke/x",
		"/serving-endpoints/a/invocations",
		"/client/v4/accounts/1/ai/run/@cf/meta/a",
		"/v1/%65ngines/a/completions",
		"/v1/%2565ngines/a/completions",
		"/v1/Engines;x/a/completions",
		"//v1//engines//a",
	};
	static const char *const not [] = {
		"/v1/messages",
		"/v1/chat/completions",
		"/openai/v1/responses",
		"/v1/projects/p/locations/l/endpoints/openapi/chat/completions",
		"/v1/models",
		"/v1beta/openai/chat/completions",
		"/inference/v1/chat/completions",
		"/",
	};
	for (size_t i = 0; i < sizeof(may) / sizeof(may[0]); i++)
		for (size_t nth = 0; nth < 4; nth++) {
			struct kh_slice text = kh_slice_str(may[i]), x = KH_SLICE("/x");
			struct kh_path_cuts cuts = { .n = 1, .list = { { .path = text } } };
			const struct kh_path_readings path = {
				nth == 0 ? text : x,
				nth == 1 ? text : kh_slice_of(NULL, 0),
				nth == 2 ? text : kh_slice_of(NULL, 0),
				nth == 3 ? &cuts : NULL,
			};
			if (!kh_model_path_fault(&path))
				fail_msg("%s", may[i]);
		}
	for (size_t i = 0; i < sizeof(not ) / sizeof(not [0]); i++)
		if (kh_model_path_fault(
			    &(struct kh_path_readings){ .path = kh_slice_str(not [i]) }))
			fail_msg("%s", not [i]);
}

/* A server that decodes a path before it takes the query off ends it there. */
static void content_is_not_believed_where_a_cut_path_may_name_a_model(void **state)
{
	(void)state;
	static const char *const may[] = { "/v1/predictions%3Fx", "/async-invoke%23",
					   "/v1/engines/bad%3F/x", "/v1%2Fpredictions%253Fx",
					   "/v1/predictions%EF%BC%9F" };
	static const char *const not [] = { "/v1/chat/completions%3Fx", "/v1/x%23predictions" };
	for (size_t i = 0; i < sizeof(may) / sizeof(may[0]) + sizeof(not ) / sizeof(not [0]); i++) {
		bool due = i < sizeof(may) / sizeof(may[0]);
		const char *text = due ? may[i] : not [i - sizeof(may) / sizeof(may[0])];
		struct kh_target target;
		assert_true(kh_target_parse(&target, KH_SLICE("POST"), kh_slice_str(text), NULL));
		const struct kh_path_readings path = kh_target_readings(&target);
		if ((kh_model_path_fault(&path) != NULL) != due)
			fail_msg("%s", text);
		kh_target_fini(&target);
	}
}

static void a_member_by_which_another_service_names_it_is_refused(void **state)
{
	(void)state;
	is_refused(KH_SLICE("{\"modelId\":\"b\",\"model\":\"a\"}"));
	is_refused(KH_SLICE("{\"model\":\"a\",\"models\":[\"b\"]}"));
	is_refused(KH_SLICE("{\"Models\":[],\"model\":\"a\"}"));
	is_refused(KH_SLICE("{\"model\":\"a\",\"fallbacks\":[{\"model\":\"b\"}]}"));
	is_refused(KH_SLICE("{\"model\":\"a\",\"model_id\":\"b\"}"));
	is_refused(KH_SLICE("{\"model\":\"a\",\"MODELARN\":\"b\"}"));
	is_refused(KH_SLICE("{\"engine\":\"b\"}"));
	names("{\"x\":{\"modelId\":\"b\"},\"model\":\"a\"}", "a");
}

static void content_says_the_same_however_it_is_cut(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"{\"x\":[1.5e3,\"\\u00e9\xc3\xa9\",{\"y\":null}],\"model\":\"a\"}",
		"{\"model\":\"a\",\"mod\\u0065l\":\"b\"}",
		"{\"model\":\"a\"}}",
		"{\"x\":1}",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct kh_slice whole = kh_slice_str(texts[i]);
		struct kh_model due, model;
		const char *why;
		enum kh_model_state state_due = kh_model_in_json(whole, &due, &why);
		for (size_t cut = 0; cut <= whole.len; cut++) {
			struct kh_model_reader *reader = kh_model_reader_new();
			assert_non_null(reader);
			kh_model_reader_feed(reader, kh_slice_sub(whole, 0, cut));
			kh_model_reader_feed(reader, kh_slice_sub(whole, cut, whole.len));
			assert_int_equal(kh_model_reader_bytes(reader), whole.len);
			assert_int_equal(kh_model_reader_end(reader, &model, &why), state_due);
			assert_string_equal(model.name, due.name);
			kh_model_reader_free(reader);
		}
	}
}

static void a_path_that_is_cut_at_an_escaped_mark_must_name_no_other_model(void **state)
{
	(void)state;
	static const struct {
		const char *path, *name; /* NULL: unreadable */
	} cases[] = {
		{ "/v1/models/bad:go%3F:good:go", NULL }, { "/v1/models/a:go%3Fx", NULL },
		{ "/model/bad/invoke%3F/x", NULL },	  { "/model/a%3Fb/invoke", NULL },
		{ "/openai/deployments/a%23/x", NULL },	  { "/openai/deployments/a/x%3Fy", "a" },
		{ "/v1/models/bad:go%EF%BC%9F/x", NULL },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kh_target target;
		struct kh_model model;
		const char *why;
		assert_true(kh_target_parse(&target, KH_SLICE("POST"), kh_slice_str(cases[i].path),
					    NULL));
		const struct kh_path_readings path = kh_target_readings(&target);
		enum kh_model_state got = kh_model_in_path(&path, &model, &why);
		if ((got == KH_MODEL_NAMED) != (cases[i].name != NULL) ||
		    (why != NULL) != (cases[i].name == NULL))
			fail_msg("%s: %d \"%s\" %s", cases[i].path, got, model.name, why);
		kh_target_fini(&target);
	}
}

static void a_content_type_that_another_reader_reads_otherwise_says_nothing(void **state)
{
	(void)state;
	static const char *const good[] = { "application/json", "Application/JSON; Charset=UTF-8",
					    "application/json ; charset=\"utf-8\";",
					    "application/x+json; a=b; utf-8",
					    "application/json; profile=\"https://a.example/b c\"" };
	/* NOLINTBEGIN(bugprone-suspicious-missing-comma): a hexadecimal escape ends with its text
	 */
	static const char *const bad[] = { "application/json;\xa0"
					   "charset=utf-7",
					   "application/json;\xc2\xa0"
					   "charset=utf-7",
					   "application/json; charset*=utf-8''utf-7",
					   "application/json; charset*0=utf-7",
					   "application/json; \"charset\"=utf-7",
					   "application/json; a=b charset=utf-7",
					   "application/json; charset=utf-8; charset=utf-7",
					   "application/json; a=\"b\\\";charset=utf-7\"",
					   "application/json\xa0",
					   "\"application/json\"",
					   "application/json, text/plain",
					   "application/json a" };
	/* NOLINTEND(bugprone-suspicious-missing-comma) */
	static const char *const others[][2] = { { "Content_Type", "application/json" },
						 { "Content_Encoding", "gzip" },
						 { "content.encoding", "br" },
						 { "Content-Type", "application/json" } };
	struct kh_message *m = calloc(1, sizeof(*m));
	assert_non_null(m);
	m->n_fields = 1;
	m->fields[0].name = KH_SLICE("Content-Type");
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		m->fields[0].value = kh_slice_str(good[i]);
		if (kh_model_content_fault(m))
			fail_msg("%s", good[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		m->fields[0].value = kh_slice_str(bad[i]);
		if (!kh_model_content_fault(m))
			fail_msg("%s is taken", bad[i]);
	}
	m->fields[0].value = KH_SLICE("application/json");
	m->n_fields = 2;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		m->fields[1].name = kh_slice_str(others[i][0]);
		m->fields[1].value = kh_slice_str(others[i][1]);
		if (!kh_model_content_fault(m))
			fail_msg("%s is taken", others[i][0]);
	}
	m->n_fields = 1;
	m->fields[0].name = KH_SLICE("Content_Type");
	assert_non_null(kh_model_content_fault(m));
	free(m);
}

static void a_key_behind_any_number_of_blanks_is_seen(void **state)
{
	(void)state;
	enum { MOST = 2 * KH_LIMIT_MODEL_BYTES };
	for (int n = 1; n < MOST; n += 51) {
		char text[MOST + 64];
		struct kh_model model;
		const char *why;
		int len = snprintf(text, sizeof(text), "{\"%*smodel\":\"bad\",\"model\":\"good\"}",
				   n, "");
		if (kh_model_in_json(kh_slice_of(text, (size_t)len), &model, &why) !=
		    KH_MODEL_UNREAD)
			fail_msg("%d blanks: %s", n, model.name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_outermost_key_is_the_name),
		cmocka_unit_test(without_the_key_there_is_none),
		cmocka_unit_test(what_is_not_json_is_refused),
		cmocka_unit_test(what_another_reader_could_take_for_it_is_refused),
		cmocka_unit_test(every_beginning_of_a_text_is_refused),
		cmocka_unit_test(depth_and_length_are_bounded),
		cmocka_unit_test(paths_of_known_forms_name_it),
		cmocka_unit_test(
			a_path_that_is_nearly_of_a_known_form_says_nothing_and_nothing_may),
		cmocka_unit_test(two_readings_of_a_path_must_not_name_two_models),
		cmocka_unit_test(content_is_not_believed_where_the_path_may_name_a_model),
		cmocka_unit_test(content_is_not_believed_where_a_cut_path_may_name_a_model),
		cmocka_unit_test(content_says_the_same_however_it_is_cut),
		cmocka_unit_test(a_member_by_which_another_service_names_it_is_refused),
		cmocka_unit_test(a_content_type_that_another_reader_reads_otherwise_says_nothing),
		cmocka_unit_test(a_key_behind_any_number_of_blanks_is_seen),
		cmocka_unit_test(a_path_that_is_cut_at_an_escaped_mark_must_name_no_other_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
