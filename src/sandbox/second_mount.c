/*
 * second_mount.c - refuses folders that the agent could write to at a second path of the host
 *
 * What is protected in a workspace is known by its path: git's configuration names a folder of
 * hooks, a link names a file, another run has its workspace there. If the folder, one above it or a
 * part of it is mounted at a second place, the same names may be written with that path. So such a
 * folder is refused. Some systems show every folder a second time, read-only (ostree's /sysroot,
 * /mnt/wslg/distro of WSL 2); nobody works there, and such a mount does not count.
 */
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/log.h>
#include <keyhole/base/mounts.h>

#include "sandbox_internal.h"
#include "second_mount.h"

struct asking {
	const char *option, *path;
	const char *instead; /* NULL: warn of it */
	struct kh_err *err;
};

static bool cant_tell(const struct asking *asking)
{
	return kh_err_set(asking->err, KH_ERR_SYSTEM,
			  "%s %s: can't tell at which other paths of the host it is mounted",
			  asking->option, kh_esc_str(asking->path));
}

static bool say(const struct asking *asking, const char *name)
{
	if (asking->instead)
		return kh_err_set(asking->err, KH_ERR_USAGE,
				  "%s %s: it, or a part of it, is mounted at a second path, %s. "
				  "What is protected by one path could be reached by the other "
				  "(%s, or unmount one of the two, or make one read-only)",
				  asking->option, kh_esc_str(asking->path), kh_esc_str(name),
				  asking->instead);
	kh_log_warn("%s, or a part of it, is mounted at a second path, %s: the review does not "
		    "mark what git on the host or a link names by that path",
		    kh_esc_str(asking->path), kh_esc_str(name));
	return true;
}

static bool each_name(void *arg, const char *name, uint64_t id)
{
	const struct asking *asking = arg;
	kh_auto_close int fd = -1;

	if (!kh_mounts_hold(name, id, &fd))
		return cant_tell(asking);
	return fd < 0 || say(asking, name);
}

static bool check(struct asking *asking, const int *held)
{
	struct kh_mounts mounts kh_cleanup(kh_mounts_fini) = { NULL, 0 };
	uint64_t id;
	kh_auto_close int fd = kh_file_hold_again(asking->path, held, asking->err);

	if (fd < 0)
		return kh_err_wrap(asking->err, "%s", asking->option);
	if (!kh_mounts_read(&mounts, asking->err))
		return false;
	if (!kh_mounts_id(fd, &id))
		return cant_tell(asking);
	return kh_mounts_each_second_name(&mounts, id, asking->path, each_name, asking) ||
	       (asking->err->code == KH_ERR_NONE && cant_tell(asking));
}

/* Of one that the agent can't write to, only what is masked counts; of a review, also what is
 * marked. */
static bool check_workspace(const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	struct asking asking = { "--workspace", spec->workspace, NULL, err };

	if (!spec->workspace_read_only && !spec->review)
		asking.instead = "use --workspace DIR:review or DIR:ro";
	else if (spec->mask_env_files)
		asking.instead = "leave out --mask-env";
	else if (spec->workspace_read_only)
		return true;
	return check(&asking, spec->workspace_held);
}

bool kh_second_mount_check(const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	struct asking home = { "--home", spec->home, "name another folder", err };

	return (!spec->workspace || check_workspace(spec, err)) &&
	       (!spec->home || check(&home, spec->home_held));
}
