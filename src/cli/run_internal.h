/* run_internal.h - the parts of `keyhole run` */
#ifndef KEYHOLE_RUN_INTERNAL_H
#define KEYHOLE_RUN_INTERNAL_H

#include <sys/types.h>

#include <jansson.h>

#include <keyhole/audit/refused_places.h>
#include <keyhole/sandbox/child.h>
#include <keyhole/config/agent_profile.h>
#include <keyhole/config/config.h>
#include <keyhole/sandbox/image.h>
#include <keyhole/keeper/keeper.h>
#include <keyhole/base/limits.h>
#include <keyhole/config/trusted_file.h>
#include <keyhole/sandbox/review.h>
#include <keyhole/sandbox/sandbox.h>

#include "cli_internal.h"

/* ---- run_options.c ---- */

/* A symbolic link that an agent could have made. */
struct kh_run_link {
	const char *option;
	char *folder; /* which holds it, without links */
	char *link, *real;
};

struct kh_run_options {
	const char *config_path;
	const char *tenant;
	const char *engine;
	const char *image;	/* as it was given */
	const char *entrypoint; /* replaces the image's; "": none; NULL: the image's */
	char *rootfs, *workspace, *home, *audit; /* absolute */
	/* What the workspace and the home were when their paths were resolved; -1. */
	int workspace_held, home_held;
	bool layer; /* over rootfs */
	bool workspace_read_only, mask_env, quiet;
	char *review; /* of the workspace: "": its only review; "new"; or an id; NULL: no review */
	char **presets;
	size_t n_presets;
	char **allow; /* texts of rules */
	size_t n_allow;
	bool observe;
	bool ask;	      /* what no rule allows waits for `keyhole ask` */
	uint64_t ask_time_ms; /* for so long; 0: KH_LIMIT_QUESTION_MS */
	char **read_only;
	size_t n_read_only;
	/* Where programs lie that the sandbox would not see: folders for its PATH, and links. */
	char **path;
	size_t n_path;
	struct kh_program_link *links;
	size_t n_links;
	struct kh_run_link *on_way; /* to the folders that the sandbox is given */
	size_t n_on_way;
	const char *agent; /* --agent: a profile's name, or "none"; NULL: by the command */
	/* The workspace's own configuration, and its digest; NULL: it is not used. */
	char *trusted;
	char trusted_digest[KH_TRUSTED_HEX + 1];
	bool no_workspace;		  /* not the current folder either */
	struct kh_agent_profile *profile; /* NULL: none */
	struct kh_env_var *env;
	size_t n_env;
	uint16_t ports[KH_LIMIT_INIT_PORTS - 2];
	size_t n_ports;
	struct kh_cidr capture_range; /* family 0: the default */
	struct kh_sandbox_limits limits;
	struct kh_published publish[KH_LIMIT_PUBLISHED_PORTS];
	size_t n_publish;
	char **command;
};
/* run_usage.c */
void kh_run_show_usage(void);
enum kh_run_parsed { KH_RUN_GO, KH_RUN_HELPED, KH_RUN_WRONG };
/* What was wrong has been said. */
enum kh_run_parsed kh_run_options_parse(struct kh_run_options *out, int argc, char **argv);
void kh_run_options_fini(struct kh_run_options *options);
/* Takes the word over, which may be NULL: then it says that there is no memory. */
bool kh_run_add_word(char ***list, size_t *n, char *word);

/* ---- run_links.c: symbolic links on the way to what the sandbox is given ---- */

/* *out (freed before): the path without links, so that what is checked is what is mounted. It is
 * not resolved again: *held (closed before; NULL: not wanted) is what it has now
 * (kh_file_hold_again). Each link on the way that an agent could have made is said, and noted. What
 * was wrong has been said. */
bool kh_run_resolve(struct kh_run_options *options, const char *option, const char *path,
		    char **out, int *held);
/* None of those that were noted is where an agent may write (writable.h). */
bool kh_run_links_check(const struct kh_run_options *options, struct kh_err *err);
void kh_run_links_free(struct kh_run_options *options);

/* ---- run_allow.c: rules of the command line ---- */

/* One of --allow, as it was typed. What was wrong has been said, with its place. */
bool kh_run_allow(struct kh_run_options *out, const char *text);
/* Adds those of --allow to a tenant, and lets its rules only observe where --observe asks for it.
 */
bool kh_run_allow_apply(const struct kh_run_options *options, struct kh_config *config,
			size_t tenant, struct kh_diagnostics *diags);

/* ---- run_ask.c: --ask ---- */

/* Does it go with the other options? What was wrong has been said. */
bool kh_run_ask_check(const struct kh_run_options *options);
struct kh_run_folder;
/* Lets requests that no rule allows wait, and opens the socket for answers. Return: false without
 * memory. */
