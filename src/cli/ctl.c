/* ctl.c - `keyhole ctl`: shows and controls a running daemon by its admin socket */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <keyhole/admin/admin_facts.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/json_load.h>
#include <keyhole/base/limits.h>

#include "cli_internal.h"
#include "ctl_client.h"
#include "ctl_events.h"
#include "ctl_sandbox.h"
#include "ctl_text.h"
#include "ctl_trust.h"

static const char usage[] =
	"usage: keyhole ctl [--socket PATH | -c FILE] [--json] COMMAND [OPTION…]\n"
	"Inspects and controls a running daemon through its admin socket.\n\n"
	"  status       configuration, journal, credentials, sandboxes, limits almost used up\n"
	"  sandbox ls   the sandboxes, each with its open connections\n"
	"  sandbox add  make a sandbox's socket, and print its path\n"
	"  sandbox remove  end a sandbox that was added, with its connections\n"
	"  events       each decision when it is made, until you interrupt it\n"
	"  reload       read the configuration again; errors are shown, and change nothing\n"
	"  drain        finish running requests, accept no new ones, and end\n\n"
	"  -s, --socket PATH  the admin socket\n"
	"  -c, --config FILE  the configuration that names it (admin.unix); without either:\n"
	"                     " KH_ADMIN_SOCKET "\n"
	"      --json         the daemon's answer unchanged, for programs\n"
	"      --tenant NAME  events: only this tenant; sandbox add, remove: its tenant\n"
	"      --sandbox ID   events: only this sandbox\n"
	"      --denied       events: only refusals\n"
	"      --id ID        sandbox add, remove: its name in the journal\n"
	"      --narrow FILE  sandbox add: rules that must allow a request too (- is stdin),\n"
	"                     such as: narrow: [ { allow: \"GET https://HOST/**\" } ]\n"
	"      --ttl TIME     sandbox add: the longest time that it exists, such as 2h\n"
	"      --mode MODE    sandbox add: the socket's mode; the default is 0600\n"
	"      --owner USER   sandbox add: the socket's owner; you, if the daemon is root\n"
	"  -h, --help         show this\n\n"
	"Exit status: 0 success, 1 failure, 2 wrong usage. The manual: keyhole-ctl(1).\n";

static bool show_status(const json_t *answer)
{
	kh_ctl_show_status(answer);
	return true;
}

static bool show_sandboxes(const json_t *answer)
{
	kh_ctl_show_sandboxes(answer);
	return true;
}

/* Lines of the daemon's: as `check` would have them, or an error of the daemon itself. */
static void put_lines(FILE *out, const char *text)
{
	kh_auto_free char *copy = strdup(text);
	for (char *line = copy, *end; line && *line; line = end ? end + 1 : NULL) {
		end = strchr(line, '\n');
		if (end)
			*end = '\0';
		kh_esc_clean(line);
		if (out == stdout || strstr(line, ": error: ") || strstr(line, ": warning: "))
			fprintf(out, "%s\n", line);
		else
			kh_cli_complain("ctl: %s", line);
	}
}

static bool show_done(const json_t *answer)
{
	const char *text = json_string_value(json_object_get(answer, "text"));
	bool ok = json_is_true(json_object_get(answer, "ok"));
	put_lines(ok ? stdout : stderr, text ? text : "");
	return ok;
}

static bool show_reload(const json_t *answer)
{
	bool ok = show_done(answer);
	if (ok)
		(void)puts("the new configuration is in force");
	else
		kh_cli_complain("ctl: nothing changes, the configuration in force stays");
	return ok;
}

/* What may stand behind a command, beside what all of them take. */
struct ctl_options {
	const char *tenant, *sandbox;
	bool denied, json;
	struct kh_ctl_sandbox added;
};
enum {
	TAKES_TENANT = 1,
	TAKES_SANDBOX = 2,
	TAKES_DENIED = 4,
	TAKES_ID = 8,
	TAKES_TERMS = 16, /* --narrow, --ttl, --mode, --owner */
};

struct verb;

static int watch_events(const char *socket, const struct verb *verb,
			const struct ctl_options *options)
{
	(void)verb;
	const struct kh_ctl_events what = { .tenant = options->tenant,
					    .sandbox = options->sandbox,
					    .denied = options->denied,
					    .json = options->json };
	return kh_ctl_events(socket, &what);
}

