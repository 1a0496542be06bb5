/*
 * fuzz_agent_profile.c - policies/agents/NAME.yaml, and the places in its files
 *
 * Whatever is read names paths below the home alone. What fills a place never ends the JSON string
 * that it stands in.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/config/agent_profile.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static const char *placeholder(const char *variable, void *arg)
{
	(void)arg;
	return variable[0] == 'A' ? "\"\n\\}${A}" : NULL;
}

static void check_path(const char *path)
{
	require(path && path[0] && path[0] != '/' && !strstr(path, "//"));
	kh_auto_free char *framed = NULL;
	size_t len = strlen(path);
	framed = malloc(len + 3);
	require(framed != NULL);
	framed[0] = '/';
	memcpy(framed + 1, path, len);
	memcpy(framed + 1 + len, "/", 2);
	require(!strstr(framed, "/../") && !strstr(framed, "/./"));
}

static void fill(const char *content)
{
	/* Without the file's own bytes: what is put in alone. */
	kh_auto_free char *filled = kh_home_template_fill(content, "/w\"\n", placeholder, NULL);
	if (!filled || strpbrk(content, "\"\n\\"))
		return;
	for (const char *c = filled; *c; c++) {
		require(*c != '\n' && *c != '"');
		c += *c == '\\' && c[1];
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_agent_profile *profile =
		kh_agent_profile_parse("fuzz", kh_slice_of((const char *)data, size), &diags);
	require(profile != NULL || diags.errors > 0);
	if (profile) {
		require(profile->description && profile->commands.count > 0);
		for (size_t i = 0; i < profile->files.count; i++) {
			check_path(profile->files.list[i].path);
			fill(profile->files.list[i].content);
		}
		if (profile->guide)
			check_path(profile->guide);
	}
	kh_agent_profile_free(profile);
	kh_diagnostics_fini(&diags);
	return 0;
}
