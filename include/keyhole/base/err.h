/* err.h - errors: a code, a text, and how HTTP status, Proxy-Status and journal name the code */
#ifndef KEYHOLE_BASE_ERR_H
#define KEYHOLE_BASE_ERR_H

#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>

/*
 * One row per cause: X(code, HTTP status, error type of Proxy-Status (RFC 9209 §2.3; "" if none
 * fits), reason in the journal). Status 0: there is no client left to answer. A refusal by policy
 * is never 429 or 5xx, since client libraries retry those. A limit is 429 only if a retry can
 * succeed soon.
 */
#define KH_ERR_TABLE(X) \
	X(NONE, 0, "", "none") \
	X(INTERNAL, 500, "proxy_internal_error", "internal") \
	X(NO_MEMORY, 503, "proxy_internal_error", "no_memory") \
	X(SYSTEM, 500, "proxy_internal_error", "system") \
	X(CONFIG, 500, "proxy_configuration_error", "configuration") \
	X(USAGE, 500, "proxy_configuration_error", "usage") \
	X(REQUEST_MALFORMED, 400, "http_request_error", "malformed_request") \
	X(REQUEST_URI_TOO_LONG, 414, "http_request_error", "target_too_long") \
	X(REQUEST_HEAD_TOO_LARGE, 431, "http_request_error", "head_too_large") \
	X(CONTENT_TOO_LARGE, 413, "http_request_error", "content_too_large") \
	X(REQUEST_TIMEOUT, 408, "http_request_error", "request_timeout") \
	X(NO_PAGE, 404, "", "no_page") \
	X(EXPECTATION_FAILED, 417, "http_request_error", "expectation") \
	X(METHOD_UNSUPPORTED, 501, "http_request_error", "method_unsupported") \
	X(UPGRADE_UNSUPPORTED, 426, "http_upgrade_failed", "upgrade_unsupported") \
	X(VERSION_UNSUPPORTED, 505, "http_request_error", "version_unsupported") \
	X(AUTHORITY_MISMATCH, 421, "http_request_error", "authority_mismatch") \
	X(PROTOCOL_UNKNOWN, 400, "http_request_error", "protocol_unknown") \
	X(DENIED_BY_RULE, 403, "http_request_denied", "denied_by_rule") \
	X(NO_RULE, 403, "http_request_denied", "no_rule") \
	X(CLIENT_AUTH, 403, "http_request_denied", "client_auth") \
	X(EXFILTRATION, 403, "http_request_denied", "exfiltration") \
	X(SANDBOX_HELD, 403, "http_request_denied", "sandbox_held") \
	X(PLACEHOLDER_MISSING, 403, "http_request_denied", "placeholder_missing") \
	X(TUNNEL_ONLY, 403, "http_request_denied", "tunnel_only") \
	X(REQUEST_TOO_COMPLEX, 403, "http_request_denied", "request_too_complex") \
	X(MODEL_UNREADABLE, 403, "http_request_denied", "model_unreadable") \
	X(PROXY_AUTH, 407, "http_request_denied", "proxy_auth") \
	X(ADDRESS_PROHIBITED, 403, "destination_ip_prohibited", "address_prohibited") \
	X(GEO_PROHIBITED, 403, "destination_ip_prohibited", "geo_prohibited") \
	X(LIMIT, 429, "connection_limit_reached", "limit") \
	X(LIMIT_SPENT, 403, "http_request_denied", "limit_spent") \
	X(TUNNEL_LIFETIME, 403, "http_request_denied", "tunnel_lifetime") \
	X(NAME_NOT_FOUND, 502, "destination_not_found", "name_not_found") \
	X(DNS_ERROR, 502, "dns_error", "dns_error") \
	X(DNS_TIMEOUT, 504, "dns_timeout", "dns_timeout") \
	X(CONNECT_REFUSED, 502, "connection_refused", "connection_refused") \
	X(CONNECT_TIMEOUT, 504, "connection_timeout", "connect_timeout") \
	X(UNREACHABLE, 502, "destination_ip_unroutable", "unreachable") \
	X(TLS_CERTIFICATE, 502, "tls_certificate_error", "tls_certificate") \
	X(TLS_PROTOCOL, 502, "tls_protocol_error", "tls_protocol") \
	X(TLS_TIMEOUT, 504, "connection_timeout", "tls_timeout") \
	X(UP_PROXY, 502, "destination_unavailable", "upstream_proxy") \
	X(UP_CLOSED, 502, "connection_terminated", "upstream_closed") \
	X(RESPONSE_MALFORMED, 502, "http_protocol_error", "malformed_response") \
	X(RESPONSE_HEAD_TOO_LARGE, 502, "http_response_header_section_size", "response_head_size") \
	X(RESPONSE_INCOMPLETE, 502, "http_response_incomplete", "response_incomplete") \
	X(WEBSOCKET_DOWN, 400, "http_protocol_error", "websocket_sandbox") \
	X(WEBSOCKET_UP, 502, "http_protocol_error", "websocket_upstream") \
	X(IDLE, 504, "connection_timeout", "idle") \
	X(RESPONSE_TIMEOUT, 504, "http_response_timeout", "response_timeout") \
	X(CREDENTIAL_UNAVAILABLE, 503, "proxy_configuration_error", "credential_unavailable") \
	X(CREDENTIAL_BINDING, 403, "http_request_denied", "credential_binding") \
	X(CREDENTIAL_PLACE, 403, "http_request_denied", "credential_place") \
	X(AUDIT_UNAVAILABLE, 503, "proxy_internal_error", "journal_unavailable") \
	X(LEAF_UNAVAILABLE, 503, "proxy_internal_error", "leaf_unavailable") \
	X(DRAINING, 503, "proxy_internal_response", "draining") \
	X(DOWN_TLS, 0, "tls_protocol_error", "sandbox_tls") \
	X(DOWN_CLOSED, 0, "connection_terminated", "sandbox_closed") \
	X(ABORTED, 0, "connection_terminated", "aborted") \
	X(DECIDED_ANEW, 0, "", "decided_anew")