/* Which one, whoever asked knows. */
static bool show_removed(const json_t *answer)
{
	return json_is_true(json_object_get(answer, "ok"));
}

static int change_sandboxes(const char *socket, const struct verb *verb,
			    const struct ctl_options *options);

static const struct verb {
	const char *words[2];
	const char *method, *target;
	bool (*show)(const json_t *answer); /* Return: it is done */
	unsigned takes;
	/* More than a question: does it all. Return: exit status. */
	int (*run)(const char *socket, const struct verb *verb, const struct ctl_options *options);
} verbs[] = {
	{ { "status", NULL }, "GET", "/v1/status", show_status, 0, NULL },
	{ { "sandbox", "ls" }, "GET", "/v1/sandboxes", show_sandboxes, 0, NULL },
	{ { "sandbox", "add" },
	  "POST",
	  "/v1/sandboxes",
	  kh_ctl_show_added,
	  TAKES_TENANT | TAKES_ID | TAKES_TERMS,
	  change_sandboxes },
	{ { "sandbox", "remove" },
	  "DELETE",
	  NULL,
	  show_removed,
	  TAKES_TENANT | TAKES_ID,
	  change_sandboxes },
	{ { "events", NULL },
	  NULL,
	  NULL,
	  NULL,
	  TAKES_TENANT | TAKES_SANDBOX | TAKES_DENIED,
	  watch_events },
	{ { "reload", NULL }, "POST", "/v1/reload", show_reload, 0, NULL },
	{ { "drain", NULL }, "POST", "/v1/drain", show_done, 0, NULL },
};
enum { N_VERBS = sizeof(verbs) / sizeof(verbs[0]) };

/* What the words begin with, where there are more than a command has. */
static const struct verb *find_longer(int n, char **words)
{
	for (size_t i = 0; i < N_VERBS; i++) {
		int own = verbs[i].words[1] ? 2 : 1;
		if (n > own && strcmp(words[0], verbs[i].words[0]) == 0 &&
		    (own == 1 || strcmp(words[1], verbs[i].words[1]) == 0))
			return &verbs[i];
	}
	return NULL;
}

static void complain_of_word(const struct verb *verb, const char *word)
{
	kh_cli_complain(
		"ctl: `%s%s%s`: unexpected argument \"%s\"%s", verb->words[0],
		verb->words[1] ? " " : "", verb->words[1] ? verb->words[1] : "", kh_esc_str(word),
		verb->takes & TAKES_ID ? " (a sandbox is named by --tenant TENANT --id ID)" : "");
}

static const struct verb *find_verb(int n, char **words)
{
	enum { PAIR_BYTES = 32 };
	char texts[N_VERBS][PAIR_BYTES];
	const char *names[N_VERBS], *pairs[N_VERBS];
	size_t n_pairs = 0;
	for (size_t i = 0; i < N_VERBS; i++) {
		const struct verb *verb = &verbs[i];
		names[i] = verb->words[0];
		if (verb->words[1]) {
			(void)snprintf(texts[i], PAIR_BYTES, "%s %s", verb->words[0],
				       verb->words[1]);
			pairs[n_pairs++] = texts[i];
		}
		if (n < 1 || strcmp(words[0], verb->words[0]) != 0)
			continue;
		if (verb->words[1] ? n == 2 && strcmp(words[1], verb->words[1]) == 0 : n == 1)
			return verb;
	}
	if (n < 1) {
		kh_cli_complain("ctl: which command? (status, sandbox ls, sandbox add, "
				"sandbox remove, events, reload, drain)");
		return NULL;
	}
	const struct verb *longer = find_longer(n, words);
	if (longer) {
		complain_of_word(longer, words[longer->words[1] ? 2 : 1]);
		return NULL;
	}
	kh_auto_free char *both = n > 1 ? kh_strf("%s %s", words[0], words[1]) : NULL;
	const char *near = both ? kh_cli_nearest(both, pairs, n_pairs) : NULL;
	bool begins = n > 0 && strcmp(words[0], "sandbox") == 0;
	/* The word of everybody's shell, which is too far from ours to be near it. */
	if (both && begins && (strcmp(words[1], "rm") == 0 || strcmp(words[1], "delete") == 0))
		near = "sandbox remove";
	near = near || begins ? near : kh_cli_nearest(words[0], names, N_VERBS);
	if (begins) {
		kh_cli_complain("ctl: \"sandbox%s%s\": no such command (%s%s%s)", n > 1 ? " " : "",
				n > 1 ? kh_esc_str(words[1]) : "",
				near ? "did you mean `keyhole ctl " : "sandbox ls, sandbox add, ",
				near ? near : "sandbox remove", near ? "`?" : "");
		return NULL;
	}
	if (near && strcmp(near, words[0]) != 0)
		kh_cli_complain("ctl: \"%s\": no such command (did you mean `keyhole ctl %s`?)",
				kh_esc_str(words[0]), near);
	else
		kh_cli_complain(
			"ctl: \"%s\": no such command (status, sandbox ls, sandbox add, sandbox "
			"remove, events, reload, drain)",
			kh_esc_str(words[n < 2 ? 0 : 1]));
	return NULL;
}

