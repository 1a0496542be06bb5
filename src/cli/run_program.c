/*
 * run_program.c - where the command's program lives
 *
 * The sandbox sees the host's /usr. What a package manager of the user's installs lies elsewhere:
 * npm's prefix, nvm, pyenv, rustup, ~/.local/share. So the folder of the installation is shown,
 * read-only, and its programs are on the PATH inside.
 *
 * What is shown is never for an agent to say, who may have written a script, a link or a virtual
 * environment in an earlier run: only programs count, found on the PATH or named by the caller;
 * paths are followed through their links first; the first line of a script can name a program of
 * the PATH, and no path; and a home, a folder above one, or anything in the workspace is never
 * shown.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/program.h>
#include <keyhole/base/slice.h>
#include <keyhole/sandbox/workspace.h>

#include "run_internal.h"

enum {
	INTERPRETERS_MOST = 3, /* a script's interpreter may be a script */
	FIRST_LINE_BYTES = 256,
	VENV_LEVELS = 3,
};

/* Folders of managers in a home: how many more parts of the path belong to one installation, and
 * the variable by which their programs find it. */
static const struct manager {
	const char *folder;
	int parts;
	const char *variable;
} managers[] = {
	{ ".nvm/versions/node", 1, NULL },
	{ ".local/share/fnm/node-versions", 1, NULL },
	{ ".local/share/mise", 0, "MISE_DATA_DIR" },
	{ ".local/share", 1, NULL },
	{ ".local/opt", 1, NULL },
	{ ".local/pipx/venvs", 1, NULL },
	{ ".npm-global", 0, NULL },
	{ ".volta", 0, "VOLTA_HOME" },
	{ ".pyenv", 0, "PYENV_ROOT" },
	{ ".asdf", 0, "ASDF_DATA_DIR" },
	{ ".rustup", 0, "RUSTUP_HOME" },
	{ ".cargo/bin", 0, NULL },
	{ ".bun", 0, "BUN_INSTALL" },
	{ ".deno/bin", 0, NULL },
	{ ".opencode/bin", 0, NULL },
	{ "go/bin", 0, NULL },
	{ ".sdkman/candidates", 2, NULL },
};

/* Of the whole host. */
static const struct manager elsewhere[] = {
	{ "/home/linuxbrew/.linuxbrew/Cellar", 0, NULL },
	{ "/nix/store", 0, NULL },
	{ "/opt", 1, NULL },
};

/* Where the python of a virtual environment may come from. */
static const char *const pythons[] = { ".pyenv", ".local/share/uv", ".local/share/mise", ".asdf" };

/* Always there. */
static const char *const seen[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64" };

struct showing {
	struct kh_run_options *options;
	const char *home; /* NULL: none */
};

static bool is_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && (path[len] == '/' || !path[len]);
}

static bool is_visible(const struct kh_run_options *o, const char *path)
{
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		if (is_below(path, seen[i]))
			return true;
	if (o->workspace && is_below(path, o->workspace))
		return true;
	for (size_t i = 0; i < o->n_read_only; i++)
		if (is_below(path, o->read_only[i]))
			return true;
	return false;
}

/* Neither a home nor a folder above one, nor one of the system's; and nothing that the agent writes
 * to or that holds it. */
static bool may_show(const struct showing *s, const char *folder)
{
	const struct kh_run_options *o = s->options;
	struct kh_err err = KH_ERR_INIT;
	const char *const written[] = { o->workspace, o->home };
	for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++)
		if (written[i] && (is_below(folder, written[i]) || is_below(written[i], folder)))
			return false;
	return kh_workspace_may_be(folder, &err);
}

/* ---- the folder of an installation; heap, or NULL ---- */

static char *cut(const char *path, size_t len)
{
	return kh_slice_dup(kh_slice_of(path, len));
}

/* `parts` more parts of `path` behind its first `len` bytes. */
static char *with_parts(const char *path, size_t len, int parts)
{
	for (; parts > 0; parts--) {
		if (path[len] != '/')
			return NULL;
		len += 1 + strcspn(path + len + 1, "/");
	}
	/* What has no part below it is the program itself. */
	return path[len] == '/' ? cut(path, len) : NULL;
}

