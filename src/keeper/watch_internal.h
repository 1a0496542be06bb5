/* watch_internal.h - files with values and certificates that may be replaced */
#ifndef KEYHOLE_KEEPER_WATCH_INTERNAL_H
#define KEYHOLE_KEEPER_WATCH_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

struct kh_vault;
struct kh_watch;

/* --- watch_way.c ------------------------------------------------------------------------------ */

/*
 * Calls `each` for each name that decides where the absolute path leads: links are followed, and
 * `folder` has none in it. Each name is told before it is looked up. The last call is for the file
 * itself: `folder` is its path, and `name` NULL. Return: false: `each` said so, or some names are
 * not known (a folder that may not be searched, too many links, too long). A name that is not
 * there ends the way: nothing else decides until it comes.
 */
bool kh_watch_way(const char *path, bool (*each)(void *arg, const char *folder, const char *name),
		  void *arg);

/* --- watch.c ---------------------------------------------------------------------------------- */

/* Watches all files of the vault's sources, if there are any: before they are read, so that no
 * change is missed. Call it again when they may lead elsewhere. */
void kh_watch_begin(struct kh_vault *vault);
void kh_watch_end(struct kh_vault *vault);
/* Return: one of the files may have changed: read them. The first event is told at once, those of
 * the next KH_LIMIT_FILES_LOOK_MS together. */
bool kh_watch_look(struct kh_watch *watch);
/* When kh_watch_look has something to do without an event (monotonic); 0: never. */
uint64_t kh_watch_deadline(const struct kh_watch *watch);

#endif
