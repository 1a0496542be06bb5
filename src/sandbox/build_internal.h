/* build_internal.h - the state of one run of a sandbox, and the parts that build it */
#ifndef KEYHOLE_SANDBOX_BUILD_INTERNAL_H
#define KEYHOLE_SANDBOX_BUILD_INTERNAL_H

#include <sys/ioctl.h>
#include <sys/stat.h>

#include <keyhole/base/limits.h>

#include "changed.h"
#include "publish.h"
#include "runs.h"
#include "sandbox_internal.h"

#define INIT_INSIDE "/run/keyhole-init"
#define CALLS_INSIDE "/run/keyhole-calls"
#define FILTER_INSIDE "/run/keyhole-filter"
#define ENVIRON_INSIDE "/run/keyhole-environ"
#define RENDEZVOUS_INSIDE "/run/keyhole-launcher"

/* A uid that nobody has in the engine's own kernel (--apart). */
#define INIT_HARDENING "65000"

/* The state of a standard descriptor of the caller before the command. */
struct kh_stdio_before {
	int flags;   /* of a pipe that is passed in; -1 */
	char *modes; /* of a terminal that is; NULL */
	struct winsize size;
	struct stat file;
};

/* Everything of one run; freed in one place. */
struct kh_build {
	struct kh_view view;
	struct kh_env env;
	struct kh_run_record record;
	struct kh_workspace_guard guard;
	struct kh_changed changed;
	struct kh_idmap idmap;
	struct kh_sandbox_bounds limits;
	struct kh_publish publish;
	struct kh_engine_command command;
	int control, control_peer;
	int listener;	/* the view's; -1 */
	int uplink[2];	/* our end, and the sandbox's; -1 */
	int socket_dir; /* the folder of the proxy's socket, for the stand-by process; -1 */
	int pty_master, pty_slave;
	int stdio[3];
	bool started; /* the command ran */
	bool lingers; /* and part of the sandbox may still run */
	bool holds_log;
	struct kh_pump pumps[3];
	struct kh_stdio_before before[3];
	char ports[8 * KH_LIMIT_INIT_PORTS]; /* "80,443" */
};

/* The sandbox's uid and gid on the host. */
uid_t kh_build_host_uid(const struct kh_sandbox_spec *spec);
gid_t kh_build_host_gid(const struct kh_sandbox_spec *spec);
/* The folder that the command starts in. */
const char *kh_build_directory(const struct kh_sandbox_spec *spec);

/* ---- stdio.c: what the command gets in the place of our standard descriptors ---- */

/* Is the command given a terminal that is not this session's, and so may be nobody's? */
bool kh_stdio_has_free_terminal(const struct kh_sandbox_spec *spec);
/* Fills b->stdio, and `tty` with the digits of those that become a terminal made inside. Refuses
 * descriptors that a sandbox must not get. */
bool kh_stdio_take(struct kh_build *b, const struct kh_sandbox_spec *spec, char tty[4],
		   struct kh_err *err);
/* Closes them, and restores the caller's. Afterwards only the pumps write there. */
void kh_stdio_close(struct kh_build *b);
/* Waits for the pumps, as long as somebody reads their output, and restores what they wrote to. */
void kh_stdio_end(struct kh_build *b);

/* ---- init_words.c: the command line of keyhole-init ---- */

struct kh_words {
	char **list;
	size_t n;
};
void kh_words_fini(struct kh_words *words);
/* The captured ports, which always include 80 and 443. */
bool kh_build_ports(char *out, size_t room, const struct kh_sandbox_spec *spec, struct kh_err *err);
bool kh_build_words(struct kh_words *out, const struct kh_build *b,
		    const struct kh_sandbox_spec *spec, const struct kh_engine *engine,
		    const char *tty);

/* given.c: --home, --ro, and whether the view shows what the spec forbids. */
bool kh_given_plan_read_only(struct kh_view *view, const struct kh_sandbox_spec *spec,
			     struct kh_err *err);
bool kh_given_check_forbidden(const struct kh_view *view, const struct kh_sandbox_spec *spec,
			      struct kh_err *err);

#endif
