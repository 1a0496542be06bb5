/* sandbox.h - the launcher: the specification of a sandbox, and running it with an engine */
#ifndef KEYHOLE_SANDBOX_SANDBOX_H
#define KEYHOLE_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/err.h>
#include <keyhole/base/host.h>

/* The sandbox runs as this uid and gid inside. */
enum { KH_SANDBOX_UID = 1000, KH_SANDBOX_GID = 1000 };
/* Its uid and gid on the host if root starts it: reserved ones that own nothing, and not the
 * worker's. */
enum { KH_SANDBOX_HOST_UID = 64952, KH_SANDBOX_HOST_GID = 64952 };

/* Paths inside. */
#define KH_SANDBOX_HOME "/home/agent"
#define KH_SANDBOX_RUN "/run/keyhole"
#define KH_SANDBOX_BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define KH_SANDBOX_CA "/etc/keyhole/ca.pem"
#define KH_SANDBOX_P12 "/etc/keyhole/ca.p12"
#define KH_SANDBOX_LINKS "/opt/keyhole/bin"

struct kh_env_var {
	char *name;
	char *value;
};

/* What the command finds in its home, where it has no file of that name there. */
struct kh_home_file {
	char *path; /* below the home: "a/b" */
	char *content;
};

/* A link inside to a program of the host: by a name on the PATH, or by an absolute path. */
struct kh_program_link {
	char *name;
	char *program; /* absolute */
};

/* How much of the host a sandbox may use; 0: no such limit. */
struct kh_sandbox_limits {
	uint64_t memory_bytes; /* of all its processes, including files in memory */
	uint64_t disk_bytes;   /* of each writable place of its own (/tmp, the home) */
	uint64_t timeout_ms;
	unsigned cpu_milli; /* thousandths of a CPU */
	unsigned pids;	    /* processes and threads */
	bool best_effort;   /* a limit that this host can't enforce is a warning, not an error */
};
/* OWN_PIDS: the most processes that an engine and keyhole-init have besides the command's. */
enum { KH_SANDBOX_OWN_PIDS = 16, KH_SANDBOX_PID_MAX = 4194304 /* of 64-bit kernels */ };

/* A port of the host's loopback that is forwarded to a port inside. */
struct kh_published {
	uint16_t outside, inside;
};

/* The review that gets the agent's changes, so that the workspace stays unchanged (made by
 * review.h). */
struct kh_sandbox_review {
	const char *
		folder; /* has "upper" and "work" for an overlay; else is a copy of the workspace */
	bool overlay;
};

