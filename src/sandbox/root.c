/*
 * root.c - the root of a sandbox: the host view, or a root that the caller names
 *
 * The host view is an allowlist: /usr and similar folders, and files of /etc that contain settings
 * and no secrets. Small files are copied into the sandbox's own root, which saves mounts; a file
 * that not everybody may read is never copied. An agent may write to a root that the caller names
 * at the same time. So it is opened once, and each entry is opened before it is checked.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "sandbox_internal.h"

enum {
	COPY_MOST_BYTES = 1024 * 1024, /* /etc/ld.so.cache grows with the libraries */
	TREE_DEPTH = 5,
};

static const char *const programs[] = { "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

/* Settings that programs need to start or to behave. Nothing here is a place for a secret. */
static const char *const etc_files[] = {
	"DIR_COLORS",
	"bash.bashrc",
	"bashrc",
	"ca-certificates.conf",
	"debian_version",
	"ethertypes",
	"gai.conf",
	"host.conf",
	"inputrc",
	"ld.so.cache",
	"ld.so.conf",
	"locale.alias",
	"locale.conf",
	"localtime",
	"login.defs",
	"lsb-release",
	"magic",
	"magic.mime",
	"mime.types",
	"nanorc",
	"networks",
	"os-release",
	"profile",
	"protocols",
	"rpc",
	"screenrc",
	"services",
	"shells",
	"timezone",
	"vconsole.conf",
	"ld-musl-x86_64.path",
	"redhat-release",
	"fedora-release",
	"alpine-release",
	"arch-release",
	"wgetrc",
};

/* Mounted, since they may be large; each costs half a millisecond. */
static const char *const etc_folders[] = { "alternatives", "fonts" };

/* Folders of /etc whose name carries a version. */
static const char *const etc_prefixes[] = { "java" };

/* Copied entry by entry: they are small, or files of ours go between theirs. */
static const char *const etc_trees[] = { "ssl",	 "pki",	    "ld.so.conf.d", "crypto-policies",
					 "perl", "terminfo" };

static bool in_list(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, list[i]) == 0)
			return true;
	return false;
}
#define IN_LIST(name, list) in_list(name, list, sizeof(list) / sizeof((list)[0]))

int kh_root_open(const char *rootfs, const char *path)
{
	kh_auto_close int root = kh_file_hold(rootfs);
	/* A pipe in its place is not waited for. */
	kh_auto_close int fd =
		root < 0 ? -1
			 : kh_file_resolve(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY,
					   RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	struct stat st;
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IROTH)
		       ? kh_steal_fd(&fd)
		       : -1;
}

/* An entry of a folder that an agent may be writing to: what is judged is what is held, and what is
 * held is what is read or mounted. */
struct entry {
	int fd; /* O_PATH */
	struct stat st;
	const char *source, *target;
};

static bool hold_entry(struct entry *out, int folder, const char *name)
{
	out->fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return out->fd >= 0 && fstat(out->fd, &out->st) == 0;
}

static bool copy_file(struct kh_view *view, const struct entry *e, struct kh_err *err)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", e->fd);
	kh_auto_close int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	struct kh_buf content kh_cleanup(kh_buf_fini);
	kh_buf_init(&content, COPY_MOST_BYTES);
	if (fd < 0 || !kh_file_read_fd(fd, &content, NULL) || fstat(fd, &st) != 0 ||
	    !S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH))
		return true;
	if (!kh_view_file(view, e->target, 0644, kh_buf_view(&content), err))
		return false;
	kh_view_copied(view, e->source, &st);
	return true;
}

/* A link, or a small file that everybody may read; anything else is left out. */
static bool copy_entry(struct kh_view *view, const struct entry *e, struct kh_err *err)
{
	if (kh_view_has(view, e->target))
		return true;
	if (S_ISLNK(e->st.st_mode)) {
		char text[4096];
		ssize_t n = readlinkat(e->fd, "", text, sizeof(text) - 1);
		if (n <= 0)
			return true;
		text[n] = '\0';
		kh_view_link(view, text, e->target);
		return true;
	}
	return !S_ISREG(e->st.st_mode) || !(e->st.st_mode & S_IROTH) || copy_file(view, e, err);
}

/* The entries of a folder, which is taken over; false ends it. */
struct listing {
	struct kh_view *view;
	const char *source, *target; /* of the folder */
	int depth;
	enum kh_tree tree;
};
typedef bool (*each_entry)(const struct listing *l, const char *name, struct entry *e,
			   struct kh_err *err);

