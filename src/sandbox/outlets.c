/*
 * outlets.c - symbolic links that lead out of a workspace, to where sandboxes can write
 *
 * No survey looks into a home that is kept, or into the files that the agent of a review has
 * written, which are in keyhole's state folder together with what was set aside. So a program that
 * follows a link from the workspace to there finds whatever the agent put there: a repository whose
 * configuration names a command, settings of an editor. Such a link is dangerous whatever its name
 * and its place, and also if there is nothing at its end yet. A link counts if one folder on its
 * way is such a folder, since an entry of that folder can become a link to anywhere.
 */
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/link_end.h>

#include "git_path.h"
#include "outlets.h"
#include "runs_others.h"
#include "sandbox_internal.h"

enum { HOMES_BYTES = 4 * 1024 * 1024 };

void kh_outlets_fini(struct kh_outlets *outlets)
{
	free(outlets->list);
	*outlets = (struct kh_outlets){ 0 };
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "the survey of the workspace: no memory");
}

/* A folder that is none any more, or to which a link leads: nothing leads through it by its name.
 */
bool kh_outlets_add(struct kh_outlets *outlets, const char *path, const char *workspace,
		    struct kh_err *err)
{
	if (workspace && (kh_git_holds(path, workspace) || kh_git_holds(workspace, path)))
		return true;
	kh_auto_close int fd = kh_file_hold(path);
	return fd < 0 || kh_outlets_add_held(outlets, fd, err);
}

bool kh_outlets_add_held(struct kh_outlets *outlets, int fd, struct kh_err *err)
{
	struct stat st;
	if (fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode))
		return true;
	struct kh_outlet *list = reallocarray(outlets->list, outlets->n + 1, sizeof(*list));
	if (!list)
		return no_memory(err);
	outlets->list = list;
	list[outlets->n++] = (struct kh_outlet){ .dev = st.st_dev, .ino = st.st_ino };
	return true;
}

/* ---- keyhole's own folders ---- */

/* A folder of state that is not there has nothing in it. What it holds may be elsewhere by a link
 * of the user's, to a larger disk. */
static bool add_state(struct kh_outlets *outlets, const char *state, const char *workspace,
		      struct kh_err *err)
{
	static const char *const parts[] = { "", "/review", "/set-aside" };
	bool ok = true;
	for (size_t i = 0; ok && i < sizeof(parts) / sizeof(parts[0]); i++) {
		kh_auto_free char *path = kh_strf("%s%s", state, parts[i]);
		kh_auto_free char *real = path ? realpath(path, NULL) : NULL;
		if (!path || (!real && errno == ENOMEM))
			return no_memory(err);
		ok = !real || kh_outlets_add(outlets, real, workspace, err);
	}
	return ok;
}

/* A user without a home has none. */
static bool add_user_state(struct kh_outlets *outlets, const char *base, const char *workspace,
			   struct kh_err *err)
{
	kh_auto_free char *state = base ? kh_strf("%s/keyhole", base) : NULL;
	return !base || (state ? add_state(outlets, state, workspace, err) : no_memory(err));
}

/* Root may run a sandbox in another user's folder, and that user has reviews as well. */
static bool add_state_of_owner(struct kh_outlets *outlets, const char *workspace, int folder,
			       struct kh_err *err)
{
	struct stat st;
	if (fstat(folder, &st) != 0 || st.st_uid == geteuid())
		return true;
	/* cppcheck-suppress getpwuidCalled ; one thread */
	const struct passwd *owner = getpwuid(st.st_uid);
	if (!owner || owner->pw_dir[0] != '/')
		return true;
	kh_auto_free char *base = kh_strf("%s/.local/state", owner->pw_dir);
	return base ? add_user_state(outlets, base, workspace, err) : no_memory(err);
}

bool kh_outlets_add_own(struct kh_outlets *outlets, const char *state, const char *workspace,
			int folder, struct kh_err *err)
{
	static const char *const of_the_system[] = { "/var/lib/keyhole", "/run/keyhole" };
	struct kh_err homeless = KH_ERR_INIT;
	kh_auto_free char *base = kh_file_state_home(&homeless);
	bool ok = (base || homeless.code == KH_ERR_USAGE || no_memory(err)) &&
		  add_state(outlets, state, workspace, err) &&
		  add_user_state(outlets, base, workspace, err) &&
		  add_state_of_owner(outlets, workspace, folder, err);
	for (size_t i = 0; ok && i < sizeof(of_the_system) / sizeof(of_the_system[0]); i++)
		ok = add_state(outlets, of_the_system[i], workspace, err);
	return ok;
}

/* ---- the homes that there have been: paths, each with a NUL, the oldest first ---- */

static bool read_homes(const char *state, struct kh_buf *out, struct kh_err *err)
{
	return kh_run_note(state, "homes", HOMES_BYTES, out, err) != KH_NOTE_FAILED;
}

bool kh_outlets_each_home(const char *state,
			  bool (*each)(void *arg, const char *home, struct kh_err *err), void *arg,
			  struct kh_err *err)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	bool ok = read_homes(state, &text, err);
	struct kh_slice all = kh_buf_view(&text);
	for (size_t at = 0; ok && at < all.len;) {
		size_t end = kh_slice_find(all, '\0', at);
		ok = end >= all.len || all.ptr[at] != '/' || each(arg, all.ptr + at, err);
		at = end + 1;
	}
	return ok;
}

struct adding {
	struct kh_outlets *outlets;
	const char *workspace;
};

