/* names.c - resolver and dialer: an answer comes late, is a failure, or comes not at all */
/* wrap: kh_resolver_new kh_resolver_configure kh_resolver_free kh_resolver_lookup */
/* wrap: kh_lookup_cancel kh_lookup_charge kh_dial_start kh_dial_charge kh_dial_cancel */

#include <keyhole/net/dialer.h>

#include "simulation.h"

const char *const sim_host_names[SIM_HOSTS] = {
	[SIM_HOST_KEY] = "key.example",	      [SIM_HOST_FREE] = "free.example",
	[SIM_HOST_OTHER] = "other.example",   [SIM_HOST_PLAIN] = "plain.example",
	[SIM_HOST_SHARED] = "shared.example", [SIM_HOST_MODELS] = "models.example",
	[SIM_HOST_RAW] = "raw.example",	      [SIM_HOST_FORBIDDEN] = "forbidden.example",
};

int sim_host_of(struct kh_slice name)
{
	for (int i = 0; i < SIM_HOSTS; i++)
		if (kh_slice_eq(name, kh_slice_str(sim_host_names[i])))
			return i;
	return -1;
}

/* A lookup or a dial; or a question to a nameserver that outlives the lookup which asked it. */
struct kh_lookup {
	struct kh_lookup *next;
	kh_lookup_cb *found;
	kh_dial_cb *dialled; /* the other one */
	void *arg;
	int host;
	struct kh_addresses addresses; /* of a lookup; of a dial, those that are tried */
	uint64_t deadline_us;
	struct kh_charge *charge; /* of a lookup: its owner's */
	struct kh_charge own;	  /* of a dial: for a further attempt; of a question */
	bool silent;		  /* nobody answers: it ends with its deadline */
};

static struct kh_lookup *pending;
static int the_resolver;

/* ---- the resolver ---- */

struct kh_resolver *__wrap_kh_resolver_new(struct event_base *base, const struct kh_config *config,
					   struct kh_slice resolv_conf, struct kh_slice hosts,
					   struct kh_err *err);
struct kh_resolver *__wrap_kh_resolver_new(struct event_base *base, const struct kh_config *config,
					   struct kh_slice resolv_conf, struct kh_slice hosts,
					   struct kh_err *err)
{
	(void)base;
	(void)config;
	(void)resolv_conf;
	(void)hosts;
	(void)err;
	return (void *)&the_resolver;
}

void __wrap_kh_resolver_configure(struct kh_resolver *resolver, const struct kh_config *config);
void __wrap_kh_resolver_configure(struct kh_resolver *resolver, const struct kh_config *config)
{
	(void)resolver;
	(void)config;
}

void __wrap_kh_resolver_free(struct kh_resolver *resolver);
void __wrap_kh_resolver_free(struct kh_resolver *resolver)
{
	(void)resolver;
}

static struct kh_lookup *begin(int host, uint32_t timeout_ms, void *arg)
{
	struct kh_lookup *lookup = malloc(sizeof(*lookup));

	if (!lookup)
		return NULL;
	*lookup = (struct kh_lookup){ .next = pending, .arg = arg, .host = host };
	lookup->deadline_us = sim_time_now_us() + (uint64_t)timeout_ms * 1000;
	lookup->silent = sim_one_in(16);
	pending = lookup;
	return lookup;
}

static void put_address(struct kh_addresses *out, int host, unsigned which, uint16_t port)
{
	struct kh_sockaddr *at = &out->list[out->count++];

	*at = (struct kh_sockaddr){ .len = sizeof(at->v4) };
	at->v4.sin_family = AF_INET;
	at->v4.sin_port = htons(port);
	at->v4.sin_addr.s_addr = htonl(0x08080000u + which * 256u + (unsigned)host);
}

unsigned sim_net_of(const struct kh_sockaddr *addr)
{
	return ntohl(addr->v4.sin_addr.s_addr) >> 8 & 0xff;
}

struct kh_lookup *__wrap_kh_resolver_lookup(struct kh_resolver *resolver,
					    const struct kh_host *host, uint16_t port,
					    uint32_t timeout_ms, kh_lookup_cb *cb, void *arg);
struct kh_lookup *__wrap_kh_resolver_lookup(struct kh_resolver *resolver,
					    const struct kh_host *host, uint16_t port,
					    uint32_t timeout_ms, kh_lookup_cb *cb, void *arg)
{
	int index = sim_host_of(kh_slice_str(host->text));

	(void)resolver;
	SIM_CHECK(index >= 0, "%s is looked up", host->text);
	sim_journal_allows(index, "a lookup");
	struct kh_lookup *lookup = begin(index, timeout_ms, arg);
	if (!lookup)
		return NULL;
	lookup->found = cb;
	unsigned first = (unsigned)sim_below(2), n = 1 + (unsigned)sim_below(2);
	for (unsigned i = 0; i < n; i++)
		put_address(&lookup->addresses, index, first ^ i, port);
	return lookup;
}

static void take_out(struct kh_lookup *lookup)
{
	struct kh_lookup **at = &pending;

	while (*at && *at != lookup)
		at = &(*at)->next;
	SIM_CHECK(*at, "a lookup or a dial ends twice");
	*at = lookup->next;
}

void __wrap_kh_lookup_charge(struct kh_lookup *lookup, struct kh_charge *charge);
void __wrap_kh_lookup_charge(struct kh_lookup *lookup, struct kh_charge *charge)
{
	lookup->charge = charge;
}

/* Nobody waits for it any more: its question goes on alone, at times, and with the charge. */
static void leave_question(struct kh_lookup *lookup)
{
	if (!lookup->charge || !kh_charge_holds(lookup->charge) || sim_one_in(2))
		return;
	bool before = sim_faults_set(false);
	struct kh_lookup *question = begin(lookup->host, 2000, NULL);
	SIM_CHECK(question, "no memory");
	kh_charge_move(&question->own, lookup->charge);
	(void)sim_faults_set(before);
}

