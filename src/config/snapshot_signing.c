/* snapshot_signing.c - placements that are no copy of the value, in a snapshot, and back
 *
 * The worker gets no name of a variable and no path.
 */
#include <stdlib.h>

#include "snapshot_internal.h"

bool kh_put_signing(struct kh_buf *out, const struct kh_placement *placement)
{
	const struct kh_sigv4_config *sigv4 = placement->sigv4;
	return placement->kind != KH_PLACEMENT_SIGV4 ||
	       (kh_wire_put_str(out, sigv4->region) && kh_wire_put_str(out, sigv4->service));
}

static void read_sigv4(struct kh_snapshot_in *in, struct kh_placement *placement)
{
	placement->sigv4 = calloc(1, sizeof(*placement->sigv4));
	if (!placement->sigv4) {
		in->r.bad = true;
		return;
	}
	placement->sigv4->region = kh_wire_str(&in->r);
	placement->sigv4->service = kh_wire_str(&in->r);
}

void kh_in_signing(struct kh_snapshot_in *in, struct kh_placement *placement)
{
	if (placement->kind == KH_PLACEMENT_SIGV4)
		read_sigv4(in, placement);
	if (placement->kind != KH_PLACEMENT_MTLS)
		return;
	placement->mtls = calloc(1, sizeof(*placement->mtls)); /* what it has is the keeper's */
	if (!placement->mtls)
		in->r.bad = true;
}
