/* head_share.c - the line in which one sandbox's HTTP/2 connections wait to take their heads */
#include <keyhole/loop/head_share.h>

#include <keyhole/base/limits.h>

static bool is_used_up(struct kh_head_share *share)
{
	if (share->turn != share->loop->turn)
		share->taken = 0;
	share->turn = share->loop->turn;
	return share->taken >= KH_LIMIT_H2_SHARE_BYTES;
}

/* Those whose turn does not come any more stand before those that came meanwhile. */
static void put_back(struct kh_head_share *share, struct kh_node *rest)
{
	struct kh_node came;

	kh_list_move(&share->waiting, &came);
	kh_list_move(rest, &share->waiting);
	while (!kh_list_is_empty(&came)) {
		struct kh_node *node = came.next;

		kh_list_remove(node);
		kh_list_append(&share->waiting, node);
	}
}

static void on_next(struct kh_loop_call *call)
{
	struct kh_head_share *share = kh_container_of(call, struct kh_head_share, next);
	struct kh_node ready;

	kh_list_move(&share->waiting, &ready);
	share->serves = true;
	while (!kh_list_is_empty(&ready) && !is_used_up(share)) {
		struct kh_head_place *place =
			kh_container_of(ready.next, struct kh_head_place, link);

		kh_head_place_leave(place);
		place->fn(place);
	}
	share->serves = false;
	put_back(share, &ready);
	if (!kh_list_is_empty(&share->waiting))
		kh_loop_call(share->loop, KH_LOOP_NEXT, &share->next);
}

void kh_head_share_init(struct kh_head_share *share, struct kh_loop *loop)
{
	*share = (struct kh_head_share){ .loop = loop, .next.fn = on_next };
	kh_list_init(&share->waiting);
}

void kh_head_share_fini(struct kh_head_share *share)
{
	kh_list_remove(&share->next.link);
}

size_t kh_head_share_left(struct kh_head_share *share)
{
	if (is_used_up(share) || (!share->serves && !kh_list_is_empty(&share->waiting)))
		return 0;

	size_t left = KH_LIMIT_H2_SHARE_BYTES - share->taken;

	return left < KH_LIMIT_H2_TURN_BYTES ? left : KH_LIMIT_H2_TURN_BYTES;
}

void kh_head_share_take(struct kh_head_share *share, size_t bytes)
{
	share->taken += bytes;
}

void kh_head_share_wait(struct kh_head_share *share, struct kh_head_place *place)
{
	kh_list_append(&share->waiting, &place->link);
	kh_loop_call(share->loop, KH_LOOP_NEXT, &share->next);
}
