/* keeper.c - what the keeper says: values and leaves, late or never; reloads; sandboxes */
/* wrap: kh_channel_send */

#include <sys/mman.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/config/dynamic_sandbox.h>
#include <keyhole/base/secret.h>
#include <keyhole/config/credential_ref.h>
#include <keyhole/base/wire.h>

#include <keyhole/loop/leaf_requests.h>
#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/loop/values.h>

#include "simulation.h"

enum {
	QUESTIONS = 64,
	SLOTS = 64,
	CONFIGURATIONS = 2,
	SANDBOXES = 4,
	BODY_BYTES = 64 * 1024,
	GONE = 64
};

const char sim_value_mark[] = "SIMVALUE";
const char *const sim_values[2] = { "SIMVALUE-of-key", "SIMVALUE-of-other" };

#define COMMON \
	"version: 1\n" \
	"timeouts: { header: 5s, handshake: 3s, connect: 2s, resolve: 2s, response: 8s,\n" \
	"  idle_down: 10s, idle_up: 10s, stall: 6s, total: 40s, tunnel_idle: 10s, tunnel: 40s,\n" \
	"  websocket: 10s }\n" \
	"credentials:\n" \
	"  key: { value: { env: K }, header: { x-api-key: \"{}\" },\n" \
	"    hosts: [ key.example, shared.example, models.example ] }\n" \
	"  other: { value: { env: O }, header: { x-api-key: \"{}\" },\n" \
	"    hosts: [ other.example, shared.example ] }\n"

/* The second one takes a listener and a host away. */
static const char *const texts[CONFIGURATIONS] = {
	COMMON "listen:\n"
	       "  - { unix: /nowhere/a, tenant: acme, sandbox: a }\n"
	       "  - { unix: /nowhere/b, tenant: acme, sandbox: b }\n"
	       "  - { unix: /nowhere/c, tenant: globex, sandbox: c }\n"
	       "tenants:\n"
	       "  acme: { rules: [ { allow: \"https://key.example\", credential: key },\n"
	       "    { allow: \"https://shared.example/free/**\" },\n"
	       "    { allow: \"https://shared.example\", credential: key },\n"
	       "    { allow: \"https://models.example\", credential: key, models: \"good-*\" },\n"
	       "    { deny: \"* https://free.example/denied/**\" },\n"
	       "    { allow: \"https://free.example\" }, { allow: \"http://plain.example\" },\n"
	       "    { allow: \"tcp://raw.example:22\" } ] }\n"
	       "  globex: { rules: [ { allow: \"https://other.example\", credential: other },\n"
	       "    { allow: \"https://shared.example\", credential: other },\n"
	       "    { allow: \"http://plain.example\" } ] }\n",
	COMMON "listen:\n"
	       "  - { unix: /nowhere/c, tenant: globex, sandbox: c }\n"
	       "  - { unix: /nowhere/a, tenant: acme, sandbox: a }\n"
	       "tenants:\n"
	       "  globex: { rules: [ { allow: \"https://other.example\", credential: other },\n"
	       "    { allow: \"https://shared.example\", credential: other },\n"
	       "    { allow: \"http://plain.example\" } ] }\n"
	       "  acme: { rules: [ { allow: \"https://key.example\", credential: key },\n"
	       "    { allow: \"https://shared.example/free/**\" },\n"
	       "    { allow: \"https://shared.example\", credential: key },\n"
	       "    { allow: \"https://models.example\", credential: key, models: \"good-*\" },\n"
	       "    { allow: \"http://plain.example\" } ] }\n",
};

struct question {
	enum kh_channel_type type;
	uint32_t ref;
	struct kh_buf body;
};

static struct question questions[QUESTIONS];
static size_t n_questions;
static int snapshots[CONFIGURATIONS], ledger = -1;
static struct kh_secret *secrets[2];
static unsigned in_force;
static uint32_t number;
static uint64_t n_dynamic_sandboxes;
static struct kh_account *left[GONE]; /* accounts of sandboxes that were removed; references */
static size_t n_left;
static char dynamic_sandbox_ids[SANDBOXES][16];
static bool dynamic_sandbox_globex[SANDBOXES];

