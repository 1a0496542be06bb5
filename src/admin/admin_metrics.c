/*
 * admin_metrics.c - /metrics: all counters, in the Prometheus text format 0.0.4
 *
 * A sandbox can't create a time series: labels are names of tenants and credentials from the
 * configuration, and words of enums. Hosts, paths and methods are never labels; the journal has
 * them.
 */

#include "admin_internal.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/lru.h>

#include <keyhole/loop/dynamic_sandboxes.h>
#include <keyhole/loop/loop.h>
#include <keyhole/loop/values.h>

struct page {
	struct kh_buf *out;
	const struct kh_admin_request *request;
	const struct kh_worker *worker;
	const struct kh_generation *gen;
	bool ok;
};

static void put(struct page *page, const char *text)
{
	page->ok = page->ok && kh_buf_append_str(page->out, text);
}

static void put_number(struct page *page, uint64_t number)
{
	page->ok = page->ok && kh_buf_append_u64(page->out, number);
}

/* A label's value. */
static void put_value(struct page *page, const char *text)
{
	for (const char *c = text; *c && page->ok; c++) {
		if (*c == '\\' || *c == '"')
			page->ok = kh_buf_append_char(page->out, '\\');
		page->ok = page->ok && kh_buf_append_char(page->out, *c == '\n' ? ' ' : *c);
	}
}