static bool list(int folder, const struct listing *l, each_entry each, struct kh_err *err)
{
	DIR *dir = folder >= 0 ? fdopendir(folder) : NULL;
	if (!dir) {
		kh_cleanup_close(&folder);
		return true;
	}
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		kh_auto_free char *from =
			kh_strf("%s/%s", strcmp(l->source, "/") == 0 ? "" : l->source, name);
		kh_auto_free char *to =
			kh_strf("%s/%s", strcmp(l->target, "/") == 0 ? "" : l->target, name);
		struct entry e = { .fd = -1, .source = from, .target = to };
		if (!from || !to)
			ok = kh_err_set(err, KH_ERR_NO_MEMORY, "the root: no memory");
		else if (hold_entry(&e, dirfd(dir), name))
			ok = each(l, name, &e, err);
		kh_cleanup_close(&e.fd);
	}
	closedir(dir);
	return ok;
}

/* No link is followed to it, and what not everybody may pass through is left out with all in it. */
static int open_folder(int folder, const char *name, int flags)
{
	kh_auto_close int fd =
		openat(folder, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | flags);
	struct stat st;
	return fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & S_IXOTH) ? kh_steal_fd(&fd) : -1;
}

static bool copy_one(const struct listing *l, const char *name, struct entry *e, struct kh_err *err)
{
	if (strcmp(name, "private") == 0)
		return true;
	if (!S_ISDIR(e->st.st_mode))
		return copy_entry(l->view, e, err);
	struct listing below = *l;
	below.source = e->source;
	below.target = e->target;
	return ++below.depth >= TREE_DEPTH ||
	       list(open_folder(e->fd, ".", O_NOFOLLOW), &below, copy_one, err);
}

/* `flags`: O_NOFOLLOW but for the host's own, where an administrator may have linked it. */
static bool copy_tree(const struct listing *l, const struct entry *e, int flags, struct kh_err *err)
{
	const struct listing below = { .view = l->view, .source = e->source, .target = e->target };
	bool linked = S_ISLNK(e->st.st_mode);
	if (linked && (flags & O_NOFOLLOW))
		return true;
	return list(open_folder(linked ? AT_FDCWD : e->fd, linked ? e->source : ".", flags), &below,
		    copy_one, err);
}

/* Return: also false where it can't be listed. */
static bool is_empty(int folder)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		kh_cleanup_close(&fd);
		return false;
	}
	int entries = 0;
	while (entries <= 2 && readdir(dir))
		entries++;
	closedir(dir);
	return entries <= 2;
}

/* One entry of a root: links stay links, folders are mounted. */
static bool plan_entry(const struct listing *l, struct entry *e, struct kh_err *err)
{
	if (!S_ISDIR(e->st.st_mode))
		return copy_entry(l->view, e, err);
	/* An empty one is made anew, so that something may be mounted inside of it. */
	if (is_empty(e->fd))
		kh_view_dir(l->view, e->target, 0755);
	else if (l->tree == KH_TREE_HOST)
		kh_view_bind(l->view, KH_MOUNT_READ, e->source, e->target, l->tree);
	else
		kh_view_bind_fd(l->view, KH_MOUNT_READ, e->source, e->target, l->tree,
				kh_steal_fd(&e->fd));
	return true;
}

static bool plan_one_of_host(const struct listing *l, const char *name, struct entry *e,
			     struct kh_err *err)
{
	bool wanted = IN_LIST(name, etc_files) || IN_LIST(name, etc_folders);
	for (size_t i = 0; i < sizeof(etc_prefixes) / sizeof(etc_prefixes[0]); i++)
		wanted = wanted || strncmp(name, etc_prefixes[i], strlen(etc_prefixes[i])) == 0;
	if (wanted)
		return plan_entry(l, e, err);
	return !IN_LIST(name, etc_trees) || copy_tree(l, e, 0, err);
}

static bool plan_etc_of_host(struct kh_view *view, struct kh_err *err)
{
	const struct listing l = { .view = view, .source = "/etc", .target = "/etc" };
	int fd = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "/etc");
	return list(fd, &l, plan_one_of_host, err);
}

static bool plan_host(struct kh_view *view, struct kh_err *err)
{
	const struct listing l = { .view = view, .source = "/", .target = "/" };
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		kh_auto_free char *path = kh_strf("/%s", programs[i]);
		struct entry e = { .fd = -1, .source = path, .target = path };
		bool ok = path && (!hold_entry(&e, AT_FDCWD, path) || plan_entry(&l, &e, err));
		kh_cleanup_close(&e.fd);
		if (!ok)
			return false;
	}
	return plan_etc_of_host(view, err);
}

/* What the sandbox has of its own, whatever the root holds there. */
static const char *const replaced[] = { "dev", "proc", "sys", "run", "tmp", "home", "etc" };

