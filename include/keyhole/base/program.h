/* program.h - finds a program of the host by its name */
#ifndef KEYHOLE_BASE_PROGRAM_H
#define KEYHOLE_BASE_PROGRAM_H

#include <stdbool.h>

/*
 * The first executable of this name on PATH, as an absolute path that the caller frees; NULL: there
 * is none. Entries of PATH that are empty or relative are skipped, since anybody may write to the
 * working folder. So are entries that a sandbox could have changed (writable.h), and programs to
 * which a link leads through such a folder.
 */
char *kh_program_find(const char *name);

/*
 * PATH for programs that look for others: without the entries in which kh_program_find finds
 * nothing, and without those in which it would skip a program, since others follow a link that
 * leads through a folder that a sandbox could have changed. It is never empty: without an entry it
 * names a folder that does not exist. On the heap; NULL without memory.
 */
char *kh_program_path(void);
/* The first such link of the user's, for whose sake a whole entry is missing there. On the heap;
 * NULL: there is none, or no memory. */
char *kh_program_link_away(void);

/*
 * The environment of a program of the host that keyhole starts: `given` (NULL: this process's) with
 * each PATH cut as kh_program_path does. A program looks for others by itself, so none may get a
 * PATH that was not cut. The list is one block, which the caller frees; it points into `given`.
 * NULL without memory: then the program must not be started.
 */
char **kh_program_environment(char *const *given);

#endif