static bool add_home(void *arg, const char *home, struct kh_err *err)
{
	struct adding *a = arg;
	return kh_outlets_add(a->outlets, home, a->workspace, err);
}

bool kh_outlets_add_homes(struct kh_outlets *outlets, const char *state, const char *workspace,
			  struct kh_err *err)
{
	struct adding adding = { outlets, workspace };
	return kh_outlets_each_home(state, add_home, &adding, err);
}

/* One that is gone, or that the user can't reach, is nowhere. */
static bool check_home(void *arg, const char *home, struct kh_err *err)
{
	const char *workspace = arg;
	bool overlap = false;
	kh_auto_free char *real = realpath(home, NULL);
	if (!real)
		return errno != ENOMEM || no_memory(err);
	if (!kh_forbidden_overlap(real, workspace, &overlap, err))
		return false;
	return !overlap ||
	       kh_err_set(
		       err, KH_ERR_USAGE,
		       "--workspace %s: %s, which a run had as its --home, is in it or around it. "
		       "No run looks through a home afterwards, so that what an agent left there "
		       "would count as yours (move one of them out of the other, or use "
		       "--workspace DIR:ro)",
		       kh_esc_str(workspace), kh_esc_str(real));
}

bool kh_outlets_check_homes(const char *state, const char *workspace, struct kh_err *err)
{
	kh_auto_free char *folder = kh_slice_dup(kh_slice_str(workspace));
	return folder ? !state || kh_outlets_each_home(state, check_home, folder, err)
		      : no_memory(err);
}

bool kh_outlets_was_home(const char *state, const char *home)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 0);
	struct kh_slice all =
		state && read_homes(state, &text, NULL) ? kh_buf_view(&text) : KH_SLICE("");
	for (size_t at = 0, end; (end = kh_slice_find(all, '\0', at)) < all.len; at = end + 1)
		if (strcmp(all.ptr + at, home) == 0)
			return true;
	return false;
}

/* Each once. One that is absent may come back, as what is mounted does. */
static bool keep_homes(struct kh_slice was, const char *home, struct kh_buf *out)
{
	size_t n = 0;
	for (size_t at = 0; at < was.len; at++)
		n += was.ptr[at] == '\0';
	for (size_t at = 0, end; (end = kh_slice_find(was, '\0', at)) < was.len; at = end + 1) {
		const char *path = was.ptr + at;
		bool goes = n >= KH_LIMIT_SURVEY_HOMES || strcmp(path, home) == 0;
		n -= goes;
		if (!goes && !kh_buf_append(out, path, strlen(path) + 1))
			return false;
	}
	return kh_buf_append(out, home, strlen(home) + 1);
}

bool kh_outlets_note_home(const char *state, const char *home, struct kh_err *err)
{
	struct kh_buf was kh_cleanup(kh_buf_fini), now kh_cleanup(kh_buf_fini);
	kh_buf_init(&now, HOMES_BYTES);
	kh_auto_free char *path = kh_strf("%s/homes", state);
	if (!read_homes(state, &was, err))
		return false;
	if (!path || !keep_homes(kh_buf_view(&was), home, &now))
		return no_memory(err);
	return kh_slice_eq(kh_buf_view(&was), kh_buf_view(&now)) ||
	       kh_file_write(path, kh_buf_view(&now), 0600, err);
}

/* ---- where a link leads ---- */

struct meeting {
	const struct kh_outlets *outlets;
	bool met;
};

static void meet(void *arg, const struct stat *folder)
{
	struct meeting *m = arg;
	for (size_t i = 0; !m->met && i < m->outlets->n; i++)
		m->met = m->outlets->list[i].dev == folder->st_dev &&
			 m->outlets->list[i].ino == folder->st_ino;
}

const char *kh_outlets_why(const struct kh_outlets *outlets, int dir, const char *name)
{
	struct meeting m = { .outlets = outlets };
	bool known = kh_link_end_each(dir, name, meet, &m);
	return m.met   ? "a symbolic link that leads out of the workspace to where a sandbox can "
			 "write (--home, a review, or other state of keyhole): git, editors and "
			 "other tools would run what is there"
	       : known ? NULL
		       : "a symbolic link that leads where the program that follows it has it, "
			 "which may be out of the workspace to where a sandbox can write (--home, "
			 "a "
			 "review, or other state of keyhole)";
}

bool kh_outlets_holds(const struct kh_outlets *outlets, int dir, const char *name)
{
	struct meeting m = { .outlets = outlets };
	(void)kh_link_end_each(dir, name, meet, &m);
	return m.met;
}

bool kh_outlets_digest(const char *path, int dir, const char *name,
		       unsigned char out[KH_CONCERN_DIGEST_BYTES])
{
	char text[2 * PATH_MAX + 1], way[32 + NAME_MAX];
	ssize_t n = readlinkat(dir, name, text, PATH_MAX);
	if (n <= 0)
		return false;
	/* With the same text it leads elsewhere when a link on its way does. */
	text[n] = '\0';
	(void)snprintf(way, sizeof(way), "/proc/self/fd/%d/%s", dir, name);
	kh_auto_free char *end = realpath(way, NULL);
	size_t len = end ? strlen(end) : 0;
	if (len > PATH_MAX)
		return false;
	if (end)
		memcpy(text + n + 1, end, len);
	kh_concern_link_digest(path, kh_slice_of(text, (size_t)n + 1 + len), out);
	return true;
}
