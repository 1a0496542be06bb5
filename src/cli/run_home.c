/*
 * run_home.c - what the command finds in its home
 *
 * The files come from the agent's profile and from the presets whose rules the tenant uses. Where
 * two have the same path, the first that fits is taken: the profile's, then those of the presets in
 * the order of the rules.
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/escape.h>

#include "run_internal.h"

static const char guide[] =
	"# This sandbox\n"
	"\n"
	"You run in a sandbox without a network. The only way out is a proxy with a list of "
	"allowed "
	"requests.\n"
	"`curl -s http://keyhole.internal/` shows that list.\n"
	"\n"
	"- A 403 whose text begins with \"keyhole:\" comes from the proxy. It says what is "
	"allowed. "
	"Trying again or another spelling does not help: say what you need, and go on without it.\n"
	"- Keys in the environment are placeholders. The proxy puts the real ones in. They work "
	"only where they belong, so do not copy them anywhere else.\n"
	"- A file that can't be written to is protected on purpose, because a tool on the host "
	"would "
	"run it.\n";

struct home {
	struct kh_home_file *files;
	size_t n;
	const struct kh_ready *ready;
	const char *workspace;
};

static const char *placeholder_of(const char *variable, void *arg)
{
	const struct kh_ready *ready = ((const struct home *)arg)->ready;
	for (size_t i = 0; i < ready->n_placeholders; i++)
		if (strcmp(ready->placeholders[i].env_name, variable) == 0)
			return ready->placeholders[i].value;
	return NULL;
}

void kh_run_home_free(struct kh_home_file *files, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(files[i].path);
		free(files[i].content);
	}
	free(files);
}

static bool has(const struct home *home, const char *path)
{
	for (size_t i = 0; i < home->n; i++)
		if (strcmp(home->files[i].path, path) == 0)
			return true;
	return false;
}

/* Takes the content over, which may be NULL. */
static bool put(struct home *home, const char *path, char *content)
{
	struct kh_home_file *out = &home->files[home->n++];
	out->path = strdup(path);
	out->content = content;
	return out->path && out->content;
}

static bool put_all(struct home *home, const struct kh_home_templates *templates)
{
	bool ok = true;
	for (size_t i = 0; ok && i < templates->count; i++) {
		const struct kh_home_template *one = &templates->list[i];
		if ((one->needs && !placeholder_of(one->needs, home)) || has(home, one->path))
			continue;
		ok = put(
			home, one->path,
			kh_home_template_fill(one->content, home->workspace, placeholder_of, home));
	}
	return ok;
}

bool kh_run_home_files(const struct kh_run_options *options, const struct kh_config *config,
		       const struct kh_ready *ready, struct kh_home_file **files, size_t *n,
		       struct kh_err *err)
{
	const struct kh_agent_profile *profile = options->profile;
	const struct kh_home_templates *presets =
		&config->tenants[config->listeners[0].tenant].rules.files;
	size_t most = presets->count + (profile ? profile->files.count + 1 : 0);
	struct home home = { .files = calloc(most + 1, sizeof(*home.files)),
			     .ready = ready,
			     .workspace =
				     options->workspace ? options->workspace : KH_SANDBOX_HOME };
	bool ok = home.files != NULL;
	if (ok && profile)
		ok = put_all(&home, &profile->files) &&
		     (!profile->guide || put(&home, profile->guide, strdup(guide)));
	ok = ok && put_all(&home, presets);
	*files = home.files;
	*n = home.n;
	if (ok)
		return true;
	kh_run_home_free(home.files, home.n);
	*files = NULL;
	*n = 0;
	return kh_err_set(
		err, KH_ERR_CONFIG,
		"the files for the home: a place has no end (\"${\" without \"}\"), or there "
		"is no memory");
}
