/* test_ward.c - what a worker may say to the keeper, and what becomes of one that says more */

/*
 * A child stands in for the worker: it sleeps, and the test speaks for it over the other end of the
 * channel. "Condemned" is checked by the child's death.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <keeper/keeper_internal.h>
#include <keyhole/cleanup.h>
#include <keyhole/clock.h>
#include <keyhole/limits.h>
#include <keyhole/log.h>
#include <keyhole/tls.h>
#include <keyhole/wire.h>

enum { GENERATION = 3 };

static struct kh_ca *ca;
static struct kh_leaves *leaves; /* for a key */
static struct kh_config *config;
static struct kh_vault vault;
static struct kh_sockets sockets;
static const struct kh_geo_files no_files = { .file = { { .fd = -1 }, { .fd = -1 } } };

struct pair {
	struct kh_ward ward;
	struct kh_channel worker; /* the worker's end */
};

static void begin(struct pair *pair)
{
	int ends[2];
	memset(pair, 0, sizeof(*pair));
	assert_true(kh_channel_pair(ends, NULL));
	pair->ward = (struct kh_ward){ .config = config,
				       .ca = ca,
				       .vault = &vault,
				       .sockets = &sockets,
				       .geo = &no_files,
				       .generation = GENERATION,
				       .state = KH_WARD_STARTING };
	assert_true(kh_channel_init(&pair->ward.channel, ends[0], NULL));
	assert_true(kh_channel_init(&pair->worker, ends[1], NULL));
	kh_signer_init(&pair->ward.signer, ca);
	pair->ward.pid = fork();
	assert_true(pair->ward.pid >= 0);
	if (pair->ward.pid == 0) {
		(void)sleep(60);
		_exit(0);
	}
}

static int end(struct pair *pair)
{
	int status;
	kh_ward_condemn(&pair->ward);
	assert_true(kh_ward_reap(&pair->ward, true, &status));
	assert_int_equal(pair->ward.state, KH_WARD_NONE);
	kh_channel_fini(&pair->worker);
	kh_signer_fini(&pair->ward.signer);
	return status;
}

static void say(struct pair *pair, enum kh_channel_type type, struct kh_slice body)
{
	assert_true(kh_channel_send(&pair->worker, type, 7, body, NULL, 0, NULL));
}

static const struct kh_slice nothing = { "", 0 };

static void say_key(struct pair *pair)
{
	struct kh_buf body;
	kh_buf_init(&body, 1024);
	assert_true(kh_wire_put_bytes(&body, kh_leaves_spki(leaves)));
	say(pair, KH_CHANNEL_LEAF_KEY, kh_buf_view(&body));
	kh_buf_fini(&body);
}

static void say_str(struct pair *pair, enum kh_channel_type type, const char *str)
{
	struct kh_buf body;
	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES);
	assert_true(kh_wire_put_str(&body, str));
	say(pair, type, kh_buf_view(&body));
	kh_buf_fini(&body);
}

/* A credential of the configuration with that number. */
static void want_value(struct pair *pair, uint32_t generation, const struct kh_want *want)
{
	struct kh_buf body;
	kh_buf_init(&body, 1024);
	assert_true(kh_want_put(&body, want) && kh_wire_put_u64(&body, 1));
	assert_true(kh_channel_send(&pair->worker, KH_CHANNEL_CREDENTIAL_WANT, generation,
				    kh_buf_view(&body), NULL, 0, NULL));
	kh_buf_fini(&body);
}

static void want_credential(struct pair *pair, uint32_t generation, uint16_t index)
{
	want_value(pair, generation, &(struct kh_want){ index, KH_NO_TENANT, { "", 0 } });
}

static void say_checkpoint(struct pair *pair, uint64_t seq, size_t head_len)
{
	static const char head[64];
	struct kh_buf body;
	kh_buf_init(&body, 256);
	assert_true(kh_wire_put_u64(&body, seq) &&
		    kh_wire_put_bytes(&body, kh_slice_of(head, head_len)));
	say(pair, KH_CHANNEL_CHECKPOINT, kh_buf_view(&body));
	kh_buf_fini(&body);
}

static void serve(struct pair *pair)
{
	say_key(pair);
	say(pair, KH_CHANNEL_READY, nothing);
	kh_ward_receive(&pair->ward);
	assert_int_equal(pair->ward.state, KH_WARD_SERVING);
}

