/* image_list.c - lists and removes cached images */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "image_internal.h"

enum { REFERENCE_MOST_BYTES = 8192 };

/* Only asked, and nothing taken: many may look at once, and nobody who wants to use or remove it
 * meets one who looks. */
static bool is_used(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static bool look(const char *cache, const char *name, struct kh_image_kept *out)
{
	kh_auto_free char *path = kh_strf("%s/images/%s", cache, name);
	kh_auto_free char *reference = kh_strf("%s/images/%s/reference", cache, name);
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, REFERENCE_MOST_BYTES);
	kh_auto_close int fd =
		path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0 || !reference ||
	    !kh_file_read_private(reference, &text, NULL))
		return false;
	*out = (struct kh_image_kept){ .name = strdup(name), .used = st.st_mtim.tv_sec };
	out->reference = kh_slice_dup(kh_buf_view(&text));
	out->in_use = is_used(fd);
	return out->name && out->reference;
}

static int later_first(const void *a, const void *b)
{
	const struct kh_image_kept *one = a, *two = b;
	return one->used != two->used ? (one->used < two->used) - (one->used > two->used)
				      : strcmp(one->name, two->name);
}

struct kh_image_kept *kh_image_list(const char *cache, size_t *n)
{
	kh_auto_free char *folder = kh_strf("%s/images", cache);
	DIR *dir = folder ? opendir(folder) : NULL;
	struct kh_image_kept *list = NULL;
	const struct dirent *entry;
	*n = 0;
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		struct kh_image_kept *more = reallocarray(list, *n + 1, sizeof(*list));
		if (!more)
			break;
		list = more;
		list[*n] = (struct kh_image_kept){ 0 };
		if (look(cache, entry->d_name, &list[*n])) {
			++*n;
		} else {
			free(list[*n].name);
			free(list[*n].reference);
		}
	}
	if (dir)
		closedir(dir);
	if (*n)
		qsort(list, *n, sizeof(*list), later_first);
	return list;
}

void kh_image_list_free(struct kh_image_kept *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].name);
		free(list[i].reference);
	}
	free(list);
}

bool kh_image_remove(const char *cache, const char *name, struct kh_err *err)
{
	if (strchr(name, '/') || name[0] == '.')
		return kh_err_set(err, KH_ERR_USAGE, "%s: no such image", kh_esc_str(name));
	kh_auto_free char *path = kh_strf("%s/images/%s", cache, name);
	kh_auto_close int fd =
		path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (fd < 0)
		return kh_err_set(err, KH_ERR_USAGE, "%s: no such image", kh_esc_str(name));
	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		return kh_err_set(err, KH_ERR_SYSTEM, "%s: a sandbox uses it", kh_esc_str(name));
	/* Before we had the lock it may have been removed, and made anew: that one is not ours. */
	struct stat held, now;
	if (fstat(fd, &held) != 0 || stat(path, &now) != 0 || held.st_ino != now.st_ino ||
	    held.st_dev != now.st_dev)
		return kh_err_set(err, KH_ERR_USAGE, "%s: no such image", kh_esc_str(name));
	/* First out of the way, so that it is there whole or not at all; with a lock, so that no
	 * other run takes it for a killed one's. */
	kh_auto_free char *away = kh_strf("%s/tmp/XXXXXX", cache);
	kh_auto_free char *old = away && mkdtemp(away) ? kh_strf("%s/image", away) : NULL;
	kh_auto_close int lock =
		old ? open(away, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) != 0 || rename(path, old) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(name));
	return kh_image_remove_tree(away) ||
	       kh_err_set(err, KH_ERR_SYSTEM, "%s: can't be removed whole", kh_esc_str(away));
}
