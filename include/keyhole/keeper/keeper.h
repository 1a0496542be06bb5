/* keeper.h - the parent: CA key, secret sources, listening sockets, the worker's life */
#ifndef KEYHOLE_KEEPER_KEEPER_H
#define KEYHOLE_KEEPER_KEEPER_H

#include <sys/stat.h>

#include <keyhole/config/config.h>

/* What a launcher needs to know of its private daemon: written once to `ready_fd` in wire.h's
 * encoding, behind a u32 length. */
struct kh_ready {
	bool ok;
	char *error; /* not ok: why, one line */
	char *ca_pem;
	char *audit_path;
	struct kh_ready_placeholder {
		char *env_name;
		char *value;
	} * placeholders;
	size_t n_placeholders;
};
bool kh_ready_write(int fd, const struct kh_ready *ready, struct kh_err *err);
/* Blocks until it is there, the other side is gone, or the timeout. */
bool kh_ready_read(int fd, struct kh_ready *out, uint32_t timeout_ms, struct kh_err *err);
void kh_ready_fini(struct kh_ready *ready);

struct kh_keeper_options {
	struct kh_config *config; /* taken over */
	int ready_fd; /* -1: none. Written when the sockets listen; the worker may still be starting
		       */
	int serving_fd;	  /* -1: none. A "\n" is written when the worker serves; for tests and
			     --ready-fd */
	bool one_run;	  /* of `keyhole run`: die with the parent; a missing secret is an error at
			     start; quiet log */
	uid_t socket_uid; /* one_run as root: who owns the sandbox's socket; (uid_t)-1: nobody else
			   */
	gid_t socket_gid;
	/* SIGUSR2: main's arguments, for another binary of the same path that takes over. NULL:
	   this daemon is not handed over. */
	char **argv;
	bool heir; /* started by a keeper, to take over: it is on KH_KEEPER_HANDOVER_FD */
	/* SIGHUP: reads the configuration again. NULL: it has errors, which were shown; `said` gets
	   them, and warnings, as far as there is room. */
	struct kh_config *(*reload)(void *arg, struct kh_buf *said);
	void *reload_arg;
};

/* The option by which a keeper starts its successor, right behind the subcommand's name. */
#define KH_KEEPER_HANDOVER_OPTION "--handover"
enum { KH_KEEPER_HANDOVER_FD = 3 };

/* Runs until SIGTERM or SIGINT (drains), or a start error; SIGHUP reloads, SIGUSR2 hands over to
 * the binary that is there now. Return: exit status of the process. */
int kh_keeper_run(struct kh_keeper_options *options);

/*
 * Overwrites, where they stand in this process's environment, the values of all variables that are
 * sources of credentials, or are given by name to a command that is one. The keeper does it by
 * itself; a launcher that forked it does it too, so that /proc/PID/environ of neither shows a key.
 */
void kh_keeper_forget_sources(const struct kh_config *config);

/* What a daemon of this user would say of the file that is to be its journal. */
enum kh_journal_verdict {
	KH_JOURNAL_BAD = 0, /* it would not start; `err` says why */
	KH_JOURNAL_OTHERS,  /* this is root, and the file is good for its owner alone; likewise */
	KH_JOURNAL_GOOD,    /* or not there yet */
};
/* As it is judged at start. Nothing is made or changed. */
enum kh_journal_verdict kh_journal_look(const char *path, struct kh_err *err);
/* Trust roots: a regular file with a certificate in PEM. Return: false with `err`, which names the
 * file; err->sys where it can't be opened. */
bool kh_roots_look(const char *path, struct kh_err *err);

/*
 * Could a daemon of this user use the value that is in that source of the credential now? Pipes,
 * commands and credentials of a service are not looked into: true. Nothing is changed; `err` names
 * the credential and the source, and never holds a byte of the value.
 */
bool kh_source_can_be_used(const struct kh_credential_config *credential,
			   const struct kh_source *source, struct kh_err *err);
/* Is it a file that everybody on this host may read, or write to? *st: of it. */
bool kh_source_is_for_all(const struct kh_source *source, struct stat *st);

#endif