/* The process is killed, not merely frowned at. */
static void expect_condemned(struct pair *pair)
{
	kh_ward_receive(&pair->ward);
	assert_int_equal(pair->ward.state, KH_WARD_CONDEMNED);
	int status = end(pair); /* sends nothing more: the signal was sent already */
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void hear(struct pair *pair, enum kh_channel_type type, struct kh_channel_message *message)
{
	kh_ward_receive(&pair->ward);
	assert_int_equal(kh_channel_receive(&pair->worker, false, message), KH_CHANNEL_GOT);
	assert_int_equal(message->type, type);
	assert_int_equal(message->ref, type == KH_CHANNEL_CREDENTIAL ? GENERATION : 7);
}

/* --- leaves ----------------------------------------------------------------------------------- */

static void a_leaf_is_signed_for_the_host_and_the_workers_key(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	say_str(&pair, KH_CHANNEL_LEAF_WANT, "api.example.com");
	hear(&pair, KH_CHANNEL_LEAF, &message);
	struct kh_wire_reader r = { .rest = message.body };
	kh_auto_free char *host = kh_wire_str(&r);
	struct kh_slice der = kh_wire_bytes(&r);
	assert_true(kh_wire_done(&r));
	assert_string_equal(host, "api.example.com");
	const unsigned char *at = (const unsigned char *)der.ptr;
	X509 *leaf = d2i_X509(NULL, &at, (long)der.len);
	assert_non_null(leaf);
	assert_int_equal(X509_check_host(leaf, "api.example.com", 0, 0, NULL), 1);
	unsigned char *spki = NULL;
	int len = i2d_PUBKEY(X509_get0_pubkey(leaf), &spki);
	assert_true(kh_slice_eq(kh_slice_of(spki, (size_t)len), kh_leaves_spki(leaves)));
	OPENSSL_free(spki);
	X509_free(leaf);
	end(&pair);
}

static void a_host_is_read_anew(void **state)
{
	(void)state;
	static const char *const hosts[] = { "",
					     "API.example.com.",
					     "a b.com",
					     "*.example.com",
					     "a..b",
					     "x\ny.com",
					     "0x7f.1",
					     "exa\xc3\xa4mple.com",
					     "host/../../x",
					     "-x.com" };
	kh_log_set_level(KH_LOG_ERROR);
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		struct pair pair;
		begin(&pair);
		serve(&pair);
		say_str(&pair, KH_CHANNEL_LEAF_WANT, hosts[i]);
		expect_condemned(&pair);
	}
}

static void no_leaf_without_a_key_and_only_one_key(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	say_str(&pair, KH_CHANNEL_LEAF_WANT, "api.example.com");
	expect_condemned(&pair);

	begin(&pair);
	say_key(&pair);
	say_key(&pair);
	expect_condemned(&pair);

	begin(&pair);
	serve(&pair);
	say_key(&pair);
	expect_condemned(&pair);
}

static void a_key_that_is_none_gives_no_leaf(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	say_str(&pair, KH_CHANNEL_LEAF_KEY, "this is no SubjectPublicKeyInfo");
	say(&pair, KH_CHANNEL_READY, nothing);
	say_str(&pair, KH_CHANNEL_LEAF_WANT, "api.example.com");
	hear(&pair, KH_CHANNEL_LEAF, &message);
	struct kh_wire_reader r = { .rest = message.body };
	free(kh_wire_str(&r));
	assert_int_equal(kh_wire_bytes(&r).len, 0);
	assert_true(kh_wire_done(&r));
	end(&pair);
}

static void signatures_are_bounded(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	pair.ward.signer.tokens = 3;
	unsigned signatures = 0;
	for (int i = 0; i < 10; i++) {
		pair.ward.signer.tokens_ms = kh_clock_mono_ms();
		double before = pair.ward.signer.tokens;
		say_str(&pair, KH_CHANNEL_LEAF_WANT, "api.example.com");
		hear(&pair, KH_CHANNEL_LEAF, &message);
		struct kh_wire_reader r = { .rest = message.body };
		free(kh_wire_str(&r));
		bool signed_one = kh_wire_bytes(&r).len > 0;
		signatures += signed_one;
		pair.ward.signer.tokens = before - (signed_one ? 1 : 0); /* time stands still */
	}
	assert_int_equal(signatures, 3);
	end(&pair);
}

struct slow_reader {
	struct pair *pair;
	unsigned answers;
};

static void *read_slowly(void *arg)
{
	struct slow_reader *reader = arg;
	for (unsigned i = 0; i < reader->answers; i++) {
		struct kh_channel_message message;
		(void)usleep(20 * 1000);
		if (kh_channel_receive(&reader->pair->worker, true, &message) != KH_CHANNEL_GOT)
			break;
		kh_channel_message_close(&message);
	}
	return NULL;
}

