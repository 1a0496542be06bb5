/*
 * given.c - what the caller gives a sandbox of the host, and a check that it shows nothing
 * forbidden
 */
#include <errno.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/sandbox/workspace.h>

#include "build_internal.h"
#include "git_path.h"
#include "homes.h"
#include "sandbox_internal.h"

/* Folders that hold more than a tool; each is refused by name. */
static const char *const too_much[] = { "/",	"/etc",	 "/root", "/home", "/var",
					"/run", "/proc", "/dev",  "/sys",  "/tmp" };

bool kh_given_plan_read_only(struct kh_view *view, const struct kh_sandbox_spec *spec,
			     struct kh_err *err)
{
	for (size_t i = 0; i < spec->n_read_only; i++) {
		const char *path = spec->read_only[i];
		for (size_t j = 0; j < sizeof(too_much) / sizeof(too_much[0]); j++)
			if (strcmp(path, too_much[j]) == 0)
				return kh_err_set(
					err, KH_ERR_USAGE,
					"--ro %s: contains more than a tool (name a folder "
					"in it)",
					path);
		struct stat st;
		if (stat(path, &st) != 0)
			return kh_err_sys(err, KH_ERR_USAGE, errno, "--ro %s", kh_esc_str(path));
		if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
			return kh_err_set(err, KH_ERR_USAGE, "--ro %s: neither a folder nor a file",
					  kh_esc_str(path));
		/* It would be under the workspace, and count as what is protected there. */
		if (spec->workspace && kh_git_holds(spec->workspace, path))
			return kh_err_set(err, KH_ERR_USAGE,
					  "--ro %s: is in the workspace, where the agent writes "
					  "(leave the option out)",
					  kh_esc_str(path));
		if (!kh_view_bind_held(view, KH_MOUNT_READ, path, path, KH_TREE_AS_IS, err))
			return false;
	}
	return true;
}

bool kh_given_check_forbidden(const struct kh_view *view, const struct kh_sandbox_spec *spec,
			      struct kh_err *err)
{
	return kh_forbidden_check(view, spec->forbidden_paths, spec->n_forbidden, err) &&
	       kh_forbidden_check_own(view, spec, err);
}

bool kh_sandbox_check_folders(const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	struct kh_view view kh_cleanup(kh_view_fini) = { 0 };
	return kh_homes_plan(&view, spec, err) && kh_given_plan_read_only(&view, spec, err) &&
	       (!spec->workspace ||
		(spec->workspace_read_only ? kh_workspace_check(spec->workspace, err)
					   : kh_workspace_may_be(spec->workspace, err)));
}

bool kh_sandbox_check_seen(const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	struct kh_view view kh_cleanup(kh_view_fini) = { 0 };
	if (!kh_root_plan(&view, spec, err) || !kh_homes_plan(&view, spec, err) ||
	    !kh_given_plan_read_only(&view, spec, err) ||
	    (spec->workspace &&
	     !kh_view_bind_again(&view, KH_MOUNT_READ, spec->workspace, spec->workspace,
				 KH_TREE_AS_IS, spec->workspace_held, err)))
		return false;
	return view.failed ? kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory")
			   : kh_given_check_forbidden(&view, spec, err);
}
