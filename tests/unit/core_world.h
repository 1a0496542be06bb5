/*
 * core_world.h - one event thread without sockets: a journal in memory, upstreams that a test plays
 *
 * Loop, journal, rules, credentials and exchanges are the real ones. Replaced is how a connection
 * to an upstream is come by (kh_up_acquire): a `far` stands for it, whose user is told what the
 * test says. It fails the test where something goes up without its open record in the journal.
 */
#ifndef KEYHOLE_TESTS_CORE_WORLD_H
#define KEYHOLE_TESTS_CORE_WORLD_H

#include "machine_steps.h"
#include "unit.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/log.h>
#include <keyhole/base/worker_messages.h>

#include <keyhole/loop/leaf_requests.h>
#include <keyhole/loop/acceptor.h>
#include <keyhole/loop/values.h>
#include <upstream/upstream_internal.h>

enum { WORLD_FARS = 8, WORLD_CREDENTIAL = 0, WORLD_BYTES = 1 << 20 };

static const char world_yaml[] =
	"version: 1\n"
	"listen: [ { unix: /nowhere/s, tenant: t } ]\n"
	"credentials: { c: { value: { env: K }, header: { x-api-key: \"{}\" },"
	" hosts: [ a.example ] } }\n"
	"tenants: { t: { rules: [ { allow: \"https://a.example\", credential: c },"
	" { deny: \"* https://b.example/denied\" }, { allow: \"https://b.example\" },"
	" { allow: \"http://p.example\" }, { allow: \"tcp://c.example:22\" },"
	" { deny: \"tcp://e.example:22\" }, { deny: \"* https://f.example\" },"
	" { allow: \"https://d.example\", tls: passthrough },"
	" { allow: \"POST https://m.example/\", models: one } ] } }\n";

/* What becomes of a connection that is asked for. */
enum far_way { FAR_IS_THERE = 0, FAR_IS_LATE, FAR_FAILS };

/* An upstream's end of one exchange. */
struct far {
	struct kh_up_stream stream;
	struct kh_up conn; /* only its state is looked at */
	struct kh_buf head, content;
	bool ended;
	bool full;
	unsigned held, updates; /* how often it was */
	bool released, clean;
};

static struct {
	struct kh_worker worker;
	struct kh_channel keeper;
	struct kh_generation *gen;
	struct kh_loop *loop;
	struct kh_acceptor acceptor;
	struct far fars[WORLD_FARS];
	size_t n_fars;
	enum far_way way;
	uint64_t faults;
} world;

/* ---- the journal ---- */

