/*
 * workspace.c - the one folder in which an agent's work stays, and what in it the agent can't touch
 *
 * Some files of a project make something run later, outside of the sandbox, without anybody
 * deciding to run the project: git's hooks and settings, what direnv reads on the way in, what
 * editors and agents read when they are started there. They are read-only inside, and where they
 * don't exist yet they can't be made.
 *
 * Three ways around that are shut as well. A folder above a protected file could be renamed and
 * made anew, so each is mounted onto itself: a mount point can't be renamed. A file `commondir`
 * would send git to another configuration, so it exists and says ".", which is where git looks
 * anyway. And a symbolic link can't be mounted over, so one in a protected place is refused.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include <keyhole/escape.h>
#include <keyhole/file.h>
#include <keyhole/slice.h>

#include "sandbox_internal.h"

/* Beside .git, which is more than a name. */
const char *const kh_sandbox_protected[] = {
	".envrc",  ".vscode", ".idea",	 ".devcontainer", ".cursor",   ".windsurf", ".zed",
	".claude", ".codex",  ".gemini", ".opencode",	  ".mcp.json", NULL,
};

/* The same where they exist; a project without them has no use for an empty one. */
static const char *const if_there[] = { ".husky",	 ".pre-commit-config.yaml", "lefthook.yml",
					"opencode.json", "opencode.jsonc",	    NULL };

enum {
	REPOSITORIES_MOST = 64, /* with their submodules: each costs half a dozen mounts */
	MODULES_DEPTH = 4,
	PATH_MOST = 4096,
};

struct work {
	struct kh_view *view;
	struct kh_mountpoints *made;
	const char *root;
	struct stat owner;
	unsigned repositories;
	struct kh_err *err;
};

static bool no_memory(struct work *w)
{
	return kh_err_set(w->err, KH_ERR_NO_MEMORY, "--workspace: no memory");
}

static bool refuse_link(struct work *w, const char *path)
{
	return kh_err_set(w->err, KH_ERR_CONFIG,
			  "%s: is a symbolic link, and what is run from there outside of the "
			  "sandbox could not be kept from the agent (put what it points to in its "
			  "place, or use --workspace DIR:ro)",
			  kh_esc_str(path));
}

/* Mounts each folder from below the root down to `path` onto itself. */
static bool pin(struct work *w, const char *path)
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
		if (!kh_view_has(w->view, prefix) &&
		    !kh_view_bind_held(w->view, KH_MOUNT_WRITE, prefix, prefix, KH_TREE_HOST,
				       w->err))
			return false;
		prefix[i] = path[i];
	}
	return true;
}

static bool pin_parent(struct work *w, const char *path)
{
	kh_auto_free char *parent = strdup(path);
	char *slash = parent ? strrchr(parent, '/') : NULL;
	if (!slash)
		return no_memory(w);
	*slash = '\0';
	return strlen(parent) <= strlen(w->root) || pin(w, parent);
}

enum presence { ABSENT, THERE, REFUSED };

static enum presence look(struct work *w, const char *path, struct stat *st)
{
	if (lstat(path, st) != 0)
		return ABSENT;
	if (!S_ISLNK(st->st_mode))
		return THERE;
	refuse_link(w, path);
	return REFUSED;
}

/* Read-only; where it is absent, an empty folder that stays empty. */
static bool protect(struct work *w, const char *path)
{
	struct stat st;
	enum presence presence = look(w, path, &st);
	if (presence == REFUSED)
		return false;
	if (kh_view_has(w->view, path))
		return true;
	if (!pin_parent(w, path))
		return false;
	if (presence == THERE) {
		if (!kh_view_bind_held(w->view, KH_MOUNT_READ, path, path, KH_TREE_HOST, w->err))
			return false;
		if (!w->view->failed)
			w->view->list[w->view->n - 1].is_file = !S_ISDIR(st.st_mode);
		return true;
	}
	if (!kh_mountpoint_make(w->made, path, &w->owner, w->err))
		return false;
	kh_view_over(w->view, KH_MOUNT_BLANK, path, 0);
	return true;
}

static bool protect_in(struct work *w, const char *folder, const char *name)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	return path ? protect(w, path) : no_memory(w);
}

static bool protect_in_if_there(struct work *w, const char *folder, const char *name)
{
	kh_auto_free char *path = kh_strf("%s/%s", folder, name);
	struct stat st;
	if (!path)
		return no_memory(w);
	return lstat(path, &st) != 0 || protect(w, path);
}

