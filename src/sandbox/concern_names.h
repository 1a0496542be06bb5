/* concern_names.h - names that count only in a folder of a certain name (.cargo: config.toml) */
#ifndef KEYHOLE_SANDBOX_CONCERN_NAMES_H
#define KEYHOLE_SANDBOX_CONCERN_NAMES_H

#include <stdbool.h>

/* The first mark of such a folder. Lower ones are the caller's. */
enum {
	KH_CONCERN_NAMES_MARK = 1 << 8,
	KH_CONCERN_NAMES_ARC = 1 << 29, /* Arcanist's folder in that of git or hg */
};

/* The marks of a folder with this name, in a folder that is marked `above`. `top`: directly in the
 * workspace. Return: 0: none of its names counts. */
unsigned kh_concern_names_mark(unsigned above, const char *name, bool top);
/* Does `name` count in a folder with these marks? */
bool kh_concern_names_has(unsigned mark, const char *name);
/* Is it the name of a folder in which some names count (.cargo: config.toml)? `shared`: also of one
 * that has files of another purpose (.config). */
bool kh_concern_is_holder(const char *name, bool shared);
/* Does `name` count in a folder with that name? */
bool kh_concern_is_held(const char *folder, const char *name);

#endif
