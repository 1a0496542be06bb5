/*
 * review.c - reviews: their folders, their locks, and how one begins and ends
 *
 *   $XDG_STATE_HOME/keyhole/review/ID/   0700
 *     review.json     workspace and which folder that is, engine, overlay or copy
 *     base            what the workspace held (review_base.c)
 *     layers/upper    what the agent wrote, over the workspace   (overlay)
 *     layers/work     overlayfs's own                            (overlay)
 *     tree            the copy that the agent works in           (copy)
 *
 * A run, and each command that changes something, holds a lock on the folder; the kernel releases
 * it however they end. review.json is written last: a folder without it was not completed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/json_load.h>
#include <keyhole/base/log.h>

#include "homes.h"
#include "review_internal.h"
#include "sandbox_internal.h"

enum { META_BYTES = 64 * 1024, ID_CHARS = 8 };

void kh_review_fini(struct kh_review *review)
{
	free(review->id);
	free(review->path);
	free(review->workspace);
	free(review->engine);
	free(review->why);
	free(review->folder);
	if (review->lock >= 0)
		close(review->lock);
	if (review->top >= 0)
		close(review->top);
	*review = (struct kh_review){ .lock = -1, .top = -1 };
}

char *kh_review_home(struct kh_err *err)
{
	kh_auto_free char *state = kh_file_state_home(err);
	char *home = state ? kh_strf("%s/keyhole/review", state) : NULL;
	if (state && !home)
		kh_err_set(err, KH_ERR_NO_MEMORY, "a review: no memory");
	return home;
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "a review: no memory");
}

static bool is_id(const char *text)
{
	return strlen(text) == ID_CHARS && kh_hex_is_valid(kh_slice_str(text));
}

/* ---- what is written of one ---- */

static bool write_meta(const struct kh_review *review, struct kh_err *err)
{
	kh_auto_free char *path = kh_strf("%s/" KH_REVIEW_META, review->path);
	/* A path need not be UTF-8; JSON is. */
	json_t *bytes = json_array();
	for (const char *c = review->workspace; *c; c++)
		json_array_append_new(bytes, json_integer((unsigned char)*c));
	const struct kh_review_place *place = &review->place;
	json_t *meta =
		json_pack("{s:o, s:s, s:b, s:s*, s:I, s:{s:I, s:I, s:I, s:I}}", "workspace", bytes,
			  "engine", review->engine, "overlay", (int)review->overlay, "why",
			  review->why, "started", (json_int_t)review->started, "place", "dev",
			  (json_int_t)place->dev, "ino", (json_int_t)place->ino, "born_s",
			  (json_int_t)place->born_s, "born_ns", (json_int_t)place->born_ns);
	kh_auto_free char *text = meta ? json_dumps(meta, JSON_COMPACT) : NULL;
	json_decref(meta);
	return path && text ? kh_file_write(path, kh_slice_str(text), 0600, err) : no_memory(err);
}

static char *workspace_of(const json_t *bytes)
{
	size_t n = json_array_size(bytes);
	char *path = n ? calloc(n + 1, 1) : NULL;
	for (size_t i = 0; path && i < n; i++)
		path[i] = (char)json_integer_value(json_array_get(bytes, i));
	if (path && path[0] == '/')
		return path;
	free(path);
	return NULL;
}

static json_int_t number_of(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

static bool read_meta(struct kh_review *review)
{
	kh_auto_free char *path = kh_strf("%s/" KH_REVIEW_META, review->path);
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, META_BYTES);
	if (!path || !kh_file_read_private(path, &text, NULL))
		return false;
	json_t *meta = kh_json_load(kh_buf_view(&text), 0, NULL);
	const char *engine = json_string_value(json_object_get(meta, "engine"));
	const char *why = json_string_value(json_object_get(meta, "why"));
	review->workspace = workspace_of(json_object_get(meta, "workspace"));
	review->engine = engine ? strdup(engine) : NULL;
	review->why = why ? strdup(why) : NULL;
	review->overlay = json_is_true(json_object_get(meta, "overlay"));
	review->started = number_of(meta, "started");
	const json_t *place = json_object_get(meta, "place");
	review->place.dev = (uint64_t)number_of(place, "dev");
	review->place.ino = (uint64_t)number_of(place, "ino");
	review->place.born_s = number_of(place, "born_s");
	review->place.born_ns = (uint32_t)number_of(place, "born_ns");
	review->folder =
		kh_strf("%s/%s", review->path, review->overlay ? KH_REVIEW_LAYERS : KH_REVIEW_TREE);
	json_decref(meta);
	if (review->workspace && review->engine && review->folder)
		return true;
	free(kh_steal_ptr(&review->workspace));
	return false;
}