/* Of the configuration, and where its daemon makes the folders of sandboxes; on the heap. NULL: it
 * was said why. */
static char *socket_of(const char *path, char **sandboxes)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config = kh_config_load(path, NULL, &diags);
	/* The daemon has read its configuration already, and judges a changed one itself. */
	if (!config)
		config = kh_config_load_admin(path);
	char *socket = config && config->admin.unix_path ? strdup(config->admin.unix_path) : NULL;
	*sandboxes = socket ? strdup(config->admin.sandboxes) : NULL;
	if (socket && !*sandboxes) {
		free(socket);
		socket = NULL;
		kh_cli_complain("ctl: no memory");
	} else if (!config) {
		kh_diagnostics_print(&diags, NULL, STDERR_FILENO);
		kh_cli_complain("ctl: the admin socket is not known, since %s is no sound "
				"configuration: the daemon was not asked (--socket PATH names the "
				"socket itself)",
				kh_esc_str(path));
	} else if (!socket) {
		kh_cli_complain("ctl: %s names no admin socket (admin.unix)", kh_esc_str(path));
	}
	kh_diagnostics_fini(&diags);
	kh_config_free(config);
	return socket;
}

/* In the daemon's own words, which may be several lines. */
static void complain_of(const char *error)
{
	kh_auto_free char *copy = strdup(error);
	for (char *line = copy, *end; line && *line; line = end ? end + 1 : NULL) {
		end = strchr(line, '\n');
		if (end)
			*end = '\0';
		kh_esc_clean(line);
		kh_cli_complain("ctl: %s", line);
	}
}

/* Return: exit status. `added`: what was asked for, where that is looked at; or NULL. */
static int show(const struct verb *verb, const struct kh_ctl_answer *answer,
		const struct kh_ctl_sandbox *added, bool json)
{
	struct kh_slice content = kh_buf_view(&answer->content);
	json_error_t why;
	json_t *read = kh_json_load(content, JSON_REJECT_DUPLICATES, &why);
	const char *error = json_string_value(json_object_get(read, "error"));
	bool done = false;
	if (!json_is_object(read))
		kh_cli_complain("ctl: the daemon's answer is not understood");
	else if (error)
		complain_of(error);
	if (json_is_object(read) && !error && added &&
	    !kh_ctl_judge_added(added, read, answer->server)) {
		; /* it was said why */
	} else if (json && json_is_object(read)) {
		done = kh_ctl_put_json(stdout, content) && !error && answer->status < 400;
	} else if (json_is_object(read) && !error) {
		done = verb->show(read);
	}
	json_decref(read);
	return done && fflush(stdout) == 0 ? EXIT_SUCCESS : KH_EXIT_FAILED;
}

static int ask(const char *socket, const struct verb *verb, const char *target,
	       struct kh_slice content, const struct kh_ctl_sandbox *added, bool json)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_ctl_answer answer;
	kh_ctl_answer_init(&answer);
	int status = KH_EXIT_FAILED;
	if (kh_ctl_ask(socket, verb->method, target, content, &answer, &err))
		status = show(verb, &answer, added, json);
	else
		kh_cli_complain_err(&err);
	kh_ctl_answer_fini(&answer);
	return status;
}

