/* program.c - finds a program of the host by its name */
#include <keyhole/base/program.h>

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>
#include <keyhole/base/writable.h>

char *kh_program_find(const char *name)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t len = strcspn(path, ":");
		kh_auto_free char *entry = kh_strf("%.*s", (int)len, path);
		kh_auto_free char *program = kh_strf("%.*s/%s", (int)len, path, name);

		struct stat st;

		if (entry && program && entry[0] == '/' && access(program, X_OK) == 0 &&
		    stat(program, &st) == 0 && S_ISREG(st.st_mode) &&
		    !kh_writable_is(program, KH_WRITABLE_FOR_PROGRAMS))
			return kh_steal_ptr(&program);
		path += len + (path[len] == ':');
	}
	return NULL;
}

/* Folders through which no sandbox leads, each with a NUL: most links lead to the same few. */
static bool is_good_folder(struct kh_buf *good, const char *path, size_t len)
{
	struct kh_slice all = kh_buf_view(good), folder = { path, len };

	for (size_t at = 0; at < all.len; at += strlen(all.ptr + at) + 1)
		if (kh_slice_eq(kh_slice_str(all.ptr + at), folder))
			return true;
	kh_auto_free char *name = kh_strf("%.*s", (int)len, path);
	/* Without room in the list it is asked about again. */
	return name && !kh_writable_is(name, KH_WRITABLE_FOR_PROGRAMS) &&
	       (kh_buf_append(good, name, len + 1) || true);
}

enum { HOPS_MOST = 40 /* as the kernel */ };

/* Is the name, in a good folder, a link through or to what a sandbox could have changed? */
static bool leads_away(struct kh_buf *good, const char *name)
{
	char target[PATH_MAX];
	kh_auto_free char *at = strdup(name);

	for (int i = 0; at && i < HOPS_MOST; i++) {
		ssize_t n = readlink(at, target, sizeof(target) - 1);
		if (n < 0 && (errno == EINVAL || errno == ENOENT))
			return false;
		if (n <= 0)
			break;
		target[n] = '\0';
		kh_auto_free char *next =
			target[0] == '/'
				? strdup(target)
				: kh_strf("%.*s/%s", (int)(strrchr(at, '/') - at), at, target);
		const char *end = next ? strrchr(next, '/') + 1 : "";
		/* What only the whole walk can tell. */
		if (!*end || *end == '.' || strncmp(next, "/proc/", strlen("/proc/")) == 0)
			break;
		if (strchr(target, '/') && end - next > 1 &&
		    !is_good_folder(good, next, (size_t)(end - next) - 1))
			return true;
		free(at);
		at = kh_steal_ptr(&next);
	}
	return kh_writable_is(name, KH_WRITABLE_FOR_PROGRAMS);
}

enum { GOOD_FOLDERS_BYTES = 16 * 1024 };

/* Has the folder a link to what a sandbox could have changed? What can't be listed may have one,
 * where there is a sandbox. *which, or NULL: its path, on the heap. */
static bool has_link_away(const char *folder, char **which)
{
	struct kh_buf good kh_cleanup(kh_buf_fini);
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	bool away = !dir && kh_writable_any();

	kh_buf_init(&good, GOOD_FOLDERS_BYTES);
	/* cppcheck-suppress readdirCalled ; nobody else has this stream */
	while (dir && !away && (errno = 0, entry = readdir(dir))) {
		if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
			continue;
		kh_auto_free char *name = kh_strf("%s/%s", folder, entry->d_name);
		away = !name || leads_away(&good, name);
		if (away && which)
			*which = kh_steal_ptr(&name);
	}
	if (!dir)
		return away;
	away = away || errno;
	closedir(dir);
	return away;
}

static bool is_users_own(const char *entry)
{
	return entry[0] == '/' && access(entry, F_OK) == 0 &&
	       !kh_writable_is(entry, KH_WRITABLE_FOR_PROGRAMS);
}

static bool is_good_entry(const char *entry)
{
	return is_users_own(entry) && !has_link_away(entry, NULL);
}

/* In an empty PATH programs look in the working folder. */
#define NOWHERE "/nonexistent"

static char *good_entries(const char *path)
{
	char *out = strdup("");

	while (out && path && *path) {
		size_t len = strcspn(path, ":");
		kh_auto_free char *entry = kh_strf("%.*s", (int)len, path);
		kh_auto_free char *before = out;

		path += len + (path[len] == ':');
		out = !entry ? NULL
		      : !is_good_entry(entry)
			      ? kh_steal_ptr(&before)
			      : kh_strf("%s%s%s", before, *before ? ":" : "", entry);
	}
	if (out && !*out) {
		free(out);
		out = strdup(NOWHERE);
	}
	return out;
}

char *kh_program_path(void)
{
	return good_entries(getenv("PATH"));
}

char *kh_program_link_away(void)
{
	const char *path = getenv("PATH");
	char *link = NULL;

	while (path && *path && !link) {
		size_t len = strcspn(path, ":");
		kh_auto_free char *entry = kh_strf("%.*s", (int)len, path);

		if (entry && is_users_own(entry))
			(void)has_link_away(entry, &link);
		path += len + (path[len] == ':');
	}
	return link;
}

static bool is_path(const char *variable)
{
	return strncmp(variable, "PATH=", strlen("PATH=")) == 0;
}

char **kh_program_environment(char *const *given)
{
	char *const *from = given ? given : environ;
	size_t n = 0, room = 0;
	for (; from && from[n]; n++)
		room += is_path(from[n]) ? strlen(from[n]) + sizeof(NOWHERE) : 0;
	char **out = malloc((n + 1) * sizeof(*out) + room);
	char *text = (char *)(out + n + 1);

	for (size_t i = 0; out && i < n; i++) {
		out[i] = from[i];
		if (!is_path(from[i]))
			continue;
		kh_auto_free char *path = good_entries(from[i] + strlen("PATH="));
		kh_auto_free char *entry = path ? kh_strf("PATH=%s", path) : NULL;
		if (!entry) {
			free(out);
			return NULL;
		}
		out[i] = memcpy(text, entry, strlen(entry) + 1);
		text += strlen(entry) + 1;
	}
	if (out)
		out[n] = NULL;
	return out;
}
