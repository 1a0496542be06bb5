/*
 * vault_turn.c - values in progress: started, taken when they come, renewed before they expire
 *
 * Requests for a value that is being made wait; one attempt serves all. When it comes, the worker
 * is first told that its old value is stale, if it had one, and then gets the new value, if it
 * waits. After a failure the old value stays until it expires.
 */

#include "keeper_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

static const char *name_of(const struct kh_vault *vault, uint16_t index)
{
	return vault->config->credentials[index].name;
}

enum kh_value_form kh_vault_form(const struct kh_credential_config *credential)
{
	bool document = kh_derives(credential);
	if (credential->mint)
		document = credential->mint->kind == KH_MINT_GCP ||
			   credential->mint->kind == KH_MINT_GITHUB_APP;
	return document ? KH_VALUE_TEXT : KH_VALUE_LINE;
}

void kh_vault_due(struct kh_vault *vault, uint64_t due_ms)
{
	if (due_ms && (!vault->due_ms || due_ms < vault->due_ms))
		vault->due_ms = due_ms;
}

/* `secret`: there may be another secret. That is said before anybody is answered with it. */
static void note_change(struct kh_vault *vault, uint16_t index, const struct kh_item *item,
			bool secret)
{
	kh_vault_due(vault, item->due_ms);
	if (vault->changed)
		vault->changed(vault->arg, index, secret);
}

/* --- telling ---------------------------------------------------------------------------------- */

/* `scope` NULL: all that is told of the credential. */
static void tell_stale(struct kh_vault *vault, uint16_t index, const struct kh_holding *holding,
		       const struct kh_slice *scope)
{
	const struct kh_credential_ref ref = { index, holding->tenant,
					       scope ? *scope : KH_SLICE("") };
	if (vault->stale)
		vault->stale(vault->arg, &ref, !scope);
}

/* Whoever waits for this one, if anybody does. */
static void answer(struct kh_vault *vault, uint16_t index, const struct kh_holding *holding,
		   struct kh_item *item, struct kh_slice scope)
{
	const struct kh_credential_ref ref = { index, holding->tenant, scope };
	struct kh_err err = KH_ERR_INIT;
	bool good = kh_item_is_good(item);
	if (!item->asked)
		return;
	/* Whoever takes it may need pages, and have the vault drop what it can. */
	const struct kh_value value = { good ? kh_secret_ref(item->secret) : NULL,
					item->expires_ms };
	item->asked = false;
	item->used = item->told = good;
	if (!good)
		kh_err_set(&err, KH_ERR_CREDENTIAL_UNAVAILABLE, "%s",
			   item->reason ? item->reason : "the credential has no value on the host");
	if (vault->answer)
		vault->answer(vault->arg, &ref, good ? &value : NULL, &err);
	kh_secret_unref(value.secret);
}

static struct kh_slice scope_of(const struct kh_made *made)
{
	return kh_slice_of(made->scope, made->scope_len);
}

/* --- raw values ------------------------------------------------------------------------------- */

bool kh_vault_begin_raw(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
			struct kh_err *err)
{
	const struct kh_exec *exec = holding->source->exec;
	struct kh_job *job = kh_job_new(exec->timeout_ms);
	if (!job)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "credential %s: no memory",
				  name_of(vault, index));
	job->exec = exec;
	job->index = index;
	job->holding = holding;
	if (!kh_jobs_add(&vault->jobs, job, err))
		return kh_err_wrap(err, "credential %s", name_of(vault, index));
	holding->raw.job = job;
	holding->raw.due_ms = 0;
	kh_vault_due(vault, kh_clock_mono_ms());
	return true;
}

/* What was made of the value before, or is being made, counts no more. */
static void drop_made(struct kh_holding *holding)
{
	for (struct kh_made *made = holding->made; made; made = made->next) {
		const struct kh_item before = made->item;
		if (made->item.job)
			kh_jobs_disown(made->item.job);
		kh_item_fini(&made->item);
		made->item.asked = before.asked;
		made->item.renewals = before.renewals;
		made->item.all_failures = before.all_failures;
	}
}

/* For those who wait; the others ask. */
static void begin_asked(struct kh_vault *vault, uint16_t index, struct kh_holding *holding)
{
	for (struct kh_made *made = holding->made; made; made = made->next) {
		struct kh_err err = KH_ERR_INIT;
		if (made->item.job || !made->item.asked)
			continue;
		if (!kh_vault_begin_made(vault, index, holding, made, &err) ||
		    (kh_item_is_good(&made->item) && !made->item.job))
			answer(vault, index, holding, &made->item, scope_of(made));
	}
}