/* git looks for its configuration where this file says, if there is one. */
static bool protect_commondir(struct work *w, const char *git_dir)
{
	kh_auto_free char *path = kh_strf("%s/commondir", git_dir);
	struct stat st;
	if (!path)
		return no_memory(w);
	if (lstat(path, &st) != 0 &&
	    !kh_mountpoint_make_file(w->made, path, ".\n", &w->owner, w->err))
		return false;
	return protect(w, path);
}

/* The value of a variable of git's core section (no other has one of these names), as far as a
 * reader of one screen gets: the last one counts. Heap. */
static char *core_value(const char *git_dir, struct kh_slice name)
{
	kh_auto_free char *path = kh_strf("%s/config", git_dir);
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 1024 * 1024);
	if (!path || !kh_file_read(path, &text, NULL))
		return NULL;
	char *found = NULL;
	struct kh_slice all = kh_buf_view(&text);
	for (size_t at = 0; at < all.len;) {
		size_t end = kh_slice_find(all, '\n', at);
		struct kh_slice line = kh_slice_trim(kh_slice_sub(all, at, end));
		at = end + 1;
		size_t equals = kh_slice_find(line, '=', 0);
		if (!kh_slice_eq_nocase(kh_slice_trim(kh_slice_sub(line, 0, equals)), name))
			continue;
		struct kh_slice value = kh_slice_trim(kh_slice_sub(line, equals + 1, line.len));
		if (value.len >= 2 && value.ptr[0] == '"')
			value = kh_slice_sub(value, 1, value.len - 1);
		free(found);
		found = kh_slice_dup(value);
	}
	return found;
}

/* `value` from `folder`, without links; NULL where that is not in the workspace. Heap. */
static char *inside(const struct work *w, const char *folder, const char *value)
{
	kh_auto_free char *joined = kh_path_join(folder, value);
	char *resolved = joined ? realpath(joined, NULL) : NULL;
	size_t len = strlen(w->root);
	if (resolved && strncmp(resolved, w->root, len) == 0 && resolved[len] == '/')
		return resolved;
	free(resolved);
	return NULL;
}

/* A project may keep its hooks in a folder of its own. */
static bool protect_hooks_path(struct work *w, const char *git_dir, const char *work_tree)
{
	kh_auto_free char *value = core_value(git_dir, KH_SLICE("hookspath"));
	kh_auto_free char *path = value && *value ? inside(w, work_tree, value) : NULL;
	return !path || protect(w, path);
}

static bool protect_git_dir(struct work *w, const char *git_dir, const char *work_tree);

/* Its git folder, and the file in the work tree that says where that is. */
static bool protect_submodule(struct work *w, const char *git_dir)
{
	kh_auto_free char *value = core_value(git_dir, KH_SLICE("worktree"));
	kh_auto_free char *tree = value && *value ? inside(w, git_dir, value) : NULL;
	return protect_git_dir(w, git_dir, tree ? tree : w->root) &&
	       (!tree || protect_in_if_there(w, tree, ".git"));
}

/* Submodules keep their own git folder below modules/, at the depth of their names. */
static bool protect_modules(struct work *w, const char *folder, int depth)
{
	DIR *dir = depth < MODULES_DEPTH ? opendir(folder) : NULL;
	if (!dir)
		return true;
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		kh_auto_free char *path = kh_strf("%s/%s", folder, entry->d_name);
		kh_auto_free char *head = path ? kh_strf("%s/HEAD", path) : NULL;
		struct stat st;
		if (!head)
			ok = no_memory(w);
		else if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
			ok = refuse_link(w, path);
		else if (lstat(head, &st) == 0)
			ok = protect_submodule(w, path);
		else
			ok = protect_modules(w, path, depth + 1);
	}
	closedir(dir);
	return ok;
}

/* Linked worktrees: two small files of each say where the rest is. */
static bool protect_worktrees(struct work *w, const char *folder)
{
	DIR *dir = opendir(folder);
	if (!dir)
		return true;
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		kh_auto_free char *path = kh_strf("%s/%s", folder, entry->d_name);
		ok = path ? protect_in_if_there(w, path, "commondir") &&
				     protect_in_if_there(w, path, "config.worktree")
			  : no_memory(w);
	}
	closedir(dir);
	return ok;
}

