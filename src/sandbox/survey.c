/*
 * survey.c - surveys a workspace before a sandbox starts
 *
 * One walk finds what has to be protected (git folders, and files from which tools run something)
 * and what has to be masked (files of secrets, sockets of the host). It also records a digest of
 * everything that could run on the host, with which the survey after the run compares (after.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/file.h>

#include "concern.h"
#include "git_before.h"
#include "gitlinks.h"
#include "inlets.h"
#include "name_fold.h"
#include "outlets.h"
#include "protected.h"
#include "sandbox_internal.h"
#include "stores.h"

enum {
	BEFORE_BYTES = 256 * 1024 * 1024,
	HEAP_BYTES = 16 /* that an allocation takes besides what was asked for */
};

/* An agent may make as many of them as it likes, with paths as long as they can be. */
static bool has_room(struct kh_survey *survey, const char *path)
{
	size_t bytes = survey->path_bytes + sizeof(char *) + strlen(path) + 1 + HEAP_BYTES;
	if (bytes > KH_LIMIT_SURVEY_MEMORY_BYTES)
		return false;
	survey->path_bytes = bytes;
	return true;
}

static bool push(struct kh_survey *survey, struct kh_paths *paths, const char *path,
		 struct kh_err *err)
{
	if (!has_room(survey, path))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "--workspace: more repositories, files of secrets, sockets and "
				  "protected names than can be kept in %d MiB of memory; %s is one "
				  "(take a smaller folder)",
				  KH_LIMIT_SURVEY_MEMORY_BYTES >> 20, kh_esc_str(path));
	char *copy = strdup(path);
	char **list = copy ? reallocarray(paths->list, paths->n + 1, sizeof(*list)) : NULL;
	if (!list) {
		free(copy);
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--workspace: no memory");
	}
	paths->list = list;
	list[paths->n++] = copy;
	return true;
}

static void paths_fini(struct kh_paths *paths)
{
	for (size_t i = 0; i < paths->n; i++)
		free(paths->list[i]);
	free(paths->list);
}

void kh_survey_fini(struct kh_survey *survey)
{
	paths_fini(&survey->git_folders);
	paths_fini(&survey->git_files);
	paths_fini(&survey->trees);
	paths_fini(&survey->names);
	paths_fini(&survey->links);
	paths_fini(&survey->secrets);
	paths_fini(&survey->sockets);
	kh_buf_fini(&survey->before);
	kh_buf_fini(&survey->reads);
	for (size_t i = 0; i < survey->n_linked; i++)
		free(survey->linked[i].path);
	free(survey->linked);
	*survey = (struct kh_survey){ 0 };
}

/* Examples are written to be read. */
bool kh_survey_is_env_file(const char *name)
{
	/* Also what editors leave of one (.env~, #.env#), and in any case. */
	char room[KH_NAME_FOLD_ROOM];
	name = kh_name_fold(name, room);
	name += name[0] == '#';
	if (strncasecmp(name, ".env", 4) != 0 || (name[4] != '\0' && !strchr(".~-_#", name[4])))
		return false;
	static const char *const examples[] = { ".example", ".sample", ".template", ".dist" };
	struct kh_slice s = kh_slice_str(name);
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
		if (kh_slice_has_suffix(s, kh_slice_str(examples[i])))
			return false;
	return true;
}

