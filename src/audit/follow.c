/* follow.c - reads a journal while others write it: whole lines, as far as they are there */
#include <stdlib.h>

#include "audit_internal.h"

struct kh_journal_follower {
	struct kh_lines lines;
	struct kh_chain chain;
};

struct kh_journal_follower *kh_journal_follower_new(int fd, struct kh_err *err)
{
	struct kh_journal_follower *f = calloc(1, sizeof(*f));

	if (!f) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "journal: no memory");
		return NULL;
	}
	if (kh_lines_init(&f->lines, fd, false, 0, err) && kh_chain_init(&f->chain, err)) {
		f->lines.keeps = true;
		return f;
	}
	kh_journal_follower_free(f);
	return NULL;
}

void kh_journal_follower_free(struct kh_journal_follower *f)
{
	if (!f)
		return;
	kh_chain_fini(&f->chain);
	kh_lines_fini(&f->lines);
	free(f);
}

bool kh_journal_follower_read(struct kh_journal_follower *f,
			      void (*take)(void *context, const struct kh_journal_piece *piece),
			      void *context, struct kh_err *err)
{
	return kh_lines_more(&f->lines, err) &&
	       kh_chain_read(&f->chain, &f->lines, take, context, err);
}

bool kh_journal_follower_end(struct kh_journal_follower *f,
			     void (*take)(void *context, const struct kh_journal_piece *piece),
			     void *context, struct kh_err *err)
{
	f->lines.keeps = false;
	return kh_journal_follower_read(f, take, context, err);
}
