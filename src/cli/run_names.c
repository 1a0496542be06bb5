/*
 * run_names.c - no name that a run uses may lead to where an agent can write
 *
 * What a run reads, runs or connects to on the host is named by options, by variables and by the
 * configuration. An agent that could change what a name leads to would choose the rules of the next
 * run, or the program that the keeper executes in this one. So each name is asked about
 * (writable.h) before anything is done with it. Other names are of folders that the sandbox is
 * given: --workspace, --home, --ro, --rootfs. The sandbox module judges these.
 *
 * A run uses these names until it ends. So they are recorded, and no other run may start whose
 * agent could write to where one of them leads (run_uses.c).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/log.h>
#include <keyhole/base/program.h>
#include <keyhole/base/writable.h>
#include <keyhole/sandbox/run_uses.h>
#include <keyhole/sandbox/workspace.h>

#include "run_internal.h"

static struct kh_run_uses uses = KH_RUN_USES_INIT;

/* ---- where sandboxes write ---- */

/* A read-only workspace is not this agent's to change, nor is one under review. But a
 * configuration in the workspace, which agents have written to before, names nothing in there; and
 * programs of the host are never looked for in there. */
static enum kh_writable_for use_of_workspace(const struct kh_run_options *o)
{
	bool written = !o->workspace_read_only && !o->review;

	return written || o->trusted ? KH_WRITABLE_FOR_ALL : KH_WRITABLE_FOR_PROGRAMS;
}

/* Where agents under review write. The user may have it elsewhere by a link. */
static bool note_reviews(struct kh_err *err)
{
	struct kh_err homeless = KH_ERR_INIT;
	kh_auto_free char *reviews = kh_review_home(&homeless);

	if (!reviews)
		return homeless.code == KH_ERR_USAGE ||
		       kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	return kh_writable_note(&(struct kh_writable_folder){ .path = reviews,
							      .what = "the folder of reviews" }) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", reviews);
}

/* First where this agent writes, and whether a live run names something there. */
static bool note_written(const struct kh_run_options *o, const char *state, struct kh_err *err)
{
	bool written = !o->workspace_read_only && !o->review;

	if ((o->workspace && written &&
	     !kh_run_uses_folder(&uses, o->workspace, &o->workspace_held, false, err)) ||
	    (o->home && !kh_run_uses_folder(&uses, o->home, &o->home_held, true, err)) ||
	    !kh_run_uses_check(&uses, state, err))
		return false;
	if (o->workspace &&
	    !kh_writable_add_held(o->workspace_held, "the workspace", use_of_workspace(o)))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "the workspace");
	return true;
}

/* With the lock of the records. First those of live runs, of which more is known. */
static bool note_others(struct kh_err *err)
{
	kh_auto_free char *state = kh_workspace_state();

	return kh_run_uses_note_folders(&uses, state, err) &&
	       (!state || kh_workspace_note_written(state, err)) && note_reviews(err);
}

static bool check(const char *name, const char *path, struct kh_err *err)
{
	if (!path || !*path)
		return true;
	if (!kh_writable_check(path, err))
		return kh_err_wrap(err, "%s", name);
	return kh_run_uses_name(&uses, name, path, err);
}

/* ---- podman, docker and skopeo ---- */

/* As these programs and commands find it. NULL: there is none. */
static const char *home_folder(void)
{
	const char *home = getenv("HOME");
	/* cppcheck-suppress getpwuidCalled ; one thread */
	const struct passwd *user = home && *home ? NULL : getpwuid(geteuid());

	return user ? user->pw_dir : home;
}

/* Where a variable leads that is not set, below the home. */
struct default_place {
	const char *variable, *folder;
};

static bool check_default(const struct default_place *place, struct kh_err *err)
{
	const char *home = home_folder();
	kh_auto_free char *name = kh_strf("the default of %s", place->variable);
	kh_auto_free char *path = kh_strf("%s/%s", home ? home : "", place->folder);

	if (!name || !path)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	return check(name, home ? path : NULL, err);
}

/* The links in a folder, and in those below it, of which `depth` are gone into. A folder that can't
 * be read has nothing for the programs either, which have the same user. */
