/*
 * exec_cover.c - hides what an agent may write from a command
 *
 * A command opens files that nobody named: its script changes the folder, its libraries read
 * settings. Names can be judged before (run_names.c), but no reading of a script tells all that it
 * will open. So bubblewrap starts the command, with an empty folder in the place of each one to
 * which an agent may write (writable.h), at each of its names (mounts.h). A program with privileges
 * of its own (set-ID, file capabilities) would lose them there: it is started as it is, and only
 * its names are judged.
 *
 * bubblewrap works by path, and makes what is missing. So it gets no path through an agent's
 * folder, where a link could lead it anywhere: only the outermost names are covered, which hides
 * all that is below them. If a folder of a live run is not at its path, the command could find it
 * somewhere else, and so it is not started. The exception is a path through a covered folder: then
 * that folder's agent has moved it, and can't have moved it out of there.
 */
#include "job_internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/mounts.h>
#include <keyhole/base/program.h>
#include <keyhole/base/writable.h>

struct cover {
	struct kh_exec_cover *out;
	size_t n_words;
	struct kh_mounts mounts;
	struct kh_writable_folder *lost; /* views */
	size_t n_lost;
	struct kh_err *err;
	bool ok;
};

static void cover_fini(struct cover *cover)
{
	kh_mounts_fini(&cover->mounts);
	free(cover->lost);
}

static bool no_memory(struct cover *cover)
{
	return kh_err_set(cover->err, KH_ERR_NO_MEMORY, "was not started: no memory");
}

static void add(struct cover *cover, const char *word)
{
	const char **more = reallocarray(cover->out->argv, cover->n_words + 2, sizeof(*more));

	if (!more) {
		cover->ok = no_memory(cover);
		return;
	}
	cover->out->argv = more;
	more[cover->n_words++] = word;
	more[cover->n_words] = NULL;
}

/* ---- where what agents write is found ---- */

static bool add_name(struct cover *cover, const char *path, bool is_folder)
{
	struct kh_exec_cover *out = cover->out;
	struct kh_exec_cover_name *more = reallocarray(out->names, out->n_names + 1, sizeof(*more));

	if (!more)
		return no_memory(cover);
	out->names = more;
	more[out->n_names] = (struct kh_exec_cover_name){ strdup(path), is_folder };
	return more[out->n_names++].path || no_memory(cover);
}

/* Nothing is found by this name: not by us, nor by what we start. */
static bool cant_tell(struct cover *cover, const char *path)
{
	return kh_err_set(cover->err, KH_ERR_SYSTEM,
			  "was not started: keyhole can't tell by which names it could find what "
			  "an agent writes: %s",
			  kh_esc_str(path));
}

/* Another mount may hide it, or a folder may be shut to us. */
static bool add_other_name(void *arg, const char *path, uint64_t id)
{
	struct cover *cover = arg;
	struct stat st;
	kh_auto_close int fd = -1;

	if (!kh_mounts_hold(path, id, &fd) || (fd >= 0 && fstat(fd, &st) != 0))
		return cant_tell(cover, path);
	if (fd < 0 || S_ISLNK(st.st_mode))
		return true;
	return strcmp(path, "/") == 0 ? cant_tell(cover, path)
				      : add_name(cover, path, S_ISDIR(st.st_mode));
}

static bool add_lost(struct cover *cover, const struct kh_writable_folder *folder)
{
	struct kh_writable_folder *more =
		reallocarray(cover->lost, cover->n_lost + 1, sizeof(*more));

	if (!more)
		return no_memory(cover);
	cover->lost = more;
	more[cover->n_lost++] = *folder;
	return true;
}

static void look(void *arg, const struct kh_writable_folder *folder)
{
	struct cover *cover = arg;
	struct stat st;
	uint64_t id;
	kh_auto_close int fd = kh_file_hold(folder->path);

	if (!cover->ok)
		return;
	if (fd < 0 || fstat(fd, &st) != 0 || !folder->has_id || st.st_dev != folder->dev ||
	    st.st_ino != folder->ino) {
		/* What is gone must not be made anew on the host. */
		cover->ok = !folder->live || add_lost(cover, folder);
		return;
	}
	cover->ok = add_name(cover, folder->path, true) &&
		    ((kh_mounts_id(fd, &id) && kh_mounts_each_name(&cover->mounts, id, folder->path,
								   add_other_name, cover)) ||
		     cover->err->code != KH_ERR_NONE || cant_tell(cover, folder->path)) &&
		    cover->err->code == KH_ERR_NONE;
}