bool kh_run_ask_apply(const struct kh_run_options *options, const struct kh_run_folder *folder,
		      struct kh_config *config);
/* One line: how to answer. */
void kh_run_ask_say(const struct kh_run_options *options, const struct kh_run_folder *folder);

/* One more of `presets`. What was wrong has been said. */
bool kh_run_add_preset(struct kh_run_options *options, const char *preset);
/* A variable that --env replaces. Return: false without memory. */
bool kh_run_add_variable(struct kh_run_options *options, const char *name, const char *value);
/* As after --capture-range. Return: false, and it has been said why. */
bool kh_run_set_capture_range(struct kh_run_options *out, const char *text);

/* ---- run_program.c: where the command's program lives ---- */

/* Adds to `options` what the sandbox must see for the command to be found, and says what that is.
 * Nothing where the root is not the host's. */
bool kh_run_program_show(struct kh_run_options *options, struct kh_err *err);

/* ---- run_agent.c: the profile of the agent ---- */

/* Finds the profile that the command or --agent names, and takes from it what the options leave
 * open: presets, workspace, variables. What was wrong has been said. */
bool kh_run_agent_choose(struct kh_run_options *options);
/* One line: what the profile has chosen. */
void kh_run_agent_say(const struct kh_run_options *options);
/* A warning where the agent has a key that no rule of the file uses, or where none would be used.
 */
void kh_run_agent_check(const struct kh_run_options *options, const struct kh_config *config);
/* ---- run_home.c: what the command finds in its home ---- */

/* The files of the agent's profile and of the tenant's presets, their places filled; *n of them,
 * for kh_run_home_free. Return: false with `err`. */
bool kh_run_home_files(const struct kh_run_options *options, const struct kh_config *config,
		       const struct kh_ready *ready, struct kh_home_file **files, size_t *n,
		       struct kh_err *err);
void kh_run_home_free(struct kh_home_file *files, size_t n);

/* ---- run_trust.c: the workspace's own configuration ---- */

/* Takes it for -c if the user trusts it; says so, or why not. Return: false: -c names it, and it
 * is not trusted, which was said. */
bool kh_run_trust_find(struct kh_run_options *options);
/* Says that the current folder has one that is trusted, where no option has it used. */
void kh_run_trust_hint(const struct kh_run_options *options);

/* ---- run_names.c: no name may lead to where an agent writes ---- */

/* Tells writable.h where the sandbox will be able to write, and those of other runs; then refuses
 * options and variables of this run that name something there, and a folder in which a live run
 * names something. Before any program of the host is looked for. */
bool kh_run_names_check(const struct kh_run_options *options, bool (*is_over)(void *),
			struct kh_err *err);
/* The same for what the configuration names. Before any of it is opened. */
bool kh_run_names_check_config(const struct kh_config *config, struct kh_err *err);
/* A descriptor, or -1: as long as a process has it, this run's names count as used. */
int kh_run_names_held(void);
/* The keeper has ended. */
void kh_run_names_end(void);

/* ---- run_daemon.c ---- */

/* *url: of the daemon that docker would ask: of its context, where DOCKER_HOST names none; NULL:
 * docker does not say, or is not there. On the heap. `is_over` is polled. Return: false: it said
 * so. */
bool kh_run_daemon_of_docker(bool (*is_over)(void *), char **url, struct kh_err *err);

/* ---- run_limits.c; what was wrong has been said ---- */

bool kh_run_limit_memory(struct kh_sandbox_limits *out, const char *text);
bool kh_run_limit_disk(struct kh_sandbox_limits *out, const char *text);
bool kh_run_limit_timeout(struct kh_sandbox_limits *out, const char *text);
bool kh_run_limit_ask_time(uint64_t *out_ms, const char *text);
bool kh_run_limit_pids(struct kh_sandbox_limits *out, const char *text);
bool kh_run_limit_cpus(struct kh_sandbox_limits *out, const char *text);

/* ---- run_image.c ---- */

/* DIR or DIR:O. What was wrong has been said. */
bool kh_run_rootfs(struct kh_run_options *out, const char *text);
/* An unpacked image for the run, and the command line for it. */
struct kh_run_image {
	bool is_open;
	struct kh_image image;
	char **argv; /* the array is owned; its strings belong to `image` and the options */
};
/* Opens nothing if no image was asked for, or if the engine has its own store. `is_over` is polled
 * during long steps. */
bool kh_run_image_open(const struct kh_run_options *options, bool (*is_over)(void *),
		       struct kh_run_image *out, struct kh_err *err);
