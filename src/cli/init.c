/*
 * init.c - `keyhole init`: writes a first configuration for the working folder
 *
 * It looks at names of files, at which variables are set (never at their values), and at the
 * addresses of git's remotes. What it writes are presets, and everything else stays denied.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>
#include <keyhole/config/config.h>

#include "cli_internal.h"

enum { TEXT_BYTES = 64 * 1024, REPO_BYTES = 140 };

static const char usage[] =
	"usage: keyhole init [-c FILE | --print]\n"
	"Writes a first configuration for the current folder: presets for the keys in your\n"
	"environment and for the project's files (package.json, Cargo.toml, pyproject.toml …).\n"
	"Everything else stays denied. A file that is there already is not overwritten.\n\n"
	"  -c, --config FILE  the file to write; the default is keyhole.yaml\n"
	"      --print        prints the configuration, and writes no file\n"
	"  -h, --help         show this\n\n"
	"Exit status: 0 success, 1 failure, 2 wrong usage. The manual: keyhole-init(1).\n";

/* What a project's file says of the packages that it needs. */
static const struct {
	const char *file, *preset;
} project_files[] = {
	{ "package.json", "npm" },    { "Cargo.toml", "crates" },
	{ "pyproject.toml", "pypi" }, { "requirements.txt", "pypi" },
	{ "setup.py", "pypi" },	      { "Pipfile", "pypi" },
	{ "go.mod", "go" },	      { "pom.xml", "maven" },
	{ "build.gradle", "maven" },  { "build.gradle.kts", "maven" },
	{ "Gemfile", "rubygems" },
};

struct init {
	struct kh_buf text;  /* the configuration */
	struct kh_buf found; /* "anthropic (ANTHROPIC_API_KEY), npm (package.json)" */
	char repo[REPO_BYTES];
	bool any;
};

/* ---- a look around ---- */

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);
	return value && *value;
}

/* The first file of the project by which it uses that preset; NULL: none. */
static const char *file_for(const char *preset)
{
	for (size_t i = 0; i < sizeof(project_files) / sizeof(project_files[0]); i++)
		if (strcmp(project_files[i].preset, preset) == 0 &&
		    access(project_files[i].file, F_OK) == 0)
			return project_files[i].file;
	return NULL;
}

static bool is_name(struct kh_slice name)
{
	bool dots = true;
	for (size_t i = 0; i < name.len; i++) {
		char c = name.ptr[i];
		if (!kh_is_alpha(c) && !kh_is_digit(c) && c != '-' && c != '_' && c != '.')
			return false;
		dots = dots && c == '.';
	}
	return !dots;
}

/* "owner/name" of an address such as https://github.com/owner/name.git. Whoever wrote the project
 * chose it: only plain names are taken. */
static bool take_repo(struct kh_slice line, char out[REPO_BYTES])
{
	static const char host[] = "github.com";
	const char *at = memmem(line.ptr, line.len, host, strlen(host));
	size_t begin = at ? (size_t)(at - line.ptr) + strlen(host) : line.len;
	if (begin >= line.len || (line.ptr[begin] != '/' && line.ptr[begin] != ':'))
		return false;
	struct kh_slice rest = kh_slice_trim(kh_slice_sub(line, begin + 1, line.len));
	if (kh_slice_has_suffix(rest, KH_SLICE(".git")))
		rest.len -= 4;
	size_t slash = kh_slice_find(rest, '/', 0);
	if (slash == rest.len || rest.len >= REPO_BYTES || !is_name(kh_slice_sub(rest, 0, slash)) ||
	    !is_name(kh_slice_sub(rest, slash + 1, rest.len)))
		return false;
	(void)snprintf(out, REPO_BYTES, "%.*s", (int)rest.len, rest.ptr);
	return true;
}

/* The first remote at GitHub. */
static void find_repo(struct init *init)
{
	kh_cleanup(kh_buf_fini) struct kh_buf text;
	struct kh_err err = KH_ERR_INIT;
	kh_buf_init(&text, TEXT_BYTES);
	if (!kh_file_read(".git/config", &text, &err))
		return;
	struct kh_slice all = kh_buf_view(&text);
	for (size_t at = 0; at < all.len && !init->repo[0];) {
		size_t end = kh_slice_find(all, '\n', at);
		struct kh_slice line = kh_slice_trim(kh_slice_sub(all, at, end));
		if (kh_slice_has_prefix(line, KH_SLICE("url")))
			(void)take_repo(line, init->repo);
		at = end + 1;
	}
}

