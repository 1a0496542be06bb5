/* lockin.c - the lock-in of worker and fetcher: their restrictions on themselves */

/*
 * The stages, as "precondition → result":
 *
 *   limits    one thread; all files are open → no core file
 *   powers    any uid → the bounding set is empty
 *   identity  root → an empty root folder, an unprivileged uid and gid, no groups
 *             (not root: unchanged; an empty root folder would need a user namespace, in which
 *             the kernel shows all other users, such as callers of the admin socket, as nobody)
 *   powers    any uid → no capability in any set
 *   sealed    no capability → no new privileges, not dumpable, dies with the keeper
 *   landlock  no new privileges → nothing can be opened by name
 *   seccomp   no new privileges → the allowlist of seccomp.c
 *   proof     all of these → opening a folder is tried, and must fail
 *
 * If the kernel has no Landlock, that is only a warning, since seccomp refuses every call that
 * takes a path. If any other stage fails, the process ends: there is no weaker mode.
 */

#include "lockin_internal.h"
#include <keyhole/lockin/lockin.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

/* Belongs to nobody on a Debian or Fedora system (below systemd's ranges, above packages'). */
enum { RESERVED_UID = 64951 };

struct identity {
	uid_t uid;
	gid_t gid;
};

/* Where memory runs out, this process goes before the keeper, which starts another one. The limit
 * of tasks counts all of the uid, so one that is somebody else's as well has none: whoever is at
 * work there could keep the worker from starting. */
static bool limits(bool own_uid, struct kh_err *err)
{
	struct rlimit none = { 0, 0 }, tasks = { KH_LIMIT_LOCKIN_TASKS, KH_LIMIT_LOCKIN_TASKS };
	if (setrlimit(RLIMIT_CORE, &none) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "RLIMIT_CORE");
	if (own_uid && setrlimit(RLIMIT_NPROC, &tasks) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "RLIMIT_NPROC");
	kh_auto_close int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "500", 3) != 3)
		kh_log_debug("oom_score_adj stays as it is: %s", strerror(errno));
	return true;
}

static void close_file(FILE **file)
{
	if (*file)
		(void)fclose(*file);
}

/* By name, or by uid where `name` is NULL. In /etc/passwd itself: a name service would load
 * libraries and open sockets in this process. */
static bool find_user(const char *name, uid_t uid, struct identity *out)
{
	kh_cleanup(close_file) FILE *file = fopen("/etc/passwd", "re");
	if (!file)
		return false;
	struct passwd line, *entry;
	char text[4096];
	while (fgetpwent_r(file, &line, text, sizeof(text), &entry) == 0) {
		if (name ? strcmp(entry->pw_name, name) == 0 : entry->pw_uid == uid) {
			*out = (struct identity){ entry->pw_uid, entry->pw_gid };
			return true;
		}
	}
	return false;
}

/* A number needs no entry: its group has the same number then. */
static bool parse_user(const char *text, struct identity *out)
{
	uint64_t number;
	if (!kh_slice_to_u64(kh_slice_str(text), &number))
		return find_user(text, 0, out);
	if (number >= UINT32_MAX)
		return false;
	if (!find_user(NULL, (uid_t)number, out))
		*out = (struct identity){ (uid_t)number, (gid_t)number };
	return true;
}

static bool choose_identity(const char *user, struct identity *out, struct kh_err *err)
{
	if (!user) {
		if (!find_user("keyhole", 0, out))
			*out = (struct identity){ RESERVED_UID, RESERVED_UID };
	} else if (!parse_user(user, out)) {
		return kh_err_set(err, KH_ERR_CONFIG,
				  "worker user '%s': not in /etc/passwd (write its number)", user);
	}
	if (out->uid == 0 || out->gid == 0)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "worker user '%s': must be neither root nor of root's group",
				  user ? user : "keyhole");
	return true;
}

bool kh_lockin_user_look(const char *user, struct kh_err *err)
{
	struct identity identity;
	return choose_identity(user, &identity, err);
}

/* An empty folder that no longer has a name becomes the root. What is left undone (a read-only
 * /tmp, a container without CAP_SYS_CHROOT) is left to Landlock and seccomp. */
static void empty_root(void)
{
	char path[] = "/tmp/keyhole-empty-XXXXXX";
	if (!mkdtemp(path))
		return;
	kh_auto_close int folder = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	(void)rmdir(path);
	struct stat st;
	if (folder < 0 || fstat(folder, &st) != 0 || st.st_uid != 0)
		return;
	if (fchdir(folder) != 0 || chroot(".") != 0)
		kh_log_debug("the root folder stays as it is: %s", strerror(errno));
}

static bool become(const struct identity *who, struct kh_err *err)
{
	empty_root();
	if (setgroups(0, NULL) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "dropping groups");
	if (setresgid(who->gid, who->gid, who->gid) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "becoming gid %u", who->gid);
	if (setresuid(who->uid, who->uid, who->uid) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "becoming uid %u", who->uid);
	uid_t real, effective, saved;
	if (getresuid(&real, &effective, &saved) != 0 || real != who->uid ||
	    effective != who->uid || saved != who->uid || setuid(0) == 0)
		return kh_err_set(err, KH_ERR_SYSTEM, "root could be taken back");
	return true;
}

/* While CAP_SETPCAP is still there; without it the set stays, and no_new_privs makes it moot. */
static void drop_bounding_set(void)
{
	for (unsigned long cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) < 0)
			break;
		(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	}
}

static bool drop_powers(struct kh_err *err)
{
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0, 0, 0 } };
	if (syscall(SYS_capset, &header, none) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "dropping capabilities");
	return true;
}

static bool seal(struct kh_err *err)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "no_new_privs");
	/* A change of uid clears both. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "not dumpable");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "parent's death signal");
	return true;
}

/* Opening the root folder is what every path begins with. */
static bool prove(struct kh_err *err)
{
	kh_auto_close int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return kh_err_set(err, KH_ERR_SYSTEM, "a folder could still be opened");
	return true;
}

bool kh_lockin(const char *user, struct kh_err *err)
{
	struct identity who = { RESERVED_UID, RESERVED_UID };
	bool root = geteuid() == 0;
	if (!limits(root, err) || (root && !choose_identity(user, &who, err)))
		return kh_err_wrap(err, "lock-in");
	drop_bounding_set();
	if ((root && !become(&who, err)) || !drop_powers(err) || !seal(err))
		return kh_err_wrap(err, "lock-in");
	int abi;
	if (!kh_lockin_landlock(&abi, err))
		return kh_err_wrap(err, "lock-in");
	if (abi == 0)
		kh_log_warn("this kernel has no Landlock: the worker is held by seccomp alone");
	if (!kh_lockin_seccomp(err) || !prove(err))
		return kh_err_wrap(err, "lock-in");
	return true;
}