bool sim_names_has_questions(void)
{
	for (struct kh_lookup *at = pending; at; at = at->next)
		if (!at->found && !at->dialled)
			return true;
	return false;
}

void __wrap_kh_lookup_cancel(struct kh_lookup *lookup);
void __wrap_kh_lookup_cancel(struct kh_lookup *lookup)
{
	take_out(lookup);
	leave_question(lookup);
	kh_charge_release(&lookup->own);
	free(lookup);
}

/* ---- the dialer ---- */

struct kh_dial *__wrap_kh_dial_start(struct event_base *base, const struct kh_addresses *addresses,
				     const struct kh_cidr *allow, size_t n_allow,
				     const struct kh_dial_geo *geo, uint32_t timeout_ms,
				     kh_dial_cb *cb, void *arg);
struct kh_dial *__wrap_kh_dial_start(struct event_base *base, const struct kh_addresses *addresses,
				     const struct kh_cidr *allow, size_t n_allow,
				     const struct kh_dial_geo *geo, uint32_t timeout_ms,
				     kh_dial_cb *cb, void *arg)
{
	SIM_CHECK(addresses->count > 0, "nothing is dialled");
	int host = (int)(ntohl(addresses->list[0].v4.sin_addr.s_addr) & 0xff);

	(void)base;
	(void)allow;
	(void)n_allow;
	(void)geo;
	sim_journal_allows(host, "a dial");
	for (size_t i = 0; i < addresses->count; i++)
		sim_journal_allows_net(host, sim_net_of(&addresses->list[i]));
	struct kh_lookup *dial = begin(host, timeout_ms, arg);
	if (!dial)
		return NULL;
	dial->dialled = cb;
	dial->addresses = *addresses;
	return (struct kh_dial *)(void *)dial;
}

/* One attempt beside the first, or none. */
void __wrap_kh_dial_charge(struct kh_dial *dial, struct kh_account *account);
void __wrap_kh_dial_charge(struct kh_dial *dial, struct kh_account *account)
{
	struct kh_lookup *one = (struct kh_lookup *)(void *)dial;
	struct kh_charge charge = { 0 };

	if (one->own.account == account)
		return;
	(void)kh_charge_take(&charge, account, KH_RESOURCE_DESCRIPTORS, 0);
	if (sim_one_in(2))
		(void)kh_charge_resize(&charge, 1);
	kh_charge_move(&one->own, &charge);
}

void __wrap_kh_dial_cancel(struct kh_dial *dial);
void __wrap_kh_dial_cancel(struct kh_dial *dial)
{
	__wrap_kh_lookup_cancel((struct kh_lookup *)(void *)dial);
}

/* ---- answers ---- */

static void answer_lookup(struct kh_lookup *lookup, bool late)
{
	struct kh_err err = KH_ERR_INIT;
	bool fails = late || sim_one_in(12);

	if (fails)
		kh_err_set(&err, late ? KH_ERR_DNS_TIMEOUT : KH_ERR_NAME_NOT_FOUND,
			   "%s: no address", sim_host_names[lookup->host]);
	sim_trace("lookup of %s: %s", sim_host_names[lookup->host], fails ? err.text : "found");
	(void)sim_faults_set(true);
	lookup->found(fails ? NULL : &lookup->addresses, fails ? &err : NULL, lookup->arg);
	(void)sim_faults_set(false);
}

static void answer_dial(struct kh_lookup *dial, bool late)
{
	struct kh_err err = KH_ERR_INIT;
	struct sim_pipe *pipe = late || sim_one_in(12) ? NULL : sim_pipe_new(true);
	size_t at = sim_below(dial->addresses.count);
	int fd = -1;

	if (pipe) {
		pipe->host = dial->host;
		pipe->net = sim_net_of(&dial->addresses.list[at]);
		sim_upstream_new(pipe);
		fd = sim_pipe_fd(pipe);
	} else {
		kh_err_set(&err, late ? KH_ERR_CONNECT_TIMEOUT : KH_ERR_CONNECT_REFUSED,
			   "nobody answers");
	}
	sim_trace("dial to %s: %s", sim_host_names[dial->host], pipe ? "connected" : err.text);
	(void)sim_faults_set(true);
	dial->dialled(fd, &dial->addresses.list[at], pipe ? NULL : &err, dial->arg);
	(void)sim_faults_set(false);
}

bool sim_names_step(void)
{
	struct kh_lookup *ready[SIM_PIPES * 4];
	size_t n = 0;

	for (struct kh_lookup *at = pending; at && n < SIM_PIPES * 4; at = at->next)
		if (!at->silent || sim_time_now_us() >= at->deadline_us)
			ready[n++] = at;
	if (n == 0 || (sim.mood.slow_names && !sim.calm && !sim_one_in(12)))
		return false;
	struct kh_lookup *one = ready[sim_below(n)];
	bool late = sim_time_now_us() >= one->deadline_us;
	take_out(one);
	if (late)
		leave_question(one);
	kh_charge_release(&one->own);
	if (one->found)
		answer_lookup(one, late);
	else if (one->dialled)
		answer_dial(one, late);
	free(one);
	return true;
}

uint64_t sim_names_next_us(void)
{
	uint64_t next = UINT64_MAX;

	for (struct kh_lookup *at = pending; at; at = at->next)
		next = at->deadline_us < next ? at->deadline_us : next;
	return next;
}

void sim_names_free(void)
{
	SIM_CHECK(!pending, "a lookup or a dial is left at the end");
}