/* ---- what is written ---- */

static const char head[] =
	"# Written by `keyhole init`. The manual: keyhole.yaml(5).\n"
	"# See what a line does:   keyhole preset show NAME, keyhole explain -c FILE URL\n"
	"# After a change:         keyhole check -c FILE\n"
	"# `keyhole run --workspace .` uses it once you have said `keyhole trust` in this folder. "
	"An\n"
	"# agent that keyhole knows (`keyhole run claude`) gets the folder by itself.\n"
	"version: 1\n\n"
	"# The journal of each request. Without this, each `keyhole run` writes a new one in\n"
	"# $XDG_STATE_HOME/keyhole/audit.\n"
	"# audit: { file: /var/log/keyhole/audit.jsonl } # where no sandbox sees it\n\n"
	"tenants:\n"
	"  me:\n"
	"    rules:\n"
	"      # The first rule that matches decides. What no rule allows is denied.\n";

static const char tail[] =
	"\n      # What a run was refused is listed at its end, with words for here:\n"
	"      # - allow: \"GET https://api.example.com/v1/*\"\n";

/* The parameter without which it can't be used; NULL: none. */
static const char *missing(const struct kh_preset_about *about)
{
	for (size_t i = 0; i < about->n_parameters; i++)
		if (!about->parameters[i].fallback)
			return about->parameters[i].name;
	return NULL;
}

static bool put_use(struct init *init, const struct kh_preset_about *about)
{
	const char *wanted = missing(about);
	if (wanted)
		return kh_buf_printf(&init->text,
				     "      # Write its %s, and remove the first # of this line:\n"
				     "      # - use: { %s: { %s: [ … ] } }\n",
				     wanted, about->name, wanted);
	init->any = true;
	if (strcmp(about->name, "github") != 0)
		return kh_buf_printf(&init->text, "      - use: %s\n", about->name);
	return kh_buf_append_str(
		       &init->text,
		       "      # More: push: true lets git push, token: true sends the key when "
		       "it reads,\n"
		       "      # as for private repositories, repos: [ \"*/*\" ] is all of "
		       "them.\n") &&
	       (init->repo[0] ? kh_buf_printf(&init->text,
					      "      - use: { github: { repos: [ \"%s\" ] } }\n",
					      init->repo)
			      : kh_buf_append_str(&init->text, "      - use: github\n"));
}

/* A preset for which there is a key, a file of the project or a remote. */
static bool put_preset(struct init *init, const struct kh_preset_about *about)
{
	const char *file = file_for(about->name), *variable = NULL;
	bool remote = strcmp(about->name, "github") == 0 && init->repo[0];
	for (size_t i = 0; i < about->n_variables && !variable; i++)
		variable = is_set(about->variables[i]) ? about->variables[i] : NULL;
	if (!file && !variable && !remote)
		return true;
	const char *why = variable ? variable : file ? file : ".git/config";
	return kh_buf_printf(
		       &init->text, "\n      # %s\n      # %s %s\n", kh_esc_str(about->description),
		       kh_esc_str(why),
		       variable
			       ? "is set: the key comes from it, and the sandbox gets a placeholder"
			       : "is here") &&
	       put_use(init, about) &&
	       kh_buf_printf(&init->found, "%s%s (%s)", kh_buf_len(&init->found) ? ", " : "",
			     about->name, kh_esc_str(why));
}

static bool put_presets(struct init *init)
{
	size_t n = 0;
	char **names = kh_preset_names(NULL, &n);
	bool ok = true;
	for (size_t i = 0; i < n; i++) {
		struct kh_diagnostics diags = { 0 };
		struct kh_preset_about about;
		/* One with errors is none. */
		if (ok && kh_preset_about(names[i], NULL, &about, &diags))
			ok = put_preset(init, &about);
		kh_preset_about_fini(&about);
		kh_diagnostics_fini(&diags);
		free(names[i]);
	}
	free(names);
	return ok;
}

/* A list that is empty needs to be one. */
static bool put_nothing(struct init *init)
{
	return init->any ||
	       kh_buf_append_str(&init->text,
				 "\n      # Neither a key in the environment nor a file of a "
				 "project was found.\n"
				 "      # Remove this once a rule is above: what is below it "
				 "never decides.\n"
				 "      - deny: \"https://**\"\n");
}

/* ---- where it goes ---- */

