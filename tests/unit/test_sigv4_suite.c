/*
 * test_sigv4_suite.c - AWS's own cases for Signature Version 4, every step of every one
 *
 * The suite (Apache-2.0, of AWS's common runtime) is read in place: $KEYHOLE_TESTDATA/sigv4/v4, by
 * default ../shared/testdata/sigv4/v4. A case is a request, what is known beside it, and for the
 * header and the query form the canonical request, the string to sign, the signature and what is
 * sent.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "unit.h"

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/file.h>
#include <keyhole/credential/sigv4.h>

enum { MOST = 32, FILE_BYTES = 64 * 1024 };

struct given {
	char folder[512];
	struct kh_buf file;
	json_t *context;
	struct kh_slice method, path, query, content;
	struct kh_field fields[MOST];
	size_t n_fields;
	struct kh_sigv4_scope scope;
	char time[KH_SIGV4_TIME_BYTES];
	char payload[KH_SIGV4_HEX_BYTES];
	const char *id, *token;
};

static const char *data(void)
{
	static char folder[256];
	const char *root = getenv("KEYHOLE_TESTDATA");

	(void)snprintf(folder, sizeof(folder), "%s/sigv4/v4", root ? root : "../shared/testdata");
	return folder;
}

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static void read_file(const struct given *g, const char *name, struct kh_buf *out)
{
	char path[1024];

	kh_buf_init(out, FILE_BYTES);
	(void)snprintf(path, sizeof(path), "%s/%s", g->folder, name);
	FILE *file = fopen(path, "re");
	if (!file)
		fail_msg("%s can't be opened", path);
	char *room = kh_buf_reserve(out, FILE_BYTES - 1);
	assert_non_null(room);
	kh_buf_commit(out, fread(room, 1, FILE_BYTES - 1, file));
	(void)fclose(file);
}

/* A line of the head; one that begins with a blank goes on with the field before. */
static void read_line(struct given *g, struct kh_slice line)
{
	if (line.ptr[0] == ' ') {
		struct kh_field *field = &g->fields[g->n_fields - 1];
		field->value.len = (size_t)(line.ptr + line.len - field->value.ptr);
		return;
	}
	size_t colon = kh_slice_find(line, ':', 0);
	assert_in_range(g->n_fields, 0, MOST - 4);
	g->fields[g->n_fields++] = (struct kh_field){ kh_slice_sub(line, 0, colon),
						      kh_slice_sub(line, colon + 1, line.len) };
}

static void read_request(struct given *g)
{
	read_file(g, "request.txt", &g->file);
	struct kh_slice all = kh_buf_view(&g->file);
	size_t end = kh_slice_find(all, '\n', 0);
	struct kh_slice line = kh_slice_sub(all, 0, end);
	size_t blank = kh_slice_find(line, ' ', 0), last = line.len;

	while (line.ptr[--last] != ' ')
		;
	struct kh_slice target = kh_slice_sub(line, blank + 1, last);
	size_t mark = kh_slice_find(target, '?', 0);
	g->method = kh_slice_sub(line, 0, blank);
	g->path = kh_slice_sub(target, 0, mark);
	g->query = kh_slice_sub(target, mark + 1, target.len);
	while (end < all.len) {
		size_t next = kh_slice_find(all, '\n', end + 1);
		line = kh_slice_sub(all, end + 1, next);
		end = next;
		if (line.len == 0)
			break;
		read_line(g, line);
	}
	g->content = kh_slice_sub(all, end + 1, all.len);
}