static void family(struct page *page, const char *name, const char *type, const char *help)
{
	page->ok = page->ok &&
		   kh_buf_printf(page->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* `label` may be NULL; `value` is one of ours and needs no escape where `more` follows. */
static void sample(struct page *page, const char *name, const char *label, const char *value,
		   uint64_t number)
{
	put(page, name);
	if (label) {
		put(page, "{");
		put(page, label);
		put(page, "=\"");
		put_value(page, value);
		put(page, "\"}");
	}
	put(page, " ");
	put_number(page, number);
	put(page, "\n");
}

static void sample_of_tenant(struct page *page, const char *name, const char *tenant,
			     const char *label, const char *value, uint64_t number)
{
	put(page, name);
	put(page, "{tenant=\"");
	put_value(page, tenant);
	put(page, "\",");
	put(page, label);
	put(page, "=\"");
	put(page, value);
	put(page, "\"} ");
	put_number(page, number);
	put(page, "\n");
}

static void single(struct page *page, const char *name, const char *type, uint64_t number,
		   const char *help)
{
	family(page, name, type, help);
	sample(page, name, NULL, NULL, number);
}

static uint64_t sum(const struct page *page, enum kh_count_index what)
{
	return kh_admin_sum(page->worker, what);
}

/* --- requests --------------------------------------------------------------------------------- */

static const char *const fates[KH_FATES] = { "allow", "deny", "would_deny" };

static struct kh_tally_row add_up(const struct kh_tally *tally)
{
	struct kh_tally_row all = { .up_bytes = 0 };
	for (unsigned i = 0; tally && i < tally->n_rows; i++) {
		struct kh_tally_row *row =
			atomic_load_explicit(&tally->rows[i], memory_order_acquire);
		for (int fate = 0; row && fate < KH_FATES; fate++)
			kh_counter_add(&all.requests[fate], kh_counter_get(&row->requests[fate]));
		if (row) {
			kh_counter_add(&all.up_bytes, kh_counter_get(&row->up_bytes));
			kh_counter_add(&all.down_bytes, kh_counter_get(&row->down_bytes));
		}
	}
	return all;
}

static void put_tenants(struct page *page)
{
	const struct kh_config *config = page->gen->config;
	family(page, "keyhole_requests_total", "counter",
	       "Requests and tunnels by tenant and decision, once they are over. would_deny: "
	       "allowed "
	       "by observe alone.");
	for (size_t i = 0; i < config->n_tenants; i++) {
		struct kh_tally_row row = add_up(page->gen->tallies[i]);
		for (int fate = 0; fate < KH_FATES; fate++)
			sample_of_tenant(page, "keyhole_requests_total", config->tenants[i].name,
					 "decision", fates[fate],
					 kh_counter_get(&row.requests[fate]));
	}
	family(page, "keyhole_content_bytes_total", "counter",
	       "Bytes of content that went up to the internet and down to sandboxes, by tenant.");
	for (size_t i = 0; i < config->n_tenants; i++) {
		struct kh_tally_row row = add_up(page->gen->tallies[i]);
		sample_of_tenant(page, "keyhole_content_bytes_total", config->tenants[i].name,
				 "direction", "up", kh_counter_get(&row.up_bytes));
		sample_of_tenant(page, "keyhole_content_bytes_total", config->tenants[i].name,
				 "direction", "down", kh_counter_get(&row.down_bytes));
	}
}

static void put_reasons(struct page *page, bool denials)
{
	const char *name = denials ? "keyhole_denials_total" : "keyhole_failures_total";
	family(page, name, "counter",
	       denials ? "Refusals by reason."
		       : "What was allowed and did not end well, by reason.");
	for (int code = KH_ERR_NONE + 1; code < KH_ERR_COUNT; code++) {
		uint64_t n = 0;
		for (unsigned i = 0; i < page->worker->n_loops; i++) {
			const struct kh_counts *counts = &page->worker->loops[i]->counts;
			n += kh_counter_get(&(denials ? counts->denials : counts->failures)[code]);
		}
		/* From the start for what alerts ask for; the rest when it has happened. */
		if (n > 0 || kh_err_is_policy((enum kh_err_code)code))
			sample(page, name, "reason", kh_err_reason((enum kh_err_code)code), n);
	}
}

static void put_limits(struct page *page)
{
	family(page, "keyhole_limit_refusals_total", "counter",
	       "What a limit refused or ended, by the limit.");
	for (int kind = KH_QUOTA_NONE + 1; kind < KH_QUOTA_KINDS; kind++) {
		uint64_t n = 0;
		for (unsigned i = 0; i < page->worker->n_loops; i++)
			n += kh_counter_get(&page->worker->loops[i]->counts.limits[kind]);
		sample(page, "keyhole_limit_refusals_total", "limit",
		       kh_quota_name((enum kh_quota_kind)kind), n);
	}
}

/* "0.0025": seconds, without a float on the way. */
static void put_seconds(struct page *page, uint64_t us)
{
	char text[40];
	int len = snprintf(text, sizeof(text), "%llu.%06llu", (unsigned long long)(us / 1000000),
			   (unsigned long long)(us % 1000000));
	while (len > 2 && text[len - 1] == '0' && text[len - 2] != '.')
		text[--len] = '\0';
	put(page, text);
}

static void put_histogram(struct page *page, const char *name, size_t offset,
			  const struct kh_bounds *bounds, const char *help)
{
	uint64_t buckets[KH_HISTOGRAM_BUCKETS] = { 0 }, sum_us = 0, count = 0;
	for (unsigned i = 0; i < page->worker->n_loops; i++) {
		const char *counts = (const char *)&page->worker->loops[i]->counts;
		const struct kh_histogram *one = (const void *)(counts + offset);
		for (size_t b = 0; b <= bounds->n; b++)
			buckets[b] += kh_counter_get(&one->buckets[b]);
		sum_us += kh_counter_get(&one->sum_us);
	}
	family(page, name, "histogram", help);
	for (size_t b = 0; b <= bounds->n; b++) {
		count += buckets[b];
		put(page, name);
		put(page, "_bucket{le=\"");
		if (b < bounds->n)
			put_seconds(page, bounds->us[b]);
		else
			put(page, "+Inf");
		put(page, "\"} ");
		put_number(page, count);
		put(page, "\n");
	}
	put(page, name);
	put(page, "_sum ");
	put_seconds(page, sum_us);
	put(page, "\n");
	put(page, name);
	put(page, "_count ");
	put_number(page, count);
	put(page, "\n");
}

static void put_requests(struct page *page)
{
	put_tenants(page);
	put_reasons(page, true);
	put_reasons(page, false);
	put_limits(page);
	single(page, "keyhole_requests_running", "gauge", sum(page, KH_COUNT_EXCHANGES_OPEN),
	       "Requests and unread tunnels that are under way.");
	put_histogram(page, "keyhole_request_duration_seconds", offsetof(struct kh_counts, total),
		      &kh_bounds_total,
		      "From a request's head to the end of its answer, of what was allowed.");
	put_histogram(page, "keyhole_request_own_seconds", offsetof(struct kh_counts, own),
		      &kh_bounds_own,
		      "keyhole's own part of that, until a connection is sought: canonical form, "
		      "decision, journal.");
}

/* --- connections ------------------------------------------------------------------------------ */

struct by_tenant {
	struct kh_lru *index; /* of a tenant by its name, from 1 */
	uint64_t *open;
};

static void add_dynamic_sandbox(void *arg, const struct kh_dynamic_sandbox *dynamic_sandbox)
{
	const struct by_tenant *tenants = arg;
	const void *at = kh_lru_get(tenants->index, kh_slice_str(dynamic_sandbox->tenant));
	if (at)
		tenants->open[(uintptr_t)at - 1] +=
			atomic_load(&dynamic_sandbox->listener_stats->connections);
}

static void drop_nothing(void *value)
{
	(void)value;
}

/* The connections of dynamic sandboxes, to those of their tenants. */
static void add_dynamic_sandboxes(struct page *page, uint64_t *open)
{
	const struct kh_config *config = page->gen->config;
	struct kh_worker *worker = page->request->admin->worker;
	if (kh_dynamic_sandboxes_count(worker) == 0)
		return;
	struct by_tenant tenants = { kh_lru_new(config->n_tenants, drop_nothing), open };
	page->ok = page->ok && tenants.index;
	for (size_t i = 0; page->ok && i < config->n_tenants; i++)
		page->ok = kh_lru_put(tenants.index, kh_slice_str(config->tenants[i].name),
				      (void *)(uintptr_t)(i + 1));
	if (page->ok)
		kh_dynamic_sandboxes_each(worker, add_dynamic_sandbox, &tenants);
	kh_lru_free(tenants.index);
}

static void put_listener_stats_list(struct page *page)
{
	const struct kh_config *config = page->gen->config;
	uint64_t *open = calloc(config->n_tenants + 1, sizeof(*open));
	page->ok = page->ok && open;
	for (size_t i = 0; open && i < config->n_listeners; i++)
		open[config->listeners[i].tenant] +=
			atomic_load(&page->gen->listener_stats_list[i]->connections);
	if (open)
		add_dynamic_sandboxes(page, open);
	family(page, "keyhole_connections", "gauge",
	       "Connections from sandboxes that are open, tunnels in HTTP/2 among them.");
	for (size_t i = 0; open && i < config->n_tenants; i++)
		sample(page, "keyhole_connections", "tenant", config->tenants[i].name, open[i]);
	free(open);
}

static void put_handshakes(struct page *page)
{
	static const struct {
		enum kh_count_index what;
		const char *labels;
	} rows[] = {
		{ KH_COUNT_HANDSHAKES_DOWN, "{side=\"sandbox\",result=\"full\"} " },
		{ KH_COUNT_HANDSHAKES_DOWN_RESUMED, "{side=\"sandbox\",result=\"resumed\"} " },
		{ KH_COUNT_HANDSHAKES_DOWN_FAILED, "{side=\"sandbox\",result=\"failed\"} " },
		{ KH_COUNT_HANDSHAKES_UP, "{side=\"upstream\",result=\"full\"} " },
		{ KH_COUNT_HANDSHAKES_UP_RESUMED, "{side=\"upstream\",result=\"resumed\"} " },
		{ KH_COUNT_HANDSHAKES_UP_FAILED, "{side=\"upstream\",result=\"failed\"} " },
	};
	family(page, "keyhole_tls_handshakes_total", "counter",
	       "TLS handshakes with sandboxes and with upstreams.");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		put(page, "keyhole_tls_handshakes_total");
		put(page, rows[i].labels);
		put_number(page, sum(page, rows[i].what));
		put(page, "\n");
	}
}

static void put_connections(struct page *page)
{
	put_listener_stats_list(page);
	single(page, "keyhole_connections_opened_total", "counter", sum(page, KH_COUNT_CONNECTIONS),
	       "Connections from sandboxes that were taken.");
	single(page, "keyhole_connections_refused_total", "counter",
	       sum(page, KH_COUNT_CONNECTIONS_REFUSED),
	       "Connections that were one too many, or for which no descriptor was left.");
	single(page, "keyhole_tunnels", "gauge", sum(page, KH_COUNT_TUNNELS_OPEN),
	       "Tunnels that are open.");
	single(page, "keyhole_tunnels_opened_total", "counter", sum(page, KH_COUNT_TUNNELS),
	       "Tunnels that were opened.");
	single(page, "keyhole_upstream_connections", "gauge", sum(page, KH_COUNT_UP_OPEN),
	       "Connections to upstreams that are open, idle ones among them.");
	single(page, "keyhole_upstream_connections_opened_total", "counter",
	       sum(page, KH_COUNT_UP_OPENED), "Connections to upstreams that were made.");
	family(page, "keyhole_upstream_requests_total", "counter",
	       "Requests that went upstream, on a connection that was there or on a new one.");
	sample(page, "keyhole_upstream_requests_total", "connection", "reused",
	       sum(page, KH_COUNT_UP_REUSED));
	sample(page, "keyhole_upstream_requests_total", "connection", "new",
	       sum(page, KH_COUNT_UP_NEW));
	put_handshakes(page);
	single(page, "keyhole_upstream_clock_skews_total", "counter",
	       sum(page, KH_COUNT_CLOCK_SKEWS),
	       "Answers to signed requests whose Date is over five minutes off this host's.");
}

/* --- the daemon ------------------------------------------------------------------------------- */

static void put_journal(struct page *page)
{
	single(page, "keyhole_journal_records_total", "counter",
	       sum(page, KH_COUNT_JOURNAL_RECORDS), "Records that are in the journal.");
	single(page, "keyhole_journal_failures_total", "counter",
	       sum(page, KH_COUNT_JOURNAL_FAILURES), "Writes of the journal that failed.");
	single(page, "keyhole_journal_writable", "gauge", sum(page, KH_COUNT_JOURNAL_FAILING) == 0,
	       "1 when the journal can be written; nothing is forwarded otherwise.");
}

static void put_millis(struct page *page, const char *name, uint64_t ms, const char *help)
{
	family(page, name, "gauge", help);
	put(page, name);
	put(page, " ");
	put_seconds(page, ms * 1000);
	put(page, "\n");
}

static void put_config(struct page *page)
{
	const struct kh_admin_facts *facts = &page->request->facts;
	family(page, "keyhole_config_reloads_total", "counter",
	       "Times that the configuration was read again; a failed one changed nothing.");
	sample(page, "keyhole_config_reloads_total", "result", "ok", facts->reloads);
	sample(page, "keyhole_config_reloads_total", "result", "failed", facts->failed_reloads);
	single(page, "keyhole_config_last_reload_successful", "gauge", facts->failed_ms == 0,
	       "0 when the file was read again last and had errors.");
	put_millis(page, "keyhole_config_last_reload_success_timestamp_seconds", facts->loaded_ms,
		   "When the configuration in force was read.");
	family(page, "keyhole_config_info", "gauge",
	       "The configuration in force: the SHA-256 of its file.");
	sample(page, "keyhole_config_info", "hash", facts->config_hash ? facts->config_hash : "",
	       1);
	single(page, "keyhole_tenants", "gauge", page->gen->config->n_tenants,
	       "Tenants of the configuration in force.");
	single(page, "keyhole_sandboxes", "gauge",
	       page->gen->config->n_listeners +
		       kh_dynamic_sandboxes_count(page->request->admin->worker),
	       "Sandboxes that are listened to.");
	single(page, "keyhole_sandboxes_added", "gauge",
	       kh_dynamic_sandboxes_count(page->request->admin->worker),
	       "Those of them that were added while it runs.");
}

static void put_credentials(struct page *page)
{
	const struct kh_config *config = page->gen->config;
	struct json_t *states = kh_admin_credential_status(page->request);
	family(page, "keyhole_credential_ready", "gauge", "1 when the credential has a value.");
	for (size_t i = 0; i < config->n_credentials; i++)
		sample(page, "keyhole_credential_ready", "credential", config->credentials[i].name,
		       kh_admin_credential_is_ready(page->request->gen, i, states));
	kh_admin_credential_status_free(states);
	page->ok = page->ok &&
		   kh_admin_put_credential_values(page->request->facts.credentials, page->out);
}

static void put_process(struct page *page)
{
	const struct kh_admin *admin = page->request->admin;
	struct rusage usage;
	struct stat st;
	char text[128];
	ssize_t n = admin->statm >= 0 ? pread(admin->statm, text, sizeof(text) - 1, 0) : -1;
	if (n > 0) {
		text[n] = '\0';
		char *rest = text;
		uint64_t unit = (uint64_t)sysconf(_SC_PAGESIZE), size = strtoull(rest, &rest, 10),
			 resident = strtoull(rest, &rest, 10);
		single(page, "process_virtual_memory_bytes", "gauge", size * unit,
		       "Virtual memory of the worker.");
		single(page, "process_resident_memory_bytes", "gauge", resident * unit,
		       "Resident memory of the worker.");
	}
	/* Linux 6.2 and later say there how many there are. */
	if (admin->fd_count >= 0 && fstat(admin->fd_count, &st) == 0 && st.st_size > 0)
		single(page, "process_open_fds", "gauge", (uint64_t)st.st_size,
		       "Descriptors that the worker has open.");
	single(page, "process_max_fds", "gauge", page->worker->fd_limit,
	       "Descriptors that the worker may have open.");
	if (getrusage(RUSAGE_SELF, &usage) == 0) {
		family(page, "process_cpu_seconds_total", "counter",
		       "Processor time of the worker, user and system.");
		put(page, "process_cpu_seconds_total ");
		put_seconds(page,
			    (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
				    (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec));
		put(page, "\n");
	}
	put_millis(page, "process_start_time_seconds", admin->began_ms,
		   "When the worker was started.");
}

bool kh_admin_put_metrics(const struct kh_admin_request *request, struct kh_buf *out)
{
	struct page page = { .out = out,
			     .request = request,
			     .worker = request->admin->worker,
			     .gen = request->gen,
			     .ok = true };
	const char *why;
	family(&page, "keyhole_build_info", "gauge", "The binary: its version.");
	sample(&page, "keyhole_build_info", "version", KH_VERSION, 1);
	single(&page, "keyhole_ready", "gauge", kh_admin_is_ready(page.worker, &why),
	       "1 when new requests are served, as /readyz has it.");
	put_requests(&page);
	put_connections(&page);
	put_journal(&page);
	put_config(&page);
	put_credentials(&page);
	single(&page, "keyhole_worker_starts_total", "counter", request->facts.starts,
	       "Workers that were started: more than one when one has died.");
	put_millis(&page, "keyhole_start_time_seconds", request->facts.started_ms,
		   "When the daemon was started.");
	put_process(&page);
	return page.ok;
}
