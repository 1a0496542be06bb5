/*
 * survey.c - what lies about in a workspace: repositories, files of secrets, sockets of the host
 *
 * One walk, level by level, so that what is near the top is seen first, and bounded in depth and
 * number: a folder of a million files must not hold a start up. Links are not followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <keyhole/file.h>
#include <keyhole/slice.h>

#include "sandbox_internal.h"

enum { DEPTH = 4, ENTRIES_MOST = 8000 };

static bool push(struct kh_paths *paths, char *path)
{
	char **list = path ? reallocarray(paths->list, paths->n + 1, sizeof(*list)) : NULL;
	if (!list) {
		free(path);
		return false;
	}
	paths->list = list;
	list[paths->n++] = path;
	return true;
}

static void paths_fini(struct kh_paths *paths)
{
	for (size_t i = 0; i < paths->n; i++)
		free(paths->list[i]);
	free(paths->list);
}

void kh_survey_fini(struct kh_survey *survey)
{
	paths_fini(&survey->repositories);
	paths_fini(&survey->secrets);
	paths_fini(&survey->sockets);
	*survey = (struct kh_survey){ 0 };
}

/* Examples are written to be read. */
static bool is_env_file(const char *name)
{
	if (strncmp(name, ".env", 4) != 0 || (name[4] != '\0' && name[4] != '.'))
		return false;
	static const char *const examples[] = { ".example", ".sample", ".template", ".dist" };
	struct kh_slice s = kh_slice_str(name);
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
		if (kh_slice_has_suffix(s, kh_slice_str(examples[i])))
			return false;
	return true;
}

/* The file system may not say what an entry is. */
static unsigned char type_of(int dir, const struct dirent *entry)
{
	struct stat st;
	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type;
	if (fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return DT_UNKNOWN;
	return (unsigned char)IFTODT(st.st_mode);
}

struct level {
	struct kh_survey *survey;
	const char *folder;
	bool top;
	struct kh_paths *below; /* folders of the next level; NULL: there is none */
};

static bool look(const struct level *at, const char *name, unsigned char type)
{
	struct kh_paths *into = NULL;
	if (strcmp(name, ".git") == 0) {
		if (at->top)
			return true;
		return push(&at->survey->repositories, strdup(at->folder));
	}
	if (type == DT_SOCK)
		into = &at->survey->sockets;
	else if (type == DT_DIR && strcmp(name, "node_modules") != 0)
		into = at->below;
	else if ((type == DT_REG || type == DT_LNK) && is_env_file(name))
		into = &at->survey->secrets;
	return !into || push(into, kh_strf("%s/%s", at->folder, name));
}

static bool read_level(const struct level *at, unsigned *entries)
{
	DIR *dir = opendir(at->folder);
	if (!dir)
		return true;
	bool ok = true;
	const struct dirent *entry;
	while (ok && *entries < ENTRIES_MOST && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		++*entries;
		ok = look(at, entry->d_name, type_of(dirfd(dir), entry));
	}
	closedir(dir);
	return ok;
}

bool kh_survey_take(struct kh_survey *survey, const char *root, struct kh_err *err)
{
	struct kh_paths now = { 0 }, below = { 0 };
	unsigned entries = 0;
	bool ok = push(&now, strdup(root));
	for (int depth = 0; ok && depth < DEPTH && now.n > 0; depth++) {
		bool last = depth + 1 == DEPTH;
		for (size_t i = 0; ok && i < now.n; i++) {
			struct level at = { survey, now.list[i], depth == 0, last ? NULL : &below };
			ok = read_level(&at, &entries);
		}
		paths_fini(&now);
		now = below;
		below = (struct kh_paths){ 0 };
	}
	paths_fini(&now);
	return ok || kh_err_set(err, KH_ERR_NO_MEMORY, "--workspace: no memory");
}
