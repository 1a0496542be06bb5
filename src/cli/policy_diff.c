/*
 * policy_diff.c - `keyhole policy diff`: what new rules would decide differently
 *
 * Each recorded request is decided by both configurations, as far as its record goes. How it was
 * decided when it was sent does not count. Records that do not continue the chain are compared too:
 * an added request only shows more, but a request that is left out would hide something.
 */
#include "policy_diff.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/policy/path_groups.h>

#include "cli_internal.h"
#include "journal_exchanges.h"
#include "record_request.h"
#include "record_text.h"

enum { N_CHANGES = KH_CHANGE_UNDECIDED + 1, ROW_BYTES = 32 * 1024 };

struct side {
	const char *path;
	struct kh_config *config;
	struct kh_policy *policy;
};

struct diff {
	struct side sides[2];			 /* OLD, NEW */
	const char *tenant;			 /* only this one's, or NULL */
	struct kh_path_groups groups[N_CHANGES]; /* `kind` is the text of what changed */
	uint64_t requests[N_CHANGES];
	uint64_t unasked;    /* never read as a request, or hidden */
	uint64_t tenantless; /* of a tenant that neither has */
	uint64_t counted;    /* refusals that the journals only count */
};

/* The narrowing of a listener; a sandbox that was added at run time has none in the file. */
static const struct kh_narrowing *narrowing_of(const struct side *side, struct kh_slice sandbox,
					       int tenant)
{
	kh_auto_free char *name = kh_slice_dup(sandbox);
	int index = name ? kh_config_sandbox(side->config, name) : KH_SANDBOX_NONE;
	return index >= 0 && side->config->listeners[index].tenant == tenant
		       ? kh_policy_narrowing(side->policy, (size_t)index)
		       : NULL;
}

static void put_needs(struct kh_buf *out, unsigned needs)
{
	bool first = true;
	for (size_t i = 0; i < KH_RECORDED_NEEDS; i++) {
		if (!(needs & 1u << i))
			continue;
		(void)kh_buf_append_str(out, first ? "needs " : ", ");
		(void)kh_buf_append_str(out, kh_recorded_need_text(i));
		first = false;
	}
}

static void put_answer(struct kh_buf *out, const char *name, const struct kh_recorded_answer *a)
{
	(void)kh_buf_printf(out, "      %s: ", name);
	if (a->fate == KH_RECORDED_UNDECIDED) {
		(void)kh_buf_append_str(out, "undecided: ");
		put_needs(out, a->needs);
	} else {
		/* Of the operator's own file, but for what is cut. */
		(void)kh_buf_append_str(out, kh_esc(kh_buf_view(&a->by)));
	}
	(void)kh_buf_append_char(out, '\n');
}

static void note(struct diff *d, enum kh_recorded_change change,
		 const struct kh_journal_exchange *exchange,
		 const struct kh_recorded_question *question,
		 const struct kh_recorded_answer answers[2])
{
	const struct kh_dry_run *ask = &question->ask;
	struct kh_buf kind, place, row;

	kh_buf_init(&kind, ROW_BYTES);
	kh_buf_init(&place, ROW_BYTES);
	kh_buf_init(&row, ROW_BYTES);
	put_answer(&kind, "old", &answers[0]);
	put_answer(&kind, "new", &answers[1]);
	(void)kh_buf_printf(&place, "%s://", ask->tunnel ? "tunnel" : kh_scheme_name(ask->scheme));
	(void)kh_authority_format(&place, &ask->authority,
				  ask->tunnel ? 0 : kh_scheme_port(ask->scheme));
	kh_record_put_request(&row, exchange);
	kh_record_put(&row, ", tenant ", kh_record_text(exchange->open, "tenant"));
	const char *what = kh_buf_cstr(&kind), *where = kh_buf_cstr(&place),
		   *example = kh_buf_cstr(&row);
	struct kh_slice path = ask->tunnel ? KH_SLICE("") : ask->target.path;
	if (what && where && example)
		(void)kh_path_groups_add(&d->groups[change], what,
					 ask->tunnel ? "CONNECT" : kh_esc(ask->message.method),
					 where, path, example);
	kh_buf_fini(&kind);
	kh_buf_fini(&place);
	kh_buf_fini(&row);
}

