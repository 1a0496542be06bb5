/*
 * vault_item.c - the life of one value: filled, renewed before it expires, or failed
 *
 * A value that expires is renewed after about four fifths of its lifetime, with random jitter, so
 * that keepers that were started together do not always ask together. After a failure it is retried
 * after 1, 2, 4 … seconds, at most a minute, with jitter too.
 */

#include "keeper_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>

enum { FIRST_PAUSE_MS = 1000, MOST_DOUBLINGS = 6, LONGEST_PAUSE_MS = 60 * 1000 };

/* Between 90 and 110 percent. */
static uint64_t about(uint64_t ms)
{
	uint16_t chance = 0;
	if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) != (ssize_t)sizeof(chance))
		return ms;
	return ms * 9 / 10 + ms / 5 * chance / UINT16_MAX;
}

void kh_item_fini(struct kh_item *item)
{
	kh_secret_unref(item->secret);
	free(item->why);
	free(item->reason);
	*item = (struct kh_item){ .secret = NULL };
}

bool kh_item_is_good(const struct kh_item *item)
{
	return item->secret && (!item->expires_ms || kh_clock_wall_ms() < item->expires_ms);
}

static void forget_failure(struct kh_item *item)
{
	free(item->why);
	free(item->reason);
	item->why = item->reason = NULL;
	item->failures = 0;
	item->failed_ms = 0;
}

void kh_item_fill(struct kh_item *item, struct kh_secret *secret, uint64_t expires_ms,
		  uint64_t refresh_ms)
{
	uint64_t wall = kh_clock_wall_ms();
	uint64_t life = expires_ms > wall ? expires_ms - wall : 0;
	uint64_t after = expires_ms ? about(life / 5 * 4) : 0;
	if (refresh_ms && (!after || refresh_ms < after))
		after = about(refresh_ms);
	forget_failure(item);
	kh_secret_unref(item->secret);
	item->secret = secret;
	item->got_ms = wall;
	item->expires_ms = expires_ms;
	item->due_ms = after ? kh_clock_mono_ms() + after : 0;
	item->renewals++;
	item->used = false;
	item->withheld_ms = 0;
}

void kh_item_fail(struct kh_item *item, const char *why, const char *reason)
{
	unsigned doublings = item->failures < MOST_DOUBLINGS ? item->failures : MOST_DOUBLINGS;
	uint64_t pause = (uint64_t)FIRST_PAUSE_MS << doublings;
	unsigned failures = item->failures + 1;
	forget_failure(item);
	item->failures = failures;
	item->all_failures++;
	item->failed_ms = kh_clock_wall_ms();
	item->withheld_ms = 0;
	item->why = strdup(why);
	item->reason = strdup(reason);
	item->due_ms =
		kh_clock_mono_ms() + about(pause < LONGEST_PAUSE_MS ? pause : LONGEST_PAUSE_MS);
}

bool kh_item_is_withheld(const struct kh_item *item)
{
	return item->job && kh_clock_mono_ms() < item->withheld_ms;
}

void kh_item_withhold(struct kh_item *item)
{
	item->withheld_ms = kh_clock_mono_ms() + KH_LIMIT_REFUSED_WAIT_MS;
}

bool kh_item_share(struct kh_item *to, const struct kh_item *from)
{
	*to = *from;
	to->job = NULL;
	to->withheld_ms = 0;
	to->asked = to->told = false;
	to->secret = from->secret ? kh_secret_ref(from->secret) : NULL;
	to->why = from->why ? strdup(from->why) : NULL;
	to->reason = from->reason ? strdup(from->reason) : NULL;
	return !from->why == !to->why && !from->reason == !to->reason;
}
