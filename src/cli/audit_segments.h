/* audit_segments.h - the files of a journal, in the order in which they were written */
#ifndef KEYHOLE_CLI_AUDIT_SEGMENTS_H
#define KEYHOLE_CLI_AUDIT_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <keyhole/base/err.h>

struct kh_audit_segment {
	char *path;
	uint64_t number, again; /* of FILE.N and FILE.N.M; UINT64_MAX: FILE itself */
};
/* All zeros: none. kh_audit_segments_fini. */
struct kh_audit_segments {
	struct kh_audit_segment *list;
	size_t n, room;
};

/*
 * FILE, after the segments FILE.N and FILE.N.M of its folder. FILE need not be there. Return:
 * false: the folder can't be read, or there is no memory; the list is FILE alone if it is not
 * empty.
 */
bool kh_audit_segments_find(const char *file, struct kh_audit_segments *out, struct kh_err *err);
void kh_audit_segments_fini(struct kh_audit_segments *segments);
/* Is the segment FILE.N, or one that was set aside as FILE.N.M, among them? */
bool kh_audit_segments_have(const struct kh_audit_segments *segments, uint64_t number);

#endif
