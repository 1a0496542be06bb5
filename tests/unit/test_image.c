/* wrap: geteuid getpwuid kh_strf */
/* test_image.c - what an image says of itself, in the form that paths and command lines need */
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

#include <keyhole/sandbox/image.h>
#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/limits.h>

#include <sandbox/image_internal.h>

static bool no_memory; /* for a path */

char *__wrap_kh_strf(const char *fmt, ...);
char *__wrap_kh_strf(const char *fmt, ...)
{
	char *text = NULL;
	va_list args;
	va_start(args, fmt);
	int n = no_memory ? -1 : vasprintf(&text, fmt, args);
	va_end(args);
	return n < 0 ? NULL : text;
}

#define HEX "16de14f8725876158ae002b09898a2f0039e25d41ab5d01c629d0d7eadfada80"

static void reads(const char *json, struct kh_image_config *out)
{
	struct kh_err err = KH_ERR_INIT;
	if (!kh_image_config_parse(kh_slice_str(json), out, &err))
		fail_msg("%s: %s", json, err.text);
}

static void refuses(const char *json, const char *why)
{
	struct kh_image_config config;
	struct kh_err err = KH_ERR_INIT;
	if (kh_image_config_parse(kh_slice_str(json), &config, &err))
		fail_msg("taken: %s", json);
	if (!strstr(err.text, why))
		fail_msg("%s: %s", json, err.text);
}

static void test_all_that_a_configuration_says_is_read(void **state)
{
	(void)state;
	struct kh_image_config c;
	reads("{\"architecture\":\"arm64\",\"os\":\"linux\",\"config\":{\"User\":\"root\","
	      "\"Env\":[\"A=\",\"B=c=d\"],\"Entrypoint\":[\"/e\",\"-x\"],\"Cmd\":[\"\"],"
	      "\"WorkingDir\":\"/srv\"},\"history\":[{}]}",
	      &c);
	assert_string_equal(c.architecture, "arm64");
	assert_string_equal(c.os, "linux");
	assert_int_equal(c.n_env, 2);
	assert_string_equal(c.env[0].name, "A");
	assert_string_equal(c.env[0].value, "");
	assert_string_equal(c.env[1].value, "c=d");
	assert_string_equal(c.entrypoint[1], "-x");
	assert_null(c.entrypoint[2]);
	assert_string_equal(c.command[0], "");
	assert_string_equal(c.directory, "/srv");
	kh_image_config_fini(&c);
}

static void test_what_is_not_said_is_absent(void **state)
{
	(void)state;
	static const char *const texts[] = { "{}", "{\"config\":{}}", "{\"config\":null}",
					     "{\"config\":{\"Env\":null,\"Cmd\":null,"
					     "\"Entrypoint\":[],\"WorkingDir\":\"\"}}" };
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct kh_image_config c;
		reads(texts[i], &c);
		assert_int_equal(c.n_env, 0);
		assert_null(c.entrypoint);
		assert_null(c.command);
		assert_null(c.directory);
		kh_image_config_fini(&c);
	}
}

static void test_a_folder_to_start_in_stays_in_the_root(void **state)
{
	(void)state;
	static const struct {
		const char *said, *meant;
	} cases[] = {
		{ "/", "/" },		{ "//a///b/", "/a/b" }, { "/a/./b/.", "/a/b" },
		{ "/a/../../b", "/b" }, { "/../..", "/" },	{ "/a/..b/.../..", "/a/..b" }
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char json[128];
		snprintf(json, sizeof(json), "{\"config\":{\"WorkingDir\":\"%s\"}}", cases[i].said);
		struct kh_image_config c;
		reads(json, &c);
		assert_string_equal(c.directory, cases[i].meant);
		kh_image_config_fini(&c);
	}
}

static void test_what_has_another_form_is_refused(void **state)
{
	(void)state;
	refuses("", "line 1");
	refuses("[]", "no object");
	refuses("{\"config\":[]}", "config");
	refuses("{\"architecture\":1}", "architecture");
	refuses("{\"os\":[]}", "os");
	refuses("{\"config\":{\"Env\":{}}}", "Env");
	refuses("{\"config\":{\"Env\":[\"A=b\",\"C\"]}}", "Env");
	refuses("{\"config\":{\"Env\":[\"=b\"]}}", "Env");
	refuses("{\"config\":{\"Cmd\":\"sh\"}}", "Cmd");
	refuses("{\"config\":{\"Cmd\":[\"sh\",1]}}", "Cmd");
	refuses("{\"config\":{\"Entrypoint\":[null]}}", "Entrypoint");
	refuses("{\"config\":{\"Cmd\":[\"a\\u0000b\"]}}", "line 1");
	refuses("{\"config\":{},\"config\":{\"Cmd\":[\"x\"]}}", "line 1");
	refuses("{\"config\":{\"WorkingDir\":\"srv\"}}", "WorkingDir");
}

