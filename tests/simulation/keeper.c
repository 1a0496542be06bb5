/* keeper.c - what the keeper says: values and leaves, late or never; reloads; sandboxes */
/* wrap: kh_channel_send */

#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/config/dynamic_sandbox.h>
#include <keyhole/base/secret.h>
#include <keyhole/config/credential_ref.h>
#include <keyhole/base/wire.h>
#include <keyhole/base/worker_messages.h>

#include <keyhole/loop/leaf_requests.h>
#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/loop/values.h>

#include "simulation.h"

enum { QUESTIONS = 64, NUMBERS = 1024, SANDBOXES = 4, BODY_BYTES = 64 * 1024, GONE = 64 };

struct question {
	uint32_t type;
	uint32_t ref;
	struct kh_buf body;
};

static struct question questions[QUESTIONS];
static size_t n_questions;
static struct kh_secret *secrets[SIM_VALUES];
static unsigned in_force;
static uint32_t number;
static unsigned by_number[NUMBERS]; /* of each generation, which configuration it has */
static uint64_t n_dynamic_sandboxes;
static struct kh_account *left[GONE]; /* accounts of sandboxes that were removed; references */
static size_t n_left;
static char dynamic_sandbox_ids[SANDBOXES][32];
static bool dynamic_sandbox_globex[SANDBOXES];

/* ---- questions ---- */

bool __real_kh_channel_send(struct kh_channel *channel, uint32_t type, uint32_t ref,
			    struct kh_slice body, const int *fds, unsigned n_fds,
			    struct kh_err *err);
bool __wrap_kh_channel_send(struct kh_channel *channel, uint32_t type, uint32_t ref,
			    struct kh_slice body, const int *fds, unsigned n_fds,
			    struct kh_err *err);
bool __wrap_kh_channel_send(struct kh_channel *channel, uint32_t type, uint32_t ref,
			    struct kh_slice body, const int *fds, unsigned n_fds,
			    struct kh_err *err)
{
	(void)channel;
	(void)fds;
	SIM_CHECK(n_fds == 0, "a question with descriptors");
	if (sim_fails(SIM_FAULT_CALL))
		return kh_err_set(err, KH_ERR_SYSTEM, "the channel is full");
	bool before = sim_faults_set(false);
	SIM_CHECK(n_questions < QUESTIONS, "too many questions to the keeper");
	struct question *one = &questions[n_questions++];
	one->type = type;
	one->ref = ref;
	kh_buf_init(&one->body, BODY_BYTES);
	SIM_CHECK(kh_buf_append_slice(&one->body, body), "no memory");
	(void)sim_faults_set(before);
	sim_trace("the keeper is asked for a %s",
		  type == KH_WORKER_MSG_LEAF_REQUEST ? "leaf" : "value");
	return true;
}

bool sim_keeper_has_questions(void)
{
	return n_questions > 0;
}

static void answer_value(const struct question *one)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	struct kh_wire_reader r = { .rest = kh_buf_view(&one->body) };
	struct kh_credential_ref want;
	bool there = !sim_one_in(8);
	/* Some are good for a moment only. */
	uint64_t until =
		sim_one_in(3) ? UINT64_C(1800000000000) + sim_now_ms() + sim_below(5000) : 0;

	SIM_CHECK(kh_credential_ref_take(&r, &want), "an unknown value is asked for");
	int value = sim_rules_credential(sim_keeper_which(one->ref), want.index);
	size_t len = strlen(sim_values[value]);
	kh_buf_init(&body, BODY_BYTES);
	SIM_CHECK(kh_credential_ref_put(&body, &want) &&
			  kh_wire_put_u32(&body, there ? (uint32_t)len : 0) &&
			  kh_wire_put_u64(&body, until) &&
			  kh_wire_put_str(&body, there ? NULL : "there is none"),
		  "no memory");
	struct kh_channel_message message = { .type = KH_WORKER_MSG_CREDENTIAL,
					      .ref = one->ref,
					      .body = kh_buf_view(&body) };
	if (there)
		message.fds[message.n_fds++] = kh_secret_fd(secrets[value]);
	sim_trace("the keeper %s", there ? "hands a value out" : "has no value");
	SIM_CHECK(kh_values_came(&sim.worker, &message), "a value is not understood");
	kh_channel_message_close(&message);
}

static void answer_leaf(const struct question *one)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	struct kh_wire_reader r = { .rest = kh_buf_view(&one->body) };
	kh_auto_free char *host = kh_wire_str(&r);

	(void)kh_wire_u16(&r);
	(void)kh_wire_u16(&r);
	kh_auto_free char *signer = kh_wire_str(&r);
	kh_buf_init(&body, BODY_BYTES);
	SIM_CHECK(host && signer && kh_wire_done(&r), "a leaf's question is not understood");
	SIM_CHECK(
		kh_wire_put_str(&body, host) &&
			kh_wire_put_bytes(&body, sim_one_in(8) ? KH_SLICE("") : KH_SLICE("leaf")) &&
			kh_wire_put_str(&body, signer),
		"no memory");
	SIM_CHECK(kh_leaf_requests_leaf_came(&sim.worker, kh_buf_view(&body)),
		  "a leaf is not understood");
}