static bool check_links(const char *name, const char *folder, int depth, struct kh_err *err)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	struct stat st;
	bool ok = true;

	if (!dir)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP ||
		       kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(folder));
	/* cppcheck-suppress readdirCalled ; nobody else has this stream */
	while (ok && (errno = 0, entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		kh_auto_free char *path = kh_strf("%s/%s", folder, entry->d_name);
		if (!path)
			ok = kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
		else if (S_ISLNK(st.st_mode))
			ok = check(name, path, err);
		else if (S_ISDIR(st.st_mode) && depth > 0)
			ok = check_links(name, path, depth - 1, err);
	}
	if (ok && errno)
		ok = kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(folder));
	closedir(dir);
	return ok;
}

static bool check_settings(const char *name, const char *base, const char *below, int depth,
			   struct kh_err *err)
{
	kh_auto_free char *path = base && *base ? kh_strf("%s%s", base, below) : NULL;

	if (!path)
		return !base || !*base || kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	return check(name, path, err) && check_links(name, path, depth, err);
}

/* Below the folder that the variable names, and below its default, which these programs take for
 * some files even if the variable is set (policy.json, the registries' keys). */
static bool check_container_folders(struct kh_err *err)
{
	static const struct {
		struct default_place place;
		const char *below;
		int depth; /* of the folders in there */
	} rows[] = {
		{ { "XDG_CONFIG_HOME", ".config" }, "/containers", 2 },
		{ { "XDG_CONFIG_HOME", ".config" }, "/docker", 2 },
		{ { "XDG_CONFIG_HOME", ".config" }, "/cni", 2 },
		{ { "XDG_DATA_HOME", ".local/share" }, "/containers", 0 },
		{ { "XDG_DATA_HOME", ".local/share" }, "/docker", 0 },
		{ { "DOCKER_CONFIG", ".docker" }, "", 4 }, /* contexts/tls/ID/docker */
	};
	const char *home = home_folder();

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct default_place *place = &rows[i].place;
		kh_auto_free char *name = kh_strf("the default of %s", place->variable);
		kh_auto_free char *base = kh_strf("%s/%s", home ? home : "", place->folder);
		if (!name || !base)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
		if (!check_settings(place->variable, getenv(place->variable), rows[i].below,
				    rows[i].depth, err) ||
		    (home && (!check_default(place, err) ||
			      !check_settings(name, base, rows[i].below, rows[i].depth, err))))
			return false;
	}
	return true;
}

/* Who answers there is told of the whole sandbox, and says how its command ended. However the
 * scheme is written. The path of another host's URL is no name here. */
static bool check_daemon(const char *name, const char *url, struct kh_err *err)
{
	const char *path = url ? strchr(url, '/') : NULL;

	while (path && path[1] == '/')
		path++;
	return check(name, path, err);
}

/* When all that docker reads first has been checked. */
static bool check_context(const struct kh_run_options *o, bool (*is_over)(void *),
			  struct kh_err *err)
{
	kh_auto_free char *url = NULL;

	if (strcmp(o->engine, "docker") == 0 && !kh_run_daemon_of_docker(is_over, &url, err))
		return false;
	return check_daemon("docker's context", url, err);
}

/* They may say that they don't find a program of that folder. */
static void say_link_away(void)
{
	kh_auto_free char *link = kh_program_link_away();

	if (link)
		kh_log_warn("PATH: %s leads to where an agent may write, so the PATH of the "
			    "programs that keyhole starts is without its folder (move the link "
			    "to a folder that is not on PATH)",
			    kh_esc_str(link));
}

/* They have the environment of the run, and run what these name. */
static bool check_containers(const struct kh_run_options *o, bool (*is_over)(void *),
			     struct kh_err *err)
{
	static const char *const variables[] = {
		"CONTAINERS_CONF",
		"CONTAINERS_CONF_OVERRIDE",
		"CONTAINERS_STORAGE_CONF",
		"CONTAINERS_REGISTRIES_CONF",
		"CONTAINERS_HELPER_BINARY_DIR",
		"REGISTRY_AUTH_FILE",
		"DOCKER_CONFIG",
		"DOCKER_CERT_PATH",
		"APT_CONFIG",
		"TMPDIR",
		"XDG_CONFIG_HOME",
		"XDG_DATA_HOME",
	};
	static const char *const daemons[] = { "DOCKER_HOST", "CONTAINER_HOST" };
	bool used =
		o->image || strcmp(o->engine, "docker") == 0 || strcmp(o->engine, "podman") == 0;

