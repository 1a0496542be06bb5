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
	say(pair, KH_CHANNEL_CHECKPOINT, kh_buf_view(&body));
	kh_buf_fini(&body);
}

static void the_keepers_own_words_condemn(void **state)
{
	(void)state;
	static const enum kh_channel_type types[] = {
		KH_CHANNEL_SNAPSHOT, KH_CHANNEL_LISTENERS,    KH_CHANNEL_JOURNAL,
		KH_CHANNEL_ROOTS,    KH_CHANNEL_RESOLVER,     KH_CHANNEL_ISSUER,
		KH_CHANNEL_GO,	     KH_CHANNEL_LEAF,	      KH_CHANNEL_CREDENTIAL,
		KH_CHANNEL_DRAIN,    KH_CHANNEL_HEAD_WANT,    KH_CHANNEL_RETIRE,
		KH_CHANNEL_JOIN,     KH_CHANNEL_HELLO,	      KH_CHANNEL_OFFER,
		KH_CHANNEL_OPEN,     KH_CHANNEL_OPENED,	      KH_CHANNEL_GONE,
		KH_CHANNEL_PRINTS,   KH_CHANNEL_JOURNAL_HELD, KH_CHANNEL_JOURNAL_CUT
	};
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
	static const enum kh_channel_type types[] = {
		KH_CHANNEL_READY,	    KH_CHANNEL_LEAF_WANT,
		KH_CHANNEL_CREDENTIAL_WANT, KH_CHANNEL_CHECKPOINT,
		KH_CHANNEL_DRAINED,	    KH_CHANNEL_HEAD,
		KH_CHANNEL_JOINED,	    KH_CHANNEL_CREDENTIAL_REFUSED,
		KH_CHANNEL_JOURNAL_TORN
	};
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
	assert_true(kh_channel_send(&pair.worker, KH_CHANNEL_READY, 7, nothing, &fd, 1, NULL));
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
static void lay_journal(off_t bytes)
{
	if (sockets.journal > 0)
		(void)close(sockets.journal);
	sockets.journal = memfd_create("journal", MFD_CLOEXEC);
	assert_true(sockets.journal > 0);
	assert_int_equal(ftruncate(sockets.journal, bytes), 0);
}

/* Nobody is killed for a number that it may have inherited; it is not taken. */
static void expect_doubt(struct pair *pair, uint64_t seq, uint64_t last)
{
	pair->ward.doubted = false;
	say_checkpoint(pair, seq, 32);
	kh_worker_process_receive(&pair->ward);
	assert_int_equal(pair->ward.state, KH_WORKER_PROCESS_SERVING);
	assert_int_equal(pair->ward.checkpoint.seq, last);
	assert_true(pair->ward.doubted);
}

static void a_number_is_taken_where_the_file_has_room_for_it(void **state)
{
	(void)state;
	enum { BYTES = 100 * 200, BASE = 7000000 };
	struct pair pair;
	lay_journal(BYTES);
	begin(&pair);
	serve(&pair);
	pair.ward.base.seq = BASE;
	assert_false(kh_worker_process_can_be_at(&pair.ward, BASE - 1, 0));
	assert_true(kh_worker_process_can_be_at(&pair.ward, BASE + 100, 0));
	assert_true(kh_worker_process_can_be_at(&pair.ward, BASE + 100, BYTES));
	assert_false(kh_worker_process_can_be_at(&pair.ward, BASE + 100, BYTES / 2));
	assert_false(kh_worker_process_can_be_at(&pair.ward, BASE + 100, BYTES + 1));
	assert_false(kh_worker_process_can_be_at(&pair.ward, BASE + 200, 0));
	/* Of an earlier daemon's file the beginning is not known, but for what could be one. */
	pair.ward.base.seq = 0;
	assert_true(kh_worker_process_can_be_at(&pair.ward, BASE + 200, 1));
	assert_true(kh_worker_process_can_be_at(&pair.ward, KH_JOURNAL_SEQ_MOST, 1));
	assert_false(kh_worker_process_can_be_at(&pair.ward, KH_JOURNAL_SEQ_MOST + 1, 1));
	assert_false(kh_worker_process_can_be_at(&pair.ward, UINT64_MAX, 1));
	end(&pair);
}

static void checkpoints_only_grow(void **state)
{
	(void)state;
	struct pair pair;
	lay_journal(1 << 20);
	begin(&pair);
	serve(&pair);
	say_checkpoint(&pair, 5, 32);
	say_checkpoint(&pair, 6, 32);
	kh_worker_process_receive(&pair.ward);
	assert_int_equal(pair.ward.state, KH_WORKER_PROCESS_SERVING);
	assert_int_equal(pair.ward.checkpoint.seq, 6);
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
	say(pair, KH_CHANNEL_HEAD, kh_buf_view(&body));
	kh_buf_fini(&body);
}

static void the_head_is_told_when_asked_for_and_once(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	lay_journal(1 << 20);
	begin(&pair);
	assert_false(kh_worker_process_ask_head(&pair.ward)); /* it does not serve yet */
	serve(&pair);
	say_checkpoint(&pair, 5, 32);
	assert_true(kh_worker_process_ask_head(&pair.ward));
	kh_worker_process_receive(&pair.ward);
	assert_false(pair.ward.head_known);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_CHANNEL_HEAD_WANT);
	say_head(&pair, 9, 32);
	kh_worker_process_receive(&pair.ward);
	assert_true(pair.ward.head_known);
	assert_int_equal(pair.ward.head.seq, 9);
	assert_int_equal(pair.ward.head.hash[1], 2);
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
		kh_worker_process_receive(&pair.ward);
		assert_true(kh_worker_process_ask_head(&pair.ward));
		say_head(&pair, lies[i].seq, lies[i].len);
		expect_condemned(&pair);
	}
}

