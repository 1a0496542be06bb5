/*
 * run_folder.c - the folder of one run, with its socket
 *
 * A run holds a lock on its folder until it ends. A folder that is not locked belongs to a launcher
 * that was killed: the next run removes it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "run_internal.h"

enum {
	YOUNG_SECONDS = 10,    /* between its making and its lock */
	SOCKET_PATH_MOST = 60, /* of the folder above: a socket's path has 107 bytes */
};

/* Named by the environment: absolute, ours, nobody else's to write in, and not too long. */
static const char *folder_from(const char *variable)
{
	const char *dir = getenv(variable);
	struct stat st;
	bool good = dir && dir[0] == '/' && strlen(dir) < SOCKET_PATH_MOST && stat(dir, &st) == 0 &&
		    S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 0022) == 0;
	return good ? dir : NULL;
}

/* As root, where the sandbox's uid can pass through (a service manager names such a folder); else
 * where nobody else can look. */
static bool choose(char *template, size_t room, struct kh_err *err)
{
	const char *dir = folder_from(geteuid() == 0 ? "RUNTIME_DIRECTORY" : "XDG_RUNTIME_DIR");
	struct stat st;
	if (geteuid() == 0 && (!dir || stat(dir, &st) != 0 || !(st.st_mode & S_IXOTH))) {
		dir = "/run/keyhole";
		if (!kh_file_mkdirs(dir, 0755, err))
			return false;
	}
	snprintf(template, room, "%s/keyhole-run-XXXXXX", dir ? dir : "/tmp");
	return true;
}

static void remove_files(const char *path)
{
	kh_auto_free char *socket = kh_strf("%s/s/s", path);
	kh_auto_free char *inner = kh_strf("%s/s", path);
	kh_auto_free char *ask = kh_strf("%s/ask", path);
	if (ask)
		(void)unlink(ask);
	if (socket && inner) {
		(void)unlink(socket);
		(void)rmdir(inner);
	}
	(void)rmdir(path);
}

/* Nobody else's folder, old enough, and without a lock. */
static void sweep_one(const char *path)
{
	kh_auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0 || st.st_uid != geteuid() ||
	    st.st_mtime > time(NULL) - YOUNG_SECONDS || flock(fd, LOCK_EX | LOCK_NB) != 0)
		return;
	remove_files(path);
}

static void sweep(const char *template)
{
	const char *name = strrchr(template, '/') + 1;
	kh_auto_free char *above = strndup(template, (size_t)(name - template - 1));
	size_t len = strlen(name) - strlen("XXXXXX");
	DIR *dir = above ? opendir(above) : NULL;
	if (!dir)
		return;
	const struct dirent *entry;
	while ((entry = readdir(dir))) {
		if (strncmp(entry->d_name, name, len) != 0 || strlen(entry->d_name) != len + 6)
			continue;
		kh_auto_free char *path = kh_strf("%s/%s", above, entry->d_name);
		if (path)
			sweep_one(path);
	}
	closedir(dir);
}

bool kh_run_folder_make(struct kh_run_folder *folder, struct kh_err *err)
{
	char template[128];
	*folder = (struct kh_run_folder){ .lock = -1 };
	if (!choose(template, sizeof(template), err))
		return false;
	sweep(template);
	if (!mkdtemp(template))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a folder for this run: %s", template);
	folder->path = strdup(template);
	folder->socket_dir = kh_strf("%s/s", template);
	folder->socket_path = kh_strf("%s/s/s", template);
	folder->ask_path = kh_strf("%s/ask", template);
	if (!folder->path || !folder->socket_dir || !folder->socket_path || !folder->ask_path)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	folder->id = strrchr(folder->path, '/') + 1 + strlen("keyhole-");
	folder->lock = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder->lock < 0 || flock(folder->lock, LOCK_EX | LOCK_NB) != 0 ||
	    mkdir(folder->socket_dir, 0755) != 0 || chmod(folder->socket_dir, 0755) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", folder->path);
	/* What is in it is guarded by its own owner and mode. */
	if (geteuid() == 0 && chmod(folder->path, 0711) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", folder->path);
	return true;
}

void kh_run_folder_remove(struct kh_run_folder *folder)
{
	if (folder->path)
		remove_files(folder->path);
	if (folder->lock >= 0)
		close(folder->lock);
	free(folder->path);
	free(folder->socket_dir);
	free(folder->socket_path);
	free(folder->ask_path);
	*folder = (struct kh_run_folder){ .lock = -1 };
}

/* ---- runs that ask ---- */

/* Ours, with a lock, and with a socket that takes answers. */
static bool is_asking(const char *path)
{
	kh_auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	       fstatat(fd, "ask", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
	       flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static bool add_asking(struct kh_run_asking *out, const char *dir, const char *name)
{
	kh_auto_free char *path = kh_strf("%s/%s", dir, name);
	if (!path)
		return false;
	if (!is_asking(path))
		return true;
	struct kh_run_asks *more = reallocarray(out->list, out->n + 1, sizeof(*more));
	if (!more)
		return false;
	out->list = more;
	struct kh_run_asks *one = &more[out->n];
	one->id = kh_slice_dup(kh_slice_str(name + strlen("keyhole-")));
	one->socket = kh_strf("%s/ask", path);
	out->n++;
	return one->id && one->socket;
}

static bool look_into(struct kh_run_asking *out, const char *dir_name)
{
	static const char begins[] = "keyhole-run-";
	DIR *dir = dir_name ? opendir(dir_name) : NULL;
	const struct dirent *entry;
	bool ok = true;
	while (ok && dir && (entry = readdir(dir)))
		if (strncmp(entry->d_name, begins, strlen(begins)) == 0 &&
		    strlen(entry->d_name) == strlen(begins) + 6)
			ok = add_asking(out, dir_name, entry->d_name);
	if (dir)
		closedir(dir);
	return ok;
}

bool kh_run_asking_find(struct kh_run_asking *out, struct kh_err *err)
{
	bool root = geteuid() == 0;
	const char *own = folder_from(root ? "RUNTIME_DIRECTORY" : "XDG_RUNTIME_DIR");
	const char *other = root ? "/run/keyhole" : "/tmp";
	*out = (struct kh_run_asking){ .list = NULL };
	/* The other terminal may have had another environment. */
	return (look_into(out, own) &&
		((own && strcmp(own, other) == 0) || look_into(out, other))) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "ask: no memory");
}

void kh_run_asking_fini(struct kh_run_asking *asking)
{
	for (size_t i = 0; i < asking->n; i++) {
		free(asking->list[i].id);
		free(asking->list[i].socket);
	}
	free(asking->list);
	*asking = (struct kh_run_asking){ .list = NULL };
}
