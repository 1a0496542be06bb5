/*
 * run_links.c - symbolic links on the way to the folders that a sandbox is given
 *
 * The caller names a folder by its path, and an agent of an earlier run could have replaced a
 * folder on that path with a link, so that the sandbox gets a folder that nobody meant. Each link
 * on the way that the user, and so the agent, could have made is reported. One in a folder where an
 * agent may write now is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/writable.h>

#include "run_internal.h"

enum { HOPS_MOST = 40 /* as the kernel */ };

/* ---- the walk ---- */

struct way {
	char *at;   /* without links; "" is the root */
	char *rest; /* what is still to be gone */
	int hops;
};

static void way_fini(struct way *way)
{
	free(way->at);
	free(way->rest);
}

static bool is_part(const char *part, size_t len, const char *wanted)
{
	return strlen(wanted) == len && memcmp(part, wanted, len) == 0;
}

/* Into the folder `name`, or to where the link leads that has this name. */
static bool enter(struct way *way, char *name, const char *behind, bool *is_link)
{
	char target[PATH_MAX];
	ssize_t n = readlink(name, target, sizeof(target) - 1);
	*is_link = n > 0;
	if (!*is_link) {
		free(way->at);
		way->at = name;
		memmove(way->rest, behind, strlen(behind) + 1);
		return true;
	}
	free(name);
	target[n] = '\0';
	char *rest = ++way->hops <= HOPS_MOST ? kh_strf("%s/%s", target, behind) : NULL;
	if (!rest)
		return false;
	free(way->rest);
	way->rest = rest;
	if (target[0] == '/')
		way->at[0] = '\0';
	return true;
}

/* One step. *link: the name of a link that was met, on the heap; else NULL. Return: false: it can't
 * be told where that leads. */
static bool step(struct way *way, char **link)
{
	const char *part = way->rest + strspn(way->rest, "/");
	size_t len = strcspn(part, "/");
	bool up = is_part(part, len, ".."), is_link = false;
	*link = NULL;
	if (up || is_part(part, len, ".")) {
		char *slash = up ? strrchr(way->at, '/') : NULL;
		if (slash)
			*slash = '\0';
		memmove(way->rest, part + len, strlen(part + len) + 1);
		return true;
	}
	char *name = kh_strf("%s/%.*s", way->at, (int)len, part);
	kh_auto_free char *copy = name ? strdup(name) : NULL;
	if (!copy) {
		free(name);
		return false;
	}
	bool ok = enter(way, name, part + len, &is_link);
	if (ok && is_link)
		*link = kh_steal_ptr(&copy);
	return ok;
}

/* ---- which links count ---- */

static bool is_in(const char *folder, const char *top)
{
	size_t len = strlen(top);
	return strncmp(folder, top, len) == 0 && (folder[len] == '/' || !folder[len]);
}

/* Of root's links an agent never has one here, also not root's. */
static bool is_systems(const char *folder)
{
	static const char *const tops[] = { "/usr", "/etc",   "/bin",	"/sbin", "/lib",
					    "/dev", "/lib32", "/lib64", "/run" };
	if (strcmp(folder, "/") == 0 || strcmp(folder, "/var") == 0)
		return true;
	for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++)
		if (is_in(folder, tops[i]))
			return true;
	return false;
}

/* Could an agent of this user's have made it? */
static bool may_be_an_agents(const char *link, const char *folder)
{
	struct stat st, above;
	/* The kernel's, whoever has them. */
	if (is_in(folder, "/proc") || is_in(folder, "/sys"))
		return false;
	if (lstat(link, &st) != 0 || stat(folder, &above) != 0)
		return true;
	bool roots = st.st_uid == 0 && above.st_uid == 0;
	if (roots && (geteuid() != 0 || is_systems(folder)))
		return false;
	return st.st_uid == geteuid() || above.st_uid == geteuid() ||
	       faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) == 0;
}

static bool note(struct kh_run_options *o, const char *option, const char *given, const char *real,
		 const char *link)
{
	const char *slash = strrchr(link, '/');
	kh_auto_free char *folder =
		slash == link ? strdup("/") : strndup(link, (size_t)(slash - link));
	if (!folder)
		return false;
	if (!may_be_an_agents(link, folder))
		return true;
	kh_cli_complain("%s %s: warning: %s is a symbolic link, and the sandbox gets what it leads "
			"to: %s",
			option, kh_esc_str(given), kh_esc_str(link), kh_esc_str(real));
	struct kh_run_link *more = reallocarray(o->on_way, o->n_on_way + 1, sizeof(*more));
	if (!more)
		return false;
	o->on_way = more;
	struct kh_run_link *one = &more[o->n_on_way++];
	*one = (struct kh_run_link){ option, kh_steal_ptr(&folder), strdup(link), strdup(real) };
	return one->link && one->real;
}

static bool go(struct way *way, struct kh_run_options *o, const char *option, const char *path,
	       const char *real)
{
	bool ok = true;
	while (ok && way->rest[strspn(way->rest, "/")]) {
		kh_auto_free char *link = NULL;
		ok = step(way, &link) && (!link || note(o, option, path, real, link));
	}
	return ok && strcmp(way->at[0] ? way->at : "/", real) == 0;
}

/* It has to end where the kernel's own walk did: an agent may exchange something meanwhile. */
static bool walk(struct kh_run_options *o, const char *option, const char *path, const char *real)
{
	kh_auto_free char *here = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
	struct way way = { strdup(""), here ? kh_strf("%s/%s", here, path) : NULL, 0 };
	bool ok = way.at && way.rest && go(&way, o, option, path, real);
	way_fini(&way);
	return ok;
}

bool kh_run_resolve(struct kh_run_options *o, const char *option, const char *path, char **out,
		    int *held)
{
	struct kh_err err = KH_ERR_INIT;
	free(*out);
	*out = realpath(path, NULL);
	if (!*out) {
		kh_cli_complain("%s %s: %s", option, kh_esc_str(path), strerror(errno));
		return false;
	}
	kh_auto_close int fd = kh_file_hold_again(*out, NULL, &err);
	if (fd < 0) {
		kh_cli_complain("%s %s", option, err.text);
		return false;
	}
	if (held)
		kh_cleanup_close(held);
	if (walk(o, option, path, *out)) {
		if (held)
			*held = kh_steal_fd(&fd);
		return true;
	}
	kh_cli_complain("%s %s: can't tell which symbolic links are on the way (name %s)", option,
			kh_esc_str(path), kh_esc_str(*out));
	return false;
}

bool kh_run_links_check(const struct kh_run_options *o, struct kh_err *err)
{
	for (size_t i = 0; i < o->n_on_way; i++) {
		const struct kh_run_link *one = &o->on_way[i];
		if (kh_writable_is(one->folder, KH_WRITABLE_FOR_ALL))
			return kh_err_set(err, KH_ERR_CONFIG,
					  "%s: %s is a symbolic link that an agent could have "
					  "made (if it is yours, name what it leads to: %s)",
					  one->option, kh_esc_str(one->link),
					  kh_esc_str(one->real));
	}
	return true;
}

void kh_run_links_free(struct kh_run_options *o)
{
	for (size_t i = 0; i < o->n_on_way; i++) {
		free(o->on_way[i].folder);
		free(o->on_way[i].link);
		free(o->on_way[i].real);
	}
	free(o->on_way);
}
