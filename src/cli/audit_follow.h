/* audit_follow.h - `--follow`: shows a journal while it is written */
#ifndef KEYHOLE_CLI_AUDIT_FOLLOW_H
#define KEYHOLE_CLI_AUDIT_FOLLOW_H

#include "audit_show.h"

struct kh_audit_following {
	const char *file, *command;
	struct kh_audit_show *show;
	/* All that was there at the beginning is shown. */
	void (*caught_up)(void *context);
	void *context;
};

/* Shows what is in the file and its earlier segments, and then what comes, also in the segments
 * that come. Returns when standard output is shut, or when a file can't be read on: an exit status.
 */
int kh_audit_follow(const struct kh_audit_following *what);

#endif
