/* ends.h - ends of exchanges that found no room in the batch while the journal could not be written
 */
#ifndef KEYHOLE_LOOP_ENDS_H
#define KEYHOLE_LOOP_ENDS_H

#include <keyhole/audit/audit.h>

/*
 * A close record that can be made goes into the batch. If the batch is full, or there is no memory,
 * the end is kept here in few bytes, until a commit has succeeded. The room for that is reserved
 * before the open record is made, so an end is never lost: the exchanges that run bound the list.
 * Such a close record has what can be counted, and its `detail` says that the rest is left out.
 * Belongs to one thread.
 */
struct kh_end;
struct kh_ends {
	struct kh_end *list;
	size_t n;    /* that wait for their records */
	size_t due;  /* exchanges that have an open record and no end yet */
	size_t size; /* of the list: never less than `n` and `due` together */
};

/* Reserves the room for the end of one more exchange. Return: false: no memory. */
bool kh_ends_reserve(struct kh_ends *ends);
/* An exchange's end has its record, or the exchange never got an open record: it needs the reserved
 * room no more. */
void kh_ends_release(struct kh_ends *ends);
/* The end of one could not be put into the batch. */
void kh_ends_owe(struct kh_ends *ends, const struct kh_audit_close *how);
/* Moves as many as fit into the batch, whose opens are all written. Return: were there any? */
bool kh_ends_put(struct kh_ends *ends, struct kh_batch *batch);
void kh_ends_fini(struct kh_ends *ends);

#endif