static char *of_manager(const struct showing *s, const char *path, const char **variable)
{
	for (size_t i = 0; s->home && i < sizeof(managers) / sizeof(managers[0]); i++) {
		kh_auto_free char *folder = kh_strf("%s/%s", s->home, managers[i].folder);
		if (!folder || !is_below(path, folder))
			continue;
		*variable = managers[i].variable;
		return with_parts(path, strlen(folder), managers[i].parts);
	}
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (is_below(path, elsewhere[i].folder))
			return with_parts(path, strlen(elsewhere[i].folder), elsewhere[i].parts);
	return NULL;
}

/* npm's: the prefix, in which its node is as well; or else the packages. */
static char *of_node(const struct showing *s, const char *path)
{
	const char *modules = strstr(path, "/node_modules/");
	if (!modules)
		return NULL;
	const char *prefix_end = modules - strlen("/lib");
	if (prefix_end > path && strncmp(prefix_end, "/lib", 4) == 0) {
		kh_auto_free char *prefix = cut(path, (size_t)(prefix_end - path));
		kh_auto_free char *node = prefix ? kh_strf("%s/bin/node", prefix) : NULL;
		if (node && access(node, X_OK) == 0 && may_show(s, prefix))
			return kh_steal_ptr(&prefix);
	}
	return cut(path, (size_t)(modules - path) + strlen("/node_modules"));
}

/* A virtual environment of Python. */
static char *of_venv(const char *path)
{
	kh_auto_free char *up = kh_slice_dup(kh_slice_str(path));
	for (int level = 0; up && level < VENV_LEVELS; level++) {
		char *slash = strrchr(up, '/');
		if (!slash || slash == up)
			return NULL;
		*slash = '\0';
		kh_auto_free char *mark = kh_strf("%s/pyvenv.cfg", up);
		if (mark && access(mark, F_OK) == 0)
			return kh_steal_ptr(&up);
	}
	return NULL;
}

static char *installation(const struct showing *s, const char *path, const char **variable)
{
	char *folder = of_node(s, path);
	if (!folder)
		folder = of_venv(path);
	if (!folder)
		folder = of_manager(s, path, variable);
	if (folder && may_show(s, folder))
		return folder;
	free(folder);
	return NULL;
}

/* ---- what is shown ---- */

static bool add_word(char ***list, size_t *n, const char *word)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp((*list)[i], word) == 0)
			return true;
	char **more = reallocarray(*list, *n + 1, sizeof(*more));
	if (!more)
		return false;
	*list = more;
	more[*n] = strdup(word);
	return more[(*n)++] != NULL;
}

static bool add_link(struct kh_run_options *o, const char *name, const char *program)
{
	struct kh_program_link *more = reallocarray(o->links, o->n_links + 1, sizeof(*more));
	if (!more)
		return false;
	o->links = more;
	more[o->n_links] = (struct kh_program_link){ strdup(name), strdup(program) };
	o->n_links++;
	return more[o->n_links - 1].name && more[o->n_links - 1].program;
}

bool kh_run_add_variable(struct kh_run_options *o, const char *name, const char *value)
{
	struct kh_env_var *more = reallocarray(o->env, o->n_env + 1, sizeof(*more));
	if (!more)
		return false;
	o->env = more;
	memmove(more + 1, more, o->n_env * sizeof(*more));
	more[0] = (struct kh_env_var){ strdup(name), strdup(value) };
	o->n_env++;
	return more[0].name && more[0].value;
}

static bool show(struct showing *s, const char *name, const char *found, int depth);

static bool show_by_name(struct showing *s, const char *name, int depth)
{
	kh_auto_free char *path = kh_program_find(name);
	return !path || show(s, name, path, depth);
}

/* "#!/usr/bin/env -S node --flag": a program of the PATH. A path is not followed. A line that does
 * not end here is none to the kernel either. */
static bool show_interpreter(struct showing *s, const char *program, int depth)
{
	char line[FIRST_LINE_BYTES + 1];
	kh_auto_close int fd = open(program, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, line, FIRST_LINE_BYTES);
	char *save = NULL;
	if (n < 2 || line[0] != '#' || line[1] != '!' || !memchr(line, '\n', (size_t)n))
		return true;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	const char *word = strtok_r(line + 2, " \t", &save);
	if (!word || strcmp(word, "/usr/bin/env") != 0)
		return true;
	do {
		word = strtok_r(NULL, " \t", &save);
	} while (word && (word[0] == '-' || strchr(word, '=')));
	return !word || strchr(word, '/') || show_by_name(s, word, depth);
}