/* Each answer takes its time; signals must not wait for all of them. */
static void a_worker_that_reads_slowly_does_not_keep_the_keeper(void **state)
{
	enum { ASKED = 100 };
	(void)state;
	struct pair pair;
	pthread_t thread;
	int least = 1;
	begin(&pair);
	serve(&pair);
	assert_return_code(
		setsockopt(pair.ward.channel.fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	kh_buf_init(&body, 256);
	assert_true(kh_wire_put_str(&body, "api.example.com"));
	for (int i = 0; i < ASKED; i++)
		say(&pair, KH_CHANNEL_LEAF_WANT, kh_buf_view(&body));
	struct slow_reader reader = { &pair, ASKED };
	assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
	uint64_t began = kh_clock_mono_ms(), longest = 0;
	for (uint64_t before = began; kh_clock_mono_ms() - began < 1500;) {
		kh_ward_receive(&pair.ward);
		uint64_t now = kh_clock_mono_ms();
		longest = now - before > longest ? now - before : longest;
		before = now;
	}
	assert_true(longest < 1000);
	assert_int_equal(pair.ward.state, KH_WARD_SERVING);
	while (kill(pair.ward.pid, 0) == 0 && kh_clock_mono_ms() - began < 20000) {
		kh_ward_receive(&pair.ward);
		if (pthread_tryjoin_np(thread, NULL) == 0)
			break;
		(void)usleep(1000);
	}
	end(&pair);
}

/* --- credentials ------------------------------------------------------------------------------ */

static void a_value_crosses_as_a_page_of_its_own(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	want_credential(&pair, GENERATION, 0);
	hear(&pair, KH_CHANNEL_CREDENTIAL, &message);
	assert_int_equal(message.n_fds, 1);
	struct kh_wire_reader r = { .rest = message.body };
	struct kh_want want;
	assert_true(kh_want_take(&r, &want));
	assert_int_equal(want.index, 0);
	assert_int_equal(want.tenant, KH_NO_TENANT);
	assert_int_equal(want.scope.len, 0);
	uint32_t len = kh_wire_u32(&r);
	assert_int_equal(kh_wire_u64(&r), 0); /* good for ever */
	kh_auto_free char *why = kh_wire_str(&r);
	assert_true(kh_wire_done(&r));
	assert_null(why);
	struct kh_secret *secret = kh_secret_from_fd(kh_steal_fd(&message.fds[0]), len, NULL);
	assert_true(kh_secret_equals(secret, KH_SLICE("sk-real-value")));
	/* The message itself holds no byte of it. */
	assert_null(memmem(message.body.ptr, message.body.len, "sk-real", 7));
	kh_secret_unref(secret);
	end(&pair);
}

static void a_missing_value_is_said_to_be_missing(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	want_credential(&pair, GENERATION, 1);
	hear(&pair, KH_CHANNEL_CREDENTIAL, &message);
	assert_int_equal(message.n_fds, 0);
	struct kh_wire_reader r = { .rest = message.body };
	struct kh_want want;
	assert_true(kh_want_take(&r, &want));
	assert_int_equal(want.index, 1);
	assert_int_equal(kh_wire_u32(&r), 0);
	assert_int_equal(kh_wire_u64(&r), 0);
	kh_auto_free char *why = kh_wire_str(&r);
	assert_true(kh_wire_done(&r));
	assert_non_null(strstr(why, "absent"));
	end(&pair);
}

static void a_credential_that_is_not_there_cannot_be_asked_for(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	want_credential(&pair, GENERATION, 2);
	expect_condemned(&pair);
}

/* An index of the configuration before means another credential now: no answer is the right one. */
static void an_index_is_taken_for_its_own_configuration_only(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	want_credential(&pair, GENERATION - 1, 0);
	want_credential(&pair, GENERATION - 1, 999);
	kh_ward_receive(&pair.ward);
	assert_int_equal(pair.ward.state, KH_WARD_SERVING);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_AGAIN);
	/* One that the keeper has not made yet was never told to a worker. */
	want_credential(&pair, GENERATION + 1, 0);
	expect_condemned(&pair);
}

static void a_tenant_that_is_not_there_cannot_be_asked_for(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	want_value(&pair, GENERATION, &(struct kh_want){ 0, 999, { "", 0 } });
	expect_condemned(&pair);
}

static void a_scope_that_is_none_cannot_be_asked_for(void **state)
{
	(void)state;
	static char longest[KH_LIMIT_SCOPE_BYTES + 1];
	memset(longest, 'a', sizeof(longest));
	const struct kh_slice scopes[] = {
		KH_SLICE("a b"),      KH_SLICE("a\"b"), KH_SLICE("a\nb"),
		KH_SLICE("\xc3\xa4"), { "\0", 1 },	{ longest, sizeof(longest) },
	};
	for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
		struct pair pair;
		begin(&pair);
		serve(&pair);
		want_value(&pair, GENERATION, &(struct kh_want){ 0, KH_NO_TENANT, scopes[i] });
		expect_condemned(&pair);
	}
}

