/* runs_retry.h - surveys that earlier runs could not finish, and when the next run tries again */
#ifndef KEYHOLE_SANDBOX_RUNS_RETRY_H
#define KEYHOLE_SANDBOX_RUNS_RETRY_H

#include <stdbool.h>
#include <stdint.h>

struct kh_other_run;

/* Records in the run's folder that its survey failed now, after so long. */
void kh_run_retry_note(const char *run, uint64_t took_ms);
/* Is it too early for another run to try that survey again? `says`: then a line says so. */
bool kh_run_retry_in_backoff(const struct kh_other_run *run, bool says);

#endif
