/*
 * image.h - roots out of images: what a reference names, unpacked once and kept
 *
 * A reference is one of
 *
 *   oci:DIR[:TAG]          an OCI image layout, a folder
 *   oci-archive:FILE[:TAG] the same as one tar file
 *   docker-archive:FILE[:NAME:TAG]   what `docker save` and `podman save` write
 *   podman:REF             an image that podman keeps (`podman images`), saved by it
 *   debian[:SUITE]         Debian's essential packages, from the mirrors that apt is set up with
 *
 * with skopeo's words. skopeo and umoci read and unpack it, as the uid that sandboxes have, without
 * a network, and bounded: an image is as hostile as an upstream. What they made is kept under the
 * digest of its manifest and is never written to again: a sandbox sees it below a layer of its own.
 */
#ifndef KEYHOLE_SANDBOX_IMAGE_H
#define KEYHOLE_SANDBOX_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/err.h>
#include <keyhole/sandbox/sandbox.h>
#include <keyhole/base/slice.h>

/* "sha256:" and 64 digits. */
enum { KH_IMAGE_DIGEST_ROOM = 7 + 64 + 1 };

/* What an image says of how it is run. Its user is not in it: a sandbox's is always the same. */
struct kh_image_config {
	char *architecture, *os; /* "amd64", "linux" */
	struct kh_env_var *env;
	size_t n_env;
	char **entrypoint, **command; /* ended by NULL; NULL: it says none */
	char *directory;	      /* absolute, without "..", "." and "//"; NULL: it says none */
};
void kh_image_config_fini(struct kh_image_config *config);
/* The configuration of an image (OCI image specification 1.0, "image configuration"; Docker's is
 * the same). *out is filled whole or not at all. */
bool kh_image_config_parse(struct kh_slice json, struct kh_image_config *out, struct kh_err *err);
/* The digest of the one image that a layout's index.json names. */
bool kh_image_index_parse(struct kh_slice json, char digest[KH_IMAGE_DIGEST_ROOM],
			  struct kh_err *err);
/* The digest of a manifest's configuration. */
bool kh_image_manifest_parse(struct kh_slice json, char digest[KH_IMAGE_DIGEST_ROOM],
			     struct kh_err *err);
/* For which architectures an index has images, "arm64, s390x", as far as there is room; "": it does
 * not say. */
void kh_image_platforms_parse(struct kh_slice json, char *out, size_t room);
/* As the OCI names what this program was built for: "amd64"; "" where it has no name. */
const char *kh_image_own_architecture(void);

struct kh_image_options {
	const char *cache;	   /* a folder; NULL: kh_image_cache */
	uint64_t most_bytes;	   /* of what is unpacked; 0: KH_LIMIT_IMAGE_BYTES */
	bool (*is_over)(void *);   /* asked while it takes its time: stop? NULL: never */
	void (*say)(const char *); /* what takes its time, one line; NULL */
	void *arg;
};

struct kh_image {
	char *root; /* a folder, the lowest layer of a sandbox's root */
	int lock;   /* nobody removes it as long as this is open; -1 */
	struct kh_image_config config;
};
/* Unpacks what is not in the cache yet. */
bool kh_image_open(const char *reference, const struct kh_image_options *options,
		   struct kh_image *out, struct kh_err *err);
void kh_image_fini(struct kh_image *image);
/* Is it written as a reference of these, whatever it names? */
bool kh_image_is_reference(const char *text);
/* The same, with a word of these in front that a store could not mean. */
bool kh_image_has_transport(const char *text);

/* ---- what is kept ---- */

/* $XDG_CACHE_HOME/keyhole, else /var/cache/keyhole for root and ~/.cache/keyhole for others. Heap.
 */
char *kh_image_cache(void);

struct kh_image_kept {
	char *name;	 /* of its folder */
	char *reference; /* by which it was unpacked first */
	int64_t used;	 /* seconds since 1970: when a sandbox last took it */
	bool in_use;
};
/* The one that was used last comes first. Return: NULL with *n 0 where there is none. */
struct kh_image_kept *kh_image_list(const char *cache, size_t *n);
void kh_image_list_free(struct kh_image_kept *list, size_t n);
/* Of one that is in use: false. */
bool kh_image_remove(const char *cache, const char *name, struct kh_err *err);

#endif
