/*
 * test_wpt.c - what browsers agree on about URLs, held against targets, authorities and hosts
 *
 * The cases are web-platform-tests' (BSD-3), and are read in place: $KEYHOLE_TESTDATA/url, by
 * default ../shared/testdata/url. What they call a failure we refuse; what we take has their host,
 * port, path and query. That we refuse more is meant: a browser repairs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/http/target.h>

/* --- as much of JSON as the files hold: an array of texts and of flat objects */

struct json {
	const char *at, *end;
};

static void blanks(struct json *j)
{
	while (j->at < j->end && strchr(" \t\r\n,:", *j->at))
		j->at++;
}

static void put_utf8(struct kh_buf *out, unsigned long code)
{
	if (code < 0x80) {
		kh_buf_append_char(out, (char)code);
	} else if (code < 0x800) {
		kh_buf_append_char(out, (char)(0xc0 | code >> 6));
		kh_buf_append_char(out, (char)(0x80 | (code & 0x3f)));
	} else if (code < 0x10000) {
		kh_buf_append_char(out, (char)(0xe0 | code >> 12));
		kh_buf_append_char(out, (char)(0x80 | (code >> 6 & 0x3f)));
		kh_buf_append_char(out, (char)(0x80 | (code & 0x3f)));
	} else {
		kh_buf_append_char(out, (char)(0xf0 | code >> 18));
		kh_buf_append_char(out, (char)(0x80 | (code >> 12 & 0x3f)));
		kh_buf_append_char(out, (char)(0x80 | (code >> 6 & 0x3f)));
		kh_buf_append_char(out, (char)(0x80 | (code & 0x3f)));
	}
}

static unsigned long hex4(struct json *j)
{
	unsigned long code = 0;

	for (int i = 0; i < 4; i++)
		code = code << 4 | (unsigned long)kh_hex_value(*j->at++);
	return code;
}

static void text(struct json *j, struct kh_buf *out)
{
	static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";

	kh_buf_clear(out);
	assert_int_equal(*j->at++, '"');
	while (*j->at != '"') {
		char c = *j->at++;

		if (c != '\\') {
			kh_buf_append_char(out, c);
			continue;
		}
		c = *j->at++;
		const char *known = strchr(from, c);
		if (c == 'u') {
			unsigned long code = hex4(j);

			if (code >= 0xd800 && code < 0xdc00 && j->at[0] == '\\' &&
			    j->at[1] == 'u') {
				j->at += 2;
				code = 0x10000 + ((code & 0x3ff) << 10 | (hex4(j) & 0x3ff));
			}
			put_utf8(out, code);
		} else {
			kh_buf_append_char(out, known ? to[known - from] : c);
		}
	}
	j->at++;
}

/* What a case says; ptr NULL where a member is absent or null. */
struct url_case {
	struct kh_buf member[8];
	bool has[8];
	bool failure;
};
enum { INPUT, HOSTNAME, PORT, PATHNAME, SEARCH, BASE, OUTPUT, HASH, MEMBERS };
static const char *const names[MEMBERS] = { "input",  "hostname", "port",   "pathname",
					    "search", "base",	  "output", "hash" };

static struct kh_slice member(const struct url_case *c, int which)
{
	return c->has[which] ? kh_buf_view(&c->member[which]) : kh_slice_of(NULL, 0);
}

static void skip_value(struct json *j, struct kh_buf *scratch)
{
	int depth = 0;

	do {
		blanks(j);
		if (*j->at == '"') {
			text(j, scratch);
			continue;
		}
		if (*j->at == '[' || *j->at == '{')
			depth++;
		else if (*j->at == ']' || *j->at == '}')
			depth--;
		j->at++;
		while (depth == 0 && kh_is_alpha(*j->at))
			j->at++;
	} while (depth > 0);
}

static void object(struct json *j, struct url_case *c, struct kh_buf *scratch)
{
	c->failure = false;
	memset(c->has, 0, sizeof(c->has));
	for (j->at++, blanks(j); *j->at != '}'; blanks(j)) {
		int which = -1;

		text(j, scratch);
		for (int i = 0; i < MEMBERS; i++)
			if (kh_slice_eq(kh_buf_view(scratch), kh_slice_str(names[i])))
				which = i;
		c->failure |= kh_slice_eq(kh_buf_view(scratch), KH_SLICE("failure"));
		blanks(j);
		if (which >= 0 && *j->at == '"') {
			text(j, &c->member[which]);
			c->has[which] = true;
		} else {
			skip_value(j, scratch);
		}
	}
	j->at++;
}

static const char *root(void)
{
	const char *data = getenv("KEYHOLE_TESTDATA");

	return data ? data : "../shared/testdata";
}

