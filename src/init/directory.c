/*
 * directory.c - enters the folder that the command starts in
 *
 * An image names it, so it may name what leads out of the sandbox: a link of /proc that the kernel
 * follows to a file of whoever it belongs to (/proc/self/fd/3), and an engine's program has folders
 * of the host open. So every engine starts keyhole-init in the root, and this program enters the
 * folder by itself and through no such link.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init_internal.h"

/* Where the kernel is the engine's own it may lack the call, and nothing of the host is open. */
static int open_folder(const char *path, bool own_kernel)
{
	const struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	if (fd < 0 && errno == ENOSYS && own_kernel)
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd;
}

/* The library's getcwd looks for another name of what the kernel calls unreachable. */
static bool is_reachable(void)
{
	char here[PATH_MAX];
	return syscall(SYS_getcwd, here, sizeof(here)) > 0 && here[0] == '/';
}

bool init_directory_enter(const char *path, bool own_kernel, bool last)
{
	int fd = open_folder(path, own_kernel);
	bool forbidden = (fd < 0 || fchdir(fd) != 0) && errno == EACCES;
	if (forbidden && !last) {
		close(fd);
		return false;
	}
	if (fd < 0 && errno == ELOOP)
		init_die("starting in %s: its links lead in a circle, or through a link of /proc",
			 path);
	if (fd < 0 || forbidden || fchdir(fd) != 0)
		init_die("starting in %s: %s", path, strerror(errno));
	close(fd);
	if (!is_reachable())
		init_die("starting in %s: it is not in the sandbox's root", path);
	return true;
}

/* bubblewrap says where it has started this program. What an engine got of us stays where it is:
 * /proc/1/environ shows the place of the first variables, which are wiped later. */
void init_directory_name(const char *path)
{
	const char *now = getenv("PWD");
	if ((!now || strcmp(now, path) != 0) && setenv("PWD", path, 1) != 0)
		init_die("no memory");
}