static void compare(struct diff *d, const struct kh_journal_exchange *exchange,
		    const struct kh_recorded_question *question, const int tenants[2])
{
	struct kh_slice sandbox = kh_record_text(exchange->open, "sandbox");
	struct kh_recorded_answer answers[2];

	for (size_t i = 0; i < 2; i++)
		kh_recorded_decide(question, d->sides[i].config, d->sides[i].policy, tenants[i],
				   narrowing_of(&d->sides[i], sandbox, tenants[i]), &answers[i]);
	enum kh_recorded_change change = kh_recorded_compare(&answers[0], &answers[1]);
	d->requests[change]++;
	if (change != KH_CHANGE_NONE)
		note(d, change, exchange, question, answers);
	kh_recorded_answer_fini(&answers[0]);
	kh_recorded_answer_fini(&answers[1]);
}

static bool is_asked_for(const struct diff *d, const json_t *record)
{
	return !d->tenant || kh_slice_eq(kh_record_text(record, "tenant"), kh_slice_str(d->tenant));
}

/* A run without a file is of the tenant "default". With a file it would be of the only one there.
 */
static int tenant_of(const struct kh_config *config, const char *name)
{
	int tenant = kh_config_tenant(config, name);
	return tenant < 0 && config->n_tenants == 1 && strcmp(name, "default") == 0 ? 0 : tenant;
}

static void take_exchange(void *context, const struct kh_journal_exchange *exchange)
{
	struct diff *d = context;
	struct kh_recorded recorded;
	struct kh_recorded_question question;
	int tenants[2];

	if (!is_asked_for(d, exchange->open) || !kh_record_is_request(exchange))
		return;
	kh_auto_free char *tenant = kh_slice_dup(kh_record_text(exchange->open, "tenant"));
	for (size_t i = 0; i < 2; i++)
		tenants[i] = tenant ? tenant_of(d->sides[i].config, tenant) : -1;
	if (tenants[0] < 0 && tenants[1] < 0) {
		d->tenantless++;
		return;
	}
	kh_record_request(exchange, &recorded);
	if (kh_recorded_ask(&question, &recorded, NULL))
		compare(d, exchange, &question, tenants);
	else
		d->unasked++;
	kh_recorded_fini(&question);
}

static void take_record(void *context, const json_t *record, bool astray)
{
	struct diff *d = context;

	(void)astray;
	if (is_asked_for(d, record) &&
	    kh_slice_eq(kh_record_text(record, "event"), KH_SLICE("denials")))
		d->counted += kh_record_number(record, "count");
}

static bool read_journal(struct diff *d, const char *name)
{
	const struct kh_journal_reader reader = { take_exchange, take_record, d };
	kh_auto_close int opened = -1;
	struct kh_journal_flaws flaws;
	struct kh_err err = KH_ERR_INIT;
	int fd = STDIN_FILENO;

	if (strcmp(name, "-") != 0)
		fd = opened = kh_cli_open_journal("policy diff", name);
	if (fd < 0)
		return false;
	bool ok = kh_journal_exchanges(fd, &reader, &flaws, &err);
	if (!ok)
		kh_cli_complain("policy diff: %s: %s", kh_esc_str(name), err.text);
	return kh_journal_complain("policy diff", name, &flaws, "compared though") && ok;
}

/* ---- what is printed ---- */

static const char *const titles[N_CHANGES] = {
	[KH_CHANGE_NONE] = "decided alike",
	[KH_CHANGE_REFUSES] = "allowed by OLD, refused by NEW",
	[KH_CHANGE_ALLOWS] = "refused by OLD, allowed by NEW",
	[KH_CHANGE_RULE] =
		"the same answer by another rule, with another credential or for another reason",
	[KH_CHANGE_UNDECIDED] = "undecided: the journal does not record what the rules ask",
};

