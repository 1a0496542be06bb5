/* test_worker_process.c - what a worker may say to the keeper, and what becomes of one that says
 * more */
#include "worker_process_pair.h"

#include <sys/mman.h>

static void say_checkpoint(struct pair *pair, uint64_t seq, size_t head_len)
{
	static const char head[64];
	struct kh_buf body;
	kh_buf_init(&body, 256);
	assert_true(kh_wire_put_u64(&body, seq) &&
		    kh_wire_put_bytes(&body, kh_slice_of(head, head_len)) &&
		    kh_wire_put_u64(&body, 200 * seq));
	say(pair, KH_WORKER_MSG_CHECKPOINT, kh_buf_view(&body));
	kh_buf_fini(&body);
}

static void the_keepers_own_words_condemn(void **state)
{
	(void)state;
#define WORDS(name, value) value,
	static const uint32_t types[] = { KH_WORKER_MSG_TO_WORKER_TABLE(WORDS) };
#undef WORDS
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct pair pair;
		begin(&pair);
		serve(&pair);
		say(&pair, types[i], nothing);
		expect_condemned(&pair);
	}
}

static void a_body_that_does_not_fit_condemns(void **state)
{
	(void)state;
	static const enum kh_worker_msg_to_keeper types[] = { KH_WORKER_MSG_READY,
							      KH_WORKER_MSG_LEAF_REQUEST,
							      KH_WORKER_MSG_CREDENTIAL_REQUEST,
							      KH_WORKER_MSG_CHECKPOINT,
							      KH_WORKER_MSG_DRAINED,
							      KH_WORKER_MSG_HEAD,
							      KH_WORKER_MSG_JOINED,
							      KH_WORKER_MSG_CREDENTIAL_REFUSED,
							      KH_WORKER_MSG_JOURNAL_TORN };
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct pair pair;
		begin(&pair);
		serve(&pair);
		say(&pair, types[i], KH_SLICE("\0\0\0\1x and more than that"));
		expect_condemned(&pair);
	}
}

static void what_is_no_message_condemns(void **state)
{
	(void)state;
	static const struct kh_slice datagrams[] = { { "\0\0\0", 3 },
						     { "\0\0\0\x63\0\0\0\7", 8 },
						     { "\xff\xff\xff\xff\0\0\0\7", 8 } };
	for (size_t i = 0; i < sizeof(datagrams) / sizeof(datagrams[0]); i++) {
		struct pair pair;
		begin(&pair);
		serve(&pair);
		assert_int_equal(send(pair.worker.fd, datagrams[i].ptr, datagrams[i].len, 0),
				 (ssize_t)datagrams[i].len);
		expect_condemned(&pair);
	}
}

static void a_descriptor_condemns(void **state)
{
	(void)state;
	struct pair pair;
	int fd = STDERR_FILENO;
	begin(&pair);
	say_key(&pair);
	assert_true(kh_channel_send(&pair.worker, KH_WORKER_MSG_READY, GENERATION, nothing, &fd, 1,
				    NULL));
	expect_condemned(&pair);
}

static void a_closed_channel_condemns(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	assert_int_equal(shutdown(pair.worker.fd, SHUT_RDWR), 0);
	expect_condemned(&pair);
}

/* A journal of so many bytes. */
static void put_journal(off_t bytes)
{
	if (sockets.journal > 0)
		(void)close(sockets.journal);
	sockets.journal = memfd_create("journal", MFD_CLOEXEC);
	assert_true(sockets.journal > 0);
	assert_int_equal(ftruncate(sockets.journal, bytes), 0);
}

/* One whose first line has that number. */
static void put_journal_from(uint64_t seq)
{
	struct kh_journal_base base = { .seq = seq - 1 };
	struct kh_journal_files files;
	put_journal(0);
	files = (struct kh_journal_files){ sockets.journal, sockets.journal };
	struct kh_journal *journal =
		kh_journal_open_segment(files, KH_DURABILITY_WRITTEN, &base, NULL, NULL);
	assert_non_null(journal);
	kh_journal_close(journal);
}