/* How often a text stands in it. */
static inline size_t written(const char *what)
{
	off_t len = lseek(world.worker.journal_fd, 0, SEEK_END);
	size_t n = 0, what_len = strlen(what);

	if (len <= 0)
		return 0;
	char *map = mmap(NULL, (size_t)len, PROT_READ, MAP_PRIVATE, world.worker.journal_fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	const char *at = map, *end = map + len;
	while ((at = memmem(at, (size_t)(end - at), what, what_len))) {
		at += what_len;
		n++;
	}
	munmap(map, (size_t)len);
	return n;
}

/* In this turn and in all before it. */
#define assert_records(opens, closes, denials) \
	do { \
		kh_loop_turn_end(world.loop); \
		assert_int_equal(written("\"event\":\"open\""), opens); \
		assert_int_equal(written("\"event\":\"close\""), closes); \
		assert_int_equal(written("\"event\":\"deny\""), denials); \
	} while (0)

static inline void break_journal(void)
{
	assert_int_equal(fcntl(world.worker.journal_fd, F_ADD_SEALS, F_SEAL_GROW), 0);
}

/* ---- upstreams ---- */

static inline struct far *far_of(const struct kh_up_stream *stream)
{
	return (void *)((uintptr_t)stream - offsetof(struct far, stream));
}

static inline bool far_put_head(struct kh_up_stream *stream, struct kh_err *err)
{
	struct far *far = far_of(stream);
	const struct kh_up_user *user = stream->user;
	struct kh_up_request request;

	/* Nothing goes up without it, and it is not closed yet. */
	assert_true(written("\"event\":\"open\"") > written("\"event\":\"close\""));
	user->ops->describe(user, &request);
	if (far->conn.key.scheme == KH_SCHEME_TCP)
		return user->ops->connected(stream->user, KH_SLICE("hello"), err);
	assert_true(kh_buf_append_slice(&far->head, user->message->method) &&
		    kh_buf_append_str(&far->head, " ") &&
		    user->ops->put_target(user, &far->head, err) &&
		    kh_buf_append_str(&far->head, "\r\n") &&
		    user->ops->put_credentials(user, &far->head, err));
	return true;
}

static inline void far_put_content(struct kh_up_stream *stream, struct kh_slice piece)
{
	struct far *far = far_of(stream);

	assert_false(far->ended);
	assert_true(kh_buf_append_slice(&far->content, piece));
}

static inline void far_put_end(struct kh_up_stream *stream, const struct kh_field *trailers,
			       size_t n)
{
	(void)trailers;
	(void)n;
	assert_false(far_of(stream)->ended);
	far_of(stream)->ended = true;
}

static inline bool far_is_full(const struct kh_up_stream *stream)
{
	return far_of(stream)->full;
}

static inline void far_flush(struct kh_up_stream *stream)
{
	(void)stream;
}

static inline void far_update(struct kh_up_stream *stream, bool wanted)
{
	(void)wanted;
	far_of(stream)->updates++;
}

static inline void far_hold(struct kh_up_stream *stream)
{
	far_of(stream)->held++;
}

static inline void far_release(struct kh_up_stream *stream, bool clean)
{
	struct far *far = far_of(stream);

	assert_false(far->released);
	far->released = true;
	far->clean = clean;
	stream->user = NULL;
}

static inline bool far_is_out(const struct kh_up_stream *stream)
{
	return far_of(stream)->ended;
}

static const struct kh_up_ops far_ops = {
	.put_head = far_put_head,
	.put_content = far_put_content,
	.put_end = far_put_end,
	.is_full = far_is_full,
	.flush = far_flush,
	.update = far_update,
	.hold = far_hold,
	.release = far_release,
	.is_out = far_is_out,
	.says_unread = true,
};

/* The latest one. */
static inline struct far *far_last(void)
{
	assert_true(world.n_fars > 0);
	return &world.fars[world.n_fars - 1];
}

/* The connection is there: its user is told. */
static inline void far_comes(struct far *far)
{
	static const struct kh_place nowhere;
	const struct kh_up_facts facts = { .peer = "192.0.2.1:443", .place = &nowhere };
	struct kh_up_user *user = far->stream.user;
	const struct kh_up_user_ops *ops = user->ops;
	void *side = user->side;

	far->conn.state = KH_UP_BUSY;
	ops->ready(user, &facts);
	ops->turn(side);
}

void __wrap_kh_up_acquire(struct kh_up_user *user, bool fresh);
void __wrap_kh_up_acquire(struct kh_up_user *user, bool fresh)
{
	static const struct kh_place nowhere;
	const struct kh_up_facts facts = { .peer = "192.0.2.1:443", .place = &nowhere };
	struct kh_err err = KH_ERR_INIT;
	struct kh_up_wish wish;

	(void)fresh;
	assert_true(written("\"event\":\"open\"") > written("\"event\":\"close\""));
	user->ops->wish(user, &wish);
	if (world.way == FAR_FAILS) {
		kh_err_set(&err, KH_ERR_CONNECT_REFUSED, "nobody listens there");
		user->ops->failed(user, &err);
		return;
	}
	assert_true(world.n_fars < WORLD_FARS);
	struct far *far = &world.fars[world.n_fars++];
	far->stream = (struct kh_up_stream){ .ops = &far_ops, .conn = &far->conn, .user = user };
	far->conn.key = wish.key;
	far->conn.state = world.way == FAR_IS_LATE ? KH_UP_CONNECTING : KH_UP_BUSY;
	kh_buf_init_wiping(&far->head, WORLD_BYTES);
	kh_buf_init(&far->content, WORLD_BYTES);
	user->stream = &far->stream;
	if (world.way == FAR_IS_THERE)
		user->ops->ready(user, &facts);
}

/* What it answers. A response without content has KH_FRAMING_NONE. */
static inline bool far_answers(struct far *far, uint16_t status, enum kh_framing framing)
{
	struct kh_message *response = calloc(1, sizeof(*response));
	struct kh_up_user *user = far->stream.user;
	void *side = user->side;
	const struct kh_up_user_ops *ops = user->ops;

	assert_non_null(response);
	response->status = status;
	response->reason = KH_SLICE("Said");
	response->minor = 1;
	response->framing = framing;
	response->keep_alive = true;
	bool goes_on = ops->head(user, response);
	free(response);
	ops->turn(side);
	return goes_on;
}

static inline void far_says(struct far *far, const char *text)
{
	struct kh_up_user *user = far->stream.user;
	const struct kh_up_user_ops *ops = user->ops;
	void *side = user->side;

	(void)ops->body(user, kh_slice_str(text));
	ops->turn(side);
}

static inline void far_ends(struct far *far)
{
	struct kh_up_user *user = far->stream.user;
	const struct kh_up_user_ops *ops = user->ops;
	void *side = user->side;

	ops->end(user, NULL, 0);
	ops->turn(side);
}

static inline void far_breaks(struct far *far, enum kh_err_code code)
{
	struct kh_up_user *user = far->stream.user;
	const struct kh_up_user_ops *ops = user->ops;
	void *side = user->side;
	struct kh_err err = KH_ERR_INIT;

	kh_err_set(&err, code, "the upstream broke off");
	ops->broken(user, &err);
	ops->turn(side);
}

/* ---- the world ---- */

static inline struct kh_generation *world_generation_of(uint32_t number, const char *yaml)
{
	struct kh_generation *g = calloc(1, sizeof(*g));
	struct kh_diagnostics diags = { 0 };
	struct kh_err err = KH_ERR_INIT;

	assert_non_null(g);
	atomic_init(&g->refs, 1);
	pthread_mutex_init(&g->lock, NULL);
	g->number = number;
	g->config = kh_config_parse("test", kh_slice_str(yaml), NULL, "/nowhere", &diags);
	for (size_t i = 0; i < diags.count; i++)
		print_error("%s\n", diags.list[i].text);
	assert_non_null(g->config);
	kh_diagnostics_fini(&diags);
	g->policy = kh_policy_compile(g->config, &err);
	g->listener_stats_list = calloc(1, sizeof(*g->listener_stats_list));
	g->slots = calloc(g->config->n_credentials, sizeof(*g->slots));
	assert_true(g->policy && g->listener_stats_list && g->slots);
	g->listener_stats_list[0] = kh_listener_stats_new();
	assert_non_null(g->listener_stats_list[0]);
	return g;
}

static inline struct kh_generation *world_generation(uint32_t number)
{
	return world_generation_of(number, world_yaml);
}

/* A reload, as far as one acceptor and what runs there are concerned. What waits to be decided
 * again is, with the end of the turn. */
static inline void world_reload(struct kh_generation *g)
{
	struct kh_loop *loop = world.loop;

	kh_generation_unref(loop->gen);
	loop->gen = kh_generation_ref(g);
	world.acceptor.gen = g;
	world.acceptor.config = &g->config->listeners[0];
	for (struct kh_node *node = loop->exchanges.next, *next; node != &loop->exchanges;
	     node = next) {
		struct kh_loop_member *member = kh_container_of(node, struct kh_loop_member, link);
		next = node->next;
		member->ops->reload(member);
	}
}

/* The keeper hands the credential out. */
static inline void world_value(struct kh_generation *g)
{
	char key[] = "the-real-key-of-this-test";
	const struct kh_credential_ref want = { WORLD_CREDENTIAL, KH_NO_TENANT, { "", 0 } };
	struct kh_secret *secret = kh_secret_new(key, sizeof(key) - 1, NULL);

	assert_true(secret && kh_values_put(g, &want, secret, 0));
}

/* `ops`: of whoever stands on the loop. */
static inline void world_begin(const struct kh_loop_ops *ops)
{
	struct kh_worker *w = &world.worker;
	struct kh_journal_report report = { .seq = 0 };
	struct kh_err err = KH_ERR_INIT;
	int fds[2];

	memset(&world, 0, sizeof(world));
	kh_log_set_level(KH_LOG_ERROR);
	kh_secret_prepare();
	assert_true(kh_channel_pair(fds, NULL) &&
		    kh_channel_init(&w->channel, fds[0], KH_WORKER_MSG_TO_WORKER_SET, NULL) &&
		    kh_channel_init(&world.keeper, fds[1], KH_WORKER_MSG_TO_KEEPER_SET, NULL));
	world.gen = world_generation(1);
	w->current = world.gen;
	w->leaves = kh_leaves_new(&err);
	w->roots = kh_roots_new();
	w->n_loops = 1;
	w->taken_fd = -1;
	assert_true(w->leaves && w->roots && kh_leaf_requests_init(w, &err));
	w->journal_fd = memfd_create("journal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(w->journal_fd >= 0);
	w->journal = kh_journal_open(w->journal_fd, KH_DURABILITY_WRITTEN, &report, &err);
	assert_non_null(w->journal);
	world.loop = kh_loop_new(w, 0, ops, KH_SLICE(""), KH_SLICE(""), &err);
	assert_non_null(world.loop);
	world.loop->now_ms = kh_clock_mono_ms();
	world.acceptor = (struct kh_acceptor){ .loop = world.loop,
					       .gen = world.gen,
					       .listener_stats = world.gen->listener_stats_list[0],
					       .config = &world.gen->config->listeners[0] };
	kh_list_init(&world.acceptor.sessions);
	kh_work_share_init(&world.acceptor.work, world.loop);
	world.faults = kh_machine_faults();
}

/* Everything was ended. `faults`: so many steps were no steps of a machine. */
static inline void world_end(uint64_t faults)
{
	kh_loop_turn_end(world.loop);
	assert_true(kh_list_is_empty(&world.loop->exchanges));
	assert_true(kh_list_is_empty(&world.loop->live));
	assert_int_equal(written("\"event\":\"open\""), written("\"event\":\"close\""));
	assert_int_equal(kh_machine_faults() - world.faults, faults);
	for (size_t i = 0; i < world.n_fars; i++) {
		assert_true(world.fars[i].released);
		kh_buf_fini(&world.fars[i].head);
		kh_buf_fini(&world.fars[i].content);
	}
	kh_refusals_end(&world.acceptor);
	kh_loop_free(world.loop);
	kh_journal_close(world.worker.journal);
	close(world.worker.journal_fd);
	kh_leaf_requests_fini(&world.worker);
	kh_leaves_free(world.worker.leaves);
	kh_roots_free(world.worker.roots);
	kh_generation_unref(world.gen);
	kh_channel_fini(&world.worker.channel);
	kh_channel_fini(&world.keeper);
}

#endif
