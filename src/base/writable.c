/*
 * writable.c - could a sandbox change what a name on this host leads to?
 *
 * An agent must not be able to replace what keyhole reads, runs or connects to. The folders to
 * which sandboxes may write are kept in one list, as device and inode, so that neither another
 * spelling nor a second mount of such a folder hides it. A name is walked with descriptors
 * (link_end.c), and each folder on the way is looked up in that list.
 *
 * The folders of other runs are read anew from time to time (kh_writable_renew), so that none stays
 * whose run has ended. The records name them by path, and another agent may have exchanged what is
 * at a path since.
 */
#include <keyhole/base/writable.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/link_end.h>

struct place {
	dev_t dev; /* 0 and 0: unknown; nothing has these */
	ino_t ino;
	char *path; /* without links when it was added */
	char *what;
	enum kh_writable_for use;
	bool has_id, live;
	unsigned noted; /* by which _renew; 0: it was added */
	bool by_link;	/* there is a link in its path now: to be looked at when all are known */
};

static struct place *places;
static size_t n_places;
static unsigned renewals; /* those that were noted before the last one do not count any more */
static bool (*renew_places)(struct kh_err *err);

static bool counts(const struct place *one)
{
	return one->noted == 0 || one->noted == renewals;
}

/* One that nobody may go through who must not go through `use`. */
static struct place *find(dev_t dev, ino_t ino, enum kh_writable_for use)
{
	for (size_t i = 0; i < n_places; i++)
		if (counts(&places[i]) && places[i].has_id && places[i].dev == dev &&
		    places[i].ino == ino && places[i].use <= use)
			return &places[i];
	return NULL;
}

static bool no_memory(void)
{
	errno = ENOMEM;
	return false;
}

static void place_fini(struct place *place)
{
	free(place->path);
	free(place->what);
}

static bool append(const struct place *like)
{
	struct place *more = reallocarray(places, n_places + 1, sizeof(*more));

	if (!more)
		return no_memory();
	places = more;
	struct place *one = &more[n_places];
	*one = *like;
	one->path = strdup(like->path);
	one->what = strdup(like->what);
	if (one->path && one->what) {
		n_places++;
		return true;
	}
	place_fini(one);
	return no_memory();
}

/* Has that, for all, been added or noted by this path before? */
static bool is_known(const struct place *like)
{
	for (size_t i = 0; i < n_places; i++) {
		const struct place *one = &places[i];
		if (counts(one) && one->use == KH_WRITABLE_FOR_ALL && one->has_id == like->has_id &&
		    one->dev == like->dev && one->ino == like->ino && one->live >= like->live &&
		    strcmp(one->path, like->path) == 0)
			return true;
	}
	return false;
}

/* It is followed once: what is noted is what was there in that moment, as are its names. */
bool kh_writable_add(const char *folder, const char *what, enum kh_writable_for use)
{
	kh_auto_close int held = open(folder, O_PATH | O_CLOEXEC);

	return held >= 0 && kh_writable_add_held(held, what, use);
}

bool kh_writable_add_held(int held, const char *what, enum kh_writable_for use)
{
	kh_auto_free char *path = kh_file_held_path(held);
	struct stat st;

	if (!path || fstat(held, &st) != 0)
		return false;
	if (strcmp(path, "/") == 0)
		return true;
	if (!S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return false;
	}
	for (size_t i = 0; i < n_places; i++)
		if (!places[i].noted && places[i].has_id && places[i].dev == st.st_dev &&
		    places[i].ino == st.st_ino) {
			if (use == KH_WRITABLE_FOR_ALL)
				places[i].use = use;
			return true;
		}
	return append(&(struct place){ .dev = st.st_dev,
				       .ino = st.st_ino,
				       .path = path,
				       .what = (char *)(uintptr_t)what,
				       .use = use,
				       .has_id = true,
				       .live = true });
}

/* ---- the walk ---- */

enum answer { NO, YES, UNKNOWN };

struct meeting {
	enum kh_writable_for use;
	const struct place *met;
};

static void meet(void *arg, const struct stat *folder)
{
	struct meeting *m = arg;

	if (!m->met)
		m->met = find(folder->st_dev, folder->st_ino, m->use);
}

static enum answer walk(const char *path, struct meeting *m)
{
	kh_auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool known = root >= 0 && kh_link_end_each(root, path + strspn(path, "/"), meet, m);

	return m->met ? YES : known ? NO : UNKNOWN;
}

/* The end is looked at once more: /dev/stdin leads to a file whose name no link tells. */
static enum answer ask(const char *name, struct meeting *m)
{
	if (n_places == 0)
		return NO;
	kh_auto_free char *here = name[0] == '/' ? NULL : getcwd(NULL, 0);
	kh_auto_free char *path = name[0] == '/' ? strdup(name)
				  : here	 ? kh_strf("%s/%s", here, name)
						 : NULL;
	enum answer answer = path ? walk(path, m) : UNKNOWN;
	kh_auto_free char *end = answer == NO ? realpath(path, NULL) : NULL;

	return end && strcmp(end, path) != 0 ? walk(end, m) : answer;
}

