/*
 * handshake.c - a stream becomes TLS, on either side
 *
 * Settings of one connection are made on its SSL here; the rest is in the contexts. The handshake
 * goes on when the descriptor is ready, or at a kick (the prefix may contain all that is needed;
 * while the roots are not loaded, they are checked every few milliseconds). A deadline bounds it.
 */
#include "flight_internal.h"
#include "leaves_internal.h"
#include "roots_internal.h"
#include "sessions_internal.h"
#include "verify_internal.h"

#include <openssl/err.h>
#include <openssl/sha.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/file.h>

enum { ROOTS_POLL_MS = 5 };

void kh_stream_handshake_free(struct kh_stream *s)
{
	if (s->deadline)
		event_free(s->deadline);
	s->deadline = NULL;
	if (s->handshake) {
		free(s->handshake->verify_subject);
		free(s->handshake->verify_names);
		kh_leaves_free(s->handshake->leaves);
	}
	free(s->handshake);
	s->handshake = NULL;
}

static void fail(struct kh_stream *s, enum stream_state how)
{
	(void)kh_stream_set_state(s, how);
	ERR_clear_error();
	kh_stream_handshake_free(s);
	(void)kh_stream_report(s, KH_STREAM_HANDSHAKE_FAILED);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct kh_stream *s = arg;
	(void)fd;
	(void)what;
	kh_stream_explain_timeout(s);
	fail(s, STREAM_FAILED);
}

/* The stream stays as it was: plain. */
static bool abandon(struct kh_stream *s)
{
	kh_stream_handshake_free(s);
	SSL_free(s->ssl);
	s->ssl = NULL;
	free(s->prefix);
	s->prefix = NULL;
	s->prefix_len = s->prefix_at = 0;
	ERR_clear_error();
	return false;
}

static bool begin(struct kh_stream *s, SSL_CTX *ctx, const struct kh_host *host,
		  uint32_t timeout_ms)
{
	if (s->state != STREAM_PLAIN)
		return false;
	struct timeval deadline = { .tv_sec = timeout_ms / 1000,
				    .tv_usec = (timeout_ms % 1000) * 1000 };
	s->handshake = calloc(1, sizeof *s->handshake);
	s->deadline = event_new(s->base, -1, 0, on_deadline, s);
	s->ssl = SSL_new(ctx);
	BIO *bio = kh_stream_bio_new(s);
	if (!s->handshake || !s->deadline || !s->ssl || !bio || SSL_set_app_data(s->ssl, s) != 1 ||
	    event_add(s->deadline, &deadline) < 0) {
		BIO_free(bio);
		return abandon(s);
	}
	SSL_set_bio(s->ssl, bio, bio);
	s->handshake->host = *host;
	s->handshake->timeout_ms = timeout_ms;
	s->handshake->verify_error = X509_V_OK;
	s->handshake->want = EV_READ;
	return true;
}

/* A session is resumed only for the host that it was made for. */
static bool bind_sessions(SSL *ssl, const struct kh_host *host)
{
	unsigned char digest[SSL_MAX_SID_CTX_LENGTH];
	_Static_assert(sizeof digest == SHA256_DIGEST_LENGTH, "a digest is a context");
	const unsigned char *context = (const unsigned char *)host->text;
	unsigned len = (unsigned)host->len;
	if (len > sizeof digest) {
		if (EVP_Digest(host->text, host->len, digest, &len, EVP_sha256(), NULL) != 1)
			return false;
		context = digest;
	}
	return SSL_set_session_id_context(ssl, context, len) == 1;
}

bool kh_stream_accept_tls(struct kh_stream *s, SSL_CTX *ctx, struct kh_slice prefix,
			  const struct kh_host *host, uint32_t timeout_ms)
{
	if (!begin(s, ctx, host, timeout_ms))
		return false;
	if (prefix.len > 0) {
		s->prefix = malloc(prefix.len);
		if (!s->prefix)
			return abandon(s);
		memcpy(s->prefix, prefix.ptr, prefix.len);
		s->prefix_len = prefix.len;
	}
	if (!bind_sessions(s->ssl, host))
		return abandon(s);
	SSL_set_accept_state(s->ssl);
	if (!kh_stream_set_state(s, STREAM_HANDSHAKE))
		return abandon(s);
	kh_stream_kick(s, 0);
	kh_stream_update(s);
	return true;
}

