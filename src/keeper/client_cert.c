/*
 * client_cert.c - a client certificate and its key (mtls): one value from two files
 *
 * The value is made as soon as there is a key, and again whenever one of the two changes. The two
 * files are seldom replaced at the same moment: while they do not match, the previous value stays
 * in use, and the log says what is missing. So the worker only ever gets a certificate with its own
 * key. An upstream connection is only used with the certificate that it was made with
 * (upstream/up_slot.c).
 */
#include "keeper_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/tls/identity.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/config/signing.h>

bool kh_client_cert_is(const struct kh_credential_config *credential)
{
	return credential->placement && credential->placement->kind == KH_PLACEMENT_MTLS;
}

struct packing {
	struct kh_slice certificate;
	struct kh_buf packed;
	uint64_t expires_ms;
	struct kh_err *err;
};

static bool pack(struct kh_slice key, void *arg)
{
	struct packing *p = arg;

	return kh_identity_pack(&p->packed, p->certificate, key, &p->expires_ms, p->err);
}

static bool read_certificate(struct kh_vault *vault, const char *path, struct kh_holding *holding,
			     struct kh_buf *out, struct kh_err *err)
{
	uint64_t *rests_ms = &holding->certificate_rests_ms, began_ms = kh_clock_mono_ms();
	bool ok = kh_file_read_within(path, kh_vault_pipes_wait_ms(vault, *rests_ms), out, err);

	kh_vault_pipes_waited(vault, began_ms, !ok && err->sys == ETIMEDOUT, rests_ms);
	return ok;
}

/* NULL: `err` says why, for the operator. */
static struct kh_secret *read_pair(struct kh_vault *vault,
				   const struct kh_credential_config *credential,
				   struct kh_holding *holding, uint64_t *expires_ms,
				   struct kh_err *err)
{
	const char *path = credential->placement->mtls->certificate;
	const char *key = holding->source->name;
	struct kh_err why = KH_ERR_INIT;
	struct kh_buf certificate;
	struct packing p = { .err = &why };
	struct kh_secret *secret = NULL;

	kh_buf_init(&certificate, KH_LIMIT_SECRET_BYTES / 2);
	kh_buf_init_wiping(&p.packed, KH_LIMIT_SECRET_BYTES);
	bool ok = !path || read_certificate(vault, path, holding, &certificate, &why);
	p.certificate = kh_buf_view(&certificate);
	/* To kh_identity_pack that would mean the one that stands with the key. */
	if (ok && path && p.certificate.len == 0)
		ok = kh_err_set(&why, KH_ERR_CREDENTIAL_UNAVAILABLE,
				"its certificate's file is empty");
	ok = ok && kh_secret_expose(holding->raw.secret, pack, &p);
	if (ok)
		secret = kh_secret_new(p.packed.data + p.packed.head, kh_buf_len(&p.packed), &why);
	kh_buf_fini(&p.packed);
	kh_buf_fini(&certificate);
	*expires_ms = p.expires_ms;
	if (!secret)
		kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			   "credential %s: %s (certificate: %s; key: %s)", credential->name,
			   why.text, path ? kh_esc_str(path) : "with the key",
			   key ? kh_esc_str(key) : "?");
	return secret;
}

static void failed(const struct kh_credential_config *credential, struct kh_item *pair,
		   const char *why)
{
	char reason[KH_ERR_TEXT_BYTES];
	bool said = pair->why && strcmp(pair->why, why) == 0;

	/* The operator is told of the files, the sandbox is not. */
	(void)snprintf(reason, sizeof(reason),
		       "credential %s: its client certificate can't be used; the log on the host "
		       "says why",
		       credential->name);
	kh_item_fail(pair, why, reason);
	if (said)
		return;
	if (kh_item_is_good(pair))
		kh_log_warn("%s; the previous certificate stays in use until this one can be used",
			    why);
	else
		kh_log_error("%s; requests that need it are answered with 503", why);
}

/* Takes it over. */
static void came(struct kh_vault *vault, uint16_t index, const struct kh_holding *holding,
		 struct kh_item *pair, struct kh_secret *secret, uint64_t expires_ms)
{
	const struct kh_credential_ref ref = { index, holding->tenant, KH_SLICE("") };
	const char *name = vault->config->credentials[index].name;
	bool same = pair->secret && kh_secret_same(pair->secret, secret);

	if (same && pair->failures == 0 && pair->expires_ms == expires_ms) {
		kh_secret_unref(secret);
		return;
	}
	if (same) {
		kh_secret_unref(secret);
		secret = kh_secret_ref(pair->secret);
	} else if (pair->secret || pair->failures > 0) {
		kh_log_info("credential %s has %s client certificate now", name,
			    pair->secret ? "another" : "a");
	}
	kh_item_fill(pair, secret, expires_ms, 0);
	pair->due_ms = 0; /* its files are watched */
	if (pair->told && !same && vault->stale)
		vault->stale(vault->arg, &ref, true);
	pair->told = pair->told && same;
}

bool kh_client_cert_make(struct kh_vault *vault, uint16_t index, struct kh_holding *holding,
			 struct kh_made *made)
{
	const struct kh_credential_config *credential = &vault->config->credentials[index];
	struct kh_err err = KH_ERR_INIT;
	uint64_t expires_ms = 0;
	struct kh_secret *secret = read_pair(vault, credential, holding, &expires_ms, &err);

	if (!secret)
		failed(credential, &made->item, err.text);
	/* What the key's source says of it holds for both. */
	if (holding->raw.expires_ms && holding->raw.expires_ms < expires_ms)
		expires_ms = holding->raw.expires_ms;
	if (secret)
		came(vault, index, holding, &made->item, secret, expires_ms);
	kh_vault_due(vault, made->item.due_ms);
	if (vault->changed)
		vault->changed(vault->arg, index, secret != NULL);
	return kh_item_is_good(&made->item);
}

/* The one thing that is made of such a value. */
static struct kh_made *pair_of(struct kh_holding *holding)
{
	if (!holding->made && (holding->made = calloc(1, sizeof(*holding->made))))
		holding->n_made++;
	return holding->made;
}

void kh_client_cert_renew(struct kh_vault *vault, uint16_t index, struct kh_holding *holding)
{
	const struct kh_credential_config *credential = &vault->config->credentials[index];
	struct kh_made *made;

	if (!kh_client_cert_is(credential) || !holding->raw.secret || !(made = pair_of(holding)))
		return;
	const char *path = credential->placement->mtls->certificate;
	bool tried = made->item.secret || made->item.why;
	if (tried && path && kh_vault_pipes_rest(path, holding->certificate_rests_ms))
		kh_vault_pipes_look_again(vault, holding->certificate_rests_ms);
	else
		(void)kh_client_cert_make(vault, index, holding, made);
}

static void renew_all(struct kh_vault *vault, uint16_t index)
{
	struct kh_vault_slot *slot = &vault->slots[index];

	for (size_t i = 0; i < slot->n_holdings; i++)
		kh_client_cert_renew(vault, index, &slot->holdings[i]);
	kh_vault_note_presence(vault, index);
}

void kh_client_certs_renew(struct kh_vault *vault)
{
	for (size_t i = 0; i < vault->config->n_credentials; i++)
		if (kh_client_cert_is(&vault->config->credentials[i]))
			renew_all(vault, (uint16_t)i);
}

const char *kh_client_cert_fault(const struct kh_holding *holding)
{
	const struct kh_made *made = holding->made;

	return made && !kh_item_is_good(&made->item) ? made->item.why : NULL;
}
