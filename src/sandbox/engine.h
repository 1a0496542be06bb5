/*
 * engine.h - what makes a sandbox: one file an engine, behind one struct
 *
 * The launcher lays a plan that knows no engine: what is seen (view), the variables, where to
 * start, and the command line of keyhole-init with the command behind it. An engine turns the plan
 * into the command line of a program that is well kept elsewhere; the program makes the sandbox and
 * becomes, or waits for, keyhole-init. What is left to do inside, before the command may run, is
 * keyhole-init's in every engine: so what is ours of the isolation is as strict in one as in
 * another.
 *
 * What an engine must do, whatever its program is:
 *
 *   - namespaces: user, mount, pid, net, ipc, uts of the sandbox's own; in the net one only lo
 *   - exactly the view, in its order; what is laid later lies over what was laid before
 *   - exactly the environment; the descriptors that were promised (kh_engine_command_fd), no other
 *   - no capability on the host, no new privileges
 *   - keyhole-init starts as uid 0 of the user namespace that owns the net one, with
 *     CAP_NET_BIND_SERVICE, CAP_NET_ADMIN and CAP_SETFCAP there and no other; it puts them away,
 * goes into a namespace below as uid KH_SANDBOX_UID, and loads the filter
 *     (called: as the host's uid 0, or whoever the program makes of it, and with CAP_SETUID and
 *     CAP_SETGID in the place of CAP_SETFCAP, to become the sandbox's uid first)
 *   - keyhole-init is PID 1 of the sandbox; it ends when the program is killed
 *   - nothing is left when the program has ended, however that came about
 *
 * Another engine is one more file with one of these structs, and its row in engine.c at the place
 * that its strength gives it; docs/engines.md has the steps.
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
	const char *directory; /* to start in */
	const char *hostname;
	char *const *init; /* argv of keyhole-init, with the command behind it */
	bool layered;	   /* the root can be written to; it lies ready (nested) */
	bool nested;	   /* the root lies ready */
	/* called: */
	const char *image;			/* in the program's store */
	const struct kh_sandbox_limits *limits; /* which the program is to keep */
	uint64_t start_ms;			/* for each thing that it is asked for */
	uid_t uid;				/* the sandbox's on the host */
	gid_t gid;
	bool terminal; /* the program's standard descriptors are one, to hand on (own_kernel) */
};

/* A command line that makes the sandbox and becomes (or waits for) keyhole-init. */
struct kh_engine_command {
	char *path; /* of the program */
	char **argv;
	size_t n_argv;
	int *fds; /* inherited by it, besides 0, 1, 2; not owned but for args_fd */
	size_t n_fds;
	int args_fd;
	char *const *environment; /* of the program, not owned; NULL: none */
	/* nested: its configuration, below KH_OUTER_NAMESPACE_BUNDLE; the texts are owned. */
	struct {
		const char *name;
		char *text;
	} files[2];
	bool own_network; /* nested: the program has a network namespace of its own as well */
	/* called: */
	int alive; /* shut at the end, which tells the watcher to remove everything; -1 */
	pid_t watcher;
	bool hide_cgroups; /* nested: the program is to find no cgroups at all */
	/* nested: the program mounts over places that the view does not have, and makes the root
	 * read-only itself. */
	bool seals_root;
	const char *own_file; /* nested: one that the program puts into the root; NULL */
	bool own_terminals;   /* nested: a devpts is to lie ready at KH_OUTER_NAMESPACE_TERMINALS */
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
	const char *about; /* a few words for a list */
	/* The program runs in namespaces of ours in which the view lies ready (outer_namespace.c),
	 * and its descriptors are 3, 4, … in their order. */
	bool nested;
	/* The program has a daemon make the container, elsewhere (store.h). */
	bool called;
	bool has_store; /* the program keeps images of its own, and is given the spec's `image` */
	int own_fds;	/* nested: the first of its descriptors are so many of the program's own */
	/* Another one of that name, nested, for a root with a layer; NULL: this one. */
	const struct kh_engine *layered;
	/* Not for auto: what it takes away from programs is too much for that, or it is for those
	 * who know that they want it. */
	bool by_name_only;
	bool environ_file;  /* it would add variables: keyhole-init is told in a file what they are
			     */
	const char *folder; /* that its program mounts over, besides /proc and /dev; NULL */
	/* The program is large: limits are for keyhole-init and what is below it, which waits until
	 * it is in the control groups. */
	bool limits_init;
	/* The program hands keyhole-init no descriptors: it connects to a socket of the launcher's
	 * that the view has (KH_MOUNT_SOCKET), and finds there what others inherit (rendezvous.h).
	 */
	bool connects;
	/* The same, but that the program's standard input becomes keyhole-init's: it is one end of
	 * a socket pair, over which it is given what others inherit, and each connection to the
	 * proxy (uplink.h). */
	bool uplink;
	/* Inside is a kernel of the program's own, to which neither the position in a file of ours
	 * nor a terminal can be handed but by the program: its standard descriptors are one that
	 * the launcher made, and that is the command's (plan.terminal), else /dev/null; what it
	 * complains of goes to its first further one. */
	bool own_kernel;
	/* Fills `out`. False where the program isn't there or is too old: err says how to get it.
	 */
	bool (*prepare)(const struct kh_plan *plan, struct kh_engine_command *out,
			struct kh_err *err);
	/* What it said on standard error when it did not come up: the one clear line, with what to
	 * do. Return: false. */
	bool (*explain)(const char *said, struct kh_err *err);
};

/* The strongest first. Return: NULL behind the last. */
const struct kh_engine *kh_engine_at(size_t i);
/* Return: NULL, and err names those that there are. */
const struct kh_engine *kh_engine_find(const char *name, struct kh_err *err);
extern const struct kh_engine kh_engine_process, kh_engine_process_layered;
extern const struct kh_engine kh_engine_container;
extern const struct kh_engine kh_engine_gvisor;
extern const struct kh_engine kh_engine_podman;
extern const struct kh_engine kh_engine_docker;

#endif
