/*
 * vault_pipes.c - how long the keeper waits for the ends of named pipes
 *
 * Who may write to the folder of one tenant's credential can put a pipe in the place of its file,
 * hold it open, and put the next one there. The keeper has one thread, so all tenants wait while it
 * reads one. Therefore all pipes share one budget, which comes back slowly. A read waits for half
 * of what is left at most, so that many slow pipes leave time for a quick one. A file that took
 * long is not waited for again for a while, whatever came of it.
 */
#include "keeper_internal.h"

#include <sys/stat.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>

/* A millisecond comes back after so many, while the keeper serves. */
enum { COMES_BACK_MS = KH_LIMIT_PIPE_AGAIN_MS / (2 * KH_LIMIT_PIPE_LOOK_MS) };

static uint64_t left_ms(struct kh_vault *vault)
{
	uint64_t most = 2 * (vault->serves ? KH_LIMIT_PIPE_LOOK_MS : KH_LIMIT_PIPE_READ_MS);
	uint64_t back = (kh_clock_mono_ms() - vault->pipes_at_ms) / COMES_BACK_MS;
	vault->pipes_at_ms += back * COMES_BACK_MS;
	if (vault->pipes_waited_ms > most)
		vault->pipes_waited_ms = most;
	vault->pipes_waited_ms -= back < vault->pipes_waited_ms ? back : vault->pipes_waited_ms;
	return most - vault->pipes_waited_ms;
}

uint32_t kh_vault_pipes_wait_ms(struct kh_vault *vault, uint64_t rests_ms)
{
	uint64_t left = left_ms(vault);
	return kh_clock_mono_ms() < rests_ms ? 0 : (uint32_t)(left / 2);
}

void kh_vault_pipes_waited(struct kh_vault *vault, uint64_t began_ms, bool timed_out,
			   uint64_t *rests_ms)
{
	uint64_t now = kh_clock_mono_ms(), took_ms = now - began_ms;
	vault->pipes_waited_ms += took_ms;
	if (now >= *rests_ms && (timed_out || took_ms >= KH_LIMIT_PIPE_QUICK_MS))
		*rests_ms = now + KH_LIMIT_PIPE_AGAIN_MS;
}

bool kh_vault_pipes_rest(const char *path, uint64_t rests_ms)
{
	struct stat st;
	return kh_clock_mono_ms() < rests_ms && stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

void kh_vault_pipes_look_again(struct kh_vault *vault, uint64_t when_ms)
{
	if (!vault->look_again_ms || when_ms < vault->look_again_ms)
		vault->look_again_ms = when_ms;
}