/* ---- finding them ---- */

/* Whoever lists reviews holds it for a moment. */
static bool lock(const struct kh_review *review, int how, struct kh_err *err)
{
	enum { TRIES = 25, PAUSE_NS = 4 * 1000 * 1000 };
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	for (int i = 0; i < TRIES; i++) {
		if (flock(review->lock, how | LOCK_NB) == 0)
			return true;
		(void)nanosleep(&pause, NULL);
	}
	return kh_err_set(err, KH_ERR_USAGE,
			  "the review %s is in use: a run, or another command, works on it "
			  "(wait for its end)",
			  review->id);
}

bool kh_review_share(const struct kh_review *review, struct kh_err *err)
{
	return lock(review, LOCK_SH, err);
}

void kh_review_give_back(const struct kh_review *review)
{
	(void)flock(review->lock, LOCK_UN);
}

static bool hold(struct kh_review *review, bool wait, struct kh_err *err)
{
	struct stat st;
	review->lock = open(review->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (review->lock < 0 || fstat(review->lock, &st) != 0)
		return kh_err_sys(err, KH_ERR_USAGE, errno, "the review %s", review->id);
	if (st.st_uid != geteuid() || (st.st_mode & 0077) != 0)
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "%s: is open to others (it has to be yours, with mode 0700)",
				  kh_esc_str(review->path));
	return !wait || lock(review, LOCK_EX, err);
}

static bool find(struct kh_review *out, const char *id, struct kh_err *err)
{
	*out = (struct kh_review){ .lock = -1, .top = -1 };
	if (!is_id(id))
		return kh_err_set(err, KH_ERR_USAGE,
				  "%s: no such review (`keyhole workspace ls` lists them)",
				  kh_esc_str(id));
	kh_auto_free char *home = kh_review_home(err);
	if (!home)
		return false;
	out->id = strdup(id);
	out->path = kh_strf("%s/%s", home, id);
	if (!out->id || !out->path)
		return no_memory(err);
	return access(out->path, F_OK) == 0 ||
	       kh_err_set(err, KH_ERR_USAGE,
			  "%s: no such review (`keyhole workspace ls` lists them)", id);
}

bool kh_review_open(struct kh_review *out, const char *id, bool exclusive, struct kh_err *err)
{
	if (!find(out, id, err) || !hold(out, exclusive, err))
		return false;
	if (!exclusive) {
		/* Asked of a descriptor of its own, and at once given back. */
		out->running = flock(out->lock, LOCK_SH | LOCK_NB) != 0;
		(void)flock(out->lock, LOCK_UN);
	}
	(void)read_meta(out);
	return true;
}

static int by_start(const void *a, const void *b)
{
	const struct kh_review *x = a, *y = b;
	if (x->started != y->started)
		return x->started < y->started ? -1 : 1;
	return strcmp(x->id, y->id);
}

struct kh_review *kh_reviews(size_t *n, struct kh_err *err)
{
	kh_auto_free char *home = kh_review_home(err);
	struct kh_review *list = home ? calloc(1, sizeof(*list)) : NULL;
	*n = 0;
	DIR *dir = list ? opendir(home) : NULL;
	if (!list) {
		if (home)
			no_memory(err);
		return NULL;
	}
	const struct dirent *entry;
	while (dir && (entry = readdir(dir))) {
		struct kh_review one, *more;
		if (!is_id(entry->d_name))
			continue;
		more = kh_review_open(&one, entry->d_name, false, NULL)
			       ? reallocarray(list, *n + 1, sizeof(*list))
			       : NULL;
		if (more) {
			list = more;
			list[(*n)++] = one;
		} else {
			kh_review_fini(&one);
		}
	}
	if (dir)
		closedir(dir);
	if (*n > 1)
		qsort(list, *n, sizeof(*list), by_start);
	return list;
}

void kh_reviews_free(struct kh_review *list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		kh_review_fini(&list[i]);
	free(list);
}

int kh_review_upper(const struct kh_review *review, struct kh_err *err)
{
	kh_auto_free char *path = kh_strf("%s%s", review->folder, review->overlay ? "/upper" : "");
	int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (fd < 0)
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "the review %s", review->id);
	return fd;
}

/* ---- beginning ---- */

