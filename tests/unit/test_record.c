/* test_record.c - a record stays one line of JSON, short, and without a value that was sent */
#include "audit_helpers.h"

#include <limits.h>
#include <string.h>

#include <jansson.h>

static struct kh_authority authority = {
	.host = { .kind = KH_HOST_NAME, .len = 15, .text = "api.example.com" },
	.port = 443,
};

static void commit_open(struct kh_journal *journal, const char *id)
{
	struct kh_batch batch;

	kh_batch_init(&batch);
	put_open(&batch, id);
	committed(journal, &batch);
	kh_batch_fini(&batch);
}

/* The record as its line, through a journal; behind the `open` record of that id, if one is named.
 */
static json_t *line_behind(struct kh_batch *batch, char **text, const char *open_id)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	size_t len;
	char *bytes, *line;
	json_error_t error;
	json_t *object;

	if (open_id)
		commit_open(journal, open_id);
	assert_int_equal(batch->count, 1);
	committed(journal, batch);
	assert_verifies(fd);
	bytes = read_back(fd, &len);
	kh_journal_close(journal);
	close(fd);
	line = strchr(bytes, '\n') + 1;
	if (open_id)
		line = strchr(line, '\n') + 1;
	/* Exactly one line. */
	assert_ptr_equal(strchr(line, '\n'), bytes + len - 1);
	for (const char *c = line; c < bytes + len - 1; c++)
		assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
	object = json_loads(line, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
	if (!object)
		fail_msg("%s: %s", error.text, line);
	if (text)
		*text = strdup(line);
	free(bytes);
	return object;
}

static json_t *line_of(struct kh_batch *batch, char **text)
{
	return line_behind(batch, text, NULL);
}

