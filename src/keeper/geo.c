/*
 * geo.c - the databases of upstream.geo: copied, checked, and copied again when the files change
 *
 * The worker gets sealed copies, so that nobody can shrink or change what it has mapped. A file
 * that is being overwritten keeps changing, so it is copied only when two checks have found the
 * same. An invalid file is logged once and not read again; the copy in force stays.
 */

#include "keeper_internal.h"

#include <errno.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/net/geo.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

enum { LOOK_MS = 5 * 1000 };

static const char *const names[KH_GEO_FILES] = { "upstream.geo.country_db", "upstream.geo.asn_db" };

static const struct kh_geo_file *file_of(const struct kh_config *config, unsigned i)
{
	return i == 0 ? &config->country_db : &config->asn_db;
}

void kh_geo_files_init(struct kh_geo_files *files)
{
	*files = (struct kh_geo_files){ .look_ms = 0 };
	for (unsigned i = 0; i < KH_GEO_FILES; i++)
		files->file[i].fd = -1;
}

void kh_geo_files_close(struct kh_geo_files *files)
{
	for (unsigned i = 0; i < KH_GEO_FILES; i++)
		if (files->file[i].fd >= 0)
			(void)close(files->file[i].fd);
	kh_geo_files_init(files);
}

/* A copy that can be used. Return: -1 with `err`. */
static int take(const struct kh_config *config, unsigned i, struct stat *was, struct kh_err *err)
{
	const char *path = file_of(config, i)->path;
	kh_auto_close int fd = kh_file_sealed_copy(path, KH_LIMIT_GEO_BYTES, was, err);
	if (fd < 0) {
		kh_err_wrap(err, "%s", names[i]);
		return -1;
	}
	struct kh_geo *geo = kh_geo_open(i == 0 ? fd : -1, i == 0 ? -1 : fd, err);
	if (!geo) {
		kh_err_wrap(err, "%s: %s", names[i], kh_esc_str(path));
		return -1;
	}
	kh_geo_unref(geo);
	return kh_steal_fd(&fd);
}

bool kh_geo_files_open(struct kh_geo_files *files, const struct kh_config *config,
		       struct kh_err *err)
{
	kh_geo_files_init(files);
	for (unsigned i = 0; i < KH_GEO_FILES; i++) {
		struct kh_geo_copy *copy = &files->file[i];
		if (!file_of(config, i)->named)
			continue;
		copy->fd = take(config, i, &copy->was, err);
		if (copy->fd < 0) {
			kh_geo_files_close(files);
			return false;
		}
		copy->seen = copy->was;
		files->look_ms = kh_clock_mono_ms() + LOOK_MS;
	}
	return true;
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Return: another copy is in force. */
static bool look_at(struct kh_geo_copy *copy, const struct kh_config *config, unsigned i)
{
	const char *path = file_of(config, i)->path;
	struct kh_err err = KH_ERR_INIT;
	struct stat now, before = copy->seen;
	if (stat(path, &now) != 0)
		now = (struct stat){ .st_ino = 0 };
	copy->seen = now;
	if (now.st_ino == 0 && before.st_ino != 0)
		kh_log_warn("%s: %s is gone: the database in force stays", names[i],
			    kh_esc_str(path));
	if (now.st_ino == 0)
		return false;
	if (same(&now, &copy->was) || same(&now, &copy->bad) || !same(&now, &before))
		return false;
	int fd = take(config, i, &now, &err);
	if (fd < 0) {
		copy->bad = copy->seen;
		kh_log_error("%s: the database in force stays", err.text);
		return false;
	}
	(void)close(copy->fd);
	copy->fd = fd;
	copy->was = now;
	kh_log_info("%s: %s has changed: the new one is in force", names[i], kh_esc_str(path));
	return true;
}

bool kh_geo_files_look(struct kh_geo_files *files, const struct kh_config *config)
{
	bool changed = false;
	files->look_ms = kh_clock_mono_ms() + LOOK_MS;
	for (unsigned i = 0; i < KH_GEO_FILES; i++)
		if (files->file[i].fd >= 0 && look_at(&files->file[i], config, i))
			changed = true;
	return changed;
}