static bool plan_one_of_etc(const struct listing *l, const char *name, struct entry *e,
			    struct kh_err *err)
{
	if (IN_LIST(name, etc_trees) || strcmp(name, "apt") == 0)
		return copy_tree(l, e, O_NOFOLLOW, err);
	return kh_view_has(l->view, e->target) || plan_entry(l, e, err);
}

static bool plan_one_of_root(const struct listing *l, const char *name, struct entry *e,
			     struct kh_err *err)
{
	return IN_LIST(name, replaced) || plan_entry(l, e, err);
}

/* The host's own root under whatever name: homes, /var and /run would be seen with it. */
static bool is_host_root(int fd)
{
	struct stat root, given;
	return stat("/", &root) != 0 || fstat(fd, &given) != 0 ||
	       (root.st_dev == given.st_dev && root.st_ino == given.st_ino);
}

static bool refuse_host_root(const char *rootfs, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_USAGE,
			  "--rootfs %s: is the host's own root (leave the option out to see its "
			  "programs)",
			  rootfs);
}

/* An agent may be writing to the root: from here on nothing of it is looked up by a path. */
static bool plan_rootfs(struct kh_view *view, const char *rootfs, struct kh_err *err)
{
	kh_auto_close int held = kh_file_hold(rootfs);
	int root = held < 0 ? -1 : openat(held, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return kh_err_sys(err, KH_ERR_USAGE, errno, "--rootfs %s", rootfs);
	if (is_host_root(root)) {
		close(root);
		return refuse_host_root(rootfs, err);
	}
	kh_auto_free char *etc = kh_strf("%s/etc", rootfs);
	if (!etc) {
		close(root);
		return kh_err_set(err, KH_ERR_NO_MEMORY, "the root: no memory");
	}
	const struct listing of_root = {
		.view = view, .source = rootfs, .target = "/", .tree = KH_TREE_AS_IS
	};
	const struct listing of_etc = {
		.view = view, .source = etc, .target = "/etc", .tree = KH_TREE_AS_IS
	};
	/* A link would lead to the host's. */
	int in_etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (!list(root, &of_root, plan_one_of_root, err)) {
		kh_cleanup_close(&in_etc);
		return false;
	}
	return list(in_etc, &of_etc, plan_one_of_etc, err);
}

/* What every root has of its own. */
static void plan_places(struct kh_view *view)
{
	kh_view_over(view, KH_MOUNT_PROC, "/proc", 0);
	kh_view_over(view, KH_MOUNT_DEV, "/dev", 0);
	kh_view_over(view, KH_MOUNT_SEAL, "/dev", 0);
	kh_view_over(view, KH_MOUNT_TMPFS, "/dev/shm", 01777);
	kh_view_over(view, KH_MOUNT_TMPFS, "/tmp", 01777);
}

/* The root as a whole. */
static bool plan_layer(struct kh_view *view, const char *rootfs, struct kh_err *err)
{
	kh_auto_close int fd = kh_file_hold(rootfs);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		return kh_err_sys(err, KH_ERR_USAGE, errno, "--rootfs %s", kh_esc_str(rootfs));
	if (is_host_root(fd))
		return refuse_host_root(rootfs, err);
	/* What is ours could not be put into it. */
	if (geteuid() != 0 && st.st_uid != geteuid())
		return kh_err_set(err, KH_ERR_USAGE,
				  "--rootfs %s:O: belongs to somebody else (start keyhole as its "
				  "owner or as root, or leave :O out)",
				  kh_esc_str(rootfs));
	/* As with a workspace: its owner's files are the sandbox's. */
	kh_view_bind_fd(view, KH_MOUNT_LAYER, rootfs, "/", KH_TREE_AS_OWNER, kh_steal_fd(&fd));
	plan_places(view);
	return true;
}

bool kh_root_plan(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	if (spec->layer)
		return plan_layer(view, spec->rootfs, err);
	/* It lies in the store of the engine's program. */
	if (spec->image) {
		plan_places(view);
		return true;
	}
	if (spec->rootfs ? !plan_rootfs(view, spec->rootfs, err) : !plan_host(view, err))
		return false;
	/* Programs expect them, and find nothing of the host there. */
	static const char *const empty[] = { "/var", "/opt", "/root", "/mnt", "/srv", "/run" };
	for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++)
		if (!kh_view_has(view, empty[i]))
			kh_view_dir(view, empty[i], 0755);
	if (!spec->rootfs)
		kh_view_link(view, "/tmp", "/var/tmp");
	plan_places(view);
	if (view->failed)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox's root: no memory");
	return true;
}