static const char *text_at(json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static json_int_t number_at(json_t *object, const char *key)
{
	json_t *number = json_object_get(object, key);

	assert_true(json_is_integer(number));
	return json_integer_value(number);
}

static json_t *opened_with(struct kh_audit_open record, char **text)
{
	struct kh_batch batch;
	json_t *object;

	record.id = "x00000000000000aa";
	record.authority = &authority;
	record.scheme = KH_SCHEME_HTTPS;
	kh_batch_init(&batch);
	assert_true(kh_audit_open(&batch, &record));
	object = line_of(&batch, text);
	kh_batch_fini(&batch);
	return object;
}

static void an_open_says_what_is_asked_and_why_it_may(void **state)
{
	struct kh_batch batch;
	char *text;
	json_t *o;

	(void)state;
	kh_batch_init(&batch);
	put_open(&batch, "x00000000000000aa");
	o = line_of(&batch, &text);
	assert_string_equal(text_at(o, "event"), "open");
	assert_int_equal(strlen(text_at(o, "time")), 24);
	assert_string_equal(text_at(o, "id"), "x00000000000000aa");
	assert_string_equal(text_at(o, "tenant"), "acme");
	assert_string_equal(text_at(o, "sandbox"), "s1");
	assert_int_equal(number_at(o, "peer.pid"), 17);
	assert_int_equal(number_at(o, "peer.uid"), 1000);
	assert_string_equal(text_at(o, "http.request.method"), "POST");
	assert_string_equal(text_at(o, "url.scheme"), "https");
	assert_string_equal(text_at(o, "server.address"), "api.example.com");
	assert_int_equal(number_at(o, "server.port"), 443);
	assert_string_equal(text_at(o, "url.path"), "/v1/messages");
	assert_int_equal(json_array_size(json_object_get(o, "url.query.names")), 1);
	assert_string_equal(text_at(o, "rule"), "POST https://api.example.com/v1/messages");
	assert_string_equal(text_at(o, "rule_at"), "keyhole.yaml:12");
	assert_string_equal(text_at(o, "credential"), "example");
	assert_string_equal(text_at(o, "stripped"), "authorization");
	assert_true(strlen(text) < 600);
	json_decref(o);
	free(text);
	kh_batch_fini(&batch);
}

static void a_close_of_a_websocket_says_how_it_ended(void **state)
{
	struct kh_audit_websocket websocket = { .close_code = 4001,
						.close_by = "upstream",
						.up_messages = 7,
						.down_messages = 1ULL << 40 };
	struct kh_audit_close record = {
		.id = "x00000000000000ab", .status = 101, .complete = true, .websocket = &websocket
	};
	struct kh_batch batch;

	(void)state;
	kh_batch_init(&batch);
	assert_true(kh_audit_close(&batch, &record));
	json_t *o = line_behind(&batch, NULL, record.id);
	assert_int_equal(number_at(o, "websocket.close.code"), 4001);
	assert_string_equal(text_at(o, "websocket.close.by"), "upstream");
	assert_int_equal(number_at(o, "websocket.up.messages"), 7);
	assert_int_equal(number_at(o, "websocket.down.messages"), 1LL << 40);
	json_decref(o);
	kh_batch_fini(&batch);
}

static void a_close_says_what_came_of_it(void **state)
{
	struct kh_audit_close record = {
		.id = "x00000000000000aa",
		.status = 502,
		.reason = KH_ERR_UP_CLOSED,
		.detail = "the upstream went away",
		.up_bytes = 1,
		.down_bytes = UINT64_MAX / 2,
		.duration_ms = 3,
		.peer = "[2001:db8::1]:8443",
		.tls = "TLSv1.2",
		.reused = true,
		.retries = 2,
	};
	struct kh_batch batch;
	json_t *o;

	(void)state;
	kh_batch_init(&batch);
	assert_true(kh_audit_close(&batch, &record));
	o = line_behind(&batch, NULL, record.id);
	assert_string_equal(text_at(o, "event"), "close");
	assert_string_equal(text_at(o, "id"), "x00000000000000aa");
	assert_int_equal(number_at(o, "http.response.status_code"), 502);
	assert_string_equal(text_at(o, "reason"), "upstream_closed");
	assert_string_equal(text_at(o, "detail"), "the upstream went away");
	assert_int_equal(number_at(o, "http.request.body.size"), 1);
	assert_int_equal(number_at(o, "http.response.body.size"), INT64_MAX);
	assert_int_equal(number_at(o, "duration_ms"), 3);
	assert_string_equal(text_at(o, "network.peer.address"), "2001:db8::1");
	assert_int_equal(number_at(o, "network.peer.port"), 8443);
	assert_string_equal(text_at(o, "tls.protocol.version"), "1.2");
	assert_true(json_is_true(json_object_get(o, "reused")));
	assert_int_equal(number_at(o, "retries"), 2);
	assert_true(json_is_false(json_object_get(o, "complete")));
	/* `close` does not repeat `open`. */
	assert_null(json_object_get(o, "url.path"));
	assert_null(json_object_get(o, "websocket.close.code"));
	assert_null(json_object_get(o, "would_deny"));
	assert_null(json_object_get(o, "withheld"));
	json_decref(o);
	kh_batch_fini(&batch);
}

static void a_close_says_what_its_address_would_have_been_refused_for(void **state)
{
	struct kh_audit_close record = { .id = "x00000000000000aa",
					 .would_deny = "denied_by_rule",
					 .would_rule = "https://[10.0.0.0/8]",
					 .withheld = true };
	struct kh_batch batch;

	(void)state;
	kh_batch_init(&batch);
	assert_true(kh_audit_close(&batch, &record));
	json_t *o = line_behind(&batch, NULL, record.id);
	assert_string_equal(text_at(o, "would_deny"), "denied_by_rule");
	assert_string_equal(text_at(o, "would_deny.rule"), "https://[10.0.0.0/8]");
	assert_true(json_is_true(json_object_get(o, "withheld")));
	json_decref(o);
	kh_batch_fini(&batch);
}

static void an_answer_says_who_gave_it_and_when(void **state)
{
	(void)state;
	json_t *o = opened_with((struct kh_audit_open){ .answer = "once",
							.answer_uid = 0,
							.answer_ms = 1767323045678 },
				NULL);
	assert_string_equal(text_at(o, "answer"), "once");
	assert_int_equal(number_at(o, "answer.uid"), 0);
	assert_string_equal(text_at(o, "answer.time"), "2026-01-02T03:04:05.678Z");
	json_decref(o);
	o = opened_with((struct kh_audit_open){ .answer = NULL, .answer_uid = 7 }, NULL);
	assert_null(json_object_get(o, "answer"));
	assert_null(json_object_get(o, "answer.uid"));
	assert_null(json_object_get(o, "answer.time"));
	json_decref(o);
}

static void a_refusal_is_one_record(void **state)
{
	struct kh_audit_open what = {
		.id = "x00000000000000aa",
		.tenant = "acme",
		.method = KH_SLICE("GET"),
		.authority = &authority,
		.path = KH_SLICE("/secret"),
	};
	struct kh_audit_close how = { .id = what.id, .status = 403, .reason = KH_ERR_NO_RULE };
	struct kh_batch batch;
	json_t *o;

	(void)state;
	kh_batch_init(&batch);
	assert_true(kh_audit_deny(&batch, &what, &how));
	o = line_of(&batch, NULL);
	assert_string_equal(text_at(o, "event"), "deny");
	assert_string_equal(text_at(o, "url.path"), "/secret");
	assert_string_equal(text_at(o, "reason"), "no_rule");
	assert_int_equal(number_at(o, "http.response.status_code"), 403);
	/* What is not known is left out. */
	assert_null(json_object_get(o, "rule"));
	assert_null(json_object_get(o, "peer.pid"));
	assert_null(json_object_get(o, "url.scheme"));
	json_decref(o);
	kh_batch_fini(&batch);
}

static void hostile_bytes_stay_inside_their_string(void **state)
{
	/* A line of its own, an end of the object, a terminal's escape, a NUL, bytes that are no
	 * UTF-8, a C1 control, separators of JavaScript. */
	static const char evil[] =
		"/a\n{\"event\":\"stop\"}\n\",\"seq\":1}\r\x1b[2J\0\x7f\xff\xc0\x80"
		"\xc2\x9b\xe2\x80\xa8\xed\xa0\x80\\u0000\\\"";
	struct kh_slice bytes = { evil, sizeof(evil) - 1 };
	char *text;
	json_t *o;

	(void)state;
	o = opened_with((struct kh_audit_open){ .method = bytes,
						.path = bytes,
						.query = bytes,
						.tenant = evil,
						.sandbox = evil,
						.rule = evil,
						.rule_file = evil,
						.rule_where = { .line = 3 },
						.credential = evil,
						.stripped = evil },
			&text);
	assert_string_equal(text_at(o, "event"), "open");
	assert_true(number_at(o, "seq") == 2);
	assert_null(strstr(text, "\x1b"));
	assert_null(strstr(text, "\xc2\x9b"));
	json_decref(o);
	free(text);
}

static void every_byte_in_every_place_is_one_line(void **state)
{
	char method[4] = "GET", path[] = "/a.b", name[] = "a.b=1";

	(void)state;
	for (int byte = 0; byte < 256; byte++) {
		struct kh_audit_open record = { .method = { method, 3 },
						.path = { path, 4 },
						.query = { name, 5 } };

		method[1] = path[2] = name[1] = (char)byte;
		json_decref(opened_with(record, NULL));
	}
}

static void a_record_of_longest_values_fits(void **state)
{
	/* Each byte is written as six. */
	size_t most = 70000;
	char *evil = malloc(most + 1), *query = malloc(most + 1);
	struct kh_slice bytes = { evil, most };
	struct kh_audit_open what;
	struct kh_audit_close how;
	struct kh_batch batch;
	char *text;
	json_t *o;

	(void)state;
	memset(evil, 1, most);
	evil[most] = '\0';
	for (size_t i = 0; i < most; i++)
		query[i] = "\1\1=&"[i & 3];
	what = (struct kh_audit_open){ .id = "x00000000000000aa", /* our own */
				       .tenant = evil,
				       .sandbox = evil,
				       .peer_pid = UINT32_MAX,
				       .peer_uid = UINT32_MAX,
				       .method = bytes,
				       .scheme = KH_SCHEME_HTTPS,
				       .authority = &authority,
				       .path = bytes,
				       .query = { query, most },
				       .rule = evil,
				       .rule_file = evil,
				       .rule_where = { .line = UINT32_MAX },
				       .credential = evil,
				       .stripped = evil };
	how = (struct kh_audit_close){ .status = 599,
				       .reason = KH_ERR_RESPONSE_HEAD_TOO_LARGE,
				       .detail = evil,
				       .up_bytes = INT64_MAX,
				       .down_bytes = INT64_MAX,
				       .duration_ms = INT64_MAX,
				       .first_byte_ms = INT64_MAX,
				       .peer = evil,
				       .tls = evil,
				       .reused = true,
				       .retries = UINT_MAX };
	kh_batch_init(&batch);
	assert_true(kh_audit_deny(&batch, &what, &how));
	o = line_of(&batch, &text);
	assert_true(strlen(text) < KH_LIMIT_RECORD_BYTES + 256);
	json_decref(o);
	free(text);
	kh_batch_fini(&batch);
	free(evil);
	free(query);
}

static void a_long_path_is_cut_and_says_so(void **state)
{
	char path[5000];
	json_t *o;

	(void)state;
	memset(path, 'p', sizeof(path));
	path[0] = '/';
	o = opened_with((struct kh_audit_open){ .path = { path, sizeof(path) } }, NULL);
	assert_int_equal(strlen(text_at(o, "url.path")), KH_LIMIT_AUDIT_PATH_BYTES);
	assert_int_equal(number_at(o, "url.path_bytes"), sizeof(path));
	json_decref(o);
	o = opened_with((struct kh_audit_open){ .path = { path, KH_LIMIT_AUDIT_PATH_BYTES } },
			NULL);
	assert_null(json_object_get(o, "url.path_bytes"));
	json_decref(o);
}

static void a_cut_does_not_split_a_character(void **state)
{
	static const char euro[3] = { '\xe2', '\x82', '\xac' };
	char path[3000];
	json_t *o;

	(void)state;
	for (size_t shift = 0; shift < 3; shift++) {
		path[0] = '/';
		memset(path + 1, 'p', shift);
		for (size_t i = 1 + shift; i + 3 <= sizeof(path); i += 3)
			memcpy(path + i, euro, sizeof(euro));
		o = opened_with((struct kh_audit_open){ .path = { path, 2500 + shift } }, NULL);
		assert_null(strstr(text_at(o, "url.path"), "\xef\xbf\xbd"));
		json_decref(o);
	}
}

static void values_of_the_query_never_appear(void **state)
{
	static const char secret[] = "sk-ant-api03-S3cr3tS3cr3tS3cr3t";
	static const char *const queries[] = {
		"key=sk-ant-api03-S3cr3tS3cr3tS3cr3t",
		"a=1&key=sk-ant-api03-S3cr3tS3cr3tS3cr3t&b",
		"sk-ant-api03-S3cr3tS3cr3tS3cr3t",
		"=sk-ant-api03-S3cr3tS3cr3tS3cr3t",
		"==sk-ant-api03-S3cr3tS3cr3tS3cr3t=",
		"a&&sk-ant-api03-S3cr3tS3cr3tS3cr3t&&",
		"a=b=sk-ant-api03-S3cr3tS3cr3tS3cr3t",
		"a=%20sk-ant-api03-S3cr3tS3cr3tS3cr3t;b=sk-ant-api03-S3cr3tS3cr3tS3cr3t",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		char *text;
		json_t *o = opened_with(
			(struct kh_audit_open){ .query = { queries[i], strlen(queries[i]) } },
			&text);

		assert_null(strstr(text, secret));
		assert_null(strstr(text, "S3cr3t"));
		json_decref(o);
		free(text);
	}
}

static void names_of_the_query_are_bounded(void **state)
{
	char query[40 * 4 + 1];
	json_t *o;

	(void)state;
	for (size_t i = 0; i < 40; i++)
		memcpy(query + 4 * i, "n=v&", 5);
	o = opened_with((struct kh_audit_open){ .query = { query, 160 } }, NULL);
	assert_int_equal(json_array_size(json_object_get(o, "url.query.names")),
			 KH_LIMIT_AUDIT_QUERY_NAMES);
	assert_int_equal(number_at(o, "url.query.unshown"), 40 - KH_LIMIT_AUDIT_QUERY_NAMES);
	json_decref(o);
	/* Words without a value are shown, since they say what is asked. */
	o = opened_with((struct kh_audit_open){ .query = KH_SLICE("acl&list-type=2") }, NULL);
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(o, "url.query.names"), 0)), "acl");
	assert_null(json_object_get(o, "url.query.unshown"));
	json_decref(o);
}