static void read_context(struct given *g)
{
	struct kh_buf text;
	json_error_t error;

	read_file(g, "context.json", &text);
	struct kh_slice view = kh_buf_view(&text);
	g->context = json_loadb(view.ptr, view.len, 0, &error);
	kh_buf_fini(&text);
	assert_non_null(g->context);
	const json_t *keys = json_object_get(g->context, "credentials");
	g->id = text_of(keys, "access_key_id");
	g->token = text_of(keys, "token");
	/* "2015-08-30T12:36:00Z" without what parts it */
	const char *stamp = text_of(g->context, "timestamp");
	size_t n = 0;
	for (; *stamp; stamp++)
		if (*stamp != '-' && *stamp != ':')
			g->time[n++] = *stamp;
	memcpy(g->scope.date, g->time, KH_SIGV4_DATE_BYTES - 1);
	(void)snprintf(g->scope.region, sizeof(g->scope.region), "%s",
		       text_of(g->context, "region"));
	(void)snprintf(g->scope.service, sizeof(g->scope.service), "%s",
		       text_of(g->context, "service"));
}

static struct given *read_case(const char *name)
{
	struct given *g = calloc(1, sizeof(*g));

	assert_non_null(g);
	(void)snprintf(g->folder, sizeof(g->folder), "%s/%s", data(), name);
	read_request(g);
	read_context(g);
	bool whole = json_is_true(json_object_get(g->context, "sign_body"));
	assert_true(kh_sigv4_digest(whole ? g->content : KH_SLICE(""), g->payload));
	return g;
}

static void free_case(struct given *g)
{
	json_decref(g->context);
	kh_buf_fini(&g->file);
	free(g);
}

/* The content of a file, or what begins behind `from` in it up to the end of the line. */
static void expect(const struct given *g, const char *form, const char *name, struct kh_slice got)
{
	char file[64];
	struct kh_buf want;

	(void)snprintf(file, sizeof(file), "%s-%s.txt", form, name);
	read_file(g, file, &want);
	if (!kh_slice_eq(kh_buf_view(&want), got))
		fail_msg("%s/%s: got\n%.*s\nwant\n%.*s", g->folder, file, KH_FMT(got),
			 KH_FMT(kh_buf_view(&want)));
	kh_buf_fini(&want);
}

/* Does what is sent hold this text? */
static void expect_within(const struct given *g, const char *form, const char *text)
{
	char file[64];
	struct kh_buf want;

	(void)snprintf(file, sizeof(file), "%s-signed-request.txt", form);
	read_file(g, file, &want);
	if (!strstr(kh_buf_cstr(&want), text))
		fail_msg("%s/%s: no %s in it", g->folder, file, text);
	kh_buf_fini(&want);
}

static void check_steps(struct given *g, const char *form, struct kh_slice query,
			const struct kh_field *fields, size_t n, char signature[KH_SIGV4_HEX_BYTES])
{
	struct kh_buf canonical, text;
	unsigned char key[KH_SIGV4_KEY_BYTES];
	bool normal = json_is_true(json_object_get(g->context, "normalize"));
	const struct kh_sigv4_request request = {
		.method = g->method,
		.path = g->path,
		.query = query,
		.fields = fields,
		.n_fields = n,
		.payload = kh_slice_str(g->payload),
		.path_rule = normal ? KH_SIGV4_PATH_NORMAL : KH_SIGV4_PATH_AS_IS,
	};

	kh_buf_init(&canonical, FILE_BYTES);
	kh_buf_init(&text, FILE_BYTES);
	assert_true(kh_sigv4_put_canonical(&canonical, &request));
	expect(g, form, "canonical-request", kh_buf_view(&canonical));
	assert_true(
		kh_sigv4_put_string_to_sign(&text, g->time, &g->scope, kh_buf_view(&canonical)));
	expect(g, form, "string-to-sign", kh_buf_view(&text));
	struct kh_slice secret = kh_slice_str(
		text_of(json_object_get(g->context, "credentials"), "secret_access_key"));
	assert_true(kh_sigv4_derive(secret, &g->scope, key));
	assert_true(kh_sigv4_sign(kh_slice_of(key, sizeof(key)), kh_buf_view(&text), signature));
	expect(g, form, "signature", kh_slice_str(signature));
	kh_buf_fini(&canonical);
	kh_buf_fini(&text);
}

