/* deadline.h - until when something may take whose length an agent decides */
#ifndef KEYHOLE_SANDBOX_DEADLINE_H
#define KEYHOLE_SANDBOX_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

/* One for all that a survey does: each loop whose length the agent decides asks it. */
struct kh_deadline {
	uint64_t end_ms;   /* monotonic */
	uint64_t asked_ms; /* when signals were last looked for */
	bool heeds_signals;
	bool over;	/* once it is, it stays so */
	bool signalled; /* and a signal is why */
};

/* `heeds_signals`: a signal that would end the process, and waits because it is blocked, ends it
 * too. The signal stays where it is. */
void kh_deadline_start(struct kh_deadline *deadline, uint64_t ms, bool heeds_signals);
/* NULL: never. */
bool kh_deadline_passed(struct kh_deadline *deadline);

#endif