static void test_more_than_a_command_line_holds_is_refused(void **state)
{
	(void)state;
	size_t room = (size_t)KH_LIMIT_IMAGE_WORDS * 8 + 64;
	char *json = malloc(room);
	assert_non_null(json);
	for (int n = KH_LIMIT_IMAGE_WORDS; n <= KH_LIMIT_IMAGE_WORDS + 1; n++) {
		size_t used = (size_t)snprintf(json, room, "{\"config\":{\"Cmd\":[");
		for (int i = 0; i < n; i++)
			used += (size_t)snprintf(json + used, room - used, "%s\"a\"", i ? "," : "");
		snprintf(json + used, room - used, "]}}");
		struct kh_image_config c;
		assert_int_equal(kh_image_config_parse(kh_slice_str(json), &c, NULL),
				 n == KH_LIMIT_IMAGE_WORDS);
		kh_image_config_fini(&c);
	}
	free(json);
}

static void test_a_text_that_is_too_long_is_not_read(void **state)
{
	(void)state;
	char *json = calloc(1, KH_LIMIT_IMAGE_JSON_BYTES + 2);
	assert_non_null(json);
	memset(json, ' ', KH_LIMIT_IMAGE_JSON_BYTES + 1);
	memcpy(json, "{}", 2);
	struct kh_image_config c;
	assert_true(kh_image_config_parse(kh_slice_of(json, KH_LIMIT_IMAGE_JSON_BYTES), &c, NULL));
	assert_false(
		kh_image_config_parse(kh_slice_of(json, KH_LIMIT_IMAGE_JSON_BYTES + 1), &c, NULL));
	free(json);
}

static void test_a_digest_is_64_small_hex_digits_and_nothing_else(void **state)
{
	(void)state;
	static const char *const wrong[] = {
		"sha256:../../../../../../../../../../../../../../../../../../../../../etc",
		"sha256:" HEX "0",
		"sha512:" HEX,
		HEX,
		"sha256:16DE14F8725876158ae002b09898a2f0039e25d41ab5d01c629d0d7eadfada80",
	};
	char json[256], digest[KH_IMAGE_DIGEST_ROOM];
	snprintf(json, sizeof(json), "{\"manifests\":[{\"digest\":\"sha256:%s\"}]}", HEX);
	assert_true(kh_image_index_parse(kh_slice_str(json), digest, NULL));
	assert_string_equal(digest, "sha256:" HEX);
	snprintf(json, sizeof(json), "{\"config\":{\"digest\":\"sha256:%s\"}}", HEX);
	assert_true(kh_image_manifest_parse(kh_slice_str(json), digest, NULL));
	assert_string_equal(digest, "sha256:" HEX);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(json, sizeof(json), "{\"manifests\":[{\"digest\":\"%s\"}]}", wrong[i]);
		assert_false(kh_image_index_parse(kh_slice_str(json), digest, NULL));
		snprintf(json, sizeof(json), "{\"config\":{\"digest\":\"%s\"}}", wrong[i]);
		assert_false(kh_image_manifest_parse(kh_slice_str(json), digest, NULL));
	}
}

static void test_an_index_names_one_image(void **state)
{
	(void)state;
	char digest[KH_IMAGE_DIGEST_ROOM];
	static const char one[] = "{\"digest\":\"sha256:" HEX "\"}";
	char json[512];
	snprintf(json, sizeof(json), "{\"manifests\":[%s,%s]}", one, one);
	assert_false(kh_image_index_parse(kh_slice_str(json), digest, NULL));
	assert_false(kh_image_index_parse(kh_slice_str("{\"manifests\":[]}"), digest, NULL));
	assert_false(kh_image_index_parse(kh_slice_str("{\"manifests\":{}}"), digest, NULL));
	assert_false(kh_image_index_parse(kh_slice_str("{}"), digest, NULL));
}