/* Nobody is killed for a number that it may have inherited; it is not taken. */
static void expect_doubt(struct pair *pair, uint64_t seq, uint64_t last)
{
	pair->worker_process.doubted = false;
	say_checkpoint(pair, seq, 32);
	kh_worker_process_receive(&pair->worker_process);
	assert_int_equal(pair->worker_process.state, KH_WORKER_PROCESS_SERVING);
	assert_int_equal(pair->worker_process.checkpoint.seq, last);
	assert_true(pair->worker_process.doubted);
}

static void a_number_is_taken_where_the_file_has_room_for_it(void **state)
{
	(void)state;
	enum { BYTES = 100 * 200, BASE = 7000000 };
	struct pair pair;
	put_journal(BYTES);
	begin(&pair);
	serve(&pair);
	pair.worker_process.base.seq = BASE;
	pair.worker_process.base_known = false;
	kh_worker_process_read_base(&pair.worker_process);
	assert_false(kh_worker_process_can_be_at(&pair.worker_process, BASE - 1, 0));
	assert_true(kh_worker_process_can_be_at(&pair.worker_process, BASE + 100, 0));
	assert_true(kh_worker_process_can_be_at(&pair.worker_process, BASE + 100, BYTES));
	assert_false(kh_worker_process_can_be_at(&pair.worker_process, BASE + 100, BYTES / 2));
	assert_false(kh_worker_process_can_be_at(&pair.worker_process, BASE + 100, BYTES + 1));
	assert_false(kh_worker_process_can_be_at(&pair.worker_process, BASE + 200, 0));
	end(&pair);
}

/* The first worker of a daemon has told nothing yet: what was in the file then bounds it. */
static void the_first_number_is_bounded_by_what_was_in_the_file(void **state)
{
	(void)state;
	enum { BYTES = 100 * 200, FIRST = 5000 };
	static const uint64_t impossible[] = { 200,
					       UINT64_C(1) << 60,
					       KH_JOURNAL_SEQ_MOST,
					       KH_JOURNAL_SEQ_MOST + 1,
					       KH_JOURNAL_BASE_MOST,
					       UINT64_MAX };
	struct pair pair;
	put_journal(0);
	begin(&pair);
	pair.worker_process.base_known = false;
	assert_false(kh_worker_process_can_be_at(&pair.worker_process, 1, 0));
	/* An empty file, in which a worker then writes. */
	kh_worker_process_read_base(&pair.worker_process);
	assert_int_equal(ftruncate(sockets.journal, BYTES), 0);
	kh_worker_process_read_base(&pair.worker_process);
	assert_true(kh_worker_process_can_be_at(&pair.worker_process, 100, BYTES));
	for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++)
		assert_false(
			kh_worker_process_can_be_at(&pair.worker_process, impossible[i], BYTES));
	/* One that an earlier daemon left. */
	put_journal_from(FIRST);
	pair.worker_process.base_known = false;
	kh_worker_process_read_base(&pair.worker_process);
	assert_false(kh_worker_process_can_be_at(&pair.worker_process, FIRST - 2, 0));
	assert_true(kh_worker_process_can_be_at(&pair.worker_process, FIRST, 0));
	assert_false(kh_worker_process_can_be_at(&pair.worker_process, FIRST + 10, 0));
	end(&pair);
}

/* Whatever a worker says a segment continues, a daemon can start on that segment. */
static void no_number_that_is_taken_is_too_high_for_a_first_line(void **state)
{
	(void)state;
	assert_true(KH_JOURNAL_SEQ_MOST < KH_JOURNAL_BASE_MOST);
	struct pair pair;
	put_journal(1 << 20);
	begin(&pair);
	pair.worker_process.base_seq = KH_JOURNAL_SEQ_MOST - 1;
	assert_true(kh_worker_process_can_be_at(&pair.worker_process, KH_JOURNAL_SEQ_MOST, 0));
	assert_false(kh_worker_process_can_be_at(&pair.worker_process, KH_JOURNAL_SEQ_MOST + 1, 0));
	end(&pair);
}