enum kh_err_code {
#define KH_ERR_ENUM(code, status, token, reason) KH_ERR_##code,
	KH_ERR_TABLE(KH_ERR_ENUM)
#undef KH_ERR_ENUM
		KH_ERR_COUNT
};

enum { KH_ERR_TEXT_BYTES = 512 };

/* Lives on the caller's stack. Every function that takes one accepts NULL. */
struct kh_err {
	enum kh_err_code code;
	int sys;		      /* errno, or 0 */
	unsigned retry_after_s;	      /* when a retry may succeed (Retry-After); 0: not known */
	char text[KH_ERR_TEXT_BYTES]; /* one line, terminated, escaped; "what: why (what to do)" */
};

#define KH_ERR_INIT \
	{ \
		.code = KH_ERR_NONE \
	}

/* Sets code and text (truncated to fit). Return: false, always, so that a caller can write `return
 * kh_err_set(…)`. */
bool kh_err_set(struct kh_err *err, enum kh_err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with errno: its text is appended as ": …" and it is kept in `sys`. */
bool kh_err_sys(struct kh_err *err, enum kh_err_code code, int sys, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Puts context in front: "context: text". Return: false, always. */
bool kh_err_wrap(struct kh_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends this thread's OpenSSL error queue to the text, and empties the queue. Return: false,
 * always. (tls/openssl_err.c) */
bool kh_err_openssl(struct kh_err *err, enum kh_err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#ifdef KH_LINT /* for a static analyzer, which can't see that err.c always returns false */
#define kh_err_set(...) ((void)kh_err_set(__VA_ARGS__), false)
#define kh_err_sys(...) ((void)kh_err_sys(__VA_ARGS__), false)
#define kh_err_wrap(...) ((void)kh_err_wrap(__VA_ARGS__), false)
#define kh_err_openssl(...) ((void)kh_err_openssl(__VA_ARGS__), false)
#endif

int kh_err_status(enum kh_err_code code);
/* Did keyhole refuse because of the operator's policy (rules, addresses, limits that will not clear
 * soon)? If not, something failed, or a limit or a missing login has a status of its own (429,
 * 407). */
bool kh_err_is_policy(enum kh_err_code code);
/* Was a request with this code and `status` refused, by policy or by a limit? Then it does not
 * count as allowed, even if the journal has its open record. */
bool kh_err_is_refusal(enum kh_err_code code, int status);
/* The code with this reason text of `len` bytes; KH_ERR_NONE: there is none. */
enum kh_err_code kh_err_of_reason(const char *reason, size_t len);
const char *kh_err_proxy_status(enum kh_err_code code);
const char *kh_err_reason(enum kh_err_code code);

#endif
