/*
 * changed.c - reports what has changed although it was read-only for a sandbox
 *
 * It compares size, mode and times of a file, and of what is in a folder, down to a bound. It does
 * not compare the inode number: some servers have another one for each lookup. Only the user knows
 * whether an editor or git on the host made the change, so nothing is set aside.
 */
#include "changed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>

#include "sandbox_internal.h"

enum {
	DEEPEST = 4,
	ENTRIES_MOST = 4096, /* of one protected folder */
	NAMED = 3,
	NAMES_BYTES = 1024,
};

/* Whose names the kernel compares itself. */
static const long local[] = { EXT4_SUPER_MAGIC,	    XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC,
			      TMPFS_MAGIC,	    F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC,
			      0x2fc12fc1 /* ZFS */, 0xca451a4e /* bcachefs */ };

static bool is_local(const char *path)
{
	struct statfs fs;
	if (statfs(path, &fs) != 0)
		return false;
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if ((long)fs.f_type == local[i])
			return true;
	return false;
}

/* FNV-1a, but of whole words; the upper half of a product is brought down. */
static uint64_t mix(uint64_t state, uint64_t word)
{
	state = (state ^ word) * 0x100000001b3;
	return state ^ (state >> 32);
}

/* The times of a folder change with what is put into it for the time of a run, and removed. */
static uint64_t state_of_one(const char *name, const struct stat *st)
{
	uint64_t state = mix(0xcbf29ce484222325, (uint64_t)st->st_mode);
	for (; *name; name++)
		state = mix(state, (unsigned char)*name);
	if (S_ISDIR(st->st_mode))
		return state;
	state = mix(state, (uint64_t)st->st_size);
	state = mix(state, (uint64_t)st->st_mtim.tv_sec);
	state = mix(state, (uint64_t)st->st_mtim.tv_nsec);
	state = mix(state, (uint64_t)st->st_ctim.tv_sec);
	return mix(state, (uint64_t)st->st_ctim.tv_nsec);
}

static uint64_t state_at(int folder, const char *name, unsigned depth, unsigned *left);

/* In no order. */
static uint64_t state_within(int folder, const char *name, unsigned depth, unsigned *left)
{
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	uint64_t sum = 0;
	const struct dirent *entry;
	if (!dir) {
		kh_cleanup_close(&fd);
		return 0;
	}
	/* cppcheck-suppress readdirCalled ; nobody else has this stream */
	while (*left > 0 && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			sum += state_at(dirfd(dir), entry->d_name, depth + 1, left);
	closedir(dir);
	return sum;
}

static uint64_t state_at(int folder, const char *name, unsigned depth, unsigned *left)
{
	struct stat st;
	if (*left == 0 || fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return 1;
	--*left;
	uint64_t state = state_of_one(name, &st);
	if (S_ISDIR(st.st_mode) && depth < DEEPEST)
		state += state_within(folder, name, depth, left);
	return state;
}

static uint64_t state_of(const char *path)
{
	unsigned left = ENTRIES_MOST;
	uint64_t state = state_at(AT_FDCWD, path, 0, &left);
	return state ? state : 1;
}

static bool is_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && path[len] == '/';
}

bool kh_changed_note(struct kh_changed *changed, const struct kh_view *view, const char *workspace,
		     bool all, struct kh_err *err)
{
	*changed = (struct kh_changed){ .view = view, .n = view->n };
	changed->states = calloc(view->n + 1, sizeof(*changed->states));
	if (!changed->states)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox: no memory");
	for (size_t i = 0; i < view->n; i++) {
		const struct kh_mount *m = &view->list[i];
		if (m->kind == KH_MOUNT_READ && is_below(m->target, workspace) &&
		    (all || !is_local(m->target)))
			changed->states[i] = state_of(m->target);
	}
	return true;
}

size_t kh_changed_find(const struct kh_changed *changed, struct kh_buf *names)
{
	size_t found = 0;
	for (size_t i = 0; changed->states && i < changed->n; i++) {
		const char *path = changed->view->list[i].target;
		if (changed->states[i] == 0 || changed->states[i] == state_of(path))
			continue;
		if (found < NAMED)
			(void)kh_buf_printf(names, "%s%s", found ? ", " : "", kh_esc_str(path));
		found++;
	}
	return found;
}

void kh_changed_warn(const struct kh_changed *changed)
{
	struct kh_buf names kh_cleanup(kh_buf_fini);
	kh_buf_init(&names, NAMES_BYTES);
	size_t found = kh_changed_find(changed, &names);
	const char *text = kh_buf_cstr(&names);
	if (found > 0)
		kh_log_warn("%s%s: protected from the sandbox, and changed while it ran (look at "
			    "it before you use git or an editor there, if it was not you)",
			    text ? text : "files", found > NAMED ? " and more" : "");
}

void kh_changed_fini(struct kh_changed *changed)
{
	free(changed->states);
	*changed = (struct kh_changed){ 0 };
}
