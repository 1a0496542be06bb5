/*
 * run_program.c - where the command's program lives
 *
 * The sandbox sees the host's /usr. What a package manager of the user's installs lies elsewhere:
 * npm's prefix, nvm, pyenv, rustup, ~/.local/share. So the folder of the installation is shown,
 * read-only, and its programs are on the PATH inside; for a script the same of its interpreter. It
 * is never a home, nor a folder above one.
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
	{ "/home/linuxbrew/.linuxbrew", 0, NULL },
	{ "/nix/store", 0, NULL },
	{ "/opt", 1, NULL },
};

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

/* No home and nothing above one: not for a program that lies there by itself. */
static bool may_show(const struct showing *s, const char *folder)
{
	return strcmp(folder, "/") != 0 && (!s->home || !is_below(s->home, folder));
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
		kh_auto_free char *local = s->home ? kh_strf("%s/.local", s->home) : NULL;
		if (prefix && may_show(s, prefix) && (!local || strcmp(prefix, local) != 0))
			return kh_steal_ptr(&prefix);
	}
	return cut(path, (size_t)(modules - path) + strlen("/node_modules"));
}

/* A virtual environment of Python. */
static char *of_venv(const char *path)
{
	kh_auto_free char *up = strdup(path);
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

static bool show(struct showing *s, const char *name, const char *path, int depth);

static bool show_by_name(struct showing *s, const char *name, int depth)
{
	kh_auto_free char *path = kh_program_find(name);
	return !path || show(s, name, path, depth);
}

/* "#!/usr/bin/env -S node --flag", "#!/home/me/venv/bin/python". */
static bool show_interpreter(struct showing *s, const char *program, int depth)
{
	char line[FIRST_LINE_BYTES + 1];
	kh_auto_close int fd = open(program, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, line, FIRST_LINE_BYTES);
	if (n < 2 || line[0] != '#' || line[1] != '!')
		return true;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	char *save = NULL;
	const char *word = strtok_r(line + 2, " \t", &save);
	if (!word || word[0] != '/')
		return true;
	const char *last = strrchr(word, '/') + 1;
	if (strcmp(last, "env") != 0)
		return show(s, word, word, depth);
	do {
		word = strtok_r(NULL, " \t", &save);
	} while (word && (word[0] == '-' || strchr(word, '=')));
	return !word || show_by_name(s, word, depth);
}

/* `path` is where it was found: a link, maybe. `name` is what it is called by: that path, or a name
 * on the PATH. */
static bool show(struct showing *s, const char *name, const char *path, int depth)
{
	struct kh_run_options *o = s->options;
	kh_auto_free char *real = realpath(path, NULL);
	struct stat st;
	if (depth > INTERPRETERS_MOST || !real || stat(real, &st) != 0 || !S_ISREG(st.st_mode))
		return true; /* whoever executes it says what is wrong */
	/* By that path it is called, or not at all. */
	bool reached = is_visible(o, path) && is_visible(o, real);
	const char *variable = NULL;
	/* Where the link is says more than where it leads: a virtual environment's python is the
	 * system's. */
	kh_auto_free char *folder = reached ? NULL : installation(s, path, &variable);
	if (!reached && !folder)
		folder = installation(s, real, &variable);
	if (!reached) {
		bool ok = add_word(&o->read_only, &o->n_read_only, folder ? folder : real) &&
			  (is_visible(o, real) || add_word(&o->read_only, &o->n_read_only, real)) &&
			  (!folder || !variable || kh_run_add_variable(o, variable, folder));
		const char *slash = strrchr(path, '/');
		kh_auto_free char *bin = cut(path, (size_t)(slash - path));
		if (folder && is_below(path, folder))
			ok = ok && bin && add_word(&o->path, &o->n_path, bin);
		else if (strcmp(name, real) != 0)
			ok = ok && add_link(o, name, real);
		if (!ok)
			return false;
	}
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
	kh_auto_free char *path = NULL;
	if (o->image || o->rootfs || !word)
		return true;
	/* A path is a file of the sandbox's, and what lies elsewhere was not asked for: but for one
	 * that is nowhere inside. */
	if (word[0] == '/')
		path = strdup(word);
	else if (!strchr(word, '/'))
		path = kh_program_find(word);
	if (path && !show(&s, word, path, 0))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	say(o, before);
	return true;
}
