/*
 * run_trust.c - a configuration in the workspace, which the agent could have written
 *
 * It is used only with the content that the user has trusted (`keyhole trust`). What it names has
 * to be elsewhere, as with every configuration (run_names.c).
 */
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/slice.h>

#include "run_internal.h"

/* Is -c this file, by whatever name? */
static bool is_named(const struct kh_run_options *o, const char *path)
{
	kh_auto_free char *named = o->config_path ? realpath(o->config_path, NULL) : NULL;

	return named && strcmp(named, path) == 0;
}

/* Rules that were trusted once are not left out because an agent has written to the file: an agent
 * with a profile would then have those of its presets. Return: may the run go on? */
static bool changed(const char *path)
{
	const char *word = kh_esc_word(path);

	kh_cli_complain(
		"run: %s: has changed since you trusted it, or another file is in its place "
		"(read it, then: keyhole trust %s; to run without it: keyhole trust --remove %s)",
		kh_esc_str(path), word, word);
	return false;
}

/* Is there a note about either file of the folder? */
static bool was_trusted(const char *top)
{
	static const char *const names[] = { "keyhole.yaml", ".keyhole/keyhole.yaml" };
	bool any = false;

	for (size_t i = 0; !any && i < sizeof(names) / sizeof(names[0]); i++) {
		struct kh_err err = KH_ERR_INIT;
		kh_auto_free char *path = kh_strf("%s/%s", top, names[i]);
		any = !path || kh_trusted_file_is(path, "", &err) != KH_TRUSTED_NOT ||
		      err.code != KH_ERR_NONE;
	}
	return any;
}

/* Return: may the run go on? */
static bool not_used(const struct kh_run_options *o, const char *path, bool named, const char *why)
{
	if (named)
		kh_cli_complain("run: -c %s: is in the workspace, where the agent may write, and "
				"%s (read it, then: keyhole trust %s)",
				kh_esc_str(o->config_path), why, kh_esc_word(path));
	else
		kh_cli_complain("run: %s is not used: %s (read it, then: keyhole trust %s)",
				kh_esc_str(path), why, kh_esc_word(path));
	return !named;
}

bool kh_run_trust_find(struct kh_run_options *o)
{
	struct kh_err err = KH_ERR_INIT;
	const char *top = o->workspace;
	kh_auto_free char *path = NULL;

	if (!top)
		return true;
	if (!kh_trusted_file_find(top, &path, o->trusted_digest, &err)) {
		o->trusted_digest[0] = '\0';
		if (o->config_path)
			return true;
		kh_cli_complain("run: %s (it is not used)", err.text);
		return !was_trusted(top);
	}
	bool named = path && is_named(o, path);
	enum kh_trusted trusted = KH_TRUSTED_NOT;
	if (path && (named || !o->config_path))
		trusted = kh_trusted_file_is(path, o->trusted_digest, &err);
	if (trusted != KH_TRUSTED_SAME)
		o->trusted_digest[0] = '\0';
	if (!named && o->config_path)
		return true;
	if (trusted != KH_TRUSTED_SAME && !named && was_trusted(top))
		return changed(path ? path : top);
	if (!path)
		return true;
	if (trusted == KH_TRUSTED_NOT)
		return not_used(o, path, named,
				err.code != KH_ERR_NONE ? err.text : "you have not trusted it");
	if (trusted == KH_TRUSTED_CHANGED)
		return not_used(o, path, named, "it has changed since you trusted it");
	if (!o->profile && !o->quiet)
		kh_cli_complain("run: rules of %s, which you trust", kh_esc_str(path));
	o->trusted = kh_steal_ptr(&path);
	o->config_path = o->trusted;
	return true;
}

/* Who has trusted it expects it to be used. A profile says itself why there is no workspace. */
void kh_run_trust_hint(const struct kh_run_options *o)
{
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *here = NULL, *path = NULL;
	char digest[KH_TRUSTED_HEX + 1];

	if (o->workspace || o->no_workspace || o->config_path || o->profile || o->quiet)
		return;
	here = realpath(".", NULL);
	if (here && kh_trusted_file_find(here, &path, digest, &err) && path &&
	    kh_trusted_file_is(path, digest, &err) == KH_TRUSTED_SAME)
		kh_cli_complain("run: %s, which you trust, is not used: this run has no workspace "
				"(--workspace . uses it)",
				kh_esc_str(path));
}
