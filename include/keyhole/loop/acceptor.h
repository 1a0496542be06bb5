/* acceptor.h - a listener as one event thread sees it: who comes in, at which rates, and what it
 * costs
 */
#ifndef KEYHOLE_LOOP_ACCEPTOR_H
#define KEYHOLE_LOOP_ACCEPTOR_H

#include <keyhole/loop/loop.h>

struct kh_acceptor {
	struct kh_deferred_free deferred_free;
	struct kh_loop *loop;
	struct kh_listener_stats *listener_stats;
	struct kh_account *account; /* a reference; NULL: without bounds */
	/* The generation whose numbers and pointers the next two hold: the loop's, and behind a
	 * reload that takes the acceptor away the one before. Outside of the loop,
	 * kh_acceptor_standing says them together. */
	struct kh_generation *gen;
	const struct kh_listener_config *config;
	const struct kh_narrowing *narrowing; /* NULL: none */
	struct kh_node sessions;	      /* who came through it */
	int64_t number; /* no other acceptor of this worker has it: of two that were there, no two
			 */
	struct event *event;
	struct event *resume;	  /* after running out of descriptors */
	struct kh_secret *secret; /* the token of TCP; nobody is let in before it is there */
	double tries;		  /* wrong tokens that are still looked at */
	uint64_t tries_ms;
	double leaf_tokens; /* this thread's share of the sandbox's leaves */
	uint64_t leaf_tokens_ms;
	double log_tokens; /* and of its lines in the log */
	uint64_t log_tokens_ms;
	uint64_t unsaid, unsaid_since_ms;	/* lines that were left out */
	struct kh_refusals *refusals;		/* NULL: each has had its record */
	struct kh_owner_tag tags[KH_MARK_KEYS]; /* of this sandbox's placeholders, for … */
	uint64_t tags_of;			/* … this generation's number, and one */
	unsigned handshakes; /* with this sandbox, since it last resumed a session */
};

/* What a sandbox is to a generation: its tenant's number there, and what else is its own. Each of
 * them means something in `gen` alone, so they go together. Views, until the loop's next reload;
 * who keeps them longer holds a reference to `gen`. */
struct kh_standing {
	struct kh_generation *gen;
	uint16_t tenant; /* into its config->tenants; that of `listener` may be a later one */
	const struct kh_listener_config *listener;
	const struct kh_narrowing *narrowing; /* NULL: none */
};

static inline struct kh_standing kh_acceptor_standing(const struct kh_acceptor *acceptor)
{
	return (struct kh_standing){ .gen = acceptor->gen,
				     .tenant = acceptor->config->tenant,
				     .listener = acceptor->config,
				     .narrowing = acceptor->narrowing };
}

/* acceptors.c */
/* From those of the generation before, which at first is the same. Return: false without memory. */
bool kh_acceptors_reload(struct kh_loop *loop, const struct kh_generation *before);
void kh_acceptors_shut(struct kh_loop *loop);
/* The parts of which the acceptors are made, also those of dynamic sandboxes (dynamic_sandboxes.h).
 */
void kh_acceptor_init(struct kh_acceptor *acceptor, struct kh_loop *loop);
/* Accepts from that descriptor, which stays the caller's. Return: false without memory. */
bool kh_acceptor_open(struct kh_acceptor *acceptor, int listener);
void kh_acceptor_close(struct kh_acceptor *acceptor);
/* Accepts no more, and whoever came through it goes. The caller buries it. */
void kh_acceptor_end(struct kh_acceptor *acceptor, const char *why);
void kh_acceptor_tick(struct kh_acceptor *acceptor);
void kh_acceptors_free(struct kh_loop *loop);
void kh_acceptors_say_counts(struct kh_loop *loop);  /* the last thing before that */
void kh_acceptor_left(struct kh_acceptor *acceptor); /* one of its connections ended */
/* One more connection of this sandbox within `max_connections`? kh_acceptor_left gives it back. */
bool kh_acceptor_take_place(struct kh_acceptor *acceptor);
/* An HTTP/2 connection keeps `now` bytes, and kept `before` when it was asked last. Return: false:
 * that is too much, with all that the sandbox's others keep. */
bool kh_acceptor_may_keep(struct kh_acceptor *acceptor, size_t before, size_t now);
/* One more of its streams? */
bool kh_acceptor_takes_streams(const struct kh_acceptor *acceptor);
/* A token may have come, for those that wait for one. */
void kh_acceptors_look_for_tokens(struct kh_loop *loop);
/* May one more token be looked at? Not after too many wrong ones. */
bool kh_acceptor_may_try(struct kh_acceptor *acceptor);
void kh_acceptor_was_wrong(struct kh_acceptor *acceptor);
/* One more leaf for this sandbox within its rate? */
bool kh_acceptor_may_mint(struct kh_acceptor *acceptor);
/* One more line in the operator's log for what this sandbox does, within its rate? What is left out
 * is counted, and the count is said. */
bool kh_acceptor_may_log(struct kh_acceptor *acceptor);
void kh_acceptors_tick(struct kh_loop *loop);
/* A session ticket for the handshake that begins? Making one takes a twentieth of a handshake, and
 * a sandbox whose clients never come back with it gets few. */
bool kh_acceptor_spends_ticket(struct kh_acceptor *acceptor);

/* refusals.c: what is refused has a record of its own within a budget, and is counted beyond it.
 * The answer may leave when the batch is in the journal. Nothing of what was refused went anywhere.
 */
void kh_refusal_record(struct kh_acceptor *acceptor, const struct kh_audit_open *what,
		       const struct kh_audit_close *how);
/* Is there room in the budget for a record of what goes nowhere, but is not refused? It is taken.
 */
bool kh_refusals_take_place(struct kh_acceptor *acceptor);
/* Writes the count: every few seconds; and now, since the acceptor ends or becomes another's. */
void kh_refusals_tick(struct kh_acceptor *acceptor);
void kh_refusals_end(struct kh_acceptor *acceptor);
/* Every second: how much room the journal has. */
void kh_refusals_look_at_space(struct kh_loop *loop);

#endif
