/* test_rechecks.c - after a reload, what runs stands still until a slice decides it again */
/* wrap: kh_up_acquire */
#include "near_side.h"

/* ---- the slices ---- */

enum { MANY = 60 };

/* What costs so much to decide. */
struct waiting {
	struct kh_recheck recheck;
	uint64_t steps;
	unsigned decided;
	struct waiting *ends; /* it takes that one with it */
};

static struct waiting costly[MANY], cheap[MANY];
static struct kh_acceptor other;

static void decide(struct kh_recheck *recheck)
{
	struct waiting *one = kh_container_of(recheck, struct waiting, recheck);

	assert_false(kh_recheck_waits(recheck));
	one->decided++;
	world.loop->decision_steps += one->steps;
	if (one->ends)
		kh_list_remove(&one->ends->recheck.link);
}

static unsigned count(const struct waiting *all)
{
	unsigned n = 0;

	for (int i = 0; i < MANY; i++)
		n += all[i].decided;
	return n;
}

static void wait_all(struct waiting *all, struct kh_acceptor *acceptor, uint64_t steps)
{
	for (int i = 0; i < MANY; i++) {
		all[i] = (struct waiting){ .recheck = { .fn = decide }, .steps = steps };
		kh_recheck_later(acceptor, &all[i].recheck);
	}
}

static void slices_begin(void)
{
	near_begin("b.example");
	other = world.acceptor;
}

static void test_a_turn_decides_as_much_as_one_costly_decision_takes(void **state)
{
	(void)state;
	slices_begin();
	wait_all(costly, &world.acceptor, KH_LIMIT_DECISION_STEPS);
	for (unsigned turn = 1; turn <= MANY; turn++) {
		assert_int_equal(count(costly), turn - 1);
		kh_loop_turn_end(world.loop);
		assert_int_equal(count(costly), turn);
	}
	kh_loop_turn_end(world.loop);
	assert_int_equal(count(costly), MANY);
	assert_true(kh_list_is_empty(&world.loop->calls[KH_LOOP_NEXT]));
	world_end(0);
}

/* Nobody is decided for nothing: each has records, limits and connections. */
static void test_those_that_cost_nothing_are_many_and_not_all(void **state)
{
	static struct waiting all[10 * MANY];
	unsigned turns = 0, decided = 0;

	(void)state;
	slices_begin();
	for (size_t i = 0; i < 10 * MANY; i++) {
		all[i] = (struct waiting){ .recheck = { .fn = decide } };
		kh_recheck_later(&world.acceptor, &all[i].recheck);
	}
	while (decided < 10 * MANY && turns++ < 100) {
		unsigned before = decided;
		kh_loop_turn_end(world.loop);
		decided = 0;
		for (size_t i = 0; i < 10 * MANY; i++)
			decided += all[i].decided;
		assert_in_range(decided - before, 1, 100);
	}
	assert_int_equal(decided, 10 * MANY);
	assert_in_range(turns, 6, 20);
	world_end(0);
}

static void test_a_sandbox_with_many_costly_ones_does_not_keep_others_waiting(void **state)
{
	(void)state;
	slices_begin();
	wait_all(costly, &world.acceptor, KH_LIMIT_DECISION_STEPS);
	wait_all(cheap, &other, 1000);
	for (int turn = 0; turn < 8; turn++)
		kh_loop_turn_end(world.loop);
	assert_int_equal(count(cheap), MANY);
	assert_in_range(count(costly), 1, 8);
	while (count(costly) < MANY)
		kh_loop_turn_end(world.loop);
	world_end(0);
}

static void test_a_second_reload_meanwhile_decides_each_once(void **state)
{
	(void)state;
	slices_begin();
	wait_all(costly, &world.acceptor, KH_LIMIT_DECISION_STEPS);
	for (int turn = 0; turn < 10; turn++)
		kh_loop_turn_end(world.loop);
	for (int i = 0; i < MANY; i++)
		kh_recheck_later(&world.acceptor, &costly[i].recheck);
	while (!kh_list_is_empty(&world.loop->rechecks))
		kh_loop_turn_end(world.loop);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(costly[i].decided, i < 10 ? 2 : 1);
	world_end(0);
}

static void test_those_that_end_while_they_wait_are_not_decided(void **state)
{
	(void)state;
	slices_begin();
	wait_all(costly, &world.acceptor, KH_LIMIT_DECISION_STEPS);
	wait_all(cheap, &other, KH_LIMIT_DECISION_STEPS);
	costly[0].ends = &costly[1];
	for (int i = 0; i < MANY; i++)
		kh_list_remove(&cheap[i].recheck.link);
	while (!kh_list_is_empty(&world.loop->rechecks))
		kh_loop_turn_end(world.loop);
	assert_int_equal(costly[1].decided, 0);
	assert_int_equal(count(costly), MANY - 1);
	assert_int_equal(count(cheap), 0);
	world_end(0);
}