/* ---- questions ---- */

bool __real_kh_channel_send(struct kh_channel *channel, enum kh_channel_type type, uint32_t ref,
			    struct kh_slice body, const int *fds, unsigned n_fds,
			    struct kh_err *err);
bool __wrap_kh_channel_send(struct kh_channel *channel, enum kh_channel_type type, uint32_t ref,
			    struct kh_slice body, const int *fds, unsigned n_fds,
			    struct kh_err *err);
bool __wrap_kh_channel_send(struct kh_channel *channel, enum kh_channel_type type, uint32_t ref,
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
	sim_trace("the keeper is asked for a %s", type == KH_CHANNEL_LEAF_WANT ? "leaf" : "value");
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

	SIM_CHECK(kh_credential_ref_take(&r, &want) && want.index < 2,
		  "an unknown value is asked for");
	size_t len = strlen(sim_values[want.index]);
	kh_buf_init(&body, BODY_BYTES);
	SIM_CHECK(kh_credential_ref_put(&body, &want) &&
			  kh_wire_put_u32(&body, there ? (uint32_t)len : 0) &&
			  kh_wire_put_u64(&body, until) &&
			  kh_wire_put_str(&body, there ? NULL : "there is none"),
		  "no memory");
	struct kh_channel_message message = { .type = KH_CHANNEL_CREDENTIAL,
					      .ref = one->ref,
					      .body = kh_buf_view(&body) };
	if (there)
		message.fds[message.n_fds++] = kh_secret_fd(secrets[want.index]);
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
	if (one.type == KH_CHANNEL_CREDENTIAL_WANT)
		answer_value(&one);
	else if (one.type == KH_CHANNEL_LEAF_WANT)
		answer_leaf(&one);
	kh_buf_fini(&one.body);
}

void sim_keeper_stale(void)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	const struct kh_credential_ref want = { (uint16_t)sim_below(2), KH_NO_TENANT, { "", 0 } };

	kh_buf_init(&body, BODY_BYTES);
	SIM_CHECK(kh_wire_put_u8(&body, 1) && kh_credential_ref_put(&body, &want), "no memory");
	const struct kh_channel_message message = { .type = KH_CHANNEL_CREDENTIAL_STALE,
						    .ref = sim.worker.current->number,
						    .body = kh_buf_view(&body) };
	sim_trace("a value is stale");
	SIM_CHECK(kh_values_stale(&sim.worker, &message), "a stale value is not understood");
}

/* ---- configurations ---- */

static int encode(const char *text)
{
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;
	struct kh_diagnostics diags = { 0 };
	struct kh_config *config =
		kh_config_parse("simulation", kh_slice_str(text), NULL, "/nowhere", &diags);

	for (size_t i = 0; i < diags.count && !config; i++)
		(void)fprintf(stderr, "%s\n", diags.list[i].text);
	kh_diagnostics_fini(&diags);
	kh_buf_init(&bytes, BODY_BYTES);
	SIM_CHECK(config && kh_config_encode(config, &bytes), "the configuration is wrong");
	kh_config_free(config);
	return kh_file_sealed("simulation", kh_buf_view(&bytes), NULL);
}

void sim_keeper_prepare(void)
{
	for (size_t i = 0; i < CONFIGURATIONS; i++)
		snapshots[i] = encode(texts[i]);
	ledger = memfd_create("ledger", MFD_CLOEXEC);
	SIM_CHECK(ledger >= 0 && ftruncate(ledger, SLOTS * sizeof(uint64_t)) == 0, "no ledger");
	for (size_t i = 0; i < 2; i++) {
		char value[64];
		(void)snprintf(value, sizeof(value), "%s", sim_values[i]);
		secrets[i] = kh_secret_new(value, strlen(value), NULL);
		SIM_CHECK(secrets[i], "no secret");
	}
}

struct kh_generation *sim_keeper_generation(unsigned which, const struct kh_generation *before)
{
	kh_cleanup(kh_buf_fini) struct kh_buf body;
	struct kh_err err = KH_ERR_INIT;

