/* work_share.c - the line in which one sandbox's connections wait to go on with their work */
#include <keyhole/loop/work_share.h>

/* Each turn pays for one share. */
static bool is_used_up(struct kh_work_share *share)
{
	uint64_t paid = (share->loop->turn - share->turn) * KH_LIMIT_WORK_SHARE;

	share->done = share->done > paid ? share->done - (size_t)paid : 0;
	share->turn = share->loop->turn;
	return share->done >= KH_LIMIT_WORK_SHARE;
}

/* Those whose turn does not come any more stand before those that came meanwhile. */
static void put_back(struct kh_work_share *share, struct kh_node *rest)
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
	struct kh_work_share *share = kh_container_of(call, struct kh_work_share, next);
	struct kh_node ready;

	kh_list_move(&share->waiting, &ready);
	share->serves = true;
	while (!kh_list_is_empty(&ready) && !is_used_up(share)) {
		struct kh_work_place *place =
			kh_container_of(ready.next, struct kh_work_place, link);

		kh_work_place_leave(place);
		place->fn(place);
	}
	share->serves = false;
	put_back(share, &ready);
	if (!kh_list_is_empty(&share->waiting))
		kh_loop_call(share->loop, KH_LOOP_NEXT, &share->next);
}

void kh_work_share_init(struct kh_work_share *share, struct kh_loop *loop)
{
	*share = (struct kh_work_share){ .loop = loop, .next.fn = on_next };
	kh_list_init(&share->waiting);
}

void kh_work_share_fini(struct kh_work_share *share)
{
	kh_list_remove(&share->next.link);
}

size_t kh_work_share_left(struct kh_work_share *share)
{
	if (is_used_up(share) || (!share->serves && !kh_list_is_empty(&share->waiting)))
		return 0;
	return KH_LIMIT_WORK_SHARE - share->done;
}

void kh_work_share_charge(struct kh_work_share *share, size_t work)
{
	(void)is_used_up(share);
	share->done += work;
}

void kh_work_share_wait(struct kh_work_share *share, struct kh_work_place *place)
{
	if (!kh_work_place_waits(place))
		kh_list_append(&share->waiting, &place->link);
	kh_loop_call(share->loop, KH_LOOP_NEXT, &share->next);
}
