/*
 * test_llhttp.c - llhttp's annotated messages, read by our codec
 *
 * The vectors are Node's (nodejs/llhttp, MIT), and are read in place: $KEYHOLE_TESTDATA/llhttp,
 * by default ../shared/testdata/llhttp. Where llhttp's strict mode takes a message we must read the
 * very same one, or the deviation is listed below with its reason; where it refuses, so do we, and
 * we refuse what only its lenient modes take. A request without Host gets one on its way in, since
 * the vectors are not about that.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "h1_drive.h"

/* What llhttp takes and we refuse, or the other way round. */
static const struct {
	const char *title;
	const char *why;
} deviations[] = {
#define EMPTY_LINES \
	"we skip one empty line before a request (RFC 9112 2.2), and none before a response"
	{ "request/connection.md: CRLF between requests, implicit `keep-alive`", EMPTY_LINES },
	{ "response/connection.md: HTTP 304 with Content-Length", EMPTY_LINES },
	{ "response/connection.md: HTTP 100 first, then 400", EMPTY_LINES },
	{ "response/pipelining.md: Should parse multiple events", EMPTY_LINES },
	{ "response/sample.md: Response starting with CRLF", EMPTY_LINES },
#define NOT_HTTP "we speak HTTP/1.0 and HTTP/1.1 and nothing else"
	{ "request/method.md: SOURCE request with ICE", NOT_HTTP },
	{ "request/method.md: OPTIONS request with RTSP", NOT_HTTP },
	{ "request/method.md: ANNOUNCE request with RTSP", NOT_HTTP },
	{ "request/sample.md: No HTTP version", NOT_HTTP },
	{ "response/sample.md: RTSP response", NOT_HTTP },
	{ "response/sample.md: ICE response", NOT_HTTP },
	{ "response/sample.md: HTTP version 0.9", NOT_HTTP },
#define CODINGS "any transfer coding but one 'chunked' is refused"
	{ "request/transfer-encoding.md: POST with `chunked` as last transfer-encoding", CODINGS },
	{ "request/transfer-encoding.md: POST with `chunked` as last transfer-encoding (multiple "
	  "headers)",
	  CODINGS },
	{ "response/transfer-encoding.md: `chunked` before other transfer-encoding", CODINGS },
	{ "response/transfer-encoding.md: multiple transfer-encoding where chunked is not the last "
	  "one",
	  CODINGS },
	{ "response/transfer-encoding.md: `chunkedchunked` transfer-encoding does not enable "
	  "chunked enconding",
	  CODINGS },
#define SWITCHED "a 101 has neither length nor coding (RFC 9110 8.6, RFC 9112 6.1)"
	{ "response/connection.md: HTTP 101 response with Upgrade and Content-Length header",
	  SWITCHED },
	{ "response/connection.md: HTTP 101 response with Upgrade and Transfer-Encoding header",
	  SWITCHED },
	{ "request/method.md: CONNECT with body", "a CONNECT has no content (RFC 9110 9.3.6)" },
	{ "request/transfer-encoding.md: Trailing headers",
	  "Vary and Content-Type are no trailers (RFC 9110 6.5.1)" },
	{ "response/sample.md: No reason phrase",
	  "the blank behind the status is not optional (RFC 9112 4)" },
#define AFTER_CLOSE "who feeds the codec closes behind a message without keep_alive"
	{ "response/connection.md: HTTP/1.1 with keep-alive disabled and 204 status", AFTER_CLOSE },
	{ "response/connection.md: HTTP/1.1 with keep-alive disabled and 204 status (lenient)",
	  AFTER_CLOSE },
};
static bool seen[sizeof(deviations) / sizeof(*deviations)];

struct vector {
	char title[600];
	char type[64];
	struct kh_buf input;
	struct kh_buf wanted; /* as h1_drive.h logs, without what llhttp does not tell */
	bool refused;
	bool stops; /* what follows is not HTTP */
};

/* --- the messages that llhttp saw */

/* span[name]="text", or =cr, =lf, =tab. */
static bool span(struct kh_slice line, const char *name, struct kh_slice *value)
{
	char mark[64];
	int len = snprintf(mark, sizeof(mark), "span[%s]=", name);
	const char *at = memmem(line.ptr, line.len, mark, (size_t)len);

	if (!at)
		return false;
	at += len;
	*value = kh_slice_of(at, (size_t)(line.ptr + line.len - at));
	if (kh_slice_eq(*value, KH_SLICE("cr")))
		*value = KH_SLICE("\\r");
	else if (kh_slice_eq(*value, KH_SLICE("lf")))
		*value = KH_SLICE("\\n");
	else if (kh_slice_eq(*value, KH_SLICE("tab")))
		*value = KH_SLICE("\\t");
	else
		*value = kh_slice_sub(*value, 1, value->len - 1);
	return true;
}