static void no_sessions(struct kh_acceptor *acceptor, const char *why)
{
	(void)acceptor;
	(void)why;
	for (int i = 0; i < MANY; i++)
		kh_list_remove(&cheap[i].recheck.link);
}

/* Its sandbox was removed, or its listener: it is freed at the end of the turn. */
static void test_an_acceptor_that_ends_leaves_the_slices(void **state)
{
	static struct kh_loop_ops ops;

	(void)state;
	slices_begin();
	ops = near_loop_ops;
	ops.acceptor_ended = no_sessions;
	world.loop->ops = &ops;
	wait_all(costly, &world.acceptor, KH_LIMIT_DECISION_STEPS);
	wait_all(cheap, &other, KH_LIMIT_DECISION_STEPS);
	kh_acceptor_end(&other, "its sandbox was removed");
	memset(&other, 0xff, sizeof(other));
	while (!kh_list_is_empty(&world.loop->rechecks))
		kh_loop_turn_end(world.loop);
	assert_int_equal(count(costly), MANY);
	world_end(0);
}

/* ---- what waits ---- */

#define RULES(list) \
	"version: 1\nlisten: [ { unix: /nowhere/s, tenant: t } ]\n" \
	"tenants: { t: { rules: [ " list " ] } }\n"

static const char still_allowed[] = RULES("{ allow: \"https://b.example\" }");
static const char denied[] = RULES("{ allow: \"https://z.example\" }");

/* An upload of which some is on its way. */
static struct kh_exchange *half_an_upload(void)
{
	near_begin("b.example");
	(void)near_request("POST", "/", 8);
	struct kh_exchange *x = near_send();

	assert_records(1, 0, 0);
	kh_exchange_body(x, KH_SLICE("half"));
	near_turn(&near.stream);
	assert_true(kh_exchange_takes_body(x));
	return x;
}

/* Behind so many that cost as much as any. */
static void in_line(unsigned turns)
{
	for (unsigned i = 0; i < turns; i++) {
		costly[i] = (struct waiting){ .recheck = { .fn = decide },
					      .steps = KH_LIMIT_DECISION_STEPS };
		kh_recheck_later(&world.acceptor, &costly[i].recheck);
	}
}

static void test_nothing_of_it_moves_before_it_is_decided_again(void **state)
{
	struct kh_generation *next;

	(void)state;
	struct kh_exchange *x = half_an_upload();
	struct kh_up_user *user = far_last()->stream.user;
	unsigned updates = far_last()->updates;
	next = world_generation_of(2, still_allowed);
	in_line(3);
	world_reload(next);
	for (int turn = 0; turn < 3; turn++) {
		unsigned held = far_last()->held;
		assert_true(kh_exchange_stands_still(x));
		assert_false(kh_exchange_takes_body(x));
		assert_true(user->ops->is_full(user->side));
		near_turn(&near.stream);
		assert_int_equal(far_last()->held, held + 1);
		assert_int_equal(far_last()->updates, updates);
		/* Nobody could do anything about a wait that is keyhole's own. */
		assert_true(kh_exchange_deadline(x) >= x->started_ms + 10 * 60 * 1000);
		kh_loop_turn_end(world.loop);
	}
	kh_loop_turn_end(world.loop);
	assert_false(kh_exchange_stands_still(x));
	assert_true(kh_exchange_takes_body(x));
	assert_false(user->ops->is_full(user->side));
	kh_exchange_body(x, KH_SLICE("half"));
	kh_exchange_request_end(x, NULL, 0);
	assert_slice_equal(kh_buf_view(&far_last()->content), "halfhalf");
	assert_true(far_answers(far_last(), 204, KH_FRAMING_NONE));
	far_ends(far_last());
	assert_records(1, 1, 0);
	world_end(0);
	kh_generation_unref(next);
}

static void test_what_the_new_rules_forbid_ends_when_it_is_its_turn(void **state)
{
	(void)state;
	(void)half_an_upload();
	struct kh_generation *next = world_generation_of(2, denied);
	world_reload(next);
	assert_int_equal(near.overs, 0);
	assert_records(1, 1, 0);
	assert_int_equal(near.overs, 1);
	assert_int_equal(near.reason, KH_ERR_NO_RULE);
	assert_slice_equal(kh_buf_view(&far_last()->content), "half");
	assert_true(far_last()->released && !far_last()->clean);
	world_end(0);
	kh_generation_unref(next);
}

