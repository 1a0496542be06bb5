/*
 * root.c - the root of a sandbox: the host's programs, or a root of the caller's
 *
 * The host view is a list of what is seen, never of what is hidden: /usr and its kin, and files of
 * /etc that hold settings and no secret. Small files are copied into the sandbox's own root, which
 * costs no mount; a file that not everybody may read is never copied.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
	kh_auto_close int root = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* A pipe in its place is not waited for. */
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	kh_auto_close int fd =
		root < 0 ? -1 : (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	struct stat st;
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IROTH)
		       ? kh_steal_fd(&fd)
		       : -1;
}

/* A link, or a small file that everybody may read; anything else is left out. */
static bool copy_entry(struct kh_view *view, const char *source, const char *target,
		       const struct stat *st, struct kh_err *err)
{
	if (kh_view_has(view, target))
		return true;
	if (S_ISLNK(st->st_mode)) {
		char text[4096];
		ssize_t n = readlink(source, text, sizeof(text) - 1);
		if (n <= 0)
			return true;
		text[n] = '\0';
		kh_view_link(view, text, target);
		return true;
	}
	if (!S_ISREG(st->st_mode) || !(st->st_mode & S_IROTH))
		return true;
	struct kh_buf content kh_cleanup(kh_buf_fini);
	kh_buf_init(&content, COPY_MOST_BYTES);
	if (!kh_file_read(source, &content, NULL))
		return true;
	return kh_view_file(view, target, 0644, kh_buf_view(&content), err);
}

static bool copy_tree(struct kh_view *view, const char *source, const char *target, int depth,
		      struct kh_err *err)
{
	DIR *dir = depth < TREE_DEPTH ? opendir(source) : NULL;
	if (!dir)
		return true;
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
		    strcmp(name, "private") == 0)
			continue;
		kh_auto_free char *from = kh_strf("%s/%s", source, name);
		kh_auto_free char *to = kh_strf("%s/%s", target, name);
		struct stat st;
		if (!from || !to || lstat(from, &st) != 0)
			continue;
		if (S_ISDIR(st.st_mode))
			ok = copy_tree(view, from, to, depth + 1, err);
		else
			ok = copy_entry(view, from, to, &st, err);
	}
	closedir(dir);
	return ok;
}

static bool is_empty(const char *path)
{
	DIR *dir = opendir(path);
	if (!dir)
		return false;
	int entries = 0;
	while (entries <= 2 && readdir(dir))
		entries++;
	closedir(dir);
	return entries <= 2;
}

/* One entry of a root: links stay links, folders are mounted. */
static bool lay_entry(struct kh_view *view, const char *source, const char *target,
		      enum kh_tree tree, struct kh_err *err)
{
	struct stat st;
	if (lstat(source, &st) != 0)
		return true;
	if (!S_ISDIR(st.st_mode))
		return copy_entry(view, source, target, &st, err);
	/* An empty one is made anew, so that something may be mounted inside of it. */
	if (is_empty(source))
		kh_view_dir(view, target, 0755);
	else
		kh_view_bind(view, KH_MOUNT_READ, source, target, tree);
	return true;
}

static bool lay_etc_of_host(struct kh_view *view, struct kh_err *err)
{
	DIR *dir = opendir("/etc");
	if (!dir)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "/etc");
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		char path[sizeof("/etc/") + sizeof(entry->d_name)] = "/etc/";
		memcpy(path + strlen(path), name, strlen(name) + 1);
		bool wanted = IN_LIST(name, etc_files) || IN_LIST(name, etc_folders);
		for (size_t i = 0; i < sizeof(etc_prefixes) / sizeof(etc_prefixes[0]); i++)
			wanted = wanted ||
				 strncmp(name, etc_prefixes[i], strlen(etc_prefixes[i])) == 0;
		if (wanted)
			ok = lay_entry(view, path, path, KH_TREE_HOST, err);
		else if (IN_LIST(name, etc_trees))
			ok = copy_tree(view, path, path, 0, err);
	}
	closedir(dir);
	return ok;
}

static bool lay_host(struct kh_view *view, struct kh_err *err)
{
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		kh_auto_free char *path = kh_strf("/%s", programs[i]);
		if (!path || !lay_entry(view, path, path, KH_TREE_HOST, err))
			return false;
	}
	return lay_etc_of_host(view, err);
}

/* What the sandbox has of its own, whatever the root holds there. */
static const char *const replaced[] = { "dev", "proc", "sys", "run", "tmp", "home", "etc" };

