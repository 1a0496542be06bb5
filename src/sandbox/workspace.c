/*
 * workspace.c - mounts the workspace, and protects files in it from the agent
 *
 * Some files of a project make something run later, outside of the sandbox, without anybody
 * deciding to run the project: git's hooks and settings, files that direnv reads when somebody
 * enters the folder, files that editors and agents read when they start there. They are read-only
 * inside, and absent ones can't be created.
 *
 * Three bypasses are prevented too. A folder above a protected file could be renamed and recreated,
 * so each is mounted onto itself: a mount point can't be renamed. A file `commondir` would redirect
 * git to another configuration, so it exists with the content ".", which is where git looks anyway.
 * And nothing can be mounted over a symbolic link, so one in a protected place is refused. Other
 * names of protected files are protected as well (workspace_leads.c).
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/slice.h>
#include <keyhole/sandbox/workspace.h>

#include "homes.h"
#include "protected.h"
#include "runs.h"
#include "workspace_internal.h"

/* Beside those of protected.c, these, which are in folders that hold more than that: a link in
 * their place is refused. The survey finds those that are none (concern.c). */
static const char *const inner_files[] = {
	".cargo/config.toml", ".cargo/config",	   ".config/mise", "mise/config.toml",
	".github/hooks",      ".clinerules/hooks", ".gitlab/duo",  ".pi/extensions",
	".config/irb",	      "CVS/Root",	   NULL,
};
/* hg runs what they say at any command; absent ones can't be made where there is a .hg. */
static const char *const of_mercurial[] = { "hgrc", "hgrc-not-shared", "sharedpath", NULL };

enum { PATH_MOST = 4096 };

bool kh_work_no_memory(struct kh_work *w)
{
	return kh_err_set(w->err, KH_ERR_NO_MEMORY, "--workspace: no memory");
}

bool kh_work_refuse_link(struct kh_work *w, const char *path)
{
	return kh_err_set(w->err, KH_ERR_CONFIG,
			  "%s: is a symbolic link, and what is run from there outside of the "
			  "sandbox could not be kept from the agent (put what it points to in its "
			  "place, or use --workspace DIR:ro)",
			  kh_esc_str(path));
}

static bool pin_one(struct kh_work *w, const char *folder)
{
	if (kh_view_has(w->view, folder))
		return true;
	kh_auto_free char *source =
		w->source ? kh_strf("%s%s", w->source, folder + strlen(w->root)) : strdup(folder);
	return source ? kh_view_bind_held(w->view, KH_MOUNT_WRITE, source, folder, KH_TREE_HOST,
					  w->err)
		      : kh_work_no_memory(w);
}

/* Mounts each folder from below the root down to `path` onto itself. */
bool kh_work_pin(struct kh_work *w, const char *path)
{
	char prefix[PATH_MOST];
	size_t len = strlen(path);
	if (len >= sizeof(prefix))
		return kh_err_set(w->err, KH_ERR_CONFIG, "%s: too long a path", kh_esc_str(path));
	memcpy(prefix, path, len + 1);
	for (size_t i = strlen(w->root) + 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		prefix[i] = '\0';
		if (!pin_one(w, prefix))
			return false;
		prefix[i] = path[i];
	}
	return true;
}

static bool pin_parent(struct kh_work *w, const char *path)
{
	kh_auto_free char *parent = strdup(path);
	char *slash = parent ? strrchr(parent, '/') : NULL;
	if (!slash)
		return kh_work_no_memory(w);
	*slash = '\0';
	return strlen(parent) <= strlen(w->root) || kh_work_pin(w, parent);
}

enum presence { ABSENT, THERE, REFUSED };

/* A link in the place of it, or on the way: another could be put there. */
static enum presence look(struct kh_work *w, const char *path, struct stat *st)
{
	kh_auto_free char *part = strdup(path);
	if (!part) {
		kh_work_no_memory(w);
		return REFUSED;
	}
	for (size_t i = strlen(w->root) + 1; path[i - 1]; i++) {
		if (path[i] != '/' && path[i])
			continue;
		part[i] = '\0';
		if (lstat(part, st) != 0)
			return ABSENT;
		if (S_ISLNK(st->st_mode)) {
			kh_work_refuse_link(w, part);
			return REFUSED;
		}
		part[i] = path[i];
	}
	return THERE;
}

bool kh_work_is_covered(const struct kh_work *w, const char *path)
{
	for (size_t i = 0; i < w->view->n; i++) {
		const struct kh_mount *m = &w->view->list[i];
		size_t len = strlen(m->target);
		if ((m->kind == KH_MOUNT_READ || m->kind == KH_MOUNT_BLANK) &&
		    len > strlen(w->root) && strncmp(path, m->target, len) == 0 &&
		    (path[len] == '/' || !path[len]))
			return true;
	}
	return false;
}

