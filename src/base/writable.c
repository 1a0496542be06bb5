/*
 * writable.c - could a sandbox change what a name on this host leads to?
 *
 * What keyhole reads, runs or connects to must not be an agent's to exchange. The folders to which
 * sandboxes may write are kept in one list, as device and inode, so that neither another spelling
 * nor a second mount of such a folder hides it. A name is walked with descriptors (link_end.c), and
 * each folder on the way is looked up in that list.
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
	dev_t dev;
	ino_t ino;
	char *path; /* without links */
	char *what;
	enum kh_writable_for use;
};

static struct place *places;
static size_t n_places;
static bool (*more_places)(struct kh_err *err);

static struct place *find(dev_t dev, ino_t ino)
{
	for (size_t i = 0; i < n_places; i++)
		if (places[i].dev == dev && places[i].ino == ino)
			return &places[i];
	return NULL;
}

static bool no_memory(void)
{
	errno = ENOMEM;
	return false;
}

static bool append(const struct stat *st, const char *path, const char *what,
		   enum kh_writable_for use)
{
	struct place *more = reallocarray(places, n_places + 1, sizeof(*more));

	if (!more)
		return no_memory();
	places = more;
	struct place *one = &more[n_places];
	*one = (struct place){ st->st_dev, st->st_ino, strdup(path), strdup(what), use };
	if (one->path && one->what) {
		n_places++;
		return true;
	}
	free(one->path);
	free(one->what);
	return no_memory();
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
	struct place *known = find(st.st_dev, st.st_ino);
	if (!known)
		return append(&st, path, what, use);
	if (use == KH_WRITABLE_FOR_ALL)
		known->use = use;
	return true;
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
	const struct place *place = m->met ? NULL : find(folder->st_dev, folder->st_ino);

	if (place && place->use <= m->use)
		m->met = place;
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
	return answer == NO ||
	       kh_err_set(err, KH_ERR_CONFIG,
			  "%s %s %s, where the agent may write (move it out of there, and name it "
			  "by its whole path, which goes through no link in there)",
			  kh_esc_str(name),
			  is_below(name, m.met->path) ? "lies in" : "is reached through",
			  m.met->what);
}

bool kh_writable_any(void)
{
	for (size_t i = 0; i < n_places; i++)
		if (places[i].use == KH_WRITABLE_FOR_ALL)
			return true;
	return false;
}

static int by_path(const void *a, const void *b)
{
	const struct place *const *x = a, *const *y = b;

	return strcmp((*x)->path, (*y)->path);
}

void kh_writable_each(void (*each)(void *arg, const char *folder), void *arg)
{
	kh_auto_free struct place **sorted = calloc(n_places + 1, sizeof(struct place *));

	for (size_t i = 0; sorted && i < n_places; i++)
		sorted[i] = &places[i];
	if (sorted)
		qsort(sorted, n_places, sizeof(*sorted), by_path);
	for (size_t i = 0; i < n_places; i++) {
		const struct place *one = sorted ? sorted[i] : &places[i];
		if (one->use == KH_WRITABLE_FOR_ALL)
			each(arg, one->path);
	}
}

void kh_writable_set_more(bool (*more)(struct kh_err *err))
{
	more_places = more;
}

bool kh_writable_refresh(struct kh_err *err)
{
	return !more_places || more_places(err);
}