static bool make_folder_of(const char *path, struct kh_err *err)
{
	const char *slash = strrchr(path, '/');
	kh_auto_free char *folder =
		slash && slash != path ? kh_slice_dup(kh_slice_of(path, (size_t)(slash - path)))
				       : NULL;
	return !folder || kh_file_mkdirs(folder, 0700, err);
}

static bool write_new(const char *path, struct kh_slice text)
{
	struct kh_err err = KH_ERR_INIT;
	if (!make_folder_of(path, &err)) {
		kh_cli_complain("init: %s", err.text);
		return false;
	}
	kh_auto_close int fd =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 && errno == EEXIST) {
		kh_cli_complain("init: %s is there already, and stays as it is (-c FILE writes "
				"another one, --print shows what it would be)",
				kh_esc_str(path));
		return false;
	}
	if (fd < 0 || write(fd, text.ptr, text.len) != (ssize_t)text.len || fsync(fd) != 0) {
		kh_cli_complain("init: %s: %s", kh_esc_str(path), strerror(errno));
		if (fd >= 0)
			(void)unlink(path);
		return false;
	}
	return true;
}

/* In a project a run uses one of this name, and no other. */
static bool is_project_file(const char *path)
{
	return strcmp(path, "keyhole.yaml") == 0 || strcmp(path, "./keyhole.yaml") == 0 ||
	       strcmp(path, ".keyhole/keyhole.yaml") == 0;
}

/* Would a sandbox that gets this folder see it? */
static bool is_here(const char *path)
{
	kh_auto_free char *here = getcwd(NULL, 0);
	kh_auto_free char *whole = realpath(path, NULL);
	size_t len = here ? strlen(here) : 0;
	return here && whole && strncmp(whole, here, len) == 0 && whole[len] == '/';
}

static void say(struct init *init, const char *path)
{
	const char *name = kh_esc_str(path);
	const char *found = kh_buf_len(&init->found) ? kh_buf_cstr(&init->found) : "nothing known";
	printf("wrote %s\nfound: %s\n\n", name, found);
	if (is_project_file(path)) {
		printf("next: read it, then: keyhole trust\n"
		       "      keyhole run claude (or keyhole run --workspace . -- COMMAND)\n");
		return;
	}
	const char *word = kh_esc_word(path);
	printf("next: keyhole check -c %s\n      keyhole run -c %s COMMAND\n", word, word);
	if (is_here(path))
		kh_cli_complain(
			"init: `keyhole run` gives a sandbox no folder with a configuration "
			"of another name than keyhole.yaml: move the file before you use "
			"this folder as a workspace");
}

static int init_to(struct init *init, const char *path, bool prints)
{
	find_repo(init);
	if (!kh_buf_append_str(&init->text, head) || !put_presets(init) ||
	    !kh_buf_append_str(&init->text, tail) || !put_nothing(init)) {
		kh_cli_complain("init: no memory");
		return KH_EXIT_FAILED;
	}
	struct kh_slice text = kh_buf_view(&init->text);
	path = path ? path : "keyhole.yaml";
	if (prints)
		(void)fwrite(text.ptr, 1, text.len, stdout);
	else if (!write_new(path, text))
		return KH_EXIT_FAILED;
	else
		say(init, path);
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

int kh_cli_init(int argc, char **argv)
{
	enum { OPT_PRINT = 256 };
	static const struct option longs[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "print", no_argument, NULL, OPT_PRINT },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct init init = { .any = false };
	const char *path = NULL;
	bool prints = false;
	for (int option; (option = kh_cli_option(argc, argv, "c:h", longs)) != -1;) {
		if (option == 'h') {
			fputs(usage, stdout);
			return ferror(stdout) ? KH_EXIT_FAILED : 0;
		}
		if (option != 'c' && option != OPT_PRINT)
			return KH_EXIT_USAGE;
		path = option == 'c' ? optarg : path;
		prints = prints || option == OPT_PRINT;
	}
	if (optind < argc) {
		kh_cli_complain("init: takes no argument, got %s (-c FILE names the file)",
				kh_esc_str(argv[optind]));
		return KH_EXIT_USAGE;
	}
	kh_buf_init(&init.text, TEXT_BYTES);
	kh_buf_init(&init.found, TEXT_BYTES);
	int status = init_to(&init, path, prints);
	kh_buf_fini(&init.text);
	kh_buf_fini(&init.found);
	return status;
}
