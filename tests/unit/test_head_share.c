/* test_head_share.c - one sandbox's connections share what it takes of HTTP/2 heads in a turn */
#include "unit.h"

#include <keyhole/base/limits.h>
#include <keyhole/loop/head_share.h>

enum { MANY = 32 };

/* A connection that has `heads` left, of `each` bytes. */
struct connection {
	struct kh_head_place place;
	size_t heads, each;
	unsigned turns;
};

static struct kh_loop loop;
static struct kh_head_share share;
static struct connection many[MANY];
static size_t taken; /* in this turn */

/* As mux.c does it. */
static void take(struct connection *c)
{
	size_t most, now = 0;

	if (kh_head_place_waits(&c->place) || c->heads == 0)
		return;
	most = kh_head_share_left(&share);
	while (most > 0 && c->heads > 0 && now <= most) {
		now += c->each;
		c->heads--;
	}
	kh_head_share_take(&share, now);
	taken += now;
	c->turns += now > 0;
	if (c->heads > 0)
		kh_head_share_wait(&share, &c->place);
}

static void on_place(struct kh_head_place *place)
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
	kh_head_share_init(&share, &loop);
	for (size_t i = 0; i < MANY; i++)
		many[i].place.fn = on_place;
	taken = 0;
	return 0;
}

static bool is_over(void)
{
	return kh_list_is_empty(&loop.calls[KH_LOOP_NEXT]);
}

static void many_connections_take_no_more_than_the_share(void **state)
{
	enum { HEAD = 40 * 1024, HEADS = 10 };
	size_t left = (size_t)MANY * HEADS;
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
		assert_true(taken <= KH_LIMIT_H2_SHARE_BYTES + 2 * HEAD);
		left -= taken / HEAD;
		turns++;
	} while (!is_over());
	assert_int_equal(left, 0);
	assert_true(turns >= MANY * HEADS * HEAD / (KH_LIMIT_H2_SHARE_BYTES + 2 * HEAD));
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
	/* Once around the line. */
	assert_true(turns <= MANY);
	for (size_t i = 0; i < MANY - 1; i++)
		assert_in_range(many[i].turns, turns / MANY, turns);
}

static void one_connection_keeps_its_own_bound(void **state)
{
	(void)state;
	many[0].heads = 1000;
	many[0].each = 1024;
	take(&many[0]);
	assert_in_range(taken, KH_LIMIT_H2_TURN_BYTES, KH_LIMIT_H2_TURN_BYTES + 1024);
	loop.turn++;
	taken = 0;
	end_turn();
	assert_in_range(taken, KH_LIMIT_H2_TURN_BYTES, KH_LIMIT_H2_TURN_BYTES + 1024);
}

static void who_leaves_is_not_served(void **state)
{
	(void)state;
	for (size_t i = 0; i < MANY; i++)
		many[i].heads = 10, many[i].each = KH_LIMIT_H2_TURN_BYTES;
	for (size_t i = 0; i < MANY; i++)
		take(&many[i]);
	for (size_t i = 0; i < MANY; i++) {
		assert_true(kh_head_place_waits(&many[i].place));
		kh_head_place_leave(&many[i].place);
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
	kh_head_share_fini(&share);
	assert_true(is_over());
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, set_up)
	const struct CMUnitTest tests[] = {
		TEST(many_connections_take_no_more_than_the_share),
		TEST(whoever_has_little_does_not_wait_for_whoever_has_much),
		TEST(one_connection_keeps_its_own_bound),
		TEST(who_leaves_is_not_served),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
