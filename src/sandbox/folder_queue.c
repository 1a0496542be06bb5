/* folder_queue.c - the folders that a walk has still to visit (folder_queue.h) */
#include "folder_queue.h"

#include <stdlib.h>
#include <string.h>

enum { HEAP_BYTES = 16 /* that an allocation takes besides what was asked for */ };

static size_t bytes_of(const struct kh_queued_folder *folder)
{
	return sizeof(*folder) + strlen(folder->name) + 1 + HEAP_BYTES;
}

/* Is there a slash between the path of the folder above and the name? */
static bool has_slash(const struct kh_queued_folder *folder)
{
	return folder->above && folder->above->path_bytes > 0;
}

struct kh_queued_folder *kh_folder_queue_add(struct kh_folder_queue *queue,
					     struct kh_queued_folder *above, const char *name)
{
	size_t len = strlen(name);
	struct kh_queued_folder *folder = malloc(sizeof(*folder) + len + 1);
	if (!folder)
		return NULL;
	*folder = (struct kh_queued_folder){ .above = above, .uses = 1 };
	memcpy(folder->name, name, len + 1);
	folder->path_bytes = (unsigned)len;
	if (above) {
		above->uses++;
		folder->depth = above->depth + 1;
		folder->path_bytes += above->path_bytes + has_slash(folder);
	}
	if (queue->last)
		queue->last->next = folder;
	else
		queue->first = folder;
	queue->last = folder;
	queue->bytes += bytes_of(folder);
	return folder;
}

struct kh_queued_folder *kh_folder_queue_take(struct kh_folder_queue *queue)
{
	struct kh_queued_folder *folder = queue->first;
	if (!folder)
		return NULL;
	queue->first = folder->next;
	if (!queue->first)
		queue->last = NULL;
	folder->next = NULL;
	return folder;
}

void kh_folder_queue_release(struct kh_folder_queue *queue, struct kh_queued_folder *folder)
{
	while (folder && --folder->uses == 0) {
		struct kh_queued_folder *above = folder->above;
		queue->bytes -= bytes_of(folder);
		free(folder);
		folder = above;
	}
}

char *kh_folder_queue_path(const struct kh_queued_folder *folder)
{
	size_t at = folder->path_bytes;
	char *path = malloc(at + 1);
	if (!path)
		return NULL;
	path[at] = '\0';
	for (; folder; folder = folder->above) {
		size_t len = strlen(folder->name);
		at -= len;
		memcpy(path + at, folder->name, len);
		if (has_slash(folder))
			path[--at] = '/';
	}
	return path;
}

void kh_folder_queue_fini(struct kh_folder_queue *queue)
{
	struct kh_queued_folder *folder;
	while ((folder = kh_folder_queue_take(queue)))
		kh_folder_queue_release(queue, folder);
}
