/* acceptor.h - a listener in one event thread: accepting, rates, and what the sandbox is charged
 * for */
#ifndef KEYHOLE_LOOP_ACCEPTOR_H
#define KEYHOLE_LOOP_ACCEPTOR_H

#include <keyhole/loop/work_share.h>
#include <keyhole/loop/loop.h>

struct kh_acceptor {
	struct kh_deferred_free deferred_free;
	struct kh_loop *loop;
	struct kh_listener_stats *listener_stats;
	struct kh_account *account; /* a reference; NULL: without bounds */
	/* The generation that the next two members belong to: the loop's, or the one before if a
	 * reload removed the listener. Code outside of the loop reads the three together, by
	 * kh_acceptor_standing. */
	struct kh_generation *gen;
	const struct kh_listener_config *config;
	const struct kh_narrowing *narrowing; /* NULL: none */
	struct kh_node sessions;	      /* of connections that it accepted */
	struct kh_work_share work;	      /* of those connections, in a turn */
	/* What waits to be decided again (rechecks.c); set only while the acceptor is in the loop's
	 * list of those where something waits. */
	struct kh_node rechecks, rechecks_link;
	int64_t number; /* unique among all acceptors that this worker ever had */
	struct event *event;
	struct event *resume; /* after running out of descriptors */
	struct kh_secret
		*secret; /* the token of a TCP listener; until it has come nobody is let in */
	/* After a reload, until its token has come: the one before, by which its connections were
	 * let in; NULL: they were let in by the one in force. */
	struct kh_secret *former;
	bool other_cid; /* a reload names another virtual machine than its connections are from */
	double tries;	/* budget of wrong tokens, refilled with time */
	uint64_t tries_ms;
	double leaf_tokens; /* budget: this thread's share of the sandbox's rate of leaves */
	uint64_t leaf_tokens_ms;
	double log_tokens; /* likewise, of its log lines */
	uint64_t log_tokens_ms;
	uint64_t unsaid, unsaid_since_ms;	/* log lines that were suppressed, and since when */
	struct kh_refusals *refusals;		/* NULL: every refusal has a record of its own */
	struct kh_owner_tag tags[KH_MARK_KEYS]; /* of this sandbox's placeholders */
	uint64_t tags_of;    /* the generation's number + 1 that `tags` is for; 0: not computed */
	unsigned handshakes; /* TLS handshakes since this sandbox last resumed a session */
};

/* A sandbox's data in one generation. The members are only valid together with `gen`. They are
 * views until the loop's next reload; to keep them longer, hold a reference to `gen`. */
struct kh_standing {
	struct kh_generation *gen;
	uint16_t tenant; /* index into gen->config->tenants; listener->tenant may belong to a later
			    generation */
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
/* Makes the acceptors of the generation in force, and keeps those of `before` that it still has. At
 * the start, `before` is the generation in force itself. Return: false without memory. */
bool kh_acceptors_reload(struct kh_loop *loop, const struct kh_generation *before);
void kh_acceptors_shut(struct kh_loop *loop);
/* Building blocks of all acceptors, also those of dynamic sandboxes (dynamic_sandboxes.h). */
void kh_acceptor_init(struct kh_acceptor *acceptor, struct kh_loop *loop);
/* Accepts from that descriptor, which stays the caller's. Return: false without memory. */
bool kh_acceptor_open(struct kh_acceptor *acceptor, int listener);
void kh_acceptor_close(struct kh_acceptor *acceptor);
/* Stops accepting, and ends the connections that it accepted. The caller frees it. */
void kh_acceptor_end(struct kh_acceptor *acceptor, const char *why);
void kh_acceptor_tick(struct kh_acceptor *acceptor);
void kh_acceptors_free(struct kh_loop *loop);
void kh_acceptors_say_counts(struct kh_loop *loop);  /* the last call before kh_acceptors_free */
void kh_acceptor_left(struct kh_acceptor *acceptor); /* one of its connections ended */
/* One more connection of this sandbox within `max_connections`? kh_acceptor_left gives it back. */
bool kh_acceptor_take_place(struct kh_acceptor *acceptor);
/* An HTTP/2 connection now holds `now` bytes; at the last call it held `before`. Updates the
 * sandbox's total in any case. Return: false: that total is too large, and this connection has to
 * hold less. */
bool kh_acceptor_may_keep(struct kh_acceptor *acceptor, size_t before, size_t now);
/* May the sandbox open one more HTTP/2 stream? */
bool kh_acceptor_takes_streams(const struct kh_acceptor *acceptor);
/* Looks for the tokens that TCP acceptors wait for. After a reload, ends the connections that were
 * let in by another token than the one in force, or from another CID. */
void kh_acceptors_look_for_tokens(struct kh_loop *loop);
/* May one more token be checked? False after too many wrong ones: bounds guessing. */
bool kh_acceptor_may_try(struct kh_acceptor *acceptor);
void kh_acceptor_was_wrong(struct kh_acceptor *acceptor);
/* Takes one leaf of this sandbox's rate. Return: false: none is left. */
bool kh_acceptor_may_mint(struct kh_acceptor *acceptor);
/* Takes one line of this sandbox's rate in the operator's log, so that a sandbox can't flood it.
 * Return: false: don't log. Suppressed lines are counted, and the count is logged. */
bool kh_acceptor_may_log(struct kh_acceptor *acceptor);
void kh_acceptors_tick(struct kh_loop *loop);
/* Should this handshake send a session ticket? A ticket costs a twentieth of a handshake, so a
 * sandbox whose clients never resume gets only a few. */
bool kh_acceptor_spends_ticket(struct kh_acceptor *acceptor);

/* refusals.c: a refusal gets a record of its own within a budget, and is only counted beyond it.
 * The answer may be sent when the batch is in the journal. Nothing of a refused request was
 * forwarded. */
void kh_refusal_record(struct kh_acceptor *acceptor, const struct kh_audit_open *what,
		       const struct kh_audit_close *how);
/* Takes a record of the same budget, for something that is neither forwarded nor refused. Return:
 * false: none is left. */
bool kh_refusals_take_place(struct kh_acceptor *acceptor);
/* Write the count: every few seconds, and at once when the acceptor ends or changes its tenant. */
void kh_refusals_tick(struct kh_acceptor *acceptor);
void kh_refusals_end(struct kh_acceptor *acceptor);
/* Every second: checks the free space for the journal. */
void kh_refusals_look_at_space(struct kh_loop *loop);

#endif
