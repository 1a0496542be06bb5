/* ctl_events.h - `keyhole ctl events`: shows decisions as they are made */
#ifndef KEYHOLE_CLI_CTL_EVENTS_H
#define KEYHOLE_CLI_CTL_EVENTS_H

#include <stdbool.h>

struct kh_ctl_events {
	const char *tenant, *sandbox; /* NULL: any that the caller may see */
	bool denied;		      /* refusals only */
	bool json;
};
/* Runs until it is interrupted, or no daemon answers any more. Return: exit status. */
int kh_ctl_events(const char *socket_path, const struct kh_ctl_events *what);

#endif
