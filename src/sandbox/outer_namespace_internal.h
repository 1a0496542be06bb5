/* outer_namespace_internal.h - the outer namespaces, in which a nested engine's program runs */
#ifndef KEYHOLE_SANDBOX_OUTER_NAMESPACE_INTERNAL_H
#define KEYHOLE_SANDBOX_OUTER_NAMESPACE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/err.h>

struct kh_engine_command;
struct kh_view;

/* Paths in them: over /run, which no program that is started here needs. */
#define KH_OUTER_NAMESPACE "/run"
#define KH_OUTER_NAMESPACE_BUNDLE \
	KH_OUTER_NAMESPACE "/bundle" /* config.json, and the root in "rootfs" */
#define KH_OUTER_NAMESPACE_ROOT KH_OUTER_NAMESPACE_BUNDLE "/rootfs"
#define KH_OUTER_NAMESPACE_STATE KH_OUTER_NAMESPACE "/state" /* for the program's state */
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

/* Its first step: makes the namespaces, for the calling process. */
bool kh_outer_namespace_unshare(const struct kh_engine_command *command, struct kh_err *err);
/* Mounts a file system in memory at `path`. Return: a descriptor of its root; -1. */
int kh_outer_namespace_memory(const char *path);

/* ---- supervisor.c: the process that waits ---- */

/* What the stand-by process needs; unused descriptors are -1. */
struct kh_supervisor {
	const struct kh_engine_command *command;
	int control; /* the launcher's end, for signals of the engine's terminal */
	int uplink;  /* its end of the uplink (uplink.h) */
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
	int *trees;	      /* detached mounts of host trees, by the view's index; -1 */
	int root;	      /* the folder that becomes the sandbox's root */
	int scratch;	      /* a folder for files that are mounted over others */
	bool layered;	      /* files of the root that are in the way are removed */
	bool open_root;	      /* stays writable, for the engine's program */
	const char *own_file; /* a file that the program puts there itself; NULL */
};
/* Opens the trees of the host as detached mounts. */
bool kh_mount_plan_take(struct kh_mount_plan *plan, const struct kh_view *view, struct kh_err *err);
/* Mounts everything except /proc and /dev, which the engine's program makes. */
bool kh_mount_plan_put(const struct kh_mount_plan *plan, struct kh_err *err);
/* Takes the tree of the KH_MOUNT_LAYER entry, which then belongs to the caller; -1: none. *size: of
 * the layer. */
int kh_mount_plan_layer(struct kh_mount_plan *plan, uint64_t *size);
/* Makes a detached file system in memory. Return: -1 with errno. */
int kh_mount_plan_tmpfs(mode_t mode, uint64_t bytes);

/* ---- review_mount.c ---- */

/* Makes an overlay of two detached trees: `lower`, and the folder "upper" of `layers`, which also
 * has "work". May be called once per outer namespace. Return: the detached overlay; -1 with
 * errno. */
int kh_review_mount_overlay(int lower, int layers, bool read_only);

/* ---- overlay.c ---- */

/* Mounts an overlay on the folder `root`: the detached tree `lower`, and above it a file system in
 * memory of `bytes` (0: the kernel's default). Return: its root; -1 with `err`. */
int kh_overlay_mount(int lower, uint64_t bytes, const char *root, struct kh_err *err);
/* Removes what is at `target` in the file system of `root`, unless a folder is wanted and there is
 * one. Leaves mounts. Return: false with errno. */
bool kh_overlay_clear(int root, const char *target, bool is_dir);

#endif
