/*
 * mask.c - warns about or masks .env files in a workspace, and masks sockets of the host's programs
 */
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/slice.h>

#include "sandbox_internal.h"

/* An empty file over it. */
static bool mask(struct kh_view *view, const char *path, struct kh_err *err)
{
	if (kh_view_has(view, path))
		return true;
	if (!kh_view_file(view, path, 0444, KH_SLICE(""), err))
		return false;
	if (!view->failed)
		view->list[view->n - 1].kind = KH_MOUNT_EMPTY;
	return true;
}

struct masking {
	struct kh_view *view;
	const struct kh_sandbox_spec *spec;
	const struct kh_survey *survey;
	struct kh_err *err;
};

/* By a second name (a hard link) the file could be read all the same. */
static bool each_name(const struct masking *m, const char *path,
		      bool (*act)(const struct masking *, const char *))
{
	const struct kh_survey *survey = m->survey;
	struct stat st;
	if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink < 2)
		return act(m, path);
	if (survey->too_many_linked)
		return kh_err_set(m->err, KH_ERR_CONFIG,
				  "%s: may have further names (hard links), which could not all be "
				  "looked for (take a smaller folder)",
				  kh_esc_str(path));
	for (size_t i = 0; i < survey->n_linked; i++) {
		const struct kh_linked *other = &survey->linked[i];
		if (other->dev == st.st_dev && other->ino == st.st_ino && !act(m, other->path))
			return false;
	}
	return act(m, path);
}

static bool mask_one(const struct masking *m, const char *path)
{
	return mask(m->view, path, m->err);
}

/* The folders above: renamed, one would take the file to where the host writes it anew and no mask
 * lies. */
static bool pin_one(const struct masking *m, const char *path)
{
	return kh_workspace_pin_above(m->view, m->spec, path, m->err);
}

/* Where nothing can be renamed, or, in an overlay, only by a copy of what is seen. */
static bool is_pinned(const struct masking *m)
{
	return m->spec->workspace_read_only || (m->spec->review && m->spec->review->overlay);
}

/* A link is masked where it leads, if that is in the workspace; else it leads nowhere. Without the
 * link nobody would know the next time, unless the name there says it too. */
static bool refuse_lead(const struct masking *m, const char *link, const char *target)
{
	const char *name = strrchr(target, '/') + 1;
	if (m->spec->review || m->spec->workspace_read_only || strcmp(link, target) == 0 ||
	    kh_survey_is_env_file(name))
		return true;
	return kh_err_set(m->err, KH_ERR_CONFIG,
			  "%s: leads to %s, which could not be masked any more once the agent has "
			  "removed the link (give that file a name that begins with .env, or use "
			  "--workspace DIR:review)",
			  kh_esc_str(link), kh_esc_str(target));
}

static bool each_secret(const struct masking *m, bool (*act)(const struct masking *, const char *))
{
	const struct kh_paths *secrets = &m->survey->secrets;
	const char *root = m->spec->workspace;
	size_t len = strlen(root);
	for (size_t i = 0; i < secrets->n; i++) {
		kh_auto_free char *path = realpath(secrets->list[i], NULL);
		if (!path || strncmp(path, root, len) != 0 || path[len] != '/')
			continue;
		if (!refuse_lead(m, secrets->list[i], path) || !each_name(m, path, act))
			return false;
	}
	return true;
}

static void warn(const char *root, const struct kh_paths *secrets)
{
	enum { NAMED = 3 };
	struct kh_buf names kh_cleanup(kh_buf_fini);
	kh_buf_init(&names, 1024);
	for (size_t i = 0; i < secrets->n && i < NAMED; i++)
		(void)kh_buf_printf(&names, "%s%s", i ? ", " : "",
				    kh_esc_str(secrets->list[i] + strlen(root) + 1));
	const char *text = kh_buf_cstr(&names);
	kh_log_warn("the sandbox can read %s%s in the workspace (--mask-env shows them empty)",
		    text ? text : ".env files", secrets->n > NAMED ? " and more" : "");
}

bool kh_mask_plan(struct kh_view *view, const struct kh_sandbox_spec *spec,
		  const struct kh_survey *survey, struct kh_err *err)
{
	const struct kh_paths *secrets = &survey->secrets, *sockets = &survey->sockets;
	if ((spec->mask_env_files ? secrets->n : 0) + sockets->n > KH_LIMIT_SURVEY_MASKS)
		return kh_err_set(
			err, KH_ERR_CONFIG,
			"--workspace %s: more than %d files of secrets and sockets in it, "
			"which is more than can be masked (take a smaller folder)",
			kh_esc_str(spec->workspace), KH_LIMIT_SURVEY_MASKS);
	const struct masking m = { view, spec, survey, err };
	/* All folders first: such a mount would cover a mask in it. */
	if (spec->mask_env_files &&
	    ((!is_pinned(&m) && !each_secret(&m, pin_one)) || !each_secret(&m, mask_one)))
		return false;
	if (secrets->n > 0 && !spec->mask_env_files)
		warn(spec->workspace, secrets);
	for (size_t i = 0; i < sockets->n; i++) {
		kh_log_warn("%s is a socket of the host; the sandbox sees an empty file in its "
			    "place",
			    kh_esc_str(sockets->list[i]));
		if (!mask(view, sockets->list[i], err))
			return false;
	}
	return true;
}
