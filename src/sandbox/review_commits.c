/*
 * review_commits.c - commits that an agent made in a workspace under review
 *
 * The agent's repository can make git run programs (hooks, filters, monitors), so git on the host
 * never reads it. git makes a bundle of the new commits in a sandbox of its own, with no network
 * and no credential, and with the review read-only. The bundle is as hostile as the agent: a list
 * of names and a pack. The host's git checks each object of the pack and its references (index-pack
 * --strict) before it keeps any, and the refs go to a separate namespace (refs/keyhole/).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include <keyhole/sandbox/workspace.h>

#include "review_git.h"
#include "review_internal.h"

enum {
	NOTHING_NEW = 3, /* of the script below */
	NO_GIT = 4,
	LAUNCHER_FAILED = 125,
	HEAD_BYTES = 1024 * 1024,
	KNOWN_BYTES = 128 * 1024,
	SAID_BYTES = 4096,
};

/* Standard input: "^OBJECT" for what is known already. */
static char script[] = "ulimit -d 1048576 2>/dev/null\n" /* KiB: as the host's git has */
		       "command -v git >/dev/null || exit 4\n"
		       "known=$(cat)\n"
		       "ask() { printf '%s\\n' \"$known\" | \"$@\" --stdin; }\n"
		       "git rev-parse --git-dir >/dev/null 2>&1 || { [ -f .git/HEAD ] || exit 3; "
		       "git rev-parse --git-dir >/dev/null; exit 5; }\n"
		       "new=$(ask git rev-list --max-count=1 --ignore-missing --branches --tags "
		       "HEAD) || exit 5\n"
		       "[ -n \"$new\" ] || exit 3\n"
		       "ask git -c pack.threads=2 -c pack.windowMemory=128m -c "
		       "core.bigFileThreshold=32m bundle create --quiet - --ignore-missing "
		       "--branches --tags HEAD\n";

/* ---- in the sandbox ---- */

static int run_git_inside(const struct kh_review *review, const char *socket_dir)
{
	static char shell[] = "/bin/sh", dash_c[] = "-c";
	static char *const argv[] = { shell, dash_c, script, NULL };
	const struct kh_sandbox_review mount = { review->folder, review->overlay };
	kh_auto_free char *state = kh_workspace_state();
	const struct kh_sandbox_spec spec = {
		.engine = review->engine,
		.state = state,
		.workspace = review->workspace,
		.workspace_read_only = true,
		.review = &mount,
		.socket_dir = socket_dir,
		.host_uid = (uid_t)-1,
		.host_gid = (gid_t)-1,
		.limits = { .timeout_ms = KH_LIMIT_REVIEW_BUNDLE_MS },
		.argv = argv,
	};
	int status = 1;
	struct kh_err err = KH_ERR_INIT;
	if (kh_sandbox_run(&spec, &status, &err))
		return status;
	(void)!write(STDERR_FILENO, err.text, strlen(err.text));
	return LAUNCHER_FAILED;
}

static _Noreturn void become_launcher(const struct kh_review *review, const char *socket_dir,
				      int known, int out, int complaints)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
	if (dup2(known, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(complaints, STDERR_FILENO) < 0)
		_exit(LAUNCHER_FAILED);
	_exit(run_git_inside(review, socket_dir));
}

