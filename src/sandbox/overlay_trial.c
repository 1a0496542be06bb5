/* overlay_trial.c - can an overlay be mounted over a root on this host? Tried by mounting one */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/file.h>

#include "outer_namespace_internal.h"
#include "sandbox_internal.h"

/* In namespaces that end with this process. What is below is anything that is there. */
static bool try_it(struct kh_err *err)
{
	const struct kh_engine_command none = { .args_fd = -1 };
	if (!kh_outer_namespace_unshare(&none, err) || !kh_child_ends_with_parent())
		return false;
	kh_auto_close int lower =
		(int)syscall(SYS_open_tree, AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	kh_auto_close int memory = kh_outer_namespace_memory(KH_OUTER_NAMESPACE);
	static const char root[] = KH_OUTER_NAMESPACE "/root";
	if (lower < 0 || memory < 0 || mkdir(root, 0755) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a layer over /usr");
	kh_auto_close int layer = kh_overlay_mount(lower, 1 << 20, root, err);
	if (layer < 0)
		return false;
	kh_auto_close int file =
		openat(layer, "keyhole-doctor", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return (file >= 0 && write(file, "x", 1) == 1) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "writing to a layer over /usr");
}

/* As root a sandbox is not root, and neither is who tries. */
static bool become_ordinary(struct kh_err *err)
{
	return geteuid() != 0 ||
	       (setresgid(KH_SANDBOX_HOST_GID, KH_SANDBOX_HOST_GID, KH_SANDBOX_HOST_GID) == 0 &&
		setresuid(KH_SANDBOX_HOST_UID, KH_SANDBOX_HOST_UID, KH_SANDBOX_HOST_UID) == 0) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "becoming uid %d", KH_SANDBOX_HOST_UID);
}

static bool try_as_ordinary(void *arg, struct kh_err *err)
{
	(void)arg;
	return become_ordinary(err) && kh_child_ends_with_parent() && try_it(err);
}

bool kh_sandbox_try_layer(struct kh_err *err)
{
	return kh_child_try(try_as_ordinary, NULL, err);
}
