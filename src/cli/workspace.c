/* workspace.c - `keyhole workspace`: lists reviews and what was set aside, and applies or discards
 * changes */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/writable.h>

#include "show_text.h"
#include "workspace_internal.h"

static const char usage[] =
	"usage: keyhole workspace COMMAND [OPTION…] [ARGUMENT…]\n"
	"Shows and applies what sandboxes did in workspaces.\n\n"
	"`keyhole run --workspace DIR:review` writes nothing to DIR. Afterwards use these. PATH\n"
	"is below DIR, and relative to the folder that you are in, or to DIR if that folder is\n"
	"outside of it. Without PATH the commands take everything:\n\n"
	"  ls                lists the reviews\n"
	"  diff PATH…        shows what was added, changed and deleted\n"
	"  apply PATH…       copies the agent's changes into DIR; new commits come first, as\n"
	"                    refs/keyhole/ID/…; merge them before you apply files\n"
	"  discard PATH…     removes the review, or only the named changes\n\n"
	"After each other run, keyhole sets aside what could run on the host: hooks, git\n"
	"configuration that is not known to be harmless, links in git folders, sockets and the\n"
	"like.\n\n"
	"  set-aside         lists what was set aside\n"
	"  restore ID…       moves it back: RUN/N, or RUN for everything of one run\n"
	"  survey            checks the workspaces of runs that were killed before their check\n\n"
	"      --review ID      the review to use, if the folder has several\n"
	"      --workspace DIR  the workspace, if it is not the folder that you are in\n"
	"      --stat           diff: omits the lines of files\n"
	"      --json           ls, diff: prints JSON\n"
	"  -n, --dry-run        apply, discard: only says what would be done\n"
	"      --ours           apply: in a conflict, keeps the workspace's file\n"
	"      --force          apply: in a conflict, takes the agent's file\n"
	"      --no-commits     apply, diff: files only\n"
	"      --only-commits   apply, diff: commits only\n"
	"  -h, --help           shows this\n\n"
	"Exit status: 0 success, 1 failed or not completed, 2 wrong usage.\n"
	"The manual: keyhole-workspace(1).\n";

enum {
	OPT_REVIEW = 256,
	OPT_WORKSPACE,
	OPT_STAT,
	OPT_JSON,
	OPT_OURS,
	OPT_FORCE,
	OPT_NO_COMMITS,
	OPT_ONLY_COMMITS
};

static bool take(struct kh_workspace_options *out, int option)
{
	switch (option) {
	case 'n':
		out->dry_run = true;
		return true;
	case OPT_REVIEW:
		out->review = optarg;
		return true;
	case OPT_WORKSPACE:
		out->workspace = optarg;
		return true;
	case OPT_STAT:
		out->stat = true;
		return true;
	case OPT_JSON:
		out->json = true;
		return true;
	case OPT_OURS:
		out->ours = true;
		return true;
	case OPT_FORCE:
		out->force = true;
		return true;
	case OPT_NO_COMMITS:
		out->no_commits = true;
		return true;
	case OPT_ONLY_COMMITS:
		out->only_commits = true;
		return true;
	default:
		return false; /* it was said why */
	}
}

/* ---- ls ---- */

static const char *state_of(const struct kh_review *review)
{
	return review->running ? "in use" : review->workspace ? "open" : "unfinished";
}

