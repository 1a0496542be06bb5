/*
 * credential_status.c - the status of credentials for the operator: source, age, expiry, and why
 * the last try failed
 */

#include "daemon_internal.h"

#include <stdlib.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>

enum { EVERY_MS = 500 };

static bool put_text(struct kh_buf *out, const char *name, const char *text)
{
	return kh_buf_printf(out, ",\"%s\":", name) &&
	       (text ? kh_json_string(out, kh_slice_str(text)) : kh_buf_append_str(out, "null"));
}

static bool put_time(struct kh_buf *out, const char *name, uint64_t wall_ms)
{
	char text[KH_TIME_BYTES];
	kh_clock_format(wall_ms, text);
	return put_text(out, name, wall_ms ? text : NULL);
}

/* `tenant`: whose value it is; NULL: everybody's. */
static bool put_state(struct kh_buf *out, const char *name, const char *tenant,
		      const struct kh_vault_state *state)
{
	return kh_buf_append_str(out, kh_buf_len(out) > 1 ? ",{\"name\":" : "{\"name\":") &&
	       kh_json_string(out, kh_slice_str(name)) &&
	       (!tenant || put_text(out, "tenant", tenant)) &&
	       kh_buf_printf(out, ",\"ready\":%s", state->ready ? "true" : "false") &&
	       put_text(out, "source", state->source) && put_text(out, "made", state->mint) &&
	       put_time(out, "since", state->got_ms) &&
	       put_time(out, "expires", state->expires_ms) &&
	       kh_buf_printf(out, ",\"renewals\":%llu,\"failures\":%llu",
			     (unsigned long long)state->renewals,
			     (unsigned long long)state->failures) &&
	       put_time(out, "failed", state->failed_ms) &&
	       put_text(out, "last_error", state->why) && kh_buf_append_char(out, '}');
}

/* One without any value has a state too. */
static size_t values_of(const struct kh_vault *vault, size_t index)
{
	size_t n = vault->slots[index].n_holdings;
	return vault->config->credentials[index].by_tenant && n > 0 ? n : 1;
}

static bool put_one(const struct kh_vault *vault, size_t index, size_t which, struct kh_buf *out)
{
	const struct kh_credential_config *credential = &vault->config->credentials[index];
	const struct kh_vault_slot *slot = &vault->slots[index];
	const char *tenant = NULL;
	struct kh_vault_state state;
	size_t before = kh_buf_len(out);
	if (credential->by_tenant && which < slot->n_holdings)
		tenant = vault->config->tenants[slot->holdings[which].tenant].name;
	kh_vault_state(vault, (uint16_t)index, which, &state);
	if (put_state(out, credential->name, tenant, &state) && kh_buf_room(out) >= 2)
		return true;
	kh_buf_truncate(out, before);
	return false;
}

char *kh_credential_status_of(const struct kh_vault *vault, size_t most_bytes, uint32_t *left_out)
{
	struct kh_buf out;
	*left_out = 0;
	kh_buf_init(&out, most_bytes);
	bool ok = kh_buf_append_char(&out, '[');
	for (size_t i = 0; ok && vault->slots && i < vault->config->n_credentials; i++)
		for (size_t j = 0; j < values_of(vault, i); j++)
			/* The rest keeps its order: from the first that has no room on, none is in.
			 */
			if (*left_out > 0 || !put_one(vault, i, j, &out))
				++*left_out;
	char *text = ok && kh_buf_append_char(&out, ']') ? kh_slice_dup(kh_buf_view(&out)) : NULL;
	kh_buf_fini(&out);
	return text;
}

void kh_keeper_describe_credentials(struct kh_keeper *k)
{
	free(k->facts.credentials);
	k->facts.credentials = kh_credential_status_of(&k->vault, KH_LIMIT_CREDENTIAL_STATUS_BYTES,
						       &k->facts.credentials_left_out);
	k->credential_status_due_ms = 0;
}

void kh_keeper_credential_changed(struct kh_keeper *k)
{
	if (k->config->admin.n_acceptors > 0 && !k->credential_status_due_ms)
		k->credential_status_due_ms = kh_clock_mono_ms() + EVERY_MS;
}

static void on_answer(void *arg, const struct kh_credential_ref *ref, const struct kh_value *value,
		      struct kh_err *err)
{
	struct kh_keeper *k = arg;
	kh_worker_process_answer_credential(&k->worker_process, ref, value, err);
}

static void on_stale(void *arg, const struct kh_credential_ref *ref, bool whole)
{
	struct kh_keeper *k = arg;
	kh_worker_process_tell_stale(&k->worker_process, ref, whole);
}

static void on_changed(void *arg, uint16_t index, bool secret)
{
	struct kh_keeper *k = arg;
	(void)index;
	if (secret)
		kh_worker_process_note_secret(&k->worker_process);
	kh_keeper_credential_changed(k);
}

static void on_chosen_anew(void *arg, uint16_t index, uint16_t tenant, bool present)
{
	struct kh_keeper *k = arg;
	bool own = tenant < k->config->n_tenants;
	kh_log_info("credential %s %s%s%s: rules that name others beside it choose anew",
		    k->config->credentials[index].name, present ? "has a value" : "has no value",
		    own ? " for the tenant " : "", own ? k->config->tenants[tenant].name : "");
	k->choose_anew = true;
	kh_keeper_choose_anew(k);
}

static size_t count_sandboxes(void *arg, uint16_t tenant)
{
	const struct kh_keeper *k = arg;
	return kh_worker_process_sandboxes(&k->worker_process, tenant);
}

void kh_keeper_listen_to_vault(struct kh_keeper *k)
{
	k->vault.answer = on_answer;
	k->vault.stale = on_stale;
	k->vault.changed = on_changed;
	k->vault.chosen_anew = on_chosen_anew;
	k->vault.sandboxes = count_sandboxes;
	k->vault.arg = k;
}
