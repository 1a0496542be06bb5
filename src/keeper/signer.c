/* signer.c - answers requests for leaves: all that a CA's key signs for a worker */

#include "keeper_internal.h"

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/log.h>
#include <keyhole/base/wire.h>

/* A P-256 SubjectPublicKeyInfo has 91 bytes. */
enum { SPKI_BYTES_MOST = 256 };

void kh_signer_init(struct kh_signer *signer)
{
	*signer = (struct kh_signer){ 0 };
	const uint64_t now = kh_clock_mono_ms();
	signer->all = (struct kh_signer_bucket){ KH_LIMIT_SIGNATURES_BURST, now, false };
	signer->refusals = (struct kh_signer_bucket){ KH_LIMIT_REFUSAL_LEAVES_BURST, now, false };
	kh_buf_init(&signer->spki, SPKI_BYTES_MOST);
}

void kh_signer_fini(struct kh_signer *signer)
{
	kh_buf_fini(&signer->spki);
}

void kh_signer_reset(struct kh_signer *signer)
{
	kh_buf_clear(&signer->spki);
}

bool kh_signer_take_key(struct kh_signer *signer, struct kh_slice body)
{
	struct kh_wire_reader r = { .rest = body };
	struct kh_slice der = kh_wire_bytes(&r);
	/* Once: what was signed stays with the key that was shown first. */
	return kh_wire_done(&r) && der.len > 0 && kh_buf_len(&signer->spki) == 0 &&
	       kh_buf_append_slice(&signer->spki, der);
}

/* The worker bounds each sandbox and tenant; this bounds a worker that has been taken over. */
static bool take(struct kh_signer_bucket *bucket, unsigned per_second, unsigned burst,
		 const char *what)
{
	uint64_t now = kh_clock_mono_ms();
	bucket->tokens += (double)(now - bucket->tokens_ms) * per_second / 1000;
	bucket->tokens_ms = now;
	if (bucket->tokens > burst) {
		bucket->tokens = burst;
		bucket->said_flooded = false;
	}
	if (bucket->tokens >= 1) {
		bucket->tokens -= 1;
		return true;
	}
	if (!bucket->said_flooded)
		kh_log_warn("more than %u leaves a second are asked for%s: the rest is refused",
			    per_second, what);
	bucket->said_flooded = true;
	return false;
}

static bool may_sign(struct kh_signer *signer, bool allowed)
{
	return (allowed || take(&signer->refusals, KH_LIMIT_REFUSAL_LEAVES_PER_SECOND,
				KH_LIMIT_REFUSAL_LEAVES_BURST, " for hosts that no rule allows")) &&
	       take(&signer->all, KH_LIMIT_SIGNATURES_PER_SECOND, KH_LIMIT_SIGNATURES_BURST, "");
}

bool kh_signer_answer(struct kh_signer *signer, struct kh_slice body,
		      const struct kh_signer_asks *asks, struct kh_buf *reply)
{
	struct kh_wire_reader r = { .rest = body };
	kh_auto_free char *name = kh_wire_str(&r);
	uint16_t tenant = kh_wire_u16(&r), port = kh_wire_u16(&r);
	kh_auto_free char *whose = kh_wire_str(&r);
	struct kh_host host;
	/* The worker's own reader let it through, so a name that fails here was not read by it. */
	if (!kh_wire_done(&r) || !name || !whose || kh_buf_len(&signer->spki) == 0 ||
	    !kh_host_parse(&host, kh_slice_str(name), NULL))
		return false;

	kh_cleanup(kh_buf_fini) struct kh_buf der;
	kh_buf_init(&der, KH_LIMIT_CHANNEL_BYTES / 2);
	struct kh_err err = KH_ERR_INIT;
	const struct kh_ca *ca = asks->ca(asks->worker_process, whose, &tenant);
	bool allowed = ca && asks->allows(asks->rules, tenant, &host, port);
	if (ca && may_sign(signer, allowed) &&
	    !kh_ca_sign(ca, kh_buf_view(&signer->spki), &host,
			allowed ? KH_CA_LEAF_S : KH_CA_REFUSAL_LEAF_S, &der, &err)) {
		kh_log_error("leaf for %s: %s", host.text, err.text);
		kh_buf_clear(&der);
	}
	return kh_wire_put_str(reply, host.text) && kh_wire_put_bytes(reply, kh_buf_view(&der)) &&
	       kh_wire_put_str(reply, whose);
}
