/* world.c - one run: its beginning, its steps with what is checked after each, its end */

#include <keyhole/base/machine.h>
#include <keyhole/base/secret.h>

#include <keyhole/downstream/session.h>
#include <keyhole/exchange/exchange.h>
#include <keyhole/loop/leaf_requests.h>
#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/upstream/upstream.h>

#include <upstream/upstream_internal.h>

#include "simulation.h"

enum {
	STEPS_WITHOUT_TIME = 20000, /* beyond it something goes round */
	LASTS_MS = 40 * 1000,	    /* timeouts.total and timeouts.tunnel, as keeper.c has them */
	LATE_MS = 2000,		    /* a timer that found no memory is set in the next second */
	ALL_MS = 300 * 1000,
};

struct sim_world sim;

static const struct kh_loop_ops loop_ops = {
	.accepted = kh_session_new,
	.acceptor_ended = kh_session_end_of_acceptor,
	.ups_new = kh_ups_new,
	.ups_free = kh_ups_free,
	.up_tick = kh_up_tick,
	.up_close_idle = kh_up_close_idle,
	.up_close_of_acceptor = kh_up_close_of_acceptor,
};

static void dynamic_sandbox_is_gone(struct kh_worker *worker, uint32_t ref,
				    const struct kh_listener_stats *listener_stats)
{
	(void)worker;
	(void)ref;
	(void)listener_stats;
}

void sim_world_prepare(void)
{
	struct kh_worker *w = &sim.worker;

	kh_secret_prepare();
	sim_time_reset();
	sim_keeper_prepare();
	w->channel.fd = -1;
	w->journal_fd = -1;
	w->n_loops = 1;
	w->loops = &sim.loop;
	pthread_mutex_init(&w->fingerprints_lock, NULL);
	w->leaves = kh_leaves_new(NULL);
	w->roots = kh_roots_new();
	SIM_CHECK(w->leaves && w->roots &&
			  kh_dynamic_sandboxes_init(w, dynamic_sandbox_is_gone, NULL),
		  "no memory");
}

void sim_world_begin(void)
{
	struct kh_worker *w = &sim.worker;
	struct kh_err err = KH_ERR_INIT;

	sim_faults_reset();
	(void)sim_faults_set(false);
	sim_time_reset();
	sim_journal_reset();
	sim_rules_reset();
	sim.calm = false;
	sim.steps = 0;
	sim.mood = (struct sim_mood){ .slow_names = sim_one_in(2),
				      .dynamic_sandboxes = sim_one_in(2),
				      .one_host = sim_one_in(2),
				      .host = (unsigned)sim_below(2),
				      .restless = sim_one_in(2),
				      .no_faults = sim_one_in(2) };
	w->taken_fd = -1;
	w->current = sim_keeper_generation(0, NULL);
	kh_account_bound(w->current->whole, KH_RESOURCE_MEMORY,
			 sim_one_in(4) ? 1 << 20 : (size_t)1 << 30);
	kh_account_bound(w->current->whole, KH_RESOURCE_DESCRIPTORS, sim_one_in(4) ? 12 : 1000);
	SIM_CHECK(kh_leaf_requests_init(w, &err), "%s", err.text);
	sim.loop = kh_loop_new(w, 0, &loop_ops, KH_SLICE(""), KH_SLICE(""), &err);
	SIM_CHECK(sim.loop, "%s", err.text);
	sim.loop->now_ms = sim_now_ms();
	SIM_CHECK(kh_acceptors_reload(sim.loop, sim.loop->gen), "no memory");
	for (unsigned i = 0; sim.mood.dynamic_sandboxes && i < 3; i++)
		sim_keeper_add_sandbox();
}

/* ---- a step ---- */

static void check_exchanges(void)
{
	const struct kh_loop *loop = sim.loop;
	const struct kh_node *node;

	for (node = loop->exchanges.next; node != &loop->exchanges; node = node->next) {
		const struct kh_exchange *x =
			(const void *)((const char *)node - offsetof(struct kh_exchange, member));
		if (kh_exchange_is_websocket(x)) /* which lasts as long as it moves */
			continue;
		SIM_CHECK(sim_now_ms() < x->started_ms + LASTS_MS + LATE_MS,
			  "the exchange %s does not end (state %d)", x->id, (int)x->state);
	}
}

