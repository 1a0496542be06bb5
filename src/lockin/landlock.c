/* landlock.c - Landlock: this process can open nothing by name, reach no abstract socket, and
 * signal no other process */

/*
 * The ruleset handles every right of the file system that the kernel knows, and has no rule. So
 * nothing can be opened, made, renamed, removed or executed by name, whichever system call asks.
 * Open descriptors keep their rights, so journal, listeners and memfds go on working. TCP
 * connections stay allowed (they are the worker's job); binding a TCP port does not.
 *
 * The constants are defined here because distributions' headers are often older than their kernels.
 * Each ABI adds rights, and a right that the kernel does not know makes the call fail.
 */

#include "lockin_internal.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net; /* ABI 4 */
	uint64_t scoped;	     /* ABI 6 */
};

enum { CREATE_RULESET_VERSION = 1 };
enum { NET_BIND_TCP = 1 };
enum { SCOPE_ABSTRACT_UNIX_SOCKET = 1, SCOPE_SIGNAL = 2 };

/* How many low bits of handled_access_fs an ABI has at least: 13 rights at first, then refer,
 * truncate and (ABI 5) ioctl on devices. A kernel that is newer than this may have more, such as
 * connecting to a Unix socket by its name: FS_RIGHTS_MOST are tried. */
enum { FS_RIGHTS_MOST = 24 };
static unsigned fs_rights(int abi)
{
	if (abi >= 5)
		return 16;
	if (abi >= 3)
		return 15;
	return abi == 2 ? 14 : 13;
}

bool kh_lockin_landlock(int *abi, struct kh_err *err)
{
	*abi = 0;
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
	if (version < 1)
		return true; /* ENOSYS, or built in and switched off (EOPNOTSUPP) */
	*abi = (int)version;

	struct ruleset_attr attr = { .handled_access_fs = 0 };
	size_t size = sizeof(attr.handled_access_fs);
	if (*abi >= 4) {
		attr.handled_access_net = NET_BIND_TCP;
		size = 2 * sizeof(uint64_t);
	}
	if (*abi >= 6) {
		attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
		size = sizeof(attr);
	}
	kh_auto_close int ruleset = -1;
	for (unsigned rights = FS_RIGHTS_MOST; ruleset < 0 && rights >= fs_rights(*abi); rights--) {
		attr.handled_access_fs = (UINT64_C(1) << rights) - 1;
		ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
		if (ruleset < 0 && errno != EINVAL)
			break;
	}
	if (ruleset < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "Landlock ruleset (ABI %d)", *abi);
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "Landlock (ABI %d)", *abi);
	return true;
}
