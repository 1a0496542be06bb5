/* ends.c - keeps the ends of exchanges while the journal can't be written and the batch is full */

#include <stdlib.h>
#include <string.h>

#include <keyhole/loop/ends.h>

enum { FIRST_SIZE = 64 };

struct kh_end {
	char id[KH_EXCHANGE_ID_BYTES];
	uint64_t up_bytes, down_bytes;
	uint64_t duration_ms, first_byte_ms;
	enum kh_err_code reason;
	unsigned retries;
	uint16_t status;
	bool withheld, reused, complete;
};

bool kh_ends_reserve(struct kh_ends *ends)
{
	if (ends->n + ends->due == ends->size) {
		size_t size = ends->size ? 2 * ends->size : FIRST_SIZE;
		struct kh_end *wider = reallocarray(ends->list, size, sizeof(*wider));

		if (!wider)
			return false;
		ends->list = wider;
		ends->size = size;
	}
	ends->due++;
	return true;
}

void kh_ends_release(struct kh_ends *ends)
{
	ends->due--;
}

void kh_ends_owe(struct kh_ends *ends, const struct kh_audit_close *how)
{
	struct kh_end *end = &ends->list[ends->n++];

	ends->due--;
	*end = (struct kh_end){
		.up_bytes = how->up_bytes,
		.down_bytes = how->down_bytes,
		.duration_ms = how->duration_ms,
		.first_byte_ms = how->first_byte_ms,
		.reason = how->reason,
		.retries = how->retries,
		.status = how->status,
		.withheld = how->withheld,
		.reused = how->reused,
		.complete = how->complete,
	};
	memcpy(end->id, how->id, strnlen(how->id, sizeof(end->id) - 1));
}

static bool put(const struct kh_end *end, struct kh_batch *batch)
{
	const struct kh_audit_close how = {
		.id = end->id,
		.status = end->status,
		.reason = end->reason,
		.detail = "it ended while the journal could not be written; other fields are left "
			  "out",
		.withheld = end->withheld,
		.up_bytes = end->up_bytes,
		.down_bytes = end->down_bytes,
		.duration_ms = end->duration_ms,
		.first_byte_ms = end->first_byte_ms,
		.reused = end->reused,
		.retries = end->retries,
		.complete = end->complete,
	};

	return kh_audit_close(batch, &how);
}

bool kh_ends_put(struct kh_ends *ends, struct kh_batch *batch)
{
	size_t moved = 0;

	while (moved < ends->n && kh_buf_len(&batch->bytes) < KH_LIMIT_BATCH_BYTES / 2 &&
	       put(&ends->list[moved], batch))
		moved++;
	ends->n -= moved;
	if (moved > 0)
		memmove(ends->list, ends->list + moved, ends->n * sizeof(*ends->list));
	return moved > 0;
}

void kh_ends_fini(struct kh_ends *ends)
{
	free(ends->list);
	*ends = (struct kh_ends){ .n = 0 };
}
