/*
 * review_names.c - which names the agent's commits would bring into the workspace
 *
 * A review shows the files in the agent's work tree. But a commit may contain files that are not
 * there, and a merge or a checkout would put them into the workspace. So the tree of each ref is
 * compared with that of the repository's HEAD, and each new commit with its parents. The names,
 * types and link targets are judged like those of files.
 */
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>

#include "review_git.h"
#include "review_internal.h"

enum { OBJECT_MOST = 64 };

struct names {
	const struct kh_host_git *git;
	int workspace;
	struct kh_changes *out;
	struct kh_buf links; /* "OBJECT\n" of each symbolic link, in the order of `out` */
	struct kh_err *err;
};

static void names_fini(struct names *names)
{
	kh_buf_fini(&names->links);
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "commits: no memory");
}

static bool not_understood(struct names *names)
{
	return kh_err_set(names->err, KH_ERR_SYSTEM,
			  "git's list of what commits change can't be understood");
}

/* ---- git's lists ---- */

static enum kh_change_kind kind_of(struct kh_slice status)
{
	return kh_slice_eq(status, KH_SLICE("A"))   ? KH_CHANGE_ADDED
	       : kh_slice_eq(status, KH_SLICE("D")) ? KH_CHANGE_DELETED
						    : KH_CHANGE_CHANGED;
}

static bool add(struct names *names, const struct kh_change *change)
{
	struct kh_changes *out = names->out;
	if (out->n == KH_LIMIT_REVIEW_CHANGES)
		return kh_err_set(names->err, KH_ERR_USAGE,
				  "the commits have more than %d names: they are not looked at",
				  KH_LIMIT_REVIEW_CHANGES);
	if (out->n == out->alloc) {
		size_t alloc = out->alloc ? 2 * out->alloc : 64;
		struct kh_change *list = reallocarray(out->list, alloc, sizeof(*list));
		if (!list)
			return no_memory(names->err);
		out->list = list;
		out->alloc = alloc;
	}
	out->list[out->n] = *change;
	return out->list[out->n].path ? ++out->n : no_memory(names->err);
}

static bool read_mode(struct kh_slice text, mode_t *mode)
{
	*mode = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '7')
			return false;
		*mode = *mode * 8 + (mode_t)(text.ptr[i] - '0');
	}
	return text.len == 6;
}

/* ":MODE MODE OBJECT OBJECT STATUS", before and after. */
static bool read_one(struct names *names, struct kh_slice row, struct kh_slice path, bool passing)
{
	struct kh_slice words[5];
	size_t at = 1, n = 0;
	for (; n < 5 && at <= row.len; n++) {
		size_t end = kh_slice_find(row, ' ', at);
		words[n] = kh_slice_sub(row, at, end);
		at = end + 1;
	}
	mode_t mode;
	if (n != 5 || at <= row.len || row.ptr[0] != ':' || !read_mode(words[1], &mode) ||
	    words[3].len > OBJECT_MOST || words[4].len != 1 || path.len == 0)
		return not_understood(names);
	struct kh_change change = { .kind = kind_of(words[4]), .passing = passing };
	change.is.st_mode = mode;
	if (S_ISLNK(mode) && !(kh_buf_append_slice(&names->links, words[3]) &&
			       kh_buf_append_char(&names->links, '\n')))
		return no_memory(names->err);
	change.path = kh_slice_dup(path);
	return add(names, &change);
}

static bool read_rows(struct names *names, struct kh_slice said, bool passing)
{
	for (size_t at = 0; at < said.len;) {
		size_t end = kh_slice_find(said, '\0', at);
		struct kh_slice row = kh_slice_sub(said, at, end);
		at = end + 1;
		if (at >= said.len || row.len == 0)
			return not_understood(names);
		end = kh_slice_find(said, '\0', at);
		if (end == said.len)
			return not_understood(names);
		if (!read_one(names, row, kh_slice_sub(said, at, end), passing))
			return false;
		at = end + 1;
	}
	return true;
}

