/* telemetry.h - what agents report to their makers: known places, which nobody needs to allow */
#ifndef KEYHOLE_POLICY_TELEMETRY_H
#define KEYHOLE_POLICY_TELEMETRY_H

#include <keyhole/base/slice.h>

/* Whose telemetry a request to this host (in its canonical form) and path is: the agent's name.
 * NULL: none that is known. */
const char *kh_telemetry_of(struct kh_slice host, struct kh_slice path);

#endif
