/*
 * derive.c - keys that the keeper derives from a raw value, for one scope
 *
 * aws_sigv4: the worker gets the key of one day, region and service. The scope comes from a
 * sandbox's request, so the keeper checks it against the configuration again: a worker that was
 * taken over gets no key for a service that none of the credential's hosts has, and none for
 * another day.
 */
#include "keeper_internal.h"

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/credential/re_sign.h>
#include <keyhole/base/timestamp.h>

#define DAY_MS UINT64_C(86400000)

bool kh_derives(const struct kh_credential_config *credential)
{
	return (credential->placement && credential->placement->kind == KH_PLACEMENT_SIGV4) ||
	       kh_client_cert_is(credential);
}

/* Midnight at the end of the scope's day; 0: it is none of yesterday, today and tomorrow. */
static uint64_t day_ends(const struct kh_sigv4_scope *scope, uint64_t now_ms)
{
	char time[KH_SIGV4_TIME_BYTES] = "00000000T000000Z";
	memcpy(time, scope->date, KH_SIGV4_DATE_BYTES - 1);
	uint64_t begins;
	if (!kh_timestamp_read(kh_slice_str(time), KH_TIMESTAMP_BASIC, &begins) ||
	    begins > now_ms + DAY_MS || begins + 2 * DAY_MS < now_ms)
		return 0;
	return begins + DAY_MS;
}

static bool host_serves(const struct kh_host_pattern *pattern, const struct kh_sigv4_config *config,
			const struct kh_sigv4_scope *scope)
{
	struct kh_slice host = kh_host_view(&pattern->host);
	struct kh_slice region = kh_slice_str(scope->region),
			service = kh_slice_str(scope->service);
	/* A name in front of it may say anything. */
	bool any = pattern->match == KH_MATCH_SUFFIX && kh_sigv4_host_service(host).len == 0;
	return (config->region ||
		(any ? kh_sigv4_is_region(region) : kh_sigv4_host_fits_region(host, region))) &&
	       (config->service || any || kh_sigv4_host_fits_service(host, service));
}

static bool is_served(const struct kh_credential_config *credential,
		      const struct kh_sigv4_scope *scope)
{
	const struct kh_sigv4_config *config = credential->placement->sigv4;
	if ((config->region && strcmp(config->region, scope->region) != 0) ||
	    (config->service && strcmp(config->service, scope->service) != 0))
		return false;
	for (size_t i = 0; i < credential->n_hosts; i++)
		if (host_serves(&credential->hosts[i], config, scope))
			return true;
	return false;
}

/* One of yesterday, today and tomorrow, for a service of the credential's hosts. */
static bool may_sign(const struct kh_credential_config *credential, struct kh_slice scope,
		     struct kh_sigv4_scope *parsed, struct kh_err *err)
{
	return (kh_sigv4_scope_parse(parsed, scope) && day_ends(parsed, kh_clock_wall_ms()) &&
		is_served(credential, parsed)) ||
	       kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE,
			  "the credential %s signs for the services of its hosts, today, and "
			  "for nothing else",
			  credential->name);
}

bool kh_derives_for(const struct kh_credential_config *credential, struct kh_slice scope,
		    struct kh_err *err)
{
	struct kh_sigv4_scope parsed;
	return !kh_derives(credential) || kh_client_cert_is(credential) ||
	       may_sign(credential, scope, &parsed, err);
}

struct job {
	const struct kh_sigv4_scope *scope;
	struct kh_buf packed;
	uint64_t expires_ms;
	struct kh_err *err;
};

static bool pack(struct kh_slice raw, void *arg)
{
	struct job *job = arg;
	return kh_sigv4_pack(&job->packed, raw, job->scope, &job->expires_ms, job->err);
}

static bool derive_signing_key(const struct kh_credential_config *credential, struct kh_slice scope,
			       const struct kh_secret *raw, struct kh_secret **out,
			       uint64_t *expires_ms, struct kh_err *err)
{
	uint64_t now = kh_clock_wall_ms();
	struct kh_sigv4_scope parsed;
	if (!may_sign(credential, scope, &parsed, err))
		return false;
	struct job job = { .scope = &parsed, .err = err };
	kh_buf_init_wiping(&job.packed, KH_LIMIT_SECRET_BYTES);
	bool ok = kh_secret_expose(raw, pack, &job);
	if (ok && job.expires_ms > 0 && job.expires_ms <= now)
		ok = kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "it has expired");
	if (ok)
		*out = kh_secret_new(job.packed.data + job.packed.head, kh_buf_len(&job.packed),
				     err);
	kh_buf_fini(&job.packed);
	if (!*out)
		return kh_err_wrap(err, "credential %s", credential->name);
	*expires_ms = day_ends(&parsed, now) + DAY_MS;
	if (job.expires_ms > 0 && job.expires_ms < *expires_ms)
		*expires_ms = job.expires_ms;
	return true;
}

bool kh_derive(const struct kh_credential_config *credential, struct kh_slice scope,
	       const struct kh_secret *raw, struct kh_secret **out, uint64_t *expires_ms,
	       struct kh_err *err)
{
	*out = NULL;
	*expires_ms = 0;
	return derive_signing_key(credential, scope, raw, out, expires_ms, err);
}