/* The tree that it is compared with: HEAD's, or an empty one. Heap. */
static char *base_of(const struct kh_host_git *git, struct kh_err *err)
{
	static const char *const head[] = { "rev-parse", "--verify", "--quiet", "HEAD^{tree}",
					    NULL };
	static const char *const empty[] = { "hash-object", "-t", "tree", "--stdin", NULL };
	struct kh_buf said kh_cleanup(kh_buf_fini);
	kh_buf_init(&said, 4096);
	if (!kh_host_git(git, head, -1, &said, NULL)) {
		kh_buf_clear(&said);
		if (!kh_host_git(git, empty, -1, &said, err))
			return NULL;
	}
	struct kh_slice line = kh_buf_view(&said);
	char *base = kh_slice_dup(kh_slice_sub(line, 0, kh_slice_find(line, '\n', 0)));
	if (!base)
		no_memory(err);
	return base;
}

static bool read_tip(struct names *names, const char *object)
{
	kh_auto_free char *tree = kh_strf("%s^{tree}", object);
	kh_auto_free char *base = base_of(names->git, names->err);
	struct kh_buf said kh_cleanup(kh_buf_fini);
	const char *const args[] = {
		"diff-tree",
		"-r",
		"-z",
		"--raw",
		"--no-abbrev",
		"--no-renames",
		"--ignore-submodules=none",
		base,
		tree,
		NULL,
	};
	kh_buf_init(&said, KH_LIMIT_REVIEW_NAMES_BYTES);
	if (!tree || !base)
		return base ? no_memory(names->err) : false;
	return kh_host_git(names->git, args, -1, &said, names->err) &&
	       read_rows(names, kh_buf_view(&said), false);
}

static bool has_head(const struct kh_host_git *git)
{
	static const char *const args[] = { "rev-parse", "--verify", "--quiet", "HEAD^{commit}",
					    NULL };
	struct kh_buf said kh_cleanup(kh_buf_fini);
	kh_buf_init(&said, 4096);
	return kh_host_git(git, args, -1, &said, NULL);
}

static size_t count_lines(struct kh_slice text)
{
	size_t n = 0;
	for (size_t i = 0; i < text.len; i++)
		n += text.ptr[i] == '\n';
	return n;
}

/* A merge is compared with each of those before it. */
static bool read_history(struct names *names, const char *object)
{
	static const char *const args[] = {
		"diff-tree",
		"--stdin",
		"-m",
		"--root",
		"--no-commit-id",
		"-r",
		"-z",
		"--raw",
		"--no-abbrev",
		"--no-renames",
		"--ignore-submodules=none",
		NULL,
	};
	bool head = has_head(names->git);
	kh_auto_free char *most = kh_strf("--max-count=%d", KH_LIMIT_REVIEW_COMMITS + 1);
	const char *const list[] = {
		"rev-list", most, object, head ? "--not" : NULL, "HEAD", NULL
	};
	struct kh_buf commits kh_cleanup(kh_buf_fini), said kh_cleanup(kh_buf_fini);
	kh_buf_init(&commits, (KH_LIMIT_REVIEW_COMMITS + 2) * (OBJECT_MOST + 1));
	kh_buf_init(&said, KH_LIMIT_REVIEW_NAMES_BYTES);
	if (!most)
		return no_memory(names->err);
	if (!kh_host_git(names->git, list, -1, &commits, names->err))
		return false;
	if (count_lines(kh_buf_view(&commits)) > KH_LIMIT_REVIEW_COMMITS)
		return kh_err_set(names->err, KH_ERR_USAGE,
				  "there are more than %d new commits: they are not looked at",
				  KH_LIMIT_REVIEW_COMMITS);
	kh_auto_close int in = kh_file_sealed("keyhole-commits", kh_buf_view(&commits), names->err);
	return in >= 0 && kh_host_git(names->git, args, in, &said, names->err) &&
	       read_rows(names, kh_buf_view(&said), true);
}

/* ---- where links lead ---- */

/* "OBJECT blob SIZE\nTEXT\n"; *text is heap, NULL where none can be. */
static bool read_link(struct kh_slice said, size_t *at, char **text)
{
	size_t end = kh_slice_find(said, '\n', *at), size = 0;
	struct kh_slice line = kh_slice_sub(said, *at, end);
	size_t mark = kh_slice_find(line, ' ', 0);
	struct kh_slice rest = kh_slice_sub(line, mark, line.len);
	if (end == said.len || !kh_slice_has_prefix(rest, KH_SLICE(" blob ")) || rest.len > 16)
		return false;
	for (size_t i = 6; i < rest.len; i++) {
		if (rest.ptr[i] < '0' || rest.ptr[i] > '9')
			return false;
		size = size * 10 + (size_t)(rest.ptr[i] - '0');
	}
	if (size >= said.len - end - 1 || said.ptr[end + 1 + size] != '\n')
		return false;
	struct kh_slice all = kh_slice_sub(said, end + 1, end + 1 + size);
	*text = memchr(all.ptr, '\0', all.len) ? NULL : kh_slice_dup(all);
	*at = end + 2 + size;
	return true;
}

