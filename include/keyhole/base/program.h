/* program.h - finds a program of the host by its name */
#ifndef KEYHOLE_BASE_PROGRAM_H
#define KEYHOLE_BASE_PROGRAM_H

#include <stdbool.h>

/*
 * The first executable of this name on PATH, as an absolute path that the caller frees; NULL: there
 * is none. Entries of PATH that are empty or relative are skipped, since anybody may write to the
 * working folder. So are entries in a folder of kh_program_avoid, and programs that a link leads to
 * there.
 */
char *kh_program_find(const char *name);

/*
 * From now on kh_program_find finds nothing in this folder: a sandbox may write to it, and PATH
 * often names folders of a project (node_modules/.bin). "/" has no effect. A forked child inherits
 * this. Not thread-safe. Return: false: the folder can't be resolved, or KH_PROGRAM_AVOIDED folders
 * are set already.
 */
enum { KH_PROGRAM_AVOIDED = 8 };
bool kh_program_avoid(const char *folder);
/* PATH without the entries in which kh_program_find finds nothing, for programs that look for
 * others. On the heap; NULL without memory. */
char *kh_program_path(void);

#endif