	for (size_t i = 0; used && i < sizeof(variables) / sizeof(variables[0]); i++)
		if (!check(variables[i], getenv(variables[i]), err))
			return false;
	for (size_t i = 0; used && i < sizeof(daemons) / sizeof(daemons[0]); i++)
		if (!check_daemon(daemons[i], getenv(daemons[i]), err))
			return false;
	if (used)
		say_link_away();
	return !used || (check_container_folders(err) && check_context(o, is_over, err));
}

/* ---- options and variables of keyhole's own ---- */

static bool check_options(const struct kh_run_options *o, bool (*is_over)(void *),
			  struct kh_err *err)
{
	/* Where keyhole keeps its own files, whatever it reads there first. */
	static const char *const variables[] = {
		"XDG_STATE_HOME",  "XDG_CACHE_HOME",	"XDG_RUNTIME_DIR",
		"STATE_DIRECTORY", "RUNTIME_DIRECTORY", "CREDENTIALS_DIRECTORY",
	};

	/* One that is trusted is read-only in the sandbox, and is read by its digest. */
	if (!check("-c", o->trusted ? NULL : o->config_path, err) ||
	    !check("--audit", o->audit, err) || !check("HOME", getenv("HOME"), err) ||
	    !check(getenv("KEYHOLE_PRESETS") ? "KEYHOLE_PRESETS" : "keyhole's own presets",
		   kh_preset_dir(), err) ||
	    !check("--agent", o->profile ? o->profile->path : NULL, err))
		return false;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		if (!check(variables[i], getenv(variables[i]), err))
			return false;
	return check_containers(o, is_over, err);
}

bool kh_run_names_check(const struct kh_run_options *o, bool (*is_over)(void *), struct kh_err *err)
{
	kh_auto_free char *state = kh_workspace_state();
	bool ok = kh_run_uses_lock(&uses, state, err) && note_written(o, state, err) &&
		  kh_writable_renew(note_others, err) && check_options(o, is_over, err) &&
		  kh_run_uses_write(&uses, err);

	kh_run_uses_unlock(&uses);
	return ok;
}

int kh_run_names_held(void)
{
	return uses.fd;
}

void kh_run_names_end(void)
{
	kh_run_uses_end(&uses);
}

/* ---- the configuration ---- */

/* Each part that may be a path. `bare`: so may one without a slash. A command runs in the folder
 * "/". */
static bool check_parts(const char *name, const char *text, const char *between, bool bare,
			struct kh_err *err)
{
	while (*text) {
		size_t len = strcspn(text, between);
		kh_auto_free char *one = kh_strf("/%.*s", (int)len, text);
		const char *path = one ? strchr(one + 1, '/') : NULL;
		if (!one)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
		if ((path && !check(name, path, err)) ||
		    (len > 0 && (path || bare) && !check(name, one, err)))
			return false;
		text += len + (text[len] != '\0');
	}
	return true;
}

/* One path, a list, options with paths, an address with one: -I/x, --require /x, unix:path=/x. What
 * is between two paths may also be in one. */
static bool check_text(const char *name, const char *text, bool bare, struct kh_err *err)
{
	static const char *const between[] = { ":,; \t\n='\"", ":,;=", ":", "" };

	for (size_t i = 0; i < sizeof(between) / sizeof(between[0]); i++)
		if (!check_parts(name, text, between[i], bare, err))
			return false;
	return true;
}

static bool check_variable(const char *name, struct kh_err *err)
{
	const char *value = getenv(name);

	return !value || check_text(name, value, true, err);
}

/* Those that the command asks for by name; the configuration has the others. */
static bool check_passed(const struct kh_exec *exec, struct kh_err *err)
{
	for (size_t i = 0; i < exec->n_environment; i++)
		if (!strchr(exec->environment[i], '=') &&
		    !check_variable(exec->environment[i], err))
			return false;
	return true;
}

/* As far as the kernel looks for an interpreter, and through how many that are scripts. */
enum { FIRST_LINE_BYTES = 256, INTERPRETERS_MOST = 5 };

/* What follows "#!" in the first line of a program, without blanks before it. Return: "": it is no
 * script. */
static const char *first_line(const char *path, char line[static FIRST_LINE_BYTES + 1])
{
	static const char blanks[] = " \t";
	struct stat st;

	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
		return "";
	kh_auto_close int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, line, FIRST_LINE_BYTES, 0);
	line[n > 0 ? n : 0] = '\0';
	if (strncmp(line, "#!", 2) != 0)
		return "";
	line[strcspn(line, "\n")] = '\0';
	return line + 2 + strspn(line + 2, blanks);
}