static int change_sandboxes(const char *socket, const struct verb *verb,
			    const struct ctl_options *options)
{
	kh_cleanup(kh_buf_fini) struct kh_buf content;
	kh_auto_free char *target = NULL;
	struct kh_ctl_sandbox given = options->added;
	given.tenant = options->tenant;
	kh_buf_init(&content, KH_LIMIT_ADMIN_CONTENT_BYTES);
	if (!kh_ctl_sandbox_check(&given, verb->words[1]))
		return KH_EXIT_USAGE;
	if (verb->target ? !kh_ctl_sandbox_wish(&given, &content)
			 : !(target = kh_ctl_sandbox_target(&given)))
		return KH_EXIT_FAILED;
	int status = ask(socket, verb, target ? target : verb->target, kh_buf_view(&content),
			 verb->target ? &given : NULL, options->json);
	if (status == EXIT_SUCCESS && !verb->target && !options->json)
		printf("removed %s of tenant %s\n", given.id, given.tenant);
	return status == EXIT_SUCCESS && fflush(stdout) != 0 ? KH_EXIT_FAILED : status;
}

/* An option that the command has no use for is a mistake, and is said. */
static bool takes(const struct verb *verb, const struct ctl_options *options)
{
	const char *over = options->tenant && !(verb->takes & TAKES_TENANT)	? "--tenant"
			   : options->sandbox && !(verb->takes & TAKES_SANDBOX) ? "--sandbox"
			   : options->denied && !(verb->takes & TAKES_DENIED)	? "--denied"
			   : options->added.id && !(verb->takes & TAKES_ID)	? "--id"
			   : !(verb->takes & TAKES_TERMS) ? kh_ctl_sandbox_term(&options->added)
							  : NULL;
	if (over)
		kh_cli_complain("ctl: `%s%s%s` takes no %s", verb->words[0],
				verb->words[1] ? " " : "", verb->words[1] ? verb->words[1] : "",
				over);
	return !over;
}

int kh_cli_ctl(int argc, char **argv)
{
	enum {
		OPT_JSON = 256,
		OPT_TENANT,
		OPT_SANDBOX,
		OPT_DENIED,
		OPT_ID,
		OPT_NARROW,
		OPT_TTL,
		OPT_MODE,
		OPT_OWNER
	};
	static const struct option table[] = { { "socket", required_argument, NULL, 's' },
					       { "config", required_argument, NULL, 'c' },
					       { "json", no_argument, NULL, OPT_JSON },
					       { "tenant", required_argument, NULL, OPT_TENANT },
					       { "sandbox", required_argument, NULL, OPT_SANDBOX },
					       { "denied", no_argument, NULL, OPT_DENIED },
					       { "id", required_argument, NULL, OPT_ID },
					       { "narrow", required_argument, NULL, OPT_NARROW },
					       { "ttl", required_argument, NULL, OPT_TTL },
					       { "mode", required_argument, NULL, OPT_MODE },
					       { "owner", required_argument, NULL, OPT_OWNER },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	const char *socket = NULL, *config = NULL;
	struct ctl_options options = { .json = false };
	for (int opt; (opt = kh_cli_option(argc, argv, "s:c:h", table)) != -1;) {
		if (opt == 'h')
			return fputs(usage, stdout) < 0 ? KH_EXIT_FAILED : EXIT_SUCCESS;
		if (opt == 's')
			socket = optarg;
		else if (opt == 'c')
			config = optarg;
		else if (opt == OPT_JSON)
			options.json = true;
		else if (opt == OPT_TENANT)
			options.tenant = optarg;
		else if (opt == OPT_SANDBOX)
			options.sandbox = optarg;
		else if (opt == OPT_DENIED)
			options.denied = true;
		else if (opt == OPT_ID)
			options.added.id = optarg;
		else if (opt == OPT_NARROW)
			options.added.narrow = optarg;
		else if (opt == OPT_TTL)
			options.added.ttl = optarg;
		else if (opt == OPT_MODE)
			options.added.mode = optarg;
		else if (opt == OPT_OWNER)
			options.added.owner = optarg;
		else
			return KH_EXIT_USAGE; /* it was said why */
	}
	const struct verb *verb = find_verb(argc - optind, argv + optind);
	if (!verb || !takes(verb, &options))
		return KH_EXIT_USAGE;
	if (socket && config) {
		kh_cli_complain("ctl: --socket and -c name one thing twice");
		return KH_EXIT_USAGE;
	}
	kh_auto_free char *sandboxes = NULL;
	kh_auto_free char *found = socket   ? strdup(socket)
				   : config ? socket_of(config, &sandboxes)
					    : strdup(KH_ADMIN_SOCKET);
	if (!found)
		return KH_EXIT_FAILED;
	options.added.base = sandboxes;
	return verb->run ? verb->run(found, verb, &options)
			 : ask(found, verb, verb->target, kh_slice_str(NULL), NULL, options.json);
}