static bool note(void *arg, const struct kh_concern *c, struct kh_err *err)
{
	struct kh_survey *survey = arg;
	if (!kh_buf_append(&survey->before, c->digest, sizeof(c->digest)) ||
	    !kh_buf_append(&survey->before, c->leads, sizeof(c->leads)))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--workspace: no memory");
	if (c->kind == KH_CONCERN_CONFIG && !kh_git_before_note(c, &survey->before))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--workspace: no memory");
	(void)kh_stores_add(survey->stores, c, true);
	/* Named .git, and no folder: what it says, or where it leads, must not change. */
	if (c->kind == KH_CONCERN_GITFILE ||
	    (c->kind == KH_CONCERN_LINK && kh_concern_is_dot_git(c->entry->name)))
		return push(survey, &survey->git_files, c->path, err);
	/* Those at the top are known by name. A link can't be mounted over; it is compared, and
	 * where it leads is protected. */
	bool known = c->folder->top && kh_protected_is_name(c->entry->name);
	if (c->kind == KH_CONCERN_NAME && !known)
		return push(survey, S_ISLNK(c->entry->mode) ? &survey->links : &survey->names,
			    c->path, err);
	return true;
}

static bool note_stored(void *arg, size_t store, const struct kh_concern *c)
{
	struct kh_survey *survey = arg;
	(void)store;
	(void)kh_stores_add(survey->stores, c, true);
	return kh_buf_append(&survey->before, c->digest, sizeof(c->digest)) &&
	       kh_buf_append(&survey->before, c->leads, sizeof(c->leads));
}

static bool add_linked(struct kh_survey *survey, const struct kh_walk_folder *folder,
		       const struct kh_walk_entry *entry, struct kh_err *err)
{
	if (survey->n_linked >= KH_LIMIT_SURVEY_LINKED) {
		survey->too_many_linked = true;
		return true;
	}
	if (survey->n_linked == survey->alloc_linked) {
		size_t alloc = survey->alloc_linked ? survey->alloc_linked * 2 : 64;
		struct kh_linked *list = reallocarray(survey->linked, alloc, sizeof(*list));
		if (!list)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "--workspace: no memory");
		survey->linked = list;
		survey->alloc_linked = alloc;
	}
	char *path = kh_strf("%s/%s", folder->path, entry->name);
	if (!path)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--workspace: no memory");
	if (!has_room(survey, path)) {
		free(path);
		survey->too_many_linked = true;
		return true;
	}
	survey->linked[survey->n_linked++] = (struct kh_linked){
		.path = path,
		.dev = entry->dev,
		.ino = entry->ino,
		.links = entry->links,
		.in_git = strstr(path, "/.git/") != NULL,
	};
	return true;
}

struct looking {
	struct kh_survey *survey;
	const char *root;
	int root_fd;
	struct kh_inlets inlets;
	struct kh_outlets outlets; /* --home */
	struct kh_gitlinks gitlinks;
};

/* One of the user's own stays, but nobody's may lead to where the agent can write. */
static bool note_link(struct looking *l, const struct kh_walk_folder *folder, const char *name,
		      struct kh_err *err)
{
	unsigned char digest[KH_CONCERN_DIGEST_BYTES];
	/* The walk says what it has not seen. */
	if (kh_deadline_passed(folder->deadline))
		return true;
	kh_auto_free char *path = kh_strf("%s/%s", folder->path, name);
	if (!path)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--workspace: no memory");
	if (l->outlets.n > 0 && kh_outlets_holds(&l->outlets, folder->fd, name))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "%s: is a symbolic link that leads to where the agent can write "
				  "(--home %s), and what is run from there outside of the sandbox "
				  "could not be kept from it (remove the link, or name another "
				  "home)",
				  kh_esc_str(path), kh_esc_str(l->survey->home));
	/* Gone meanwhile. */
	return !kh_outlets_digest(path, folder->fd, name, digest) ||
	       kh_buf_append(&l->survey->before, digest, sizeof(digest)) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "--workspace: no memory");
}

static bool note_open(void *arg, const struct kh_walk_entry *entry,
		      const unsigned char digest[KH_CONCERN_DIGEST_BYTES])
{
	struct kh_survey *survey = arg;
	(void)entry;
	return kh_buf_append(&survey->before, digest, KH_CONCERN_DIGEST_BYTES);
}