	kh_buf_init(&body, BODY_BYTES);
	SIM_CHECK(kh_wire_put_u32(&body, SLOTS) && kh_wire_put_u8(&body, 0), "no memory");
	SIM_CHECK(lseek(snapshots[which], 0, SEEK_SET) == 0, "no snapshot");
	struct kh_channel_message message = { .type = KH_CHANNEL_SNAPSHOT,
					      .ref = ++number,
					      .body = kh_buf_view(&body),
					      .fds = { snapshots[which], ledger },
					      .n_fds = 2 };
	struct kh_generation *g = kh_generation_take_snapshot(&message, before, &err);
	SIM_CHECK(g, "a configuration is not understood: %s", err.text);
	for (; g->n_listeners < g->config->n_listeners; g->n_listeners++)
		g->listeners[g->n_listeners] = -1;
	g->has_geo = true;
	atomic_store(&g->at_acceptors, 1);
	in_force = which;
	return g;
}

void sim_keeper_reload(void)
{
	struct kh_generation *next =
		sim_keeper_generation((in_force + 1) % CONFIGURATIONS, sim.worker.current);

	sim_trace("the rules change");
	kh_loop_post_reload(sim.loop, next);
	kh_generation_unref(sim.worker.current);
	sim.worker.current = next;
}

/* ---- sandboxes that come and go ---- */

static void say_dynamic_sandbox(enum kh_channel_type type, struct kh_buf *body, int fd)
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
	dynamic_sandbox_globex[at] = sim_one_in(2);
	(void)snprintf(dynamic_sandbox_ids[at], sizeof(dynamic_sandbox_ids[at]), "g%u",
		       (unsigned)++n_dynamic_sandboxes);
	char tenant[16], path[] = "/nowhere/guest";
	(void)snprintf(tenant, sizeof(tenant), "%s",
		       dynamic_sandbox_globex[at] ? "globex" : "acme");
	const struct kh_dynamic_sandbox_card card = { .number = n_dynamic_sandboxes,
						      .tenant = tenant,
						      .id = dynamic_sandbox_ids[at],
						      .path = path };
	SIM_CHECK(kh_dynamic_sandbox_card_put(&body, &card), "no memory");
	sim_trace("the sandbox %s of %s comes", card.id, card.tenant);
	say_dynamic_sandbox(KH_CHANNEL_DYNAMIC_SANDBOX, &body, dup(ledger));
}

struct dynamic_sandbox_search {
	const char *id;
	struct kh_account *account;
};

static void find_account(void *arg, const struct kh_dynamic_sandbox *guest)
{
	struct dynamic_sandbox_search *search = arg;

	if (strcmp(guest->config.sandbox, search->id) == 0)
		search->account = guest->account;
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
	say_dynamic_sandbox(KH_CHANNEL_DYNAMIC_SANDBOX_GONE, &body, -1);
	dynamic_sandbox_ids[at][0] = '\0';
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
	struct kh_acceptor *doors[SANDBOXES + 8];
	size_t n;
};

static void add_dynamic_sandbox_acceptor(void *arg, const struct kh_dynamic_sandbox *guest)
{
	struct acceptor_search *search = arg;

	/* A guest's door begins with a door. */
	if (guest->doors[0])
		search->doors[search->n++] = (struct kh_acceptor *)(void *)guest->doors[0];
}

struct kh_acceptor *sim_keeper_acceptor(bool *globex)
{
	struct acceptor_search search = { .n = 0 };
	struct kh_loop *loop = sim.loop;

	for (size_t i = 0; i < loop->n_acceptors; i++)
		search.doors[search.n++] = loop->doors[i];
	size_t listeners = search.n;
	kh_dynamic_sandboxes_each(&sim.worker, add_dynamic_sandbox_acceptor, &search);
	size_t first = sim.mood.guests && search.n > listeners && !sim_one_in(4) ? listeners : 0;
	struct kh_acceptor *door =
		search.n ? search.doors[first + sim_below(search.n - first)] : NULL;
	if (!door || !door->event)
		return NULL;
	*globex = strcmp(loop->gen->config->tenants[door->config->tenant].name, "globex") == 0;
	return door;
}
