/* reflection.c - removes the key that the request's target carried from the head of the response */

#include <stdlib.h>

#include "exchange_internal.h"
#include "signing.h"

/* What a server chooses in a head: the reason phrase, and each field's name and value. */
enum { PARTS = 2 * KH_LIMIT_FIELDS + 1 };

struct kh_reflection {
	struct kh_message message;
	struct kh_buf text; /* the parts that were changed, one behind the other */
};

static size_t n_parts(const struct kh_reflection *r)
{
	return 2 * r->message.n_fields + 1;
}

static struct kh_slice *part(struct kh_reflection *r, size_t i)
{
	if (i == 0)
		return &r->message.reason;
	struct kh_field *field = &r->message.fields[(i - 1) / 2];
	return i % 2 ? &field->name : &field->value;
}

/* What our credentials put into the target, and what our signature did. */
static bool hide_in(const struct kh_exchange *x, struct kh_slice text, struct kh_buf *out,
		    bool *found)
{
	struct kh_buf made;
	bool value = false, signature = false;

	kh_buf_init_wiping(&made, KH_LIMIT_HEAD_BYTES * 2);
	bool ok = kh_injection_hide(&x->injection, text, &made, &value) &&
		  kh_signing_hide(x, kh_buf_view(&made), out, &signature);
	kh_buf_fini(&made);
	*found = value || signature;
	return ok;
}

static bool hide(const struct kh_exchange *x, struct kh_reflection *r, size_t ends[PARTS])
{
	for (size_t i = 0; i < n_parts(r); i++) {
		size_t before = kh_buf_len(&r->text);
		bool found;

		if (!hide_in(x, *part(r, i), &r->text, &found))
			return false;
		if (!found)
			kh_buf_truncate(&r->text, before);
		ends[i] = found ? kh_buf_len(&r->text) : 0;
	}
	return true;
}

bool kh_reflection_take(const struct kh_exchange *x, const struct kh_message *head,
			struct kh_reflection **out)
{
	size_t ends[PARTS], from = 0;

	*out = NULL;
	if (!kh_request_target_is_secret(x))
		return true;
	struct kh_reflection *r = calloc(1, sizeof(*r));
	if (!r)
		return false;
	r->message = *head;
	kh_buf_init_wiping(&r->text, KH_LIMIT_HEAD_BYTES * 2);
	if (!hide(x, r, ends)) {
		kh_reflection_free(r);
		return false;
	}
	for (size_t i = 0; i < n_parts(r); i++) {
		if (ends[i] == 0)
			continue;
		*part(r, i) = kh_slice_sub(kh_buf_view(&r->text), from, ends[i]);
		from = ends[i];
	}
	*out = r;
	return true;
}

const struct kh_message *kh_reflection_head(const struct kh_reflection *r,
					    const struct kh_message *head)
{
	return r ? &r->message : head;
}

void kh_reflection_free(struct kh_reflection *r)
{
	if (!r)
		return;
	kh_buf_fini(&r->text);
	free(r);
}
