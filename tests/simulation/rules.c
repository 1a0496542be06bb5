/*
 * rules.c - the configurations, and what they mean: what may go up, where, and with what
 *
 * Each is written twice: as a file that keyhole reads, and as a table that is looked at when it
 * sends something. They shuffle, add and take out tenants, credentials, denials and limits.
 */
/* wrap: kh_request_may_go_to */

#include <sys/mman.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/file.h>
#include <keyhole/exchange/exchange.h>
#include <keyhole/policy/quota.h>
#include <keyhole/policy/quota_slots.h>

#include <exchange/exchange_internal.h>

#include "simulation.h"

enum {
	CONFIGURATIONS = 5,
	CREDENTIALS = 2,
	TENANTS = 3,
	PLACES = 64,
	NO_RULE = -2,
	NONE = SIM_NO_VALUE
};
/* Of sim_values. */
enum { KEY = 0, OTHER, KEY_ANEW };

struct tenant_rules {
	const char *name;
	bool observes;
	unsigned denied;       /* bit n: 8.8.n.0/24 */
	int values[SIM_HOSTS]; /* that go there */
};

struct configuration {
	const char *text;
	int credentials[CREDENTIALS]; /* their values, in the order of the file */
	struct tenant_rules tenants[TENANTS];
};

#define BEGIN \
	"version: 1\n" \
	"timeouts: { header: 5s, handshake: 3s, connect: 2s, resolve: 2s, response: 8s,\n" \
	"  idle_down: 10s, idle_up: 10s, stall: 6s, total: 40s, tunnel_idle: 10s, tunnel: 40s,\n" \
	"  websocket: 10s }\n" \
	"credentials:\n"
#define CREDENTIAL_KEY(env) \
	"  key: { value: { env: " env " }, header: { x-api-key: \"{}\" },\n" \
	"    hosts: [ key.example, shared.example, models.example ] }\n"
#define CREDENTIAL_OTHER \
	"  other: { value: { env: O }, header: { x-api-key: \"{}\" },\n" \
	"    hosts: [ other.example, shared.example, key.example ] }\n"
#define LISTEN "listen:\n"
#define ACME_A \
	"  - { unix: /nowhere/a, tenant: acme, sandbox: acme-a, limits: { requests: 90/min } }\n"
#define ACME_B "  - { unix: /nowhere/b, tenant: acme, sandbox: acme-b }\n"
#define GLOBEX_C "  - { unix: /nowhere/c, tenant: globex, sandbox: globex-c }\n"
#define DENY(net) \
	"    { deny: \"https://[8.8." net ".0/24]\" }, { deny: \"http://[8.8." net ".0/24]\" },\n" \
	"    { deny: \"tcp://[8.8." net ".0/24]:22\" },\n"
#define TENANT(name, what, first) "  " name ": { " what "rules: [\n" first
#define ACME_RULES(credential) \
	"    { allow: \"https://key.example\"" credential " },\n" \
	"    { allow: \"https://shared.example/free/**\" },\n" \
	"    { allow: \"https://shared.example\", credential: key },\n" \
	"    { allow: \"https://models.example\", credential: key, models: \"good-*\" },\n" \
	"    { allow: \"http://plain.example\" } ] }\n"
#define ACME_MORE \
	"    { deny: \"* https://free.example/denied/**\" },\n" \
	"    { allow: \"https://free.example\" }, { allow: \"tcp://raw.example:22\" },\n"
#define GLOBEX_RULES \
	"    { allow: \"https://other.example\", credential: other },\n" \
	"    { allow: \"https://shared.example\", credential: other },\n" \
	"    { allow: \"http://plain.example\", limits: { requests: 80/min } } ] }\n"

#define ACME_VALUES(at_key, key, more) \
	{ \
		[SIM_HOST_KEY] = (at_key), [SIM_HOST_FREE] = (more), [SIM_HOST_OTHER] = NO_RULE, \
		[SIM_HOST_PLAIN] = NONE, [SIM_HOST_RAW] = (more), [SIM_HOST_SHARED] = (key), \
		[SIM_HOST_MODELS] = (key), [SIM_HOST_FORBIDDEN] = NO_RULE \
	}
