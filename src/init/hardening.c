/*
 * hardening.c - protects keyhole-init in an engine with a kernel of its own (gVisor)
 *
 * That kernel gives the command's uid all of /dev, and lets it send PID 1 any signal, even SIGKILL
 * and SIGSTOP. A stopped PID 1 would keep the launcher from ending the command. So keyhole-init has
 * the command's uid only as its effective uid, with which it opens what the command may open. Its
 * real and saved uid are another uid (--apart), and these decide who may signal or trace it. /dev
 * belongs to that other uid, and only the devices of every sandbox are left in it. The engine's
 * terminal has no name in it, and its /dev/tty can't be opened, so /dev/tty becomes a link to the
 * terminal.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init_internal.h"

/* Devices, links to a process's own descriptors, and what file systems are mounted on. */
static const char *const devices[] = { "null",	 "zero", "full", "random", "urandom",
				       "tty",	 "ptmx", "fd",	 "stdin",  "stdout",
				       "stderr", "pts",	 "shm",	 "mqueue" };

static bool is_of_every_sandbox(const char *name)
{
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		if (strcmp(devices[i], name) == 0)
			return true;
	return false;
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* With what is in it, where that are no folders. Return: false with errno. */
static bool take_away(int folder, const char *name)
{
	if (unlinkat(folder, name, 0) == 0)
		return true;
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	if (!list)
		return false;
	bool ok = true;
	for (const struct dirent *entry; ok && (entry = readdir(list));)
		ok = is_dot(entry->d_name) || unlinkat(fd, entry->d_name, 0) == 0;
	int why = errno;
	closedir(list);
	errno = why;
	return ok && unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

static void settle_devices(unsigned uid)
{
	int fd = open("/dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	if (!list)
		init_die("--apart: /dev: %s", strerror(errno));
	for (const struct dirent *entry; (entry = readdir(list));) {
		const char *name = entry->d_name;
		if (!is_dot(name) && !is_of_every_sandbox(name) && !take_away(fd, name))
			init_die("--apart: taking /dev/%s away: %s", name, strerror(errno));
	}
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		struct stat st;
		if (fstatat(fd, devices[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) &&
		    fchownat(fd, devices[i], uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) != 0)
			init_die("--apart: /dev/%s: %s", devices[i], strerror(errno));
	}
	if (fchmod(fd, 0755) != 0 || fchown(fd, uid, (gid_t)-1) != 0)
		init_die("--apart: /dev: %s", strerror(errno));
	closedir(list);
}

/* What is there can't be opened; and by this one the terminal has a name. */
static void name_terminal(void)
{
	if (unlink("/dev/tty") != 0 || symlink("/proc/1/fd/0", "/dev/tty") != 0)
		init_die("--apart: /dev/tty: %s", strerror(errno));
}

/* Its own standard descriptors are the host's /dev/null otherwise, and everybody can open what it
 * has open. */
static void let_go_of_host(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (null < 0 || dup2(null, fd) != fd)
			init_die("--apart: /dev/null: %s", strerror(errno));
	if (null > STDERR_FILENO)
		close(null);
}

void init_hardening(unsigned uid, bool own_tty)
{
	uid_t real, effective, saved;
	if (own_tty)
		name_terminal();
	else
		let_go_of_host();
	settle_devices(uid);
	if (setresuid(uid, (uid_t)-1, uid) != 0 || getresuid(&real, &effective, &saved) != 0 ||
	    real != uid || saved != uid)
		init_die("--apart %u: %s", uid, strerror(errno));
}

bool init_hardening_no_more(void)
{
	uid_t uid = geteuid(), real, effective, saved;
	return setresuid(uid, uid, uid) == 0 && getresuid(&real, &effective, &saved) == 0 &&
	       real == uid && effective == uid && saved == uid;
}
