/* launch_clock.c - the named timers of a running sandbox */
#include <limits.h>
#include <time.h>

#include "launch_internal.h"

static int64_t now_ms(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int kh_launch_clock_left(const struct kh_running *r)
{
	int64_t next = -1;
	for (size_t i = 0; i < KH_CLOCKS; i++)
		if (r->due_ms[i] >= 0 && (next < 0 || r->due_ms[i] < next))
			next = r->due_ms[i];
	if (next < 0)
		return -1;
	int64_t left = next - now_ms();
	return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

void kh_launch_clock_start(struct kh_running *r, enum kh_clock which, uint64_t ms)
{
	r->due_ms[which] = now_ms() + (int64_t)ms;
}

void kh_launch_clock_stop(struct kh_running *r, enum kh_clock which)
{
	r->due_ms[which] = -1;
}

bool kh_launch_clock_due(struct kh_running *r, enum kh_clock which)
{
	if (r->due_ms[which] < 0 || now_ms() < r->due_ms[which])
		return false;
	kh_launch_clock_stop(r, which);
	return true;
}
