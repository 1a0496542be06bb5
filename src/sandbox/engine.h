/*
 * engine.h - what makes a sandbox: one file per engine, behind one struct
 *
 * The launcher builds a plan that is independent of the engine: the view (what is seen), the
 * environment, and the command line of keyhole-init followed by the command.
 * An engine turns the plan into the command line of an existing program, which makes the sandbox
 * and becomes, or waits for, keyhole-init. keyhole-init does the rest of the isolation inside,
 * before the command runs, in the same way for every engine.
 *
 * What an engine must do, whatever its program is:
 *
 * - namespaces: new user, mount, pid, net, ipc and uts namespaces; the net namespace has only lo
 * - exactly the view, in its order; later entries cover earlier ones
 * - exactly the environment; only the descriptors of kh_engine_command_fd
 * - no capability on the host, no new privileges
 * - keyhole-init starts in /, which it leaves by itself for the folder that the command starts in:
 * an image may have named that folder, and the program may have folders of the host open
 * (/proc/self/fd)
 * - keyhole-init starts as uid 0 of the user namespace that owns the net namespace, with only
 *   CAP_NET_BIND_SERVICE, CAP_NET_ADMIN and CAP_SETFCAP there. It drops them, enters a child user
 *   namespace as uid KH_SANDBOX_UID, and loads the filter. (`called`: it starts as the host's uid
 *   0, or whatever the program maps that to, with CAP_SETUID and CAP_SETGID instead of CAP_SETFCAP,
 *   to change to the sandbox's uid first.)
 * - keyhole-init is PID 1 of the sandbox, and ends when the program is killed
 * - nothing is left when the program has ended, however it ended
 *
 * To add an engine, add a file with one of these structs, and its row in engine.c at the place for
 * its strength; docs/engines.md has the steps.
 */
#ifndef KEYHOLE_SANDBOX_ENGINE_H
#define KEYHOLE_SANDBOX_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/err.h>

struct kh_view;
struct kh_env;
struct kh_sandbox_limits;

struct kh_plan {
	const struct kh_view *view;
	const struct kh_env *env;
	const char *hostname;
	char *const *init; /* argv of keyhole-init, followed by the command */
	bool layered;	   /* the root is a writable overlay, already mounted (nested) */
	bool nested;	   /* the root is already mounted */
	/* called: */
	const char *image;			/* in the program's store */
	char *const *volumes;			/* of the image (kh_sandbox_spec) */
	const struct kh_sandbox_limits *limits; /* limits that the program must enforce */
	uint64_t start_ms;			/* the most time for each command of the program */
	uid_t uid;				/* the sandbox's on the host */
	gid_t gid;
	bool terminal; /* the program's standard descriptors are a terminal (own_kernel) */
};

/* A command line that makes the sandbox and becomes (or waits for) keyhole-init. */
struct kh_engine_command {
	char *path; /* of the program */
	char **argv;
	size_t n_argv;
	int *fds; /* that it inherits, besides 0, 1, 2; not owned except args_fd */
	size_t n_fds;
	int args_fd;
	char *const *environment; /* of the program, not owned; NULL: none */
	/* nested: its configuration, below KH_OUTER_NAMESPACE_BUNDLE; the texts are owned. */
	struct {
		const char *name;
		char *text;
	} files[3];
	bool own_network; /* nested: the program has a network namespace of its own as well */
	/* called: */
	int alive; /* closed at the end, which tells the watcher to remove everything; -1 */
	pid_t watcher;
	bool hide_cgroups; /* nested: hide all cgroups from the program */
	/* nested: the program mounts over paths that are not in the view, and makes the root
	 * read-only itself. */
	bool seals_root;
	const char *own_file; /* nested: a file that the program puts into the root; NULL */
	bool own_terminals;   /* nested: it needs a devpts at KH_OUTER_NAMESPACE_TERMINALS */
	/* uplink: a command line of the program that runs `keyhole-init --bring` in the sandbox,
	 * where its standard descriptors are a terminal. Not owned. */
	const char *const *bring;
};
void kh_engine_command_init(struct kh_engine_command *command);
void kh_engine_command_fini(struct kh_engine_command *command);
bool kh_engine_command_arg(struct kh_engine_command *command, const char *arg);
/* Until a NULL. */
bool kh_engine_command_args(struct kh_engine_command *command, const char *const *args);
bool kh_engine_command_fd(struct kh_engine_command *command, int fd);

struct kh_engine {
	const char *name;
	const char *about; /* a short description for lists */
	/* The program runs in outer namespaces in which the view is already mounted
	 * (outer_namespace.c), and its descriptors are 3, 4, … in order. */
	bool nested;
	/* The program asks a daemon to make the container (store.h). */
	bool called;
	bool has_store; /* the program has its own image store, and gets the spec's `image` */
	int own_fds;	/* nested: how many of its first descriptors are for the program itself */
	/* The nested variant for a root with an overlay; NULL: this one. */
	const struct kh_engine *layered;
	/* Not for --engine auto: it restricts programs too much, or users have to choose it
	 * knowingly. */
	bool by_name_only;
	bool environ_file; /* the program would add variables, so keyhole-init gets the environment
			      in a file */
	const char
		*folder; /* a folder that its program mounts over, besides /proc and /dev; NULL */
	/* The program is large, so limits are for keyhole-init and its descendants; keyhole-init
	 * waits until it is in the control groups. */
	bool limits_init;
	/* The program passes keyhole-init no descriptors: it connects to a socket of the launcher
	 * in the view (KH_MOUNT_SOCKET), and gets there what others inherit (rendezvous.h). */
	bool connects;
	/* The same, but keyhole-init inherits the program's standard input: one end of a socket
	 * pair, over which it gets what others inherit, and each connection to the proxy
	 * (uplink.h). */
	bool uplink;
	/* The program has a kernel of its own, which can only get a terminal, or a file with its
	 * position, from the program. So the program's standard descriptors are a terminal that the
	 * launcher made, and which becomes the command's (plan.terminal); else /dev/null. Its error
	 * messages go to its first other descriptor. */
	bool own_kernel;
	/* Fills `out`. Return: false: the program is missing or too old; err says how to get it. */
	bool (*prepare)(const struct kh_plan *plan, struct kh_engine_command *out,
			struct kh_err *err);
	/* Turns the program's standard error, after a failed start, into one clear line with what
	 * to do. Return: false. */
	bool (*explain)(const char *said, struct kh_err *err);
};

/* The strongest first. Return: NULL after the last. */
const struct kh_engine *kh_engine_at(size_t i);
/* Return: NULL: unknown; err lists the names. */
const struct kh_engine *kh_engine_find(const char *name, struct kh_err *err);
extern const struct kh_engine kh_engine_process, kh_engine_process_layered;
extern const struct kh_engine kh_engine_container;
extern const struct kh_engine kh_engine_gvisor;
extern const struct kh_engine kh_engine_podman;
extern const struct kh_engine kh_engine_docker;

#endif
