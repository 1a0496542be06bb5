/*
 * review_groups.c - counts the changes in folders that a review shows as one line
 *
 * An agent may make very many such folders, so they are kept in a balanced tree (tsearch(3)).
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/limits.h>

#include "review_internal.h"

struct key {
	const char *path; /* does not end at `len` where one is looked for */
	size_t len;
	enum kh_change_bar bar;
	size_t at; /* in the list of groups */
};

static int by_key(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	if (x->bar != y->bar)
		return x->bar < y->bar ? -1 : 1;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return memcmp(x->path, y->path, x->len);
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "a review: no memory");
}

static bool grow(struct kh_review_groups *groups, struct kh_changes *changes)
{
	if (changes->n_groups < groups->alloc)
		return true;
	size_t alloc = groups->alloc ? groups->alloc * 2 : 64;
	struct kh_change_group *list = reallocarray(changes->groups, alloc, sizeof(*list));
	if (!list)
		return false;
	changes->groups = list;
	groups->alloc = alloc;
	return true;
}

static bool add(struct kh_review_groups *groups, struct kh_changes *changes, const struct key *new)
{
	struct key *key = malloc(sizeof(*key));
	char *path = grow(groups, changes) ? strndup(new->path, new->len) : NULL;
	if (key && path) {
		*key = (struct key){ path, new->len, new->bar, changes->n_groups };
		if (tsearch(key, &groups->tree, by_key)) {
			changes->groups[changes->n_groups++] =
				(struct kh_change_group){ path, new->bar, 1 };
			return true;
		}
	}
	free(key);
	free(path);
	return false;
}

bool kh_review_groups_count(struct kh_review_groups *groups, struct kh_changes *changes,
			    const char *path, size_t len, enum kh_change_bar bar,
			    struct kh_err *err)
{
	const struct key wanted = { path, len, bar, 0 };
	struct key *const *known = tfind(&wanted, &groups->tree, by_key);
	if (known) {
		changes->groups[(*known)->at].n++;
		return true;
	}
	if (changes->n_groups == KH_LIMIT_REVIEW_CHANGES)
		return kh_err_set(err, KH_ERR_USAGE, "more than %d folders of that kind",
				  KH_LIMIT_REVIEW_CHANGES);
	return add(groups, changes, &wanted) || no_memory(err);
}

void kh_review_groups_fini(struct kh_review_groups *groups)
{
	tdestroy(groups->tree, free);
	*groups = (struct kh_review_groups){ 0 };
}
