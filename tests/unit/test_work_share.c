/* test_work_share.c - one sandbox's connections share the work of a turn */
#include "unit.h"

#include <keyhole/loop/work_share.h>

enum { MANY = 32 };

/* A connection that has `heads` left, of `each` bytes. */
struct connection {
	struct kh_work_place place;
	struct kh_work_share *share;
	size_t heads, each;
	unsigned turns;
};

static struct kh_loop loop;
static struct kh_work_share share, other;
static struct kh_work_share boxes[MANY]; /* of one tenant */
static struct connection many[MANY];
static size_t taken; /* in this turn */

/* As session_take.c does it. */
static void take(struct connection *c)
{
	size_t before = c->heads;

	if (kh_work_place_waits(&c->place))
		return;
	while (c->heads > 0 && kh_work_share_left(c->share) > 0) {
		kh_work_share_charge(c->share, c->each);
		c->heads--;
		taken += c->each;
	}
	c->turns += c->heads < before;
	if (c->heads > 0)
		kh_work_share_wait(c->share, &c->place);
}

static void on_place(struct kh_work_place *place)
{
	take(kh_container_of(place, struct connection, place));
}

/* What the loop does when a turn ends. */
static void end_turn(void)
{
	struct kh_node ready;

	kh_list_move(&loop.calls[KH_LOOP_NEXT], &ready);
	while (!kh_list_is_empty(&ready)) {
		struct kh_loop_call *call = kh_container_of(ready.next, struct kh_loop_call, link);

		kh_list_remove(&call->link);
		call->fn(call);
	}
	loop.turn++;
}

static int set_up(void **state)
{
	(void)state;
	memset(&loop, 0, sizeof(loop));
	memset(many, 0, sizeof(many));
	kh_list_init(&loop.calls[KH_LOOP_NEXT]);
	kh_list_init(&loop.work_tenants);
	kh_work_share_init(&share, &loop);
	kh_work_share_init(&other, &loop);
	for (size_t i = 0; i < MANY; i++)
		many[i].place.fn = on_place, many[i].share = &share;
	taken = 0;
	return 0;
}

static bool is_over(void)
{
	return kh_list_is_empty(&loop.calls[KH_LOOP_NEXT]);
}

static void many_connections_do_no_more_than_the_share(void **state)
{
	enum { HEAD = 40 * 1024, HEADS = 10 };
	size_t left = (size_t)MANY * HEADS, sum = 0;
	unsigned turns = 0;

	(void)state;
	for (size_t i = 0; i < MANY; i++)
		many[i].heads = HEADS, many[i].each = HEAD;
	do {
		/* Each has an event in each turn. */
		taken = 0;
		for (size_t i = 0; i < MANY; i++)
			take(&many[i]);
		end_turn();
		assert_true(taken > 0);
		assert_true(taken < KH_LIMIT_WORK_SHARE + HEAD);
		left -= taken / HEAD;
		sum += taken;
		/* What was too much is missing later. */
		assert_true(sum < (size_t)++turns * KH_LIMIT_WORK_SHARE + HEAD);
	} while (!is_over());
	assert_int_equal(left, 0);
}

/* However much of it is in line, and whatever else it has cost. */
static void another_sandbox_waits_for_one_share(void **state)
{
	struct connection *one = &many[MANY - 1];

	(void)state;
	for (size_t i = 0; i < MANY - 1; i++)
		many[i].heads = 100000, many[i].each = 1;
	one->share = &other;
	for (unsigned turn = 0; turn < 10; turn++) {
		one->heads = 3, one->each = 1024;
		taken = 0;
		for (size_t i = 0; i < MANY; i++)
			take(&many[i]);
		assert_int_equal(one->heads, 0);
		assert_true(taken <= KH_LIMIT_WORK_SHARE + 3 * one->each);
		kh_work_share_charge(&share, 10);
		end_turn();
	}
}

static void what_was_done_beyond_the_share_is_taken_from_later_turns(void **state)
{
	(void)state;
	kh_work_share_charge(&share, 3 * (size_t)KH_LIMIT_WORK_SHARE - 1);
	many[0].heads = 2, many[0].each = 1;
	take(&many[0]);
	for (unsigned turn = 0; turn < 2; turn++) {
		end_turn();
		assert_int_equal(many[0].heads, 2);
		assert_false(is_over());
	}
	end_turn();
	assert_int_equal(many[0].heads, 1);
	end_turn();
	assert_int_equal(many[0].heads, 0);
	assert_true(is_over());
	/* An idle sandbox saves nothing for later. */
	loop.turn += 1000;
	assert_int_equal(kh_work_share_left(&share), KH_LIMIT_WORK_SHARE);
}

static void whoever_has_little_does_not_wait_for_whoever_has_much(void **state)
{
	enum { HEAD = 60 * 1024 };
	unsigned turns = 0;

	(void)state;
	for (size_t i = 0; i < MANY - 1; i++)
		many[i].heads = 100000, many[i].each = HEAD;
	many[MANY - 1].heads = 1;
	many[MANY - 1].each = 100;
	do {
		for (size_t i = 0; i < MANY; i++)
			take(&many[i]);
		end_turn();
		turns++;
	} while (many[MANY - 1].heads > 0);
	/* Once around the line, in which each has at most what a turn holds, and a head more. */
	assert_true(turns <= 2 * MANY);
	for (size_t i = 0; i < MANY - 1; i++)
		assert_in_range(many[i].turns, 1, 3);
}

