/* signer.c - answers to "a leaf for this host": the one thing that the CA key is used for */

#include "keeper_internal.h"

#include <keyhole/cleanup.h>
#include <keyhole/clock.h>
#include <keyhole/limits.h>
#include <keyhole/log.h>
#include <keyhole/wire.h>

/* A P-256 SubjectPublicKeyInfo has 91 bytes. */
enum { SPKI_BYTES_MOST = 256 };

void kh_signer_init(struct kh_signer *signer, const struct kh_ca *ca)
{
	*signer = (struct kh_signer){ .ca = ca, .tokens = KH_LIMIT_SIGNATURES_BURST };
	signer->tokens_ms = kh_clock_mono_ms();
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

/* The worker bounds each sandbox; this bounds a worker that has been taken over. */
static bool may_sign(struct kh_signer *signer)
{
	uint64_t now = kh_clock_mono_ms();
	signer->tokens += (double)(now - signer->tokens_ms) * KH_LIMIT_SIGNATURES_PER_SECOND / 1000;
	signer->tokens_ms = now;
	if (signer->tokens > KH_LIMIT_SIGNATURES_BURST) {
		signer->tokens = KH_LIMIT_SIGNATURES_BURST;
		signer->said_flooded = false;
	}
	if (signer->tokens >= 1) {
		signer->tokens -= 1;
		return true;
	}
	if (!signer->said_flooded)
		kh_log_warn("more than %d leaves a second are asked for: the rest is refused",
			    KH_LIMIT_SIGNATURES_PER_SECOND);
	signer->said_flooded = true;
	return false;
}

bool kh_signer_answer(struct kh_signer *signer, struct kh_slice body, struct kh_buf *reply)
{
	struct kh_wire_reader r = { .rest = body };
	kh_auto_free char *name = kh_wire_str(&r);
	struct kh_host host;
	/* The worker's own reader let it through, so a name that fails here was not read by it. */
	if (!kh_wire_done(&r) || !name || kh_buf_len(&signer->spki) == 0 ||
	    !kh_host_parse(&host, kh_slice_str(name), NULL))
		return false;

	kh_cleanup(kh_buf_fini) struct kh_buf der;
	kh_buf_init(&der, KH_LIMIT_CHANNEL_BYTES / 2);
	struct kh_err err = KH_ERR_INIT;
	if (may_sign(signer) &&
	    !kh_ca_sign(signer->ca, kh_buf_view(&signer->spki), &host, &der, &err)) {
		kh_log_error("leaf for %s: %s", host.text, err.text);
		kh_buf_clear(&der);
	}
	return kh_wire_put_str(reply, host.text) && kh_wire_put_bytes(reply, kh_buf_view(&der));
}