static bool says(struct kh_slice line, const char *text)
{
	return memmem(line.ptr, line.len, text, strlen(text)) != NULL;
}

/* "\r", "\n", "\t", "\f" and "\xHH"; other backslashes are themselves. */
static void put_unescaped(struct kh_buf *out, struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		static const char from[] = "rntf", to[] = "\r\n\t\f";
		char next = i + 1 < text.len ? text.ptr[i + 1] : '\0';
		const char *known = next ? strchr(from, next) : NULL;
		int high = i + 3 < text.len ? kh_hex_value(text.ptr[i + 2]) : -1;
		int low = i + 3 < text.len ? kh_hex_value(text.ptr[i + 3]) : -1;

		if (text.ptr[i] != '\\' || !next) {
			kh_buf_append_char(out, text.ptr[i]);
		} else if (known) {
			kh_buf_append_char(out, to[known - from]);
			i++;
		} else if (next == 'x' && high >= 0 && low >= 0) {
			int code = high << 4 | low;

			/* The vectors are UTF-8: a code is a character, not a byte. */
			if (code >= 0x80)
				kh_buf_append_char(out, (char)(0xc0 | code >> 6));
			kh_buf_append_char(out, (char)(code >= 0x80 ? 0x80 | (code & 0x3f) : code));
			i += 3;
		} else {
			kh_buf_append_char(out, '\\');
		}
	}
}

struct reading {
	struct vector *v;
	struct kh_buf first, name, value; /* of the line at hand */
	bool in_body, has_host;
	bool interim;	 /* whose end is no event of ours */
	size_t line_end; /* where a Host would go */
	size_t shift;	 /* how much longer the input has become */
};

static void reading_head(struct reading *r)
{
	kh_buf_append_str(&r->v->wanted, "HEAD");
	kh_buf_append_slice(&r->v->wanted, kh_buf_view(&r->first));
	kh_buf_append_str(&r->v->wanted, "\n");
	kh_buf_clear(&r->first);
}

static void insert_host(struct reading *r)
{
	static const char host[] = "Host: h\r\n";
	struct kh_buf whole;
	struct kh_slice input = kh_buf_view(&r->v->input);

	kh_buf_init(&whole, 1024 << 10);
	kh_buf_append_slice(&whole, kh_slice_sub(input, 0, r->line_end));
	kh_buf_append_str(&whole, host);
	kh_buf_append_slice(&whole, kh_slice_sub(input, r->line_end, input.len));
	kh_buf_fini(&r->v->input);
	r->v->input = whole;
	r->shift += sizeof(host) - 1;
}

/* Where the line ends whose version is complete at `off`. */
static void note_line_end(struct reading *r, struct kh_slice line)
{
	struct kh_slice input = kh_buf_view(&r->v->input);
	size_t off = (size_t)strtoul(line.ptr + 4, NULL, 10) + r->shift;
	size_t end = kh_slice_find(input, '\n', off);

	r->line_end = end < input.len ? end + 1 : 0;
	r->has_host = false;
}

static void read_log_line(struct reading *r, struct kh_slice line)
{
	struct vector *v = r->v;
	struct kh_slice value;

	if (v->stops || v->refused)
		return;
	if (r->in_body && (says(line, "message ") || says(line, "error "))) {
		kh_buf_append_str(&v->wanted, "\n");
		r->in_body = false;
	}
	if (says(line, "error code=22") || says(line, "error code=23")) {
		v->stops = true;
	} else if (says(line, "error code=")) {
		v->refused = true;
	} else if (says(line, "message begin")) {
		kh_buf_clear(&r->first);
	} else if (span(line, "method", &value) || span(line, "url", &value) ||
		   span(line, "status", &value)) {
		if (value.len > 0)
			kh_buf_append_str(&r->first, " ");
		put_unescaped(&r->first, value);
	} else if (says(line, "version complete") && strncmp(v->type, "request", 7) == 0) {
		note_line_end(r, line);
	} else if (span(line, "header_field", &value)) {
		kh_buf_append_slice(&r->name, value);
	} else if (span(line, "header_value", &value)) {
		put_unescaped(&r->value, value);
	} else if (says(line, "header_value complete")) {
		r->has_host |= kh_slice_eq_nocase(kh_buf_view(&r->name), KH_SLICE("host"));
		kh_buf_append_str(&r->first, "\n  ");
		kh_buf_append_slice(&r->first, kh_buf_view(&r->name));
		kh_buf_append_str(&r->first, "=");
		kh_buf_append_slice(&r->first, kh_slice_trim(kh_buf_view(&r->value)));
		kh_buf_clear(&r->name);
		kh_buf_clear(&r->value);
	} else if (says(line, "headers complete")) {
		r->interim = says(line, " status=10") && !says(line, " status=101");
		reading_head(r);
	} else if (span(line, "body", &value)) {
		if (!r->in_body)
			kh_buf_append_str(&v->wanted, "BODY ");
		r->in_body = true;
		put_unescaped(&v->wanted, value);
	} else if (says(line, "message complete") && r->interim) {
		r->interim = false;
	} else if (says(line, "message complete")) {
		/* Trailers come as fields behind the head. */
		kh_buf_append_str(&v->wanted, "END");
		kh_buf_append_slice(&v->wanted, kh_buf_view(&r->first));
		kh_buf_append_str(&v->wanted, "\n");
		kh_buf_clear(&r->first);
	}
	bool host_due =
		r->line_end && !r->has_host && (says(line, "headers complete") || v->refused);
	if (host_due)
		insert_host(r);
	if (says(line, "headers complete"))
		r->line_end = 0;
}

