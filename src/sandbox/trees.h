/*
 * trees.h - covers sockets and set-ID files in the mounted trees of the host
 *
 * Two kinds, wherever they are in a workspace, a home, what --ro names or a folder of --rootfs:
 *
 *   sockets        Who may write to one can dial the program behind it; a read-only mount does not
 *                  change that. An empty file is mounted over each.
 *   set-ID files   In a tree that can be written to, set-user-ID, set-group-ID and those with
 *                  capabilities. A write takes the bit away, one through a shared mapping does not;
 *                  so the file would be root's program with the agent's content. Each is mounted
 *                  onto itself, read-only.
 *
 * What the host makes there later is not seen (docs/sandbox-risks.md).
 */
#ifndef KEYHOLE_SANDBOX_TREES_H
#define KEYHOLE_SANDBOX_TREES_H

#include <stdbool.h>

#include <keyhole/base/err.h>

struct kh_view;

/*
 * Walks every tree that the caller chose and that `view` has by now, and lays over it what is
 * found. Nothing is left out silently: more entries than KH_LIMIT_SANDBOX_TREE_ENTRIES, more finds
 * than KH_LIMIT_SANDBOX_TREE_COVERS, or a folder of ours that can't be read, is an error that says
 * what to do.
 */
bool kh_trees_cover(struct kh_view *view, struct kh_err *err);

#endif
