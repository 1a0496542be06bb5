/* sandbox.h - the launcher: what a sandbox is made of, and the engines that make it */
#ifndef KEYHOLE_SANDBOX_H
#define KEYHOLE_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/err.h>

/* The sandbox runs as this uid and gid inside. */
enum { KH_SANDBOX_UID = 1000, KH_SANDBOX_GID = 1000 };

struct kh_env_var {
	char *name;
	char *value;
};

struct kh_sandbox_spec {
	const char *engine;    /* "process" */
	const char *rootfs;    /* NULL: the host view */
	const char *workspace; /* absolute, or NULL */
	bool workspace_read_only;
	bool mask_env_files;	      /* .env files of the workspace read as empty */
	const char *home;	      /* a folder that keeps state, or NULL: a private one */
	const struct kh_env_var *env; /* --env, after the defaults and before keyhole's own */
	size_t n_env;
	const struct kh_env_var *placeholders;
	size_t n_placeholders;
	const char *ca_pem;	/* the CA that the sandbox trusts */
	const char *socket_dir; /* folder with the one socket, named "s" */
	const char *const
		*forbidden_paths; /* must not be visible: config, CA key, journal, sockets … */
	size_t n_forbidden;
	uid_t host_uid; /* on the host, when started by root; (uid_t)-1: the caller's own */
	gid_t host_gid;
	char *const *argv; /* the command */
	bool tty;	   /* standard input and output are a terminal */
};

/*
 * Runs the command and waits for it; signals are forwarded. Return: true when the command ran (or
 * could not be executed: 126, 127), with its exit status as a shell would give it in *status; false
 * when keyhole itself failed.
 */
bool kh_sandbox_run(const struct kh_sandbox_spec *spec, int *status, struct kh_err *err);

#endif