static int list_json(const struct kh_review *list, size_t n)
{
	json_t *all = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(
			all, json_pack("{s:s, s:s, s:s, s:s, s:I}", "review", list[i].id, "state",
				       state_of(&list[i]), "kind",
				       list[i].overlay ? "overlay" : "copy", "workspace",
				       list[i].workspace ? kh_esc_str(list[i].workspace) : "",
				       "started", (json_int_t)list[i].started));
	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

static int list_text(const struct kh_review *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		time_t when = (time_t)list[i].started;
		struct tm tm;
		char text[32] = "";
		if (list[i].workspace && localtime_r(&when, &tm))
			(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm);
		struct kh_row line;
		FILE *row = kh_row_open(&line, stdout);
		fprintf(row, "%s  %-10s  %-16s  %-7s  ", list[i].id, state_of(&list[i]), text,
			!list[i].workspace ? ""
			: list[i].overlay  ? "overlay"
					   : "copy");
		kh_show_name(row, list[i].workspace ? list[i].workspace : "");
		kh_row_close(&line);
	}
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

static int list_all(const struct kh_workspace_options *options)
{
	size_t n = 0;
	struct kh_err err = KH_ERR_INIT;
	struct kh_review *list = kh_reviews(&n, &err);
	if (!list) {
		kh_cli_complain_err(&err);
		return KH_EXIT_FAILED;
	}
	int status = options->json ? list_json(list, n) : list_text(list, n);
	if (n == 0 && !options->json)
		kh_cli_complain("there are no reviews");
	kh_reviews_free(list, n);
	return status;
}

/* ---- which one ---- */

static bool is_at_or_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* The only one of the folder, or of one above it. Heap; NULL: it has been said why. */
static char *find(const struct kh_workspace_options *options)
{
	kh_auto_free char *folder = realpath(options->workspace ? options->workspace : ".", NULL);
	size_t n = 0, found = 0;
	char *id = NULL;
	struct kh_err err = KH_ERR_INIT;
	struct kh_review *list = folder ? kh_reviews(&n, &err) : NULL;
	kh_auto_free char *ids = strdup("");
	for (size_t i = 0; list && i < n; i++) {
		if (!list[i].workspace || !is_at_or_below(folder, list[i].workspace))
			continue;
		found++;
		free(id);
		id = strdup(list[i].id);
		char *more = kh_strf("%s%s%s", ids ? ids : "", found > 1 ? ", " : "", list[i].id);
		free(ids);
		ids = more;
	}
	kh_reviews_free(list, n);
	if (found == 1)
		return id;
	free(id);
	if (found == 0)
		kh_cli_complain("workspace: no review of %s (`keyhole workspace ls` lists all; "
				"--review ID or --workspace DIR says which)",
				kh_esc_str(folder ? folder : options->workspace));
	else
		kh_cli_complain("workspace: several reviews of %s (say which: --review ID; there "
				"are %s)",
				kh_esc_str(folder), ids ? ids : "");
	return NULL;
}

/* Where relative names begin: the part below the workspace of the folder that we are in; "" outside
 * of it. */
static const char *begin_of(const char *here, const char *workspace)
{
	if (!here || !is_at_or_below(here, workspace))
		return "";
	here += strlen(workspace);
	return here + strspn(here, "/");
}

/* Without "." and "..", in place. Return: false where it leads out. */
static bool straighten(char *path)
{
	size_t kept = 0;
	for (char *part = path; *part;) {
		size_t len = strcspn(part, "/");
		char *next = part + len + strspn(part + len, "/");
		if (len == 2 && strncmp(part, "..", 2) == 0) {
			if (kept == 0)
				return false;
			while (kept > 0 && path[kept - 1] != '/')
				kept--;
			kept -= kept > 0;
		} else if (len > 0 && !(len == 1 && *part == '.')) {
			if (kept > 0)
				path[kept++] = '/';
			memmove(path + kept, part, len);
			kept += len;
		}
		part = next;
	}
	path[kept] = '\0';
	return true;
}

/* One name as it was typed, below the workspace; "": the workspace itself. Heap; NULL: it is none.
 */
static char *resolve(const char *name, const char *begin, const char *workspace)
{
	bool absolute = name[0] == '/';
	if (!*name || (absolute && !is_at_or_below(name, workspace)))
		return NULL;
	kh_auto_free char *path =
		absolute ? strdup(name + strlen(workspace)) : kh_strf("%s/%s", begin, name);
	return path && straighten(path) ? kh_steal_ptr(&path) : NULL;
}

static void names_fini(char ***names)
{
	for (char **name = *names; name && *name; name++)
		free(*name);
	free(*names);
}

/* The same below the workspace, heap; none where one of them is the workspace itself: that is all.
 * Return: NULL: one is no such path, which has been said. */
static char **resolve_all(char *const *names, const char *workspace)
{
	kh_auto_free char *here = realpath(".", NULL);
	const char *begin = begin_of(here, workspace);
	size_t n = 0, kept = 0;
	bool whole = false;
	while (names[n])
		n++;
	char **out = calloc(n + 1, sizeof(*out));
	for (size_t i = 0; out && i < n; i++) {
		out[kept] = resolve(names[i], begin, workspace);
		if (!out[kept]) {
			kh_cli_complain("workspace: %s: is no path below %s", kh_esc_str(names[i]),
					kh_esc_str(workspace));
			names_fini(&out);
			return NULL;
		}
		whole = whole || !*out[kept++];
	}
	for (size_t i = 0; whole && i < kept; i++)
		free(kh_steal_ptr(&out[i]));
	return out;
}

/* A review that is given by its id alone may be another project's. */
static bool may_discard(const struct kh_review *review, const struct kh_workspace_options *options)
{
	kh_auto_free char *folder = realpath(options->workspace ? options->workspace : ".", NULL);
	if (!review->workspace || (folder && is_at_or_below(folder, review->workspace)))
		return true;
	kh_cli_complain("workspace: review %s is one of %s, and not of this folder; nothing was "
			"discarded (run it there, or add --workspace %s)",
			review->id, kh_esc_str(review->workspace), kh_esc_str(review->workspace));
	return false;
}

static int act(const char *command, struct kh_workspace_options *options)
{
	bool diff = strcmp(command, "diff") == 0;
	struct kh_review review kh_cleanup(kh_review_fini) = { .lock = -1, .top = -1 };
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *id = options->review ? strdup(options->review) : find(options);
	if (!id)
		return KH_EXIT_FAILED;
	if (!kh_review_open(&review, id, !diff, &err)) {
		kh_cli_complain_err(&err);
		return KH_EXIT_FAILED;
	}
	if (strcmp(command, "discard") == 0 && !may_discard(&review, options))
		return KH_EXIT_FAILED;
	char **names kh_cleanup(names_fini) =
		review.workspace ? resolve_all(options->names, review.workspace) : NULL;
	if (review.workspace && !names)
		return KH_EXIT_USAGE;
	if (names)
		options->names = names;
	/* git and diff are the host's, not what PATH finds in a folder that an agent wrote. */
	if (!kh_cli_avoid_sandboxes())
		return KH_EXIT_FAILED;
	if (review.workspace &&
	    !kh_writable_add(review.workspace, "the workspace", KH_WRITABLE_FOR_PROGRAMS)) {
		kh_cli_complain("no memory");
		return KH_EXIT_FAILED;
	}
	/* Discarded as a whole it need not be there. */
	bool whole = strcmp(command, "discard") == 0 && (!names || !*names);
	if (review.workspace && !whole && !kh_review_hold(&review, &err)) {
		kh_cli_complain_err(&err);
		return KH_EXIT_FAILED;
	}
	if (diff)
		return kh_workspace_diff(&review, options);
	return strcmp(command, "apply") == 0 ? kh_workspace_apply(&review, options)
					     : kh_workspace_discard(&review, options);
}

int kh_cli_workspace(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "review", required_argument, NULL, OPT_REVIEW },
		{ "workspace", required_argument, NULL, OPT_WORKSPACE },
		{ "stat", no_argument, NULL, OPT_STAT },
		{ "json", no_argument, NULL, OPT_JSON },
		{ "dry-run", no_argument, NULL, 'n' },
		{ "ours", no_argument, NULL, OPT_OURS },
		{ "force", no_argument, NULL, OPT_FORCE },
		{ "no-commits", no_argument, NULL, OPT_NO_COMMITS },
		{ "only-commits", no_argument, NULL, OPT_ONLY_COMMITS },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	static const char *const commands[] = { "ls", "diff", "apply", "discard" };
	struct kh_workspace_options options = { 0 };
	for (int option; (option = kh_cli_option(argc, argv, "hn", longs)) != -1;) {
		if (option == 'h') {
			fputs(usage, stdout);
			return ferror(stdout) ? KH_EXIT_FAILED : 0;
		}
		if (!take(&options, option))
			return KH_EXIT_USAGE;
	}
	const char *command = optind < argc ? argv[optind] : "";
	options.names = argv + optind + (optind < argc);
	if ((options.ours && options.force) || (options.no_commits && options.only_commits)) {
		kh_cli_complain("workspace: of --ours and --force, and of --no-commits and "
				"--only-commits, one at a time");
		return KH_EXIT_USAGE;
	}
	if (strcmp(command, "ls") == 0)
		return list_all(&options);
	for (size_t i = 1; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(command, commands[i]) == 0)
			return act(command, &options);
	int status;
	if (kh_workspace_aside(command, options.names, &status))
		return status;
	static const char *const all[] = { "ls",	"diff",	   "apply", "discard",
					   "set-aside", "restore", "survey" };
	const char *near = kh_cli_nearest(command, all, sizeof(all) / sizeof(all[0]));
	kh_cli_complain("workspace%s%s%s%s%s: wants one of: ls, diff, apply, discard, set-aside, "
			"restore, survey",
			*command ? " " : "", kh_esc_str(command), near ? " (did you mean " : "",
			near ? near : "", near ? "?)" : "");
	return KH_EXIT_USAGE;
}
