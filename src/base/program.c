/* program.c - finds a program of the host by its name */
#include <keyhole/base/program.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/file.h>
#include <keyhole/base/cleanup.h>

static char *avoided[KH_PROGRAM_AVOIDED];
static unsigned n_avoided;

static bool is_in(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static bool is_avoided(const char *path)
{
	for (unsigned i = 0; i < n_avoided; i++)
		if (is_in(path, avoided[i]))
			return true;
	return false;
}

bool kh_program_avoid(const char *folder)
{
	kh_auto_free char *path = realpath(folder, NULL);

	if (!path || strcmp(path, "/") == 0)
		return path != NULL;
	if (is_avoided(path))
		return true;
	if (n_avoided == KH_PROGRAM_AVOIDED)
		return false;
	avoided[n_avoided++] = kh_steal_ptr(&path);
	return true;
}

/* Neither the folder that PATH names nor the file that it leads to. */
static bool is_trusted(const char *entry, const char *program)
{
	kh_auto_free char *folder = realpath(entry, NULL);
	kh_auto_free char *file = realpath(program, NULL);

	return folder && file && !is_avoided(folder) && !is_avoided(file);
}

char *kh_program_find(const char *name)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t len = strcspn(path, ":");
		kh_auto_free char *entry = kh_strf("%.*s", (int)len, path);
		kh_auto_free char *program = kh_strf("%.*s/%s", (int)len, path, name);

		if (entry && program && entry[0] == '/' && access(program, X_OK) == 0 &&
		    is_trusted(entry, program))
			return kh_steal_ptr(&program);
		path += len + (path[len] == ':');
	}
	return NULL;
}

static bool is_good_entry(const char *entry)
{
	kh_auto_free char *folder = entry[0] == '/' ? realpath(entry, NULL) : NULL;

	return folder && !is_avoided(folder);
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