/* ---- which of them are covered ---- */

/* An outer folder comes right before all that is in it: '/' is less than any other byte. */
static int by_way(const void *a, const void *b)
{
	const unsigned char *x =
		(const unsigned char *)((const struct kh_exec_cover_name *)a)->path;
	const unsigned char *y =
		(const unsigned char *)((const struct kh_exec_cover_name *)b)->path;

	while (*x && *x == *y) {
		x++;
		y++;
	}
	int left = *x == '/' ? 1 : *x ? *x + 1 : 0, right = *y == '/' ? 1 : *y ? *y + 1 : 0;
	return left - right;
}

static bool is_in(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && (path[len] == '/' || !path[len]);
}

/* What is left of the names: the outermost ones. */
static void keep_outermost(struct kh_exec_cover *out)
{
	struct kh_exec_cover_name *names = out->names;
	size_t n = 0;

	if (out->n_names > 0)
		qsort(names, out->n_names, sizeof(*names), by_way);
	for (size_t i = 0; i < out->n_names; i++)
		if (n > 0 && is_in(names[i].path, names[n - 1].path))
			free(names[i].path);
		else
			names[n++] = names[i];
	out->n_names = n;
}

/* With a mount in the outer folder, that may have been the inner one, or one on the way to it. */
static bool is_hidden(const struct cover *cover, const char *path)
{
	for (size_t i = 0; i < cover->out->n_names; i++)
		if (is_in(path, cover->out->names[i].path))
			return !kh_mounts_has_below(&cover->mounts, cover->out->names[i].path);
	return false;
}

static bool check_lost(struct cover *cover)
{
	for (size_t i = 0; i < cover->n_lost; i++) {
		const struct kh_writable_folder *one = &cover->lost[i];
		if (!is_hidden(cover, one->path))
			return kh_err_set(
				cover->err, KH_ERR_SYSTEM,
				"was not started: %s is not any more where it was when that run "
				"began, so the command could find there what an agent wrote (move "
				"it back, or end that run): %s",
				one->what, kh_esc_str(one->path));
	}
	return true;
}

static void hide(struct cover *cover)
{
	for (size_t i = 0; i < cover->out->n_names; i++) {
		const struct kh_exec_cover_name *name = &cover->out->names[i];
		add(cover, name->is_folder ? "--tmpfs" : "--dev-bind");
		if (!name->is_folder)
			add(cover, "/dev/null");
		add(cover, name->path);
	}
}

static bool has_privileges(const char *program)
{
	struct stat st;

	return (stat(program, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)) != 0) ||
	       getxattr(program, "security.capability", NULL, 0) >= 0;
}

static bool find_names(struct cover *cover)
{
	if (!kh_mounts_read(&cover->mounts, cover->err))
		return kh_err_wrap(cover->err, "was not started: keyhole can't tell by which names "
					       "it could find what an agent writes");
	kh_writable_each(look, cover);
	if (!cover->ok)
		return false;
	keep_outermost(cover->out);
	return check_lost(cover);
}

static bool fill(const char *program, char *const *argv, struct cover *cover)
{
	if (!find_names(cover))
		return false;
	add(cover, "bwrap");
	add(cover, "--dev-bind");
	add(cover, "/");
	add(cover, "/");
	if (geteuid() == 0) { /* root stays what it is */
		add(cover, "--cap-add");
		add(cover, "ALL");
	}
	hide(cover);
	add(cover, "--chdir");
	add(cover, "/");
	add(cover, "--die-with-parent");
	add(cover, "--");
	add(cover, program);
	for (size_t i = 1; argv[0] && argv[i]; i++)
		add(cover, argv[i]);
	return cover->ok;
}

bool kh_exec_cover(const char *program, char *const *argv, struct kh_exec_cover *out,
		   struct kh_err *err)
{
	struct cover cover kh_cleanup(cover_fini) = { .out = out, .err = err, .ok = true };

	*out = (struct kh_exec_cover){ 0 };
	if (!kh_writable_any() || has_privileges(program))
		return true;
	out->program = kh_program_find("bwrap");
	if (!out->program || fill(program, argv, &cover))
		return true;
	kh_exec_cover_fini(out);
	return false;
}

void kh_exec_cover_fini(struct kh_exec_cover *cover)
{
	for (size_t i = 0; i < cover->n_names; i++)
		free(cover->names[i].path);
	free(cover->names);
	free(cover->argv);
	free(cover->program);
	*cover = (struct kh_exec_cover){ 0 };
}