static void checkpoints_only_grow(void **state)
{
	(void)state;
	struct pair pair;
	put_journal(1 << 20);
	begin(&pair);
	serve(&pair);
	say_checkpoint(&pair, 5, 32);
	say_checkpoint(&pair, 6, 32);
	kh_worker_process_receive(&pair.worker_process);
	assert_int_equal(pair.worker_process.state, KH_WORKER_PROCESS_SERVING);
	assert_int_equal(pair.worker_process.checkpoint.seq, 6);
	expect_doubt(&pair, 6, 6);
	expect_doubt(&pair, 5, 6);
	expect_doubt(&pair, UINT64_MAX / 2, 6);
	expect_doubt(&pair, UINT64_MAX, 6);
	end(&pair);

	begin(&pair);
	serve(&pair);
	say_checkpoint(&pair, 5, 31);
	expect_condemned(&pair);
}

static void say_head(struct pair *pair, uint64_t seq, size_t len)
{
	static const char hash[64] = { 1, 2, 3 };
	struct kh_buf body;
	kh_buf_init(&body, 256);
	assert_true(kh_wire_put_u64(&body, seq) &&
		    kh_wire_put_bytes(&body, kh_slice_of(hash, len)));
	say(pair, KH_WORKER_MSG_HEAD, kh_buf_view(&body));
	kh_buf_fini(&body);
}

static void the_head_is_told_when_asked_for_and_once(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	put_journal(1 << 20);
	begin(&pair);
	assert_false(kh_worker_process_ask_head(&pair.worker_process)); /* it does not serve yet */
	serve(&pair);
	say_checkpoint(&pair, 5, 32);
	assert_true(kh_worker_process_ask_head(&pair.worker_process));
	kh_worker_process_receive(&pair.worker_process);
	assert_false(pair.worker_process.head_known);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_WORKER_MSG_HEAD_REQUEST);
	say_head(&pair, 9, 32);
	kh_worker_process_receive(&pair.worker_process);
	assert_true(pair.worker_process.head_known);
	assert_int_equal(pair.worker_process.head.seq, 9);
	assert_int_equal(pair.worker_process.head.hash[1], 2);
	say_head(&pair, 10, 32);
	expect_condemned(&pair);

	static const struct {
		uint64_t seq;
		size_t len;
	} lies[] = { { 0, 32 },		{ 4, 32 },	 { 9, 31 },
		     { 9, 0 },		{ 1 << 20, 32 }, { UINT64_MAX / 2, 32 },
		     { UINT64_MAX, 32 } };
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		begin(&pair);
		serve(&pair);
		say_checkpoint(&pair, 5, 32);
		kh_worker_process_receive(&pair.worker_process);
		assert_true(kh_worker_process_ask_head(&pair.worker_process));
		say_head(&pair, lies[i].seq, lies[i].len);
		expect_condemned(&pair);
	}
}

/* Another keeper signs from where this one stood. */
static void nothing_is_kept_for_signing_after_the_cut(void **state)
{
	(void)state;
	struct pair pair;
	put_journal(1 << 20);
	begin(&pair);
	serve(&pair);
	say_checkpoint(&pair, 5, 32);
	kh_worker_process_receive(&pair.worker_process);
	pair.worker_process.frozen = true;
	say_checkpoint(&pair, 6, 32);
	kh_worker_process_receive(&pair.worker_process);
	assert_int_equal(pair.worker_process.state, KH_WORKER_PROCESS_SERVING);
	assert_int_equal(pair.worker_process.checkpoint.seq, 5);
	end(&pair);
}

