/*
 * run_image.c - --image of `keyhole run`: which engine takes what
 *
 * An engine that drives a program with a store of its own (kh_sandbox_has_store) is given the
 * reference as it stands: what it means is that program's matter. Every other one runs a root that
 * lies in a folder.
 */
#include <keyhole/escape.h>
#include <keyhole/sandbox.h>

#include "run_internal.h"

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