static bool make_folder(struct kh_review *review, struct kh_err *err)
{
	kh_auto_free char *given = kh_review_home(err);
	if (!given)
		return false;
	if (!kh_file_mkdirs(given, 0700, err))
		return false;
	/* What is mounted is looked up through no link. */
	kh_auto_free char *home = realpath(given, NULL);
	for (int tries = 0; home && tries < 16; tries++) {
		uint32_t number;
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			break;
		free(review->id);
		free(review->path);
		review->id = kh_strf("%08x", number);
		review->path = review->id ? kh_strf("%s/%s", home, review->id) : NULL;
		if (!review->path)
			return no_memory(err);
		if (mkdir(review->path, 0700) == 0)
			return true;
		if (errno != EEXIST)
			break;
	}
	return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a folder for a review in %s",
			  kh_esc_str(given));
}

/* Inside it is the workspace's own top: it has its mode, and the sandbox is its owner. */
static bool make_top(const char *path, const struct stat *workspace, struct kh_err *err)
{
	bool ok = mkdir(path, 0700) == 0;
	if (ok && geteuid() == 0)
		ok = chown(path, KH_SANDBOX_HOST_UID, KH_SANDBOX_HOST_GID) == 0;
	ok = ok && chmod(path, (workspace->st_mode & 0777) | 0700) == 0;
	return ok || kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
}

static bool make_layers(struct kh_review *review, const struct stat *workspace, struct kh_err *err)
{
	kh_auto_free char *upper = kh_strf("%s/upper", review->folder);
	kh_auto_free char *work = kh_strf("%s/work", review->folder);
	if (!upper || !work)
		return no_memory(err);
	return make_top(review->folder, workspace, err) && make_top(upper, workspace, err) &&
	       make_top(work, workspace, err);
}

/* Docker's daemon mounts by itself. */
static bool wants_copy(const char *engine)
{
	return strcmp(engine, "docker") == 0;
}

static bool choose(struct kh_review *review, const struct stat *workspace, struct kh_err *err)
{
	struct kh_err why = KH_ERR_INIT;
	review->folder = kh_strf("%s/" KH_REVIEW_LAYERS, review->path);
	if (!review->folder)
		return no_memory(err);
	if (wants_copy(review->engine)) {
		review->why = strdup("the engine mounts folders by itself");
	} else {
		review->overlay = make_layers(review, workspace, &why) &&
				  kh_review_try_overlay(review->workspace, review->folder, &why);
		if (review->overlay)
			return true;
		(void)kh_tree_remove(AT_FDCWD, review->folder, NULL);
		review->why = strdup(why.text);
	}
	free(review->folder);
	review->folder = kh_strf("%s/" KH_REVIEW_TREE, review->path);
	if (!review->folder || !review->why)
		return no_memory(err);
	return make_top(review->folder, workspace, err);
}

static void say_left_out(const struct kh_review *review, uint64_t n)
{
	if (n > 0 && !review->overlay)
		kh_log_warn("--workspace %s: %llu files that can't be read or copied are not in "
			    "the copy",
			    kh_esc_str(review->workspace), (unsigned long long)n);
}

static bool take_note(const struct kh_review *review, const char *name, int tree,
		      const struct stat *workspace, struct kh_err *err)
{
	const struct kh_review_owner owner = { .change = geteuid() == 0, .workspace = *workspace };
	kh_auto_free char *path = kh_strf("%s/%s", review->path, name);
	kh_auto_close int folder = kh_review_workspace(review, err);
	struct kh_base_writer base = { 0 };
	uint64_t left_out = 0;
	if (folder < 0)
		return false;
	if (!path || !kh_base_create(&base, path, false, err))
		return path ? false : no_memory(err);
	bool ok = kh_review_take(folder, tree, &base, &owner, &left_out, err);
	ok = kh_base_finish(&base, err) && ok;
	say_left_out(review, left_out);
	return ok;
}

/* The agent would see what it and others write. */
static bool check_apart(const struct kh_review *review, struct kh_err *err)
{
	size_t len = strlen(review->workspace);
	return strncmp(review->path, review->workspace, len) != 0 || review->path[len] != '/' ||
	       kh_err_set(
		       err, KH_ERR_USAGE,
		       "--workspace %s:review: reviews lie below it, in %s (set XDG_STATE_HOME to "
		       "another place)",
		       kh_esc_str(review->workspace), kh_esc_str(review->path));
}

static bool check_workspace(const char *path, struct kh_err *err)
{
	return kh_workspace_check(path, err) &&
	       kh_homes_check("--workspace", path, "name the folder of one project in it", err);
}