#define GLOBEX_VALUES \
	{ \
		[SIM_HOST_KEY] = NO_RULE, [SIM_HOST_FREE] = NO_RULE, [SIM_HOST_OTHER] = OTHER, \
		[SIM_HOST_PLAIN] = NONE, [SIM_HOST_RAW] = NO_RULE, [SIM_HOST_SHARED] = OTHER, \
		[SIM_HOST_MODELS] = NO_RULE, [SIM_HOST_FORBIDDEN] = NO_RULE \
	}

static const struct configuration configurations[CONFIGURATIONS] = {
	{ .text = BEGIN CREDENTIAL_KEY("K") CREDENTIAL_OTHER LISTEN ACME_A ACME_B GLOBEX_C
	  "tenants:\n" TENANT(
		  "acme", "limits: { requests: 200/min, bytes_down: 4MiB/min, concurrency: 16 }, ",
		  "") ACME_MORE ACME_RULES(", credential: key") TENANT("globex", "", DENY("1"))
		  GLOBEX_RULES,
	  .credentials = { KEY, OTHER },
	  .tenants = { { "acme", .values = ACME_VALUES(KEY, KEY, NONE) },
		       { "globex", .denied = 2, .values = GLOBEX_VALUES } } },
	/* The tenants change places; a listener, hosts and denials come and go. */
	{ .text = BEGIN CREDENTIAL_KEY("K") CREDENTIAL_OTHER LISTEN GLOBEX_C ACME_A
	  "tenants:\n" TENANT("globex", "limits: { requests: 5/min, connections: 6 }, ", "")
		  GLOBEX_RULES TENANT("acme", "", DENY("1")) ACME_RULES(", credential: key"),
	  .credentials = { KEY, OTHER },
	  .tenants = { { "globex", .values = GLOBEX_VALUES },
		       { "acme", .denied = 2, .values = ACME_VALUES(KEY, KEY, NO_RULE) } } },
	/* One in front; another credential at key.example. */
	{ .text = BEGIN CREDENTIAL_KEY("K") CREDENTIAL_OTHER LISTEN ACME_A GLOBEX_C
	  "tenants:\n" TENANT("zeta", "", "") GLOBEX_RULES TENANT("acme", "", DENY("0"))
		  ACME_MORE ACME_RULES(", credential: other") TENANT(
			  "globex", "mode: observe, limits: { requests: 3/min, concurrency: 1 }, ",
			  DENY("0")) GLOBEX_RULES,
	  .credentials = { KEY, OTHER },
	  .tenants = { { "acme", .denied = 1, .values = ACME_VALUES(OTHER, KEY, NONE) },
		       { "globex", .observes = true, .denied = 1, .values = GLOBEX_VALUES } } },
	/* One alone, and only observed; key.example has no credential. */
	{ .text = BEGIN CREDENTIAL_KEY("K") LISTEN ACME_B ACME_A "tenants:\n" TENANT(
		  "acme", "mode: observe, limits: { requests: 2/min, bytes_up: 20KiB/min }, ", "")
		  ACME_MORE ACME_RULES(""),
	  .credentials = { KEY },
	  .tenants = { { "acme", .observes = true, .values = ACME_VALUES(NONE, KEY, NONE) } } },
	/* The credentials change places, and one is another value. */
	{ .text = BEGIN CREDENTIAL_OTHER CREDENTIAL_KEY("L") LISTEN ACME_A ACME_B GLOBEX_C
	  "site: { limits: { concurrency: 12 } }\n"
	  "tenants:\n" TENANT(
		  "acme",
		  "limits: { concurrency: 2, bytes_up: 60KiB/min, bytes_down: 300KiB/min }, ",
		  DENY("1")) ACME_MORE ACME_RULES(", credential: key")
		  TENANT("globex", "", DENY("0")) GLOBEX_RULES,
	  .credentials = { OTHER, KEY_ANEW },
	  .tenants = { { "acme", .denied = 2, .values = ACME_VALUES(KEY_ANEW, KEY_ANEW, NONE) },
		       { "globex", .denied = 1, .values = GLOBEX_VALUES } } },
};

/* What a limit may be called in a record. */
static const char *const limits[] = {
	"requests 90/min",    "requests 200/min",      "requests 80/min",     "requests 5/min",
	"requests 3/min",     "requests 2/min",	       "bytes_down 4MiB/min", "bytes_up 20KiB/min",
	"bytes_up 60KiB/min", "bytes_down 300KiB/min", "concurrency 16",      "concurrency 1",
	"concurrency 2",      "concurrency 12",	       "connections 6",
};