static bool visit(void *arg, const struct kh_walk_folder *folder, struct kh_err *err)
{
	struct looking *l = arg;
	struct kh_survey *survey = l->survey;
	/* An empty one is no repository: one for a mount, or what somebody has begun. */
	if (folder->n > 0 && kh_concern_is_git_folder(folder, true) &&
	    !push(survey, &survey->git_folders, folder->path, err))
		return false;
	if (kh_concern_is_tree(folder) && !push(survey, &survey->trees, folder->path, err))
		return false;
	if (!kh_concern_each_open(folder, note_open, survey))
		return kh_err_set(err, KH_ERR_NO_MEMORY, "--workspace: no memory");
	for (size_t i = 0; i < folder->n; i++) {
		const struct kh_walk_entry *entry = &folder->list[i];
		if (S_ISREG(entry->mode) && entry->links > 1 &&
		    !add_linked(survey, folder, entry, err))
			return false;
		if (S_ISLNK(entry->mode) && !note_link(l, folder, entry->name, err))
			return false;
		bool is_socket = S_ISSOCK(entry->mode);
		if (!is_socket && ((!S_ISREG(entry->mode) && !S_ISLNK(entry->mode)) ||
				   !kh_survey_is_env_file(entry->name)))
			continue;
		kh_auto_free char *path = kh_strf("%s/%s", folder->path, entry->name);
		if (!path)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "--workspace: no memory");
		if (!push(survey, is_socket ? &survey->sockets : &survey->secrets, path, err))
			return false;
	}
	return kh_concern_find(folder, note, survey, err) &&
	       kh_inlets_note(&l->inlets, l->root_fd, l->root, folder, err) &&
	       kh_gitlinks_note(&l->gitlinks, folder, err);
}

bool kh_survey_take(struct kh_survey *survey, const char *root, struct kh_err *err)
{
	kh_auto_close int root_fd = kh_file_hold_again(root, survey->root_held, err);
	struct looking looking = { .survey = survey, .root = root, .root_fd = root_fd };
	struct kh_deadline deadline;
	struct kh_walk walk = { .visit = visit, .arg = &looking, .deadline = &deadline };
	struct kh_stores stores kh_cleanup(kh_stores_fini) = { .root = root };
	kh_deadline_start(&deadline, KH_LIMIT_SURVEY_MS, true);
	if (root_fd < 0)
		return kh_err_wrap(err, "--workspace");
	kh_auto_close int home_fd =
		survey->home ? kh_file_hold_again(survey->home, survey->home_held, err) : -1;
	if (survey->home && home_fd < 0)
		return kh_err_wrap(err, "--home");
	survey->stores = &stores;
	kh_buf_init(&survey->before, BEFORE_BYTES);
	kh_buf_init(&survey->reads, KH_LIMIT_SURVEY_FILE_BYTES);
	bool ok = (home_fd < 0 || kh_outlets_add_held(&looking.outlets, home_fd, err)) &&
		  kh_walk_run_at(&walk, root_fd, root, err) &&
		  kh_inlets_find(&looking.inlets, root_fd, root, note, survey, &deadline,
				 &walk.missed, err) &&
		  kh_gitlinks_find(&looking.gitlinks, root_fd, root, note, survey, &deadline,
				   &walk.missed, err);
	kh_inlets_fini(&looking.inlets);
	kh_gitlinks_fini(&looking.gitlinks);
	kh_outlets_fini(&looking.outlets);
	if (ok && walk.missed)
		ok = kh_err_set(err, KH_ERR_CONFIG,
				"--workspace %s: not all of it could be looked at, so that "
				"repositories, files of secrets and sockets in it could not be "
				"kept safe: %s (put that right, or take a smaller folder)",
				kh_esc_str(root), walk.missed);
	free(walk.missed);
	/* What is not noted has not been there before. */
	struct kh_err ignored = KH_ERR_INIT;
	if (ok)
		(void)kh_stores_walk(&stores, &deadline, note_stored, survey, &ignored);
	survey->stores = NULL;
	return ok;
}
