/*
 * handshake_error.c - why a handshake failed, as a text that helps to fix it
 *
 * It is read by the agent in a refusal, by the operator in the log, and by the auditor in the
 * journal. OpenSSL's text is kept if it is clear enough, and completed if it isn't.
 */
#include "stream_internal.h"

#include <stdio.h>
#include <string.h>

#include <openssl/err.h>

#include <keyhole/base/escape.h>

/* ---- certificates of upstreams ---- */

static const char *verify_hint(int error)
{
	switch (error) {
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		return " (no trusted root issued it; a private one goes into upstream.ca_file)";
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return " (is the host's clock right?)";
	default:
		return "";
	}
}

static void explain_certificate(struct kh_stream *s)
{
	const struct handshake *h = s->handshake;
	const char *reason =
		h->verify_fault ? h->verify_fault : X509_verify_cert_error_string(h->verify_error);
	if (h->verify_error == X509_V_ERR_HOSTNAME_MISMATCH ||
	    h->verify_error == X509_V_ERR_IP_ADDRESS_MISMATCH) {
		kh_err_set(kh_stream_err(s), KH_ERR_TLS_CERTIFICATE,
			   "certificate of %s: %s (it is for: %s)", h->host.text, reason,
			   h->verify_names && h->verify_names[0] ? h->verify_names
								 : "no name at all");
		return;
	}
	kh_err_set(kh_stream_err(s), KH_ERR_TLS_CERTIFICATE,
		   "certificate of %s: %s at depth %d, %s%s", h->host.text, reason, h->verify_depth,
		   h->verify_subject ? h->verify_subject : "", verify_hint(h->verify_error));
}

/* ---- the rest ---- */

/* Alerts with which a client says that it does not trust our leaf. */
static bool is_distrust(int reason)
{
	return reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA ||
	       reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN ||
	       reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
	       reason == SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE ||
	       reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED;
}

static bool is_not_tls(int reason)
{
	return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
	       reason == SSL_R_HTTPS_PROXY_REQUEST || reason == SSL_R_UNKNOWN_PROTOCOL ||
	       reason == SSL_R_PACKET_LENGTH_TOO_LONG || reason == SSL_R_BAD_RECORD_TYPE;
}

static void explain_down(struct kh_stream *s, int reason)
{
	struct kh_err *err = kh_stream_err(s);
	const char *host = s->handshake->host.text;
	if (s->handshake->leaf_refused)
		kh_err_set(err, KH_ERR_LEAF_UNAVAILABLE, "no certificate could be made for %s",
			   host);
	else if (reason == SSL_R_NO_APPLICATION_PROTOCOL)
		kh_err_set(err, KH_ERR_DOWN_TLS,
			   "the client offers no protocol that is spoken "
			   "here (ALPN without http/1.1)");
	else if (is_distrust(reason))
		kh_err_openssl(err, KH_ERR_DOWN_TLS,
			       "the client does not trust keyhole's CA (does it know it by a "
			       "variable of its own?)");
	else if (is_not_tls(reason))
		kh_err_openssl(err, KH_ERR_DOWN_TLS, "the client does not speak TLS");
	else if (reason != 0)
		kh_err_openssl(err, KH_ERR_DOWN_TLS, "TLS handshake");
	else if (s->raw_error != 0)
		kh_err_sys(err, KH_ERR_DOWN_TLS, s->raw_error,
			   "the client broke off in the middle of the TLS handshake");
	else
		kh_err_set(err, KH_ERR_DOWN_TLS,
			   "the client closed the connection in the middle of the TLS handshake");
}

static void explain_up(struct kh_stream *s, int reason)
{
	struct kh_err *err = kh_stream_err(s);
	const char *host = s->handshake->host.text;
	if (s->handshake->excess)
		kh_err_set(err, KH_ERR_TLS_PROTOCOL, "TLS handshake with %s: %s", host,
			   s->handshake->excess);
	else if (s->handshake->verify_error != X509_V_OK)
		explain_certificate(s);
	else if (is_not_tls(reason))
		kh_err_openssl(err, KH_ERR_TLS_PROTOCOL, "%s does not speak TLS on this port",
			       host);
	else if (reason != 0)
		kh_err_openssl(err, KH_ERR_TLS_PROTOCOL, "TLS handshake with %s", host);
	else if (s->raw_error != 0)
		kh_err_sys(err, KH_ERR_UP_CLOSED, s->raw_error,
			   "%s broke off in the middle of the TLS handshake", host);
	else
		kh_err_set(err, KH_ERR_UP_CLOSED,
			   "%s closed the connection in the middle of the TLS handshake", host);
}

enum stream_state kh_stream_explain_failure(struct kh_stream *s)
{
	unsigned long code = ERR_peek_error();
	int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : code != 0;
	enum stream_state how = STREAM_FAILED;
	if (s->side == STREAM_DOWN)
		explain_down(s, reason);
	else
		explain_up(s, reason);
	if (s->side != STREAM_DOWN &&
	    reason == SSL_AD_REASON_OFFSET + SSL_AD_NO_APPLICATION_PROTOCOL)
		how = STREAM_NO_PROTOCOL;
	ERR_clear_error();
	return how;
}

void kh_stream_explain_timeout(struct kh_stream *s)
{
	struct kh_err *err = kh_stream_err(s);
	const struct handshake *h = s->handshake;
	if (s->state == STREAM_LEAF)
		kh_err_set(err, KH_ERR_LEAF_UNAVAILABLE,
			   "no certificate for %s was made within %u ms", h->host.text,
			   h->timeout_ms);
	else if (s->state == STREAM_ROOTS)
		kh_err_set(err, KH_ERR_TLS_TIMEOUT, "the trust roots were not loaded within %u ms",
			   h->timeout_ms);
	else if (s->side != STREAM_DOWN)
		kh_err_set(err, KH_ERR_TLS_TIMEOUT,
			   "TLS handshake with %s was not finished within %u ms", h->host.text,
			   h->timeout_ms);
	else
		kh_err_set(err, KH_ERR_DOWN_TLS,
			   "the client did not finish the TLS handshake within %u ms",
			   h->timeout_ms);
}
