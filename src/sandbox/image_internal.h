/* image_internal.h - how an image comes into the cache
 *
 *   reference ──▶ key ──▶ refs/KEY: a name ──▶ images/NAME: rootfs, config.json, reference
 *        │                                          ▲ rename, when all is there
 *        └─▶ tmp/X/image: a tool reads and unpacks ─┘
 */
#ifndef KEYHOLE_SANDBOX_IMAGE_INTERNAL_H
#define KEYHOLE_SANDBOX_IMAGE_INTERNAL_H

#include <keyhole/sandbox/image.h>

#include "sandbox_internal.h"

/* ---- image_tool.c: a program that reads what somebody else made ---- */

enum { KH_TOOL_SAID_BYTES = 16 * 1024 };

struct kh_tool {
	const char *const *argv; /* the program by its name; others in it by their whole path */
	/*
	 * True: no network, no new privileges; if root started keyhole, in a mount namespace and as
	 * the sandboxes' uid (`idmap`). False: as the current user, with our environment
	 * (kh_program_environment).
	 */
	bool locked_in;
	const struct kh_idmap *idmap; /* root and locked_in */
	const char *
		folder; /* where it may write, as it sees it: its home, and for what is temporary */
	const char *watched; /* the same as we see it */
	const struct kh_image_options *options;
};
/* Runs the tool and waits for it. `said`: the end of its output. Return: true: it succeeded. False:
 * with *failed, the tool itself failed, and `said` has its message; else `err` says why. */
bool kh_tool_run(const struct kh_tool *tool, char said[KH_TOOL_SAID_BYTES], bool *failed,
		 struct kh_err *err);
/* Is the program installed? Return: false: err says which package has it. */
bool kh_tool_need(const char *program, struct kh_err *err);
/* The last line of its output, cleaned up, in `said` itself. */
const char *kh_tool_last_words(char said[KH_TOOL_SAID_BYTES]);

/* ---- image_cache.c ---- */

enum { KH_IMAGE_NAME_ROOM = 128, KH_IMAGE_KEY_ROOM = 65 };

/* Makes absent folders, and removes what killed launchers left. */
bool kh_image_cache_open(const char *cache, struct kh_err *err);
/* Gets the name of the image for this key. Return: false: unknown. */
bool kh_image_cache_find(const char *cache, const char *key, char name[KH_IMAGE_NAME_ROOM]);
bool kh_image_cache_note(const char *cache, const char *key, const char *name, struct kh_err *err);
bool kh_image_cache_has(const char *cache, const char *name);
/* Opens a cached image. Return: false: with err->code KH_ERR_NONE, it is not in the cache. */
bool kh_image_cache_take(const char *cache, const char *name, struct kh_image *out,
			 struct kh_err *err);
/* Takes the lock for making images, one at a time. Return: a descriptor, whose close releases it;
 * -1. */
int kh_image_cache_lock(const char *cache, const struct kh_image_options *options,
			struct kh_err *err);

/* A folder in which an image is made. */
struct kh_making {
	char *path;  /* tmp/X, ours */
	char *image; /* in it: becomes images/NAME; owned by the tools' uid while they work */
	int lock;
};
bool kh_making_begin(struct kh_making *making, const char *cache, struct kh_err *err);
/* Writes config.json and the reference, and puts it in its place. */
bool kh_making_finish(struct kh_making *making, const char *cache, const char *name,
		      const char *reference, struct kh_slice config, struct kh_err *err);
/* Removes what is left of it. */
void kh_making_end(struct kh_making *making);
/* A folder and all in it; follows no link. */
bool kh_image_remove_tree(const char *path);

/* ---- image_lockin.c: what a tool is given, and where it sees it ---- */

struct kh_image_lockin {
	struct kh_view view;
	struct kh_idmap idmap;
	bool idmapped;
	const char *source, *folder; /* as the tool sees them */
};
/* The tool may read `source` and write to the image's folder. */
bool kh_image_lockin_open(struct kh_image_lockin *lockin, const char *source,
			  const struct kh_making *making, struct kh_err *err);
void kh_image_lockin_fini(struct kh_image_lockin *lockin);
/* Runs a tool in it. Return: as kh_tool_run. */
bool kh_image_lockin_run(const struct kh_image_lockin *lockin, const char *const *argv,
			 const struct kh_making *making, const struct kh_image_options *options,
			 char said[KH_TOOL_SAID_BYTES], bool *failed, struct kh_err *err);

/* ---- image_podman.c: "podman:REF" ---- */

enum { KH_PODMAN_ID_ROOM = 64 + 1 };

bool kh_image_podman_is_reference(const char *reference);
/* The id of podman's image. `folder`: for temporary files of the tool. */
bool kh_image_podman_id(const char *reference, const char *folder,
			const struct kh_image_options *options, char id[KH_PODMAN_ID_ROOM],
			struct kh_err *err);
/* Writes that image to a file, as oci-archive. */
bool kh_image_podman_save(const char *reference, const char *id, const char *file,
			  const char *folder, const struct kh_image_options *options,
			  struct kh_err *err);

/* ---- debian.c ---- */

/* "debian", "debian:SUITE". */
bool kh_debian_is_reference(const char *reference);
/* The name of its folder in the cache. */
bool kh_debian_name(const char *reference, char name[KH_IMAGE_NAME_ROOM], struct kh_err *err);
/* Makes "rootfs" in the folder of the image. */
bool kh_debian_make(const char *reference, const struct kh_making *making,
		    const struct kh_image_options *options, struct kh_err *err);

#endif