static bool protect_git_dir(struct work *w, const char *git_dir, const char *work_tree)
{
	if (++w->repositories > REPOSITORIES_MOST)
		return kh_err_set(w->err, KH_ERR_CONFIG,
				  "--workspace %s: more than %d repositories and submodules in it "
				  "(take one of them, or use --workspace DIR:ro)",
				  kh_esc_str(w->root), REPOSITORIES_MOST);
	if (!pin(w, git_dir))
		return false;
	kh_auto_free char *modules = kh_strf("%s/modules", git_dir);
	kh_auto_free char *worktrees = kh_strf("%s/worktrees", git_dir);
	if (!modules || !worktrees)
		return no_memory(w);
	return protect_in(w, git_dir, "hooks") && protect_in(w, git_dir, "config") &&
	       protect_in(w, git_dir, "config.worktree") && protect_commondir(w, git_dir) &&
	       protect_hooks_path(w, git_dir, work_tree) && protect_modules(w, modules, 0) &&
	       protect_worktrees(w, worktrees);
}

/* A folder; a file that says where the folder is (a submodule, a worktree); or nothing, and then
 * nothing is to be made: a repository that an agent makes holds hooks of its own. */
static bool protect_git(struct work *w, const char *work_tree)
{
	kh_auto_free char *git = kh_strf("%s/.git", work_tree);
	struct stat st;
	if (!git)
		return no_memory(w);
	if (lstat(git, &st) == 0 && S_ISDIR(st.st_mode))
		return protect_git_dir(w, git, work_tree);
	return protect(w, git);
}

static bool protect_all(struct work *w, const struct kh_survey *survey)
{
	bool ok = protect_git(w, w->root);
	for (size_t i = 0; ok && kh_sandbox_protected[i]; i++)
		ok = protect_in(w, w->root, kh_sandbox_protected[i]);
	for (size_t i = 0; ok && if_there[i]; i++)
		ok = protect_in_if_there(w, w->root, if_there[i]);
	for (size_t i = 0; ok && i < survey->repositories.n; i++)
		ok = protect_git(w, survey->repositories.list[i]);
	return ok;
}

/* Folders that the sandbox has of its own, and what covers them. */
static const char *const taken[] = { "/",     "/usr",	"/etc",	 "/bin", "/sbin", "/lib",
				     "/dev",  "/proc",	"/sys",	 "/run", "/tmp",  "/var",
				     "/home", "/lib64", "/root", "/opt" };
static const char *const taken_with_all[] = { "/dev/", "/proc/", "/sys/", "/run/keyhole/" };

static bool check_place(const char *path, struct kh_err *err)
{
	bool bad = path[0] != '/';
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		bad = bad || strcmp(path, taken[i]) == 0;
	for (size_t i = 0; i < sizeof(taken_with_all) / sizeof(taken_with_all[0]); i++)
		bad = bad || strncmp(path, taken_with_all[i], strlen(taken_with_all[i])) == 0;
	return !bad || kh_err_set(err, KH_ERR_USAGE,
				  "--workspace %s: holds more than a project (name a folder of "
				  "its own)",
				  kh_esc_str(path));
}

static bool begin(struct work *w, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	*w = (struct work){ .root = spec->workspace, .err = err };
	if (!check_place(w->root, err))
		return false;
	if (stat(w->root, &w->owner) != 0)
		return kh_err_sys(err, KH_ERR_USAGE, errno, "--workspace %s", kh_esc_str(w->root));
	if (!S_ISDIR(w->owner.st_mode))
		return kh_err_set(err, KH_ERR_USAGE, "--workspace %s: is not a folder",
				  kh_esc_str(w->root));
	return true;
}

bool kh_workspace_lay(struct kh_view *view, const struct kh_sandbox_spec *spec,
		      const struct kh_survey *survey, struct kh_mountpoints *made,
		      struct kh_err *err)
{
	struct work w;
	if (!begin(&w, spec, err))
		return false;
	if (!kh_view_bind_held(view, spec->workspace_read_only ? KH_MOUNT_READ : KH_MOUNT_WRITE,
			       w.root, w.root, KH_TREE_AS_OWNER, err))
		return false;
	if (spec->workspace_read_only)
		return true;
	w.view = view;
	w.made = made;
	return kh_mountpoints_begin(made, w.root, spec->record, err) && protect_all(&w, survey);
}
