/*
 * git_ask.c - asks git for the settings of the system and the user, without the repository's
 *
 * `git config --list` reads files and runs nothing. It is asked only for the settings of the system
 * and the user: an agent may have written the repository's settings, which could make git fail or
 * print more than there is room for. git_reads.c reads the repositories itself. A truncated answer
 * is not used: the missing part might name the folder of hooks.
 *
 * If root starts a sandbox in another user's folder, that user will use git there later, with their
 * own settings. So git is asked for these too, as that user.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/sandbox/child.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "git_ask.h"

enum { PATIENCE_MS = 10 * 1000, VARIABLES_MOST = 512, SAID_BYTES = 64 * 1024 };

/* What the kernel says of an owner who has no number in this user namespace. */
enum { NOBODY_KNOWN = 65534 };

void kh_git_persons_fini(struct kh_git_persons *persons)
{
	for (size_t i = 0; i < persons->n; i++)
		free(persons->list[i].home);
	*persons = (struct kh_git_persons){ 0 };
}

static bool add(struct kh_git_persons *out, const struct kh_git_person *person, const char *home)
{
	out->list[out->n] = *person;
	out->list[out->n].home = home ? strdup(home) : NULL;
	return !home || out->list[out->n++].home;
}

bool kh_git_persons_find(struct kh_git_persons *out, const char *root, struct kh_err *err)
{
	struct stat st;
	const char *home = getenv("HOME");
	const struct kh_git_person self = { .uid = geteuid(), .gid = getegid() };
	*out = (struct kh_git_persons){ 0 };
	if (stat(root, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(root));
	bool ok = add(out, &self, home);
	if (ok && !home)
		out->n++;
	if (geteuid() == 0 && st.st_uid != 0) {
		const struct passwd *user = st.st_uid == NOBODY_KNOWN ? NULL : getpwuid(st.st_uid);
		const struct kh_git_person owner = { .uid = st.st_uid,
						     .gid = user ? user->pw_gid : 0,
						     .is_owner = true };
		if (!user || !user->pw_dir)
			out->unknown = st.st_uid;
		else
			ok = ok && add(out, &owner, user->pw_dir);
	}
	return ok || kh_err_set(err, KH_ERR_NO_MEMORY, "git: no memory");
}

/* What says where git's configuration is, and what more of it there is. Nothing else of ours: the
 * environment may hold keys. GIT_CONFIG alone counts for `git config` and for no other command. */
static bool is_passed(const char *variable)
{
	static const char *const names[] = { "HOME=", "XDG_CONFIG_HOME=", "GIT_CONFIG_" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(variable, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Return: false where there are more variables than room. */
static bool fill_environment(char **environment, char **home)
{
	static char no_repository[] = "GIT_DIR=/dev/null/none";
	size_t n = 0;
	environment[n++] = no_repository;
	if (*home) {
		environment[n++] = *home;
		environment[n] = NULL;
		return true;
	}
	for (char **at = environ; at && *at; at++) {
		if (is_passed(*at) && n == VARIABLES_MOST)
			return false;
		if (is_passed(*at))
			environment[n++] = *at;
	}
	environment[n] = NULL;
	return true;
}

static bool become_owner(void *arg)
{
	const struct kh_git_person *person = arg;
	return setgroups(0, NULL) == 0 && setresgid(person->gid, person->gid, person->gid) == 0 &&
	       setresuid(person->uid, person->uid, person->uid) == 0 && setuid(0) != 0;
}

static bool no_answer(const struct kh_child_result *result, struct kh_buf *said,
		      const struct kh_git_person *person, struct kh_err *err)
{
	const char *why = result->end == KH_CHILD_NOT_STARTED ? "it could not be started"
			  : result->end == KH_CHILD_LATE      ? "it took too long"
			  : result->cut		 ? "it said more than there is room for"
			  : kh_buf_len(said) > 0 ? kh_esc(kh_slice_trim(kh_buf_view(said)))
						 : "it failed";
	return kh_err_set(err, KH_ERR_CONFIG,
			  "git did not say which hooks and programs it is set up to run%s, so that "
			  "these could not be kept from the agent: %s (put right what `git config "
			  "--list` says outside of a repository)",
			  person->is_owner ? " for the owner of the workspace" : "", why);
}

bool kh_git_ask(const char *git, const struct kh_git_person *person, const char *root,
		struct kh_buf *answer, struct kh_err *err)
{
	static char words[][16] = {
		"git", "config", "--list", "-z", "--show-origin", "--includes"
	};
	char *argv[] = { words[0], words[1], words[2], words[3], words[4], words[5], NULL };
	char *environment[VARIABLES_MOST + 1] = { NULL };
	kh_auto_free char *home = person->is_owner ? kh_strf("HOME=%s", person->home) : NULL;
	struct kh_buf said kh_cleanup(kh_buf_fini);
	kh_buf_init(&said, SAID_BYTES);
	if (person->is_owner && !home)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "git: no memory");
	if (!fill_environment(environment, &home))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "more than %d variables GIT_CONFIG_… are set, which can't all be "
				  "handed to git (put them into a file)",
				  VARIABLES_MOST);
	const struct kh_child_spec spec = {
		.program = git,
		.argv = argv,
		.environment = environment,
		.folder = person->is_owner ? "/" : root,
		.input = -1,
		.complaints = KH_CHILD_APART,
		.prepare = person->is_owner ? become_owner : NULL,
		.arg = (void *)(uintptr_t)person,
		.most_ms = PATIENCE_MS,
		.end_when_full = true,
	};
	struct kh_child_result result;
	return kh_child_run(&spec, answer, &said, &result) ||
	       no_answer(&result, &said, person, err);
}
