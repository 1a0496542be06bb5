/*
 * dotenv.c - what lies about in a workspace that a sandbox should not get without a word: files of
 * secrets (.env), and sockets of programs that run on the host
 *
 * One walk, not deep, and bounded: a project's own are at its top or near it.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/escape.h>
#include <keyhole/file.h>
#include <keyhole/log.h>
#include <keyhole/slice.h>

#include "sandbox_internal.h"

enum { DEPTH = 3, ENTRIES_MOST = 5000, NAMED_MOST = 3 };

struct walk {
	struct kh_view *view;
	const struct kh_sandbox_spec *spec;
	unsigned entries, found;
	char names[NAMED_MOST][256]; /* the first few, for the warning */
	struct kh_err *err;
};

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

/* An empty file over it. */
static bool mask(struct walk *w, const char *path)
{
	if (!kh_view_file(w->view, path, 0444, KH_SLICE(""), w->err))
		return false;
	if (!w->view->failed)
		w->view->list[w->view->n - 1].kind = KH_MOUNT_EMPTY;
	return true;
}

static bool found_env(struct walk *w, const char *path)
{
	if (w->found < NAMED_MOST)
		snprintf(w->names[w->found], sizeof(w->names[0]), "%s",
			 kh_esc_str(path + strlen(w->spec->workspace) + 1));
	w->found++;
	if (!w->spec->mask_env_files)
		return true;
	/* A link is masked where it leads, if that is in the workspace; else it leads nowhere. */
	kh_auto_free char *resolved = realpath(path, NULL);
	size_t len = strlen(w->spec->workspace);
	if (!resolved || strncmp(resolved, w->spec->workspace, len) != 0 || resolved[len] != '/' ||
	    kh_view_has(w->view, resolved))
		return true;
	return mask(w, resolved);
}

static bool found_socket(struct walk *w, const char *path)
{
	kh_log_warn("%s is a socket of the host; the sandbox sees an empty file in its place",
		    kh_esc_str(path));
	return kh_view_has(w->view, path) || mask(w, path);
}

static bool walk(struct walk *w, const char *folder, int depth)
{
	DIR *dir = opendir(folder);
	if (!dir)
		return true;
	bool ok = true;
	const struct dirent *entry;
	while (ok && w->entries < ENTRIES_MOST && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		w->entries++;
		bool is_env = is_env_file(name);
		unsigned char type = entry->d_type;
		if (type == DT_REG && !is_env)
			continue;
		kh_auto_free char *path = kh_strf("%s/%s", folder, name);
		struct stat st;
		if (!path || lstat(path, &st) != 0)
			continue;
		if (S_ISSOCK(st.st_mode))
			ok = found_socket(w, path);
		else if (S_ISDIR(st.st_mode) && depth < DEPTH && strcmp(name, "node_modules") != 0)
			ok = walk(w, path, depth + 1);
		else if (is_env && !S_ISDIR(st.st_mode))
			ok = found_env(w, path);
	}
	closedir(dir);
	return ok;
}

bool kh_dotenv_lay(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	if (!spec->workspace)
		return true;
	struct walk w = { .view = view, .spec = spec, .err = err };
	if (!walk(&w, spec->workspace, 1))
		return false;
	if (w.found > 0 && !spec->mask_env_files)
		kh_log_warn("the sandbox can read %s%s%s%s%s%s in the workspace (--mask-env shows "
			    "them empty)",
			    w.names[0], w.found > 1 ? ", " : "", w.found > 1 ? w.names[1] : "",
			    w.found > 2 ? ", " : "", w.found > 2 ? w.names[2] : "",
			    w.found > 3 ? " and more" : "");
	return true;
}
