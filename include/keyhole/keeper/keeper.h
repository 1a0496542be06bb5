/* keeper.h - the parent process: CA key, secret sources, listening sockets, and the worker */
#ifndef KEYHOLE_KEEPER_KEEPER_H
#define KEYHOLE_KEEPER_KEEPER_H

#include <sys/stat.h>

#include <keyhole/config/config.h>

/* What a launcher needs to know of its private daemon. Written once to `ready_fd`: a u32 length,
 * then the members in the encoding of wire.h. */
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
/* Blocks until the message has come, the other side has closed, or the timeout. `out` then owns its
 * strings, until kh_ready_fini. */
bool kh_ready_read(int fd, struct kh_ready *out, uint32_t timeout_ms, struct kh_err *err);
/* Blocks likewise until the keeper writes that its worker serves (serving_fd). */
bool kh_ready_await_serving(int fd, uint32_t timeout_ms, struct kh_err *err);
void kh_ready_fini(struct kh_ready *ready);

struct kh_keeper_options {
	struct kh_config *config; /* taken over */
	int ready_fd; /* -1: none. A struct kh_ready is written when the sockets listen, or with the
			 error when the start fails; the worker may still be starting */
	int serving_fd; /* -1: none. A "\n" is written when the worker serves (--ready-fd); it may
			   be the same pipe as ready_fd */
	bool one_run; /* of `keyhole run`: ends with its parent; a missing secret is an error at the
			 start; the log is quiet */
	uid_t socket_uid; /* one_run as root: the owner of the sandbox's socket; (uid_t)-1:
			     unchanged */
	gid_t socket_gid;
	/* main's arguments, for the new binary that takes over at SIGUSR2. NULL: no handover. */
	char **argv;
	bool heir; /* started by a keeper to take over, with the channel on KH_KEEPER_HANDOVER_FD */
	/* SIGHUP: reads the configuration again; the result is the keeper's. NULL: it has errors,
	 * which were shown. `said` gets errors and warnings, as far as there is room. */
	struct kh_config *(*reload)(void *arg, struct kh_buf *said);
	void *reload_arg;
};

/* The option with which a keeper starts its successor, right after the subcommand. */
#define KH_KEEPER_HANDOVER_OPTION "--handover"
enum { KH_KEEPER_HANDOVER_FD = 3 };

/* Runs until SIGTERM or SIGINT (after a drain), or a start error. SIGHUP reloads; SIGUSR2 hands
 * over to the binary that is now at its path. Closes the descriptors of `options`. Return: the exit
 * status of the process. */
int kh_keeper_run(struct kh_keeper_options *options);

/*
 * Overwrites, in this process's environment, the values of all variables that are sources of
 * credentials or that a source's command gets by name. The keeper does this by itself. A launcher
 * that forked it must do it too, so that /proc/PID/environ of neither contains a key.
 */
void kh_keeper_forget_sources(const struct kh_config *config);

/* The variables that each command of a source gets, if the keeper has them. Ended by NULL. */
extern const char *const kh_exec_variables[];

/* Whether a daemon of this user would accept a file as its journal. */
enum kh_journal_verdict {
	KH_JOURNAL_BAD = 0, /* the daemon would not start; `err` says why */
	KH_JOURNAL_OTHERS,  /* the caller is root, and only the owner of the file or of its folder
			       could use it; `err` says why */
	KH_JOURNAL_GOOD,    /* or it does not exist yet */
};
/* Judges it as the daemon does at its start. Creates and changes nothing. */
enum kh_journal_verdict kh_journal_look(const char *path, struct kh_err *err);
/* Is `path` a file of trust roots: a regular file with a PEM certificate? Return: false with `err`,
 * which names the file; err->sys is set if it can't be opened. */
bool kh_roots_look(const char *path, struct kh_err *err);

/*
 * Could a daemon of this user use the value that this source of the credential has now? Does not
 * check pipes and systemd credentials: true. Of a command only its program is looked for. Changes
 * nothing. `err` names the credential and the source, and never contains a byte of the value.
 */
bool kh_source_can_be_used(const struct kh_credential_config *credential,
			   const struct kh_source *source, struct kh_err *err);
/* Has the file any permission for others (mode & 0007)? *st: its stat. */
bool kh_source_is_for_all(const struct kh_source *source, struct stat *st);

#endif
