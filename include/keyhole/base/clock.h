/* clock.h - the monotonic and the wall clock, and timestamps */
#ifndef KEYHOLE_BASE_CLOCK_H
#define KEYHOLE_BASE_CLOCK_H

#include <stdint.h>

uint64_t kh_clock_mono_ms(void);
uint64_t kh_clock_mono_us(void);
/* CPU time of the calling thread. */
uint64_t kh_clock_thread_ns(void);
/* Milliseconds since the epoch, UTC. */
uint64_t kh_clock_wall_ms(void);
/* "2026-01-02T03:04:05.678Z", 24 characters and a NUL; needs no time zone file. */
enum { KH_TIME_BYTES = 25 };
void kh_clock_format(uint64_t wall_ms, char out[KH_TIME_BYTES]);

#endif
