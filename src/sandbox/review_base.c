/*
 * review_base.c - the recorded state of a workspace when the agent began, to detect conflicts
 *
 * One record per file: a fixed part and the path with a NUL. A file is identified by its inode
 * number, size and times, since nobody can set its ctime. Records are only appended; the last one
 * of a path counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>

#include "review_internal.h"

bool kh_base_create(struct kh_base_writer *writer, const char *path, bool append,
		    struct kh_err *err)
{
	int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (append ? O_APPEND : O_TRUNC);
	int fd = open(path, flags, 0600);
	writer->file = fd < 0 ? NULL : fdopen(fd, append ? "a" : "w");
	if (writer->file)
		return true;
	kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
	if (fd >= 0)
		close(fd);
	return false;
}

bool kh_base_note_entry(struct kh_base_writer *writer, const char *path,
			const struct kh_base_entry *entry)
{
	return fwrite(entry, sizeof(*entry), 1, writer->file) == 1 &&
	       fwrite(path, strlen(path) + 1, 1, writer->file) == 1;
}

bool kh_base_note(struct kh_base_writer *writer, const char *path, const struct stat *st,
		  const struct stat *copy)
{
	struct kh_base_entry entry = { 0 };
	if (st) {
		entry.mode = st->st_mode;
		entry.size = (uint64_t)st->st_size;
		entry.ino = st->st_ino;
		entry.mtime_s = st->st_mtim.tv_sec;
		entry.mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
		entry.ctime_s = st->st_ctim.tv_sec;
		entry.ctime_ns = (uint32_t)st->st_ctim.tv_nsec;
	}
	if (copy) {
		entry.copy_ino = copy->st_ino;
		entry.copy_ctime_s = copy->st_ctim.tv_sec;
		entry.copy_ctime_ns = (uint32_t)copy->st_ctim.tv_nsec;
	}
	return kh_base_note_entry(writer, path, &entry);
}

bool kh_base_finish(struct kh_base_writer *writer, struct kh_err *err)
{
	FILE *file = kh_steal_ptr(&writer->file);
	return !file || fclose(file) == 0 ||
	       kh_err_sys(err, KH_ERR_SYSTEM, errno, "the notes of a review");
}

static int by_path(const void *a, const void *b)
{
	const struct kh_base_row *x = a, *y = b;
	int order = strcmp(x->path, y->path);
	return order ? order : (x->at > y->at) - (x->at < y->at);
}

/* A last note that was torn by the end of a process is left out. */
static bool read_rows(struct kh_base *base)
{
	size_t alloc = 0;
	for (size_t at = 0; at + sizeof(struct kh_base_entry) < base->len;) {
		const char *path = base->bytes + at + sizeof(struct kh_base_entry);
		size_t room = base->len - at - sizeof(struct kh_base_entry);
		size_t len = strnlen(path, room);
		if (len == room)
			break;
		if (base->n == alloc) {
			alloc = alloc ? alloc * 2 : 1024;
			struct kh_base_row *rows = reallocarray(base->rows, alloc, sizeof(*rows));
			if (!rows)
				return false;
			base->rows = rows;
		}
		struct kh_base_row *row = &base->rows[base->n++];
		*row = (struct kh_base_row){ .path = path, .at = at };
		memcpy(&row->entry, base->bytes + at, sizeof(row->entry));
		at += sizeof(row->entry) + len + 1;
	}
	return true;
}

/* The last of those of one path. */
static void keep_last(struct kh_base *base)
{
	size_t kept = 0;
	for (size_t i = 0; i < base->n; i++)
		if (i + 1 == base->n || strcmp(base->rows[i].path, base->rows[i + 1].path) != 0)
			base->rows[kept++] = base->rows[i];
	base->n = kept;
}

bool kh_base_read(struct kh_base *base)
{
	if (!read_rows(base))
		return false;
	if (base->n > 1)
		qsort(base->rows, base->n, sizeof(*base->rows), by_path);
	keep_last(base);
	return true;
}

bool kh_base_load(struct kh_base *base, const char *path, struct kh_err *err)
{
	*base = (struct kh_base){ 0 };
	kh_auto_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0)
		return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
	base->bytes = malloc((size_t)st.st_size + 1);
	if (!base->bytes)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "the notes of a review: no memory");
	while (base->len < (size_t)st.st_size) {
		ssize_t n = read(fd, base->bytes + base->len, (size_t)st.st_size - base->len);
		if (n < 0 && errno != EINTR)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "%s", kh_esc_str(path));
		if (n == 0)
			break;
		base->len += n > 0 ? (size_t)n : 0;
	}
	return kh_base_read(base) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "the notes of a review: no memory");
}

void kh_base_fini(struct kh_base *base)
{
	free(base->bytes);
	free(base->rows);
	*base = (struct kh_base){ 0 };
}

const struct kh_base_entry *kh_base_find(const struct kh_base *base, const char *path)
{
	size_t low = 0, high = base->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(base->rows[middle].path, path);
		if (order == 0)
			return base->rows[middle].entry.mode ? &base->rows[middle].entry : NULL;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool kh_base_is_same(const struct kh_base_entry *entry, const struct stat *st)
{
	if (!entry || st->st_mode == 0)
		return !entry && st->st_mode == 0;
	/* Of a folder all else changes with what is in it. */
	if (S_ISDIR(entry->mode) && S_ISDIR(st->st_mode))
		return true;
	return entry->mode == st->st_mode && entry->size == (uint64_t)st->st_size &&
	       entry->ino == st->st_ino && entry->mtime_s == st->st_mtim.tv_sec &&
	       entry->mtime_ns == st->st_mtim.tv_nsec && entry->ctime_s == st->st_ctim.tv_sec &&
	       entry->ctime_ns == st->st_ctim.tv_nsec;
}

bool kh_base_is_copy(const struct kh_base_entry *entry, const struct stat *copy)
{
	if (!entry || !entry->copy_ino)
		return false;
	if (S_ISDIR(entry->mode))
		return S_ISDIR(copy->st_mode) && (entry->mode & 0777) == (copy->st_mode & 0777);
	return entry->copy_ino == copy->st_ino && entry->copy_ctime_s == copy->st_ctim.tv_sec &&
	       entry->copy_ctime_ns == copy->st_ctim.tv_nsec;
}
