/*
 * inlets.c - symbolic links into folders that are exempt from the check of tools' names
 *
 * Packages contain settings of editors, and git branches may have any name. So names of tools'
 * files do not count below node_modules and .git (concern.c), since nobody opens these folders as a
 * project. But a symbolic link elsewhere may make a project of a folder in there. So the targets of
 * such links, and of links in these targets, are searched again without the exemption, before a run
 * and after it. If the target of a link can't be determined, nothing is exempt.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/link_end.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>

#include "inlets.h"

void kh_inlets_fini(struct kh_inlets *inlets)
{
	for (size_t i = 0; i < inlets->n; i++)
		free(inlets->list[i]);
	free(inlets->list);
	*inlets = (struct kh_inlets){ 0 };
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "the survey of the workspace: no memory");
}

/* Is it one of those folders, or below one? */
static bool is_exempt(const char *path)
{
	struct kh_slice all = kh_slice_str(path);
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '/', at);
		struct kh_slice part = kh_slice_sub(all, at, end);
		if (kh_slice_eq_nocase(part, KH_SLICE("node_modules")) ||
		    kh_slice_eq(part, KH_SLICE(".git")))
			return true;
		at = end + 1;
	}
	return false;
}

/* A path of the workspace, from its root. NULL: it is none. */
static const char *below(const char *path, const char *root)
{
	size_t len = strlen(root);
	if (strncmp(path, root, len) != 0 || (path[len] != '/' && path[len]))
		return NULL;
	path += len;
	return path + strspn(path, "/");
}

static bool add(struct kh_inlets *inlets, const char *path, struct kh_err *err)
{
	for (size_t i = 0; i < inlets->n; i++)
		if (strcmp(inlets->list[i], path) == 0)
			return true;
	if (inlets->n == KH_LIMIT_SURVEY_INLETS) {
		inlets->too_many = true;
		return true;
	}
	char **list = reallocarray(inlets->list, inlets->n + 1, sizeof(*list));
	if (!list)
		return no_memory(err);
	inlets->list = list;
	list[inlets->n] = strdup(path);
	return list[inlets->n] ? ++inlets->n : no_memory(err);
}

static bool note(struct kh_inlets *inlets, int root_fd, const struct kh_walk_folder *folder,
		 const char *name, struct kh_err *err)
{
	kh_auto_free char *path = NULL;
	enum kh_link_end end = kh_link_end(root_fd, folder->fd, name, &path);
	inlets->everywhere = inlets->everywhere || end == KH_LINK_UNKNOWN;
	return end != KH_LINK_INSIDE || !is_exempt(path) || add(inlets, path, err);
}

/* Of a folder that is reached without passing through an exempt one, or by an inlet. */
static bool note_all(struct kh_inlets *inlets, int root_fd, const struct kh_walk_folder *folder,
		     struct kh_err *err)
{
	bool ok = true;
	for (size_t i = 0; ok && i < folder->n; i++) {
		const struct kh_walk_entry *entry = &folder->list[i];
		/* The walk says what it has not seen. */
		if (kh_deadline_passed(folder->deadline))
			return true;
		if (S_ISLNK(entry->mode) && !entry->skip && !is_exempt(entry->name))
			ok = note(inlets, root_fd, folder, entry->name, err);
	}
	return ok;
}

bool kh_inlets_note(struct kh_inlets *inlets, int root_fd, const char *root,
		    const struct kh_walk_folder *folder, struct kh_err *err)
{
	const char *here = below(folder->path, root);
	/* Links in there lead on only for who has come there by an inlet. */
	return !here || is_exempt(here) || note_all(inlets, root_fd, folder, err);
}

/* ---- what is where they lead ---- */

struct finding {
	struct kh_inlets *inlets;
	const char *root;
	int root_fd;
	const char *top; /* absolute: of the walk */
	bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err);
	void *arg;
};

/* What is not exempt is given by the survey itself. */
static bool pass_name(void *arg, const struct kh_concern *concern, struct kh_err *err)
{
	const struct finding *f = arg;
	const char *path = below(concern->path, f->root);
	return concern->kind != KH_CONCERN_NAME || (path && !is_exempt(path)) ||
	       f->each(f->arg, concern, err);
}

static bool visit(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	struct finding *f = arg;
	const char *here = below(folder->path, f->top);
	if (!kh_concern_find(folder, pass_name, arg, err))
		return false;
	if (f->inlets->everywhere)
		kh_concern_end_exemption(folder);
	/* What is found there leads on. */
	return f->inlets->everywhere || !here || is_exempt(here) ||
	       note_all(f->inlets, f->root_fd, folder, err);
}

static bool walk_from(struct finding *f, char *from, struct kh_deadline *deadline, char **missed,
		      struct kh_err *err)
{
	struct kh_walk walk = { .visit = visit,
				.arg = f,
				.from = &from,
				.n_from = from ? 1 : 0,
				.deadline = deadline };
	kh_auto_free char *top = kh_strf("%s%s%s", f->root, from ? "/" : "", from ? from : "");
	if (!top)
		return no_memory(err);
	f->top = top;
	bool ok = kh_walk_run_at(&walk, f->root_fd, f->root, err);
	f->top = NULL;
	if (!*missed)
		*missed = kh_steal_ptr(&walk.missed);
	free(walk.missed);
	return ok;
}

bool kh_inlets_find(struct kh_inlets *inlets, int root_fd, const char *root,
		    bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err),
		    void *arg, struct kh_deadline *deadline, char **missed, struct kh_err *err)
{
	struct finding f = {
		.inlets = inlets, .root = root, .root_fd = root_fd, .each = each, .arg = arg
	};
	bool ok = true;
	/* The list grows meanwhile, and may move. */
	for (size_t i = 0; ok && !*missed && !inlets->everywhere && i < inlets->n; i++)
		ok = walk_from(&f, inlets->list[i], deadline, missed, err);
	if (ok && !*missed && inlets->everywhere)
		ok = walk_from(&f, NULL, deadline, missed, err);
	if (ok && inlets->too_many && !inlets->everywhere && !*missed)
		*missed = strdup("too many links lead into node_modules or .git");
	return ok;
}