/* Its open record is on its way into the journal, and by it nothing is dialled. */
static void test_what_was_about_to_connect_does_not(void **state)
{
	(void)state;
	near_begin("b.example");
	struct kh_exchange *x = near_ask("GET", "/path");
	struct kh_generation *next = world_generation_of(2, denied);
	assert_int_equal(x->state, KH_EXCHANGE_COMMIT);
	in_line(2);
	world_reload(next);
	assert_records(1, 0, 0);
	assert_records(1, 0, 0);
	assert_int_equal(world.n_fars, 0);
	assert_records(1, 1, 1); /* that it is decided anew, and then how */
	assert_int_equal(world.n_fars, 0);
	assert_int_equal(near.reason, KH_ERR_NO_RULE);
	world_end(0);
	kh_generation_unref(next);
}

/* The connection was made for what the old rules said. */
static void test_what_connects_leaves_its_connection_at_once(void **state)
{
	(void)state;
	near_begin("b.example");
	struct kh_generation *next = world_generation_of(2, still_allowed);
	world.way = FAR_IS_LATE;
	struct kh_exchange *x = near_ask("GET", "/path");
	assert_records(1, 0, 0);
	assert_int_equal(x->state, KH_EXCHANGE_CONNECT);
	struct far *first = far_last();
	in_line(2);
	world_reload(next);
	assert_true(first->released);
	kh_loop_turn_end(world.loop);
	assert_int_equal(world.n_fars, 1);
	kh_loop_turn_end(world.loop);
	assert_records(2, 1, 0);
	assert_int_equal(world.n_fars, 2);
	far_comes(far_last());
	assert_true(far_answers(far_last(), 200, KH_FRAMING_NONE));
	far_ends(far_last());
	assert_records(2, 2, 0);
	world_end(0);
	kh_generation_unref(next);
}

/* The value that comes is one of the rules before. */
static void test_a_value_that_comes_meanwhile_is_not_used(void **state)
{
	(void)state;
	near_begin("a.example");
	struct kh_exchange *x = near_ask("GET", "/");
	struct kh_generation *next = world_generation_of(2, denied);
	assert_int_equal(x->state, KH_EXCHANGE_SECRET);
	in_line(2);
	world_reload(next);
	world_value(world.gen);
	x->member.ops->value_came(&x->member, world.gen->number, WORLD_CREDENTIAL);
	assert_int_equal(x->state, KH_EXCHANGE_SECRET);
	assert_records(0, 0, 0);
	assert_records(0, 0, 0);
	assert_records(0, 0, 1);
	assert_int_equal(world.n_fars, 0);
	world_end(0);
	kh_generation_unref(next);
}

static void test_it_is_decided_by_the_last_of_two_reloads(void **state)
{
	(void)state;
	(void)half_an_upload();
	struct kh_generation *second = world_generation_of(2, denied),
			     *third = world_generation_of(3, still_allowed);
	in_line(2);
	world_reload(second);
	kh_loop_turn_end(world.loop);
	world_reload(third);
	assert_records(1, 0, 0);
	assert_records(1, 0, 0);
	struct kh_exchange *x = near.stream.exchange;
	assert_non_null(x);
	assert_false(kh_exchange_stands_still(x));
	kh_exchange_gone(x, KH_ERR_DOWN_CLOSED, NULL);
	assert_records(1, 1, 0);
	world_end(0);
	kh_generation_unref(second);
	kh_generation_unref(third);
}

static void test_the_sandbox_may_go_while_it_waits(void **state)
{
	(void)state;
	struct kh_exchange *x = half_an_upload();
	struct kh_generation *next = world_generation_of(2, still_allowed);
	in_line(2);
	world_reload(next);
	kh_exchange_gone(x, KH_ERR_DOWN_CLOSED, NULL);
	assert_true(far_last()->released);
	assert_records(1, 1, 0);
	kh_loop_turn_end(world.loop);
	kh_loop_turn_end(world.loop);
	assert_true(kh_list_is_empty(&world.loop->rechecks));
	world_end(0);
	kh_generation_unref(next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_turn_decides_as_much_as_one_costly_decision_takes),
		cmocka_unit_test(test_those_that_cost_nothing_are_many_and_not_all),
		cmocka_unit_test(test_a_sandbox_with_many_costly_ones_does_not_keep_others_waiting),
		cmocka_unit_test(test_a_second_reload_meanwhile_decides_each_once),
		cmocka_unit_test(test_those_that_end_while_they_wait_are_not_decided),
		cmocka_unit_test(test_an_acceptor_that_ends_leaves_the_slices),
		cmocka_unit_test(test_nothing_of_it_moves_before_it_is_decided_again),
		cmocka_unit_test(test_what_the_new_rules_forbid_ends_when_it_is_its_turn),
		cmocka_unit_test(test_what_was_about_to_connect_does_not),
		cmocka_unit_test(test_what_connects_leaves_its_connection_at_once),
		cmocka_unit_test(test_a_value_that_comes_meanwhile_is_not_used),
		cmocka_unit_test(test_it_is_decided_by_the_last_of_two_reloads),
		cmocka_unit_test(test_the_sandbox_may_go_while_it_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