static void read_log(struct vector *v, struct kh_slice log)
{
	struct reading r = { .v = v };

	kh_buf_init(&r.first, 1024 << 10);
	kh_buf_init(&r.name, 1024 << 10);
	kh_buf_init(&r.value, 1024 << 10);
	for (size_t at = 0; at < log.len;) {
		size_t end = kh_slice_find(log, '\n', at);

		read_log_line(&r, kh_slice_sub(log, at, end));
		at = end + 1;
	}
	if (r.in_body)
		kh_buf_append_str(&v->wanted, "\n");
	kh_buf_fini(&r.first);
	kh_buf_fini(&r.name);
	kh_buf_fini(&r.value);
}

/* --- what we see, in the same words */

static void put_ours(struct kh_buf *out, const char *log, bool request)
{
	for (const char *line = log; *line; line = strchr(line, '\n') + 1) {
		struct kh_slice s = kh_slice_of(line, (size_t)(strchr(line, '\n') - line));

		if (kh_slice_eq(s, KH_SLICE("  Host=h")))
			continue;
		if (kh_slice_has_prefix(s, KH_SLICE("HEAD ")) && request) {
			/* method and target; the rest is ours. */
			size_t end = kh_slice_find(s, ' ', kh_slice_find(s, ' ', 5) + 1);

			s = kh_slice_sub(s, 0, end);
		} else if (kh_slice_has_prefix(s, KH_SLICE("HEAD "))) {
			size_t start = kh_slice_find(s, '\'', 0) + 1, end = s.len;

			while (s.ptr[end - 1] != '\'')
				end--;
			kh_buf_append_str(out, "HEAD");
			if (end - 1 > start)
				kh_buf_append_str(out, " ");
			s = kh_slice_sub(s, start, end - 1);
		}
		kh_buf_append_slice(out, s);
		kh_buf_append_str(out, "\n");
	}
}

static bool agrees(struct vector *v, bool show)
{
	bool request = strcmp(v->type, "request") == 0, same;
	enum kh_h1_side side = request ? KH_H1_REQUESTS : KH_H1_RESPONSES;
	struct kh_buf ours;

	/* We judge whole lines: a vector that ends within one is given the rest. */
	if (v->refused)
		kh_buf_append_str(&v->input, "\r\n\r\n");
	char *log = drive_run(side, NULL, kh_buf_view(&v->input), 0, false);

	kh_buf_init(&ours, 1024 << 10);
	put_ours(&ours, log, request);
	struct kh_slice got = kh_buf_view(&ours), wanted = kh_buf_view(&v->wanted);
	if (v->refused)
		same = strstr(log, "ERROR ") != NULL;
	else if (v->stops)
		same = kh_slice_has_prefix(got, wanted);
	else
		same = kh_slice_eq(got, wanted);
	if (!same && show)
		print_error("%s\n--- llhttp%s\n%.*s--- ours\n%s", v->title,
			    v->refused ? " refuses" : "", KH_FMT(wanted), log);
	kh_buf_fini(&ours);
	free(log);
	return same;
}

static size_t agreed, deviated, wrong;

static void judge(struct vector *v)
{
	for (size_t i = 0; i < sizeof(deviations) / sizeof(*deviations); i++) {
		if (!deviations[i].title || strcmp(deviations[i].title, v->title) != 0)
			continue;
		seen[i] = true;
		deviated++;
		if (agrees(v, false)) {
			print_error("%s: listed as a deviation, and is none\n", v->title);
			wrong++;
		}
		return;
	}
	if (agrees(v, true))
		agreed++;
	else
		wrong++;
}

/* --- the files */

static void vector_begin(struct vector *v)
{
	kh_buf_init(&v->input, 1024 << 10);
	kh_buf_init(&v->wanted, 1024 << 10);
	v->refused = v->stops = false;
}

