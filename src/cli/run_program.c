/*
 * run_program.c - where the command's program lives
 *
 * The sandbox sees the host's /usr. What a user's package manager installs is elsewhere: npm's
 * packages, nvm, pyenv, rustup. So the folder of the installation is shown, or those of its parts
 * that hold programs, read-only, and its programs are on the PATH inside.
 *
 * An agent, which may have written a script, a link or a virtual environment in an earlier run,
 * must not choose what is shown. So only programs count that are found on the PATH or named by the
 * caller; paths are followed through their links first; the first line of a script can name a
 * program of the PATH, but no path; and a home, a folder above one, or anything in the workspace is
 * never shown.
 */
#include <dirent.h>
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
#include <keyhole/base/writable.h>
#include <keyhole/sandbox/workspace.h>

#include "run_internal.h"

enum {
	INTERPRETERS_MOST = 3, /* a script's interpreter may be a script */
	FIRST_LINE_BYTES = 256,
	VENV_LEVELS = 3,
	LINKS_MOST = 256, /* in a folder of programs */
};

/* Folders of managers in a home: how many more parts of the path belong to one installation, what
 * is shown of it (NULL: all), and the variable by which their programs find it. Settings and keys
 * lie beside programs, so nothing is shown that need not be: npm's `etc/npmrc`, uv's `credentials`.
 */
static const struct manager {
	const char *folder;
	int parts;
	const char *variable;
	const char *shown; /* words */
} managers[] = {
	{ ".nvm/versions/node", 1, NULL, "bin lib include share" },
	{ ".local/share/fnm/node-versions", 2, NULL, "bin lib include share" },
	{ ".local/share/mise", 0, "MISE_DATA_DIR", "installs plugins shims" },
	{ ".local/opt", 1, NULL, NULL },
	{ ".volta", 0, "VOLTA_HOME", "bin tools layout.v3 layout.v4" },
	{ ".pyenv", 0, "PYENV_ROOT", NULL },
	{ ".asdf", 0, "ASDF_DATA_DIR", NULL },
	{ ".rustup", 0, "RUSTUP_HOME", NULL },
	{ ".cargo/bin", 0, NULL, NULL },
	{ ".bun", 0, "BUN_INSTALL", "bin install/global" },
	{ ".deno/bin", 0, NULL, NULL },
	{ ".opencode/bin", 0, NULL, NULL },
	{ "go/bin", 0, NULL, NULL },
	{ ".sdkman/candidates", 2, NULL, NULL },
};

/* Of the whole host. */
static const struct manager elsewhere[] = {
	{ "/home/linuxbrew/.linuxbrew/Cellar", 0, NULL, NULL },
	{ "/nix/store", 0, NULL, NULL },
	{ "/opt", 1, NULL, NULL },
};

/* Where the python of a virtual environment may come from. */
static const struct manager pythons[] = {
	{ ".pyenv/versions", 1, NULL, NULL },
	{ ".local/share/uv/python", 1, NULL, NULL },
	{ ".local/share/mise/installs", 2, NULL, NULL },
	{ ".asdf/installs", 2, NULL, NULL },
};

static const char venv_shown[] = "bin lib include share pyvenv.cfg";