static void a_full_batch_takes_no_more_and_stays_whole(void **state)
{
	int fd = new_file();
	struct kh_journal *journal = opened(fd, NULL);
	struct kh_verify_report report;
	struct kh_batch batch;
	struct kh_audit_open record = { .path = KH_SLICE("/") };
	size_t count = 0;

	(void)state;
	kh_batch_init(&batch);
	for (;; count++) {
		char id[24];
		(void)snprintf(id, sizeof(id), "x%016zx", count + 1);
		record.id = id;
		if (!kh_audit_open(&batch, &record))
			break;
	}
	assert_int_equal(batch.count, count);
	assert_true(count > KH_LIMIT_BATCH_BYTES / 200);
	committed(journal, &batch);
	report = verified(fd);
	assert_true(report.ok);
	assert_int_equal(report.opens, count);
	kh_batch_fini(&batch);
	kh_journal_close(journal);
	close(fd);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void ids_are_never_the_same(void **state)
{
	enum { MANY = 100000 };
	char(*ids)[KH_EXCHANGE_ID_BYTES] = calloc(MANY, sizeof(*ids));

	(void)state;
	for (int i = 0; i < MANY; i++) {
		kh_exchange_id(ids[i]);
		assert_int_equal(strlen(ids[i]), 17);
		assert_int_equal(ids[i][0], 'x');
		assert_int_equal(strspn(ids[i] + 1, "0123456789abcdef"), 16);
	}
	qsort(ids, MANY, sizeof(*ids), by_text);
	for (int i = 1; i < MANY; i++)
		assert_string_not_equal(ids[i - 1], ids[i]);
	free(ids);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_open_says_what_is_asked_and_why_it_may),
		cmocka_unit_test(a_close_says_what_came_of_it),
		cmocka_unit_test(a_close_says_what_its_address_would_have_been_refused_for),
		cmocka_unit_test(a_close_of_a_websocket_says_how_it_ended),
		cmocka_unit_test(an_answer_says_who_gave_it_and_when),
		cmocka_unit_test(a_refusal_is_one_record),
		cmocka_unit_test(hostile_bytes_stay_inside_their_string),
		cmocka_unit_test(every_byte_in_every_place_is_one_line),
		cmocka_unit_test(a_record_of_longest_values_fits),
		cmocka_unit_test(a_long_path_is_cut_and_says_so),
		cmocka_unit_test(a_cut_does_not_split_a_character),
		cmocka_unit_test(values_of_the_query_never_appear),
		cmocka_unit_test(names_of_the_query_are_bounded),
		cmocka_unit_test(a_full_batch_takes_no_more_and_stays_whole),
		cmocka_unit_test(ids_are_never_the_same),
	};

	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
