/* run_internal.h - the parts of `keyhole run` */
#ifndef KEYHOLE_RUN_INTERNAL_H
#define KEYHOLE_RUN_INTERNAL_H

#include <sys/types.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/config/config.h>
#include <keyhole/sandbox/image.h>
#include <keyhole/keeper/keeper.h>
#include <keyhole/base/limits.h>
#include <keyhole/sandbox/review.h>
#include <keyhole/sandbox/sandbox.h>

#include "cli_internal.h"

/* ---- run_options.c ---- */

struct kh_run_options {
	const char *config_path;
	const char *tenant;
	const char *engine;
	const char *image;			 /* as it was given */
	const char *entrypoint;			 /* in the place of the image's; "": none; NULL */
	char *rootfs, *workspace, *home, *audit; /* absolute */
	bool layer;				 /* over rootfs */
	bool workspace_read_only, mask_env, quiet;
	char *review; /* of the workspace: "" its only one, "new", or an id; NULL: none */
	char **presets;
	size_t n_presets;
	char **read_only;
	size_t n_read_only;
	struct kh_env_var *env;
	size_t n_env;
	uint16_t ports[KH_LIMIT_INIT_PORTS - 2];
	size_t n_ports;
	struct kh_sandbox_limits limits;
	struct kh_published publish[KH_LIMIT_PUBLISHED_PORTS];
	size_t n_publish;
	char *const *command;
};
enum kh_run_parsed { KH_RUN_GO, KH_RUN_HELPED, KH_RUN_WRONG };
/* What was wrong has been said. */
enum kh_run_parsed kh_run_options_parse(struct kh_run_options *out, int argc, char **argv);
void kh_run_options_fini(struct kh_run_options *options);

/* ---- run_limits.c; what was wrong has been said ---- */

bool kh_run_limit_memory(struct kh_sandbox_limits *out, const char *text);
bool kh_run_limit_disk(struct kh_sandbox_limits *out, const char *text);
bool kh_run_limit_timeout(struct kh_sandbox_limits *out, const char *text);
bool kh_run_limit_pids(struct kh_sandbox_limits *out, const char *text);
bool kh_run_limit_cpus(struct kh_sandbox_limits *out, const char *text);

/* ---- run_image.c ---- */

/* DIR or DIR:O. What was wrong has been said. */
bool kh_run_rootfs(struct kh_run_options *out, const char *text);
/* An image that is unpacked for the run, and the command line that it makes of ours. */
struct kh_run_image {
	bool is_open;
	struct kh_image image;
	char **argv; /* its words are the image's and the options' */
};
/* Nothing is opened where none is asked for, or the engine has a store. `is_over` is asked while it
 * takes its time. */
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
/* Says what came of it; one without a change is removed. */
void kh_run_review_end(struct kh_run_review *run, bool quiet);

/* ---- run_folder.c: the folder of one run, gone at its end ---- */

struct kh_run_folder {
	char *path;
	char *socket_dir;  /* what the sandbox sees of it */
	char *socket_path; /* in it: "s" */
	const char *id;	   /* last part of `path`: "run-Ab3dEf" */
	int lock;
};
/* Also removes what runs that were killed have left. */
bool kh_run_folder_make(struct kh_run_folder *folder, struct kh_err *err);
void kh_run_folder_remove(struct kh_run_folder *folder);

/* ---- run_attach.c: a sandbox of a daemon that runs already ---- */

struct kh_run_attach {
	char *socket; /* the daemon's admin socket; NULL: there is none */
	char *tenant;
	bool added; /* until it is removed */
	char *id;
	char *base;   /* admin.sandboxes, where the daemon makes their folders */
	char *folder; /* of its socket: BASE/TENANT/ID */
	int held;     /* that folder, as it was judged; -1 */
	/* What it came to, once it is removed. */
	bool counted;
	uint64_t calls, denials;
};
/* Adds it; the daemon ends it with this process, however that ends. `ready` gets what a private
 * daemon would say. The daemon's worker answers, and nothing of that is believed which the
 * configuration does not say as well: neither the folder, nor the journal, nor a variable. */
bool kh_run_attach(struct kh_run_attach *attach, const struct kh_config *config, const char *id,
		   struct kh_ready *ready, struct kh_err *err);
void kh_run_detach(struct kh_run_attach *attach);
void kh_run_attach_fini(struct kh_run_attach *attach);

/* ---- run_config.c ---- */

/* The configuration of this run: the file's or the presets', with one listener and a journal. Where
 * the file names a daemon that answers, and nothing was asked for that only a private one can do,
 * `attach` says which, and as which tenant. `forbidden` gets every path that the sandbox must not
 * see (a list that ends with NULL). What was wrong has been said. Return: NULL. */
struct kh_config *kh_run_config(const struct kh_run_options *options,
				const struct kh_run_folder *folder, char ***forbidden,
				struct kh_run_attach *attach);
void kh_run_forbidden_free(char **list);
/* Refuses a variable of --env that is a credential's: the value must not get in. */
bool kh_run_env_check(const struct kh_run_options *options, const struct kh_config *config,
		      struct kh_err *err);
/* Overwrites the values of all credentials in our own environment. */
void kh_run_wipe_environment(const struct kh_config *config);

/* ---- run_git.c: who commits ---- */

struct kh_run_git {
	bool asked; /* and not answered */
	struct kh_child child;
	char *name, *email;
};
/* Asks git in the background, since it takes a few milliseconds. */
void kh_run_git_ask(struct kh_run_git *git);
void kh_run_git_answer(struct kh_run_git *git);
void kh_run_git_fini(struct kh_run_git *git);
/* run_git_hosts.c: settings for hosts that take a credential by Basic. Heap; NULL without memory.
 */
char *kh_run_git_hosts(const struct kh_config *config, const struct kh_ready *ready);

/* ---- run_hint.c ---- */

/* Adds to `err`, which says why the command could not be executed (`status` 126, 127), what to do.
 */
void kh_run_hint(const struct kh_run_options *options, const struct kh_run_image *image, int status,
		 struct kh_err *err);

/* ---- run_summary.c ---- */

struct kh_run_summary {
	bool counted; /* by a daemon */
	uint64_t calls, denials;
	char *path;
	off_t start; /* of this run's lines */
};
void kh_run_summary_begin(struct kh_run_summary *summary, const char *journal);
/* One line to standard error. */
void kh_run_summary_print(const struct kh_run_summary *summary);

#endif
