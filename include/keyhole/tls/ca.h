/* ca.h - the certificate authority: lives in the keeper, and only there */
#ifndef KEYHOLE_TLS_CA_H
#define KEYHOLE_TLS_CA_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/host.h>
#include <keyhole/config/shape.h>

struct kh_ca;

/*
 * Reads certificate and key, or makes both where neither exists (EC P-256, key file 0600 from its
 * first moment, made under a lock so that two starts make one CA). One without the other, a key
 * that does not fit, a certificate that is no CA or has expired, a key file that others may read:
 * errors that say what to do.
 */
struct kh_ca *kh_ca_open(const char *certificate_path, const char *key_path, struct kh_err *err);
/* Where a tenant's own lies: KEY.tenants/NAME.pem (`kind` "pem") and NAME.key ("key"), KEY being
 * the key of the one for all; heap. NULL: no memory. */
char *kh_ca_tenant_path(const char *key_path, const char *tenant, const char *kind);
/* The same of what is there, for a daemon that runs: makes none. A pair that `keyhole ca rotate` is
 * changing at this moment is waited for. */
struct kh_ca *kh_ca_load(const char *certificate_path, const char *key_path, struct kh_err *err);
/* For one life: the key is never written. The subject is unlike every other CA's. */
struct kh_ca *kh_ca_new(struct kh_err *err);
void kh_ca_free(struct kh_ca *ca);

/* Views live as long as the CA. */
struct kh_slice kh_ca_der(const struct kh_ca *ca);
struct kh_slice kh_ca_pem(const struct kh_ca *ca);
/* Its common name; not escaped. */
enum { KH_CA_NAME_BYTES = 128 };
void kh_ca_name(const struct kh_ca *ca, char out[KH_CA_NAME_BYTES]);

/*
 * A leaf for `host`, DER, appended to `out`: the key of `spki_der`, SAN (dNSName or iPAddress),
 * AKI, SKI, KU digitalSignature, EKU serverAuth, CA:FALSE, notBefore an hour back, notAfter in
 * `life_s` seconds (never past the CA's end), random serial of 128 bits, CN where the name fits
 * into 64 bytes.
 */
bool kh_ca_sign(const struct kh_ca *ca, struct kh_slice spki_der, const struct kh_host *host,
		uint32_t life_s, struct kh_buf *out, struct kh_err *err);

/* What placeholders are drawn from: a digest of the CA's key, so that a sandbox's placeholders are
 * known as long as its CA is, also by the next daemon. Of the next CA, where there is one, then of
 * this one, then of the old one until it is retired. Return: how many; 0 with `err`. */
size_t kh_ca_placeholder_keys(const struct kh_ca *ca, struct kh_placeholder_key out[KH_MARK_KEYS],
			      struct kh_err *err);

/* All certificates that a sandbox is to trust, PEM; one, where nothing is being changed. */
struct kh_slice kh_ca_trusted_pem(const struct kh_ca *ca);

/* ---- changing it (ca_rotate.c has the steps) ---- */

enum kh_ca_role { KH_CA_SIGNS = 0, KH_CA_NEXT, KH_CA_OLD, KH_CA_ROLES };
/* How long a leaf lives at the most: one for a host that a rule allows, and one in which a refusal
 * is told. Whoever takes the worker over can keep a leaf and its key, and stand in for that host to
 * this CA's sandboxes for so long. */
enum { KH_CA_LEAF_S = 24 * 3600, KH_CA_REFUSAL_LEAF_S = 10 * 60 };

struct kh_ca_facts {
	bool there;
	bool trusted; /* not expired */
	char name[KH_CA_NAME_BYTES];
	char sha256[65];
	int64_t not_before, not_after; /* seconds */
};
struct kh_ca_trust {
	struct kh_ca_facts facts[KH_CA_ROLES];
	struct kh_buf pem, der; /* of those that are trusted, one behind the other */
	size_t count;
	int64_t old_until; /* by then no leaf of the old one is left */
};
/* From the certificates' files alone, as they stand between two steps of a change. kh_ca_trust_fini
 * in any case. */
bool kh_ca_trust_read(struct kh_ca_trust *out, const char *certificate_path, struct kh_err *err);
void kh_ca_trust_fini(struct kh_ca_trust *trust);

/*
 * A change that is under way: it has the CA's lock, from the look at how far it is on to its last
 * step, so that two never make one step together. Another one is waited for, ten seconds at most.
 */
struct kh_ca_change {
	const char *certificate_path, *key_path; /* the caller's */
	int lock;
	bool overtaken; /* another one has changed it while this one waited */
};
bool kh_ca_change_begin(struct kh_ca_change *out, const char *certificate_path,
			const char *key_path, struct kh_err *err);
void kh_ca_change_end(struct kh_ca_change *change);
/* Makes the next one. What is there has to be good, or the change would hide it. */
bool kh_ca_announce(const struct kh_ca_change *change, struct kh_err *err);
/* It signs from now on. Where the old one is kept it stays trusted, and what its placeholders were
 * drawn from is kept too (KEY.placeholders); its key is overwritten. */
bool kh_ca_switch(const struct kh_ca_change *change, bool keep_old, struct kh_err *err);
/* The old one is not trusted any more. */
bool kh_ca_retire(const struct kh_ca_change *change, struct kh_err *err);

/* Trust stores for a sandbox. PKCS#12 with the CA as a trusted entry for Java (password
 * "changeit"). */
bool kh_ca_pkcs12(const struct kh_ca *ca, struct kh_buf *out, struct kh_err *err);
/* The same from certificates alone, DER, one behind the other: for the launcher, which has no CA.
 */
bool kh_ca_pkcs12_from_der(struct kh_slice der, struct kh_buf *out, struct kh_err *err);
bool kh_ca_pkcs12_with(struct kh_slice der, const char *password, struct kh_buf *out,
		       struct kh_err *err);

#endif
