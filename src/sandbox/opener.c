/*
 * opener.c - finds the process that opens files for gVisor's kernel
 *
 * runsc starts two processes: its kernel, which sees no mounts, and its gofer, which opens files.
 * Both are children of runsc, and runsc is a child of the process that the launcher started
 * (supervisor.c). No process inside the sandbox is a child of runsc on the host, so none can
 * pretend to be the gofer.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>

#include "sandbox_internal.h"

static size_t read_of(pid_t pid, const char *name, char *out, size_t room)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	kh_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, room - 1);
	out[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static pid_t parent_of(pid_t pid)
{
	char text[512];
	long parent = -1;
	read_of(pid, "stat", text, sizeof(text));
	/* Its name, in brackets, may hold anything. */
	const char *rest = strrchr(text, ')');
	return rest && sscanf(rest, ") %*c %ld", &parent) == 1 ? (pid_t)parent : -1;
}

static bool is_opener(pid_t pid)
{
	static const char name[] = "runsc-gofer";
	char text[sizeof(name)];
	return read_of(pid, "cmdline", text, sizeof(text)) > 0 && strcmp(text, name) == 0;
}

pid_t kh_opener_find(pid_t program)
{
	pid_t found = -1;
	DIR *list = opendir("/proc");
	const struct dirent *entry;
	while (list && found < 0 && (entry = readdir(list))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (pid > 0 && is_opener(pid) && parent_of(parent_of(pid)) == program)
			found = pid;
	}
	if (list)
		closedir(list);
	return found;
}