/* The interpreter of a script is a program like the script. Its argument may have a path:
 * "-S A=/x/y node". What /usr/bin/env runs it finds on PATH, of which no entry leads to where an
 * agent writes. */
static bool check_interpreter(const char *option, const char *path, struct kh_err *err)
{
	char line[FIRST_LINE_BYTES + 1];
	kh_auto_free char *script = strdup(path);

	for (int i = 0; script && i < INTERPRETERS_MOST; i++) {
		const char *rest = first_line(script, line);
		size_t len = strcspn(rest, " \t");
		kh_auto_free char *name = kh_strf("%s: the interpreter of %s", kh_esc_str(option),
						  kh_esc_str(script));
		kh_auto_free char *interpreter =
			kh_strf("%s%.*s", rest[0] == '/' ? "" : "/", (int)len, rest);
		if (len == 0)
			return true;
		if (!name || !interpreter)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
		if (!check(name, interpreter, err) || !check_text(name, rest + len, false, err))
			return false;
		free(script);
		script = kh_steal_ptr(&interpreter);
	}
	return script || kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
}

/* What has no slash is looked for again each time. */
static bool note_programs(const struct kh_exec *exec, struct kh_err *err)
{
	kh_auto_free char *all = kh_program_path();
	kh_auto_free char *program =
		strchr(exec->argv[0], '/') ? NULL : kh_program_find(exec->argv[0]);
	char *rest = NULL;

	if (!all)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	if (program && (!kh_run_uses_name(&uses, "PATH", program, err) ||
			!check_interpreter("PATH", program, err)))
		return false;
	for (const char *one = strtok_r(all, ":", &rest); one; one = strtok_r(NULL, ":", &rest))
		if (!kh_run_uses_name(&uses, "PATH", one, err))
			return false;
	return true;
}

/* The names of a user, of a language; and PATH, of which a command gets no entry that leads to
 * where an agent writes. */
static bool has_no_path(const char *variable)
{
	static const char *const names[] = { "PATH", "USER", "LOGNAME", "LANG", "LC_ALL" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], variable) == 0)
			return true;
	return false;
}

/* Where a command looks if the variable is not set. */
static bool check_defaults(struct kh_err *err)
{
	static const struct default_place places[] = {
		{ "XDG_CONFIG_HOME", ".config" },
		{ "XDG_DATA_HOME", ".local/share" },
		{ "GNUPGHOME", ".gnupg" },
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *value = getenv(places[i].variable);
		if ((!value || !*value) && !check_default(&places[i], err))
			return false;
	}
	return true;
}

static bool check_command(const struct kh_exec *exec, struct kh_err *err)
{
	for (const char *const *name = kh_exec_variables; *name; name++)
		if (!has_no_path(*name) && !check_variable(*name, err))
			return false;
	return check_defaults(err) && check_passed(exec, err) && note_programs(exec, err);
}

static bool note_named(const struct kh_named_path *one, struct kh_err *err)
{
	return kh_run_uses_name(&uses, one->option, one->path, err) &&
	       check_interpreter(one->option, one->path, err);
}

static bool check_all(const struct kh_config *config, struct kh_err *err)
{
	const struct kh_source *source;

	if (!kh_config_check_named(config, err))
		return false;
	for (size_t i = 0; i < config->n_named; i++)
		if (!config->named[i].unread && !note_named(&config->named[i], err))
			return false;
	for (size_t i = 0; i < config->n_credentials; i++)
		for (size_t j = 0; (source = kh_source_of_credential(&config->credentials[i], j));
		     j++)
			if (source->kind == KH_SOURCE_EXEC && source->exec &&
			    !check_command(source->exec, err))
				return false;
	return true;
}

/* In the keeper, before each command: other runs may have begun or ended, and made the first
 * review. */
static bool renew(struct kh_err *err)
{
	kh_auto_free char *state = kh_workspace_state();
	bool ok = kh_run_uses_lock(&uses, state, err) && kh_writable_renew(note_others, err);

	kh_run_uses_unlock(&uses);
	return ok;
}

bool kh_run_names_check_config(const struct kh_config *config, struct kh_err *err)
{
	kh_auto_free char *state = kh_workspace_state();
	bool ok = kh_run_uses_lock(&uses, state, err) && kh_writable_renew(note_others, err) &&
		  check_all(config, err) && kh_run_uses_write(&uses, err);

	kh_run_uses_unlock(&uses);
	kh_writable_set_renew(renew);
	return ok;
}