/* Folders that were mounted onto themselves, at or below what is read-only from now on. */
static void freeze_below(struct kh_work *w, const char *path)
{
	size_t len = strlen(path);
	for (size_t i = 0; i < w->view->n; i++) {
		struct kh_mount *m = &w->view->list[i];
		if (m->kind == KH_MOUNT_WRITE && strncmp(m->target, path, len) == 0 &&
		    (m->target[len] == '/' || !m->target[len]) && strcmp(m->target, w->root) != 0)
			m->kind = KH_MOUNT_READ;
	}
}

static bool bind_there(struct kh_work *w, const char *path, const struct stat *st)
{
	if (!kh_view_bind_held(w->view, KH_MOUNT_READ, path, path, KH_TREE_HOST, w->err))
		return false;
	if (!w->view->failed)
		w->view->list[w->view->n - 1].is_file = !S_ISDIR(st->st_mode);
	return true;
}

/* Read-only; where it is absent, an empty folder that stays empty. */
bool kh_work_protect(struct kh_work *w, const char *path)
{
	struct stat st;
	enum presence presence = look(w, path, &st);
	if (presence == REFUSED)
		return false;
	if (kh_work_is_covered(w, path))
		return true;
	freeze_below(w, path);
	if (kh_work_is_covered(w, path))
		return true;
	/* Another run's, which this one relies on from now on. */
	bool stub = presence == THERE && kh_run_record_is_stub(w->record, path);
	if (stub && !kh_run_record_stub(w->record, path, w->err))
		return false;
	if (!pin_parent(w, path))
		return false;
	if (presence == THERE && !(stub && S_ISDIR(st.st_mode)))
		return bind_there(w, path, &st);
	if (presence == ABSENT && !kh_mountpoint_make(w->record, path, &w->owner, w->err))
		return false;
	kh_view_over(w->view, KH_MOUNT_BLANK, path, 0);
	return true;
}

bool kh_work_protect_file(struct kh_work *w, const char *path, const char *content)
{
	struct stat st;
	if (!kh_work_is_covered(w, path) && lstat(path, &st) != 0 &&
	    !kh_mountpoint_make_file(w->record, path, content, &w->owner, w->err))
		return false;
	return kh_work_protect(w, path);
}

bool kh_work_protect_in(struct kh_work *w, const char *folder, const char *name)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	return path ? kh_work_protect(w, path) : kh_work_no_memory(w);
}

bool kh_work_protect_in_if_there(struct kh_work *w, const char *folder, const char *name)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	struct stat st;
	if (!path)
		return kh_work_no_memory(w);
	return lstat(path, &st) != 0 || kh_work_protect(w, path);
}

/* What is there of kh_protected_names, in a folder in which tools look for them. */
static bool protect_there(struct kh_work *w, const char *folder)
{
	kh_auto_free char *path = kh_strf("%s%s", w->root, folder);
	struct stat st;
	if (!path)
		return kh_work_no_memory(w);
	/* What is found through a link is refused. */
	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return true;
	DIR *dir = opendir(path);
	if (!dir)
		return kh_err_sys(w->err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir)))
		if (kh_protected_is_name(entry->d_name))
			ok = kh_work_protect_in(w, path, entry->d_name);
	closedir(dir);
	return ok;
}

static bool protect_mercurial(struct kh_work *w)
{
	kh_auto_free char *hg = kh_strf("%s/.hg", w->root);
	struct stat st;
	if (!hg)
		return kh_work_no_memory(w);
	if (lstat(hg, &st) != 0 || !S_ISDIR(st.st_mode))
		return true;
	bool ok = true;
	for (size_t i = 0; ok && of_mercurial[i]; i++)
		ok = kh_work_protect_in(w, hg, of_mercurial[i]);
	return ok;
}

/* A folder that an agent makes for itself: the first thing that it writes there is here already,
 * and says that git is to see nothing of it. */
static bool fill_blank(struct kh_work *w, size_t from)
{
	struct kh_view *view = w->view;
	struct kh_mount *last = view->n > from ? &view->list[view->n - 1] : NULL;
	if (!last || last->kind != KH_MOUNT_BLANK)
		return true;
	last->fd = kh_file_sealed("keyhole-view", KH_SLICE("*\n"), w->err);
	return last->fd >= 0;
}

static bool protect_names(struct kh_work *w, const struct kh_survey *survey)
{
	bool ok = true;
	for (const struct kh_protected *p = kh_protected_names; ok && p->pattern; p++) {
		size_t before = w->view->n;
		ok = !p->absent_too ||
		     (kh_work_protect_in(w, w->root, p->pattern) && fill_blank(w, before));
	}
	for (size_t i = 0; ok && inner_files[i]; i++)
		ok = kh_work_protect_in_if_there(w, w->root, inner_files[i]);
	for (size_t i = 0; ok && i < survey->names.n && i < KH_LIMIT_SURVEY_MASKS; i++)
		ok = kh_work_protect(w, survey->names.list[i]);
	if (survey->names.n > KH_LIMIT_SURVEY_MASKS)
		return kh_err_set(w->err, KH_ERR_CONFIG,
				  "--workspace %s: more than %d folders and files below its top "
				  "that editors and agents run things from (take a smaller folder)",
				  kh_esc_str(w->root), KH_LIMIT_SURVEY_MASKS);
	return ok && protect_there(w, "") && protect_there(w, "/.config") && protect_mercurial(w);
}

