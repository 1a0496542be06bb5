/*
 * image_cache.c - the folder of images that are unpacked
 *
 *   images/NAME/   rootfs, config.json, reference. Whoever uses it holds a shared flock(2) on it,
 *                  and a lock of fcntl(2), which can be queried without being taken
 *   refs/KEY       the NAME that a reference led to, valid while what it refers to is unchanged
 *   tmp/X/         an image that is being made, with a lock; without a lock it is removed
 *   making         a lock: one image is made at a time
 *
 * Only its owner may write to it, since sandboxes use the files as their root without another
 * check.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/lock_file.h>

#include "image_internal.h"

enum { YOUNG_SECONDS = 10 /* between a folder's making and its lock */ };

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
}

char *kh_image_cache(struct kh_err *err)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	bool named = cache && cache[0] == '/', root = geteuid() == 0;
	const struct passwd *user = home && home[0] == '/' ? NULL : getpwuid(geteuid());
	if (user)
		home = user->pw_dir;
	/* A folder that everybody may write to would be anybody's. */
	if (!named && !root && (!home || home[0] != '/')) {
		kh_err_set(err, KH_ERR_USAGE,
			   "there is no folder for images: user %ld has no home (set HOME, or "
			   "XDG_CACHE_HOME)",
			   (long)geteuid());
		return NULL;
	}
	char *out = named  ? kh_strf("%s/keyhole", cache)
		    : root ? strdup("/var/cache/keyhole")
			   : kh_strf("%s/.cache/keyhole", home);
	if (!out)
		kh_err_set(err, KH_ERR_NO_MEMORY, "no memory for a path");
	return out;
}

bool kh_image_remove_tree(const char *path)
{
	char *copy = strdup(path);
	char *const roots[] = { copy, NULL };
	FTS *walk = copy ? fts_open(roots, FTS_PHYSICAL | FTS_XDEV, NULL) : NULL;
	bool ok = walk != NULL;
	FTSENT *entry;
	while (walk && (entry = fts_read(walk))) {
		if (entry->fts_info == FTS_D)
			/* An image's folder that its owner, who we are, may not read. */
			(void)(geteuid() == 0 || chmod(entry->fts_accpath, 0700) == 0);
		else if (entry->fts_info == FTS_DP || entry->fts_info == FTS_DNR)
			ok = rmdir(entry->fts_accpath) == 0 && ok;
		else
			ok = unlink(entry->fts_accpath) == 0 && ok;
	}
	if (walk)
		(void)fts_close(walk);
	free(copy);
	return ok;
}

/* ---- the folders ---- */

static void sweep(const char *cache)
{
	kh_auto_free char *above = kh_strf("%s/tmp", cache);
	DIR *dir = above ? opendir(above) : NULL;
	const struct dirent *entry;
	while (dir && (entry = readdir(dir))) {
		kh_auto_free char *path =
			entry->d_name[0] == '.' ? NULL : kh_strf("%s/%s", above, entry->d_name);
		kh_auto_close int fd =
			path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
		struct stat st;
		if (fd >= 0 && fstat(fd, &st) == 0 && st.st_mtime < time(NULL) - YOUNG_SECONDS &&
		    flock(fd, LOCK_EX | LOCK_NB) == 0)
			(void)kh_image_remove_tree(path);
	}
	if (dir)
		closedir(dir);
}

bool kh_image_cache_open(const char *cache, struct kh_err *err)
{
	static const char *const folders[] = { "images", "refs", "tmp" };
	struct stat st;
	if (!kh_file_mkdirs(cache, 0700, err))
		return kh_err_wrap(err, "a place for images");
	if (stat(cache, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(cache));
	if (st.st_uid != geteuid() || (st.st_mode & 0022))
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "%s: somebody else may write to it (images are kept there: it "
				  "must be yours alone)",
				  kh_esc_str(cache));
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		kh_auto_free char *path = kh_strf("%s/%s", cache, folders[i]);
		if (!path || (mkdir(path, 0700) != 0 && errno != EEXIST))
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s/%s", kh_esc_str(cache),
					  folders[i]);
	}
	sweep(cache);
	return true;
}

/* Of our own making: nothing that leads anywhere else. */
static bool is_name(const char *name)
{
	size_t len = strlen(name);
	return len > 0 && len < KH_IMAGE_NAME_ROOM && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_+") == len;
}

static char *path_of(const char *cache, const char *name)
{
	return is_name(name) ? kh_strf("%s/images/%s", cache, name) : NULL;
}

bool kh_image_cache_has(const char *cache, const char *name)
{
	kh_auto_free char *path = path_of(cache, name);
	return path && access(path, F_OK) == 0;
}

bool kh_image_cache_find(const char *cache, const char *key, char name[KH_IMAGE_NAME_ROOM])
{
	kh_auto_free char *path = kh_strf("%s/refs/%s", cache, key);
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, KH_IMAGE_NAME_ROOM - 1);
	const char *content =
		path && kh_file_read_private(path, &text, NULL) ? kh_buf_cstr(&text) : NULL;
	if (!content || !is_name(content))
		return false;
	memcpy(name, content, strlen(content) + 1);
	return true;
}

bool kh_image_cache_note(const char *cache, const char *key, const char *name, struct kh_err *err)
{
	kh_auto_free char *path = kh_strf("%s/refs/%s", cache, key);
	return path ? kh_file_write(path, kh_slice_str(name), 0600, err) : no_memory(err);
}

/* ---- one that is there ---- */