struct kh_sandbox_spec {
	const char *engine;	/* a name of kh_sandbox_engine, or "auto" */
	const char *rootfs;	/* NULL: the host view */
	bool layer;		/* an overlay over rootfs, which is discarded at the end */
	const char *image;	/* an image in the store of the engine's own program, or NULL */
	const char *entrypoint; /* with image: replaces its entrypoint and command; "": none; NULL:
				   the image's */
	const char *workspace;	/* absolute and without links, or NULL */
	bool workspace_read_only;
	const struct kh_sandbox_review *review; /* NULL: the agent writes into the workspace */
	bool mask_env_files;			/* .env files of the workspace read as empty */
	const char *home; /* a folder for a persistent home, without links; NULL: a private one,
			     discarded at the end */
	/* Descriptors of the workspace and the home when their paths were resolved, which must
	 * still be there (kh_file_hold_again); NULL: what is there now. */
	const int *workspace_held, *home_held;
	const char *const
		*read_only; /* more folders or files of the host to show read-only; absolute */
	size_t n_read_only;
	/* From an image: variables, which all others override; and the working directory, if there
	 * is no workspace (made if absent; NULL: the home). */
	const struct kh_env_var *root_env;
	size_t n_root_env;
	const char *directory;
	/* From an image in the store of the engine's program, which would put a folder of its own
	 * disk there; ended by NULL; NULL: none. */
	char *const *volumes;
	const struct kh_env_var *env; /* --env; overrides the defaults, but not keyhole's own */
	size_t n_env;
	const struct kh_env_var *placeholders;
	size_t n_placeholders;
	const struct kh_home_file *home_files;
	size_t n_home_files;
	/* Folders that come before the others of PATH, also in login shells. The folder of `links`,
	 * if there are any, is one of them. */
	const char *const *path;
	size_t n_path;
	const struct kh_program_link *links;
	size_t n_links;
	/* Identity for commits, or NULL. It is put into git's configuration, and into the user's
	 * name and $EMAIL, which git uses if a program hides the configuration from it. */
	const char *git_name;
	const char *git_email;
	const char *git_settings; /* more configuration for git, in git's syntax, or NULL */
	const char *ca_pem;	  /* the CA that the sandbox trusts; NULL: none */
	const char *socket_dir;	  /* the folder with the proxy's socket, named "s" */
	/* If another program named socket_dir: a descriptor of the folder that the caller has
	 * checked, which must still be at that path; no forbidden path may be visible in it. NULL:
	 * the caller made the folder. */
	const int *socket_dir_judged;
	const char *const *forbidden_paths; /* paths that must not be visible: config, CA key,
					       journal, sockets … */
	size_t n_forbidden;
	uid_t host_uid; /* on the host, when started by root; (uid_t)-1: KH_SANDBOX_HOST_UID */
	gid_t host_gid;
	const char *state; /* of kh_workspace_state(); needed for a writable workspace */
	/* What keyhole keeps for the user who runs it, which for root is another folder than
	 * `state`, and where it keeps images. No part of these folders may be visible. NULL: there
	 * is none. */
	const char *user_state, *cache;
	const char *init_path; /* path of keyhole-init; NULL: beside the binary, or where it is
				  installed */
	const uint16_t *ports; /* ports, besides 80 and 443, on which connections of programs that
				  use no proxy are captured */
	size_t n_ports;
	/* Where the addresses of names come from; family 0: 127.64.0.0/10. */
	struct kh_cidr capture_range;
	struct kh_sandbox_limits limits;
	const struct kh_published *publish;
	size_t n_publish;
	uint64_t start_ms; /* the most time until the command runs; 0: KH_LIMIT_SANDBOX_START_MS */
	char *const *argv; /* the command */
	bool tty;	   /* standard input and output are a terminal */
	bool no_stdio;	   /* the command's standard descriptors are /dev/null */
	bool holds_log; /* after the command has ended, log lines are held back until the caller has
			   cleaned up and calls kh_log_release_all */
};

/* May a sandbox have this workspace, this home and what --ro names? kh_sandbox_run asks again. */
bool kh_sandbox_check_folders(const struct kh_sandbox_spec *spec, struct kh_err *err);
/* Would a sandbox see a path that the spec forbids, in its root, its home, its workspace or what
 * --ro names? Starts nothing, and needs nothing of the proxy. kh_sandbox_run asks again, about all
 * that it mounts. Return: false with `err`: it would, or that can't be told. */
bool kh_sandbox_check_seen(const struct kh_sandbox_spec *spec, struct kh_err *err);

/*
 * Runs the command in a sandbox and waits for it; signals are forwarded. Warnings go to the log. It
 * refuses, before anything runs, what it can't protect: a forbidden path that a mount would show, a
 * protected file of the workspace that is a symbolic link, or a workspace such as / that is more
 * than a project. Return: true if the command ran, with its exit status in *status as a shell would
 * give it; also if it could not be executed (126 or 127, and `err` says why). False with `err` if
 * keyhole itself failed.
 */
bool kh_sandbox_run(const struct kh_sandbox_spec *spec, int *status, struct kh_err *err);

/* The names of the engines, the strongest first. Return: NULL after the last. */
const char *kh_sandbox_engine(size_t i);
/* Does the engine's program have its own image store, so that it needs `image` instead of
 * `rootfs`? */
bool kh_sandbox_has_store(const char *engine);
/*
 * Tries an engine: makes a sandbox with it, runs /bin/sh in it, and removes it. Return: false with
 * `err`, which says which command or package would help.
 */
bool kh_sandbox_try(const char *engine, struct kh_err *err);
/* Which limits control groups can enforce here; tried by making a group for each and removing
 * it. */
struct kh_sandbox_groups {
	bool memory, pids, cpus;
};
void kh_sandbox_try_groups(struct kh_sandbox_groups *out);
/* Tries an overlay over a root: mounts one and writes to it. Return: false with `err`. */
bool kh_sandbox_try_layer(struct kh_err *err);

#endif