static bool read_links(struct names *names)
{
	static const char *const args[] = { "cat-file", "--batch", NULL };
	struct kh_buf said kh_cleanup(kh_buf_fini);
	kh_buf_init(&said, KH_LIMIT_REVIEW_NAMES_BYTES);
	if (kh_buf_len(&names->links) == 0)
		return true;
	kh_auto_close int in =
		kh_file_sealed("keyhole-links", kh_buf_view(&names->links), names->err);
	if (in < 0 || !kh_host_git(names->git, args, in, &said, names->err))
		return false;
	size_t at = 0;
	for (size_t i = 0; i < names->out->n; i++) {
		struct kh_change *c = &names->out->list[i];
		if (S_ISLNK(c->is.st_mode) && !read_link(kh_buf_view(&said), &at, &c->is_link))
			return not_understood(names);
	}
	return true;
}

/* ---- what to think of them ---- */

static int by_path(const void *a, const void *b)
{
	const struct kh_change *x = a, *y = b;
	int order = strcmp(x->path, y->path);
	order = order ? order : x->passing - y->passing;
	return order ? order : (int)x->kind - (int)y->kind;
}

/* Each name once, with the worst of all that it is somewhere. */
static void join(struct kh_changes *all)
{
	size_t kept = 0;
	for (size_t i = 0; i < all->n; i++) {
		struct kh_change *c = &all->list[i], *last = kept ? &all->list[kept - 1] : NULL;
		if (!last || strcmp(last->path, c->path) != 0) {
			all->list[kept++] = *c;
			continue;
		}
		last->bar = c->bar > last->bar ? c->bar : last->bar;
		if (!last->is.st_mode || S_ISLNK(c->is.st_mode))
			last->is.st_mode = c->is.st_mode ? c->is.st_mode : last->is.st_mode;
		free(c->path);
		free(c->is_link);
	}
	all->n = kept;
}

/* Those in a folder that would be taken for a git folder. What is in a commit counts with what is
 * in the workspace: what one brought must not wait for what the next one brings. */
static bool bar_shapes(struct names *names)
{
	struct kh_git_shapes shapes kh_cleanup(kh_git_shapes_fini);
	bool ok = kh_git_shapes_init(&shapes, names->workspace, -1, names->out);
	for (size_t i = 0; ok && i < names->out->n; i++) {
		struct kh_change *c = &names->out->list[i];
		bool found;
		size_t len;
		ok = kh_git_shapes_find(&shapes, c->path, false, &found, &len);
		if (ok && found)
			c->bar = KH_BAR_GIT;
	}
	return ok || no_memory(names->err);
}

bool kh_review_commit_names(const struct kh_review *review, const struct kh_review_refs *refs,
			    size_t which, struct kh_changes *out, struct kh_err *err)
{
	const char *object = refs->list[which].object;
	struct kh_host_git git kh_cleanup(kh_host_git_fini) = { 0 };
	struct names names kh_cleanup(names_fini) = { .git = &git, .out = out, .err = err };
	kh_buf_init(&names.links, KH_LIMIT_REVIEW_CHANGES * (OBJECT_MOST + 1));
	*out = (struct kh_changes){ 0 };
	kh_auto_close int folder = kh_review_workspace(review, err);
	if (folder < 0 || !kh_host_git_open(&git, folder, err))
		return false;
	if (!git.dir)
		return no_memory(err);
	git.objects = refs->objects;
	names.workspace = folder;
	if (!read_tip(&names, object) || !read_history(&names, object) || !read_links(&names))
		return false;
	for (size_t i = 0; i < out->n; i++) {
		struct kh_change *c = &out->list[i];
		c->bar = kh_review_bar_of(folder, c->path, c->is.st_mode, c->is_link);
		if (c->is.st_mode && kh_review_bar_is_too_deep(review, c->path, false))
			c->bar = KH_BAR_UNREADABLE;
	}
	if (out->n > 1)
		qsort(out->list, out->n, sizeof(*out->list), by_path);
	join(out);
	return kh_review_bar_reads(review, out, err) && bar_shapes(&names);
}
