/* move.h - moves a tree that an agent wrote, also to another file system */
#ifndef KEYHOLE_SANDBOX_MOVE_H
#define KEYHOLE_SANDBOX_MOVE_H

#include <stdbool.h>

/* Moves an entry from one folder to another. If rename(2) is not possible, it copies and removes.
 * Follows no link. In a copy a socket or device becomes an empty file, set-user-ID and set-group-ID
 * bits are removed, holes stay holes, and more than KH_LIMIT_MOVE_BYTES is an error (EFBIG). Never
 * replaces anything. Return: false with errno; the source is still there. */
bool kh_move(int from_dir, const char *from, int to_dir, const char *to);
/* For an entry that can't be moved: renames it in the same folder, and removes the execute
 * permission of a file. What is in a folder stays as it is. Never replaces anything. Return: false
 * with errno. */
bool kh_move_disarm(int dir, const char *name, const char *as);
/* Removes a file, as kh_move does after it has copied one: also from a folder that its owner may
 * not write to. Return: false with errno. */
bool kh_move_drop(int dir, const char *name);
/* Removes a tree. Return: false with errno where something is left. */
bool kh_move_remove(int dir, const char *name);

#endif