/* Up to the most that there may be. Return: all was read. */
static bool copy_bundle(int from, int to, struct kh_err *err)
{
	static char bytes[64 * 1024];
	uint64_t total = 0;
	ssize_t n;
	while ((n = read(from, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR)) {
		total += n > 0 ? (uint64_t)n : 0;
		if (total > KH_LIMIT_REVIEW_BUNDLE_BYTES)
			return kh_err_set(err, KH_ERR_USAGE,
					  "the new commits take more than %d MiB (look at them in "
					  "a sandbox)",
					  KH_LIMIT_REVIEW_BUNDLE_BYTES / 1024 / 1024);
		if (n > 0 && !kh_file_write_all(to, kh_slice_of(bytes, (size_t)n), err))
			return false;
	}
	return n == 0 || kh_err_sys(err, KH_ERR_SYSTEM, errno, "reading the bundle");
}

static void explain(int complaints, int status, struct kh_err *err)
{
	char said[2 * KH_ESC_MAX_BYTES];
	ssize_t n = pread(complaints, said, sizeof(said), 0);
	kh_err_set(err, KH_ERR_SYSTEM,
		   status == NO_GIT ? "git is not in the sandbox, which makes a bundle of commits "
				      "(`apt install git`; --no-commits does without)%s"
				    : "git could make no bundle of the agent's commits: %s",
		   status == NO_GIT ? ""
				    : kh_host_git_said(kh_slice_of(said, n > 0 ? (size_t)n : 0)));
}

/* *empty: there are no new ones. */
static bool make_bundle(const struct kh_review *review, const char *socket_dir, int known,
			int bundle, bool *empty, struct kh_err *err)
{
	int out[2], status = -1;
	kh_auto_close int complaints = memfd_create("keyhole-said", MFD_CLOEXEC);
	if (complaints < 0 || pipe2(out, O_CLOEXEC) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "a pipe");
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		become_launcher(review, socket_dir, known, out[1], complaints);
	close(out[1]);
	bool ok = pid > 0 && copy_bundle(out[0], bundle, err);
	close(out[0]);
	if (!ok && pid > 0)
		(void)kill(pid, SIGTERM);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	*empty = ok && status == NOTHING_NEW;
	if (ok && !*empty && status != 0)
		explain(complaints, status, err);
	return ok && (*empty || status == 0);
}

/* ---- what came out ---- */

static bool add_ref(struct kh_review_refs *refs, const char *id, struct kh_slice object,
		    struct kh_slice name)
{
	bool fits = refs->n < KH_LIMIT_REVIEW_REFS && (object.len == 40 || object.len == 64);
	for (size_t i = 0; fits && i < object.len; i++)
		fits = kh_hex_value(object.ptr[i]) >= 0;
	/* git has more to say about names; here none may end a line or a word. */
	for (size_t i = 0; fits && i < name.len; i++)
		fits = (unsigned char)name.ptr[i] > 0x20 && name.ptr[i] != 0x7f &&
		       name.ptr[i] != '"';
	bool known = kh_slice_eq(name, KH_SLICE("HEAD"));
	if (kh_slice_has_prefix(name, KH_SLICE("refs/heads/")) ||
	    kh_slice_has_prefix(name, KH_SLICE("refs/tags/"))) {
		known = true;
		name = kh_slice_sub(name, 5, name.len);
	}
	struct kh_review_ref *list =
		fits && known ? reallocarray(refs->list, refs->n + 1, sizeof(*list)) : NULL;
	if (!list)
		return false;
	refs->list = list;
	list[refs->n] =
		(struct kh_review_ref){ .name = kh_strf("refs/keyhole/%s/%.*s", id, KH_FMT(name)) };
	memcpy(list[refs->n].object, object.ptr, object.len);
	return list[refs->n].name && ++refs->n;
}

bool kh_review_bundle_head(struct kh_slice all, const char *id, struct kh_review_refs *refs,
			   size_t *pack)
{
	size_t at = 0;
	for (unsigned line_no = 0; at < all.len; line_no++) {
		size_t end = kh_slice_find(all, '\n', at);
		if (end == all.len)
			return false;
		struct kh_slice line = kh_slice_sub(all, at, end);
		at = end + 1;
		if (line_no == 0) {
			if (!kh_slice_eq(line, KH_SLICE("# v2 git bundle")) &&
			    !kh_slice_eq(line, KH_SLICE("# v3 git bundle")))
				return false;
		} else if (line.len == 0) {
			*pack = at;
			return refs->n > 0;
		} else if (line.ptr[0] != '-' && line.ptr[0] != '@') {
			size_t space = kh_slice_find(line, ' ', 0);
			if (!add_ref(refs, id, kh_slice_sub(line, 0, space),
				     kh_slice_sub(line, space + 1, line.len)))
				return false;
		}
	}
	return false;
}

static bool read_head(int bundle, const char *id, struct kh_review_refs *refs, size_t *pack,
		      struct kh_err *err)
{
	kh_auto_free char *head = malloc(HEAD_BYTES);
	ssize_t n = head ? pread(bundle, head, HEAD_BYTES, 0) : -1;
	return (n > 0 && kh_review_bundle_head(kh_slice_of(head, (size_t)n), id, refs, pack)) ||
	       kh_err_set(err, KH_ERR_SYSTEM,
			  "what came out of the sandbox is no bundle that keyhole takes (up to %d "
			  "refs, of branches and tags)",
			  KH_LIMIT_REVIEW_REFS);
}

/* ---- into the repository ---- */

static int known_objects(const struct kh_host_git *git, struct kh_err *err)
{
	static const char *const args[] = { "for-each-ref", "--sort=-committerdate", "--count=1024",
					    "--format=^%(objectname)", NULL };
	struct kh_buf known kh_cleanup(kh_buf_fini);
	kh_buf_init(&known, KNOWN_BYTES);
	if (git->dir && !kh_host_git(git, args, -1, &known, err))
		return -1;
	return kh_file_sealed("keyhole-known", kh_buf_view(&known), err);
}

static bool take_pack(const struct kh_host_git *git, int bundle, size_t pack, struct kh_err *err)
{
	static const char *const args[] = { "index-pack", "--stdin", "--fix-thin", "--strict",
					    NULL };
	struct kh_buf said kh_cleanup(kh_buf_fini);
	kh_buf_init(&said, SAID_BYTES);
	if (lseek(bundle, (off_t)pack, SEEK_SET) < 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "the bundle");
	return kh_host_git(git, args, bundle, &said, err);
}

static bool set_refs(const struct kh_host_git *git, const struct kh_review_refs *refs,
		     struct kh_err *err)
{
	static const char *const args[] = { "update-ref", "--stdin", NULL };
	struct kh_buf text kh_cleanup(kh_buf_fini), said kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 2 * HEAD_BYTES);
	kh_buf_init(&said, SAID_BYTES);
	bool ok = true;
	for (size_t i = 0; ok && i < refs->n; i++)
		ok = kh_buf_printf(&text, "update %s %s\n", refs->list[i].name,
				   refs->list[i].object);
	if (!ok)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "git: no memory");
	kh_auto_close int in = kh_file_sealed("keyhole-refs", kh_buf_view(&text), err);
	return in >= 0 && kh_host_git(git, args, in, &said, err);
}