/* The python of a virtual environment, where it is one that a manager of the user's has installed.
 */
static bool show_python_of(struct showing *s, const char *venv)
{
	kh_auto_free char *python = kh_strf("%s/bin/python3", venv);
	kh_auto_free char *mark = kh_strf("%s/pyvenv.cfg", venv);
	kh_auto_free char *real = python ? realpath(python, NULL) : NULL;
	if (!mark || access(mark, F_OK) != 0 || !real || access(real, X_OK) != 0)
		return true;
	for (size_t i = 0; s->home && i < sizeof(pythons) / sizeof(pythons[0]); i++) {
		kh_auto_free char *folder = kh_strf("%s/%s", s->home, pythons[i]);
		if (folder && is_below(real, folder) && may_show(s, folder))
			return add_word(&s->options->read_only, &s->options->n_read_only, folder);
	}
	return true;
}

/* The same file by a path whose folders are no links. Heap, or NULL. */
static char *without_links(const char *path)
{
	const char *slash = strrchr(path, '/');
	kh_auto_free char *above = cut(path, slash == path ? 1 : (size_t)(slash - path));
	kh_auto_free char *real = above ? realpath(above, NULL) : NULL;
	return real ? kh_strf("%s/%s", strcmp(real, "/") == 0 ? "" : real, slash + 1) : NULL;
}

/* `found` may be a link. `name`: on the PATH; NULL: it is called by its path. */
static bool show(struct showing *s, const char *name, const char *found, int depth)
{
	struct kh_run_options *o = s->options;
	kh_auto_free char *path = without_links(found);
	kh_auto_free char *real = realpath(found, NULL);
	const char *variable = NULL;
	struct stat st;
	/* Whoever executes it says what is wrong. What the agent may write says nothing here. */
	if (depth > INTERPRETERS_MOST || !path || !real || stat(real, &st) != 0 ||
	    !S_ISREG(st.st_mode) || access(real, X_OK) != 0 ||
	    (o->workspace && is_below(real, o->workspace)) || (o->home && is_below(real, o->home)))
		return true;
	if (is_visible(o, path) && is_visible(o, real))
		return show_interpreter(s, real, depth + 1);
	/* Where the link is says more than where it leads: a virtual environment's python is the
	 * system's. */
	kh_auto_free char *folder = installation(s, path, &variable);
	if (!folder)
		folder = installation(s, real, &variable);
	if (folder && !add_word(&o->read_only, &o->n_read_only, folder))
		return false;
	if (folder &&
	    (!show_python_of(s, folder) || (variable && !kh_run_add_variable(o, variable, folder))))
		return false;
	kh_auto_free char *alone = is_visible(o, real) ? NULL : cut(real, strlen(real));
	if (alone && may_show(s, alone) && !add_word(&o->read_only, &o->n_read_only, alone))
		return false;
	kh_auto_free char *bin = cut(path, (size_t)(strrchr(path, '/') - path));
	if (is_visible(o, path) ? bin && name && !add_word(&o->path, &o->n_path, bin)
				: !add_link(o, name ? name : path, real))
		return false;
	return show_interpreter(s, real, depth + 1);
}

static void say(const struct kh_run_options *o, size_t from)
{
	for (size_t i = from; i < o->n_read_only && !o->quiet; i++)
		kh_cli_complain("run: the sandbox sees %s, read-only, for %s",
				kh_esc_str(o->read_only[i]), kh_esc_str(o->command[0]));
}

bool kh_run_program_show(struct kh_run_options *o, struct kh_err *err)
{
	kh_auto_free char *home = getenv("HOME") ? realpath(getenv("HOME"), NULL) : NULL;
	struct showing s = { .options = o, .home = home };
	const char *word = o->command[0];
	size_t before = o->n_read_only;
	if (o->image || o->rootfs || !word)
		return true;
	/* Another path is a file of the sandbox's. */
	if (!(word[0] == '/'	  ? show(&s, NULL, word, 0)
	      : strchr(word, '/') ? true
				  : show_by_name(&s, word, 0)))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	say(o, before);
	return true;
}
