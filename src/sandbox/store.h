/*
 * store.h - sandboxes from images in the store of a container program (docker, podman)
 *
 * Docker's daemon (and podman, of an image) makes the container as the one who started the program,
 * so nothing of ours is around it:
 *
 *   - the view is handed over in two ways: trees of the host and places in memory as mounts, all
 *     else as one tar that is copied into the container before it starts
 *   - keyhole-init inherits nothing. It connects to the launcher at a socket that is mounted, and
 *     is given the command's descriptors there (rendezvous.h).
 *   - it starts as uid 0 of the container with what it needs to bind its ports, and becomes the
 *     sandbox's uid on the host before anything else
 * - keyhole-init checks what the program can't guarantee: that what was mounted by its name is what
 * the view holds (--expect)
 *
 * The container is removed by a small process of ours that waits for the launcher's end.
 */
#ifndef KEYHOLE_SANDBOX_STORE_H
#define KEYHOLE_SANDBOX_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/sandbox/sandbox.h>

#include "engine.h"

struct kh_mount;
struct kh_view;

/* The configuration of an image; owned. */
struct kh_store_image {
	struct kh_env_var *env;
	size_t n_env;
	char *directory;	      /* NULL: none */
	char **entrypoint, **command; /* ended by NULL; NULL: none */
	/* The same: the places of its volumes, absolute, without "..", "." and "//". */
	char **volumes;
};
/* Asks the program about an image. Return: false with `err`: it has no such image, or one for
 * another architecture. */
bool kh_store_inspect(const char *program, const char *reference, uint64_t most_ms,
		      struct kh_store_image *out, struct kh_err *err);
/* The command line to run: as in podman, the caller's command replaces the image's, after the
 * entrypoint. The array is the caller's to free, its strings are not. Return: NULL with `err`. */
char **kh_store_argv(const struct kh_store_image *image, const struct kh_sandbox_spec *spec,
		     struct kh_err *err);
void kh_store_image_fini(struct kh_store_image *image);

/* Fills `out` for an engine whose program is `program`. */
bool kh_store_prepare(const char *program, const struct kh_plan *plan,
		      struct kh_engine_command *out, struct kh_err *err);

/* ---- store_tool.c ---- */

/* Runs `argv` (argv[0] is the program's path) with `input` (-1: none) as standard input and waits,
 * at most `most_ms`, or until a terminating signal is pending. `out` (may be NULL) gets its
 * standard output. Return: false: `err` has its error message. */
bool kh_store_tool(char *const *argv, int input, uint64_t most_ms, struct kh_buf *out,
		   struct kh_err *err);

/* ---- store_tar.c ---- */

/* Writes folders, files and links of the view to a tar (ustar) in memory. Return: its descriptor;
 * -1 with `err`. */
int kh_store_tar(const struct kh_view *view, struct kh_err *err);
/* Is it in the tar? Docker mounts some files of its own over /etc, so ours are mounted as well. */
bool kh_store_in_tar(const struct kh_mount *m);

#endif
