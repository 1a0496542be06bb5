/* outer_namespace_internal.h - the outer namespaces, in which a nested engine's program runs */
#ifndef KEYHOLE_SANDBOX_OUTER_NAMESPACE_INTERNAL_H
#define KEYHOLE_SANDBOX_OUTER_NAMESPACE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/err.h>

struct kh_engine_command;
struct kh_view;

/* Where things lie in them: over /run, which nothing that is started here needs. */
#define KH_OUTER_NAMESPACE "/run"
#define KH_OUTER_NAMESPACE_BUNDLE \
	KH_OUTER_NAMESPACE "/bundle" /* config.json, and the root in "rootfs" */
#define KH_OUTER_NAMESPACE_ROOT KH_OUTER_NAMESPACE_BUNDLE "/rootfs"
#define KH_OUTER_NAMESPACE_STATE KH_OUTER_NAMESPACE "/state" /* for what the program notes */
#define KH_OUTER_NAMESPACE_TERMINALS \
	KH_OUTER_NAMESPACE "/pts" /* a devpts, where the command wants one */

/* ---- outer_namespace.c ---- */

/*
 * In the child that will be the engine's program, after it changed its identity: makes new user,
 * mount and process namespaces, mounts the view in them, and writes the bundle's configuration. It
 * returns in a child process, PID 1 of the new namespace, which then executes the program. The
 * calling process waits for that and exits with its status. If either ends, so does everything in
 * the namespaces.
 */
struct kh_supervisor;
bool kh_outer_namespace_enter(const struct kh_engine_command *command, const struct kh_view *view,
			      const struct kh_supervisor *supervisor, struct kh_err *err);

/* The first step of it: the namespaces, in the calling process. */
bool kh_outer_namespace_unshare(const struct kh_engine_command *command, struct kh_err *err);
/* A new file system in memory at `path`. Return: its root, -1. */
int kh_outer_namespace_memory(const char *path);

/* ---- supervisor.c: the process that waits ---- */

/* What it has to do besides; each descriptor is -1 where there is nothing of that. */
struct kh_supervisor {
	const struct kh_engine_command *command;
	int control; /* the launcher's end: what its terminal says is told there */
	int uplink;  /* its end of it (uplink.h) */
	int folder;  /* of the proxy's socket */
	/* Where the program has a terminal of which this is the other end: the sandbox's end of the
	 * uplink, which is brought when the mark has come, and what the program complains to. */
	int master, donated, complaints, program;
};
/* Blocks the signals that it will pass on, so that none is lost before it runs. */
void kh_supervisor_prepare(void);
/* Closes all other descriptors; exits with the program's status. */
_Noreturn void kh_supervisor_run(pid_t program, const struct kh_supervisor *given);

/* ---- mount_plan.c ---- */

struct kh_mount_plan {
	const struct kh_view *view;
	int *trees;	/* what of the host is mounted, by the view's index; -1 */
	int root;	/* the folder that becomes the sandbox's root */
	int scratch;	/* one for files that are mounted over others */
	bool layered;	/* what lies in the way is taken away, as far as it is the root's own */
	bool open_root; /* stays writable, for the engine's program */
	const char *own_file; /* that the program puts there by itself; NULL */
};
/* Takes hold of the trees of the host. */
bool kh_mount_plan_take(struct kh_mount_plan *lay, const struct kh_view *view, struct kh_err *err);
/* Puts all in its place, but /proc and /dev, which the engine's program makes. */
bool kh_mount_plan_put(const struct kh_mount_plan *lay, struct kh_err *err);
/* Its tree of that kind, which becomes the caller's; -1: there is none. *size: its mount's. */
int kh_mount_plan_layer(struct kh_mount_plan *lay, uint64_t *size);
/* A new file system in memory, mounted nowhere yet. Return: -1 with errno. */
int kh_mount_plan_tmpfs(mode_t mode, uint64_t bytes);

/* ---- review_mount.c ---- */

/* An overlay of two trees that are mounted nowhere yet: below, `lower`; above, the folder "upper"
 * of `layers`, which holds "work" as well. Once in an outer namespace. Return: it, mounted nowhere;
 * -1 with errno. */
int kh_review_mount_overlay(int lower, int layers, bool read_only);

/* ---- overlay.c ---- */

/* Mounts an overlay on the folder `root`: the tree `lower` (which is mounted nowhere yet), and
 * above it memory of so many bytes (0: what the kernel says). Return: its root; -1. */
int kh_overlay_mount(int lower, uint64_t bytes, const char *root, struct kh_err *err);
/* Takes away what lies at `target` in the file system of `root`, unless it is what is wanted (a
 * folder); what was mounted stays. Return: false with errno. */
bool kh_overlay_clear(int root, const char *target, bool is_dir);

#endif
