/*
 * image_podman.c - images from podman's store
 *
 * For "podman:REF", podman tells the image's digest. If it is not in the cache yet, `podman save`
 * writes it to a file, as the user who started keyhole, since the store belongs to that user. After
 * that it is an archive like any other, which locked-in tools read and unpack. Nothing is pulled.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/slice.h>

#include "image_internal.h"

static const char prefix[] = "podman:";

bool kh_image_podman_is_reference(const char *reference)
{
	return strncmp(reference, prefix, strlen(prefix)) == 0;
}

static bool explain(const char *reference, char *said, struct kh_err *err)
{
	const char *name = reference + strlen(prefix), *line = kh_tool_last_words(said);
	if (strstr(line, "not known") || strstr(line, "o such image") ||
	    strstr(line, "failed to find image"))
		return kh_err_set(
			err, KH_ERR_USAGE,
			"--image %s: podman has no such image (get it first: `podman pull "
			"%s`)",
			kh_esc_str(name), kh_esc_str(name));
	return kh_err_set(err, KH_ERR_USAGE, "--image %s: podman: %s", kh_esc_str(name),
			  *line ? line : "ended without a word");
}

/* What it says last is the id: before it there may be warnings. */
bool kh_image_podman_id(const char *reference, const char *folder,
			const struct kh_image_options *options, char id[KH_PODMAN_ID_ROOM],
			struct kh_err *err)
{
	const char *const argv[] = { "podman",
				     "image",
				     "inspect",
				     "--format",
				     "{{.Id}}",
				     "--",
				     reference + strlen(prefix),
				     NULL };
	struct kh_tool tool = {
		.argv = argv, .folder = folder, .watched = folder, .options = options
	};
	char said[KH_TOOL_SAID_BYTES];
	bool failed = false;
	if (!kh_tool_need("podman", err))
		return false;
	if (!kh_tool_run(&tool, said, &failed, err))
		return failed && explain(reference, said, err);
	const char *line = kh_tool_last_words(said);
	if (strlen(line) != KH_PODMAN_ID_ROOM - 1 || !kh_hex_is_valid(kh_slice_str(line)))
		return kh_err_set(err, KH_ERR_SYSTEM, "--image: podman said no id: %s", line);
	memcpy(id, line, KH_PODMAN_ID_ROOM);
	return true;
}

bool kh_image_podman_save(const char *reference, const char *id, const char *file,
			  const char *folder, const struct kh_image_options *options,
			  struct kh_err *err)
{
	const char *const argv[] = { "podman",	 "save", "--quiet", "--format", "oci-archive",
				     "--output", file,	 "--",	    id,		NULL };
	struct kh_tool tool = {
		.argv = argv, .folder = folder, .watched = folder, .options = options
	};
	char said[KH_TOOL_SAID_BYTES];
	bool failed = false;
	if (!kh_tool_run(&tool, said, &failed, err))
		return failed && explain(reference, said, err);
	/* The uid that unpacks it is not ours. */
	return chmod(file, 0644) == 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", file);
}
