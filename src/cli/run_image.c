/*
 * run_image.c - --image of `keyhole run`: which engine takes what
 *
 * An engine that drives a program with a store of its own (kh_sandbox_has_store) is given the
 * reference as it stands: what it means is that program's matter. Every other one runs a root that
 * lies in a folder.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/cleanup.h>
#include <keyhole/escape.h>
#include <keyhole/sandbox.h>

#include "run_internal.h"

bool kh_run_rootfs(struct kh_run_options *out, const char *text)
{
	struct kh_slice s = kh_slice_str(text);
	out->layer = kh_slice_has_suffix(s, KH_SLICE(":O"));
	if (out->layer)
		s.len -= 2;
	kh_auto_free char *path = kh_slice_dup(s);
	free(out->rootfs);
	out->rootfs = path && *path ? realpath(path, NULL) : NULL;
	if (!out->rootfs)
		kh_cli_complain("--rootfs %s: %s", kh_esc_str(text),
				strerror(path && *path ? errno : ENOENT));
	return out->rootfs != NULL;
}

bool kh_run_image_check(const struct kh_run_options *options)
{
	if (!options->image)
		return true;
	if (options->rootfs) {
		kh_cli_complain("--image and --rootfs: a sandbox has one root (leave one out)");
		return false;
	}
	if (kh_sandbox_has_store(options->engine))
		return true;
	kh_cli_complain("--image %s: engine %s has no store of images", kh_esc_str(options->image),
			kh_esc_str(options->engine));
	return false;
}