static void who_leaves_is_not_served(void **state)
{
	(void)state;
	for (size_t i = 0; i < MANY; i++)
		many[i].heads = 10, many[i].each = KH_LIMIT_WORK_SHARE;
	for (size_t i = 0; i < MANY; i++)
		take(&many[i]);
	for (size_t i = 0; i < MANY; i++) {
		assert_true(kh_work_place_waits(&many[i].place));
		kh_work_place_leave(&many[i].place);
		many[i].turns = 0;
	}
	end_turn();
	end_turn();
	assert_true(is_over());
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(many[i].turns, 0);
	/* And the sandbox's end takes the call back. */
	take(&many[0]);
	assert_false(is_over());
	kh_work_share_fini(&share);
	assert_true(is_over());
}

/* ---- tenants ---- */

static void begin_boxes(void)
{
	for (size_t i = 0; i < MANY; i++) {
		kh_work_share_init(&boxes[i], &loop);
		assert_true(kh_work_share_join(&boxes[i], "globex"));
		many[i].share = &boxes[i];
	}
}

static void end_boxes(void)
{
	for (size_t i = 0; i < MANY; i++)
		kh_work_share_fini(&boxes[i]);
	assert_true(is_over());
	assert_true(kh_list_is_empty(&loop.work_tenants));
}

static void many_sandboxes_of_a_tenant_do_no_more_than_its_share(void **state)
{
	enum { HEAD = 10 * 1024, HEADS = 100, SHARE = KH_WORK_TENANT_SHARES * KH_LIMIT_WORK_SHARE };
	size_t left = (size_t)MANY * HEADS, least = HEADS, most = 0;

	(void)state;
	begin_boxes();
	for (size_t i = 0; i < MANY; i++)
		many[i].heads = HEADS, many[i].each = HEAD;
	for (unsigned turn = 0; !is_over() || turn == 0; turn++) {
		/* Each has an event in each turn, the first ones before the others. */
		taken = 0;
		for (size_t i = 0; i < MANY; i++)
			take(&many[i]);
		end_turn();
		assert_in_range(taken, turn > 0, SHARE + HEAD);
		left -= taken / HEAD;
		if (turn != 2 * MANY / KH_WORK_TENANT_SHARES)
			continue;
		/* They take turns. */
		for (size_t i = 0; i < MANY; i++) {
			size_t done = HEADS - many[i].heads;
			least = done < least ? done : least;
			most = done > most ? done : most;
		}
		assert_in_range(least, 1, most);
		assert_true(most <= 2 * least + 2 * KH_LIMIT_WORK_SHARE / HEAD);
	}
	assert_int_equal(left, 0);
	end_boxes();
}

static void another_tenants_sandbox_does_not_wait_for_all_of_a_tenant(void **state)
{
	struct connection *one = &many[MANY - 1];

	(void)state;
	begin_boxes();
	assert_true(kh_work_share_join(&boxes[MANY - 1], "acme"));
	for (size_t i = 0; i < MANY - 1; i++)
		many[i].heads = 100000, many[i].each = 1024;
	for (unsigned turn = 0; turn < 10; turn++) {
		one->heads = 3, one->each = 1024;
		for (size_t i = 0; i < MANY; i++)
			take(&many[i]);
		assert_int_equal(one->heads, 0);
		end_turn();
	}
	end_boxes();
}

/* A sandbox that is busy alone leaves the rest of its tenant's share to the others. */
static void a_sandbox_with_little_does_not_wait_for_a_busy_one_of_its_tenant(void **state)
{
	(void)state;
	begin_boxes();
	many[0].heads = 100000, many[0].each = 1024;
	for (unsigned turn = 0; turn < 10; turn++) {
		many[1].heads = 3, many[1].each = 1024;
		take(&many[0]);
		take(&many[1]);
		assert_int_equal(many[1].heads, 0);
		end_turn();
	}
	end_boxes();
}

/* A reload moves a listener to another tenant; sandboxes are removed while others are in line. */
static void whoever_changes_its_tenant_keeps_its_line(void **state)
{
	(void)state;
	begin_boxes();
	for (size_t i = 0; i < MANY; i++)
		many[i].heads = 4, many[i].each = KH_LIMIT_WORK_SHARE;
	for (size_t i = 0; i < MANY; i++)
		take(&many[i]);
	for (size_t i = 0; i < MANY / 2; i++)
		assert_true(kh_work_share_join(&boxes[i], "acme"));
	for (size_t i = 0; i < MANY / 4; i++) {
		kh_work_place_leave(&many[i].place);
		kh_work_share_fini(&boxes[i]);
	}
	while (!is_over())
		end_turn();
	for (size_t i = MANY / 4; i < MANY; i++)
		assert_int_equal(many[i].heads, 0);
	end_boxes();
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, set_up)
	const struct CMUnitTest tests[] = {
		TEST(many_connections_do_no_more_than_the_share),
		TEST(another_sandbox_waits_for_one_share),
		TEST(what_was_done_beyond_the_share_is_taken_from_later_turns),
		TEST(whoever_has_little_does_not_wait_for_whoever_has_much),
		TEST(who_leaves_is_not_served),
		TEST(many_sandboxes_of_a_tenant_do_no_more_than_its_share),
		TEST(another_tenants_sandbox_does_not_wait_for_all_of_a_tenant),
		TEST(a_sandbox_with_little_does_not_wait_for_a_busy_one_of_its_tenant),
		TEST(whoever_changes_its_tenant_keeps_its_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