void kh_run_image_fini(struct kh_run_image *image);
/* Does the engine take this image? What was wrong has been said. */
bool kh_run_image_check(const struct kh_run_options *options);

/* ---- run_review.c: the workspace under review ---- */

struct kh_run_review {
	bool is_open;
	struct kh_review review;
	struct kh_sandbox_review mount;
};
/* Nothing is opened where none is asked for. */
bool kh_run_review_open(struct kh_run_review *out, const struct kh_run_options *options,
			struct kh_err *err);
/* Prints the result; removes a review without changes. */
void kh_run_review_end(struct kh_run_review *run, bool quiet);

/* ---- run_folder.c: the folder of one run, gone at its end ---- */

struct kh_run_folder {
	char *path;
	char *socket_dir;  /* the part of it that the sandbox sees */
	char *socket_path; /* in it: "s" */
	char *ask_path;	   /* with --ask, where `keyhole ask` connects; no sandbox sees it */
	const char *id;	   /* last part of `path`: "run-Ab3dEf" */
	int lock;
};
/* Also removes folders of runs that were killed. */
bool kh_run_folder_make(struct kh_run_folder *folder, struct kh_err *err);
void kh_run_folder_remove(struct kh_run_folder *folder);

/* The runs of this user with --ask that are on. */
struct kh_run_asking {
	struct kh_run_asks {
		char *id, *socket;
	} * list;
	size_t n;
};
/* Return: false with `err`. The caller calls kh_run_asking_fini in either case. */
bool kh_run_asking_find(struct kh_run_asking *out, struct kh_err *err);
void kh_run_asking_fini(struct kh_run_asking *asking);
/* run_ask.c: "run-Ab3dEf", or without "run-"; NULL: the only one. Return: NULL: it was said why. */
const struct kh_run_asks *kh_run_asking_choose(const struct kh_run_asking *asking,
					       const char *typed);

struct termios;
/* Keys come one by one, unseen. *before: as it was. Return: false: it is no terminal. */
bool kh_ask_take_keys(struct termios *before);

/* ---- run_attach.c: a sandbox of a daemon that runs already ---- */

struct kh_run_attach {
	char *socket; /* the daemon's admin socket; NULL: there is none */
	char *tenant;
	bool added; /* it was added and not yet removed */
	char *id;
	char *base;   /* admin.sandboxes, where the daemon makes their folders */
	char *folder; /* of its socket: BASE/TENANT/ID */
	int held;     /* a descriptor of that folder, which was checked; -1 */
	/* Its counts, after it was removed. */
	bool counted;
	uint64_t calls, denials;
};
/* Adds a dynamic sandbox. The daemon removes it when this process ends, however it ends. `ready`
 * gets what a private daemon would send. The answer comes from the daemon's worker, so it is only
 * used as far as it agrees with the configuration: the folder, the journal, and each variable. */
bool kh_run_attach(struct kh_run_attach *attach, const struct kh_config *config, const char *id,
		   struct kh_ready *ready, struct kh_err *err);
/* Return: false: the daemon no longer had the sandbox, or is gone. */
bool kh_run_detach(struct kh_run_attach *attach);
void kh_run_attach_fini(struct kh_run_attach *attach);

/* ---- run_config.c ---- */

/* Makes the configuration of this run from the file or the presets, with one listener and a
 * journal. If the file names a daemon that answers, and no option needs a private one, `attach`
 * gets its socket and the tenant. `forbidden` gets every path that the sandbox must not see (a
 * NULL-terminated list for kh_run_forbidden_free). Return: NULL: an error was printed. */
struct kh_config *kh_run_config(const struct kh_run_options *options,
				const struct kh_run_folder *folder, char ***forbidden,
				struct kh_run_attach *attach);
void kh_run_forbidden_free(char **list);
/* Refuses a variable of --env that is the source of a credential: the real value must not get into
 * the sandbox. Warns of one that holds a key of another preset. */
bool kh_run_env_check(const struct kh_run_options *options, const struct kh_config *config,
		      struct kh_err *err);
/* Overwrites the values of all credentials in our own environment. */
void kh_run_wipe_environment(const struct kh_config *config);

/* ---- run_placeholder.c: the same placeholders in each run ---- */

/* The file with the key of the user's placeholders. Heap. Return: NULL with `err`: there is no
 * folder for it, or no memory. */
char *kh_run_placeholder_path(struct kh_err *err);
/* The key of the user's runs in `place` (the folder that --home or --workspace names), from that
 * file, which is made with mode 0600 if it is absent. Return: false: there is none and none can be
 * made; then the placeholders of this run are its own. */
bool kh_run_placeholder_key(const char *path, const char *place, struct kh_placeholder_key *out,
			    struct kh_err *err);

/* ---- run_git.c: who commits ---- */

