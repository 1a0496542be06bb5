/*
 * runs_retry.c - surveys that earlier runs could not finish, and when the next run tries again
 *
 * An agent can leave a tree that no survey can finish, and each later run would wait for another
 * try at its beginning and at its end. So after a survey has failed, there is a backoff of some
 * times as long as it took: however many runs there are, only that part of the time is spent on it.
 * `keyhole workspace survey` tries at once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/sandbox/workspace.h>

#include "runs.h"
#include "runs_others.h"
#include "runs_retry.h"

enum { BACKOFF_TIMES = 20, TOOK_MOST_MS = 2 * KH_LIMIT_SURVEY_MS };

void kh_run_retry_note(const char *run, uint64_t took_ms)
{
	kh_auto_free char *path = kh_strf("%s/failed", run);
	kh_auto_free char *text = kh_strf("%" PRIu64 " %" PRIu64 "\n", kh_clock_wall_ms(), took_ms);
	/* Without the note the next run tries again. */
	if (path && text)
		(void)kh_file_write(path, kh_slice_str(text), 0600, NULL);
}

/* When that was and how long it took; false: there is no such note, or none that means anything. */
static bool read_failure(const char *run, uint64_t *at_ms, uint64_t *took_ms)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	return kh_run_note(run, "failed", 64, &text, NULL) == KH_NOTE_READ && kh_buf_cstr(&text) &&
	       sscanf(kh_buf_cstr(&text), "%" SCNu64 " %" SCNu64, at_ms, took_ms) == 2;
}

bool kh_run_retry_in_backoff(const struct kh_other_run *run, bool says)
{
	uint64_t at_ms = 0, took_ms = 0, now_ms = kh_clock_wall_ms();
	if (!read_failure(run->path, &at_ms, &took_ms))
		return false;
	uint64_t backoff_ms = (took_ms < TOOK_MOST_MS ? took_ms : TOOK_MOST_MS) * BACKOFF_TIMES;
	/* A failure in the future: the clock was set back. */
	if (at_ms > now_ms || now_ms - at_ms >= backoff_ms)
		return false;
	if (says)
		kh_log_warn("%s: its survey failed after %" PRIu64
			    " s and is not tried again for %" PRIu64
			    " s (use neither git nor an editor there before `keyhole workspace "
			    "survey` has been run, which tries it at once)",
			    kh_esc_str(*run->workspace ? run->workspace : run->path),
			    (took_ms + 999) / 1000, (backoff_ms - (now_ms - at_ms) + 999) / 1000);
	return true;
}

bool kh_workspace_is_unsurveyed(const char *state)
{
	enum { WAIT_MS = 1000 };
	struct kh_other_runs others kh_cleanup(kh_other_runs_fini) = { 0 };
	kh_auto_free char *folder = kh_strf("%s/workspaces", state);
	if (folder && access(folder, F_OK) != 0 && errno == ENOENT)
		return false;
	/* A run that ends holds it while it looks through its own. */
	kh_auto_close int lock = kh_run_records_lock(state, WAIT_MS, NULL, NULL);
	if (lock < 0)
		return false;
	bool found = !kh_other_runs_find(state, NULL, &others, NULL);
	for (size_t i = 0; !found && i < others.n; i++) {
		kh_auto_free char *before = kh_strf("%s/before", others.list[i].path);
		found = !others.list[i].live &&
			(!before || access(before, F_OK) == 0 || errno != ENOENT);
	}
	return found;
}
