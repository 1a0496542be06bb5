/*
 * image.h - root file systems from images: unpacked once and cached
 *
 * A reference is one of
 *
 *   oci:DIR[:TAG]          an OCI image layout, a folder
 *   oci-archive:FILE[:TAG] the same as one tar file
 *   docker-archive:FILE[:NAME:TAG]   what `docker save` and `podman save` write
 *   podman:REF             an image that podman keeps (`podman images`), saved by it
 *   debian[:SUITE]         Debian's essential packages, from the mirrors that apt is set up with
 *
 * in skopeo's syntax. skopeo and umoci read and unpack it, as the sandboxes' uid, without a
 * network, and bounded, since an image is as hostile as an upstream. The result is cached under the
 * digest of its manifest and never written to again: a sandbox gets it as the lower layer of an
 * overlay.
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

/* The configuration of an image, as far as keyhole uses it. It has no user, since a sandbox always
 * has the same one. */
struct kh_image_config {
	char *architecture, *os; /* "amd64", "linux" */
	struct kh_env_var *env;
	size_t n_env;
	char **entrypoint, **command; /* NULL-terminated; NULL: none */
	char *directory; /* working directory; absolute, without "..", "." and "//"; NULL: none */
};
void kh_image_config_fini(struct kh_image_config *config);
/* Parses the configuration of an image (OCI image specification 1.0, "image configuration";
 * Docker's has the same form). On error *out needs no fini. */
bool kh_image_config_parse(struct kh_slice json, struct kh_image_config *out, struct kh_err *err);
/* Cleans an absolute path that an image names, in place: one "/" between names, no "." and no "..";
 * what would be above the root is the root. The links of the root may still lead anywhere in it. */
void kh_image_config_clean(char *path);
/* Parses index.json of a layout: the digest of its only image. */
bool kh_image_index_parse(struct kh_slice json, char digest[KH_IMAGE_DIGEST_ROOM],
			  struct kh_err *err);
/* Parses a manifest: the digest of its configuration. */
bool kh_image_manifest_parse(struct kh_slice json, char digest[KH_IMAGE_DIGEST_ROOM],
			     struct kh_err *err);
/* The architectures of an index's images, "arm64, s390x", as far as there is room; "": not
 * given. */
void kh_image_platforms_parse(struct kh_slice json, char *out, size_t room);
/* The OCI name of the architecture that this program was built for: "amd64"; "": it has none. */
const char *kh_image_own_architecture(void);

struct kh_image_options {
	const char *cache;	   /* a folder; NULL: kh_image_cache */
	uint64_t most_bytes;	   /* of the unpacked files; 0: KH_LIMIT_IMAGE_BYTES */
	bool (*is_over)(void *);   /* polled during long steps: stop? NULL: never */
	void (*say)(const char *); /* reports a long step, one line; NULL: nothing is reported */
	void *arg;
};

struct kh_image {
	char *root; /* heap; a folder, the lowest layer of a sandbox's root */
	int lock;   /* the image is not removed while this descriptor is open; -1 */
	struct kh_image_config config;
};
/* Opens an image; unpacks it first if it is not in the cache. Return: false with `err`, and nothing
 * to free. */
bool kh_image_open(const char *reference, const struct kh_image_options *options,
		   struct kh_image *out, struct kh_err *err);
void kh_image_fini(struct kh_image *image);
/* Does the text have the syntax of one of these references? */
bool kh_image_is_reference(const char *text);
/* The same, with a prefix that is not ambiguous with a name in an engine's own store. */
bool kh_image_has_transport(const char *text);

/* ---- the cache ---- */

/* $XDG_CACHE_HOME/keyhole, else /var/cache/keyhole for root and ~/.cache/keyhole for others. Heap;
 * NULL with `err`: no memory, or (KH_ERR_USAGE) the user has no home. */
char *kh_image_cache(struct kh_err *err);

struct kh_image_kept {
	char *name;	 /* of its folder */
	char *reference; /* with which it was first unpacked */
	int64_t used;	 /* seconds since 1970: when a sandbox last took it */
	bool in_use;
};
/* The cached images, the most recently used first. Return: NULL with *n 0 if there are none. */
struct kh_image_kept *kh_image_list(const char *cache, size_t *n);
void kh_image_list_free(struct kh_image_kept *list, size_t n);
/* Return: false with `err`, for example if it is in use. */
bool kh_image_remove(const char *cache, const char *name, struct kh_err *err);

#endif
