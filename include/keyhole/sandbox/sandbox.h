/* sandbox.h - the launcher: what a sandbox is made of, and the engines that make it */
#ifndef KEYHOLE_SANDBOX_SANDBOX_H
#define KEYHOLE_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/err.h>

/* The sandbox runs as this uid and gid inside. */
enum { KH_SANDBOX_UID = 1000, KH_SANDBOX_GID = 1000 };
/* On the host, where root starts it: a reserved uid that owns nothing, and not the worker's. */
enum { KH_SANDBOX_HOST_UID = 64952, KH_SANDBOX_HOST_GID = 64952 };

/* Where things lie inside. */
#define KH_SANDBOX_HOME "/home/agent"
#define KH_SANDBOX_RUN "/run/keyhole"
#define KH_SANDBOX_BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define KH_SANDBOX_CA "/etc/keyhole/ca.pem"
#define KH_SANDBOX_P12 "/etc/keyhole/ca.p12"

struct kh_env_var {
	char *name;
	char *value;
};

/* How much of the host a sandbox may use; 0: no such limit. */
struct kh_sandbox_limits {
	uint64_t memory_bytes; /* of all its processes, and of what they keep in memory's files */
	uint64_t disk_bytes;   /* of each place of its own that it may write to (/tmp, the home) */
	uint64_t timeout_ms;
	unsigned cpu_milli; /* thousandths of a CPU */
	unsigned pids;	    /* processes and threads */
	bool best_effort;   /* what this host can't keep is warned about, not refused */
};
/* The most processes that an engine and keyhole-init have besides the command's. */
enum { KH_SANDBOX_OWN_PIDS = 16, KH_SANDBOX_PID_MAX = 4194304 /* of a kernel of 64 bit */ };

/* A port of the host's loopback that leads to one inside. */
struct kh_published {
	uint16_t outside, inside;
};

/* Where what the agent does in its workspace goes, so that the workspace itself stays as it is
 * (review.h has who makes it). */
struct kh_sandbox_review {
	const char
		*folder; /* with "upper" and "work" for an overlay, else a copy of the workspace */
	bool overlay;
};

struct kh_sandbox_spec {
	const char *engine; /* one of kh_sandbox_engine, or "auto" */
	const char *rootfs; /* NULL: the host view */
	bool layer;	    /* over rootfs: what is written goes there, and is gone at the end */
	const char *image;  /* a reference in the store of the engine's own program, or NULL */
	const char *entrypoint; /* with image: in the place of its own and its command; "": none */
	const char *workspace;	/* absolute, or NULL */
	bool workspace_read_only;
	const struct kh_sandbox_review *review; /* NULL: the agent writes into the workspace */
	bool mask_env_files;			/* .env files of the workspace read as empty */
	const char *home;	      /* a folder that keeps state, or NULL: a private one */
	const char *const *read_only; /* more folders or files of the host to see, absolute */
	size_t n_read_only;
	/* What an image says of how it is run: variables, which every other one replaces, and where
	 * to start, unless there is a workspace (made where it is absent; NULL: the home). */
	const struct kh_env_var *root_env;
	size_t n_root_env;
	const char *directory;
	const struct kh_env_var *env; /* --env, after the defaults and before keyhole's own */
	size_t n_env;
	const struct kh_env_var *placeholders;
	size_t n_placeholders;
	const char *git_name; /* identity for commits, or NULL */
	const char *git_email;
	const char *git_settings; /* more of git's configuration, in its form, or NULL */
	const char *ca_pem;	  /* the CA that the sandbox trusts; NULL: none */
	const char *socket_dir;	  /* folder with the one socket, named "s" */
	/* Another program named it: the descriptor of what the caller has judged, which has to lie
	 * there still. No forbidden path may be seen in it. NULL: the caller made it. */
	const int *socket_dir_judged;
	const char *const
		*forbidden_paths; /* must not be visible: config, CA key, journal, sockets … */
	size_t n_forbidden;
	uid_t host_uid; /* on the host, when started by root; (uid_t)-1: KH_SANDBOX_HOST_UID */
	gid_t host_gid;
	const char *state; /* kh_workspace_state(); a workspace that can be written to needs one */
	const char *init_path; /* keyhole-init; NULL: beside the binary, or where it is installed */
	const uint16_t *ports; /* captured besides 80 and 443: connections that know no proxy */
	size_t n_ports;
	struct kh_sandbox_limits limits;
	const struct kh_published *publish;
	size_t n_publish;
	uint64_t start_ms; /* until the command runs; 0: KH_LIMIT_SANDBOX_START_MS */
	char *const *argv; /* the command */
	bool tty;	   /* standard input and output are a terminal */
	bool no_stdio;	   /* the command's standard descriptors are /dev/null */
	bool holds_log;	   /* once the command has ended, the log is held until the caller has
			      done its own part and calls kh_log_release_all */
};

/*
 * Runs the command and waits for it; signals are forwarded. Warnings go to the log. What can't be
 * kept is refused before anything runs: a forbidden path that a mount would show, a protected file
 * of the workspace that is a symbolic link, a workspace that is / or another folder of more than a
 * project. Return: true
 * when the command ran (or could not be executed: 126 or 127, and `err` says why), with its exit
 * status as a shell would give it in *status; false when keyhole itself failed.
 */
bool kh_sandbox_run(const struct kh_sandbox_spec *spec, int *status, struct kh_err *err);

/* The engines by name, the strongest first. Return: NULL behind the last. */
const char *kh_sandbox_engine(size_t i);
/* Does its program keep images by name, so that it is given `image` and no `rootfs`? */
bool kh_sandbox_has_store(const char *engine);
/*
 * A real trial: makes a sandbox with this engine, runs /bin/sh in it, and takes it away again.
 * Return: false, and err says which command or package would help.
 */
bool kh_sandbox_try(const char *engine, struct kh_err *err);
/* Which limits a control group would keep here: one is made for each, and removed. */
struct kh_sandbox_groups {
	bool memory, pids, cpus;
};
void kh_sandbox_try_groups(struct kh_sandbox_groups *out);
/* As kh_sandbox_try for a layer over a root: one is mounted and written to. */
bool kh_sandbox_try_layer(struct kh_err *err);

#endif
