/*
 * fuzz_image.c - the JSON texts of an image: its index, its manifest, its configuration
 *
 * What comes out of them is put into a path, an environment and a command line: so it has the form
 * that it must have there.
 */
#include <keyhole/sandbox/image.h>
#include <keyhole/base/limits.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void check_digest(const char *digest)
{
	require(strlen(digest) == 71 && strncmp(digest, "sha256:", 7) == 0);
	require(strspn(digest + 7, "0123456789abcdef") == 64);
}

static void check_words(char *const *words)
{
	size_t n = 0;
	while (words && words[n])
		n++;
	require(!words || (n > 0 && n <= KH_LIMIT_IMAGE_WORDS));
}

static void check_directory(const char *path)
{
	require(path[0] == '/' && (!path[1] || path[strlen(path) - 1] != '/'));
	require(!strstr(path, "//"));
	for (const char *part = path; part; part = strchr(part, '/')) {
		part++;
		size_t len = strcspn(part, "/");
		require(!(len == 1 && part[0] == '.'));
		require(!(len == 2 && part[0] == '.' && part[1] == '.'));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_slice json = kh_slice_of(data, size);
	char digest[KH_IMAGE_DIGEST_ROOM];
	struct kh_image_config config;
	struct kh_err err = KH_ERR_INIT;
	if (kh_image_index_parse(json, digest, &err))
		check_digest(digest);
	if (kh_image_manifest_parse(json, digest, &err))
		check_digest(digest);
	char platforms[48];
	kh_image_platforms_parse(json, platforms, sizeof(platforms));
	require(strlen(platforms) < sizeof(platforms));
	if (!kh_image_config_parse(json, &config, &err)) {
		require(err.code != KH_ERR_NONE && !config.env && !config.entrypoint);
		return 0;
	}
	require(config.n_env <= KH_LIMIT_IMAGE_WORDS);
	for (size_t i = 0; i < config.n_env; i++)
		require(config.env[i].name[0] && !strchr(config.env[i].name, '='));
	check_words(config.entrypoint);
	check_words(config.command);
	if (config.directory)
		check_directory(config.directory);
	kh_image_config_fini(&config);
	return 0;
}
