/*
 * stores.c - object folders elsewhere in a workspace that its repositories use (alternates)
 *
 * objects/info/alternates may name any folder. git reads packs and loose objects there, and again a
 * list of alternates, so a symbolic link in it can lead out like one in a git folder. Only the
 * places that git reads are checked (pack, info and folders with two hexadecimal digits), since the
 * folder may have another purpose as well.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "git_path.h"
#include "leads.h"
#include "stores.h"

enum { STORES_MOST = 256 };

void kh_stores_fini(struct kh_stores *stores)
{
	for (size_t i = 0; i < stores->n; i++) {
		free(stores->list[i].path);
		free(stores->list[i].origin);
	}
	free(stores->list);
	*stores = (struct kh_stores){ 0 };
}

struct adding {
	struct kh_stores *stores;
	const struct kh_concern *c;
	bool is_old;
	bool failed;
};

static bool has(const struct kh_stores *stores, const char *path, const char *origin)
{
	for (size_t i = 0; i < stores->n; i++)
		if (strcmp(stores->list[i].path, path) == 0 &&
		    strcmp(stores->list[i].origin, origin) == 0)
			return true;
	return false;
}

static bool add(void *arg, const char *folder, struct kh_slice target)
{
	struct adding *a = arg;
	struct kh_stores *stores = a->stores;
	kh_auto_free char *text = kh_slice_dup(target);
	kh_auto_free char *joined = text ? kh_path_join(folder, text) : NULL;
	kh_auto_free char *path = joined ? realpath(joined, NULL) : NULL;
	kh_auto_free char *origin = strdup(a->c->path);
	a->failed = a->failed || !joined || !origin;
	if (a->failed)
		return false;
	if (!path || !kh_git_holds(stores->root, path) || has(stores, path, origin))
		return true;
	struct kh_store *list = stores->n < STORES_MOST
					? reallocarray(stores->list, stores->n + 1, sizeof(*list))
					: NULL;
	a->failed = !list;
	if (!list)
		return false;
	stores->list = list;
	list[stores->n++] =
		(struct kh_store){ kh_steal_ptr(&path), kh_steal_ptr(&origin), a->is_old };
	return true;
}

bool kh_stores_add(struct kh_stores *stores, const struct kh_concern *c, bool is_old)
{
	struct adding a = { stores, c, is_old, false };
	/* What can't be read is judged by itself. */
	if (c->kind == KH_CONCERN_ALTERNATES)
		(void)kh_leads_each(c, add, &a);
	stores->failed = stores->failed || (a.failed && is_old);
	return !a.failed;
}

struct walking {
	bool (*each)(void *, size_t, const struct kh_concern *);
	void *arg;
	size_t store;
};

static bool visit_concern(void *arg, const struct kh_concern *c, struct kh_err *err)
{
	struct walking *w = arg;
	(void)err;
	return w->each(w->arg, w->store, c);
}

static bool visit(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	return kh_concern_find_in_objects(folder, visit_concern, arg, err);
}

bool kh_stores_walk(struct kh_stores *stores, struct kh_deadline *deadline,
		    bool (*each)(void *arg, size_t store, const struct kh_concern *c), void *arg,
		    struct kh_err *err)
{
	bool ok = !stores->failed;
	for (size_t i = 0; ok && i < stores->n; i++) {
		struct walking w = { each, arg, i };
		struct kh_walk walk = { .visit = visit, .arg = &w, .deadline = deadline };
		kh_auto_free char *path = strdup(stores->list[i].path);
		ok = path && kh_walk_run(&walk, path, err) && !walk.missed;
		free(walk.missed);
	}
	return (ok && !stores->failed) ||
	       kh_err_set(err, KH_ERR_CONFIG,
			  "folders that lists of alternates name could not all be looked through");
}