static void a_worker_that_retires_can_be_told_to_drain(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	kh_worker_process_retire(&pair.worker_process);
	assert_int_equal(pair.worker_process.state, KH_WORKER_PROCESS_DRAINING);
	kh_worker_process_drain(&pair.worker_process);
	kh_worker_process_drain(&pair.worker_process); /* said once */
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_WORKER_MSG_RETIRE);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_WORKER_MSG_DRAIN);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_AGAIN);
	say(&pair, KH_WORKER_MSG_DRAINED, nothing);
	kh_worker_process_receive(&pair.worker_process);
	assert_true(pair.worker_process.drained);
	end(&pair);
}

static void a_worker_that_retires_or_drains_can_be_told_that_other_rules_hold(void **state)
{
	(void)state;
	for (int drains = 0; drains < 2; drains++) {
		struct pair pair;
		struct kh_channel_message message;
		begin(&pair);
		serve(&pair);
		kh_worker_process_retire(&pair.worker_process);
		if (drains)
			kh_worker_process_drain(&pair.worker_process);
		kh_worker_process_supersede(&pair.worker_process);
		assert_int_equal(pair.worker_process.state, KH_WORKER_PROCESS_DRAINING);
		for (int before = 0; before <= drains; before++)
			assert_int_equal(kh_channel_receive(&pair.worker, false, &message),
					 KH_CHANNEL_GOT);
		assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
		assert_int_equal(message.type, KH_WORKER_MSG_SUPERSEDED);
		kh_worker_process_drain(&pair.worker_process); /* it does so already */
		assert_int_equal(kh_channel_receive(&pair.worker, false, &message),
				 KH_CHANNEL_AGAIN);
		end(&pair);
	}
}

static void drained_is_said_when_draining_and_not_before(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	say(&pair, KH_WORKER_MSG_DRAINED, nothing);
	expect_condemned(&pair);

	begin(&pair);
	serve(&pair);
	kh_worker_process_drain(&pair.worker_process);
	assert_int_equal(pair.worker_process.state, KH_WORKER_PROCESS_DRAINING);
	say(&pair, KH_WORKER_MSG_DRAINED, nothing);
	kh_worker_process_receive(&pair.worker_process);
	assert_true(pair.worker_process.drained);
	end(&pair);
}

/* A worker that serves, and was told `count` more generations by a GO each. */
static void serve_and_reload(struct pair *pair, uint32_t count)
{
	begin(pair);
	serve(pair);
	pair->worker_process.generation += count;
	pair->worker_process.told = pair->worker_process.generation;
}

static void ready_is_taken_once_for_each_generation_that_was_told(void **state)
{
	(void)state;
	struct pair pair;
	serve_and_reload(&pair, 2);
	for (uint32_t i = 1; i <= 2; i++) {
		assert_int_equal(pair.worker_process.confirmed, GENERATION + i - 1);
		say_ready(&pair, GENERATION + i);
		kh_worker_process_receive(&pair.worker_process);
		assert_int_equal(pair.worker_process.state, KH_WORKER_PROCESS_SERVING);
		assert_int_equal(pair.worker_process.confirmed, GENERATION + i);
	}
	say_ready(&pair, GENERATION + 2);
	expect_condemned(&pair);

	serve_and_reload(&pair, 2);
	say_ready(&pair, GENERATION + 2); /* for both */
	say_ready(&pair, GENERATION + 1);
	expect_condemned(&pair);
}

static void ready_of_a_generation_that_was_not_told_condemns(void **state)
{
	(void)state;
	struct pair pair;
	static const uint32_t others[] = { 0,	      1, GENERATION - 1, GENERATION, GENERATION + 2,
					   UINT32_MAX };
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		serve_and_reload(&pair, 1);
		say_ready(&pair, others[i]);
		expect_condemned(&pair);
		assert_int_equal(pair.worker_process.confirmed, GENERATION);
	}
	/* Not told yet, though the keeper has it already. */
	serve_and_reload(&pair, 0);
	pair.worker_process.generation++;
	say_ready(&pair, GENERATION + 1);
	expect_condemned(&pair);

	/* Nor before the first GO. */
	begin(&pair);
	pair.worker_process.told = 0;
	say_key(&pair);
	say_ready(&pair, GENERATION);
	expect_condemned(&pair);
}

