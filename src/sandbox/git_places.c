/*
 * git_places.c - the fixed places of git's configuration files, whether they exist or not
 *
 * `git config --show-origin` names only files that exist. An agent that creates one of the absent
 * ones could configure git (git-config(1), FILES). So these places are derived from git's rules:
 * the system's file, ~/.gitconfig, the folder git in $XDG_CONFIG_HOME, and what GIT_CONFIG_GLOBAL
 * and similar variables name. A later shell may have another environment, so the default places
 * count in addition to those of the environment.
 */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>

#include "git_places.h"

/* In the folder git, which git reads without being told to. */
static const char *const beside[] = { "attributes", "ignore", "credentials" };

/* The folders of which git takes each file for a program, or copies it for a hook. */
static const char *const folder_variables[] = { "GIT_TEMPLATE_DIR", "GIT_EXEC_PATH" };

static char *join(struct kh_git_finding *f, const char *folder, const char *name)
{
	char *path = kh_strf("%s/%s", folder, name);
	if (!path)
		kh_git_names_no_memory(f->out);
	return path;
}

/* The environment is that of whoever runs this. */
static const char *variable(const struct kh_git_person *person, const char *name)
{
	const char *value = person->is_owner ? NULL : getenv(name);
	return value && *value ? value : NULL;
}

/* ---- the homes ---- */

enum { HOMES_MOST = 2, FOLDERS_MOST = HOMES_MOST + 1 };

/* $HOME, and the one that a new login has. Return: how many. */
static size_t find_homes(const struct kh_git_person *person, const char *homes[HOMES_MOST])
{
	size_t n = 0;
	/* cppcheck-suppress getpwuidCalled ; one thread */
	const struct passwd *user = getpwuid(person->uid);
	if (person->home && *person->home)
		homes[n++] = person->home;
	if (user && user->pw_dir && (n == 0 || strcmp(homes[0], user->pw_dir) != 0))
		homes[n++] = user->pw_dir;
	return n;
}

/* The folders git of the configuration. Return: how many; each is heap. */
static size_t find_folders(struct kh_git_finding *f, const struct kh_git_person *person,
			   char *folders[FOLDERS_MOST])
{
	const char *homes[HOMES_MOST];
	const char *xdg = variable(person, "XDG_CONFIG_HOME");
	size_t n = 0, n_homes = find_homes(person, homes);
	for (size_t i = 0; i < n_homes; i++)
		folders[n++] = join(f, homes[i], ".config/git");
	if (xdg)
		folders[n++] = join(f, xdg, "git");
	return n;
}

/* ---- the files ---- */

static void give(struct kh_git_finding *f, const char *value,
		 void (*each)(struct kh_git_finding *f, const char *path))
{
	kh_auto_free char *path = value ? kh_git_names_expand(f, f->root, value) : NULL;
	if (path)
		each(f, path);
	else if (value)
		kh_git_names_no_memory(f->out);
}

void kh_git_places_each(struct kh_git_finding *f, const struct kh_git_person *person,
			void (*each)(struct kh_git_finding *f, const char *path))
{
	const char *homes[HOMES_MOST];
	char *folders[FOLDERS_MOST];
	size_t n_homes = find_homes(person, homes), n = find_folders(f, person, folders);
	each(f, "/etc/gitconfig");
	give(f, "%(prefix)/etc/gitconfig", each);
	give(f, variable(person, "GIT_CONFIG_SYSTEM"), each);
	for (size_t i = 0; i < n; i++) {
		kh_auto_free char *path = folders[i] ? join(f, folders[i], "config") : NULL;
		if (path)
			each(f, path);
		free(folders[i]);
	}
	for (size_t i = 0; i < n_homes; i++) {
		kh_auto_free char *path = join(f, homes[i], ".gitconfig");
		if (path)
			each(f, path);
	}
	give(f, variable(person, "GIT_CONFIG_GLOBAL"), each);
}

/* ---- what is noted ---- */

static void look_at(struct kh_git_finding *f, const char *path)
{
	kh_git_names_look(f, f->root, path, KH_GIT_READ_FILE);
}

/* As a whole, and file by file where it is the workspace itself or above it. */
static void look_in_folder(struct kh_git_finding *f, const char *folder)
{
	kh_git_names_look(f, f->root, folder, KH_GIT_READ_FOLDER);
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
		kh_auto_free char *path = join(f, folder, beside[i]);
		if (path)
			look_at(f, path);
	}
}

void kh_git_places_look(struct kh_git_finding *f, const struct kh_git_person *person)
{
	char *folders[FOLDERS_MOST];
	size_t n = find_folders(f, person, folders);
	for (size_t i = 0; i < n; i++) {
		if (folders[i])
			look_in_folder(f, folders[i]);
		free(folders[i]);
	}
	kh_git_places_each(f, person, look_at);
	look_at(f, "/etc/gitattributes");
	give(f, "%(prefix)/etc/gitattributes", look_at);
	give(f, variable(person, "GIT_ATTR_SYSTEM"), look_at);
	give(f, variable(person, "GIT_ATTR_GLOBAL"), look_at);
	for (size_t i = 0; i < sizeof(folder_variables) / sizeof(folder_variables[0]); i++) {
		const char *value = variable(person, folder_variables[i]);
		if (value)
			kh_git_names_hooks(f, value);
	}
}
