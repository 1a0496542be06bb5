/*
 * tenant_cas.c - a CA for each tenant (authority.per_tenant)
 *
 * A tenant's CA is stored as KEY.tenants/NAME.pem and NAME.key, where KEY is the key file of the
 * shared CA that the configuration names. It is made, changed and read in the same way. The shared
 * CA then signs nothing. Only placeholders are derived from it, so that they don't change with a
 * tenant's CA. When a tenant is removed from the configuration, its CA is dropped from memory; its
 * files stay.
 */
#include "daemon_internal.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>

void kh_tenant_cas_free(struct kh_tenant_cas *cas)
{
	for (size_t i = 0; i < cas->n; i++)
		kh_ca_free(cas->list[i]);
	free(cas->list);
	*cas = (struct kh_tenant_cas){ 0 };
}

static struct kh_ca *from_files(const struct kh_config *config, const char *tenant, bool make,
				struct kh_err *err)
{
	kh_auto_free char *certificate = kh_ca_tenant_path(config->ca_key_path, tenant, "pem");
	kh_auto_free char *key = kh_ca_tenant_path(config->ca_key_path, tenant, "key");

	if (!certificate || !key) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
		return NULL;
	}
	return make ? kh_ca_open(certificate, key, err) : kh_ca_load(certificate, key, err);
}

bool kh_tenant_cas_open(struct kh_tenant_cas *out, const struct kh_config *config,
			const struct kh_config *before, enum kh_tenant_cas_how how,
			struct kh_err *err)
{
	*out = (struct kh_tenant_cas){ 0 };
	if (!config->ca_per_tenant)
		return true;
	out->list = calloc(config->n_tenants + 1, sizeof(struct kh_ca *));
	if (!out->list)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "CA: no memory");
	out->n = config->n_tenants;
	for (size_t i = 0; i < out->n; i++) {
		const char *name = config->tenants[i].name;
		bool known = before && kh_config_tenant(before, name) >= 0;
		if (known && !config->ca_key_path)
			continue; /* kh_tenant_cas_adopt has it */
		/* Nothing is signed for those that have no sandbox in this life. */
		bool needed = how != KH_TENANT_CAS_OF_RUN || config->listeners[0].tenant == i;
		bool make = how != KH_TENANT_CAS_LOAD && !known;
		out->list[i] = config->ca_key_path && needed ? from_files(config, name, make, err)
							     : kh_ca_new(err);
		if (!out->list[i])
			return kh_err_wrap(err, "tenant %s", kh_esc_str(name));
	}
	return true;
}

void kh_tenant_cas_adopt(struct kh_tenant_cas *now, const struct kh_config *before,
			 struct kh_tenant_cas *next, const struct kh_config *config,
			 struct kh_buf *said)
{
	for (size_t i = 0; i < next->n; i++) {
		const char *name = config->tenants[i].name;
		int same = kh_config_tenant(before, name);
		if (same < 0)
			continue;
		if (next->list[i]) {
			kh_ca_in_force_say(name, now->list[same], next->list[i], said);
		} else {
			next->list[i] = now->list[same];
			now->list[same] = NULL;
		}
	}
	kh_tenant_cas_free(now);
	*now = *next;
	*next = (struct kh_tenant_cas){ 0 };
}

/* In the order of the configuration: one that is another has other bytes here. */
static bool digest_all(const struct kh_config *config, const struct kh_ca *ca,
		       const struct kh_tenant_cas *cas, EVP_MD_CTX *ctx, unsigned char *digest)
{
	struct kh_slice der = kh_ca_der(ca);
	bool ok = EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 &&
		  EVP_DigestUpdate(ctx, der.ptr, der.len) == 1;

	for (size_t i = 0; ok && i < cas->n; i++) {
		const char *name = config->tenants[i].name;
		der = kh_ca_der(cas->list[i]);
		ok = EVP_DigestUpdate(ctx, name, strlen(name) + 1) == 1 &&
		     EVP_DigestUpdate(ctx, der.ptr, der.len) == 1;
	}
	return ok && EVP_DigestFinal_ex(ctx, digest, NULL) == 1;
}

bool kh_ca_in_force_mark(struct kh_buf *out, const struct kh_config *config, const struct kh_ca *ca,
			 const struct kh_tenant_cas *cas)
{
	unsigned char digest[EVP_MAX_MD_SIZE];

	if (!cas->list)
		return kh_buf_append_slice(out, kh_ca_der(ca));
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool ok = ctx && digest_all(config, ca, cas, ctx, digest) &&
		  kh_buf_append(out, digest, (size_t)EVP_MD_get_size(EVP_sha256()));
	EVP_MD_CTX_free(ctx);
	return ok;
}

const struct kh_ca *kh_ca_in_force_of_first(const struct kh_keeper *k)
{
	const struct kh_config *config = k->config;

	return k->tenant_cas.list && config->n_listeners > 0
		       ? k->tenant_cas.list[config->listeners[0].tenant]
		       : k->ca;
}