/* It asks in good form for what there is not. */
static void a_value_for_a_part_is_refused_where_there_are_no_parts(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	want_value(&pair, GENERATION, &(struct kh_want){ 0, KH_NO_TENANT, KH_SLICE("owner/repo") });
	hear(&pair, KH_CHANNEL_CREDENTIAL, &message);
	assert_int_equal(message.n_fds, 0);
	struct kh_wire_reader r = { .rest = message.body };
	struct kh_want want;
	assert_true(kh_want_take(&r, &want));
	assert_true(kh_slice_eq(want.scope, KH_SLICE("owner/repo")));
	assert_int_equal(kh_wire_u32(&r), 0);
	(void)kh_wire_u64(&r);
	kh_auto_free char *why = kh_wire_str(&r);
	assert_non_null(strstr(why, "part"));
	end(&pair);
}

/* --- all else --------------------------------------------------------------------------------- */

static void the_keepers_own_words_condemn(void **state)
{
	(void)state;
	static const enum kh_channel_type types[] = {
		KH_CHANNEL_SNAPSHOT, KH_CHANNEL_LISTENERS, KH_CHANNEL_JOURNAL,
		KH_CHANNEL_ROOTS,    KH_CHANNEL_RESOLVER,  KH_CHANNEL_ISSUER,
		KH_CHANNEL_GO,	     KH_CHANNEL_LEAF,	   KH_CHANNEL_CREDENTIAL,
		KH_CHANNEL_DRAIN,    KH_CHANNEL_HEAD_WANT, KH_CHANNEL_RETIRE,
		KH_CHANNEL_JOIN,     KH_CHANNEL_HELLO,	   KH_CHANNEL_OFFER,
		KH_CHANNEL_OPEN,     KH_CHANNEL_OPENED,	   KH_CHANNEL_GONE,
		KH_CHANNEL_PRINTS
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
		KH_CHANNEL_READY,      KH_CHANNEL_LEAF_WANT,	     KH_CHANNEL_CREDENTIAL_WANT,
		KH_CHANNEL_CHECKPOINT, KH_CHANNEL_DRAINED,	     KH_CHANNEL_HEAD,
		KH_CHANNEL_JOINED,     KH_CHANNEL_CREDENTIAL_REFUSED
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

static void checkpoints_only_grow(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	say_checkpoint(&pair, 5, 32);
	say_checkpoint(&pair, 6, 32);
	kh_ward_receive(&pair.ward);
	assert_int_equal(pair.ward.state, KH_WARD_SERVING);
	assert_int_equal(pair.ward.checkpoint_seq, 6);
	say_checkpoint(&pair, 6, 32);
	expect_condemned(&pair);

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
	begin(&pair);
	assert_false(kh_ward_ask_head(&pair.ward)); /* it does not serve yet */
	serve(&pair);
	say_checkpoint(&pair, 5, 32);
	assert_true(kh_ward_ask_head(&pair.ward));
	kh_ward_receive(&pair.ward);
	assert_false(pair.ward.head_known);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_CHANNEL_HEAD_WANT);
	say_head(&pair, 9, 32);
	kh_ward_receive(&pair.ward);
	assert_true(pair.ward.head_known);
	assert_int_equal(pair.ward.head.seq, 9);
	assert_int_equal(pair.ward.head.hash[1], 2);
	say_head(&pair, 10, 32);
	expect_condemned(&pair);

	static const struct {
		uint64_t seq;
		size_t len;
	} lies[] = { { 0, 32 }, { 4, 32 }, { 9, 31 }, { 9, 0 }, { UINT64_MAX, 32 } };
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		begin(&pair);
		serve(&pair);
		say_checkpoint(&pair, 5, 32);
		kh_ward_receive(&pair.ward);
		assert_true(kh_ward_ask_head(&pair.ward));
		say_head(&pair, lies[i].seq, lies[i].len);
		expect_condemned(&pair);
	}
}

/* Another keeper signs from where this one stood. */
static void nothing_is_kept_for_signing_after_the_cut(void **state)
{
	(void)state;
	struct pair pair;
	begin(&pair);
	serve(&pair);
	say_checkpoint(&pair, 5, 32);
	kh_ward_receive(&pair.ward);
	pair.ward.frozen = true;
	say_checkpoint(&pair, 6, 32);
	kh_ward_receive(&pair.ward);
	assert_int_equal(pair.ward.state, KH_WARD_SERVING);
	assert_int_equal(pair.ward.checkpoint_seq, 5);
	end(&pair);
}

