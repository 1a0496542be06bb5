/*
 * git_before.c - the settings of a git configuration that were there before a run
 *
 * When the host replaces a configuration during a run, nothing tells what in the new file is the
 * host's and what is the agent's. The settings of before are the user's own, whatever they name.
 */
#include "git_before.h"

#include <keyhole/base/cleanup.h>
#include <keyhole/base/limits.h>

bool kh_git_before_digest(const char *path, const struct kh_git_config_entry *entry,
			  unsigned char out[KH_CONCERN_DIGEST_BYTES])
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	kh_buf_init(&text, 2 * KH_LIMIT_SURVEY_FILE_BYTES);
	if (!kh_git_config_write(&text, entry))
		return false;
	kh_concern_setting_digest(path, &text, out);
	return true;
}

struct noting {
	const char *path;
	struct kh_buf *digests;
	size_t n;
	bool failed;
};

static bool note(void *arg, const struct kh_git_config_entry *entry)
{
	struct noting *noting = arg;
	unsigned char digest[KH_CONCERN_DIGEST_BYTES];
	/* It stays as it is; but whether a path may, depends on where it leads. */
	if (kh_git_config_is_harmless(entry) && !kh_git_config_local(entry))
		return true;
	if (!kh_git_before_digest(noting->path, entry, digest))
		return true;
	noting->failed = !kh_buf_append(noting->digests, digest, sizeof(digest));
	return !noting->failed && ++noting->n < KH_LIMIT_SURVEY_SETTINGS;
}

bool kh_git_before_note(const struct kh_concern *config, struct kh_buf *digests)
{
	struct kh_buf text kh_cleanup(kh_buf_fini);
	struct noting noting = { .path = config->path, .digests = digests };
	kh_buf_init(&text, KH_LIMIT_SURVEY_FILE_BYTES);
	if (kh_concern_read(config->folder->fd, config->entry->name, &text))
		(void)kh_git_config_read(kh_buf_view(&text), note, &noting);
	return !noting.failed;
}
