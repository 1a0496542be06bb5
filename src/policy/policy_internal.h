/* policy_internal.h - what only the policy's own files see */
#ifndef KEYHOLE_POLICY_INTERNAL_H
#define KEYHOLE_POLICY_INTERNAL_H

#include <keyhole/policy.h>

/* match.c: as kh_path_matches, and also where only the spelling differs in a way that many servers
 * don't see: escaped reserved characters, repeated slashes, a segment's parameters. For rules that
 * deny. */
bool kh_path_matches_leniently(struct kh_slice pattern, struct kh_slice path);

#endif