void kh_vault_raw_came(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
		       bool is_another)
{
	/* A pair serves until there is another one. */
	bool drops = is_another && !kh_client_cert_is(&vault->config->credentials[index]);
	if (drops && (holding->raw.told || holding->made || holding->made_told))
		tell_stale(vault, index, holding, NULL);
	holding->made_told = holding->made_told && !drops;
	if (is_another)
		holding->raw.told = false;
	if (drops)
		drop_made(holding);
	kh_vault_note_presence(vault, index);
	note_change(vault, index, &holding->raw, true);
	answer(vault, index, holding, &holding->raw, KH_SLICE(""));
	kh_client_cert_renew(vault, index, holding);
	begin_asked(vault, index, holding);
}

void kh_vault_client_came(struct kh_vault *vault, uint16_t index, struct kh_holding *holding)
{
	for (struct kh_made *made = holding->made; made; made = made->next) {
		if (made->item.job)
			kh_jobs_disown(made->item.job);
		made->item.job = NULL;
		if (made->item.failures > 0)
			made->item.due_ms = kh_clock_mono_ms(); /* it may be what was wrong */
	}
	begin_asked(vault, index, holding);
	note_change(vault, index, &holding->raw, true);
	kh_vault_due(vault, kh_clock_mono_ms());
}

void kh_vault_raw_failed(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
			 const char *why, const char *reason)
{
	bool said = holding->raw.why && strcmp(holding->raw.why, why) == 0;
	kh_item_fail(&holding->raw, why, reason);
	if (!said)
		kh_log_error("%s%s", why,
			     kh_item_is_good(&holding->raw) ? "; the value before serves on" : "");
	/* Before who waits for it is told: there may be another for them. */
	kh_vault_note_presence(vault, index);
	answer(vault, index, holding, &holding->raw, KH_SLICE(""));
	if (kh_item_is_good(&holding->raw))
		begin_asked(vault, index, holding); /* they waited for another, and get this one */
	for (struct kh_made *made = holding->made; made; made = made->next) {
		if (made->item.job || !made->item.asked)
			continue;
		kh_item_fail(&made->item, why, reason);
		answer(vault, index, holding, &made->item, scope_of(made));
	}
	note_change(vault, index, &holding->raw, false);
}

/* Return: NULL with the reason. */
static struct kh_secret *read_exec_output(const struct kh_vault *vault, const struct kh_job *job,
					  uint64_t *expires_ms, struct kh_err *err)
{
	const struct kh_credential_config *credential = &vault->config->credentials[job->index];
	const struct kh_source *source = job->holding->source;
	enum kh_value_form form = kh_vault_form(credential);
	uint64_t now = kh_clock_wall_ms();
	kh_cleanup(kh_exec_output_fini) struct kh_exec_output exec_output;
	char failure[KH_ERR_TEXT_BYTES + 64], what[KH_ERR_TEXT_BYTES / 2];
	struct kh_secret *secret = NULL;
	struct kh_err why = KH_ERR_INIT;

	(void)snprintf(what, sizeof(what), "what the command %s prints", kh_esc_str(source->name));
	const char *failed = kh_exec_failure(job, failure, sizeof(failure));
	bool read =
		kh_exec_output_read(&exec_output, failed ? KH_SLICE("") : kh_buf_view(&job->said),
				    source->exec, form == KH_VALUE_TEXT, now, &why);
	if (failed || !read) {
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "credential %s: the command %s %s",
			   credential->name, kh_esc_str(source->name), failed ? failed : why.text);
		return NULL;
	}
	(void)kh_source_take(credential->name, source, what,
			     exec_output.value.data + exec_output.value.head,
			     kh_buf_len(&exec_output.value), form, &secret, err);
	*expires_ms = exec_output.expires_ms;
	uint64_t oldest = source->exec->max_age_ms ? now + source->exec->max_age_ms : 0;
	if (oldest && (!*expires_ms || oldest < *expires_ms))
		*expires_ms = oldest;
	return secret;
}

