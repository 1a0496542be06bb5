/* run_review.c - chooses the review for a run's workspace, and reports its changes at the end */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>

#include "run_internal.h"

/* The only one of this workspace. `none`: there is none. */
static char *find(const char *workspace, bool *none, struct kh_err *err)
{
	size_t n = 0, found = 0;
	char *id = NULL;
	struct kh_review *list = kh_reviews(&n, err);
	*none = false;
	for (size_t i = 0; list && i < n; i++) {
		if (!list[i].workspace || strcmp(list[i].workspace, workspace) != 0)
			continue;
		found++;
		free(id);
		id = strdup(list[i].id);
	}
	*none = list && found == 0;
	kh_reviews_free(list, n);
	if (found <= 1)
		return id;
	free(id);
	kh_err_set(err, KH_ERR_USAGE,
		   "--workspace %s:review: there are several reviews of it (`keyhole workspace ls` "
		   "lists them; :review=ID goes on with one, :review=new begins another)",
		   kh_esc_str(workspace));
	return NULL;
}

static bool go_on(struct kh_run_review *out, const struct kh_run_options *options, const char *id,
		  struct kh_err *err)
{
	if (!kh_review_continue(&out->review, id, options->engine, err))
		return false;
	if (strcmp(out->review.workspace, options->workspace) == 0)
		return true;
	return kh_err_set(err, KH_ERR_USAGE, "the review %s is of another folder: %s", id,
			  kh_esc_str(out->review.workspace));
}

bool kh_run_review_open(struct kh_run_review *out, const struct kh_run_options *options,
			struct kh_err *err)
{
	const char *which = options->review;
	if (!which)
		return true;
	bool none = strcmp(which, "new") == 0;
	kh_auto_free char *id = none	 ? NULL
				: *which ? strdup(which)
					 : find(options->workspace, &none, err);
	bool ok = none ? kh_review_new(&out->review, options->workspace, options->engine, err)
		  : id ? go_on(out, options, id, err)
		       : false;
	if (!ok)
		return false;
	out->is_open = true;
	out->mount = (struct kh_sandbox_review){ out->review.folder, out->review.overlay };
	if (options->quiet)
		return true;
	if (out->review.overlay)
		kh_cli_complain("review %s%s: an overlay over %s", out->review.id,
				none ? "" : ", continued", kh_esc_str(options->workspace));
	else
		kh_cli_complain("review %s%s: a copy of %s, since there is no overlay: %s",
				out->review.id, none ? "" : ", continued",
				kh_esc_str(options->workspace),
				out->review.why ? out->review.why : "");
	return true;
}

static void say(const struct kh_review *review, const struct kh_changes *changes)
{
	size_t n[KH_CHANGE_KINDS] = { 0 };
	for (size_t i = 0; i < changes->n; i++)
		n[changes->list[i].kind]++;
	kh_cli_complain("review %s: %zu added, %zu changed, %zu deleted%s (`keyhole workspace diff "
			"--review %s` shows them)",
			review->id, n[KH_CHANGE_ADDED], n[KH_CHANGE_CHANGED] + n[KH_CHANGE_MODE],
			n[KH_CHANGE_DELETED],
			changes->n_groups ? ", and more in folders of git or packages" : "",
			review->id);
}

/* There is nothing to look at. */
static void remove_empty(struct kh_review *review, bool quiet)
{
	struct kh_err err = KH_ERR_INIT;
	if (!kh_review_remove(review, &err))
		kh_cli_complain("review %s: %s", review->id, err.text);
	else if (!quiet)
		kh_cli_complain("review %s: nothing was changed; it is removed", review->id);
}

void kh_run_review_end(struct kh_run_review *run, bool quiet)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_changes changes kh_cleanup(kh_changes_fini) = { 0 };
	struct kh_review *review = &run->review;
	if (run->is_open) {
		if (!kh_review_look(review, NULL, &changes, &err))
			kh_cli_complain("review %s: %s", review->id, err.text);
		else if (changes.n == 0 && changes.n_groups == 0)
			remove_empty(review, quiet);
		else if (!quiet)
			say(review, &changes);
	}
	kh_review_fini(review);
	run->is_open = false;
}
