/* program.h - which of the host's programs a name means */
#ifndef KEYHOLE_BASE_PROGRAM_H
#define KEYHOLE_BASE_PROGRAM_H

#include <stdbool.h>

/*
 * The first executable of this name on PATH, as an absolute path that the caller frees; NULL: there
 * is none. Skipped: entries of PATH that are empty or relative, since the working folder may be
 * anybody's, and whatever lies in a folder of kh_program_avoid, or is a link that leads there.
 */
char *kh_program_find(const char *name);

/*
 * From now on nothing in this folder is found: a sandbox may write to it, and PATH often names
 * folders of a project (node_modules/.bin). A child inherits it. Not safe from several threads.
 * Return: false where the folder can't be resolved, or above KH_PROGRAM_AVOIDED folders.
 */
enum { KH_PROGRAM_AVOIDED = 8 };
bool kh_program_avoid(const char *folder);

#endif