/* Nobody is charged for a lookup that somebody else waits for. */
static void check_making(void)
{
	const struct kh_node *made = &sim.loop->ups->made, *node;

	for (node = made->next; node != made; node = node->next) {
		const struct kh_up *up =
			(const void *)((const char *)node - offsetof(struct kh_up, link));
		SIM_CHECK(up->only.user, "a connection is made for nobody");
		SIM_CHECK(!kh_charge_holds(&up->making) ||
				  up->making.account == up->only.user->account,
			  "a sandbox is charged for another one's lookup");
	}
}

static void end_turn(void)
{
	bool before = sim_faults_set(sim.loop->gen == sim.worker.current);
	uint32_t number = sim.loop->gen->number; /* from 2 on it came by a reload */

	sim.loop->now_ms = sim_now_ms();
	kh_loop_turn_end(sim.loop);
	(void)sim_faults_set(before);
	check_exchanges();
	check_making();
	SIM_CHECK(atomic_load(&sim.loop->taken) == (number > 1 ? number : 0),
		  "the loop says of other rules that they hold");
	SIM_CHECK(kh_machine_faults() == 0, "a state is left by a step that there is not");
	sim_keeper_check_gone();
}

static bool deliver(void)
{
	struct sim_pipe *ready[SIM_PIPES];
	size_t n = 0;

	for (size_t i = 0; i < SIM_PIPES; i++)
		if (sim_pipe_can_deliver(&sim_pipes[i]))
			ready[n++] = &sim_pipes[i];
	if (n)
		sim_pipe_deliver(ready[sim_below(n)]);
	return n > 0;
}

static bool run_event(void)
{
	return sim_time_run_one(sim.loop);
}

static bool answer(void)
{
	if (!sim_keeper_has_questions() || sim_one_in(4))
		return false;
	sim_keeper_answer();
	return true;
}

