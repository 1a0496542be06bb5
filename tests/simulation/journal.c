/* journal.c - the journal: what it has decides what may go out */
/* wrap: kh_audit_open kh_audit_close kh_audit_deny kh_journal_commit */

#include <keyhole/audit/audit.h>

#include "simulation.h"

enum { RECORDS = 4096, PATH_BYTES = 48, NAME_BYTES = 32 };

struct record {
	char id[KH_EXCHANGE_ID_BYTES];
	char path[PATH_BYTES];
	int host;
	uint64_t whose; /* the tenant, and what goes in */
	uint64_t sandbox;
	char tenant[NAME_BYTES], named[NAME_BYTES];
	char credential[NAME_BYTES]; /* "": none goes in */
	bool tunnel;
	bool up;      /* a head went up, last when … */
	unsigned by;  /* … this configuration was in force, */
	int value;    /* … by which this goes in; of sim_values */
	bool written; /* its open record */
	bool closes;  /* its close record is in the batch, or written */
	bool closed;
};

static struct record records[RECORDS];
static size_t n_records;

static uint64_t hash_on(uint64_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211u;
	return hash * 31;
}

/* The tenant is that of the sandbox, and so is the limit. */
static void check_whose(const struct kh_audit_open *what)
{
	SIM_CHECK(what->tenant && what->sandbox &&
			  strcmp(what->tenant, sim_rules_tenant_of(what->sandbox)) == 0,
		  "a record names the sandbox %s and the tenant %s",
		  what->sandbox ? what->sandbox : "", what->tenant ? what->tenant : "");
	sim_rules_check_limit(what->would_limit, what->tenant, what->sandbox);
}

bool __real_kh_audit_open(struct kh_batch *batch, const struct kh_audit_open *what);
bool __wrap_kh_audit_open(struct kh_batch *batch, const struct kh_audit_open *what);
bool __wrap_kh_audit_open(struct kh_batch *batch, const struct kh_audit_open *what)
{
	if (!__real_kh_audit_open(batch, what))
		return false;
	SIM_CHECK(n_records < RECORDS, "too many records");
	struct record *record = &records[n_records++];
	*record = (struct record){ .host = -1, .tunnel = what->tunnel != NULL };
	check_whose(what);
	(void)snprintf(record->tenant, sizeof(record->tenant), "%s", what->tenant);
	(void)snprintf(record->named, sizeof(record->named), "%s", what->sandbox);
	(void)snprintf(record->credential, sizeof(record->credential), "%s",
		       what->credential ? what->credential : "");
	record->whose = hash_on(hash_on(1, what->tenant), what->credential);
	record->sandbox = hash_on(1, what->sandbox);
	(void)snprintf(record->id, sizeof(record->id), "%s", what->id);
	(void)snprintf(record->path, sizeof(record->path), "%.*s", (int)what->path.len,
		       what->path.ptr);
	if (what->authority)
		record->host = sim_host_of(kh_slice_str(what->authority->host.text));
	sim_trace("record: %s opens %s%s", record->id,
		  record->host >= 0 ? sim_host_names[record->host] : "", record->path);
	return true;
}

static struct record *find(const char *id)
{
	for (size_t i = n_records; i > 0; i--)
		if (strcmp(records[i - 1].id, id) == 0)
			return &records[i - 1];
	sim_fail("%s is closed and was never opened", id);
}

bool __real_kh_audit_close(struct kh_batch *batch, const struct kh_audit_close *how);
bool __wrap_kh_audit_close(struct kh_batch *batch, const struct kh_audit_close *how);
bool __wrap_kh_audit_close(struct kh_batch *batch, const struct kh_audit_close *how)
{
	struct record *record = find(how->id);

	SIM_CHECK(!record->closes, "%s is closed twice", how->id);
	sim_rules_check_limit(how->limit, record->tenant, record->named);
	sim_rules_check_limit(how->would_limit, record->tenant, record->named);
	/* One that finds no room or no memory is made later (ends.h). */
	if (!__real_kh_audit_close(batch, how))
		return false;
	record->closes = true;
	sim_trace("record: %s closes with %u, %s", how->id, how->status,
		  kh_err_reason(how->reason));
	return true;
}

bool __real_kh_audit_deny(struct kh_batch *batch, const struct kh_audit_open *what,
			  const struct kh_audit_close *how);
bool __wrap_kh_audit_deny(struct kh_batch *batch, const struct kh_audit_open *what,
			  const struct kh_audit_close *how);
bool __wrap_kh_audit_deny(struct kh_batch *batch, const struct kh_audit_open *what,
			  const struct kh_audit_close *how)
{
	check_whose(what);
	sim_rules_check_limit(how->limit, what->tenant, what->sandbox);
	sim_rules_check_limit(how->would_limit, what->tenant, what->sandbox);
	return __real_kh_audit_deny(batch, what, how);
}

bool __wrap_kh_journal_commit(struct kh_journal *journal, struct kh_batch *batch,
			      struct kh_err *err);