bool kh_writable_is(const char *name, enum kh_writable_for use)
{
	struct meeting m = { .use = use };

	return ask(name, &m) != NO;
}

bool kh_writable_leads(const char *name, const char **folder)
{
	struct meeting m = { .use = KH_WRITABLE_FOR_ALL };
	enum answer answer = ask(name, &m);

	*folder = m.met ? m.met->what : NULL;
	return answer != NO;
}

static bool is_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && (path[len] == '/' || !path[len]);
}

bool kh_writable_check(const char *name, struct kh_err *err)
{
	struct meeting m = { .use = KH_WRITABLE_FOR_ALL };
	enum answer answer = ask(name, &m);

	if (answer == UNKNOWN)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "%s: can't tell whether it leads to where the agent may write "
				  "(name the file by its whole path)",
				  kh_esc_str(name));
	const char *base = strrchr(name, '/');
	bool below = answer != NO && is_below(name, m.met->path);
	return answer == NO ||
	       kh_err_set(err, KH_ERR_CONFIG,
			  "%s %s %s, where the agent may write (move it out of there%s%s)",
			  kh_esc_str(name), below ? "is in" : "is reached through", m.met->what,
			  below ? ", for example to ~/"
				: ", and name it by a path without a link in there",
			  below ? kh_esc_str(base ? base + 1 : name) : "");
}

bool kh_writable_any(void)
{
	for (size_t i = 0; i < n_places; i++)
		if (places[i].use == KH_WRITABLE_FOR_ALL)
			return true;
	return false;
}

void kh_writable_each(void (*each)(void *arg, const struct kh_writable_folder *folder), void *arg)
{
	for (size_t i = 0; i < n_places; i++) {
		const struct place *one = &places[i];
		const struct kh_writable_folder folder = {
			.path = one->path,
			.what = one->what,
			.has_id = one->has_id,
			.live = one->live,
			.dev = one->dev,
			.ino = one->ino,
		};
		if (one->use == KH_WRITABLE_FOR_ALL)
			each(arg, &folder);
	}
}

/* ---- the folders of other runs ---- */

/* Return: what is noted of it; false: nothing. */
static bool look(const struct kh_writable_folder *folder, struct place *out)
{
	struct stat st = { 0 };
	kh_auto_close int fd = kh_file_hold(folder->path);

	out->by_link = fd < 0 ? errno == ELOOP : fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);
	bool is_there = S_ISDIR(st.st_mode) &&
			(!folder->has_id || (st.st_dev == folder->dev && st.st_ino == folder->ino));
	if (is_there || (folder->has_id && folder->live)) {
		out->has_id = true;
		out->dev = is_there ? st.st_dev : folder->dev;
		out->ino = is_there ? st.st_ino : folder->ino;
		out->by_link = false;
	}
	return out->has_id || out->by_link;
}

bool kh_writable_note(const struct kh_writable_folder *folder)
{
	struct place one = { .path = (char *)(uintptr_t)folder->path,
			     .what = (char *)(uintptr_t)folder->what,
			     .use = KH_WRITABLE_FOR_ALL,
			     .live = folder->live,
			     .noted = renewals };

	return strcmp(folder->path, "/") == 0 || !look(folder, &one) || is_known(&one) ||
	       append(&one);
}

static void drop(size_t at)
{
	place_fini(&places[at]);
	memmove(&places[at], &places[at + 1], (--n_places - at) * sizeof(*places));
}

/* A link that is where an agent writes is that agent's, and its folder is in the list already. */
static bool follow(size_t at)
{
	struct stat st;
	struct place real = places[at];
	kh_auto_free char *path =
		kh_writable_is(real.path, KH_WRITABLE_FOR_ALL) ? NULL : realpath(real.path, NULL);

	if (!path || strcmp(path, "/") == 0 || stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return true;
	real.path = path;
	real.has_id = true;
	real.by_link = false;
	real.dev = st.st_dev;
	real.ino = st.st_ino;
	return is_known(&real) || append(&real);
}

/* One that is live, and of which only the path is known, stays: it is somewhere. */
static bool follow_links(void)
{
	bool ok = true;

	for (size_t i = 0, n = n_places; i < n; i++)
		ok = ok && (!places[i].by_link || places[i].live || follow(i));
	for (size_t i = n_places; i-- > 0;)
		if (places[i].by_link && !places[i].live)
			drop(i);
	return ok;
}

bool kh_writable_renew(bool (*note)(struct kh_err *err), struct kh_err *err)
{
	unsigned before = renewals++;
	bool noted = note(err);
	bool followed = noted && follow_links();

	if (!followed) { /* what was noted this time goes */
		for (size_t i = n_places; i-- > 0;)
			if (places[i].noted == renewals)
				drop(i);
		renewals = before;
	}
	for (size_t i = n_places; i-- > 0;)
		if (!counts(&places[i]))
			drop(i);
	return followed || (noted && kh_err_set(err, KH_ERR_NO_MEMORY, "no memory"));
}

void kh_writable_set_renew(bool (*renew)(struct kh_err *err))
{
	renew_places = renew;
}

bool kh_writable_refresh(struct kh_err *err)
{
	return !renew_places || renew_places(err);
}
