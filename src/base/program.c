/* program.c - finds a program of the host by its name */
#include <keyhole/base/program.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/writable.h>

char *kh_program_find(const char *name)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t len = strcspn(path, ":");
		kh_auto_free char *entry = kh_strf("%.*s", (int)len, path);
		kh_auto_free char *program = kh_strf("%.*s/%s", (int)len, path, name);

		if (entry && program && entry[0] == '/' && access(program, X_OK) == 0 &&
		    !kh_writable_is(program, KH_WRITABLE_FOR_PROGRAMS))
			return kh_steal_ptr(&program);
		path += len + (path[len] == ':');
	}
	return NULL;
}

static bool is_good_entry(const char *entry)
{
	return entry[0] == '/' && access(entry, F_OK) == 0 &&
	       !kh_writable_is(entry, KH_WRITABLE_FOR_PROGRAMS);
}

/* In an empty PATH programs look in the working folder. */
#define NOWHERE "/nonexistent"

static char *good_entries(const char *path)
{
	char *out = strdup("");

	while (out && path && *path) {
		size_t len = strcspn(path, ":");
		kh_auto_free char *entry = kh_strf("%.*s", (int)len, path);
		kh_auto_free char *before = out;

		path += len + (path[len] == ':');
		out = !entry ? NULL
		      : !is_good_entry(entry)
			      ? kh_steal_ptr(&before)
			      : kh_strf("%s%s%s", before, *before ? ":" : "", entry);
	}
	if (out && !*out) {
		free(out);
		out = strdup(NOWHERE);
	}
	return out;
}

char *kh_program_path(void)
{
	return good_entries(getenv("PATH"));
}

static bool is_path(const char *variable)
{
	return strncmp(variable, "PATH=", strlen("PATH=")) == 0;
}

char **kh_program_environment(char *const *given)
{
	char *const *from = given ? given : environ;
	size_t n = 0, room = 0;
	for (; from && from[n]; n++)
		room += is_path(from[n]) ? strlen(from[n]) + sizeof(NOWHERE) : 0;
	char **out = malloc((n + 1) * sizeof(*out) + room);
	char *text = (char *)(out + n + 1);

	for (size_t i = 0; out && i < n; i++) {
		out[i] = from[i];
		if (!is_path(from[i]))
			continue;
		kh_auto_free char *path = good_entries(from[i] + strlen("PATH="));
		kh_auto_free char *entry = path ? kh_strf("PATH=%s", path) : NULL;
		if (!entry) {
			free(out);
			return NULL;
		}
		out[i] = memcpy(text, entry, strlen(entry) + 1);
		text += strlen(entry) + 1;
	}
	if (out)
		out[n] = NULL;
	return out;
}
