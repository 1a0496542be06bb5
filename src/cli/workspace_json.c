/* workspace_json.c - `keyhole workspace diff --json` */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/json_load.h>

#include "workspace_internal.h"

static const char *type_of(mode_t mode)
{
	return S_ISREG(mode)   ? "file"
	       : S_ISDIR(mode) ? "folder"
	       : S_ISLNK(mode) ? "link"
	       : mode	       ? "other"
			       : "nothing";
}

/* A name that is not UTF-8 is given as its bytes as well. */
static void put_path(json_t *object, const char *path)
{
	json_t *text = json_string(path);
	if (!text) {
		struct kh_buf safe kh_cleanup(kh_buf_fini);
		json_t *bytes = json_array();
		kh_buf_init(&safe, 64 * 1024);
		for (const char *c = path; *c; c++)
			json_array_append_new(bytes, json_integer((unsigned char)*c));
		json_object_set_new(object, "path_bytes", bytes);
		if (kh_json_string(&safe, kh_slice_str(path)))
			text = kh_json_load(kh_buf_view(&safe), JSON_DECODE_ANY, NULL);
	}
	json_object_set_new(object, "path", text ? text : json_string(""));
}

static void put_side(json_t *object, const char *name, const struct stat *st, unsigned permissions,
		     const char *link)
{
	if (!st->st_mode)
		return;
	char mode[8];
	snprintf(mode, sizeof(mode), "%04o", permissions);
	json_t *one = json_pack("{s:s, s:s}", "type", type_of(st->st_mode), "mode", mode);
	if (S_ISREG(st->st_mode))
		json_object_set_new(one, "size", json_integer((json_int_t)st->st_size));
	if (link)
		json_object_set_new(one, "target", json_string(kh_esc_str(link)));
	json_object_set_new(object, name, one);
}

static json_t *change_json(const struct kh_change *change)
{
	json_t *one = json_object();
	put_path(one, change->path);
	json_object_set_new(one, "change", json_string(kh_workspace_kind(change->kind)->word));
	put_side(one, "before", &change->was, change->was.st_mode & 0777, change->was_link);
	put_side(one, "after", &change->is, kh_change_mode(change), change->is_link);
	json_object_set_new(one, "conflict", json_boolean(change->conflict));
	if (change->bar)
		json_object_set_new(one, "not_applied",
				    json_string(kh_change_bar_text(change->bar)));
	return one;
}

/* Without "names": they could not be looked at. */
static json_t *commit_json(const struct kh_review *review, const struct kh_review_refs *refs,
			   size_t which)
{
	struct kh_changes names kh_cleanup(kh_changes_fini) = { 0 };
	const char *object = refs->list[which].object;
	json_t *own = json_array();
	for (size_t i = which; i < refs->n; i++)
		if (strcmp(refs->list[i].object, object) == 0)
			json_array_append_new(own, json_string(kh_esc_str(refs->list[i].name)));
	json_t *one = json_pack("{s:s, s:o}", "object", object, "refs", own);
	if (!kh_workspace_commit_names(review, refs, which, &names))
		return one;
	json_t *list = json_array();
	for (size_t i = 0; i < names.n; i++) {
		const struct kh_change *c = &names.list[i];
		const char *mark = kh_workspace_commit_mark(c->bar);
		json_t *name = json_object();
		put_path(name, c->path);
		json_object_set_new(name, "change", json_string(kh_workspace_kind(c->kind)->word));
		json_object_set_new(name, "before_the_last", json_boolean(c->passing));
		if (mark)
			json_object_set_new(name, "mark", json_string(mark));
		json_array_append_new(list, name);
	}
	json_object_set_new(one, "names", list);
	return one;
}

static json_t *commits_json(const struct kh_review *review, const struct kh_review_refs *refs)
{
	json_t *list = json_array();
	for (size_t i = 0; i < refs->n; i++)
		if (kh_review_refs_is_first(refs, i))
			json_array_append_new(list, commit_json(review, refs, i));
	return list;
}

void kh_workspace_json(const struct kh_review *review, const struct kh_changes *changes,
		       const struct kh_review_refs *refs)
{
	json_t *list = json_array(), *groups = json_array();
	for (size_t i = 0; i < changes->n; i++)
		json_array_append_new(list, change_json(&changes->list[i]));
	for (size_t i = 0; i < changes->n_groups; i++) {
		json_t *one = json_object();
		put_path(one, changes->groups[i].path);
		json_object_set_new(one, "changes", json_integer((json_int_t)changes->groups[i].n));
		json_object_set_new(one, "not_applied",
				    json_string(kh_change_bar_text(changes->groups[i].bar)));
		json_array_append_new(groups, one);
	}
	json_t *all =
		json_pack("{s:s, s:s, s:o, s:o}", "review", review->id, "kind",
			  review->overlay ? "overlay" : "copy", "changes", list, "folders", groups);
	put_path(all, review->workspace);
	if (refs)
		json_object_set_new(all, "commits", commits_json(review, refs));
	json_dumpf(all, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	putchar('\n');
	json_decref(all);
}
