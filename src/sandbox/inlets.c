/*
 * inlets.c - symbolic links into folders in which names of tools do not count
 *
 * Packages bring settings of editors along, and git has branches of any name: so below node_modules
 * and .git such a name is none of a tool's (concern.c). That holds only for who comes there by that
 * path. A link beside it makes a project of what lies in there, so where one leads is looked
 * through once more without the exemption, before a run and after it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
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

/* The folder at the end of all links, if each stays in the workspace: what leads out, and be it on
 * the way, could have the host ask a file server for it. */
static int open_target(int root_fd, const char *root, const char *link, const char *text)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	const char *path = *text == '/' ? below(text, root) : link;
	return path ? (int)syscall(SYS_openat2, root_fd, *path ? path : ".", &how, sizeof(how))
		    : -1;
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

static bool note(struct kh_inlets *inlets, int root_fd, const char *root, const char *link,
		 const char *text, struct kh_err *err)
{
	kh_auto_close int fd = open_target(root_fd, root, link, text);
	kh_auto_free char *name = fd >= 0 ? kh_strf("/proc/self/fd/%d", fd) : NULL;
	kh_auto_free char *real = name ? realpath(name, NULL) : NULL;
	const char *path = real ? below(real, root) : NULL;
	return !path || !is_exempt(path) || add(inlets, path, err);
}

bool kh_inlets_note(struct kh_inlets *inlets, int root_fd, const char *root,
		    const struct kh_walk_folder *folder, struct kh_err *err)
{
	const char *here = below(folder->path, root);
	bool inside = here && is_exempt(here), ok = true;
	for (size_t i = 0; here && ok && i < folder->n; i++) {
		const struct kh_walk_entry *entry = &folder->list[i];
		char text[KH_LIMIT_SURVEY_PATH_BYTES];
		if (!S_ISLNK(entry->mode) || entry->skip || is_exempt(entry->name))
			continue;
		ssize_t len = readlinkat(folder->fd, entry->name, text, sizeof(text) - 1);
		/* Of those inside only such as a link outside can't be followed through. */
		if (len <= 0 || (inside && text[0] != '/'))
			continue;
		text[len] = '\0';
		kh_auto_free char *link = kh_strf("%s%s%s", here, *here ? "/" : "", entry->name);
		ok = link ? note(inlets, root_fd, root, link, text, err) : no_memory(err);
	}
	return ok;
}

struct finding {
	bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err);
	void *arg;
};

static bool pass_name(void *arg, const struct kh_concern *concern, struct kh_err *err)
{
	const struct finding *f = arg;
	return concern->kind != KH_CONCERN_NAME || f->each(f->arg, concern, err);
}

static bool visit(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	return kh_concern_find(folder, pass_name, arg, err);
}

bool kh_inlets_find(const struct kh_inlets *inlets, const char *root,
		    bool (*each)(void *arg, const struct kh_concern *concern, struct kh_err *err),
		    void *arg, char **missed, struct kh_err *err)
{
	struct finding finding = { each, arg };
	struct kh_walk walk = {
		.visit = visit, .arg = &finding, .from = inlets->list, .n_from = inlets->n
	};
	if (inlets->n == 0)
		return true;
	bool ok = kh_walk_run(&walk, root, err);
	if (ok && inlets->too_many && !walk.missed)
		walk.missed = strdup("too many links lead into node_modules or .git");
	if (!*missed)
		*missed = kh_steal_ptr(&walk.missed);
	free(walk.missed);
	return ok;
}
