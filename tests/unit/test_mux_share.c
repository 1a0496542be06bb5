/* test_mux_share.c - how many requests of an HTTP/2 connection are decided in a turn */
/* wrap: kh_up_acquire kh_policy_decide */
#include "pipe_client.h"

#include "h2_drive.h"

/* So many costly decisions are a sandbox's share of a turn. The one that uses it up is not cut
 * short, and another one may be under way then. */
enum { STREAMS = 64, IN_A_SHARE = 4, MOST_IN_A_TURN = IN_A_SHARE + 1 };

static const char yaml[] = "version: 1\n"
			   "listen: [ { unix: /nowhere/s, tenant: t } ]\n"
			   "tenants: { t: { rules: [ { allow: \"POST http://m.example/\","
			   " models: one } ] } }\n";

#define POST ":method=POST|:scheme=http|:authority=m.example|:path=/|content-type=application/json"
#define GET ":method=GET|:scheme=http|:authority=m.example|:path=/|content-type=application/json"

static struct {
	unsigned all;
	unsigned in_turn, most_in_turn;
	uint64_t turn; /* in which the latest one was */
} decided;

void __real_kh_policy_decide(const struct kh_policy *policy, uint16_t tenant,
			     const struct kh_narrowing *narrowing,
			     const struct kh_request_view *request, struct kh_decision *out);
void __wrap_kh_policy_decide(const struct kh_policy *policy, uint16_t tenant,
			     const struct kh_narrowing *narrowing,
			     const struct kh_request_view *request, struct kh_decision *out);
void __wrap_kh_policy_decide(const struct kh_policy *policy, uint16_t tenant,
			     const struct kh_narrowing *narrowing,
			     const struct kh_request_view *request, struct kh_decision *out)
{
	__real_kh_policy_decide(policy, tenant, narrowing, request, out);
	out->steps = (uint64_t)KH_LIMIT_WORK_SHARE * KH_LIMIT_WORK_STEPS / IN_A_SHARE;
	if (decided.turn != world.loop->turn)
		decided.in_turn = 0;
	decided.turn = world.loop->turn;
	decided.all++;
	if (++decided.in_turn > decided.most_in_turn)
		decided.most_in_turn = decided.in_turn;
}

struct scene {
	struct kh_generation *gen;
	struct kh_buf raw;
};

static void begin(struct scene *s)
{
	world_begin(&client_loop_ops);
	s->gen = world_generation_of(2, yaml);
	world_reload(s->gen);
	client_connect();
	raw_begin(&s->raw, KH_H2_SERVER);
}

static void end(struct scene *s)
{
	client_goes();
	kh_buf_fini(&s->raw);
	client_end(0);
	kh_generation_unref(s->gen);
}

/* All of it comes at once. */
static void say_at_once(struct scene *s, unsigned decisions)
{
	memset(&decided, 0, sizeof(decided));
	client_puts(kh_buf_view(&s->raw).ptr, kh_buf_len(&s->raw));
	kh_buf_clear(&s->raw);
	for (unsigned i = 0; i < decisions; i++)
		client_turn();
	assert_int_equal(decided.all, decisions);
}

/* What is held to read the model in it is not decided before its end. */
static void put_held_requests(struct scene *s)
{
	for (uint32_t n = 0; n < STREAMS; n++) {
		raw_headers(&s->raw, 2 * n + 1, END_HEADERS, POST);
		raw_data(&s->raw, 2 * n + 1, 0, "{\"model\":\"two\"}");
	}
}

static void a_turn_decides_a_share_of_heads_that_came_at_once(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	for (uint32_t n = 0; n < STREAMS; n++)
		raw_headers(&s.raw, 2 * n + 1, BOTH, GET);
	say_at_once(&s, STREAMS);
	assert_in_range(decided.most_in_turn, 1, MOST_IN_A_TURN);
	end(&s);
}

static void a_turn_decides_a_share_of_held_requests_whose_heads_came_at_once(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	put_held_requests(&s);
	say_at_once(&s, STREAMS);
	assert_in_range(decided.most_in_turn, 1, MOST_IN_A_TURN);
	end(&s);
}

static void a_turn_decides_a_share_of_held_requests_whose_ends_came_at_once(void **state)
{
	enum { EMPTY, BLANK, TRAILERS, CONTINUED, WAYS };

	(void)state;
	for (unsigned way = 0; way < WAYS; way++) {
		struct scene s;

		begin(&s);
		put_held_requests(&s);
		say_at_once(&s, STREAMS);
		for (uint32_t n = 0; n < STREAMS; n++) {
			uint32_t id = 2 * n + 1;

			if (way == EMPTY || way == BLANK) {
				raw_data(&s.raw, id, END_STREAM, way == EMPTY ? "" : " ");
			} else if (way == TRAILERS) {
				raw_frame(&s.raw, HEADERS, BOTH, id, KH_SLICE(""));
			} else {
				raw_frame(&s.raw, HEADERS, END_STREAM, id, KH_SLICE(""));
				raw_frame(&s.raw, CONTINUATION, END_HEADERS, id, KH_SLICE(""));
			}
		}
		say_at_once(&s, STREAMS);
		assert_in_range(decided.most_in_turn, 1, MOST_IN_A_TURN);
		end(&s);
	}
}

/* Their content came while their upstreams were not there, and these come all at once. */
static void a_turn_passes_a_share_of_content_that_waited(void **state)
{
	enum { PIECES = 3, PIECE = 16 * 1024 };
	static char piece[PIECE + 1];
	struct kh_work_share *share = &world.acceptor.work;
	struct scene s;
	unsigned passed = 0;

	(void)state;
	memset(piece, 'c', PIECE);
	begin(&s);
	world_reload(world.gen);
	world.way = FAR_IS_LATE;
	for (uint32_t n = 0; n < WORLD_FARS; n++) {
		raw_headers(&s.raw, 2 * n + 1, END_HEADERS,
			    ":method=POST|:scheme=http|:authority=p.example|:path=/");
		for (unsigned i = 0; i < PIECES; i++)
			raw_data(&s.raw, 2 * n + 1, i + 1 == PIECES ? END_STREAM : 0, piece);
	}
	client_puts(kh_buf_view(&s.raw).ptr, kh_buf_len(&s.raw));
	for (unsigned i = 0; i < WORLD_FARS; i++)
		client_turn();
	assert_int_equal(world.n_fars, WORLD_FARS);
	kh_work_share_charge(share, KH_LIMIT_WORK_SHARE - 1);
	for (unsigned i = 0; i < WORLD_FARS; i++)
		far_comes(&world.fars[i]);
	kh_session_turn(client.session);
	for (unsigned i = 0; i < WORLD_FARS; i++)
		passed += kh_buf_len(&world.fars[i].content) > 0;
	assert_int_equal(passed, 1);
	client_turn();
	for (unsigned i = 0; i < WORLD_FARS; i++) {
		assert_int_equal(kh_buf_len(&world.fars[i].content), PIECES * PIECE);
		assert_true(world.fars[i].ended);
	}
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_turn_decides_a_share_of_heads_that_came_at_once),
		cmocka_unit_test(a_turn_decides_a_share_of_held_requests_whose_heads_came_at_once),
		cmocka_unit_test(a_turn_decides_a_share_of_held_requests_whose_ends_came_at_once),
		cmocka_unit_test(a_turn_passes_a_share_of_content_that_waited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
