/* move.h - moves a tree that an agent wrote, also to another file system */
#ifndef KEYHOLE_SANDBOX_MOVE_H
#define KEYHOLE_SANDBOX_MOVE_H

#include <stdbool.h>

/* Moves an entry of one folder to another. Where a rename can't, it copies and removes; no link is
 * followed; a socket or device becomes an empty file, and set-user-ID and set-group-ID modes are
 * taken away, holes stay holes, and more than KH_LIMIT_MOVE_BYTES are not copied (EFBIG). It
 * never replaces anything. Return: false with errno; the source is still there. */
bool kh_move(int from_dir, const char *from, int to_dir, const char *to);
/* Where it can't be moved away: it gets another name in the same folder, and a file loses the right
 * to be run. It never replaces anything. Return: false with errno. */
bool kh_move_disarm(int dir, const char *name, const char *as);
/* Removes a file, as kh_move does after it has copied one: also from a folder that its owner may
 * not write to. Return: false with errno. */
bool kh_move_drop(int dir, const char *name);
/* Removes a tree. Return: false with errno where something is left. */
bool kh_move_remove(int dir, const char *name);

#endif
