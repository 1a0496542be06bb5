/*
 * fuzz_admin.c - what whoever connects to the admin socket may say
 *
 * The first byte says who that is, and from 128 on that it is the socket of `keyhole run --ask`,
 * where two requests wait for an answer. What is answered is HTTP that keyhole's own codec takes,
 * and a caller who may see one tenant is never told of another; the connection ends with its bytes.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <admin/admin_internal.h>
#include <keyhole/loop/loop.h>
#include <keyhole/loop/questions.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { USER = 1000, BYTES_MOST = 256 * 1024, TURNS = 4096, LINGER = 4, ROOM = 1024 * 1024 };

static void require(bool what)
{
	if (!what)
		abort();
}

static struct kh_worker worker;
static struct kh_admin admin = { .worker = &worker, .statm = -1, .fd_count = -1 };
static struct kh_listener_stats stats[2];
static struct kh_listener_stats *listener_stats_list[] = { &stats[0], &stats[1] };
static struct kh_credential_slot slots[1];
static struct kh_tally *tallies[2];
static struct kh_loop *loops[1];
static struct kh_generation gen = { .listener_stats_list = listener_stats_list,
				    .slots = slots,
				    .tallies = tallies };

static void make_world(void)
{
	static const char yaml[] =
		"version: 1\n"
		"tenants: { seen: { limits: { requests: 5/s }, rules: [] }, "
		"hidden: { rules: [] } }\n"
		"listen: [ { unix: /a/seen, tenant: seen }, "
		"{ unix: /b/hidden, tenant: hidden } ]\n"
		"admin: { unix: /c/s, allow: [ { user: 1000, tenants: seen } ] }\n";
	struct kh_diagnostics diags = { 0 };
	struct kh_journal_report report = { .seq = 0 };
	gen.config =
		kh_config_parse("k", kh_slice_of(yaml, sizeof(yaml) - 1), "/", "policies", &diags);
	kh_diagnostics_fini(&diags);
	require(gen.config != NULL);
	atomic_init(&gen.refs, 1);
	pthread_mutex_init(&gen.lock, NULL);
	for (int i = 0; i < 2; i++)
		require((tallies[i] = kh_tally_new(1)) != NULL);
	loops[0] = aligned_alloc(_Alignof(struct kh_loop), sizeof(struct kh_loop));
	require(loops[0] != NULL);
	memset(loops[0], 0, sizeof(struct kh_loop));
	worker.loops = loops;
	worker.n_loops = 1;
	worker.channel.fd = worker.taken_fd = -1;
	pthread_mutex_init(&worker.channel.send_lock, NULL);
	worker.journal_fd = memfd_create("journal", MFD_CLOEXEC);
	worker.journal = kh_journal_open(worker.journal_fd, KH_DURABILITY_WRITTEN, &report, NULL);
	require(worker.journal != NULL);
	pthread_mutex_init(&admin.lock, NULL);
	kh_list_init(&admin.conns);
	admin.gen = &gen;
	admin.base = event_base_new();
	require(admin.base != NULL);
}

static void check(struct kh_buf *said, enum kh_admin_caller caller)
{
	struct kh_slice in = kh_buf_view(said), body;
	if (caller != KH_CALLER_OWNER && caller != KH_CALLER_TCP)
		require(in.len == 0 || !memmem(in.ptr, in.len, "hidden", 6));
	require(in.len == 0 || memcmp(in.ptr, "HTTP/1.1 ", 9 < in.len ? 9 : in.len) == 0);
	/* Answers to HEAD can't be told from here: up to the first one. */
	struct kh_h1 *h1 = kh_h1_new(KH_H1_RESPONSES);
	require(h1 != NULL);
	enum kh_h1_event event = kh_h1_feed(h1, &in, &body);
	require(event != KH_H1_ERROR);
	kh_h1_free(h1);
}

/* Each tenant has a decision, and whoever watches is shown those of his. */
static void decide(void)
{
	struct kh_events *events = atomic_load(&loops[0]->events);
	if (!kh_events_is_watched(events) || !admin.look)
		return;
	kh_events_put(events, "seen", "sb", KH_SLICE("{\"event\":\"open\",\"tenant\":\"seen\""));
	kh_events_put(events, "hidden", "sb",
		      KH_SLICE("{\"event\":\"deny\",\"tenant\":\"hidden\""));
	kh_events_publish(events);
	event_active(admin.look, EV_TIMEOUT, 0);
}

/* What no rule allows. */
static void wait_for_a_person(void)
{
	struct kh_question about = { .sandbox = 1,
				     .method = KH_SLICE("GET"),
				     .scheme = KH_SCHEME_HTTPS,
				     .path = KH_SLICE("/\\\"") };
	struct kh_authority authority;
	struct kh_answered answered;
	uint64_t until_ms;
	uint32_t id;
	if (!worker.questions || !admin.look)
		return;
	require(kh_authority_parse(&authority, KH_SLICE("h.example"), 443, NULL));
	about.authority = &authority;
	(void)kh_questions_ask(worker.questions, &about, UINT64_MAX / 2, &id, &until_ms, &answered);
	event_active(admin.look, EV_TIMEOUT, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int ends[2], room = ROOM;
	char bytes[16 * 1024];
	struct kh_buf said;
	if (!admin.base)
		make_world();
	if (size < 1 || size > BYTES_MOST)
		return 0;
	enum kh_admin_caller caller = (enum kh_admin_caller)(data[0] % KH_CALLERS);
	bool asks = data[0] >= 0x80;
	gen.config->ask_ms = asks ? KH_LIMIT_QUESTION_MS : 0;
	worker.questions = asks ? kh_questions_new(NULL, 0, KH_LIMIT_QUESTION_MS) : NULL;
	require(asks == (worker.questions != NULL));
	kh_buf_init(&said, 64 * ROOM);
	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	(void)setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	const struct kh_peer peer = { .pid = 1, .uid = caller == KH_CALLER_OWNER ? 0 : USER };
	kh_admin_conn_new(&admin, ends[1], caller, &peer);
	size_t at = 1;
	bool shut = false;
	for (int turn = 0; turn < TURNS && !kh_list_is_empty(&admin.conns); turn++) {
		ssize_t n = at < size ? send(ends[0], data + at, size - at, MSG_NOSIGNAL) : 0;
		at += n > 0 ? (size_t)n : 0;
		decide();
		wait_for_a_person();
		if (at == size && !shut)
			shut = turn < LINGER ? false : shutdown(ends[0], SHUT_WR) == 0;
		require(event_base_loop(admin.base, EVLOOP_NONBLOCK) >= 0);
		while ((n = recv(ends[0], bytes, sizeof(bytes), 0)) > 0)
			require(kh_buf_append(&said, bytes, (size_t)n));
	}
	for (ssize_t n; (n = recv(ends[0], bytes, sizeof(bytes), 0)) > 0;)
		require(kh_buf_append(&said, bytes, (size_t)n));
	require(kh_list_is_empty(&admin.conns));
	for (int i = 0; i < KH_CALLERS; i++)
		require(admin.n_conns[i] == 0);
	require(!admin.look);
	uint32_t pid;
	require(!asks || kh_questions_listen(worker.questions, 1, &pid));
	kh_questions_free(worker.questions);
	worker.questions = NULL;
	/* Errors may hold the caller's own words. */
	if (!memmem(data, size, "hidden", 6))
		check(&said, caller);
	kh_buf_fini(&said);
	close(ends[0]);
	return 0;
}
