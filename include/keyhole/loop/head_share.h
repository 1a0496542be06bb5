/* head_share.h - how many HTTP/2 heads one sandbox's connections take in a turn of the loop */
#ifndef KEYHOLE_LOOP_HEAD_SHARE_H
#define KEYHOLE_LOOP_HEAD_SHARE_H

#include <keyhole/loop/loop.h>

/*
 * A connection takes KH_LIMIT_H2_TURN_BYTES of heads in a turn, and all of a sandbox's connections
 * on this thread together KH_LIMIT_H2_SHARE_BYTES. Whoever finds nothing left waits in line for the
 * next turn, and so does whoever has more. The line is served in its order: a connection with
 * little to say does not wait for all that another one has.
 */
struct kh_head_share {
	struct kh_loop *loop;
	struct kh_loop_call next;
	struct kh_node waiting; /* struct kh_head_place.link */
	uint64_t turn;		/* the loop's, in which `taken` was taken */
	size_t taken;
	bool serves; /* one of those in line */
};

/* A connection's place; its owner sets `fn` once, which asks again. Whoever dies leaves. */
struct kh_head_place {
	struct kh_node link;
	void (*fn)(struct kh_head_place *place);
};

void kh_head_share_init(struct kh_head_share *share, struct kh_loop *loop);
/* Nobody is in line any more. */
void kh_head_share_fini(struct kh_head_share *share);
/* Bytes that a connection which is not in line may take now. 0: it has to wait. */
size_t kh_head_share_left(struct kh_head_share *share);
/* They were taken. */
void kh_head_share_take(struct kh_head_share *share, size_t bytes);
void kh_head_share_wait(struct kh_head_share *share, struct kh_head_place *place);
static inline bool kh_head_place_waits(const struct kh_head_place *place)
{
	return kh_list_has_node(&place->link);
}
static inline void kh_head_place_leave(struct kh_head_place *place)
{
	kh_list_remove(&place->link);
}

#endif