/* Calls `use` for each object of the file. Return: how many; skips the test where there is none. */
static size_t each(const char *file, void (*use)(const struct url_case *))
{
	char name[64];

	snprintf(name, sizeof(name), "url/%s", file);
	kh_auto_free char *path = kh_path_join(root(), name);
	struct url_case c = { .failure = false };
	struct kh_buf all, scratch;
	size_t n = 0;

	kh_buf_init(&all, 16 << 20);
	kh_buf_init(&scratch, 1024 << 10);
	for (int i = 0; i < MEMBERS; i++)
		kh_buf_init(&c.member[i], 1024 << 10);
	bool there = kh_file_read(path, &all, NULL);
	if (there) {
		struct json j = { kh_buf_cstr(&all), kh_buf_cstr(&all) + kh_buf_len(&all) };

		for (j.at++, blanks(&j); *j.at != ']'; blanks(&j)) {
			if (*j.at != '{') {
				text(&j, &scratch);
				continue;
			}
			object(&j, &c, &scratch);
			use(&c);
			n++;
		}
	}
	for (int i = 0; i < MEMBERS; i++)
		kh_buf_fini(&c.member[i]);
	kh_buf_fini(&all);
	kh_buf_fini(&scratch);
	if (!there) {
		print_message(
			"skipped: web-platform-tests' %s is not in %s/url (KEYHOLE_TESTDATA)\n",
			file, root());
		free(kh_steal_ptr(&path)); /* skip() does not come back */
		skip();
	}
	return n;
}

/* --- the questions */

static size_t taken, refused, wrong;

static void complain(const struct url_case *c, const char *why, struct kh_slice ours)
{
	print_error("%.*s: %s: %.*s\n", KH_FMT(member(c, INPUT)), why, KH_FMT(ours));
	wrong++;
}

static void check_taken(const struct url_case *c, const struct kh_target *target)
{
	struct kh_slice port = member(c, PORT);
	uint64_t number = kh_scheme_port(target->scheme);
	struct kh_authority theirs;
	struct kh_buf sent;

	/* Read, since "[::7f00:1]" and "[::127.0.0.1]" are the same address. */
	if (!kh_authority_parse(&theirs, member(c, HOSTNAME), 1, NULL) ||
	    !kh_host_eq(&theirs.host, &target->authority.host))
		complain(c, "another host", kh_host_view(&target->authority.host));
	if (port.len > 0)
		assert_true(kh_slice_to_u64(port, &number));
	if (number != target->authority.port)
		complain(c, "another port", port);
	/* As it came, but for two things: a '?' with nothing behind is no search of theirs, and
	 * they escape an apostrophe in a query (which RFC 3986 does not ask for). */
	struct kh_slice raw = target->raw;
	if (target->query.ptr && target->query.len == 0)
		raw.len--;
	kh_buf_init(&sent, 1024 << 10);
	for (size_t i = 0; i < raw.len; i++)
		if (raw.ptr[i] == '\'' && raw.ptr + i >= target->query.ptr && target->query.ptr)
			kh_buf_append_str(&sent, "%27");
		else
			kh_buf_append_char(&sent, raw.ptr[i]);
	size_t path_len = member(c, PATHNAME).len;
	struct kh_slice got = kh_buf_view(&sent);
	if (!kh_slice_eq(kh_slice_sub(got, 0, path_len), member(c, PATHNAME)) ||
	    !kh_slice_eq(kh_slice_sub(got, path_len, got.len), member(c, SEARCH)))
		complain(c, "another path or query", got);
	kh_buf_fini(&sent);
}

static void check_url(const struct url_case *c)
{
	struct kh_target target;
	bool ok = kh_target_parse(&target, KH_SLICE("GET"), member(c, INPUT), NULL);

	/* A path alone is no URL, and they would ask the base for the rest. */
	if (ok && target.absolute) {
		taken++;
		if (c->failure)
			complain(c, "a failure that we take", target.raw);
		else
			check_taken(c, &target);
	} else {
		refused++;
	}
	kh_target_fini(&target);
}

static void test_urls(void **state)
{
	(void)state;
	taken = refused = wrong = 0;
	size_t n = each("urltestdata.json", check_url);
	print_message("%zu URLs: %zu taken, %zu refused\n", n, taken, refused);
	assert_true(n > 800 && taken > 30);
	assert_int_equal(wrong, 0);
}

static void check_host(const struct url_case *c)
{
	struct kh_host host;

	if (!kh_host_parse(&host, member(c, INPUT), NULL)) {
		refused++;
		return;
	}
	taken++;
	if (!c->has[OUTPUT])
		complain(c, "a failure that we take", kh_host_view(&host));
	else if (!kh_slice_eq(kh_host_view(&host), member(c, OUTPUT)))
		complain(c, "another host", kh_host_view(&host));
}

static void test_hosts(void **state)
{
	(void)state;
	taken = refused = wrong = 0;
	size_t n = each("toascii.json", check_host);
	print_message("%zu hosts: %zu taken, %zu refused\n", n, taken, refused);
	assert_true(n > 50 && taken > 5);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_urls),
		cmocka_unit_test(test_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
