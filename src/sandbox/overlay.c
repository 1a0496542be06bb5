/*
 * overlay.c - a writable overlay over a root, discarded at the end
 *
 * An overlay file system: the lower layer is the root on the host, which never changes; the upper
 * layer is a file system in memory, whose size is the bound. Both are mounted in the launcher's own
 * mount namespace (outer_namespace.c), so the changes are discarded with the last process, however
 * that ended. It is mounted with userxattr: so it ignores redirects that a file of the root may
 * contain.
 *
 * The root is not trusted. The sandbox's own files are put over it, and never through a symbolic
 * link of the root: what is in the way is removed, in the upper layer.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <keyhole/base/file.h>

#include "outer_namespace_internal.h"
#include "sandbox_internal.h"

#define LOWER KH_OUTER_NAMESPACE "/lower"
#define LAYER KH_OUTER_NAMESPACE "/layer"

static bool place(int tree, const char *path)
{
	return mkdir(path, 0755) == 0 && chmod(path, 0755) == 0 &&
	       syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

int kh_overlay_mount(int lower, uint64_t bytes, const char *root, struct kh_err *err)
{
	static const char options[] =
		"lowerdir=" LOWER ",upperdir=" LAYER "/upper,workdir=" LAYER "/work,userxattr";
	kh_auto_close int memory = kh_mount_plan_tmpfs(0755, bytes);
	if (memory < 0 || !place(lower, LOWER) || !place(memory, LAYER) ||
	    mkdir(LAYER "/upper", 0755) != 0 || chmod(LAYER "/upper", 0755) != 0 ||
	    mkdir(LAYER "/work", 0700) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a layer over the root"), -1;
	if (mount("overlay", root, "overlay", MS_NOSUID | MS_NODEV, options) != 0) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno,
			   "a layer over the root: this host lets us mount no overlay file system "
			   "(a kernel of 5.11 or newer with overlayfs is needed: `modprobe "
			   "overlay` as root; `keyhole doctor` tries it)");
		return -1;
	}
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "a layer over the root");
	return fd;
}

bool kh_overlay_clear(int root, const char *target, bool is_dir)
{
	const char *slash = strrchr(target, '/');
	const char *name = slash ? slash + 1 : target;
	kh_auto_free char *parent = slash ? strndup(target, (size_t)(slash - target)) : NULL;
	if (!parent || !*name)
		return parent != NULL;
	kh_auto_close int fd =
		kh_file_resolve(root, parent + strspn(parent, "/"), O_PATH | O_DIRECTORY,
				RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	/* In something that was mounted there: the host's, or empty and ours. */
	if (fd < 0)
		return errno == EXDEV || errno == ENOENT;
	struct statx st;
	if (statx(fd, name, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) != 0)
		return errno == ENOENT;
	if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return true;
	bool folder = S_ISDIR(st.stx_mode);
	return (folder && is_dir) || unlinkat(fd, name, folder ? AT_REMOVEDIR : 0) == 0;
}