struct kh_run_git {
	bool asked; /* asked, and not answered yet */
	struct kh_child child;
	char *name, *email;
};
/* Starts to ask git in the background, since that takes a few milliseconds; kh_run_git_answer waits
 * for it. */
void kh_run_git_ask(struct kh_run_git *git);
void kh_run_git_answer(struct kh_run_git *git);
void kh_run_git_fini(struct kh_run_git *git);
/* run_git_hosts.c: git's settings for hosts with a credential for Basic authentication. Heap; NULL
 * without memory. */
char *kh_run_git_hosts(const struct kh_config *config, const struct kh_ready *ready);

/* ---- run_hint.c ---- */

/* Adds a hint to `err`, which says why the command could not be executed (`status` 126 or 127). */
void kh_run_hint(const struct kh_run_options *options, const struct kh_run_image *image, int status,
		 struct kh_err *err);
/* Says so where a command that failed (`status`) named a file of the working folder, and had no
 * workspace to find it in. */
void kh_run_hint_workspace(const struct kh_run_options *options, int status);

/* ---- run_summary.c ---- */

struct kh_run_summary {
	bool counted; /* the counts come from a daemon */
	uint64_t calls, denials;
	char *path;
	off_t start;   /* where this run's lines begin */
	char *sandbox; /* whose lines are meant, in a journal of several; NULL: all */
	bool observes; /* the rules were not enforced */
	char **hidden; /* placeholders, which are not shown */
	size_t n_hidden;
	struct kh_cidr *allowed; /* addresses that the guard lets pass */
	size_t n_allowed;
	const struct kh_config *config; /* of the run; borrowed, and NULL where it has none */
};
/* What it must know of the configuration, which outlives the summary: whether the rules are
 * enforced, the addresses that are open, and conditions of rules. */
void kh_run_summary_note(struct kh_run_summary *summary, const struct kh_config *config);
void kh_run_summary_begin(struct kh_run_summary *summary, const char *journal);
/* What may not be shown; `ready` may end then. */
void kh_run_summary_hide(struct kh_run_summary *summary, const struct kh_ready *ready);
/* A few lines to standard error: how many requests there were, and each place that was refused. */
void kh_run_summary_print(const struct kh_run_summary *summary);
void kh_run_summary_fini(struct kh_run_summary *summary);

/* ---- run_condition.c: rules that allow a place only under a condition ---- */

/* Appends what a refused request did not meet: "the rule \"…\" (FILE:LINE) allows it with another
 * model than \"…\"". Return: false: no rule of the run allows the place at all. */
bool kh_run_condition_put(struct kh_buf *out, const struct kh_config *config,
			  const struct kh_refused_place *place);

/* ---- run_paste.c ---- */

/* A line "keyhole: BEFORE WORDS". WORDS are a part of a command, with a URL in single quotes in it
 * or none. Where the host would not fit into the row of the terminal, the line is broken before it
 * as a shell has it. */
void kh_run_paste_print(const char *before, const char *words);

/* ---- run_refused.c: the places that were refused ---- */

struct kh_run_refused {
	struct kh_refused_places places;
	/* What is known telemetry, by agent. */
	struct {
		const char *agent;
		uint64_t count;
	} telemetry[4];
	size_t n_telemetry;
};
/* How many of them are known telemetry. */
uint64_t kh_run_refused_telemetry(const struct kh_run_refused *refused);
/* A record of the journal (deny or open) of a request that was, or would be, refused, and what was
 * said of it at its end. */
void kh_run_refused_add(struct kh_run_refused *refused, const json_t *record,
			enum kh_err_code reason, struct kh_slice detail);
/* The open record of one that was allowed and failed. */
void kh_run_failed_add(struct kh_refused_places *failed, const json_t *record,
		       enum kh_err_code reason, struct kh_slice detail);
/* The open record of one with a credential, to which an upstream answered 401 or 403. */
void kh_run_answered_add(struct kh_refused_places *answered, const json_t *record, uint16_t status);
/* Each place once, and once for all places that they cover the words that would allow them.
 * `observes`: they would have been refused. */
void kh_run_refused_print(struct kh_run_refused *refused, bool observes,
			  const struct kh_run_summary *summary);
/* What a place is called: "GET https://api.example.com/v1", escaped. Return: false without memory.
 */
bool kh_run_refused_put_place(struct kh_buf *out, const struct kh_refused_place *place);
/* "once", "3 times". */
const char *kh_run_refused_times(uint64_t count, char room[32]);

/* ---- run_failed.c ---- */

/* Each place once, with the reason. */
void kh_run_failed_print(struct kh_refused_places *failed, struct kh_refused_places *answered,
			 const struct kh_run_summary *summary);

#endif