void sim_keeper_answer(void)
{
	size_t at = sim_below(n_questions);
	struct question one = questions[at];

	questions[at] = questions[--n_questions];
	if (one.type == KH_WORKER_MSG_CREDENTIAL_REQUEST)
		answer_value(&one);
	else if (one.type == KH_WORKER_MSG_LEAF_REQUEST)
		answer_leaf(&one);
	kh_buf_fini(&one.body);
}

void sim_keeper_stale(void)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	const struct kh_credential_ref want = { (uint16_t)sim_below(
							sim.worker.current->config->n_credentials),
						KH_NO_TENANT,
						{ "", 0 } };

	kh_buf_init(&body, BODY_BYTES);
	SIM_CHECK(kh_wire_put_u8(&body, 1) && kh_credential_ref_put(&body, &want), "no memory");
	const struct kh_channel_message message = { .type = KH_WORKER_MSG_CREDENTIAL_STALE,
						    .ref = sim.worker.current->number,
						    .body = kh_buf_view(&body) };
	sim_trace("a value is stale");
	SIM_CHECK(kh_values_stale(&sim.worker, &message), "a stale value is not understood");
}

/* ---- configurations ---- */

void sim_keeper_prepare(void)
{
	sim_rules_prepare();
	for (size_t i = 0; i < SIM_VALUES; i++) {
		char value[64];
		(void)snprintf(value, sizeof(value), "%s", sim_values[i]);
		secrets[i] = kh_secret_new(value, strlen(value), NULL);
		SIM_CHECK(secrets[i], "no secret");
	}
}

unsigned sim_keeper_which(uint32_t of)
{
	return by_number[of % NUMBERS];
}

struct kh_generation *sim_keeper_generation(unsigned which, const struct kh_generation *before)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	struct kh_err err = KH_ERR_INIT;

	kh_buf_init(&body, BODY_BYTES);
	SIM_CHECK(kh_wire_put_u32(&body, sim_rules_slots()) && kh_wire_put_u8(&body, 0),
		  "no memory");
	struct kh_channel_message message = { .type = KH_WORKER_MSG_SNAPSHOT,
					      .ref = ++number,
					      .body = kh_buf_view(&body),
					      .fds = { sim_rules_snapshot(which),
						       sim_rules_ledger() },
					      .n_fds = 2 };
	struct kh_generation *g = kh_generation_take_snapshot(&message, before, &err);
	SIM_CHECK(g, "a configuration is not understood: %s", err.text);
	for (; g->n_listeners < g->config->n_listeners; g->n_listeners++)
		g->listeners[g->n_listeners] = -1;
	g->has_geo = true;
	atomic_store(&g->at_acceptors, 1);
	by_number[number % NUMBERS] = which;
	in_force = which;
	return g;
}

/* ---- sandboxes that come and go ---- */

static void say_dynamic_sandbox(uint32_t type, struct kh_buf *body, int fd)
{
	struct kh_channel_message message = { .type = type, .body = kh_buf_view(body) };

	if (fd >= 0)
		message.fds[message.n_fds++] = fd;
	SIM_CHECK(kh_dynamic_sandboxes_take(&sim.worker, &message), "a sandbox is not understood");
	kh_channel_message_close(&message);
}

void sim_keeper_add_sandbox(void)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	size_t at = sim_below(SANDBOXES);

	kh_buf_init(&body, BODY_BYTES);
	if (dynamic_sandbox_ids[at][0])
		return;
	dynamic_sandbox_globex[at] = sim_rules_have(in_force, "globex") && sim_one_in(2);
	char tenant[16], path[] = "/nowhere/dynamic";
	(void)snprintf(tenant, sizeof(tenant), "%s",
		       dynamic_sandbox_globex[at] ? "globex" : "acme");
	(void)snprintf(dynamic_sandbox_ids[at], sizeof(dynamic_sandbox_ids[at]), "%s%u", tenant,
		       (unsigned)++n_dynamic_sandboxes);
	const struct kh_dynamic_sandbox_card card = { .number = n_dynamic_sandboxes,
						      .tenant = tenant,
						      .id = dynamic_sandbox_ids[at],
						      .path = path };
	SIM_CHECK(kh_dynamic_sandbox_card_put(&body, &card), "no memory");
	sim_trace("the sandbox %s of %s comes", card.id, card.tenant);
	say_dynamic_sandbox(KH_WORKER_MSG_DYNAMIC_SANDBOX, &body, dup(sim_rules_ledger()));
}

