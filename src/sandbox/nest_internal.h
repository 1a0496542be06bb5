/* nest_internal.h - namespaces of the launcher's own, around an engine's program */
#ifndef KEYHOLE_SANDBOX_NEST_INTERNAL_H
#define KEYHOLE_SANDBOX_NEST_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/err.h>

struct kh_engine_command;
struct kh_view;

/* Where things lie in them: over /run, which nothing that is started here needs. */
#define KH_NEST "/run"
#define KH_NEST_BUNDLE KH_NEST "/bundle" /* config.json, and the root in "rootfs" */
#define KH_NEST_ROOT KH_NEST_BUNDLE "/rootfs"
#define KH_NEST_STATE KH_NEST "/state"	 /* for what the program notes */
#define KH_NEST_TERMINALS KH_NEST "/pts" /* a devpts, where the command wants one */

/* ---- nest.c ---- */

/*
 * In the child that will be the engine's program, when it is who it will be: new user, mount and
 * process namespaces, the view laid in them, and the bundle's configuration. Returns in a process
 * below, PID 1 of the new namespace, which is to exec; the one that called waits for it and ends as
 * it ends. Every process of both ends with either. `control` is the launcher's end, where the
 * process that waits is to tell keyhole-init what its terminal says; -1.
 */
bool kh_nest_enter(const struct kh_engine_command *command, const struct kh_view *view, int control,
		   struct kh_err *err);

/* The first step of it: the namespaces, in the calling process. */
bool kh_nest_unshare(const struct kh_engine_command *command, struct kh_err *err);
/* A new file system in memory at `path`. Return: its root, -1. */
int kh_nest_memory(const char *path);

/* ---- lay.c ---- */

struct kh_lay {
	const struct kh_view *view;
	int *trees;	/* what of the host is mounted, by the view's index; -1 */
	int root;	/* the folder that becomes the sandbox's root */
	int scratch;	/* one for files that are mounted over others */
	bool layered;	/* what lies in the way is taken away, as far as it is the root's own */
	bool open_root; /* stays writable, for the engine's program */
	const char *own_file; /* that the program puts there by itself; NULL */
};
/* Takes hold of the trees of the host. */
bool kh_lay_take(struct kh_lay *lay, const struct kh_view *view, struct kh_err *err);
/* Puts all in its place, but /proc and /dev, which the engine's program makes. */
bool kh_lay_put(const struct kh_lay *lay, struct kh_err *err);
/* Its tree of that kind, which becomes the caller's; -1: there is none. *size: its mount's. */
int kh_lay_layer(struct kh_lay *lay, uint64_t *size);
/* A new file system in memory, mounted nowhere yet. Return: -1 with errno. */
int kh_lay_tmpfs(mode_t mode, uint64_t bytes);

/* ---- layer.c ---- */

/* Mounts an overlay on the folder `root`: the tree `lower` (which is mounted nowhere yet), and
 * above it memory of so many bytes (0: what the kernel says). Return: its root; -1. */
int kh_layer_mount(int lower, uint64_t bytes, const char *root, struct kh_err *err);
/* Takes away what lies at `target` in the file system of `root`, unless it is what is wanted (a
 * folder); what was mounted stays. Return: false with errno. */
bool kh_layer_clear(int root, const char *target, bool is_dir);

#endif
