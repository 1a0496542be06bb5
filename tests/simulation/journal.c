/* journal.c - the journal: what it has decides what may go out */
/* wrap: kh_audit_open kh_audit_close kh_journal_commit */

#include <keyhole/audit/audit.h>

#include "simulation.h"

enum { RECORDS = 4096, PATH_BYTES = 48 };

struct record {
	char id[KH_EXCHANGE_ID_BYTES];
	char path[PATH_BYTES];
	int host;
	uint64_t whose; /* the tenant, and what goes in */
	uint64_t sandbox;
	int value;    /* of sim_values; -1: none goes in */
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

bool __real_kh_audit_open(struct kh_batch *batch, const struct kh_audit_open *what);
bool __wrap_kh_audit_open(struct kh_batch *batch, const struct kh_audit_open *what);
bool __wrap_kh_audit_open(struct kh_batch *batch, const struct kh_audit_open *what)
{
	if (!__real_kh_audit_open(batch, what))
		return false;
	SIM_CHECK(n_records < RECORDS, "too many records");
	struct record *record = &records[n_records++];
	*record = (struct record){ .host = -1, .value = -1 };
	record->whose = hash_on(hash_on(1, what->tenant), what->credential);
	record->sandbox = hash_on(1, what->sandbox);
	if (what->credential)
		record->value = strcmp(what->credential, "key") == 0 ? 0 : 1;
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
	bool ok = __real_kh_audit_close(batch, how);
	SIM_CHECK(ok, "%s has an open record, and its close record is lost", how->id);
	record->closes = true;
	sim_trace("record: %s closes with %u, %s", how->id, how->status,
		  kh_err_reason(how->reason));
	return ok;
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

static const struct record *find_request(int host, struct kh_slice path)
{
	for (size_t i = 0; i < n_records; i++)
		if (records[i].host == host && records[i].written &&
		    kh_slice_eq(path, kh_slice_str(records[i].path)))
			return &records[i];
	sim_fail("the request %.*s to %s has no record", (int)path.len, path.ptr,
		 sim_host_names[host]);
}

const char *sim_journal_allows_request(struct sim_pipe *pipe, struct kh_slice path)
{
	const struct record *record = find_request(pipe->host, path);
	uint64_t whose = record->whose ^ (pipe->h2 ? record->sandbox : 0);

	SIM_CHECK(!pipe->whose || pipe->whose == whose,
		  "%.*s goes by a connection of other credentials or sandboxes", (int)path.len,
		  path.ptr);
	pipe->whose = whose;
	return record->value >= 0 ? sim_values[record->value] : NULL;
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