struct dynamic_sandbox_search {
	const char *id;
	struct kh_account *account;
};

static void find_account(void *arg, const struct kh_dynamic_sandbox *dynamic_sandbox)
{
	struct dynamic_sandbox_search *search = arg;

	if (strcmp(dynamic_sandbox->config.sandbox, search->id) == 0)
		search->account = dynamic_sandbox->account;
}

void sim_keeper_check_gone(void)
{
	for (size_t i = 0; i < n_left && !sim.loop->mail; i++)
		for (enum kh_resource what = 0; what < KH_RESOURCE_LEAVES; what++)
			SIM_CHECK(
				kh_account_held(left[i], what, 0) == 0 ||
					(what == KH_RESOURCE_LOOKUPS && sim_names_has_questions()),
				"a sandbox that is gone is charged for %s", kh_resource_name(what));
}

static void remove_one(size_t at)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;

	kh_buf_init(&body, BODY_BYTES);
	if (!dynamic_sandbox_ids[at][0])
		return;
	sim_trace("the sandbox %s goes", dynamic_sandbox_ids[at]);
	struct dynamic_sandbox_search search = { .id = dynamic_sandbox_ids[at] };
	kh_dynamic_sandboxes_each(&sim.worker, find_account, &search);
	if (n_left < GONE)
		left[n_left++] = kh_account_ref(search.account);
	SIM_CHECK(kh_wire_put_str(&body, dynamic_sandbox_globex[at] ? "globex" : "acme") &&
			  kh_wire_put_str(&body, dynamic_sandbox_ids[at]),
		  "no memory");
	say_dynamic_sandbox(KH_WORKER_MSG_DYNAMIC_SANDBOX_GONE, &body, -1);
	dynamic_sandbox_ids[at][0] = '\0';
}

void sim_keeper_reload(void)
{
	struct kh_generation *next =
		sim_keeper_generation(sim_rules_other_than(in_force), sim.worker.current);

	sim_trace("the rules change, to the configuration %u", in_force);
	kh_loop_post_reload(sim.loop, next);
	SIM_CHECK(atomic_load(&sim.loop->taken) < next->number, "rules hold before they are taken");
	kh_generation_unref(sim.worker.current);
	sim.worker.current = next;
	for (size_t i = 0; i < SANDBOXES; i++)
		if (!sim_rules_have(in_force, sim_rules_tenant_of(dynamic_sandbox_ids[i])))
			remove_one(i);
}

void sim_keeper_remove_sandbox(void)
{
	remove_one(sim_below(SANDBOXES));
}

void sim_keeper_reset(void)
{
	for (size_t i = 0; i < SANDBOXES; i++)
		remove_one(i);
	while (n_questions > 0)
		kh_buf_fini(&questions[--n_questions].body);
	number = 0;
	n_dynamic_sandboxes = 0;
}

void sim_keeper_forget(void)
{
	while (n_left > 0)
		kh_account_unref(left[--n_left]);
}

/* ---- who may come in ---- */

struct acceptor_search {
	struct kh_acceptor *acceptors[SANDBOXES + 8];
	size_t n;
};

static void add_dynamic_sandbox_acceptor(void *arg,
					 const struct kh_dynamic_sandbox *dynamic_sandbox)
{
	struct acceptor_search *search = arg;

	/* A dynamic sandbox's acceptor begins with an acceptor. */
	if (dynamic_sandbox->acceptors[0])
		search->acceptors[search->n++] =
			(struct kh_acceptor *)(void *)dynamic_sandbox->acceptors[0];
}

struct kh_acceptor *sim_keeper_acceptor(bool *globex)
{
	struct acceptor_search search = { .n = 0 };
	struct kh_loop *loop = sim.loop;

	for (size_t i = 0; i < loop->n_acceptors; i++)
		search.acceptors[search.n++] = loop->acceptors[i];
	size_t listeners = search.n;
	kh_dynamic_sandboxes_each(&sim.worker, add_dynamic_sandbox_acceptor, &search);
	size_t first = sim.mood.dynamic_sandboxes && search.n > listeners && !sim_one_in(4)
			       ? listeners
			       : 0;
	struct kh_acceptor *acceptor =
		search.n ? search.acceptors[first + sim_below(search.n - first)] : NULL;
	if (!acceptor || !acceptor->event)
		return NULL;
	*globex = strcmp(loop->gen->config->tenants[acceptor->config->tenant].name, "globex") == 0;
	return acceptor;
}

void sim_keeper_use_up_share(void)
{
	bool globex;
	struct kh_acceptor *acceptor = sim_keeper_acceptor(&globex);

	if (!acceptor)
		return;
	sim_trace("%s has done its share of some turns", acceptor->config->sandbox);
	kh_work_share_charge(&acceptor->work, (size_t)sim_below(4 * KH_LIMIT_WORK_SHARE));
}