static bool omits_token(const struct given *g)
{
	return json_is_true(json_object_get(g->context, "omit_session_token"));
}

static void check_header(struct given *g)
{
	struct kh_field fields[MOST];
	size_t n = g->n_fields;
	char signature[KH_SIGV4_HEX_BYTES], authorization[2048];
	struct kh_buf names;

	memcpy(fields, g->fields, n * sizeof(*fields));
	fields[n++] = (struct kh_field){ KH_SLICE("X-Amz-Date"), kh_slice_str(g->time) };
	if (g->token && !omits_token(g))
		fields[n++] = (struct kh_field){ KH_SLICE("X-Amz-Security-Token"),
						 kh_slice_str(g->token) };
	if (json_is_true(json_object_get(g->context, "sign_body")))
		fields[n++] = (struct kh_field){ KH_SLICE("x-amz-content-sha256"),
						 kh_slice_str(g->payload) };
	check_steps(g, "header", g->query, fields, n, signature);
	kh_buf_init(&names, FILE_BYTES);
	assert_true(kh_sigv4_put_signed_names(&names, fields, n));
	(void)snprintf(authorization, sizeof(authorization),
		       "Authorization:AWS4-HMAC-SHA256 Credential=%s/%s/%s/%s/aws4_request, "
		       "SignedHeaders=%s, Signature=%s\n",
		       g->id, g->scope.date, g->scope.region, g->scope.service, kh_buf_cstr(&names),
		       signature);
	expect_within(g, "header", authorization);
	kh_buf_fini(&names);
}

static void check_query(struct given *g)
{
	char signature[KH_SIGV4_HEX_BYTES], last[KH_SIGV4_HEX_BYTES + 32];
	struct kh_buf query, names;
	char credential[256];
	int expires = (int)json_integer_value(json_object_get(g->context, "expiration_in_seconds"));

	kh_buf_init(&query, FILE_BYTES);
	kh_buf_init(&names, FILE_BYTES);
	(void)snprintf(credential, sizeof(credential), "%s/%s/%s/%s/aws4_request", g->id,
		       g->scope.date, g->scope.region, g->scope.service);
	assert_true(kh_sigv4_put_signed_names(&names, g->fields, g->n_fields));
	kh_buf_append_slice(&query, g->query);
	kh_buf_printf(&query, "&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=%s&X-Amz-Expires=%d",
		      g->time, expires);
	kh_buf_append_str(&query, "&X-Amz-Credential=");
	kh_percent_encode(&query, kh_slice_str(credential), "");
	kh_buf_append_str(&query, "&X-Amz-SignedHeaders=");
	kh_percent_encode(&query, kh_buf_view(&names), "");
	if (g->token && !omits_token(g)) {
		kh_buf_append_str(&query, "&X-Amz-Security-Token=");
		kh_percent_encode(&query, kh_slice_str(g->token), "");
	}
	check_steps(g, "query", kh_buf_view(&query), g->fields, g->n_fields, signature);
	(void)snprintf(last, sizeof(last), "&X-Amz-Signature=%s", signature);
	expect_within(g, "query", last);
	kh_buf_fini(&query);
	kh_buf_fini(&names);
}

static void test_every_step_of_every_case_is_as_the_suite_has_it(void **state)
{
	struct dirent **names;
	unsigned n_cases = 0;

	(void)state;
	int n = scandir(data(), &names, NULL, alphasort);
	if (n < 0) {
		print_message("skipped: no AWS signing suite in %s (KEYHOLE_TESTDATA)\n", data());
		skip();
	}
	for (int i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.') {
			struct given *g = read_case(names[i]->d_name);
			check_header(g);
			check_query(g);
			free_case(g);
			n_cases++;
		}
		free(names[i]);
	}
	free(names);
	print_message("%u cases, in both forms\n", n_cases);
	assert_true(n_cases >= 38);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_step_of_every_case_is_as_the_suite_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