/* Line ends become CRLF, a backslash at the end of a line joins it with the next. */
static void put_input(struct kh_buf *out, struct kh_slice block)
{
	struct kh_buf joined;

	kh_buf_init(&joined, 1024 << 10);
	for (size_t i = 0; i < block.len; i++) {
		if (block.ptr[i] == '\\' && i + 1 < block.len && block.ptr[i + 1] == '\n')
			i++;
		else if (block.ptr[i] == '\n')
			kh_buf_append_str(&joined, "\r\n");
		else
			kh_buf_append_char(&joined, block.ptr[i]);
	}
	put_unescaped(out, kh_buf_view(&joined));
	kh_buf_fini(&joined);
}

static void set_type(struct vector *v, struct kh_slice line)
{
	static const char mark[] = "\"type\":";
	const char *at = memmem(line.ptr, line.len, mark, sizeof(mark) - 1);

	v->type[0] = '\0';
	if (!at || says(line, "skipBody"))
		return;
	at += sizeof(mark) - 1;
	while (*at == ' ' || *at == '"')
		at++;
	size_t len = 0;
	while (at[len] != '"' && len < sizeof(v->type) - 1)
		len++;
	memcpy(v->type, at, len);
	v->type[len] = '\0';
}

static void run_file(const char *name, struct kh_slice text)
{
	struct vector v = { .type = "" };
	struct kh_slice heading = KH_SLICE("");

	vector_begin(&v);
	for (size_t at = 0; at < text.len;) {
		size_t end = kh_slice_find(text, '\n', at);
		struct kh_slice line = kh_slice_sub(text, at, end);

		at = end + 1;
		if (kh_slice_has_prefix(line, KH_SLICE("#"))) {
			heading = line;
			while (heading.len && (*heading.ptr == '#' || *heading.ptr == ' '))
				heading = kh_slice_sub(heading, 1, heading.len);
		} else if (kh_slice_has_prefix(line, KH_SLICE("<!-- meta="))) {
			set_type(&v, line);
		} else if (kh_slice_has_prefix(line, KH_SLICE("```")) && line.len > 3) {
			const char *close = memmem(text.ptr + at, text.len - at, "\n```", 4);
			size_t stop = close ? (size_t)(close - text.ptr) : text.len;
			struct kh_slice block = kh_slice_sub(text, at, stop);

			at = stop + 5;
			if (kh_slice_eq(line, KH_SLICE("```http"))) {
				put_input(&v.input, block);
				continue;
			}
			snprintf(v.title, sizeof(v.title), "%s: %.*s", name, KH_FMT(heading));
			read_log(&v, block);
			/* What takes a lenient parser is malformed. */
			bool lenient = strstr(v.type, "-lenient") != NULL;
			v.refused |= lenient;
			if (lenient)
				*strchr(v.type, '-') = '\0';
			if (strcmp(v.type, "request") == 0 || strcmp(v.type, "response") == 0)
				judge(&v);
			kh_buf_fini(&v.input);
			kh_buf_fini(&v.wanted);
			vector_begin(&v);
		}
	}
	kh_buf_fini(&v.input);
	kh_buf_fini(&v.wanted);
}

static bool run_folder(const char *root, const char *kind)
{
	kh_auto_free char *folder = kh_path_join(root, kind);
	struct dirent **entries;
	int n = scandir(folder, &entries, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		const char *name = entries[i]->d_name;
		kh_auto_free char *path = kh_path_join(folder, name);
		char title[300];
		struct kh_buf text;

		if (kh_slice_has_suffix(kh_slice_str(name), KH_SLICE(".md"))) {
			snprintf(title, sizeof(title), "%s/%s", kind, name);
			kh_buf_init(&text, 1024 << 10);
			assert_true(kh_file_read(path, &text, NULL));
			run_file(title, kh_buf_view(&text));
			kh_buf_fini(&text);
		}
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return n >= 0;
}

static void test_llhttps_messages_are_read_as_llhttp_does_or_refused(void **state)
{
	const char *data = getenv("KEYHOLE_TESTDATA");
	kh_auto_free char *root = kh_path_join(data ? data : "../shared/testdata", "llhttp");

	(void)state;
	if (!run_folder(root, "request") || !run_folder(root, "response")) {
		print_message("skipped: llhttp's vectors are not in %s (KEYHOLE_TESTDATA)\n", root);
		free(kh_steal_ptr(&root)); /* skip() does not come back */
		skip();
	}
	print_message("%zu agree, %zu deviations are listed\n", agreed, deviated);
	for (size_t i = 0; i < sizeof(deviations) / sizeof(*deviations); i++)
		if (deviations[i].title && !seen[i]) {
			print_error("%s: no such vector\n", deviations[i].title);
			wrong++;
		}
	assert_true(agreed > 50);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_llhttps_messages_are_read_as_llhttp_does_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