static bool lay_etc_of(struct kh_view *view, const char *rootfs, struct kh_err *err)
{
	kh_auto_free char *etc = kh_strf("%s/etc", rootfs);
	/* A link would lead to the host's. */
	int fd = etc ? open(etc, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir)
		return true;
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		kh_auto_free char *from = kh_strf("%s/%s", etc, name);
		kh_auto_free char *to = kh_strf("/etc/%s", name);
		if (!from || !to)
			ok = kh_err_set(err, KH_ERR_NO_MEMORY, "the root: no memory");
		else if (IN_LIST(name, etc_trees) || strcmp(name, "apt") == 0)
			ok = copy_tree(view, from, to, 0, err);
		else if (!kh_view_has(view, to))
			ok = lay_entry(view, from, to, KH_TREE_AS_IS, err);
	}
	closedir(dir);
	return ok;
}

/* The host's own root under whatever name: homes, /var and /run would be seen with it. */
static bool is_host_root(const char *rootfs)
{
	struct stat root, given;
	return stat("/", &root) != 0 || stat(rootfs, &given) != 0 ||
	       (root.st_dev == given.st_dev && root.st_ino == given.st_ino);
}

static bool refuse_host_root(const char *rootfs, struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_USAGE,
			  "--rootfs %s: is the host's own root (leave the option out to see its "
			  "programs)",
			  rootfs);
}

static bool lay_rootfs(struct kh_view *view, const char *rootfs, struct kh_err *err)
{
	DIR *dir = opendir(rootfs);
	if (!dir)
		return kh_err_sys(err, KH_ERR_USAGE, errno, "--rootfs %s", rootfs);
	if (is_host_root(rootfs)) {
		(void)closedir(dir);
		return refuse_host_root(rootfs, err);
	}
	bool ok = true;
	const struct dirent *entry;
	while (ok && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || IN_LIST(name, replaced))
			continue;
		kh_auto_free char *from = kh_strf("%s/%s", rootfs, name);
		kh_auto_free char *to = kh_strf("/%s", name);
		if (from && to)
			ok = lay_entry(view, from, to, KH_TREE_AS_IS, err);
	}
	closedir(dir);
	return ok && lay_etc_of(view, rootfs, err);
}

/* What every root has of its own. */
static void lay_places(struct kh_view *view)
{
	kh_view_over(view, KH_MOUNT_PROC, "/proc", 0);
	kh_view_over(view, KH_MOUNT_DEV, "/dev", 0);
	kh_view_over(view, KH_MOUNT_SEAL, "/dev", 0);
	kh_view_over(view, KH_MOUNT_TMPFS, "/dev/shm", 01777);
	kh_view_over(view, KH_MOUNT_TMPFS, "/tmp", 01777);
}

/* The root as a whole. */
static bool lay_layer(struct kh_view *view, const char *rootfs, struct kh_err *err)
{
	if (is_host_root(rootfs))
		return refuse_host_root(rootfs, err);
	struct stat st;
	if (stat(rootfs, &st) != 0)
		return kh_err_sys(err, KH_ERR_USAGE, errno, "--rootfs %s", kh_esc_str(rootfs));
	/* What is ours could not be put into it. */
	if (geteuid() != 0 && st.st_uid != geteuid())
		return kh_err_set(err, KH_ERR_USAGE,
				  "--rootfs %s:O: belongs to somebody else (start keyhole as its "
				  "owner or as root, or leave :O out)",
				  kh_esc_str(rootfs));
	/* As with a workspace: its owner's files are the sandbox's. */
	if (!kh_view_bind_held(view, KH_MOUNT_LAYER, rootfs, "/", KH_TREE_AS_OWNER, err))
		return false;
	lay_places(view);
	return true;
}

bool kh_root_lay(struct kh_view *view, const struct kh_sandbox_spec *spec, struct kh_err *err)
{
	if (spec->layer)
		return lay_layer(view, spec->rootfs, err);
	/* It lies in the store of the engine's program. */
	if (spec->image) {
		lay_places(view);
		return true;
	}
	if (spec->rootfs ? !lay_rootfs(view, spec->rootfs, err) : !lay_host(view, err))
		return false;
	/* Programs expect them, and find nothing of the host there. */
	static const char *const empty[] = { "/var", "/opt", "/root", "/mnt", "/srv", "/run" };
	for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++)
		if (!kh_view_has(view, empty[i]))
			kh_view_dir(view, empty[i], 0755);
	if (!spec->rootfs)
		kh_view_link(view, "/tmp", "/var/tmp");
	lay_places(view);
	if (view->failed)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "the sandbox's root: no memory");
	return true;
}