bool __wrap_kh_journal_commit(struct kh_journal *journal, struct kh_batch *batch,
			      struct kh_err *err)
{
	struct kh_slice bytes = kh_buf_view(&batch->bytes);

	(void)journal;
	if (batch->count == 0)
		return true;
	if (sim_fails(SIM_FAULT_JOURNAL))
		return kh_err_set(err, KH_ERR_AUDIT_UNAVAILABLE, "journal: no space");
	SIM_CHECK(!memmem(bytes.ptr, bytes.len, sim_value_mark, strlen(sim_value_mark)),
		  "a credential's value goes into the journal");
	for (size_t i = 0; i < n_records; i++) {
		records[i].written = true;
		records[i].closed = records[i].closes;
	}
	kh_buf_clear(&batch->bytes);
	batch->count = 0;
	return true;
}

void sim_journal_allows(int host, const char *what)
{
	for (size_t i = 0; i < n_records; i++)
		if (records[i].host == host && records[i].written && !records[i].closes)
			return;
	sim_fail("%s for %s without a record that is open", what,
		 host >= 0 ? sim_host_names[host] : "nobody");
}

void sim_journal_allows_net(int host, unsigned net)
{
	unsigned which = sim_keeper_which(sim.loop->gen->number);

	for (size_t i = 0; i < n_records; i++)
		if (records[i].host == host && records[i].written && !records[i].closes &&
		    !sim_rules_deny_net(which, records[i].tenant, net))
			return;
	sim_fail("8.8.%u.0/24 is dialled for %s, and the rules in force deny it to all that ask",
		 net, sim_host_names[host]);
}

/* In that configuration, which the record says as well. */
static int due_value(const struct record *record, unsigned which)
{
	int value = sim_rules_value(which, record->tenant, record->host, record->path);
	/* Whether it is for a model that the rule names is not known here. */
	bool either = record->host == SIM_HOST_MODELS && sim_rules_observe(which, record->tenant);

	return either && !record->credential[0] ? SIM_NO_VALUE : value;
}

void sim_journal_head_goes(const char *id, const char *sandbox, unsigned which)
{
	static const char *const names[SIM_VALUES] = { "key", "other", "key" };
	struct record *record = find(id);

	SIM_CHECK(strcmp(record->named, sandbox) == 0, "%s has a record of %s", sandbox,
		  record->named);
	if (record->tunnel || record->host < 0)
		return;
	record->value = due_value(record, which);
	SIM_CHECK(
		strcmp(record->credential, record->value >= 0 ? names[record->value] : "") == 0,
		"%s%s goes up for %s, and its record names the credential \"%s\", which the rules "
		"in force (%u) do not",
		sim_host_names[record->host], record->path, sandbox, record->credential, which);
	record->up = true;
	record->by = which;
}

static const struct record *find_request(int host, struct kh_slice path)
{
	/* Decided anew, it has several, and goes by the last. */
	for (size_t i = n_records; i > 0; i--)
		if (records[i - 1].host == host && records[i - 1].written &&
		    kh_slice_eq(path, kh_slice_str(records[i - 1].path)))
			return &records[i - 1];
	sim_fail("the request %.*s to %s has no record", (int)path.len, path.ptr,
		 sim_host_names[host]);
}

const char *sim_journal_allows_request(struct sim_pipe *pipe, struct kh_slice path, bool has_value)
{
	const struct record *record = find_request(pipe->host, path);
	/* An address that is denied, where that is only observed: it goes without a credential,
	 * also where a second lookup found another address. */
	bool withheld = sim_rules_withhold_at(record->by, record->tenant, pipe->net) ||
			(!has_value && (sim_rules_withhold_at(record->by, record->tenant, 0) ||
					sim_rules_withhold_at(record->by, record->tenant, 1)));
	uint64_t who = withheld ? hash_on(hash_on(1, record->tenant), NULL) : record->whose;
	uint64_t whose = who ^ (pipe->h2 ? record->sandbox : 0);

	SIM_CHECK(!pipe->whose || pipe->whose == whose,
		  "%.*s goes by a connection of other credentials or sandboxes", (int)path.len,
		  path.ptr);
	pipe->whose = whose;
	SIM_CHECK(record->up, "%.*s goes up, and nobody asked whether it may", (int)path.len,
		  path.ptr);
	SIM_CHECK(!sim_rules_deny_net(record->by, record->tenant, pipe->net),
		  "%.*s goes to 8.8.%u.0/24, which was denied to %s when it went", (int)path.len,
		  path.ptr, pipe->net, record->named);
	return record->value >= 0 && !withheld ? sim_values[record->value] : NULL;
}

size_t sim_journal_open_records(void)
{
	size_t n = 0;

	for (size_t i = 0; i < n_records; i++)
		n += !records[i].closes;
	return n;
}

void sim_journal_check_end(void)
{
	for (size_t i = 0; i < n_records; i++)
		SIM_CHECK(records[i].written && records[i].closed,
			  "%s was opened and has no close record", records[i].id);
}

void sim_journal_reset(void)
{
	n_records = 0;
}
