/*
 * workspace_leads.c - protects the other names of protected files in a workspace
 *
 * A mount protects one path. But a hook may be a symbolic link to a script of the project, and a
 * file of settings may have a second name (a hard link): writing there changes the protected file.
 * So links are followed and second names are searched for, until nothing new is found; each is
 * read-only too. If that is not possible, the workspace is refused.
 *
 * A file may also have a name outside of the workspace: package stores (pnpm, uv) and local clones
 * of git share files by hard links. A few such files are made read-only; if there are many, that is
 * only reported.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/slice.h>

#include "walk.h"
#include "workspace_internal.h"

enum { HOPS_MOST = 40 /* as the kernel */ };

static bool is_inside(const struct kh_work *w, const char *path)
{
	size_t len = strlen(w->root);
	return strncmp(path, w->root, len) == 0 && path[len] == '/' && path[len + 1];
}

/* ---- where a symbolic link leads ---- */

struct lead {
	struct kh_work *w;
	const char *link;
	char *at;   /* heap: where the way is, through no link */
	char *rest; /* heap: what is still to be gone */
	int hops;
	bool done; /* `at` is all that there is of it */
};

static void lead_fini(struct lead *lead)
{
	free(lead->at);
	free(lead->rest);
}

static bool refuse(const struct lead *lead, const char *why, const char *what)
{
	return kh_err_set(lead->w->err, KH_ERR_CONFIG,
			  "%s: is a symbolic link %s%s, so that what is run from there outside of "
			  "the sandbox could not be kept from the agent (put what it points to in "
			  "its place, or use --workspace DIR:ro or DIR:review)",
			  kh_esc_str(lead->link), why, what);
}

/* Takes both over. */
static bool set(struct lead *lead, char *at, char *rest)
{
	lead_fini(lead);
	lead->at = at;
	lead->rest = rest;
	return (at && rest) || kh_work_no_memory(lead->w);
}

/* The way goes on by the text of the link at `path`, which is in the folder `lead->at`. */
static bool enter_link(struct lead *lead, const char *path, const char *rest)
{
	char text[KH_LIMIT_SURVEY_PATH_BYTES + 1];
	ssize_t n = readlink(path, text, sizeof(text) - 1);
	if (n <= 0 || ++lead->hops > HOPS_MOST ||
	    (size_t)n + strlen(rest) > KH_LIMIT_SURVEY_PATH_BYTES)
		return refuse(lead, "that can't be followed", "");
	text[n] = '\0';
	return set(lead, strdup(text[0] == '/' ? "" : lead->at), kh_strf("%s/%s", text, rest));
}

/* ".." from a folder of the workspace: were another put in its place, it would lead elsewhere. */
static bool step_up(struct lead *lead, const char *rest)
{
	if (is_inside(lead->w, lead->at) && !kh_work_is_covered(lead->w, lead->at) &&
	    !kh_work_pin(lead->w, lead->at))
		return false;
	char *slash = strrchr(lead->at, '/');
	size_t len = slash ? (size_t)(slash - lead->at) : 0;
	return set(lead, strndup(lead->at, len), strdup(rest));
}

static bool step(struct lead *lead)
{
	const char *part = lead->rest + strspn(lead->rest, "/");
	size_t len = strcspn(part, "/");
	const char *rest = part + len;
	lead->done = len == 0;
	if (len == 0)
		return true;
	if (len == 1 && part[0] == '.')
		return set(lead, strdup(lead->at), strdup(rest));
	if (len == 2 && part[0] == '.' && part[1] == '.')
		return step_up(lead, rest);
	kh_auto_free char *path = kh_strf("%s/%.*s", lead->at, (int)len, part);
	struct stat st;
	if (!path)
		return kh_work_no_memory(lead->w);
	if (strlen(path) > KH_LIMIT_SURVEY_PATH_BYTES)
		return refuse(lead, "that can't be followed", "");
	bool there = lstat(path, &st) == 0;
	if (there && S_ISLNK(st.st_mode)) {
		if (is_inside(lead->w, path) && !kh_work_is_covered(lead->w, path))
			return refuse(lead, "that leads through another link, ", kh_esc_str(path));
		return enter_link(lead, path, rest);
	}
	/* Whatever is to come can't be there, as long as this stays as it is. */
	lead->done = !there || !S_ISDIR(st.st_mode);
	char *next = strdup(rest);
	return set(lead, kh_steal_ptr(&path), next);
}

static bool protect_lead(struct kh_work *w, const char *link)
{
	struct lead lead kh_cleanup(lead_fini) = { .w = w, .link = link };
	const char *slash = strrchr(link, '/');
	lead.at = strndup(link, (size_t)(slash - link));
	lead.rest = strdup("");
	if (!lead.at || !lead.rest)
		return kh_work_no_memory(w);
	bool ok = enter_link(&lead, link, "");
	while (ok && !lead.done)
		ok = step(&lead);
	if (!ok)
		return false;
	size_t len = strlen(lead.at);
	if (strncmp(w->root, lead.at, len) == 0 && (w->root[len] == '/' || !w->root[len]))
		return refuse(&lead, "to the whole workspace", "");
	if (!is_inside(w, lead.at) || kh_work_is_covered(w, lead.at))
		return true;
	kh_log_warn("%s can't be written to in the sandbox: the protected %s leads there",
		    kh_esc_str(lead.at), kh_esc_str(link));
	return kh_work_protect(w, lead.at);
}

static bool visit(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	struct kh_work *w = arg;
	bool ok = true;
	for (size_t i = 0; ok && i < folder->n; i++) {
		if (!S_ISLNK(folder->list[i].mode))
			continue;
		kh_auto_free char *path = kh_strf("%s/%s", folder->path, folder->list[i].name);
		ok = path ? protect_lead(w, path)
			  : kh_err_set(err, KH_ERR_NO_MEMORY, "--workspace: no memory");
	}
	return ok;
}