/* Always there. */
static const char *const seen[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64" };

struct showing {
	struct kh_run_options *options;
	const char *home; /* NULL: none */
	char **said;	  /* of what a line tells */
	size_t n_said;
};

struct installation {
	char *folder;	   /* NULL: none */
	const char *shown; /* words; NULL: all of it */
	const char *variable;
	bool has_links; /* node's: its `bin` holds links to the packages */
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

/* ---- the folder of an installation ---- */

static char *cut(const char *path, size_t len)
{
	return kh_slice_dup(kh_slice_of(path, len));
}

/* `parts` more parts of `path` behind its first `len` bytes. Heap, or NULL. */
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

/* ~/.local/share/NAME/versions/VERSION. Elsewhere in NAME its data may be. */
static char *of_version(const struct showing *s, const char *path)
{
	kh_auto_free char *share = kh_strf("%s/.local/share", s->home);
	if (!share || !is_below(path, share) || !path[strlen(share)])
		return NULL;
	size_t len = strlen(share) + 1;
	len += strcspn(path + len, "/");
	return strncmp(path + len, "/versions/", strlen("/versions/")) == 0
		       ? with_parts(path, len + strlen("/versions"), 1)
		       : NULL;
}

static struct installation of_manager(const struct showing *s, const char *path)
{
	for (size_t i = 0; s->home && i < sizeof(managers) / sizeof(managers[0]); i++) {
		const struct manager *m = &managers[i];
		kh_auto_free char *folder = kh_strf("%s/%s", s->home, m->folder);
		if (folder && is_below(path, folder))
			return (struct installation){
				.folder = with_parts(path, strlen(folder), m->parts),
				.shown = m->shown,
				.variable = m->variable,
			};
	}
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (is_below(path, elsewhere[i].folder))
			return (struct installation){
				.folder = with_parts(path, strlen(elsewhere[i].folder),
						     elsewhere[i].parts),
			};
	return (struct installation){ .folder = s->home ? of_version(s, path) : NULL };
}

/* npm's packages; of its prefix nothing else. */
static struct installation of_node(const char *path)
{
	const char *modules = strstr(path, "/node_modules/");
	if (!modules)
		return (struct installation){ .folder = NULL };
	const char *prefix_end = modules - strlen("/lib");
	if (prefix_end > path && strncmp(prefix_end, "/lib", 4) == 0)
		return (struct installation){ .folder = cut(path, (size_t)(prefix_end - path)),
					      .shown = "lib/node_modules",
					      .has_links = true };
	return (struct installation){ .folder = cut(path, (size_t)(modules - path) +
								  strlen("/node_modules")) };
}

/* A virtual environment of Python. */
static struct installation of_venv(const char *path)
{
	kh_auto_free char *up = cut(path, strlen(path));
	for (int level = 0; up && level < VENV_LEVELS; level++) {
		char *slash = strrchr(up, '/');
		if (!slash || slash == up)
			break;
		*slash = '\0';
		kh_auto_free char *mark = kh_strf("%s/pyvenv.cfg", up);
		if (mark && access(mark, F_OK) == 0)
			return (struct installation){ .folder = kh_steal_ptr(&up),
						      .shown = venv_shown };
	}
	return (struct installation){ .folder = NULL };
}

static struct installation installation_of(const struct showing *s, const char *path)
{
	struct installation found = of_node(path);
	if (!found.folder)
		found = of_venv(path);
	if (!found.folder)
		found = of_manager(s, path);
	return found;
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
	for (size_t i = 0; i < o->n_links; i++)
		if (strcmp(o->links[i].name, name) == 0)
			return true;
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

/* A line tells of it, or of `folder` that it is a part of. */
static bool add_shown(struct showing *s, const char *path, const char *folder)
{
	return add_word(&s->options->read_only, &s->options->n_read_only, path) &&
	       add_word(&s->said, &s->n_said, folder);
}

/* Links in node's `bin` to packages that are shown. */
static bool show_links_of(struct showing *s, const char *prefix)
{
	kh_auto_free char *bin = kh_strf("%s/bin", prefix);
	kh_auto_free char *modules = kh_strf("%s/lib/node_modules", prefix);
	DIR *dir = bin && modules ? opendir(bin) : NULL;
	bool ok = true;
	for (int n = 0; dir && ok && n < LINKS_MOST; n++) {
		const struct dirent *entry = readdir(dir);
		if (!entry)
			break;
		kh_auto_free char *path = kh_strf("%s/%s", bin, entry->d_name);
		kh_auto_free char *real =
			path && entry->d_name[0] != '.' ? realpath(path, NULL) : NULL;
		if (real && is_below(real, modules))
			ok = add_link(s->options, entry->d_name, real);
	}
	if (dir)
		closedir(dir);
	return ok;
}

/* *any: something is shown. A part that is a link leads to another one, or elsewhere. */
static bool show_installation(struct showing *s, const struct installation *it, bool *any)
{
	*any = false;
	if (!it->shown) {
		*any = may_show(s, it->folder);
		return !*any || add_shown(s, it->folder, it->folder);
	}
	for (const char *word = it->shown; *word;) {
		size_t len = strcspn(word, " ");
		kh_auto_free char *part = kh_strf("%s/%.*s", it->folder, (int)len, word);
		struct stat st;
		word += len + strspn(word + len, " ");
		if (!part)
			return false;
		if (lstat(part, &st) != 0 || S_ISLNK(st.st_mode) || !may_show(s, part))
			continue;
		*any = true;
		if (!add_shown(s, part, it->folder))
			return false;
	}
	return !*any || !it->has_links || show_links_of(s, it->folder);
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
	if (!mark || access(mark, F_OK) != 0 || !real || access(real, X_OK) != 0 ||
	    kh_writable_is(python, KH_WRITABLE_FOR_PROGRAMS))
		return true;
	for (size_t i = 0; s->home && i < sizeof(pythons) / sizeof(pythons[0]); i++) {
		kh_auto_free char *folder = kh_strf("%s/%s", s->home, pythons[i].folder);
		kh_auto_free char *one =
			folder && is_below(real, folder)
				? with_parts(real, strlen(folder), pythons[i].parts)
				: NULL;
		if (one && may_show(s, one))
			return add_shown(s, one, one);
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

/* The installation that a program belongs to. *any: there is one, which is shown. */
static bool show_around(struct showing *s, const char *path, bool *any)
{
	struct installation it = installation_of(s, path);
	*any = false;
	bool ok = !it.folder ||
		  (show_installation(s, &it, any) &&
		   (!*any ||
		    (show_python_of(s, it.folder) &&
		     (!it.variable || kh_run_add_variable(s->options, it.variable, it.folder)))));
	free(it.folder);
	return ok;
}

/* cargo and rustc are links to rustup, which starts the programs of a toolchain. */
static bool show_toolchains(struct showing *s, const char *program)
{
	kh_auto_free char *folder = s->home ? kh_strf("%s/.rustup", s->home) : NULL;
	kh_auto_free char *real = folder ? realpath(folder, NULL) : NULL;
	if (strcmp(strrchr(program, '/'), "/rustup") != 0 || !real || !may_show(s, real))
		return true;
	return is_visible(s->options, real) ||
	       (add_shown(s, real, real) && kh_run_add_variable(s->options, "RUSTUP_HOME", real));
}

/* `found` may be a link. `name`: on the PATH; NULL: it is called by its path. */
static bool show(struct showing *s, const char *name, const char *found, int depth)
{
	struct kh_run_options *o = s->options;
	kh_auto_free char *path = without_links(found);
	kh_auto_free char *real = realpath(found, NULL);
	struct stat st;
	bool any = false;
	/* Whoever executes it says what is wrong. What the agent may write says nothing here: no
	 * file, and no link. */
	if (depth > INTERPRETERS_MOST || !path || !real || stat(real, &st) != 0 ||
	    !S_ISREG(st.st_mode) || access(real, X_OK) != 0 ||
	    kh_writable_is(found, KH_WRITABLE_FOR_PROGRAMS))
		return true;
	if (is_visible(o, path) && is_visible(o, real))
		return show_interpreter(s, real, depth + 1);
	/* Where the link is says more than where it leads: a virtual environment's python is the
	 * system's. */
	if (!show_around(s, path, &any) || (!any && !show_around(s, real, &any)))
		return false;
	if (!is_visible(o, real) && may_show(s, real) && !add_shown(s, real, real))
		return false;
	if (!show_toolchains(s, real))
		return false;
	kh_auto_free char *bin = cut(path, (size_t)(strrchr(path, '/') - path));
	if (is_visible(o, path) ? bin && name && !add_word(&o->path, &o->n_path, bin)
				: !add_link(o, name ? name : path, real))
		return false;
	return show_interpreter(s, real, depth + 1);
}

/* One line for each installation. */
static void say(struct showing *s)
{
	for (size_t i = 0; i < s->n_said; i++) {
		if (!s->options->quiet)
			kh_cli_complain("run: the sandbox sees %s, read-only, for %s",
					kh_esc_str(s->said[i]), kh_esc_str(s->options->command[0]));
		free(s->said[i]);
	}
	free(s->said);
}

bool kh_run_program_show(struct kh_run_options *o, struct kh_err *err)
{
	kh_auto_free char *home = getenv("HOME") ? realpath(getenv("HOME"), NULL) : NULL;
	struct showing s = { .options = o, .home = home };
	const char *word = o->command[0];
	if (o->image || o->rootfs || !word)
		return true;
	/* Another path is a file of the sandbox's. */
	bool ok = word[0] == '/'      ? show(&s, NULL, word, 0)
		  : strchr(word, '/') ? true
				      : show_by_name(&s, word, 0);
	say(&s);
	return ok || kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
}