/* Under the lock: what another run puts into the workspace is not taken for the project's. */
static bool protect_all(struct kh_work *w, struct kh_survey *survey)
{
	return kh_work_protect_git(w, survey) && protect_names(w, survey);
}

/* Folders that the sandbox has of its own, and what covers them. */
static const char *const taken[] = { "/",     "/usr",	"/etc",	 "/bin", "/sbin", "/lib",
				     "/dev",  "/proc",	"/sys",	 "/run", "/tmp",  "/var",
				     "/home", "/lib64", "/root", "/opt" };
static const char *const taken_with_all[] = { "/dev/", "/proc/", "/sys/", "/run/keyhole/" };

bool kh_workspace_check(const char *path, struct kh_err *err)
{
	bool bad = path[0] != '/';
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		bad = bad || strcmp(path, taken[i]) == 0;
	for (size_t i = 0; i < sizeof(taken_with_all) / sizeof(taken_with_all[0]); i++)
		bad = bad || strncmp(path, taken_with_all[i], strlen(taken_with_all[i])) == 0;
	return !bad || kh_err_set(err, KH_ERR_USAGE,
				  "--workspace %s: contains more than a project (name a folder of "
				  "its own)",
				  kh_esc_str(path));
}

bool kh_workspace_may_be(const char *path, struct kh_err *err)
{
	return kh_workspace_check(path, err) &&
	       kh_homes_check("--workspace", path,
			      "name the folder of one project in it, or use --workspace DIR:ro",
			      err);
}

/* The engine and the kernel go through all of them at each mount. An agent may have left them. */
static void warn_of_long_paths(const struct kh_work *w, size_t first)
{
	enum { MUCH = 256 * 1024, LONG = 1024, SHOWN = 128 };
	size_t bytes = 0, n = 0, root = strlen(w->root);
	const char *path = NULL;
	for (size_t i = first; i < w->view->n; i++) {
		size_t len = strlen(w->view->list[i].target);
		bytes += len;
		n += len > LONG;
		path = len > LONG && !path ? w->view->list[i].target : path;
	}
	if (!path || bytes <= MUCH)
		return;
	int shown = (int)(root + 1 + strcspn(path + root + 1, "/"));
	kh_auto_free char *folder =
		kh_strf("%.*s", shown < (int)root + SHOWN ? shown : (int)root + SHOWN, path);
	kh_log_warn("%zu of the names that keyhole protects have paths of more than %d bytes, so "
		    "that the start takes long (remove or move the repositories with long paths, "
		    "the first of which is below %s…)",
		    n, LONG, kh_esc_str(folder ? folder : w->root));
}

static bool begin(struct kh_work *w, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	*w = (struct kh_work){ .root = spec->workspace, .err = err };
	kh_deadline_start(&w->deadline, KH_LIMIT_SURVEY_MS, true);
	if (!kh_workspace_check(w->root, err))
		return false;
	kh_auto_close int fd = kh_file_hold_again(w->root, spec->workspace_held, err);
	if (fd < 0 || fstat(fd, &w->owner) != 0)
		return kh_err_wrap(err, "--workspace");
	if (!S_ISDIR(w->owner.st_mode))
		return kh_err_set(err, KH_ERR_USAGE, "--workspace %s: is not a folder",
				  kh_esc_str(w->root));
	return true;
}

bool kh_workspace_plan(struct kh_view *view, const struct kh_sandbox_spec *spec,
		       struct kh_survey *survey, const struct kh_run_record *record,
		       struct kh_err *err)
{
	struct kh_work w;
	if (!begin(&w, spec, err))
		return false;
	if (!kh_view_bind_again(view, spec->workspace_read_only ? KH_MOUNT_READ : KH_MOUNT_WRITE,
				w.root, w.root, KH_TREE_AS_OWNER, spec->workspace_held, err))
		return false;
	if (spec->workspace_read_only)
		return true;
	w.view = view;
	w.record = record;
	size_t first = view->n;
	if (!protect_all(&w, survey) || !kh_work_protect_leads(&w, survey, first))
		return false;
	warn_of_long_paths(&w, first);
	return true;
}

bool kh_workspace_pin_above(struct kh_view *view, const struct kh_sandbox_spec *spec,
			    const char *path, struct kh_err *err)
{
	struct kh_work w = { .view = view, .root = spec->workspace, .err = err };
	w.source = spec->review ? spec->review->folder : NULL;
	/* What is read-only can't be renamed, and must not be opened again. */
	return kh_work_is_covered(&w, path) || pin_parent(&w, path);
}
