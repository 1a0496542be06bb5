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

char *kh_program_path(void)
{
	const char *path = getenv("PATH");
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
	return out;
}
