/*
 * ca_in_force.c - the CA in force: opened at the start, replaced at a reload
 *
 * A reload reads the CA's files again, before anything is changed. When the keeper tells the worker
 * the new issuer (ISSUER), it also begins to sign with it. All messages use one channel, so no leaf
 * of the old issuer comes after that. Open connections go on: they need no certificate any more.
 *
 * Placeholders of earlier keys stay valid as far as there is room (KH_MARK_KEYS), since running
 * sandboxes still hold them.
 */
#include "daemon_internal.h"

#include <string.h>
#include <unistd.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>

bool kh_keeper_open_ca(struct kh_keeper *k, struct kh_err *err)
{
	const struct kh_config *config = k->config;

	/* At a handover there is one already: none is made where the files are gone. */
	if (k->options->heir &&
	    (!config->ca_certificate_path || access(config->ca_certificate_path, F_OK) != 0))
		return kh_err_set(err, KH_ERR_CONFIG, "the CA's certificate is not there");
	if (!config->ca_certificate_path)
		k->ca = kh_ca_new(err);
	else if (k->options->heir)
		k->ca = kh_ca_load(config->ca_certificate_path, config->ca_key_path, err);
	else
		k->ca = kh_ca_open(config->ca_certificate_path, config->ca_key_path, err);
	if (!k->ca)
		return false;
	/* A launcher brings the key of its user's runs along. */
	if (!kh_placeholder_key_is_set(&k->config->placeholder_keys[0]) &&
	    kh_ca_placeholder_keys(k->ca, k->config->placeholder_keys, err) == 0)
		return false;
	enum kh_tenant_cas_how how = k->options->heir ? KH_TENANT_CAS_LOAD : KH_TENANT_CAS_MAKE;
	if (k->options->one_run && config->n_listeners > 0)
		how = KH_TENANT_CAS_OF_RUN;
	if (!kh_tenant_cas_open(&k->tenant_cas, config, NULL, how, err))
		return false;
	k->worker_process.ca = k->ca;
	k->worker_process.tenant_cas = k->tenant_cas;
	kh_signer_init(&k->worker_process.signer);
	return !k->options->heir ||
	       kh_handover_new_check_ca(&k->handover_new, &k->worker_process, err);
}

static bool has_key(const struct kh_placeholder_key *keys, size_t n,
		    const struct kh_placeholder_key *key)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(&keys[i], key, sizeof(*key)) == 0)
			return true;
	return false;
}

bool kh_ca_in_force_next(const struct kh_config *now, struct kh_config *next, struct kh_ca **out,
			 struct kh_tenant_cas *of_tenants, struct kh_err *err)
{
	*out = NULL;
	if (!kh_tenant_cas_open(of_tenants, next, now, KH_TENANT_CAS_MAKE, err))
		return false;
	if (!next->ca_certificate_path) {
		memcpy(next->placeholder_keys, now->placeholder_keys,
		       sizeof(next->placeholder_keys));
		return true;
	}
	struct kh_ca *ca = kh_ca_load(next->ca_certificate_path, next->ca_key_path, err);
	size_t n = ca ? kh_ca_placeholder_keys(ca, next->placeholder_keys, err) : 0;

	if (n == 0) {
		kh_ca_free(ca);
		return false;
	}
	for (size_t i = 0; i < KH_MARK_KEYS && n < KH_MARK_KEYS; i++) {
		const struct kh_placeholder_key *key = &now->placeholder_keys[i];
		if (kh_placeholder_key_is_set(key) && !has_key(next->placeholder_keys, n, key))
			next->placeholder_keys[n++] = *key;
	}
	*out = ca;
	return true;
}

/* Was `next` in the bundle that sandboxes got until now? */
static bool was_trusted(const struct kh_ca *now, const struct kh_ca *next)
{
	struct kh_slice bundle = kh_ca_trusted_pem(now), one = kh_ca_pem(next);

	return memmem(bundle.ptr, bundle.len, one.ptr, one.len) != NULL;
}

void kh_ca_in_force_say(const char *tenant, const struct kh_ca *now, const struct kh_ca *next,
			struct kh_buf *said)
{
	char name[KH_CA_NAME_BYTES];
	const char *of = tenant ? " for tenant " : "", *whose = tenant ? tenant : "";
	static const char warning[] =
		"the sandboxes that run were not given it to trust: they refuse it until they are "
		"started anew, or fetch http://keyhole.internal/ca.pem";

	kh_ca_name(next, name);
	if (kh_slice_eq(kh_ca_der(now), kh_ca_der(next))) {
		if (!kh_slice_eq(kh_ca_trusted_pem(now), kh_ca_trusted_pem(next)))
			kh_log_info("the bundle of CAs that sandboxes trust is another one; %s "
				    "still signs%s%s",
				    kh_esc_str(name), of, whose);
		return;
	}
	(void)kh_buf_printf(said, "the CA %s signs%s%s from now on\n", kh_esc_str(name), of, whose);
	kh_log_info("the CA %s signs%s%s from now on", kh_esc_str(name), of, whose);
	if (was_trusted(now, next))
		return;
	(void)kh_buf_printf(said, "warning: %s\n", warning);
	kh_log_warn("%s", warning);
}

void kh_ca_in_force_adopt(struct kh_keeper *k, struct kh_ca *next, struct kh_tenant_cas *of_tenants,
			  const struct kh_config *config, struct kh_buf *said)
{
	kh_tenant_cas_adopt(&k->tenant_cas, k->config, of_tenants, config, said);
	k->worker_process.tenant_cas = k->tenant_cas;
	if (!next)
		return;
	if (!k->tenant_cas.list)
		kh_ca_in_force_say(NULL, k->ca, next, said);
	kh_ca_free(k->ca);
	k->ca = next;
	k->worker_process.ca = next;
}
