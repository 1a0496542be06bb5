/*
 * landlock.c - restricts the command by Landlock: what it may write, by path
 *
 * The mounts enforce the same already; this is a second line of defence, in case a mount is wrong.
 * The command may read and execute everything that it sees, and write below its --writable paths,
 * and to devices and /proc as their modes allow. It can make device nodes nowhere, and can't signal
 * processes outside of its Landlock domain (keyhole-init, for example). Rights that the kernel's
 * ABI lacks are left out. The call numbers are defined here because distributions' headers are
 * often older than their kernels.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <keyhole/base/limits.h>

#include "init_internal.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net; /* ABI 4 */
	uint64_t scoped;	     /* ABI 6 */
};

struct path_beneath_attr {
	uint64_t allowed_access;
	int32_t parent_fd;
} __attribute__((packed));

enum { CREATE_RULESET_VERSION = 1, RULE_PATH_BENEATH = 1 };
enum { SCOPE_ABSTRACT_UNIX_SOCKET = 1, SCOPE_SIGNAL = 2 };

enum {
	EXECUTE = 1 << 0,
	WRITE_FILE = 1 << 1,
	READ_FILE = 1 << 2,
	READ_DIR = 1 << 3,
	MAKE_CHAR = 1 << 6,
	MAKE_BLOCK = 1 << 11,
	REFER = 1 << 13,	/* ABI 2 */
	TRUNCATE = 1 << 14,	/* ABI 3 */
	IOCTL_DEV = 1 << 15,	/* ABI 5 */
	RESOLVE_UNIX = 1 << 16, /* ABI 9: connections to sockets that others listen at */
	/* What makes sense on what is no folder. */
	OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV | RESOLVE_UNIX,
};

static const char *places[KH_LIMIT_INIT_PLACES];
static size_t n_places;
static int ruleset = -1;

void init_landlock_place(const char *path)
{
	if (n_places == KH_LIMIT_INIT_PLACES)
		init_die("--writable: more than %d places", KH_LIMIT_INIT_PLACES);
	places[n_places++] = path;
}

static uint64_t rights_of(long abi)
{
	unsigned n = abi >= 9 ? 17 : abi >= 5 ? 16 : abi >= 3 ? 15 : abi == 2 ? 14 : 13;
	return (UINT64_C(1) << n) - 1;
}

static void allow(const char *path, uint64_t rights)
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		init_die("--writable %s: %s", path, strerror(errno));
	struct path_beneath_attr attr = {
		.allowed_access = S_ISDIR(st.st_mode) ? rights : rights & OF_FILES,
		.parent_fd = fd,
	};
	if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attr, 0) != 0)
		init_die("Landlock, %s: %s", path, strerror(errno));
	close(fd);
}

/* The one socket of the host's. Those of the command's own domain need no rule. */
static void allow_folder_of(const char *socket_path, uint64_t rights)
{
	static char folder[PATH_MAX];
	const char *slash = strrchr(socket_path, '/');
	size_t len = slash ? (size_t)(slash - socket_path) : 0;
	if (len == 0 || len >= sizeof(folder))
		init_die("--socket %s: not in a folder", socket_path);
	memcpy(folder, socket_path, len);
	folder[len] = '\0';
	allow(folder, rights);
}

void init_landlock_prepare(const char *socket_path)
{
	if (n_places == 0)
		return;
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
	if (abi < 1)
		return; /* Not in this kernel, or switched off: the mounts stand alone. */
	uint64_t rights = rights_of(abi);
	struct ruleset_attr attr = { .handled_access_fs = rights };
	size_t size = sizeof(attr.handled_access_fs);
	if (abi >= 6) {
		attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
		size = sizeof(attr);
	}
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (ruleset < 0)
		init_die("Landlock (ABI %ld): %s", abi, strerror(errno));
	allow("/", rights & (EXECUTE | READ_FILE | READ_DIR));
	allow("/proc", rights & (WRITE_FILE | TRUNCATE | READ_FILE | READ_DIR));
	allow("/dev", rights & (WRITE_FILE | TRUNCATE | IOCTL_DEV | READ_FILE | READ_DIR));
	for (size_t i = 0; i < n_places; i++)
		allow(places[i], rights & ~(uint64_t)(MAKE_CHAR | MAKE_BLOCK | RESOLVE_UNIX));
	if (rights & RESOLVE_UNIX)
		allow_folder_of(socket_path, RESOLVE_UNIX);
}

bool init_landlock_enter(void)
{
	if (ruleset < 0)
		return true;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
		return false;
	close(ruleset);
	return true;
}