/* Of the same host, but of another issuer, is another context. */
bool kh_stream_use_leaves(struct kh_stream *s, struct kh_leaves *leaves)
{
	unsigned char text[sizeof(uint64_t) + KH_HOST_MAX_BYTES], digest[SHA256_DIGEST_LENGTH];
	const uint64_t number = kh_leaves_number(leaves);
	if (s->state != STREAM_HANDSHAKE && s->state != STREAM_LEAF)
		return false;
	const struct kh_host *host = &s->handshake->host;
	memcpy(text, &number, sizeof number);
	memcpy(text + sizeof number, host->text, host->len);
	if (EVP_Digest(text, sizeof number + host->len, digest, NULL, EVP_sha256(), NULL) != 1 ||
	    SSL_set_session_id_context(s->ssl, digest, sizeof digest) != 1)
		return false;
	kh_leaves_free(s->handshake->leaves);
	s->handshake->leaves = kh_leaves_ref(leaves);
	return true;
}

void kh_stream_leaf_ready(struct kh_stream *s, bool found)
{
	if (s->state != STREAM_LEAF || !kh_stream_set_state(s, STREAM_HANDSHAKE))
		return;
	s->handshake->leaf_refused = !found;
	kh_stream_kick(s, 0);
}

/* RFC 6066 §3: an address is never sent as SNI. */
static bool set_expected_name(struct kh_stream *s)
{
	struct kh_host *host = &s->handshake->host;
	return kh_verify_configure(SSL_get0_param(s->ssl), host) &&
	       (host->kind != KH_HOST_NAME || SSL_set_tlsext_host_name(s->ssl, host->text) == 1);
}

bool kh_stream_connect_tls(struct kh_stream *s, SSL_CTX *ctx, const struct kh_host *host,
			   struct kh_sessions *sessions, const char *session_key,
			   uint32_t timeout_ms)
{
	if (!begin(s, ctx, host, timeout_ms))
		return false;
	if (!set_expected_name(s))
		return abandon(s);
	if (sessions && session_key) {
		s->sessions = sessions;
		s->session_key = strdup(session_key);
		if (!s->session_key)
			return abandon(s);
	}
	s->side = STREAM_UP;
	SSL_set_connect_state(s->ssl);
	s->handshake->roots = kh_tls_ctx_roots(ctx);
	if (!kh_stream_set_state(s, STREAM_ROOTS))
		return abandon(s);
	kh_stream_kick(s, 0);
	return true;
}

void kh_stream_offer_h2(struct kh_stream *s)
{
	static const unsigned char both[] = {
		2, 'h', '2', 8, 'h', 't', 't', 'p', '/', '1', '.', '1'
	};

	/* Without memory http/1.1 is offered alone, as the context has it. */
	if (SSL_set_alpn_protos(s->ssl, both, sizeof(both)) == 0)
		s->side = STREAM_UP_H2;
}

/* A resumed session is not verified again, so its key names all that the verification rested on. */
static bool offer_session(struct kh_stream *s, unsigned long generation)
{
	if (!s->session_key)
		return true;
	char *key = kh_strf("%lu %s %s", generation, s->handshake->host.text, s->session_key);
	if (!key)
		return false;
	free(s->session_key);
	s->session_key = key;
	SSL_SESSION *session = kh_sessions_take(s->sessions, kh_slice_str(key));
	if (session && SSL_set_session(s->ssl, session) != 1)
		ERR_clear_error(); /* a full handshake then */
	SSL_SESSION_free(session);
	return true;
}

/* Return: the handshake may go on; if not, the stream may be gone. */
static bool look_for_roots(struct kh_stream *s)
{
	unsigned long generation = 0;
	X509_STORE *store = kh_roots_get(s->handshake->roots, &generation);
	if (!store) {
		kh_stream_kick(s, ROOTS_POLL_MS);
		return false;
	}
	bool ok = SSL_set1_verify_cert_store(s->ssl, store) == 1 && offer_session(s, generation);
	X509_STORE_free(store);
	if (!ok) {
		kh_err_set(kh_stream_err(s), KH_ERR_NO_MEMORY, "no memory for a TLS connection");
		fail(s, STREAM_FAILED);
		return false;
	}
	return kh_stream_set_state(s, STREAM_HANDSHAKE);
}

/* What OpenSSL leaves to us. Return: NULL: all is well. */
static const char *find_fault(const struct kh_stream *s)
{
	const unsigned char *alpn = NULL;
	unsigned len = 0;
	if (s->side == STREAM_DOWN)
		return NULL;
	if (SSL_get_verify_result(s->ssl) != X509_V_OK || !SSL_get0_peer_certificate(s->ssl))
		return "its certificate was not verified";
	SSL_get0_alpn_selected(s->ssl, &alpn, &len);
	if (len > 0 && !kh_slice_eq(kh_slice_of(alpn, len), KH_SLICE("http/1.1")) &&
	    !(s->side == STREAM_UP_H2 && kh_slice_eq(kh_slice_of(alpn, len), KH_SLICE("h2"))))
		return "it chose a protocol that was not offered (ALPN)";
	return NULL;
}

