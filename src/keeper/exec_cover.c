/*
 * exec_cover.c - keeps what an agent may write out of a command's sight
 *
 * A command opens files that nobody named: its script changes the folder, its libraries read
 * settings. Names can be judged before (run_names.c), but no reading of a script tells all that it
 * will open. So bubblewrap starts the command, with an empty folder in the place of each one to
 * which an agent may write (writable.h). A program with privileges of its own (set-ID, file
 * capabilities) would lose them there: it is started as it is, and only its names are judged.
 */
#include "job_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/base/program.h>
#include <keyhole/base/writable.h>

struct cover {
	const char **argv;
	size_t n;
	bool ok;
};

static void add(struct cover *cover, const char *word)
{
	const char **more = reallocarray(cover->argv, cover->n + 2, sizeof(*more));

	cover->ok = cover->ok && more && word;
	if (!more)
		return;
	cover->argv = more;
	more[cover->n++] = word;
	more[cover->n] = NULL;
}

static void hide(void *arg, const char *folder)
{
	struct stat st;

	/* What is gone must not be made anew on the host. */
	if (stat(folder, &st) != 0 && errno == ENOENT)
		return;
	add(arg, "--tmpfs");
	add(arg, folder);
}

static bool has_privileges(const char *program)
{
	struct stat st;

	return (stat(program, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)) != 0) ||
	       getxattr(program, "security.capability", NULL, 0) >= 0;
}

bool kh_exec_cover(const char *program, char *const *argv, struct kh_exec_cover *out)
{
	struct cover cover = { .ok = true };

	*out = (struct kh_exec_cover){ NULL, NULL };
	if (!kh_writable_refresh(NULL))
		return false;
	if (!kh_writable_any() || has_privileges(program))
		return true;
	out->program = kh_program_find("bwrap");
	if (!out->program)
		return true;
	add(&cover, "bwrap");
	add(&cover, "--dev-bind");
	add(&cover, "/");
	add(&cover, "/");
	if (geteuid() == 0) { /* root stays what it is */
		add(&cover, "--cap-add");
		add(&cover, "ALL");
	}
	kh_writable_each(hide, &cover);
	add(&cover, "--chdir");
	add(&cover, "/");
	add(&cover, "--die-with-parent");
	add(&cover, "--");
	add(&cover, program);
	for (size_t i = 1; argv[0] && argv[i]; i++)
		add(&cover, argv[i]);
	out->argv = cover.argv;
	return cover.ok;
}