/* Another keeper signs from where this one stood. */
static void nothing_is_kept_for_signing_after_the_cut(void **state)
{
	(void)state;
	struct pair pair;
	lay_journal(1 << 20);
	begin(&pair);
	serve(&pair);
	say_checkpoint(&pair, 5, 32);
	kh_worker_process_receive(&pair.ward);
	pair.ward.frozen = true;
	say_checkpoint(&pair, 6, 32);
	kh_worker_process_receive(&pair.ward);
	assert_int_equal(pair.ward.state, KH_WORKER_PROCESS_SERVING);
	assert_int_equal(pair.ward.checkpoint.seq, 5);
	end(&pair);
}

static void a_worker_that_retires_can_be_told_to_drain(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	kh_worker_process_retire(&pair.ward);
	assert_int_equal(pair.ward.state, KH_WORKER_PROCESS_DRAINING);
	kh_worker_process_drain(&pair.ward);
	kh_worker_process_drain(&pair.ward); /* said once */
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_CHANNEL_RETIRE);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_CHANNEL_DRAIN);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_AGAIN);
	say(&pair, KH_CHANNEL_DRAINED, nothing);
	kh_worker_process_receive(&pair.ward);
	assert_true(pair.ward.drained);
	end(&pair);
}

static void drained_is_said_when_draining_and_not_before(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	say(&pair, KH_CHANNEL_DRAINED, nothing);
	expect_condemned(&pair);

	begin(&pair);
	serve(&pair);
	kh_worker_process_drain(&pair.ward);
	assert_int_equal(pair.ward.state, KH_WORKER_PROCESS_DRAINING);
	say(&pair, KH_CHANNEL_DRAINED, nothing);
	kh_worker_process_receive(&pair.ward);
	assert_true(pair.ward.drained);
	end(&pair);
}

/* READY twice, or one that came while a drain was under way. */
static void ready_is_said_once(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	say(&pair, KH_CHANNEL_READY, nothing);
	expect_condemned(&pair);

	begin(&pair);
	say_key(&pair);
	kh_worker_process_drain(&pair.ward);
	say(&pair, KH_CHANNEL_READY, nothing);
	kh_worker_process_receive(&pair.ward);
	assert_int_equal(pair.ward.state, KH_WORKER_PROCESS_DRAINING);
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
		cmocka_unit_test(checkpoints_only_grow),
		cmocka_unit_test(the_head_is_told_when_asked_for_and_once),
		cmocka_unit_test(nothing_is_kept_for_signing_after_the_cut),
		cmocka_unit_test(a_worker_that_retires_can_be_told_to_drain),
		cmocka_unit_test(drained_is_said_when_draining_and_not_before),
		cmocka_unit_test(ready_is_said_once),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
