/* deadline.h - a deadline for work whose amount an agent determines */
#ifndef KEYHOLE_SANDBOX_DEADLINE_H
#define KEYHOLE_SANDBOX_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

/* One deadline for a whole survey: each loop whose length an agent determines checks it. */
struct kh_deadline {
	uint64_t end_ms;   /* monotonic */
	uint64_t asked_ms; /* when signals were last looked for */
	bool heeds_signals;
	bool over;	/* it has passed, and stays so */
	bool signalled; /* because of a signal */
};

/* `heeds_signals`: the deadline also passes when a terminating signal is pending (blocked). The
 * signal stays pending. */
void kh_deadline_start(struct kh_deadline *deadline, uint64_t ms, bool heeds_signals);
/* Has it passed? NULL: never. */
bool kh_deadline_passed(struct kh_deadline *deadline);

#endif
