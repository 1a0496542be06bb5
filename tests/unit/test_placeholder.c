/* test_placeholder.c - placeholders: shapes, drawing, and knowing them again wherever they turn up
 */
#include "unit.h"

#include <stdlib.h>

#include <openssl/evp.h>

#include <keyhole/credential/placeholder.h>

static const struct kh_placeholder_key key = { { 1, 2, 3 } }, other_key = { { 9 } };
static const struct kh_placeholder_owner owner = { "acme", "sb-1", "github" };

static char *make(enum kh_shape shape, size_t length)
{
	struct kh_placeholder_spec spec = { .shape = shape, .length = length };
	struct kh_err err = KH_ERR_INIT;
	char *made = kh_placeholder_make(&key, &spec, &owner, &err);

	assert_non_null(made);
	return made;
}

static void is_of(const char *text, const char *alphabet)
{
	assert_int_equal(strspn(text, alphabet), strlen(text));
}

#define BASE62 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static void every_shape_has_prefix_and_usual_length(void **state)
{
	static const struct {
		enum kh_shape shape;
		const char *prefix;
		size_t len;
	} shapes[] = {
		{ KH_SHAPE_ANTHROPIC, "sk-ant-api03-", 108 },
		{ KH_SHAPE_ANTHROPIC_OAUTH, "sk-ant-oat01-", 108 },
		{ KH_SHAPE_OPENAI, "sk-", 51 },
		{ KH_SHAPE_OPENAI_PROJECT, "sk-proj-", 164 },
		{ KH_SHAPE_GOOGLE, "AIza", 39 },
		{ KH_SHAPE_GITHUB, "ghp_", 40 },
		{ KH_SHAPE_GITHUB_OAUTH, "gho_", 40 },
		{ KH_SHAPE_GITHUB_APP, "ghs_", 40 },
		{ KH_SHAPE_GITHUB_FINE_GRAINED, "github_pat_", 93 },
		{ KH_SHAPE_GITLAB, "glpat-", 26 },
		{ KH_SHAPE_NPM, "npm_", 40 },
		{ KH_SHAPE_AWS_KEY_ID, "AKIA", 20 },
		{ KH_SHAPE_AWS_SECRET, "", 40 },
		{ KH_SHAPE_SLACK_BOT, "xoxb-", 56 },
		{ KH_SHAPE_SLACK_USER, "xoxp-", 56 },
		{ KH_SHAPE_HUGGINGFACE, "hf_", 37 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		char *made = make(shapes[i].shape, 0);
		assert_int_equal(strlen(made), shapes[i].len);
		assert_memory_equal(made, shapes[i].prefix, strlen(shapes[i].prefix));
		/* What it is taken for, others are as well; nothing tells AWS's secrets. */
		if (shapes[i].shape != KH_SHAPE_AWS_SECRET)
			assert_int_equal(kh_shape_of(kh_slice_str(made)), shapes[i].shape);
		free(made);
	}
	char *made = make(KH_SHAPE_GITHUB_FINE_GRAINED, 0);
	assert_int_equal(made[11 + 22], '_');
	free(made);
	made = make(KH_SHAPE_AWS_KEY_ID, 0);
	is_of(made, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567");
	free(made);
	made = make(KH_SHAPE_HUGGINGFACE, 0);
	is_of(made + 3, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
	free(made);
}

static uint32_t crc32_of(const char *s, size_t len)
{
	uint32_t crc = ~UINT32_C(0);
	for (size_t i = 0; i < len; i++)
		for (int bit = 0; bit < 8; bit++) {
			uint32_t in = ((uint32_t)(unsigned char)s[i] >> bit ^ crc) & 1;
			crc = crc >> 1 ^ (in ? UINT32_C(0xedb88320) : 0);
		}
	return ~crc;
}

static bool has_checksum(const char *token, size_t prefix)
{
	static const char digits[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	size_t len = strlen(token);
	uint64_t said = 0;
	for (size_t i = len - 6; i < len; i++)
		said = said * 62 + (uint64_t)(strchr(digits, token[i]) - digits);
	return said == crc32_of(token + prefix, len - 6 - prefix);
}

static void githubs_checksum_fits(void **state)
{
	static const enum kh_shape shapes[] = { KH_SHAPE_GITHUB, KH_SHAPE_NPM,
						KH_SHAPE_GITHUB_APP };
	(void)state;
	/* From GitHub's announcement of the format. */
	assert_true(has_checksum("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", 4));
	for (size_t i = 0; i < 3; i++) {
		char *made = make(shapes[i], 0);
		assert_true(has_checksum(made, 4));
		made[20] = made[20] == 'a' ? 'b' : 'a';
		assert_false(has_checksum(made, 4));
		free(made);
	}
}

static void a_jwt_can_be_read_and_lasts(void **state)
{
	unsigned char out[256];
	char part[256];
	char *made = make(KH_SHAPE_JWT, 700);
	(void)state;
	assert_int_equal(strlen(made), 700);
	assert_int_equal(kh_shape_of(kh_slice_str(made)), KH_SHAPE_JWT);
	const char *payload = strchr(made, '.') + 1;
	size_t len = strcspn(payload, ".");
	memcpy(part, payload, len);
	while (len % 4)
		part[len++] = '=';
	part[len] = '\0';
	assert_true(EVP_DecodeBlock(out, (unsigned char *)part, (int)len) > 0);
	assert_non_null(strstr((char *)out, "\"exp\":4102444800"));
	free(made);
}

static void it_is_as_long_as_the_real_one(void **state)
{
	struct kh_placeholder_spec spec = { .shape = KH_SHAPE_GENERIC,
					    .prefix = "tok_",
					    .alphabet = "0123456789abcdef",
					    .length = 68 };
	char *made = kh_placeholder_make(&key, &spec, &owner, NULL);
	(void)state;
	assert_non_null(made);
	assert_int_equal(strlen(made), 68);
	assert_memory_equal(made, "tok_", 4);
	is_of(made + 4, "0123456789abcdef");
	free(made);
	spec.length = 9; /* shorter than a core: longer than the real one */
	made = kh_placeholder_make(&key, &spec, &owner, NULL);
	assert_int_equal(strlen(made), 4 + 26);
	free(made);
	made = make(KH_SHAPE_ANTHROPIC, 120);
	assert_int_equal(strlen(made), 120);
	assert_string_equal(made + 118, "AA");
	free(made);
	made = make(KH_SHAPE_GENERIC, 33);
	assert_int_equal(strlen(made), 33);
	is_of(made, BASE62);
	free(made);
}

static void an_alphabet_without_room_for_a_mark_is_refused(void **state)
{
	static const char *const bad[] = { "ab", "aaaaaaaaaaaaaaaaaaaaaaaa", "0123456789\r\n",
					   "abcdefghijklmnop" };
	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kh_placeholder_spec spec = { .shape = KH_SHAPE_GENERIC, .alphabet = bad[i] };
		struct kh_err err = KH_ERR_INIT;
		assert_null(kh_placeholder_make(&key, &spec, &owner, &err));
		assert_int_equal(err.code, KH_ERR_CONFIG);
	}
	struct kh_placeholder_spec spec = { .shape = KH_SHAPE_GENERIC, .length = (size_t)1 << 40 };
	assert_null(kh_placeholder_make(&key, &spec, &owner, NULL));
}

static void the_same_sandbox_gets_the_same_and_another_another(void **state)
{
	struct kh_placeholder_spec spec = { .shape = KH_SHAPE_GITHUB };
	struct kh_placeholder_owner others[] = { { "acme", "sb-2", "github" },
						 { "acm", "esb-1", "github" },
						 { "acme", "sb-1", "githuc" } };
	char *one = make(KH_SHAPE_GITHUB, 0), *again = make(KH_SHAPE_GITHUB, 0);
	(void)state;
	assert_string_equal(one, again);
	for (size_t i = 0; i < 3; i++) {
		char *made = kh_placeholder_make(&key, &spec, &others[i], NULL);
		assert_string_not_equal(made, one);
		assert_memory_equal(made, one, 4 + 9); /* the mark is the daemon's */
		free(made);
	}
	char *made = kh_placeholder_make(&other_key, &spec, &owner, NULL);
	assert_memory_not_equal(made + 4, one + 4, 9);
	free(made);
	free(one);
	free(again);
}

static void characters_are_as_likely_as_each_other(void **state)
{
	size_t seen[256] = { 0 };
	double chi = 0, each = 0;
	(void)state;
	char *made = make(KH_SHAPE_GENERIC, 60019);
	for (const char *c = made + 19; *c; c++)
		seen[(unsigned char)*c]++;
	each = 60000.0 / 62;
	for (int c = 0; c < 256; c++)
		if (seen[c])
			chi += ((double)seen[c] - each) * ((double)seen[c] - each) / each;
	/* 61 degrees of freedom; modulo would give about 400 here. */
	assert_true(chi < 150);
	free(made);
}

/* ---- knowing it again ---- */

struct got {
	size_t count, own, named, unknown;
};

static bool note(const struct kh_mark *mark, void *arg)
{
	struct got *got = arg;
	struct kh_owner_tag tag;
	struct kh_name_tag name;
	kh_owner_tag_make(&tag, &key, "acme", "sb-1");
	kh_name_tag_make(&name, &key, "github");
	got->count++;
	got->own += kh_mark_is_of(mark, &tag);
	got->named += kh_mark_is_named(mark, &name);
	got->unknown += mark->len == 0;
	return true;
}

static struct kh_marks *marks_of(bool digits)
{
	const struct kh_placeholder_key keys[] = { other_key, key };
	struct kh_marks *marks = kh_marks_new(keys, 2, digits, NULL);
	assert_non_null(marks);
	return marks;
}

static struct got find_all(const struct kh_marks *marks, const char *text, size_t len)
{
	struct got got = { 0 };
	struct kh_mark mark;
	for (size_t at = 0; kh_marks_find(marks, kh_slice_of(text, len), &at, &mark);)
		(void)note(&mark, &got);
	return got;
}

static void it_is_found_raw_and_in_base64_at_any_place(void **state)
{
	struct kh_marks *marks = marks_of(true);
	struct kh_placeholder_spec hex = { .shape = KH_SHAPE_GENERIC,
					   .alphabet = "0123456789abcdef",
					   .length = 40 };
	char *made[] = { make(KH_SHAPE_GITHUB, 0), kh_placeholder_make(&key, &hex, &owner, NULL) };
	char text[512];
	unsigned char encoded[1024];
	(void)state;
	for (size_t m = 0; m < 2; m++) {
		for (size_t before = 0; before < 40; before++) {
			memset(text, 'x', before);
			(void)snprintf(text + before, sizeof(text) - before, "%s and more",
				       made[m]);
			struct got got = find_all(marks, text, strlen(text));
			assert_int_equal(got.count, 1);
			assert_int_equal(got.own, 1);
			assert_int_equal(got.named, 1);
			int n = EVP_EncodeBlock(encoded, (unsigned char *)text, (int)strlen(text));
			got = find_all(marks, (char *)encoded, (size_t)n);
			assert_int_equal(got.count, 1);
			assert_int_equal(got.own, 1);
			assert_int_equal(got.named, 1);
		}
		free(made[m]);
	}
	kh_marks_free(marks);
}

static void another_sandboxs_is_found_and_is_not_ours(void **state)
{
	struct kh_placeholder_spec spec = { .shape = KH_SHAPE_NPM };
	struct kh_placeholder_owner other = { "acme", "sb-2", "github" };
	struct kh_marks *marks = marks_of(false);
	char *made = kh_placeholder_make(&key, &spec, &other, NULL);
	struct got got = find_all(marks, made, strlen(made));
	(void)state;
	assert_int_equal(got.count, 1);
	assert_int_equal(got.own, 0);
	free(made);
	/* Cut off behind the mark: found, and nobody's. */
	made = make(KH_SHAPE_NPM, 0);
	got = find_all(marks, made, 4 + 9);
	assert_int_equal(got.count, 1);
	assert_int_equal(got.unknown, 1);
	got = find_all(marks, made, 4 + 8);
	assert_int_equal(got.count, 0);
	free(made);
	kh_marks_free(marks);
}

static void escapes_are_undone(void **state)
{
	char out[64];
	(void)state;
	size_t n = kh_mark_unescape(KH_SLICE("a%41\\u0042\\/%2"), out);
	assert_int_equal(n, 6);
	assert_memory_equal(out, "aAB/%2", 6);
	assert_int_equal(kh_mark_unescape(KH_SLICE("plain"), out), 0);
	assert_int_equal(kh_mark_unescape(KH_SLICE("100% \\d \\u12"), out), 0);
	assert_int_equal(kh_mark_unescape(KH_SLICE(""), out), 0);
}

static struct got scan(const struct kh_marks *marks, const char *text, size_t len, size_t piece,
		       bool eager)
{
	struct kh_mark_scan s = { .marks = marks, .eager = eager };
	struct got got = { 0 };
	bool more = true;
	for (size_t at = 0; more && at < len; at += piece) {
		size_t n = len - at < piece ? len - at : piece;
		/* On the heap, so that a read beyond is seen. */
		char *copy = malloc(n);
		memcpy(copy, text + at, n);
		more = kh_mark_scan_feed(&s, kh_slice_of(copy, n), note, &got);
		free(copy);
	}
	if (more)
		(void)kh_mark_scan_end(&s, note, &got);
	assert_true(!eager || more == (got.count == 0));
	return got;
}

static void in_pieces_of_any_size_it_is_found_once(void **state)
{
	struct kh_marks *marks = marks_of(true);
	char *made = make(KH_SHAPE_GITHUB, 0);
	char text[400];
	(void)state;
	for (size_t before = 0; before < 70; before += 3) {
		memset(text, 'Q', before);
		(void)snprintf(text + before, sizeof(text) - before, "\"%s\" behind it", made);
		for (size_t piece = 1; piece < 90; piece++) {
			struct got got = scan(marks, text, strlen(text), piece, false);
			assert_int_equal(got.count, 1);
			assert_int_equal(got.own, 1);
			assert_int_equal(got.named, 1);
			got = scan(marks, text, strlen(text), piece, true);
			assert_int_equal(got.count, 1);
			/* At the very end, and cut off there. */
			got = scan(marks, text, before + 1 + 4 + 9, piece, false);
			assert_int_equal(got.count, 1);
			assert_int_equal(got.own, 0);
		}
	}
	free(made);
	kh_marks_free(marks);
}

static void in_pieces_it_is_found_however_it_is_escaped(void **state)
{
	struct kh_marks *marks = marks_of(false);
	char *made = make(KH_SHAPE_GITHUB, 0);
	char text[1024];
	(void)state;
	for (unsigned how = 0; how < 6; how++) {
		size_t len = (size_t)snprintf(text, sizeof(text), "{\"a\":\"");
		for (size_t i = 0; made[i]; i++) {
			size_t kind = how == 0	 ? 1
				      : how == 1 ? 2
				      : how == 2 ? i % 3
						 : (i / how) % 2;
			len += (size_t)snprintf(text + len, sizeof(text) - len,
						kind == 1   ? "%%%02x"
						: kind == 2 ? "\\u%04X"
							    : "%c",
						made[i]);
		}
		len += (size_t)snprintf(text + len, sizeof(text) - len, "\"}");
		for (size_t piece = 1; piece < 80; piece++) {
			struct got got = scan(marks, text, len, piece, false);
			assert_true(got.count >= 1);
			assert_int_equal(got.own, got.count);
			assert_int_equal(scan(marks, text, len, piece, true).count, 1);
		}
	}
	free(made);
	kh_marks_free(marks);
}

static void two_of_them_are_two(void **state)
{
	struct kh_marks *marks = marks_of(false);
	char *made = make(KH_SHAPE_GITHUB, 0);
	char text[1024];
	int len = snprintf(text, sizeof(text), "%s,%s%*s%s", made, made, 200, "", made);
	(void)state;
	for (size_t piece = 1; piece < 300; piece++) {
		struct got got = scan(marks, text, (size_t)len, piece, false);
		assert_int_equal(got.count, 3);
		assert_int_equal(got.own, 3);
	}
	free(made);
	kh_marks_free(marks);
}

/* Whoever knows the marks puts them where what is behind another is still to come. */
static void another_mark_behind_it_hides_none(void **state)
{
	struct kh_marks *marks = marks_of(true);
	char *letters = make(KH_SHAPE_GITHUB, 0);
	char text[1024];
	(void)state;
	for (size_t between = 0; between < 64; between++) {
		int len = snprintf(text, sizeof(text), "%s%*s%.9s%.9s%.9s%.9s%.9s%.9s.", letters,
				   (int)between, "", letters + 4, letters + 4, letters + 4,
				   letters + 4, letters + 4, letters + 4);
		for (size_t piece = 1; piece < 80; piece++) {
			struct got got = scan(marks, text, (size_t)len, piece, false);
			assert_int_equal(got.own, 1);
			assert_int_equal(got.count, 7);
			assert_int_equal(scan(marks, text, (size_t)len, piece, true).count, 1);
		}
	}
	free(letters);
	kh_marks_free(marks);
}

static void nothing_is_found_where_nothing_is(void **state)
{
	struct kh_marks *marks = marks_of(true);
	char *bytes = malloc(1 << 20);
	uint32_t x = 7;
	(void)state;
	for (size_t i = 0; i < 1 << 20; i++) {
		x = x * 1664525 + 1013904223;
		bytes[i] = BASE62[(x >> 16) % 62];
	}
	assert_int_equal(find_all(marks, bytes, 1 << 20).count, 0);
	assert_int_equal(scan(marks, bytes, 1 << 20, 4099, false).count, 0);
	free(bytes);
	kh_marks_free(marks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_shape_has_prefix_and_usual_length),
		cmocka_unit_test(githubs_checksum_fits),
		cmocka_unit_test(a_jwt_can_be_read_and_lasts),
		cmocka_unit_test(it_is_as_long_as_the_real_one),
		cmocka_unit_test(an_alphabet_without_room_for_a_mark_is_refused),
		cmocka_unit_test(the_same_sandbox_gets_the_same_and_another_another),
		cmocka_unit_test(characters_are_as_likely_as_each_other),
		cmocka_unit_test(it_is_found_raw_and_in_base64_at_any_place),
		cmocka_unit_test(another_sandboxs_is_found_and_is_not_ours),
		cmocka_unit_test(escapes_are_undone),
		cmocka_unit_test(in_pieces_of_any_size_it_is_found_once),
		cmocka_unit_test(in_pieces_it_is_found_however_it_is_escaped),
		cmocka_unit_test(two_of_them_are_two),
		cmocka_unit_test(another_mark_behind_it_hides_none),
		cmocka_unit_test(nothing_is_found_where_nothing_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