const char sim_value_mark[] = "SIMVALUE";
const char *const sim_values[SIM_VALUES] = {
	[KEY] = "SIMVALUE-of-key",
	[OTHER] = "SIMVALUE-of-other",
	[KEY_ANEW] = "SIMVALUE-of-key-anew",
};

static int snapshots[CONFIGURATIONS];
static struct kh_quota_slots *ledger;
static _Atomic uint64_t *ledger_numbers;
static uint32_t places[PLACES]; /* slots of `concurrency` and `connections` */
static size_t n_places;

/* ---- as keyhole reads them ---- */

static void note_place(uint32_t most, uint32_t slot)
{
	SIM_CHECK(n_places < PLACES, "too many limits");
	if (most)
		places[n_places++] = slot;
}

static void note_places(const struct kh_limits *of)
{
	if (!of)
		return;
	note_place(of->concurrency, of->concurrency_slot);
	note_place(of->connections, of->connections_slot);
}

static void encode(size_t which)
{
	kh_cleanup(kh_buf_fini) struct kh_buf bytes;
	struct kh_diagnostics diags = { 0 };
	struct kh_err err = KH_ERR_INIT;
	struct kh_config *config = kh_config_parse(
		"simulation", kh_slice_str(configurations[which].text), NULL, "/nowhere", &diags);

	for (size_t i = 0; i < diags.count && !config; i++)
		(void)fprintf(stderr, "%s\n", diags.list[i].text);
	kh_diagnostics_fini(&diags);
	SIM_CHECK(config, "the configuration is wrong");
	SIM_CHECK(kh_quota_slots_assign(ledger, config, 0, &err), "%s", err.text);
	note_places(config->site_limits);
	for (size_t i = 0; i < config->n_tenants; i++)
		note_places(config->tenants[i].limits);
	for (size_t i = 0; i < config->n_listeners; i++)
		note_places(config->listeners[i].limits);
	kh_buf_init(&bytes, 64 * 1024);
	SIM_CHECK(kh_config_encode(config, &bytes), "no memory");
	kh_config_free(config);
	snapshots[which] = kh_file_sealed("simulation", kh_buf_view(&bytes), NULL);
}

void sim_rules_prepare(void)
{
	struct kh_err err = KH_ERR_INIT;

	ledger = kh_quota_slots_new(&err);
	SIM_CHECK(ledger, "%s", err.text);
	for (size_t i = 0; i < CONFIGURATIONS; i++)
		encode(i);
	void *map = mmap(NULL, sim_rules_slots() * sizeof(*ledger_numbers), PROT_READ | PROT_WRITE,
			 MAP_SHARED, sim_rules_ledger(), 0);
	SIM_CHECK(map != MAP_FAILED, "no ledger");
	ledger_numbers = map;
}

int sim_rules_snapshot(unsigned which)
{
	SIM_CHECK(lseek(snapshots[which], 0, SEEK_SET) == 0, "no snapshot");
	return snapshots[which];
}

int sim_rules_ledger(void)
{
	return kh_quota_slots_fd(ledger);
}

uint32_t sim_rules_slots(void)
{
	return kh_quota_slots_slots(ledger);
}

void sim_rules_reset(void)
{
	for (uint32_t i = 0; i < sim_rules_slots(); i++)
		atomic_store(&ledger_numbers[i], 0);
}

void sim_rules_check_places(void)
{
	for (size_t i = 0; i < n_places; i++)
		SIM_CHECK(kh_places_taken(atomic_load(&ledger_numbers[places[i]])) == 0,
			  "a place of a limit is held by nobody");
}

unsigned sim_rules_other_than(unsigned which)
{
	return (which + 1 + (unsigned)sim_below(CONFIGURATIONS - 1)) % CONFIGURATIONS;
}

/* ---- as they are meant ---- */

static const struct tenant_rules *find(unsigned which, const char *tenant)
{
	for (size_t i = 0; i < TENANTS && configurations[which].tenants[i].name; i++)
		if (strcmp(configurations[which].tenants[i].name, tenant) == 0)
			return &configurations[which].tenants[i];
	return NULL;
}

