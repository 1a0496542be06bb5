/*
 * refusals.c - records of refusals: one each within a budget, only counted beyond it
 *
 * A sandbox can cause refusals as fast as it can send requests, and a full disk of the journal
 * stops every tenant. So a refusal gets its own record only while its sandbox is within
 * limits.refusals, its tenant's share of the journal's bytes (account.h) is not used up, and the
 * disk has audit.reserve left. Beyond that it is only counted. The first counted one is written at
 * once, as a `denials` record with a count of 1, before its answer is sent; then the count is
 * written every few seconds while it grows, and when the acceptor ends. Forwarded requests always
 * get their records.
 */

#include <string.h>
#include <sys/statvfs.h>

#include <keyhole/base/clock.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>
#include <keyhole/loop/acceptor.h>

/* What is counted and in no record yet, of one acceptor. */
struct kh_refusals {
	char *tenant, *sandbox; /* as they were called then */
	uint64_t count;
	uint64_t since_ms, until_ms; /* wall clock */
	uint64_t said_ms;	     /* monotonic: when the count was written last; 0: never */
	uint64_t by_code[KH_ERR_COUNT];
};

/* ---- the budget ---- */

/* A place behind the others in time, `refusals_burst` of them free at most. */
static bool take_turn(struct kh_listener_stats *listener_stats, const struct kh_config *config)
{
	uint64_t each_us = 1000 * 1000 / config->refusals_per_second;
	uint64_t most_us = (uint64_t)config->refusals_burst * each_us;
	uint64_t now = kh_clock_mono_us(), next;
	uint64_t before = atomic_load(&listener_stats->refusals_us);

	do {
		next = (before > now ? before : now) + each_us;
		if (next > now + most_us)
			return false;
	} while (!atomic_compare_exchange_weak(&listener_stats->refusals_us, &before, next));
	return true;
}

bool kh_refusals_take_place(struct kh_acceptor *acceptor)
{
	const struct kh_loop *loop = acceptor->loop;
	const struct kh_config *config = loop->gen->config;

	/* One that was not read from a file (a test's) has no budget. */
	return config->refusals_per_second == 0 ||
	       (!atomic_load_explicit(&loop->worker->journal_is_short, memory_order_relaxed) &&
		take_turn(acceptor->listener_stats, config));
}

void kh_refusals_look_at_space(struct kh_loop *loop)
{
	struct kh_worker *worker = loop->worker;
	uint64_t reserve = loop->gen->config->audit_reserve;
	struct statvfs fs;

	if (loop->index != 0 || worker->journal_fd < 0 || fstatvfs(worker->journal_fd, &fs) != 0)
		return;
	uint64_t size = (uint64_t)fs.f_blocks * fs.f_frsize;
	uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (reserve > size / 10)
		reserve = size / 10;
	bool is_short = left < reserve;
	if (atomic_exchange(&worker->journal_is_short, is_short) == is_short)
		return;
	if (is_short)
		kh_log_warn("the journal's disk has %llu MiB left, less than audit.reserve: "
			    "refusals are only counted until there is more",
			    (unsigned long long)(left >> 20));
	else
		kh_log_info("the journal's disk has more than audit.reserve left again: refusals "
			    "have their records");
}

/* ---- the count ---- */

static struct kh_refusals *refusals_of(struct kh_acceptor *acceptor,
				       const struct kh_audit_open *what)
{
	if (acceptor->refusals)
		return acceptor->refusals;
	struct kh_refusals *r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->tenant = strdup(what->tenant);
	r->sandbox = strdup(what->sandbox);
	if (r->tenant && r->sandbox)
		return acceptor->refusals = r;
	free(r->tenant);
	free(r->sandbox);
	free(r);
	return NULL;
}

static void put_reasons(const struct kh_refusals *r, struct kh_buf *out)
{
	for (int code = 0; code < KH_ERR_COUNT; code++)
		if (r->by_code[code] > 0)
			(void)kh_buf_printf(out, "%s%s %llu", kh_buf_len(out) > 0 ? ", " : "",
					    kh_err_reason((enum kh_err_code)code),
					    (unsigned long long)r->by_code[code]);
}

