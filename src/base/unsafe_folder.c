/*
 * unsafe_folder.c - could another user exchange what a path leads to?
 *
 * Who may rename the names in a folder can put another folder in the place of one of them, with
 * older files of ours in it, or files that lead elsewhere. So each folder on the way counts, and
 * not only the last, as sshd (StrictModes) and sudo see it. A folder is judged before anything in
 * it is looked at, so nobody can exchange in between what was judged.
 */
#include <keyhole/base/unsafe_folder.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

enum { LINKS_MOST = 40 };

struct way {
	uid_t user;
	struct stat home; /* the user's own; st_ino 0: none is known */
	unsigned links;
	bool no_memory;
	enum kh_unsafe worst;
	char *folder; /* the first that is as bad */
};

/* In a user namespace root may have no number here. */
static bool is_roots(const struct stat *st)
{
	struct stat root;
	return st->st_uid == 0 || (stat("/", &root) == 0 && st->st_uid == root.st_uid);
}

static void find_home(struct way *way)
{
	const char *home = getenv("HOME");
	if (!home || home[0] != '/' || stat(home, &way->home) != 0 || way->home.st_uid != way->user)
		way->home.st_ino = 0;
}

/* Whoever may exchange the home can change what the user starts and trusts anyway. */
static bool is_home(const struct way *way, const struct stat *st)
{
	return way->home.st_ino && st->st_ino == way->home.st_ino && st->st_dev == way->home.st_dev;
}

static void forget(struct way *way)
{
	free(way->folder);
	way->folder = NULL;
	way->worst = KH_UNSAFE_NOT;
}

/* The worse of the two. */
static void add(struct way *way, struct way *part)
{
	if (part->worst > way->worst) {
		free(way->folder);
		way->folder = kh_steal_ptr(&part->folder);
		way->worst = part->worst;
	}
	forget(part);
}

static void judge(struct way *way, const char *folder)
{
	struct stat st;
	if (stat(folder, &st) != 0)
		return;
	if (is_home(way, &st))
		forget(way);
	enum kh_unsafe found = st.st_uid != way->user && !is_roots(&st)	      ? KH_UNSAFE_OWNER
			       : kh_file_others_may_rename(folder, st.st_uid) ? KH_UNSAFE_WRITABLE
									      : KH_UNSAFE_NOT;
	if (found <= way->worst)
		return;
	free(way->folder);
	way->folder = strdup(folder);
	way->worst = found;
}

/* What the link at `path` leads to, with `rest` after it. NULL: it can't be read, or no memory. */
static char *target_of(struct way *way, const char *path, size_t parent_len, const char *rest)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return NULL;
	target[n] = '\0';
	char *all = target[0] == '/' ? kh_strf("%s%s", target, rest)
				     : kh_strf("%.*s%s%s", (int)parent_len, path, target, rest);
	way->no_memory = way->no_memory || !all;
	return all;
}

/* `path` is absolute. Return: where to go on, on the heap. NULL: this was all. */
static char *walk(struct way *way, const char *path)
{
	kh_auto_free char *part = strdup(path);
	struct stat st;
	way->no_memory = way->no_memory || !part;
	judge(way, "/");
	for (size_t at = strspn(path, "/"); part && path[at];) {
		size_t end = at + strcspn(path + at, "/");
		part[end] = '\0';
		if (lstat(part, &st) != 0)
			return NULL;
		if (S_ISLNK(st.st_mode))
			return way->links++ < LINKS_MOST ? target_of(way, part, at, path + end)
							 : NULL;
		if (!S_ISDIR(st.st_mode))
			return NULL;
		judge(way, part);
		part[end] = path[end];
		at = end + strspn(path + end, "/");
	}
	return NULL;
}

/* Of the folder that is to hold it. */
static uid_t owner_of_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	kh_auto_free char *folder = kh_slice_dup(kh_slice_of(path, (size_t)(slash - path) + 1));
	struct stat st;
	return folder && stat(folder, &st) == 0 ? st.st_uid : (uid_t)-1;
}

static void describe(const struct way *way, struct kh_err *err)
{
	const char *shown = way->folder ? kh_esc_str(way->folder) : "on the way";
	struct stat st = { 0 };
	(void)(way->folder && stat(way->folder, &st));
	if (way->worst == KH_UNSAFE_OWNER)
		kh_err_set(err, KH_ERR_CONFIG,
			   "the folder %s belongs to uid %ld, who could put another one in the "
			   "place of what is in it (chown it, or choose a path of which each "
			   "folder is root's or the daemon's user's)",
			   shown, (long)st.st_uid);
	else
		kh_err_set(err, KH_ERR_CONFIG,
			   "others may write to the folder %s (mode %04o), so they could put "
			   "another one in the place of what is in it (chmod go-w, or chmod +t)",
			   shown, (unsigned)(st.st_mode & 07777));
}

enum kh_unsafe kh_unsafe_folder(const char *path, uid_t user, struct kh_err *err)
{
	kh_auto_free char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
	char *next = here ? kh_path_join(here, path) : strdup(path);
	struct way way = { .user = user, .no_memory = !next };
	if (next && next[0] == '/' && user == (uid_t)-1)
		way.user = owner_of_folder(next);
	find_home(&way);
	/* What lies above the home is forgotten, but not a folder with a link to there. */
	while (next && next[0] == '/') {
		kh_auto_free char *now = next;
		struct way part = { .user = way.user, .home = way.home, .links = way.links };
		next = walk(&part, now);
		way.links = part.links;
		way.no_memory = way.no_memory || part.no_memory;
		add(&way, &part);
	}
	free(next);
	if (way.no_memory) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "no memory to look at its folders");
		way.worst = KH_UNSAFE_OWNER;
	} else if (way.worst != KH_UNSAFE_NOT) {
		describe(&way, err);
	}
	free(way.folder);
	return way.worst;
}
