/* no_lockin.c - what keyhole must do otherwise while valgrind counts its instructions */

/*
 * valgrind opens files and makes calls that a worker's filter forbids, and /proc/self/exe is
 * valgrind. Linked over kh_lockin and execve (--wrap) in build/bench/keyhole-no-lockin alone, which
 * nothing installs.
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/err.h>

bool __wrap_kh_lockin(const char *user, struct kh_err *err);
int __real_execve(const char *path, char *const argv[], char *const envp[]);
int __wrap_execve(const char *path, char *const argv[], char *const envp[]);

bool __wrap_kh_lockin(const char *user, struct kh_err *err)
{
	(void)user;
	(void)err;
	return true;
}

int __wrap_execve(const char *path, char *const argv[], char *const envp[])
{
	char self[4096];
	ssize_t n =
		readlink("/proc/self/exe", self, sizeof(self) - 1); /* valgrind knows this one */

	if (n < 0 || strcmp(path, "/proc/self/exe") != 0)
		return __real_execve(path, argv, envp);
	self[n] = '\0';
	return __real_execve(self, argv, envp);
}