bool kh_review_new(struct kh_review *out, const char *workspace, const char *engine,
		   struct kh_err *err)
{
	struct stat st;
	*out = (struct kh_review){ .lock = -1, .top = -1, .started = (int64_t)time(NULL) };
	out->workspace = strdup(workspace);
	out->engine = strdup(engine);
	if (!out->workspace || !out->engine)
		return no_memory(err);
	if (!check_workspace(workspace, err) || !kh_review_place_take(out, &st, err) ||
	    !make_folder(out, err))
		return false;
	bool ok = check_apart(out, err) && hold(out, true, err) && choose(out, &st, err);
	if (ok) {
		kh_auto_close int tree = out->overlay ? -1 : kh_review_upper(out, err);
		ok = (out->overlay || tree >= 0) &&
		     take_note(out, KH_REVIEW_BASE, tree, &st, err) && write_meta(out, err);
	}
	if (!ok)
		(void)kh_tree_remove(AT_FDCWD, out->path, NULL);
	return ok;
}

/* ---- going on ---- */

/*
 * What the agent sees of the workspace is what that is now, but for what the agent wrote itself:
 * of that the note stays which was taken when it began.
 */
static bool merge(const struct kh_review *review, const struct kh_base *old,
		  const struct kh_base *now, struct kh_err *err)
{
	struct kh_base_writer base = { 0 };
	kh_auto_free char *path = kh_strf("%s/" KH_REVIEW_BASE ".new", review->path);
	kh_auto_free char *final = kh_strf("%s/" KH_REVIEW_BASE, review->path);
	kh_auto_close int upper = kh_review_upper(review, err);
	if (upper < 0 || !path || !final || !kh_base_create(&base, path, false, err))
		return false;
	bool ok = true;
	struct stat st;
	for (size_t i = 0; ok && i < now->n; i++)
		if (kh_upper_look(upper, now->rows[i].path, &st) == KH_UPPER_NOTHING ||
		    S_ISDIR(now->rows[i].entry.mode))
			ok = kh_base_note_entry(&base, now->rows[i].path, &now->rows[i].entry);
	for (size_t i = 0; ok && i < old->n; i++)
		if (kh_upper_look(upper, old->rows[i].path, &st) != KH_UPPER_NOTHING)
			ok = kh_base_note_entry(&base, old->rows[i].path, &old->rows[i].entry);
	ok = kh_base_finish(&base, err) && ok;
	return (ok && rename(path, final) == 0) ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "the notes of a review");
}

static bool note_again(const struct kh_review *review, const struct stat *workspace,
		       struct kh_err *err)
{
	static const char name[] = KH_REVIEW_BASE ".now";
	struct kh_base old kh_cleanup(kh_base_fini) = { 0 };
	struct kh_base now kh_cleanup(kh_base_fini) = { 0 };
	kh_auto_free char *old_path = kh_strf("%s/" KH_REVIEW_BASE, review->path);
	kh_auto_free char *now_path = kh_strf("%s/%s", review->path, name);
	if (!old_path || !now_path)
		return no_memory(err);
	bool ok = take_note(review, name, -1, workspace, err) &&
		  kh_base_load(&old, old_path, err) && kh_base_load(&now, now_path, err) &&
		  merge(review, &old, &now, err);
	(void)unlink(now_path);
	return ok;
}

bool kh_review_continue(struct kh_review *out, const char *id, const char *engine,
			struct kh_err *err)
{
	struct stat st;
	if (!kh_review_open(out, id, true, err))
		return false;
	kh_auto_close int workspace = kh_review_workspace(out, err);
	if (workspace < 0 || !check_workspace(out->workspace, err))
		return false;
	if (!kh_review_hold(out, err) || fstat(workspace, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(out->workspace));
	if (out->overlay && wants_copy(engine))
		return kh_err_set(err, KH_ERR_USAGE,
				  "the review %s is an overlay, and --engine %s can't mount it "
				  "(begin another one: --workspace DIR:review=new)",
				  out->id, kh_esc_str(engine));
	char *name = strdup(engine);
	if (!name)
		return no_memory(err);
	free(out->engine);
	out->engine = name;
	return (!out->overlay || note_again(out, &st, err)) && write_meta(out, err);
}

bool kh_review_remove(struct kh_review *review, struct kh_err *err)
{
	/* First what says that it is one: what is left of it is no review any more. */
	kh_auto_free char *meta = kh_strf("%s/" KH_REVIEW_META, review->path);
	if (!meta)
		return no_memory(err);
	if (unlink(meta) != 0 && errno != ENOENT)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(meta));
	return kh_tree_remove(AT_FDCWD, review->path, err);
}