static void finish(struct kh_stream *s)
{
	const char *fault = find_fault(s);
	if (fault) {
		kh_err_set(kh_stream_err(s), KH_ERR_TLS_PROTOCOL, "%s: %s", s->handshake->host.text,
			   fault);
		fail(s, STREAM_FAILED);
		return;
	}
	/* Nothing is signed any more. */
	if (s->identity == IDENTITY_HELD) {
		SSL_certs_clear(s->ssl);
		SSL_set_info_callback(s->ssl, NULL);
		(void)kh_stream_set_identity(s, IDENTITY_NONE);
	}
	/* Refused, it is BROKEN, and comes to kh_stream_drive once more. */
	if (!kh_stream_set_state(s, STREAM_TLS))
		return;
	kh_stream_handshake_free(s);
	(void)kh_stream_report(s, KH_STREAM_HANDSHAKE_DONE);
}

/* Whoever waits for a leaf has not answered yet. */
static void say_step(struct kh_stream *s, bool waits)
{
	size_t bytes = s->handshake->unpaid_bytes;
	unsigned keys = waits ? 0 : s->handshake->unpaid_keys;
	s->handshake->unpaid_bytes = 0;
	s->handshake->unpaid_keys -= keys;
	if (s->gate.did_step)
		s->gate.did_step(s->arg, bytes, keys);
}

/* Return: as SSL_do_handshake, with OpenSSL's error. */
static int step(struct kh_stream *s)
{
	uint64_t before = s->gate.did_compute ? kh_clock_thread_ns() : 0;
	ERR_clear_error();
	int rc = SSL_do_handshake(s->ssl);
	kh_stream_signs_no_more(s);
	if (s->side != STREAM_DOWN && !kh_stream_forget_flight(s)) {
		s->handshake->excess = KH_EXCESS_OF_AUTHORITIES;
		rc = -1;
	}
	if (s->gate.did_compute)
		s->gate.did_compute(s->arg, kh_clock_thread_ns() - before);
	return rc;
}

void kh_stream_drive(struct kh_stream *s)
{
	if (s->state == STREAM_BROKEN) {
		fail(s, STREAM_FAILED);
		return;
	}
	if (s->state == STREAM_ROOTS && !look_for_roots(s))
		return;
	int rc = step(s);
	say_step(s, SSL_want_x509_lookup(s->ssl));
	if (s->handshake->excess) {
		fail(s, kh_stream_explain_failure(s));
		return;
	}
	if (rc == 1) {
		finish(s);
		return;
	}
	switch (SSL_get_error(s->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
		s->handshake->want = EV_READ;
		kh_stream_update(s);
		return;
	case SSL_ERROR_WANT_WRITE:
		s->handshake->want = EV_WRITE;
		kh_stream_update(s);
		return;
	case SSL_ERROR_WANT_X509_LOOKUP:
		if (!kh_stream_set_state(s, STREAM_LEAF))
			return;
		kh_stream_update(s);
		(void)kh_stream_report(s, KH_STREAM_WANTS_LEAF);
		return;
	default:
		fail(s, kh_stream_explain_failure(s));
	}
}

const char *kh_stream_sni_mismatch(const struct kh_stream *s)
{
	return s->sni_mismatch;
}

bool kh_stream_is_h2(const struct kh_stream *s)
{
	const unsigned char *alpn = NULL;
	unsigned len = 0;
	if (s->state != STREAM_TLS)
		return false;
	SSL_get0_alpn_selected(s->ssl, &alpn, &len);
	return kh_slice_eq(kh_slice_of(alpn, len), KH_SLICE("h2"));
}

bool kh_stream_lacks_protocol(const struct kh_stream *s)
{
	const unsigned char *alpn = NULL;
	unsigned len = 0;
	if (s->state != STREAM_TLS)
		return s->state == STREAM_NO_PROTOCOL;
	SSL_get0_alpn_selected(s->ssl, &alpn, &len);
	return len == 0;
}

const char *kh_stream_tls_version(const struct kh_stream *s)
{
	return s->state == STREAM_TLS ? SSL_get_version(s->ssl) : NULL;
}

void kh_stream_send_no_ticket(struct kh_stream *s)
{
	if (s->state == STREAM_HANDSHAKE)
		(void)SSL_set_num_tickets(s->ssl, 0);
}

bool kh_stream_is_resumed(const struct kh_stream *s)
{
	return s->state == STREAM_TLS && SSL_session_reused(s->ssl) == 1;
}
