/* audit_last.c - the last rows of many: a ring of copies */
#include "audit_last.h"

#include <stdlib.h>

struct row {
	char *text;
	size_t len;
};

struct kh_audit_last {
	struct row *rows;
	size_t room, first, used, bytes;
	uint64_t added;
};

struct kh_audit_last *kh_audit_last_new(size_t n)
{
	struct kh_audit_last *last = calloc(1, sizeof(*last));

	if (!last || !(last->rows = calloc(n, sizeof(*last->rows)))) {
		free(last);
		return NULL;
	}
	last->room = n;
	return last;
}

static void drop_first(struct kh_audit_last *last)
{
	struct row *row = &last->rows[last->first];

	last->bytes -= row->len;
	free(row->text);
	row->text = NULL;
	last->first = (last->first + 1) % last->room;
	last->used--;
}

void kh_audit_last_free(struct kh_audit_last *last)
{
	if (!last)
		return;
	while (last->used > 0)
		drop_first(last);
	free(last->rows);
	free(last);
}

bool kh_audit_last_add(struct kh_audit_last *last, struct kh_slice row)
{
	char *copy = kh_slice_dup(row);

	if (!copy)
		return false;
	while (last->used == last->room ||
	       (last->used > 0 && last->bytes + row.len > KH_LAST_BYTES_MOST))
		drop_first(last);
	last->rows[(last->first + last->used++) % last->room] =
		(struct row){ .text = copy, .len = row.len };
	last->bytes += row.len;
	last->added++;
	return true;
}

uint64_t kh_audit_last_print(struct kh_audit_last *last, FILE *out)
{
	uint64_t due = last->added < last->room ? last->added : last->room;
	uint64_t missing = due - last->used;

	while (last->used > 0) {
		const struct row *row = &last->rows[last->first];
		(void)fwrite(row->text, 1, row->len, out);
		drop_first(last);
	}
	last->added = 0;
	return missing;
}