static void a_worker_that_retires_can_be_told_to_drain(void **state)
{
	(void)state;
	struct pair pair;
	struct kh_channel_message message;
	begin(&pair);
	serve(&pair);
	kh_ward_retire(&pair.ward);
	assert_int_equal(pair.ward.state, KH_WARD_DRAINING);
	kh_ward_drain(&pair.ward);
	kh_ward_drain(&pair.ward); /* said once */
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_CHANNEL_RETIRE);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_GOT);
	assert_int_equal(message.type, KH_CHANNEL_DRAIN);
	assert_int_equal(kh_channel_receive(&pair.worker, false, &message), KH_CHANNEL_AGAIN);
	say(&pair, KH_CHANNEL_DRAINED, nothing);
	kh_ward_receive(&pair.ward);
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
	kh_ward_drain(&pair.ward);
	assert_int_equal(pair.ward.state, KH_WARD_DRAINING);
	say(&pair, KH_CHANNEL_DRAINED, nothing);
	kh_ward_receive(&pair.ward);
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
	kh_ward_drain(&pair.ward);
	say(&pair, KH_CHANNEL_READY, nothing);
	kh_ward_receive(&pair.ward);
	assert_int_equal(pair.ward.state, KH_WARD_DRAINING);
	end(&pair);
}

static int set_up(void **state)
{
	(void)state;
	struct kh_diagnostics diags = { .count = 0 };
	kh_log_set_level(KH_LOG_ERROR);
	ca = kh_ca_new(NULL);
	leaves = kh_leaves_new(NULL);
	config = kh_config_parse(
		"k.yaml",
		KH_SLICE(
			"version: 1\n"
			"listen: [ { unix: d/s, tenant: acme } ]\n"
			"credentials:\n"
			"  main: { value: { env: KH_MAIN }, header: { x-api-key: \"{}\" }, hosts: "
			"[ a.test ] }\n"
			"  absent: { value: { env: KH_ABSENT }, header: { x-api-key: \"{}\" }, "
			"hosts: [ b.test ] }\n"
			"tenants:\n"
			"  acme: { rules: [ { allow: \"https://a.test\", credential: main } ] }\n"),
		"/nonexistent", NULL, &diags);
	kh_diagnostics_fini(&diags);
	return ca && leaves && config && setenv("KH_MAIN", "sk-real-value", 1) == 0 &&
			       kh_vault_open(&vault, config, false, NULL)
		       ? 0
		       : -1;
}

static int tear_down(void **state)
{
	(void)state;
	kh_vault_close(&vault);
	kh_config_free(config);
	kh_leaves_free(leaves);
	kh_ca_free(ca);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leaf_is_signed_for_the_host_and_the_workers_key),
		cmocka_unit_test(a_host_is_read_anew),
		cmocka_unit_test(no_leaf_without_a_key_and_only_one_key),
		cmocka_unit_test(a_key_that_is_none_gives_no_leaf),
		cmocka_unit_test(signatures_are_bounded),
		cmocka_unit_test(a_worker_that_reads_slowly_does_not_keep_the_keeper),
		cmocka_unit_test(a_value_crosses_as_a_page_of_its_own),
		cmocka_unit_test(a_missing_value_is_said_to_be_missing),
		cmocka_unit_test(a_credential_that_is_not_there_cannot_be_asked_for),
		cmocka_unit_test(a_tenant_that_is_not_there_cannot_be_asked_for),
		cmocka_unit_test(a_scope_that_is_none_cannot_be_asked_for),
		cmocka_unit_test(a_value_for_a_part_is_refused_where_there_are_no_parts),
		cmocka_unit_test(an_index_is_taken_for_its_own_configuration_only),
		cmocka_unit_test(the_keepers_own_words_condemn),
		cmocka_unit_test(a_body_that_does_not_fit_condemns),
		cmocka_unit_test(what_is_no_message_condemns),
		cmocka_unit_test(a_descriptor_condemns),
		cmocka_unit_test(a_closed_channel_condemns),
		cmocka_unit_test(checkpoints_only_grow),
		cmocka_unit_test(the_head_is_told_when_asked_for_and_once),
		cmocka_unit_test(nothing_is_kept_for_signing_after_the_cut),
		cmocka_unit_test(a_worker_that_retires_can_be_told_to_drain),
		cmocka_unit_test(drained_is_said_when_draining_and_not_before),
		cmocka_unit_test(ready_is_said_once),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
