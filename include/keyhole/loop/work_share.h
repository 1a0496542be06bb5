/* work_share.h - the work that one sandbox's connections do in a turn of the loop */
#ifndef KEYHOLE_LOOP_WORK_SHARE_H
#define KEYHOLE_LOOP_WORK_SHARE_H

#include <keyhole/base/limits.h>
#include <keyhole/loop/loop.h>

/*
 * All of a sandbox's connections on this thread together do KH_LIMIT_WORK_SHARE of work in a turn,
 * whatever they speak. Work is counted in bytes of a head, of about 50 ns each; all else that a
 * sandbox can ask for is worth so many of them (limits.h). What was done beyond the share is taken
 * from the turns that follow.
 *
 * A connection that finds nothing left waits in line, and reads nothing meanwhile. Each sandbox's
 * line is served once in a turn, in its order: a connection with little to do does not wait for all
 * that another one has, and a sandbox waits for one share of each other one.
 *
 * All sandboxes of a tenant on this thread together do as much as KH_WORK_TENANT_SHARES of them may
 * do: a tenant with hundreds of sandboxes would have hundreds of shares in each turn. When that is
 * spent, its sandboxes take turns.
 */
struct kh_work_tenant;
enum { KH_WORK_TENANT_SHARES = 4 };

struct kh_work_share {
	struct kh_loop *loop;
	struct kh_work_tenant *tenant; /* a reference; NULL: without a bound */
	struct kh_node link;	       /* among those of its tenant where somebody waits */
	struct kh_loop_call next;      /* without a tenant */
	struct kh_node waiting;	       /* struct kh_work_place.link */
	uint64_t turn;		       /* the loop's, in which `done` was done */
	size_t done;
	bool serves; /* one of those in line */
};

/* A connection's place in line. Its owner sets `fn` once, which asks again, and leaves the line
 * before it is freed. */
struct kh_work_place {
	struct kh_node link;
	void (*fn)(struct kh_work_place *place);
};

void kh_work_share_init(struct kh_work_share *share, struct kh_loop *loop);
/* From now on it is a sandbox of that tenant; connections in line stay there. Return: false without
 * memory: it belongs to no tenant. */
bool kh_work_share_join(struct kh_work_share *share, const char *tenant);
/* Nobody is in line any more. */
void kh_work_share_fini(struct kh_work_share *share);
/* What a connection that is not in line may do now. 0: it has to wait. */
size_t kh_work_share_left(struct kh_work_share *share);
/* Charges work that was done, with a place in line or without. */
void kh_work_share_charge(struct kh_work_share *share, size_t work);
/* The same, of a decision's steps. */
static inline void kh_work_share_charge_steps(struct kh_work_share *share, uint64_t steps)
{
	kh_work_share_charge(share, (size_t)(steps / KH_LIMIT_WORK_STEPS));
}
/* What a piece of content costs. */
static inline size_t kh_work_of_piece(size_t bytes)
{
	return KH_LIMIT_WORK_PER_PIECE + bytes / KH_LIMIT_WORK_CONTENT;
}
/* Waits in line, after all others. */
void kh_work_share_wait(struct kh_work_share *share, struct kh_work_place *place);
static inline bool kh_work_place_waits(const struct kh_work_place *place)
{
	return kh_list_has_node(&place->link);
}
static inline void kh_work_place_leave(struct kh_work_place *place)
{
	kh_list_remove(&place->link);
}

#endif