static void take_exec_output(struct kh_vault *vault, struct kh_job *job)
{
	struct kh_holding *holding = job->holding;
	struct kh_err err = KH_ERR_INIT;
	uint64_t expires_ms = 0;
	char reason[KH_ERR_TEXT_BYTES];
	holding->raw.job = NULL;
	struct kh_secret *secret = read_exec_output(vault, job, &expires_ms, &err);
	kh_buf_fini(&job->said); /* before anybody is told that there is a value */
	if (!secret) {
		(void)snprintf(reason, sizeof(reason),
			       "the credential %s has no value on the host: its command failed",
			       name_of(vault, job->index));
		kh_vault_raw_failed(vault, job->index, holding, err.text, reason);
		return;
	}
	if (holding->raw.failures > 0)
		kh_log_info("credential %s has a value again", name_of(vault, job->index));
	bool is_another = !holding->raw.secret || !kh_secret_same(holding->raw.secret, secret);
	kh_item_fill(&holding->raw, secret, expires_ms, holding->source->exec->refresh_ms);
	kh_vault_raw_came(vault, job->index, holding, is_another);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static bool derive(struct kh_vault *vault, uint16_t index, const struct kh_holding *holding,
		   struct kh_made *made)
{
	const struct kh_credential_config *credential = &vault->config->credentials[index];
	struct kh_secret *secret = NULL;
	struct kh_err err = KH_ERR_INIT;
	uint64_t expires_ms = 0;
	if (!kh_derive(credential, scope_of(made), holding->raw.secret, &secret, &expires_ms,
		       &err)) {
		/* The worker asks for as many scopes as it likes. */
		kh_child_log_charged(KH_LOG_ERROR, "%s", err.text);
		kh_item_fail(&made->item, err.text, err.text);
		return false;
	}
	/* What the value itself gives is no longer good than it is. */
	if (holding->raw.expires_ms && (!expires_ms || holding->raw.expires_ms < expires_ms))
		expires_ms = holding->raw.expires_ms;
	kh_item_fill(&made->item, secret, expires_ms, 0);
	made->item.due_ms = 0; /* computed when it is asked for */
	return true;
}

bool kh_vault_begin_made(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
			 struct kh_made *made, struct kh_err *err)
{
	if (kh_client_cert_is(&vault->config->credentials[index]))
		return kh_client_cert_make(vault, index, holding, made);
	if (kh_derives(&vault->config->credentials[index]))
		return derive(vault, index, holding, made);
	struct kh_job *job = kh_mint_begin(vault->config, index, holding, made, err);
	if (job && kh_jobs_add(&vault->jobs, job, err)) {
		made->item.job = job;
		made->item.due_ms = 0;
		kh_vault_due(vault, kh_clock_mono_ms());
		return true;
	}
	kh_vault_made_failed(vault, index, holding, made, err->text, NULL);
	return false;
}

void kh_vault_made_failed(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
			  struct kh_made *made, const char *why, const char *reason)
{
	char usual[KH_ERR_TEXT_BYTES];
	bool said = made->item.why && strcmp(made->item.why, why) == 0;
	(void)snprintf(usual, sizeof(usual),
		       "the credential %s has no value on the host: no token could be had",
		       name_of(vault, index));
	kh_item_fail(&made->item, why, reason ? reason : usual);
	const char *rest = kh_item_is_good(&made->item) ? "; the token before serves on" : "";
	if (!said && made->scope_len > 0)
		kh_child_log_charged(KH_LOG_ERROR, "%s%s", why, rest);
	else if (!said)
		kh_log_error("%s%s", why, rest);
	answer(vault, index, holding, &made->item, scope_of(made));
	/* A refresh token may have been given in another's place before it failed. */
	const struct kh_mint *mint = vault->config->credentials[index].mint;
	note_change(vault, index, &made->item, mint && mint->state_path);
}

static void take_token(struct kh_vault *vault, struct kh_job *job)
{
	struct kh_holding *holding = job->holding;
	struct kh_made *made = job->made;
	struct kh_err err = KH_ERR_INIT;
	struct kh_token token;
	if (made)
		made->item.job = NULL;
	enum kh_mint_result result = kh_mint_took(vault->config, job, &token, &err);
	kh_buf_fini(&job->said); /* before anybody is told that there is a token */
	if (!holding || !made) {
		kh_secret_unref(token.secret); /* its refresh token is kept, and that was all */
		return;
	}
	if (result == KH_MINT_MORE) {
		(void)kh_vault_begin_made(vault, job->index, holding, made, &err);
		return;
	}
	if (result == KH_MINT_FAILED) {
		kh_vault_made_failed(vault, job->index, holding, made, err.text, NULL);
		return;
	}
	if (made->item.failures > 0)
		kh_log_info("credential %s has a token again", name_of(vault, job->index));
	kh_item_fill(&made->item, token.secret, token.expires_ms, 0);
	const struct kh_slice scope = scope_of(made);
	if (made->item.told)
		tell_stale(vault, job->index, holding, &scope);
	made->item.told = false;
	note_change(vault, job->index, &made->item, true);
	answer(vault, job->index, holding, &made->item, scope_of(made));
}

/* --- turns ------------------------------------------------------------------------------------ */

/* What nobody has used since it came is let go; what has no end is used without a word. */
static bool is_wanted(const struct kh_item *item)
{
	return item->asked || item->used || (item->told && !item->expires_ms);
}

/* Return: it has been withheld for long enough. */
static bool is_released(struct kh_vault *vault, struct kh_item *item)
{
	if (!item->job || !item->withheld_ms)
		return false;
	if (kh_item_is_withheld(item)) {
		kh_vault_due(vault, item->withheld_ms);
		return false;
	}
	item->withheld_ms = 0;
	return kh_item_is_good(item);
}

/* Whoever waits for another one than was refused gets that, when the other takes too long. */
static void release(struct kh_vault *vault, uint16_t index, struct kh_holding *holding)
{
	if (is_released(vault, &holding->raw)) {
		answer(vault, index, holding, &holding->raw, KH_SLICE(""));
		begin_asked(vault, index, holding);
	}
	for (struct kh_made *made = holding->made; made; made = made->next)
		if (is_released(vault, &made->item))
			answer(vault, index, holding, &made->item, scope_of(made));
}

static void begin_due(struct kh_vault *vault)
{
	uint64_t now = kh_clock_mono_ms();
	if (!vault->due_ms || now < vault->due_ms)
		return;
	vault->due_ms = 0;
	for (size_t i = 0; i < vault->config->n_credentials; i++) {
		uint16_t index = (uint16_t)i;
		for (size_t j = 0; j < vault->slots[i].n_holdings; j++) {
			struct kh_holding *holding = &vault->slots[i].holdings[j];
			struct kh_err err = KH_ERR_INIT;
			bool exec = holding->source->kind == KH_SOURCE_EXEC;
			release(vault, index, holding);
			bool due = holding->raw.due_ms && now >= holding->raw.due_ms;
			/* A token is made of it, or rules would rather have this one. */
			bool wanted = is_wanted(&holding->raw) || holding->made ||
				      (!holding->raw.secret && vault->slots[i].alternative);
			if (exec && due && !holding->raw.job && wanted &&
			    !kh_vault_begin_raw(vault, index, holding, &err))
				kh_vault_raw_failed(vault, index, holding, err.text, err.text);
			else if (!due)
				kh_vault_due(vault, holding->raw.due_ms);
			for (struct kh_made *made = holding->made; made; made = made->next) {
				due = made->item.due_ms && now >= made->item.due_ms;
				if (due && !made->item.job && is_wanted(&made->item) &&
				    kh_item_is_good(&holding->raw))
					(void)kh_vault_begin_made(vault, index, holding, made,
								  &err);
				else if (!due)
					kh_vault_due(vault, made->item.due_ms);
			}
		}
	}
}

void kh_vault_turn(struct kh_vault *vault)
{
	struct kh_job *job;
	if (!vault->slots)
		return;
	kh_vault_look_at_files(vault);
	begin_due(vault);
	while ((job = kh_jobs_turn(&vault->jobs, vault))) {
		if (job->exec && job->holding)
			take_exec_output(vault, job);
		else if (!job->exec)
			take_token(vault, job);
		kh_job_free(job);
	}
	kh_scopes_reap(vault);
}

int kh_vault_fd(const struct kh_vault *vault)
{
	return vault->slots ? vault->jobs.epoll : -1;
}

/* Of two times, where 0 is never. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a && (!b || a < b) ? a : b;
}

uint64_t kh_vault_deadline(const struct kh_vault *vault)
{
	if (!vault->slots)
		return vault->due_ms;
	uint64_t files_ms = earlier(kh_watch_deadline(vault->watch), vault->look_again_ms);
	return earlier(earlier(kh_jobs_deadline(&vault->jobs), files_ms), vault->due_ms);
}