const char *sim_rules_tenant_of(const char *sandbox)
{
	return strncmp(sandbox, "acme", 4) == 0 ? "acme" : "globex";
}

bool sim_rules_have(unsigned which, const char *tenant)
{
	return find(which, tenant) != NULL;
}

int sim_rules_credential(unsigned which, unsigned index)
{
	const struct configuration *c = &configurations[which];

	SIM_CHECK(index < CREDENTIALS && (index == 0 || c->credentials[1] != c->credentials[0]),
		  "an unknown value is asked for");
	return c->credentials[index];
}

bool sim_rules_observe(unsigned which, const char *tenant)
{
	const struct tenant_rules *rules = find(which, tenant);

	return rules && rules->observes;
}

bool sim_rules_deny_net(unsigned which, const char *tenant, unsigned net)
{
	const struct tenant_rules *rules = find(which, tenant);

	return !rules || (!rules->observes && (rules->denied >> net & 1));
}

bool sim_rules_withhold_at(unsigned which, const char *tenant, unsigned net)
{
	const struct tenant_rules *rules = find(which, tenant);

	return rules && rules->observes && (rules->denied >> net & 1);
}

int sim_rules_value(unsigned which, const char *tenant, int host, const char *path)
{
	const struct tenant_rules *rules = find(which, tenant);
	int value = rules ? rules->values[host] : NO_RULE;

	if (host == SIM_HOST_FREE && strncmp(path, "/denied/", 8) == 0)
		value = NO_RULE;
	SIM_CHECK(rules && (value != NO_RULE || rules->observes),
		  "%s%s gets a request of %s that no rule in force allows", sim_host_names[host],
		  path, tenant);
	bool free = host == SIM_HOST_SHARED && strncmp(path, "/free/", 6) == 0 &&
		    strcmp(tenant, "acme") == 0;
	return value == NO_RULE || free ? NONE : value;
}

void sim_rules_check_limit(const char *limit, const char *tenant, const char *sandbox)
{
	char begin[2][64];
	const char *colon = limit ? strstr(limit, ": ") : NULL;
	bool known = false;

	if (!limit)
		return;
	(void)snprintf(begin[0], sizeof(begin[0]), "tenant %s: ", tenant);
	(void)snprintf(begin[1], sizeof(begin[1]), "sandbox %s: ", sandbox);
	SIM_CHECK(strncmp(limit, "tenant", 6) != 0 ||
			  strncmp(limit, begin[0], strlen(begin[0])) == 0,
		  "a record of %s names the limit \"%s\"", tenant, limit);
	SIM_CHECK(strncmp(limit, "sandbox", 7) != 0 ||
			  strncmp(limit, begin[1], strlen(begin[1])) == 0,
		  "a record of %s names the limit \"%s\"", sandbox, limit);
	while (colon && strstr(colon + 2, ": "))
		colon = strstr(colon + 2, ": ");
	for (size_t i = 0; colon && i < sizeof(limits) / sizeof(limits[0]); i++)
		known |= strcmp(colon + 2, limits[i]) == 0;
	SIM_CHECK(known, "a record names the limit \"%s\", which is none", limit);
}

/* ---- when something goes up ---- */

bool __real_kh_request_may_go_to(struct kh_exchange *x, const struct kh_sockaddr *addr,
				 struct kh_err *err);
bool __wrap_kh_request_may_go_to(struct kh_exchange *x, const struct kh_sockaddr *addr,
				 struct kh_err *err);
/* For each address that would be dialled; and of a connection that is there, when a head is about
 * to go. */
bool __wrap_kh_request_may_go_to(struct kh_exchange *x, const struct kh_sockaddr *addr,
				 struct kh_err *err)
{
	const char *sandbox = x->side->acceptor->config->sandbox;
	const char *tenant = sim_rules_tenant_of(sandbox);
	unsigned which = sim_keeper_which(sim.loop->gen->number);

	if (!__real_kh_request_may_go_to(x, addr, err))
		return false;
	if (addr)
		SIM_CHECK(!sim_rules_deny_net(which, tenant, sim_net_of(addr)),
			  "%s may go to 8.8.%u.0/24, which the rules in force deny", sandbox,
			  sim_net_of(addr));
	if (x->state == KH_EXCHANGE_RELAY)
		sim_journal_head_goes(x->id, sandbox, which);
	return true;
}