/* Something that nobody likes. */
static bool disturb(void)
{
	if (sim.calm)
		return false;
	switch (sim_below(sim.mood.no_faults ? 12 : 18)) {
	case 0:
	case 1:
		sim_keeper_reload();
		break;
	case 2:
	case 3:
	case 4:
		sim_keeper_remove_sandbox();
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		sim_keeper_add_sandbox();
		break;
	case 9:
		sim_keeper_stale();
		break;
	case 10:
	case 11:
		sim_keeper_use_up_share();
		break;
	case 12:
		sim_fault_arm(SIM_FAULT_JOURNAL, 1 + sim_below(3));
		break;
	case 13:
		sim_fault_arm(SIM_FAULT_CALL, 1 + sim_below(20));
		break;
	case 14:
	case 15:
		sim_fault_arm(SIM_FAULT_ALLOCATION, 1 + sim_below(200));
		break;
	case 16:
		if (sim_one_in(8))
			kh_loop_post_retire(sim.loop);
		else if (sim_one_in(32))
			kh_loop_post_superseded(sim.loop);
		break;
	default:
		if (sim_one_in(8))
			kh_loop_post_drain(sim.loop);
		break;
	}
	return true;
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void let_time_pass(void)
{
	uint64_t next = earliest(sim_time_next_us(),
				 earliest(sim_names_next_us(), sim_handshake_next_us()));
	uint64_t now = sim_time_now_us();

	if (!sim.calm && sim_one_in(2))
		next = earliest(next, now + 1 + sim_below(100000));
	SIM_CHECK(next != UINT64_MAX, "nothing is waited for");
	sim_time_set_us(next);
}

/* Return: something happened without time passing. */
static bool happen(void)
{
	static const struct {
		bool (*act)(void);
		unsigned weight;
	} acts[] = {
		{ run_event, 8 },
		{ deliver, 6 },
		{ sim_sandboxes_read, 4 },
		{ sim_upstreams_read, 4 },
		{ sim_names_step, 2 },
		{ sim_handshake_step, 2 },
		{ answer, 2 },
		{ sim_sandboxes_act, 3 },
		{ disturb, 1 },
	};
	enum { BY_ITSELF = 7, WEIGHTS = 32 }; /* what is due happens; nobody has to do the others */
	uint64_t at = sim_below(WEIGHTS);
	size_t first = 0;

	while (at >= acts[first].weight)
		at -= acts[first++].weight;
	if ((sim.mood.restless && sim_one_in(12) && disturb()) || acts[first].act())
		return true;
	for (size_t i = 0; i < BY_ITSELF; i++)
		if (acts[(first + i) % BY_ITSELF].act())
			return true;
	return false;
}

void sim_world_step(void)
{
	sim.steps++;
	if (sim_one_in(24) || !happen())
		let_time_pass();
	if (!sim_one_in(8))
		end_turn();
}

/* ---- the end ---- */

/* All that has been begun goes on as far as it does. */
static void settle(void)
{
	unsigned steps = 0;

	while (happen()) {
		end_turn();
		SIM_CHECK(++steps < STEPS_WITHOUT_TIME, "it goes round without end");
	}
	end_turn();
}

static void check_nothing_held(void)
{
	const struct kh_generation *g = sim.worker.current;

	for (size_t i = 0; i < g->config->n_listeners; i++) {
		SIM_CHECK(atomic_load(&g->listener_stats_list[i]->connections) == 0,
			  "a connection is counted");
		SIM_CHECK(atomic_load(&g->listener_stats_list[i]->held_bytes) == 0,
			  "held bytes are counted");
		SIM_CHECK(atomic_load(&g->listener_stats_list[i]->kept_bytes) == 0,
			  "kept bytes are counted");
	}
	for (enum kh_resource what = 0; what < KH_RESOURCE_SIGNATURES; what++)
		if (what != KH_RESOURCE_LEAVES) /* the keeper may never have answered */
			SIM_CHECK(kh_account_held(g->whole, what, 0) == 0, "%s is held by nobody",
				  kh_resource_name(what));
}

static void check_loop_is_empty(void)
{
	const struct kh_loop *loop = sim.loop;

	SIM_CHECK(loop->n_live == 0 && kh_list_is_empty(&loop->live), "a session is left");
	SIM_CHECK(kh_list_is_empty(&loop->exchanges), "an exchange is left");
	SIM_CHECK(kh_list_is_empty(&loop->ups->made), "a connection is made for nobody");
	SIM_CHECK(kh_list_is_empty(&loop->deferred_frees), "something waits to be freed");
	for (enum kh_loop_when when = KH_LOOP_DOWN; when < KH_LOOP_WHENS; when++)
		SIM_CHECK(kh_list_is_empty(&loop->calls[when]), "a call is left");
	SIM_CHECK(loop->batch.count == 0, "a record is left");
	SIM_CHECK(loop->ends.n == 0 && loop->ends.due == 0, "an end is left");
}

/* Everybody is silent: each wait has an end. */
static void outlast(void)
{
	uint64_t until = sim_now_ms() + ALL_MS;

	while (sim.loop->n_live > 0 || !kh_list_is_empty(&sim.loop->exchanges) ||
	       !kh_list_is_empty(&sim.loop->ups->made) || sim.loop->batch.count > 0 ||
	       sim.loop->ends.n > 0 || sim_names_has_questions()) {
		SIM_CHECK(sim_now_ms() < until, "%zu connections are silent and do not end",
			  sim.loop->n_live);
		let_time_pass();
		settle();
	}
}

void sim_world_end(void)
{
	struct kh_worker *w = &sim.worker;

	sim.calm = true;
	settle();
	if (sim_one_in(2))
		sim_sandboxes_leave();
	outlast();
	sim_keeper_reset();
	settle();
	check_loop_is_empty();
	sim_names_free();
	kh_loop_free(sim.loop);
	sim.loop = NULL;
	check_nothing_held();
	sim_rules_check_places();
	sim_journal_check_end();
	for (size_t i = 0; i < SIM_PIPES; i++)
		SIM_CHECK(!sim_pipes[i].used || sim_pipes[i].closed, "a connection is left open");
	SIM_CHECK(sim_time_armed() == 0, "an event is left");
	kh_leaf_requests_fini(w);
	kh_generation_unref(w->current);
	w->current = NULL;
	sim_keeper_forget();
	sim_sandboxes_reset();
	sim_pipes_free();
	sim_handshakes_free();
}
