/* ca.h - the certificate authority: lives in the keeper, and only there */
#ifndef KEYHOLE_TLS_CA_H
#define KEYHOLE_TLS_CA_H

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>
#include <keyhole/base/host.h>
#include <keyhole/config/shape.h>

struct kh_ca;

/*
 * Reads certificate and key, or makes both if neither exists (EC P-256; the key file is created
 * with mode 0600; a lock makes sure that two starts make one CA). It is an error, which says what
 * to do, if only one file exists, the key does not match, the certificate is not a CA or has
 * expired, or others may read the key file. Return: NULL with `err`; freed with kh_ca_free.
 */
struct kh_ca *kh_ca_open(const char *certificate_path, const char *key_path, struct kh_err *err);
/* The path of a tenant's own CA: KEY.tenants/NAME.pem (`kind` "pem") or NAME.key ("key"), where KEY
 * is `key_path`, the path of the shared CA's key. The caller frees it. NULL: no memory. */
char *kh_ca_tenant_path(const char *key_path, const char *tenant, const char *kind);
/* As kh_ca_open, for a running daemon: never makes a CA. If `keyhole ca rotate` is just replacing
 * the pair, it waits for that. */
struct kh_ca *kh_ca_load(const char *certificate_path, const char *key_path, struct kh_err *err);
/* A CA for this process only: the key is never written to disk. Its subject is unique. Return: NULL
 * with `err`. */
struct kh_ca *kh_ca_new(struct kh_err *err);
void kh_ca_free(struct kh_ca *ca);

/* Its certificate. The views live as long as the CA. */
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

/* What placeholders are derived from: a digest of the CA's key, so that placeholders stay valid as
 * long as their CA, across restarts. The order is: the next CA's (if there is one), this CA's, the
 * old CA's until it is retired. Return: how many; 0 with `err`. */
size_t kh_ca_placeholder_keys(const struct kh_ca *ca, struct kh_placeholder_key out[KH_MARK_KEYS],
			      struct kh_err *err);

/* All certificates that a sandbox has to trust, as PEM: one, or more while the CA is being changed.
 * The view lives as long as the CA. */
struct kh_slice kh_ca_trusted_pem(const struct kh_ca *ca);

/* ---- changing it (ca_rotate.c has the steps) ---- */

enum kh_ca_role { KH_CA_SIGNS = 0, KH_CA_NEXT, KH_CA_OLD, KH_CA_ROLES };
/* The longest lifetime of a leaf, in seconds: for a host that a rule allows, and for a connection
 * that only carries a refusal. It bounds for how long an attacker who took over a worker, and kept
 * a leaf and its key, can impersonate that host to sandboxes that trust this CA. */
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
	struct kh_buf pem, der; /* of the trusted ones, concatenated */
	size_t count;
	int64_t old_until; /* by then every leaf of the old CA has expired (seconds since 1970) */
};
/* Reads certificate files only, and never a half-made step of a change. Call kh_ca_trust_fini also
 * after an error. */
bool kh_ca_trust_read(struct kh_ca_trust *out, const char *certificate_path, struct kh_err *err);
void kh_ca_trust_fini(struct kh_ca_trust *trust);

/*
 * A change of the CA by one process. It holds the CA's lock from reading the current state until
 * its last step, so that two processes never make a step together. kh_ca_change_begin waits at most
 * ten seconds for another one.
 */
struct kh_ca_change {
	const char *certificate_path, *key_path; /* the caller's */
	int lock;
	bool overtaken; /* another process changed the CA while this one waited */
};
bool kh_ca_change_begin(struct kh_ca_change *out, const char *certificate_path,
			const char *key_path, struct kh_err *err);
void kh_ca_change_end(struct kh_ca_change *change);
/* Makes the next CA. The current one must be valid, or the change would hide that it is not. */
bool kh_ca_announce(const struct kh_ca_change *change, struct kh_err *err);
/* The next CA signs from now on. With `keep_old` the old CA stays trusted, and the digest that its
 * placeholders were derived from is kept (KEY.placeholders). The old key is overwritten. */
bool kh_ca_switch(const struct kh_ca_change *change, bool keep_old, struct kh_err *err);
/* The old CA is no longer trusted. */
bool kh_ca_retire(const struct kh_ca_change *change, struct kh_err *err);

/* Trust stores for a sandbox. PKCS#12 with the CA as a trusted entry for Java (password
 * "changeit"). */
bool kh_ca_pkcs12(const struct kh_ca *ca, struct kh_buf *out, struct kh_err *err);
/* The same from concatenated DER certificates: for the launcher, which has no CA. */
bool kh_ca_pkcs12_from_der(struct kh_slice der, struct kh_buf *out, struct kh_err *err);
bool kh_ca_pkcs12_with(struct kh_slice der, const char *password, struct kh_buf *out,
		       struct kh_err *err);

#endif