bool kh_image_cache_take(const char *cache, const char *name, struct kh_image *out,
			 struct kh_err *err)
{
	kh_auto_free char *path = path_of(cache, name);
	kh_auto_free char *config = path ? kh_strf("%s/config.json", path) : NULL;
	if (!config)
		return no_memory(err);
	kh_auto_close int lock = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat held, now;
	if (lock < 0)
		return errno != ENOENT
			       ? kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path))
			       : false;
	/* Who removes it has the lock alone, and moves it away before he gives it back. */
	while (flock(lock, LOCK_SH) != 0)
		if (errno != EINTR)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
	if (fstat(lock, &held) != 0 || stat(path, &now) != 0 || held.st_ino != now.st_ino ||
	    held.st_dev != now.st_dev)
		return false;
	struct kh_buf json kh_cleanup(kh_buf_fini);
	kh_buf_init(&json, KH_LIMIT_IMAGE_JSON_BYTES);
	if (!kh_file_read_private(config, &json, err) ||
	    !kh_image_config_parse(kh_buf_view(&json), &out->config, err))
		return kh_err_wrap(err, "%s", kh_esc_str(path));
	/* For those who look (image_list.c); flock is what keeps it. */
	struct flock used = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	(void)fcntl(lock, F_OFD_SETLK, &used);
	(void)futimens(lock, NULL);
	out->root = kh_strf("%s/rootfs", path);
	out->lock = kh_steal_fd(&lock);
	return out->root || no_memory(err);
}

void kh_image_fini(struct kh_image *image)
{
	kh_image_config_fini(&image->config);
	free(image->root);
	kh_cleanup_close(&image->lock);
	*image = (struct kh_image){ .lock = -1 };
}

int kh_image_cache_lock(const char *cache, const struct kh_image_options *options,
			struct kh_err *err)
{
	const struct timespec pause = { .tv_nsec = 50 * 1000 * 1000 };
	kh_auto_free char *path = kh_strf("%s/making", cache);
	kh_auto_close int fd = path ? kh_lock_file_open(path, err) : -1;
	bool told = false;
	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK && errno != EINTR) {
			kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
			return -1;
		}
		if (options->is_over && options->is_over(options->arg)) {
			kh_err_set(err, KH_ERR_SYSTEM, "--image: was interrupted");
			return -1;
		}
		if (!told && options->say)
			options->say("waiting for another run that unpacks an image");
		told = true;
		(void)nanosleep(&pause, NULL);
	}
	if (!path)
		kh_err_set(err, KH_ERR_NO_MEMORY, "--image: no memory");
	return kh_steal_fd(&fd);
}

/* ---- one that is made ---- */

bool kh_making_begin(struct kh_making *making, const char *cache, struct kh_err *err)
{
	*making = (struct kh_making){ .lock = -1 };
	making->path = kh_strf("%s/tmp/XXXXXX", cache);
	if (!making->path || !mkdtemp(making->path))
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s/tmp", kh_esc_str(cache));
	making->lock = open(making->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	making->image = kh_strf("%s/image", making->path);
	if (making->lock < 0 || flock(making->lock, LOCK_EX | LOCK_NB) != 0 || !making->image ||
	    mkdir(making->image, 0700) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(making->path));
	/* The tools' own: as root they are the uid that sandboxes have. */
	if (geteuid() == 0 && chown(making->image, KH_SANDBOX_HOST_UID, KH_SANDBOX_HOST_GID) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(making->image));
	return true;
}

static bool write_beside(const struct kh_making *making, const char *name, struct kh_slice content,
			 struct kh_err *err)
{
	kh_auto_free char *path = kh_strf("%s/%s", making->image, name);
	return path && kh_file_write(path, content, 0600, err);
}

/* What the tools left beside the root. */
static bool leave_root_alone(const struct kh_making *making)
{
	DIR *dir = opendir(making->image);
	const struct dirent *entry;
	bool ok = dir != NULL;
	while (dir && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
		    strcmp(name, "rootfs") == 0)
			continue;
		kh_auto_free char *path = kh_strf("%s/%s", making->image, name);
		ok = path && kh_image_remove_tree(path) && ok;
	}
	if (dir)
		closedir(dir);
	return ok;
}

bool kh_making_finish(struct kh_making *making, const char *cache, const char *name,
		      const char *reference, struct kh_slice config, struct kh_err *err)
{
	kh_auto_free char *path = path_of(cache, name);
	if (!path)
		return kh_err_set(err, KH_ERR_INTERNAL, "--image: no name for it");
	/* From here on nobody but us writes to it; what is there is the tools' and is no link. */
	kh_auto_free char *root = kh_strf("%s/rootfs", making->image);
	struct stat st;
	if (!root || (geteuid() == 0 && lchown(making->image, 0, 0) != 0) || lstat(root, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(making->image));
	if (!S_ISDIR(st.st_mode))
		return kh_err_set(err, KH_ERR_USAGE, "--image: its root is no folder");
	if (!leave_root_alone(making))
		return kh_err_set(err, KH_ERR_SYSTEM, "%s: can't be tidied up",
				  kh_esc_str(making->image));
	if (!write_beside(making, "config.json", config, err) ||
	    !write_beside(making, "reference", kh_slice_str(reference), err))
		return false;
	/* What is under the name is whole also after a power cut. */
	(void)syncfs(making->lock);
	if (rename(making->image, path) == 0 || errno == EEXIST || errno == ENOTEMPTY)
		return true;
	return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
}

void kh_making_end(struct kh_making *making)
{
	if (making->path)
		(void)kh_image_remove_tree(making->path);
	kh_cleanup_close(&making->lock);
	free(making->path);
	free(making->image);
	*making = (struct kh_making){ .lock = -1 };
}