bool kh_review_count_refs(const struct kh_review *review, size_t *n, struct kh_err *err)
{
	struct kh_host_git git kh_cleanup(kh_host_git_fini) = { 0 };
	struct kh_buf said kh_cleanup(kh_buf_fini);
	kh_auto_free char *below = kh_strf("refs/keyhole/%s", review->id);
	const char *const args[] = { "for-each-ref", "--format=x", below, NULL };
	kh_buf_init(&said, HEAD_BYTES);
	*n = 0;
	kh_auto_close int folder = kh_review_workspace(review, err);
	if (!below || folder < 0 || !kh_host_git_open(&git, folder, err) ||
	    (git.dir && !kh_host_git(&git, args, -1, &said, err)))
		return false;
	struct kh_slice all = kh_buf_view(&said);
	for (size_t i = 0; i < all.len; i++)
		*n += all.ptr[i] == '\n';
	return true;
}

bool kh_review_refs_is_first(const struct kh_review_refs *refs, size_t which)
{
	for (size_t i = 0; i < which; i++)
		if (strcmp(refs->list[i].object, refs->list[which].object) == 0)
			return false;
	return true;
}

void kh_review_refs_fini(struct kh_review_refs *refs)
{
	for (size_t i = 0; i < refs->n; i++)
		free(refs->list[i].name);
	free(refs->list);
	kh_review_objects_free(refs->objects);
	*refs = (struct kh_review_refs){ 0 };
}

/* Into the repository, or beside it to be looked at. */
static bool take(struct kh_host_git *git, int bundle, size_t pack, bool dry_run,
		 struct kh_review_refs *out, struct kh_err *err)
{
	if (!dry_run)
		return take_pack(git, bundle, pack, err) && set_refs(git, out, err);
	out->objects = kh_review_objects_new(git, err);
	git->objects = out->objects;
	return out->objects && take_pack(git, bundle, pack, err);
}

static bool bring(const struct kh_review *review, struct kh_host_git *git, const char *socket_dir,
		  bool dry_run, struct kh_review_refs *out, struct kh_err *err)
{
	bool empty = true;
	size_t pack = 0;
	kh_auto_close int known = known_objects(git, err);
	kh_auto_close int bundle =
		known < 0 ? -1 : open(review->path, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (bundle < 0)
		return known < 0 ? false
				 : kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", review->path);
	if (!make_bundle(review, socket_dir, known, bundle, &empty, err))
		return false;
	if (empty)
		return true;
	if (!read_head(bundle, review->id, out, &pack, err))
		return false;
	if (!git->dir)
		return kh_err_set(err, KH_ERR_USAGE,
				  "%s has no git repository of its own that commits could go to "
				  "(`git init` makes one; then apply again, or leave them out with "
				  "--no-commits)",
				  kh_esc_str(review->workspace));
	return take(git, bundle, pack, dry_run, out, err);
}

bool kh_review_commits(const struct kh_review *review, bool dry_run, struct kh_review_refs *out,
		       struct kh_err *err)
{
	struct kh_host_git git kh_cleanup(kh_host_git_fini) = { 0 };
	/* In the place of the folder of a proxy's socket; root's sandbox must be able to pass. */
	char socket_dir[] = "/tmp/keyhole-bundle-XXXXXX";
	*out = (struct kh_review_refs){ 0 };
	kh_auto_close int folder = kh_review_workspace(review, err);
	if (folder < 0 || !kh_host_git_open(&git, folder, err))
		return false;
	if (!mkdtemp(socket_dir) || chmod(socket_dir, 0755) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", socket_dir);
	bool ok = bring(review, &git, socket_dir, dry_run, out, err);
	(void)rmdir(socket_dir);
	return ok;
}