/* What could not be written stays. */
static void say(struct kh_acceptor *acceptor)
{
	enum { REASONS_BYTES = 2048 };
	struct kh_refusals *r = acceptor->refusals;
	struct kh_loop *loop = acceptor->loop;
	struct kh_buf reasons;

	if (r->count == 0 || !kh_loop_make_room(loop))
		return;
	kh_buf_init(&reasons, REASONS_BYTES);
	put_reasons(r, &reasons);
	const struct kh_audit_denials record = {
		.tenant = r->tenant,
		.sandbox = r->sandbox,
		.count = r->count,
		.since_ms = r->since_ms,
		.until_ms = r->until_ms,
		.reasons = kh_buf_cstr(&reasons),
	};
	if (kh_audit_denials(&loop->batch, &record)) {
		r->count = 0;
		r->said_ms = loop->now_ms;
		memset(r->by_code, 0, sizeof(r->by_code));
		loop->n_counted--;
	}
	kh_buf_fini(&reasons);
}

static bool is_due(const struct kh_acceptor *acceptor)
{
	const struct kh_refusals *r = acceptor->refusals;

	return r->said_ms == 0 || acceptor->loop->now_ms >= r->said_ms + KH_LIMIT_REFUSALS_SAID_MS;
}

/* Return: false without memory. */
static bool count(struct kh_acceptor *acceptor, const struct kh_audit_open *what,
		  enum kh_err_code code)
{
	struct kh_refusals *r = refusals_of(acceptor, what);

	if (!r)
		return false;
	r->until_ms = kh_clock_wall_ms();
	if (r->count++ == 0) {
		r->since_ms = r->until_ms;
		acceptor->loop->n_counted++;
	}
	r->by_code[code]++;
	if (is_due(acceptor))
		say(acceptor);
	return true;
}

void kh_refusals_tick(struct kh_acceptor *acceptor)
{
	if (acceptor->refusals && is_due(acceptor))
		say(acceptor);
}

void kh_refusals_end(struct kh_acceptor *acceptor)
{
	struct kh_refusals *r = acceptor->refusals;

	if (!r)
		return;
	say(acceptor);
	/* The journal takes nothing: the log is all that is left to say it in. */
	if (r->count > 0) {
		kh_log_error("sandbox %s: %llu refusals are in no record: the journal can't be "
			     "written",
			     kh_esc_str(r->sandbox), (unsigned long long)r->count);
		acceptor->loop->n_counted--;
	}
	free(r->tenant);
	free(r->sandbox);
	free(r);
	acceptor->refusals = NULL;
}

/* ---- one refusal ---- */

/* Return: false: no memory, no room, or it is beyond the tenant's share. */
static bool put_one(struct kh_acceptor *acceptor, const struct kh_audit_open *what,
		    const struct kh_audit_close *how)
{
	struct kh_loop *loop = acceptor->loop;

	if (!kh_loop_make_room(loop) || !kh_audit_deny(&loop->batch, what, how))
		return false;
	if (!kh_account_take(acceptor->account, KH_RESOURCE_JOURNAL,
			     kh_batch_last(&loop->batch).len, kh_clock_mono_ms())) {
		kh_batch_drop_last(&loop->batch);
		return false;
	}
	kh_loop_show(loop, what->tenant, what->sandbox, &loop->batch);
	return true;
}

/* Who watches sees each of them all the same. */
static void show_one(struct kh_loop *loop, const struct kh_audit_open *what,
		     const struct kh_audit_close *how)
{
	struct kh_batch batch;

	if (!kh_events_is_watched(atomic_load(&loop->events)))
		return;
	kh_batch_init(&batch);
	if (kh_audit_deny(&batch, what, how))
		kh_loop_show(loop, what->tenant, what->sandbox, &batch);
	kh_batch_fini(&batch);
}

void kh_refusal_record(struct kh_acceptor *acceptor, const struct kh_audit_open *what,
		       const struct kh_audit_close *how)
{
	struct kh_loop *loop = acceptor->loop;

	if (kh_refusals_take_place(acceptor) && put_one(acceptor, what, how))
		return;
	show_one(loop, what, how);
	/* Without memory to count it, it is written. */
	if (!count(acceptor, what, how->reason) && kh_loop_make_room(loop))
		(void)kh_audit_deny(&loop->batch, what, how);
}
