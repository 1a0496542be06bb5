/*
 * mask.c - what a sandbox should not get with a workspace without a word: files of secrets (.env),
 * and sockets of programs that run on the host
 */
#include <string.h>

#include <keyhole/escape.h>
#include <keyhole/log.h>
#include <keyhole/slice.h>

#include "sandbox_internal.h"

/* An empty file over it. */
static bool mask(struct kh_view *view, const char *path, struct kh_err *err)
{
	if (kh_view_has(view, path))
		return true;
	if (!kh_view_file(view, path, 0444, KH_SLICE(""), err))
		return false;
	if (!view->failed)
		view->list[view->n - 1].kind = KH_MOUNT_EMPTY;
	return true;
}

/* A link is masked where it leads, if that is in the workspace; else it leads nowhere. */
static bool mask_secret(struct kh_view *view, const char *root, const char *path,
			struct kh_err *err)
{
	kh_auto_free char *resolved = realpath(path, NULL);
	size_t len = strlen(root);
	if (!resolved || strncmp(resolved, root, len) != 0 || resolved[len] != '/')
		return true;
	return mask(view, resolved, err);
}

static void warn(const char *root, const struct kh_paths *secrets)
{
	enum { NAMED = 3 };
	struct kh_buf names kh_cleanup(kh_buf_fini);
	kh_buf_init(&names, 1024);
	for (size_t i = 0; i < secrets->n && i < NAMED; i++)
		(void)kh_buf_printf(&names, "%s%s", i ? ", " : "",
				    kh_esc_str(secrets->list[i] + strlen(root) + 1));
	const char *text = kh_buf_cstr(&names);
	kh_log_warn("the sandbox can read %s%s in the workspace (--mask-env shows them empty)",
		    text ? text : ".env files", secrets->n > NAMED ? " and more" : "");
}

bool kh_mask_lay(struct kh_view *view, const struct kh_sandbox_spec *spec,
		 const struct kh_survey *survey, struct kh_err *err)
{
	const struct kh_paths *secrets = &survey->secrets, *sockets = &survey->sockets;
	for (size_t i = 0; spec->mask_env_files && i < secrets->n; i++)
		if (!mask_secret(view, spec->workspace, secrets->list[i], err))
			return false;
	if (secrets->n > 0 && !spec->mask_env_files)
		warn(spec->workspace, secrets);
	for (size_t i = 0; i < sockets->n; i++) {
		kh_log_warn("%s is a socket of the host; the sandbox sees an empty file in its "
			    "place",
			    kh_esc_str(sockets->list[i]));
		if (!mask(view, sockets->list[i], err))
			return false;
	}
	return true;
}