/* The view grows meanwhile: what is found is looked through as well. */
static bool follow_links(struct kh_work *w, size_t first)
{
	size_t most = w->view->n + KH_LIMIT_SURVEY_MASKS;
	bool ok = true;
	for (size_t i = first; ok && !w->view->failed && i < w->view->n; i++) {
		struct stat st;
		if (i > most)
			return kh_err_set(w->err, KH_ERR_CONFIG,
					  "--workspace %s: more than %d places that links in "
					  "protected folders lead to (take a smaller folder)",
					  kh_esc_str(w->root), KH_LIMIT_SURVEY_MASKS);
		kh_auto_free char *path = w->view->list[i].kind == KH_MOUNT_READ
						  ? strdup(w->view->list[i].target)
						  : NULL;
		if (!path || lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
			continue;
		struct kh_walk walk = { .visit = visit, .arg = w, .deadline = &w->deadline };
		ok = kh_walk_run(&walk, path, w->err);
		if (ok && walk.missed)
			ok = kh_err_set(w->err, KH_ERR_CONFIG,
					"--workspace: links in what is protected could not be "
					"followed: %s (put that right, or use --workspace DIR:ro)",
					walk.missed);
		free(walk.missed);
	}
	return ok;
}

/* ---- files with several names ---- */

static int by_file(const void *a, const void *b)
{
	const struct kh_linked *x = *(const struct kh_linked *const *)a;
	const struct kh_linked *y = *(const struct kh_linked *const *)b;
	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return strcmp(x->path, y->path);
}

struct sharing {
	struct kh_work *w;
	const struct kh_linked **list; /* the names of one file after each other */
	size_t n;
	bool incomplete;     /* there are more names than were noted */
	size_t outside;	     /* names of files that have a name outside too */
	const char *example; /* one of them */
};

/* The names of one file. */
static bool see_to(struct sharing *s, const struct kh_linked *const *names, size_t n)
{
	size_t covered = 0;
	for (size_t i = 0; i < n; i++)
		covered += kh_work_is_covered(s->w, names[i]->path);
	bool more = n < names[0]->links;
	if (covered > 0 && more && s->incomplete)
		return kh_err_set(s->w->err, KH_ERR_CONFIG,
				  "%s: has further names (hard links) that could not all be "
				  "looked for, since more than %d files have (take a smaller "
				  "folder, or --workspace DIR:ro or DIR:review)",
				  kh_esc_str(names[0]->path), KH_LIMIT_SURVEY_LINKED);
	bool ok = true;
	for (size_t i = 0; ok && covered > 0 && i < n; i++)
		ok = kh_work_protect(s->w, names[i]->path);
	if (covered == 0 && more) {
		s->outside += n;
		s->example = names[0]->path;
	}
	return ok;
}

static bool is_same_file(const struct kh_linked *a, const struct kh_linked *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

static bool each_file(struct sharing *s,
		      bool (*act)(struct sharing *s, const struct kh_linked *const *names,
				  size_t n))
{
	bool ok = true;
	for (size_t i = 0, end; ok && i < s->n; i = end) {
		for (end = i + 1; end < s->n && is_same_file(s->list[i], s->list[end]);)
			end++;
		ok = act(s, s->list + i, end - i);
	}
	return ok;
}

/* A few that lead outside. git removes files of its own, which a mount would prevent. */
static bool make_read_only(struct sharing *s, const struct kh_linked *const *names, size_t n)
{
	bool ok = true;
	for (size_t i = 0; ok && n < names[0]->links && i < n; i++) {
		if (names[i]->in_git || kh_work_is_covered(s->w, names[i]->path))
			continue;
		ok = kh_work_protect(s->w, names[i]->path);
		struct kh_view *view = s->w->view;
		if (ok && !view->failed &&
		    strcmp(view->list[view->n - 1].target, names[i]->path) == 0)
			view->list[view->n - 1].may_go = true;
	}
	return ok;
}

static bool warn_or_mount(struct sharing *s)
{
	if (s->outside == 0)
		return true;
	bool few = s->outside < KH_LIMIT_SURVEY_LINKED_MOUNTS && !s->incomplete;
	const char *rest = few ? "they are read-only in the sandbox but where git keeps them"
			       : "a write in the sandbox changes the file there too";
	kh_log_warn(
		"%s: %zu files have another name outside of it (hard links of a store of packages "
		"or a local clone; %s is one): %s (--workspace DIR:review writes to none)",
		kh_esc_str(s->w->root), s->outside, kh_esc_str(s->example + strlen(s->w->root) + 1),
		rest);
	return !few || each_file(s, make_read_only);
}

static bool protect_other_names(struct kh_work *w, const struct kh_survey *survey)
{
	if (survey->n_linked == 0)
		return true;
	kh_auto_free const struct kh_linked **list = calloc(survey->n_linked, sizeof(*list));
	if (!list)
		return kh_work_no_memory(w);
	struct sharing s = {
		.w = w, .list = list, .n = survey->n_linked, .incomplete = survey->too_many_linked
	};
	for (size_t i = 0; i < s.n; i++)
		list[i] = &survey->linked[i];
	qsort(list, s.n, sizeof(*list), by_file);
	return each_file(&s, see_to) && warn_or_mount(&s);
}

bool kh_work_protect_leads(struct kh_work *w, const struct kh_survey *survey, size_t first)
{
	bool ok = true;
	for (size_t i = 0; ok && i < survey->links.n; i++)
		ok = protect_lead(w, survey->links.list[i]);
	return ok && follow_links(w, first) && protect_other_names(w, survey);
}