static void test_the_architectures_of_an_index_are_named_once_each(void **state)
{
	(void)state;
	static const char json[] =
		"{\"manifests\":[{\"platform\":{\"architecture\":\"arm64\"}},"
		"{\"platform\":{\"architecture\":\"s390x\"}},{\"platform\":{\"architecture\":"
		"\"arm64\"}},"
		"{\"platform\":{\"architecture\":\"\\u001b[2J\"}},{\"platform\":1},3]}";
	char out[32];
	kh_image_platforms_parse(kh_slice_str(json), out, sizeof(out));
	assert_string_equal(out, "arm64, s390x");
	kh_image_platforms_parse(kh_slice_str(json), out, 8);
	assert_string_equal(out, "arm64");
	kh_image_platforms_parse(kh_slice_str("no JSON"), out, sizeof(out));
	assert_string_equal(out, "");
}

/* Not as one that is not in the cache, which would be fetched, and not without a word. */
static void test_a_lack_of_memory_is_said_where_an_image_is_opened(void **state)
{
	const struct kh_image_options options = { .cache = NULL };
	struct kh_image image = { .lock = -1 };
	struct kh_err open_err = KH_ERR_INIT, take_err = KH_ERR_INIT, note_err = KH_ERR_INIT;
	(void)state;
	no_memory = true;
	assert_false(kh_image_open("debian", &options, &image, &open_err));
	assert_false(kh_image_cache_take("/nonexistent", HEX, &image, &take_err));
	assert_false(kh_image_cache_note("/nonexistent", "key", HEX, &note_err));
	no_memory = false;
	assert_int_equal(open_err.code, KH_ERR_NO_MEMORY);
	assert_int_equal(take_err.code, KH_ERR_NO_MEMORY);
	assert_int_equal(note_err.code, KH_ERR_NO_MEMORY);
	take_err = (struct kh_err)KH_ERR_INIT;
	assert_false(kh_image_cache_take("/nonexistent", HEX, &image, &take_err));
	assert_int_equal(take_err.code, KH_ERR_NONE);
}

/* A user who is not root, with this entry. */
static struct passwd *entry;

struct passwd *__wrap_getpwuid(uid_t uid);
struct passwd *__wrap_getpwuid(uid_t uid)
{
	(void)uid;
	return entry;
}

uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
	return 1234;
}

static void test_without_a_home_no_folder_of_anybodys_holds_images(void **state)
{
	(void)state;
	char mine[] = "/of/mine";
	struct passwd user = { .pw_dir = mine };
	struct kh_err err = KH_ERR_INIT;
	assert_int_equal(unsetenv("XDG_CACHE_HOME") | unsetenv("HOME"), 0);
	entry = NULL;
	assert_null(kh_image_cache(&err));
	assert_int_equal(err.code, KH_ERR_USAGE);
	entry = &user;
	kh_auto_free char *of_entry = kh_image_cache(&err);
	assert_string_equal(of_entry, "/of/mine/.cache/keyhole");
	assert_int_equal(setenv("HOME", "/h", 1), 0);
	kh_auto_free char *of_home = kh_image_cache(&err);
	assert_string_equal(of_home, "/h/.cache/keyhole");
	assert_int_equal(setenv("XDG_CACHE_HOME", "/c", 1), 0);
	kh_auto_free char *named = kh_image_cache(&err);
	assert_string_equal(named, "/c/keyhole");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_lack_of_memory_is_said_where_an_image_is_opened),
		cmocka_unit_test(test_all_that_a_configuration_says_is_read),
		cmocka_unit_test(test_what_is_not_said_is_absent),
		cmocka_unit_test(test_a_folder_to_start_in_stays_in_the_root),
		cmocka_unit_test(test_what_has_another_form_is_refused),
		cmocka_unit_test(test_more_than_a_command_line_holds_is_refused),
		cmocka_unit_test(test_without_a_home_no_folder_of_anybodys_holds_images),
		cmocka_unit_test(test_a_text_that_is_too_long_is_not_read),
		cmocka_unit_test(test_a_digest_is_64_small_hex_digits_and_nothing_else),
		cmocka_unit_test(test_an_index_names_one_image),
		cmocka_unit_test(test_the_architectures_of_an_index_are_named_once_each),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
