/*
 * concern_names.c - names that count only in a folder of a certain name (.cargo: config.toml)
 *
 * Names that count in any folder are in protected.c. No name here relies on case or spelling
 * (name_fold.h).
 */
#include <fnmatch.h>
#include <stddef.h>

#include "concern_names.h"
#include "name_fold.h"

/* Which of these folders it is. */
enum {
	IS_HG = KH_CONCERN_NAMES_MARK, /* 1 << 8 */
	IS_CARGO = 1 << 9,
	IS_CONFIG = 1 << 10,
	IS_GITHUB = 1 << 11, /* .github at the top */
	IS_SL = 1 << 12,
	IS_MISE = 1 << 13,
	IS_CLINE = 1 << 14,
	IS_DARCS = 1 << 15,
	IS_DARCS_PREFS = 1 << 16,
	IS_PIJUL = 1 << 17,
	IS_REPO = 1 << 18,
	IS_GITLAB = 1 << 19,
	IS_PI = 1 << 20,
	IS_BZR = 1 << 21,
	IS_BZR_BRANCH = 1 << 22,
	IS_VIM = 1 << 23,
	IS_BUNDLE = 1 << 24,
	IS_YARN = 1 << 25,
	IS_RENV = 1 << 26,
	IS_SETTINGS = 1 << 27, /* of Eclipse */
	IS_CVS = 1 << 28,
};

/* Folders of which some names count, and not the whole. */
static const struct holder {
	const char *name;
	unsigned mark;
	bool top; /* only there */
} holders[] = {
	{ ".hg", IS_HG, false },	   { ".sl", IS_SL, false },
	{ "_darcs", IS_DARCS, false },	   { ".cargo", IS_CARGO, false },
	{ ".config", IS_CONFIG, false },   { ".github", IS_GITHUB, true },
	{ ".clinerules", IS_CLINE, true }, { "mise", IS_MISE, false },
	{ ".pijul", IS_PIJUL, false },	   { ".repo", IS_REPO, false },
	{ ".gitlab", IS_GITLAB, false },   { ".pi", IS_PI, false },
	{ ".bzr", IS_BZR, false },	   { ".vim", IS_VIM, false },
	{ ".bundle", IS_BUNDLE, false },   { ".yarn", IS_YARN, false },
	{ "renv", IS_RENV, false },	   { ".settings", IS_SETTINGS, false },
	{ "CVS", IS_CVS, false },
};

/* And the names; shell patterns. */
static const struct held {
	unsigned mark;
	const char *pattern;
} held[] = {
	{ IS_HG, "hgrc" },
	{ IS_HG, "hgrc-not-shared" },
	{ IS_HG, "sharedpath" },
	{ IS_SL, "config" },
	{ IS_SL, "hgrc" },
	{ IS_SL, "sharedpath" },
	{ IS_CARGO, "config" },
	{ IS_CARGO, "config.toml" },
	{ IS_CONFIG, "mise" },
	{ IS_CONFIG, "irb" },
	{ IS_GITHUB, "hooks" },
	{ IS_GITHUB, "mcp.json" },
	{ IS_GITHUB, "copilot" },
	{ IS_CLINE, "hooks" },
	{ IS_MISE, "config*.toml" },
	{ IS_DARCS_PREFS, "defaults" },
	{ IS_BZR_BRANCH, "branch.conf" },
	{ IS_PIJUL, "config" },
	{ IS_REPO, "repo" },
	{ IS_GITLAB, "duo" },
	{ IS_PI, "extensions" },
	{ IS_PI, "settings.json" },
	{ IS_PI, "mcp.json" },
	{ IS_VIM, "coc-settings.json" },
	{ IS_BUNDLE, "config" },
	{ IS_YARN, "releases" },
	{ IS_YARN, "plugins" },
	{ IS_RENV, "activate.R" },
	{ IS_SETTINGS, "language.settings.xml" },
	{ KH_CONCERN_NAMES_ARC, "config" }, /* names libraries to load, and aliases to run */
	{ IS_CVS, "Root" },		    /* a repository, which names programs in its CVSROOT */
};

/* The mark of a folder with this name. */
static unsigned holder_of(const char *name, bool top)
{
	for (size_t i = 0; i < sizeof(holders) / sizeof(holders[0]); i++)
		if ((top || !holders[i].top) && kh_name_fold_is(name, holders[i].name))
			return holders[i].mark;
	return 0;
}

unsigned kh_concern_names_mark(unsigned above, const char *name, bool top)
{
	unsigned mark = holder_of(name, top);
	mark |= (above & IS_DARCS) && kh_name_fold_is(name, "prefs") ? IS_DARCS_PREFS : 0;
	mark |= (above & IS_HG) && kh_name_fold_is(name, "arc") ? KH_CONCERN_NAMES_ARC : 0;
	mark |= (above & IS_BZR) && kh_name_fold_is(name, "branch") ? IS_BZR_BRANCH : 0;
	return mark;
}

bool kh_concern_names_has(unsigned mark, const char *name)
{
	char room[KH_NAME_FOLD_ROOM];
	name = kh_name_fold(name, room);
	for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++)
		if ((mark & held[i].mark) && fnmatch(held[i].pattern, name, FNM_CASEFOLD) == 0)
			return true;
	return false;
}

bool kh_concern_is_holder(const char *name, bool shared)
{
	bool is_shared = kh_name_fold_is(name, ".config") || kh_name_fold_is(name, "mise");
	return (shared || !is_shared) && holder_of(name, shared) != 0;
}

bool kh_concern_is_held(const char *folder, const char *name)
{
	return kh_concern_names_has(holder_of(folder, true), name);
}
