/* test_tls_state.c - the states of a byte stream: steps, and faults */
#include "tls_world.h"

#include "machine_steps.h"

#include <tls/stream_internal.h>

static struct kh_stream *stream;

static void rest(void)
{
	stream->state = STREAM_PLAIN;
	stream->life = LIFE_IDLE;
	stream->reading = READ_OPEN;
	stream->socket = SOCKET_MORE;
	stream->writing = WRITE_OPEN;
	stream->identity = IDENTITY_NONE;
}

/* A refused step leads to BROKEN, unless the stream has failed or is freed already. */
#define STREAM_STEPS(x) \
	static bool make_##x(unsigned from, unsigned to, bool *said) \
	{ \
		rest(); \
		stream->x = (enum stream_##x)from; \
		*said = kh_stream_set_##x(stream, (enum stream_##x)to); \
		bool went = (unsigned)stream->x == to; \
		bool broken = stream->state == STREAM_BROKEN; \
		rest(); \
		return *said ? went : from == to || (went && broken); \
	}
STREAM_STEPS(state)
STREAM_STEPS(life)
STREAM_STEPS(reading)
STREAM_STEPS(socket)
STREAM_STEPS(writing)
STREAM_STEPS(identity)

static void test_each_step_of_a_stream_is_one_of_its_tables(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p, &w);
	stream = p.down.stream;
	/* plain, roots, handshake, leaf, TLS, failed, no protocol, broken */
	check_steps(&kh_stream_state_machine,
		    "0>1 0>2 0>7 1>2 1>5 1>7 2>3 2>4 2>5 2>6 2>7 3>2 3>5 3>7 4>7 7>5", make_state);
	/* idle, reports, freed */
	check_steps(&kh_stream_life_machine, "0>1 0>2 1>0 1>2", make_life);
	/* open, blocked, blocked by a write, retry, EOF, truncated, error */
	check_steps(&kh_stream_reading_machine,
		    "0>1 0>2 0>4 0>5 0>6 1>0 1>2 1>4 1>5 1>6 2>0 2>1 2>3 2>4 2>5 2>6 "
		    "3>0 3>1 3>2 3>4 3>5 3>6",
		    make_reading);
	/* more, drained, ended */
	check_steps(&kh_stream_socket_machine, "0>1 0>2 1>0", make_socket);
	/* open, needs a read, failed, closing, closed, failed and closed */
	check_steps(&kh_stream_writing_machine, "0>1 0>2 0>3 0>4 1>0 1>3 1>4 2>3 2>5 3>4",
		    make_writing);
	/* none, held, signs */
	check_steps(&kh_stream_identity_machine, "0>1 1>0 1>2 2>1", make_identity);
	faults_are_meant();
	pair_fini(&p);
}

static void test_a_stream_goes_through_the_states_of_its_handshake_and_of_its_halves(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p, &w);
	pair_accept(&p, &w, "api.example.com");
	assert_int_equal(p.down.stream->state, STREAM_HANDSHAKE);
	pair_connect(&p, &w, "api.example.com", NULL);
	assert_int_equal(p.up.stream->state, STREAM_ROOTS);
	assert_int_equal(p.up.stream->side, STREAM_UP);
	finish_handshake(&p);
	assert_int_equal(p.down.stream->state, STREAM_TLS);
	assert_int_equal(p.up.stream->state, STREAM_TLS);
	kh_stream_shutdown_write(p.up.stream);
	assert_int_equal(p.up.stream->writing, WRITE_CLOSED);
	TURN_UNTIL(&w, p.down.end == KH_IO_EOF);
	assert_int_equal(p.down.stream->reading, READ_EOF);
	assert_int_equal(p.down.stream->writing, WRITE_OPEN);
	pair_fini(&p);
}

/* A client waits for no leaf for ever. */
static void test_a_leaf_that_is_missing_is_a_state_of_its_own(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p, &w);
	pair_accept(&p, &w, "other.example.com");
	pair_connect(&p, &w, "other.example.com", NULL);
	TURN_UNTIL(&w, p.down.leaf_asked > 0);
	assert_int_equal(p.down.stream->state, STREAM_LEAF);
	kh_stream_leaf_ready(p.down.stream, false);
	assert_int_equal(p.down.stream->state, STREAM_HANDSHAKE);
	TURN_UNTIL(&w, p.down.failed > 0);
	assert_int_equal(p.down.stream->state, STREAM_FAILED);
	pair_fini(&p);
}

/* Whoever reads is told, nothing goes any more, and the peer takes the end for no whole one. */
static void test_a_fault_ends_a_stream_with_an_internal_error(void **state)
{
	char byte = 'x';
	size_t n;
	struct pair p;

	(void)state;
	pair_init(&p, &w);
	pair_accept(&p, &w, "api.example.com");
	pair_connect(&p, &w, "api.example.com", NULL);
	finish_handshake(&p);
	assert_false(kh_stream_set_writing(p.down.stream, WRITE_FAILED_CLOSED));
	unsigned calls = p.down.calls;
	assert_int_equal(kh_stream_write(p.down.stream, &byte, 1, &n), KH_IO_ERROR);
	assert_int_equal(p.down.calls, calls);
	TURN_UNTIL(&w, p.down.end == KH_IO_ERROR);
	assert_int_equal(kh_stream_error(p.down.stream)->code, KH_ERR_INTERNAL);
	assert_string_equal(kh_stream_error(p.down.stream)->text,
			    "fault in keyhole: stream, writing: failed and closed can't follow "
			    "open");
	assert_false(kh_stream_is_alive(p.down.stream));
	kh_stream_free(p.down.stream);
	p.down.stream = NULL;
	TURN_UNTIL(&w, p.up.end == KH_IO_TRUNCATED);
	faults_are_meant();
	pair_fini(&p);
}

static void test_a_fault_in_a_handshake_fails_it_with_an_internal_error(void **state)
{
	struct pair p;

	(void)state;
	for (int up = 0; up < 2; up++) {
		pair_init(&p, &w);
		pair_accept(&p, &w, "api.example.com");
		pair_connect(&p, &w, "api.example.com", NULL);
		struct side *side = up ? &p.up : &p.down;
		assert_false(kh_stream_set_state(side->stream, STREAM_PLAIN));
		TURN_UNTIL(&w, side->failed > 0);
		assert_int_equal(side->failed, 1);
		assert_int_equal(side->stream->state, STREAM_FAILED);
		assert_int_equal(kh_stream_error(side->stream)->code, KH_ERR_INTERNAL);
		pair_fini(&p);
	}
	faults_are_meant();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_each_step_of_a_stream_is_one_of_its_tables),
		T(test_a_stream_goes_through_the_states_of_its_handshake_and_of_its_halves),
		T(test_a_leaf_that_is_missing_is_a_state_of_its_own),
		T(test_a_fault_ends_a_stream_with_an_internal_error),
		T(test_a_fault_in_a_handshake_fails_it_with_an_internal_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
