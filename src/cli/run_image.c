/*
 * run_image.c - `keyhole run --image`: which engine supports which kind of image
 *
 * An engine whose program has its own image store (kh_sandbox_has_store) gets the reference
 * unchanged; that program interprets it. Every other engine runs a root in a folder.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/writable.h>
#include <keyhole/sandbox/sandbox.h>

#include "run_internal.h"

bool kh_run_rootfs(struct kh_run_options *out, const char *text)
{
	struct kh_slice s = kh_slice_str(text);
	out->layer = kh_slice_has_suffix(s, KH_SLICE(":O"));
	if (out->layer)
		s.len -= 2;
	kh_auto_free char *path = kh_slice_dup(s);
	if (path && *path)
		return kh_run_resolve(out, "--rootfs", path, &out->rootfs, NULL);
	kh_cli_complain("--rootfs %s: %s", kh_esc_str(text), strerror(ENOENT));
	return false;
}

bool kh_run_image_check(const struct kh_run_options *options)
{
	if (options->image && options->rootfs) {
		kh_cli_complain("--image and --rootfs: a sandbox has one root (leave one out)");
		return false;
	}
	if (options->entrypoint && !options->image) {
		kh_cli_complain("--entrypoint: is of an image (name one with --image)");
		return false;
	}
	return true;
}

static void say(const char *line)
{
	kh_cli_complain("%s", line);
}

static char *const nothing[] = { NULL };

static char *const *or_nothing(char *const *words)
{
	return words ? words : nothing;
}

static size_t count(char *const *words)
{
	size_t n = 0;
	while (words[n])
		n++;
	return n;
}

static void copy(char **to, char *const *words)
{
	while (*words)
		*to++ = *words++;
}

/* As podman has it: the command takes the place of the image's, behind the image's entry point; an
 * entry point of the caller's takes the place of both. */
static bool compose(const struct kh_run_options *options, struct kh_run_image *out,
		    struct kh_err *err)
{
	const struct kh_image_config *image = &out->image.config;
	char *own[] = { (char *)(uintptr_t)options->entrypoint, NULL };
	char *const *front = or_nothing(image->entrypoint), *const *back = options->command;
	if (options->entrypoint)
		front = options->entrypoint[0] ? own : nothing;
	else if (!*back)
		back = or_nothing(image->command);
	size_t n = count(front), m = count(back);
	if (n + m == 0)
		return kh_err_set(err, KH_ERR_USAGE,
				  "--image %s: says no command of its own (give one after --)",
				  kh_esc_str(options->image));
	out->argv = calloc(n + m + 1, sizeof(*out->argv));
	if (!out->argv)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	copy(out->argv, front);
	copy(out->argv + n, back);
	return true;
}

/* An agent that may write there, or could in an earlier run, would choose the root. */
static bool check_cache(struct kh_err *err)
{
	struct kh_err homeless = KH_ERR_INIT;
	kh_auto_free char *cache = kh_image_cache(&homeless);
	return !cache || kh_writable_check(cache, err) || kh_err_wrap(err, "--image: the cache");
}

bool kh_run_image_open(const struct kh_run_options *options, bool (*is_over)(void *),
		       struct kh_run_image *out, struct kh_err *err)
{
	*out = (struct kh_run_image){ .image = { .lock = -1 } };
	if (!options->image || kh_sandbox_has_store(options->engine))
		return true;
	const struct kh_image_options how = { .is_over = is_over,
					      .say = options->quiet ? NULL : say };
	/* Its own store is what a name means to podman. */
	bool own =
		strcmp(options->engine, "podman") == 0 && !kh_image_has_transport(options->image);
	kh_auto_free char *stored = kh_strf("podman:%s", options->image);
	if (!stored)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	if (!check_cache(err))
		return false;
	out->is_open = kh_image_open(own ? stored : options->image, &how, &out->image, err);
	return out->is_open && compose(options, out, err);
}

void kh_run_image_fini(struct kh_run_image *image)
{
	if (image->is_open)
		kh_image_fini(&image->image);
	free(image->argv);
	*image = (struct kh_run_image){ .image = { .lock = -1 } };
}