static void print_group(const struct kh_path_group *group)
{
	printf("  %" PRIu64 " x %s %s%s\n", group->requests, group->method, group->place,
	       group->pattern);
	printf("      such as %s\n%s", group->example, group->kind);
}

static void print_changes(const struct diff *d)
{
	for (size_t change = KH_CHANGE_REFUSES; change < N_CHANGES; change++) {
		const struct kh_path_groups *groups = &d->groups[change];
		if (d->requests[change] == 0)
			continue;
		printf("%s: %" PRIu64 "\n", titles[change], d->requests[change]);
		for (size_t i = 0; i < groups->count; i++)
			print_group(&groups->list[i]);
		if (groups->left_out > 0)
			printf("  and %" PRIu64 " more, in more than %d groups\n", groups->left_out,
			       KH_LIMIT_PATH_GROUPS);
	}
	if (d->requests[KH_CHANGE_ALLOWS] > 0)
		printf("(A request with authentication of its own may still be refused: the "
		       "journal "
		       "does not record whether it had any.)\n");
}

static void print_rest(uint64_t n, const char *one, const char *more)
{
	if (n > 0)
		kh_cli_complain("policy diff: %" PRIu64 " %s", n, n == 1 ? one : more);
}

static int print(const struct diff *d)
{
	uint64_t all = 0;
	for (size_t i = 0; i < N_CHANGES; i++)
		all += d->requests[i];
	print_changes(d);
	printf("%" PRIu64 " request%s: %" PRIu64 " decided alike, %" PRIu64 " now refused, %" PRIu64
	       " now allowed, %" PRIu64 " by another rule, %" PRIu64 " undecided\n",
	       all, all == 1 ? "" : "s", d->requests[KH_CHANGE_NONE],
	       d->requests[KH_CHANGE_REFUSES], d->requests[KH_CHANGE_ALLOWS],
	       d->requests[KH_CHANGE_RULE], d->requests[KH_CHANGE_UNDECIDED]);
	print_rest(d->unasked, "record is of no request that rules decide about",
		   "records are of no request that rules decide about");
	print_rest(d->tenantless, "request is of a tenant that neither configuration has",
		   "requests are of tenants that neither configuration has");
	print_rest(d->counted, "refusal was only counted: nobody knows of which request",
		   "refusals were only counted: nobody knows of which requests");
	if (fflush(stdout) != 0)
		return KH_EXIT_USAGE;
	return all == d->requests[KH_CHANGE_NONE] ? EXIT_SUCCESS : KH_EXIT_FAILED;
}

static bool load(struct side *side)
{
	return kh_cli_load_policy(side->path, &side->config, &side->policy);
}

static bool has_tenant(const struct diff *d)
{
	bool has = !d->tenant || kh_config_tenant(d->sides[0].config, d->tenant) >= 0 ||
		   kh_config_tenant(d->sides[1].config, d->tenant) >= 0;
	if (!has)
		kh_cli_complain("policy diff: no tenant is called \"%s\"", kh_esc_str(d->tenant));
	return has;
}

int kh_cli_policy_diff(const struct kh_policy_diff_options *options)
{
	struct diff d = { .sides = { { .path = options->old_path }, { .path = options->new_path } },
			  .tenant = options->tenant };
	bool ok = load(&d.sides[0]) && load(&d.sides[1]) && has_tenant(&d);

	for (size_t i = 0; ok && i < options->n_journals; i++)
		ok = read_journal(&d, options->journals[i]);
	int status = ok ? print(&d) : KH_EXIT_USAGE;
	for (size_t i = 0; i < N_CHANGES; i++)
		kh_path_groups_fini(&d.groups[i]);
	for (size_t i = 0; i < 2; i++) {
		kh_policy_unref(d.sides[i].policy);
		kh_config_free(d.sides[i].config);
	}
	return status;
}