static void a_verb_is_asked_for_when_the_one_before_is_answered(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	config->admin.n_acceptors = 1;
	say(&pair, KH_WORKER_MSG_VERB, KH_SLICE("\1"));
	kh_worker_process_receive(&pair.worker_process);
	assert_int_equal(pair.worker_process.state, KH_WORKER_PROCESS_SERVING);
	assert_int_equal(pair.worker_process.verb, KH_ADMIN_RELOAD);
	/* A reload, whose answer waits for READY. */
	pair.worker_process.verb_begun = true;
	say(&pair, KH_WORKER_MSG_VERB, KH_SLICE("\1"));
	expect_condemned(&pair);
	config->admin.n_acceptors = 0;
}

static void ready_may_come_while_draining(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	say_key(&pair);
	kh_worker_process_drain(&pair.worker_process);
	say_ready(&pair, GENERATION);
	kh_worker_process_receive(&pair.worker_process);
	assert_int_equal(pair.worker_process.state, KH_WORKER_PROCESS_DRAINING);
	end(&pair);
}

static void ready_is_awaited_for_a_bounded_time(void **state)
{
	(void)state;
	struct pair pair;
	uint64_t now = kh_clock_mono_ms(), soon = now + KH_LIMIT_READY_MS;
	begin(&pair);
	pair.worker_process.confirm_ms = soon;
	assert_true(kh_worker_process_deadline(&pair.worker_process) == soon);
	serve(&pair);
	assert_true(kh_worker_process_deadline(&pair.worker_process) == 0);
	kh_worker_process_drain(&pair.worker_process);
	assert_true(kh_worker_process_deadline(&pair.worker_process) == 0);
	end(&pair);

	/* The first of two is awaited, then the second, each that long. */
	serve_and_reload(&pair, 2);
	pair.worker_process.confirm_ms = now;
	assert_true(kh_worker_process_deadline(&pair.worker_process) == now);
	say_ready(&pair, GENERATION + 1);
	kh_worker_process_receive(&pair.worker_process);
	assert_in_range(kh_worker_process_deadline(&pair.worker_process), soon, soon + 10000);
	say_ready(&pair, GENERATION + 2);
	kh_worker_process_receive(&pair.worker_process);
	assert_true(kh_worker_process_deadline(&pair.worker_process) == 0);
	end(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_keepers_own_words_condemn),
		cmocka_unit_test(a_body_that_does_not_fit_condemns),
		cmocka_unit_test(what_is_no_message_condemns),
		cmocka_unit_test(a_descriptor_condemns),
		cmocka_unit_test(a_closed_channel_condemns),
		cmocka_unit_test(a_number_is_taken_where_the_file_has_room_for_it),
		cmocka_unit_test(the_first_number_is_bounded_by_what_was_in_the_file),
		cmocka_unit_test(no_number_that_is_taken_is_too_high_for_a_first_line),
		cmocka_unit_test(checkpoints_only_grow),
		cmocka_unit_test(the_head_is_told_when_asked_for_and_once),
		cmocka_unit_test(nothing_is_kept_for_signing_after_the_cut),
		cmocka_unit_test(a_worker_that_retires_can_be_told_to_drain),
		cmocka_unit_test(a_worker_that_retires_or_drains_can_be_told_that_other_rules_hold),
		cmocka_unit_test(drained_is_said_when_draining_and_not_before),
		cmocka_unit_test(ready_is_taken_once_for_each_generation_that_was_told),
		cmocka_unit_test(ready_of_a_generation_that_was_not_told_condemns),
		cmocka_unit_test(a_verb_is_asked_for_when_the_one_before_is_answered),
		cmocka_unit_test(ready_may_come_while_draining),
		cmocka_unit_test(ready_is_awaited_for_a_bounded_time),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
