/* workspace_diff.c - `keyhole workspace diff`: what an agent did in a workspace under review */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>

#include "show_text.h"
#include "workspace_internal.h"

static const struct {
	char letter;
	const char *word;
} kinds[] = {
	[KH_CHANGE_ADDED] = { 'A', "added" },
	[KH_CHANGE_CHANGED] = { 'M', "changed" },
	[KH_CHANGE_MODE] = { 'P', "mode" },
	[KH_CHANGE_DELETED] = { 'D', "deleted" },
};

static const char *type_of(mode_t mode)
{
	return S_ISREG(mode)   ? "file"
	       : S_ISDIR(mode) ? "folder"
	       : S_ISLNK(mode) ? "link"
	       : mode	       ? "other"
			       : "nothing";
}

static const struct stat *side(const struct kh_change *change)
{
	return change->is.st_mode ? &change->is : &change->was;
}

void kh_workspace_line(const struct kh_change *change)
{
	printf("%c  ", kinds[change->kind].letter);
	kh_show_name(stdout, change->path);
	if (S_ISDIR(side(change)->st_mode))
		putchar('/');
	if (change->is_link) {
		fputs(" -> ", stdout);
		kh_show_name(stdout, change->is_link);
	}
	if (change->was.st_mode && change->is.st_mode &&
	    ((change->was.st_mode ^ change->is.st_mode) & 0777))
		printf(" (mode %04o, %04o before)", (unsigned)change->is.st_mode & 0777,
		       (unsigned)change->was.st_mode & 0777);
	else if (change->kind == KH_CHANGE_ADDED && S_ISREG(change->is.st_mode) &&
		 (change->is.st_mode & 0111))
		printf(" (mode %04o)", (unsigned)change->is.st_mode & 0777);
	if (change->conflict)
		printf(" [conflict: the workspace's own has changed since the run began]");
	if (change->bar)
		printf(" [%s]", kh_change_bar_text(change->bar));
	putchar('\n');
}

void kh_workspace_group_line(const struct kh_change_group *group)
{
	fputs("-  ", stdout);
	kh_show_name(stdout, group->path);
	printf("/: %" PRIu64 " change%s [%s]\n", group->n, group->n == 1 ? "" : "s",
	       kh_change_bar_text(group->bar));
}

/* ---- JSON ---- */

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
		if (kh_json_string(&safe, kh_slice_str(path))) {
			struct kh_slice s = kh_buf_view(&safe);
			text = json_loadb(s.ptr, s.len, JSON_DECODE_ANY, NULL);
		}
	}
	json_object_set_new(object, "path", text ? text : json_string(""));
}

static void put_side(json_t *object, const char *name, const struct stat *st, const char *link)
{
	if (!st->st_mode)
		return;
	char mode[8];
	snprintf(mode, sizeof(mode), "%04o", (unsigned)st->st_mode & 0777);
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
	json_object_set_new(one, "change", json_string(kinds[change->kind].word));
	put_side(one, "before", &change->was, change->was_link);
	put_side(one, "after", &change->is, change->is_link);
	json_object_set_new(one, "conflict", json_boolean(change->conflict));
	if (change->bar)
		json_object_set_new(one, "not_applied",
				    json_string(kh_change_bar_text(change->bar)));
	return one;
}

static int show_json(const struct kh_review *review, const struct kh_changes *changes)
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
	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}

int kh_workspace_diff(const struct kh_review *review, const struct kh_workspace_options *options)
{
	struct kh_changes changes kh_cleanup(kh_changes_fini) = { 0 };
	struct kh_err err = KH_ERR_INIT;
	if (!kh_review_look(review, options->names, &changes, &err)) {
		kh_cli_complain_err(&err);
		return KH_EXIT_FAILED;
	}
	if (!kh_workspace_names_are_known(review, options->names, &changes))
		return KH_EXIT_FAILED;
	if (review->running)
		kh_cli_complain("workspace: a run still works on the review %s", review->id);
	if (options->json)
		return show_json(review, &changes);
	for (size_t i = 0; i < changes.n; i++) {
		const struct kh_change *c = &changes.list[i];
		kh_workspace_line(c);
		bool regular = S_ISREG(c->is.st_mode) || S_ISREG(c->was.st_mode);
		if (!options->stat && regular && c->kind != KH_CHANGE_MODE &&
		    c->bar != KH_BAR_SPECIAL && c->bar != KH_BAR_UNREADABLE)
			kh_workspace_text(review, c);
	}
	for (size_t i = 0; i < changes.n_groups; i++)
		kh_workspace_group_line(&changes.groups[i]);
	for (size_t i = 0; i < changes.n_groups; i++)
		if (strcmp(changes.groups[i].path, ".git") == 0)
			printf("new commits are not shown here: `keyhole workspace apply "
			       "--only-commits` lists what they change, and merges nothing\n");
	return fflush(stdout) == 0 ? 0 : KH_EXIT_FAILED;
}
