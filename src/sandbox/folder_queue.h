/* folder_queue.h - the folders that a walk has still to visit */
#ifndef KEYHOLE_SANDBOX_FOLDER_QUEUE_H
#define KEYHOLE_SANDBOX_FOLDER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * An agent may make millions of folders with paths of thousands of bytes. So a folder is kept by
 * its name and the folder above it, and its path is put together when it is visited.
 */
struct kh_queued_folder {
	struct kh_queued_folder *above; /* NULL: the walk begins here */
	struct kh_queued_folder *next;
	unsigned uses; /* in the queue or being visited, and each folder below that is kept */
	unsigned depth;
	unsigned mark;	     /* the caller's */
	unsigned path_bytes; /* without the NUL */
	char name[];	     /* where the walk begins: a path, which may be empty */
};

struct kh_folder_queue {
	struct kh_queued_folder *first, *last;
	size_t bytes; /* that all folders take which are kept */
};

/* Adds a folder at the end. `above` is one that the caller has taken and not released, or NULL.
 * Return: NULL: no memory. */
struct kh_queued_folder *kh_folder_queue_add(struct kh_folder_queue *queue,
					     struct kh_queued_folder *above, const char *name);
/* Takes the first; the caller releases it. NULL: there is none. */
struct kh_queued_folder *kh_folder_queue_take(struct kh_folder_queue *queue);
void kh_folder_queue_release(struct kh_folder_queue *queue, struct kh_queued_folder *folder);
/* Its path from where the walk began (heap). NULL: no memory. */
char *kh_folder_queue_path(const struct kh_queued_folder *folder);
/* Drops what is still in the queue. */
void kh_folder_queue_fini(struct kh_folder_queue *queue);

#endif
