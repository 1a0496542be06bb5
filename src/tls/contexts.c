/*
 * contexts.c - the two SSL_CTX of a thread, and their callbacks
 *
 * Nothing in them depends on a host: name, certificate and verification are set per connection.
 * Each thread has its own, with OpenSSL's session cache off, so that threads never wait for each
 * other's locks.
 */
#include "flight_internal.h"
#include "leaves_internal.h"
#include "sessions_internal.h"
#include "verify_internal.h"

#include <time.h>

#include <openssl/err.h>
#include <openssl/tls1.h>
#include <openssl/x509v3.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

/* No DHE: a server chooses the group, and one of 10,000 bits takes more than a second. */
#define CIPHERS_TLS12 "ECDHE+AESGCM:ECDHE+CHACHA20"

enum {
	/* Two records at a time. The buffer is there only while something is being read. */
	READ_BUFFER_BYTES = 2 * (SSL3_RT_MAX_PLAIN_LENGTH + SSL3_RT_MAX_ENCRYPTED_OVERHEAD) + 16,
	TICKET_LIFE_S = 2 * 3600,
	SECURITY_LEVEL = 2, /* 112 bits: no RSA below 2048, no SHA-1 signatures */
};

/* Towards sandboxes only those that cost what is charged for a handshake: P-384 costs ten times as
 * much. Every client has P-256 (RFC 8446 §9.1). The macro wants them writable. */
static char groups_down[] = "X25519:P-256";
static char groups_up[] = "X25519:P-256:P-384:P-521";
static const unsigned char alpn_http11[] = { 8, 'h', 't', 't', 'p', '/', '1', '.', '1' };

static SSL_CTX *new_ctx(const SSL_METHOD *method, char *groups, struct kh_err *err)
{
	SSL_CTX *ctx = SSL_CTX_new(method);
	if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_max_proto_version(ctx, 0) != 1 ||
	    SSL_CTX_set_cipher_list(ctx, CIPHERS_TLS12) != 1 ||
	    SSL_CTX_set1_groups_list(ctx, groups) != 1) {
		kh_err_openssl(err, KH_ERR_INTERNAL, "TLS context");
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_security_level(ctx, SECURITY_LEVEL);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	/* Otherwise one read takes messages without content for as long as there are any. */
	SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_info_callback(ctx, kh_stream_on_message);
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_default_read_buffer_len(ctx, READ_BUFFER_BYTES);
	return ctx;
}

/* ---- towards the sandbox ---- */

/* The host_name of a server_name extension (RFC 6066 §3). Return: false: not well-formed; OpenSSL
 * will say so itself a moment later. */
static bool read_sni(const unsigned char *ext, size_t len, struct kh_slice *name)
{
	if (len < 5 || (size_t)(ext[0] << 8 | ext[1]) != len - 2 || ext[2] != 0)
		return false;
	size_t name_len = (size_t)(ext[3] << 8 | ext[4]);
	if (name_len != len - 5)
		return false;
	*name = kh_slice_of(ext + 5, name_len);
	return true;
}

static void note_mismatch(struct kh_stream *s, struct kh_slice sni)
{
	if (s->sni_mismatch)
		return;
	s->sni_mismatch = strdup(kh_esc(sni));
}

/* Each ClientHello is looked at, the one after a HelloRetryRequest too. */
static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
	struct kh_stream *s = SSL_get_app_data(ssl);
	const unsigned char *ext = NULL;
	size_t len = 0;
	struct kh_slice sni;
	struct kh_host named;
	(void)arg;
	if (!s || !s->handshake) {
		*alert = SSL_AD_INTERNAL_ERROR;
		return SSL_CLIENT_HELLO_ERROR;
	}
	s->handshake->unpaid_keys++;
	/* OpenSSL makes 180 bytes of each name of two, and keeps them. */
	if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_certificate_authorities, &ext, &len) &&
	    len > KH_LIMIT_HELLO_AUTHORITIES_BYTES) {
		*alert = SSL_AD_ILLEGAL_PARAMETER;
		return SSL_CLIENT_HELLO_ERROR;
	}
	if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &ext, &len))
		return SSL_CLIENT_HELLO_SUCCESS;
	if (!read_sni(ext, len, &sni)) {
		*alert = SSL_AD_DECODE_ERROR;
		return SSL_CLIENT_HELLO_ERROR;
	}
	if (!kh_host_parse(&named, sni, NULL) || !kh_host_eq(&named, &s->handshake->host)) {
		note_mismatch(s, sni);
		if (!s->sni_mismatch) { /* without memory to remember it, it must not go on */
			*alert = SSL_AD_INTERNAL_ERROR;
			return SSL_CLIENT_HELLO_ERROR;
		}
	}
	return SSL_CLIENT_HELLO_SUCCESS;
}

/* In TLS 1.2 the keys are made with the client's second message; also when nothing follows it. */
static void on_tls_message(int sent, int version, int type, const void *bytes, size_t len, SSL *ssl,
			   void *arg)
{
	struct kh_stream *s = SSL_get_app_data(ssl);
	(void)version;
	(void)arg;
	if (!sent && type == SSL3_RT_HANDSHAKE && len > 0 &&
	    *(const unsigned char *)bytes == SSL3_MT_CLIENT_KEY_EXCHANGE && s && s->handshake)
		s->handshake->unpaid_keys++;
}

/*
 * A ticket outlives no leaf: who resumes is shown none. A resumed session gives out a ticket of its
 * own, with a time of its own, so the end is written into the first and handed on from each to the
 * next.
 */
static bool set_end_of_tickets(SSL_SESSION *session, long left_s)
{
	long life = left_s < TICKET_LIFE_S ? left_s : TICKET_LIFE_S;
	const int64_t end = (int64_t)time(NULL) + life;
	if (!session)
		return true;
	return SSL_SESSION_set_timeout(session, life > 0 ? life : 1) == 1 &&
	       SSL_SESSION_set1_ticket_appdata(session, &end, sizeof end) == 1;
}

static SSL_TICKET_RETURN on_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
				   size_t name_len, SSL_TICKET_STATUS status, void *arg)
{
	void *data = NULL;
	size_t len = 0;
	int64_t end;
	(void)ssl;
	(void)name;
	(void)name_len;
	(void)arg;
	if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW)
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	if (SSL_SESSION_get0_ticket_appdata(session, &data, &len) != 1 || len != sizeof end)
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	memcpy(&end, data, sizeof end);
	if (time(NULL) >= end)
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

/* The tunnel's leaf, whatever the SNI. 0: refused; -1: the handshake rests until there is one. */
static int on_certificate(SSL *ssl, void *arg)
{
	struct kh_stream *s = SSL_get_app_data(ssl);
	X509 *leaf = NULL, *issuer = NULL;
	if (!s || !s->handshake || s->handshake->leaf_refused)
		return 0;
	struct kh_leaves *leaves = s->handshake->leaves ? s->handshake->leaves : arg;
	long left_s;
	if (!kh_leaves_get(leaves, &s->handshake->host, &leaf, &issuer, &left_s))
		return -1;
	/* The key goes in behind the certificate, or OpenSSL compares the two twice. */
	int ok = issuer && set_end_of_tickets(SSL_get_session(ssl), left_s) &&
		 SSL_use_certificate(ssl, leaf) == 1 &&
		 SSL_use_PrivateKey(ssl, kh_leaves_key(leaves)) == 1 &&
		 SSL_clear_chain_certs(ssl) == 1 && SSL_add0_chain_cert(ssl, issuer) == 1;
	if (!ok)
		X509_free(issuer);
	X509_free(leaf);
	return ok;
}

/* `name` as it stands in the list of what was offered, or NULL. */
static const unsigned char *find_offer(const unsigned char *offered, unsigned len,
				       struct kh_slice name)
{
	for (unsigned at = 0; at < len && at + 1u + offered[at] <= len; at += 1u + offered[at])
		if (kh_slice_eq(kh_slice_of(offered + at + 1, offered[at]), name))
			return offered + at;
	return NULL;
}

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
		   const unsigned char *offered, unsigned offered_len, void *arg)
{
	(void)ssl;
	(void)arg;
	const unsigned char *chosen = find_offer(offered, offered_len, KH_SLICE("h2"));
	if (!chosen)
		chosen = find_offer(offered, offered_len, KH_SLICE("http/1.1"));
	if (!chosen)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen + 1;
	*out_len = chosen[0];
	return SSL_TLSEXT_ERR_OK;
}

SSL_CTX *kh_tls_down_ctx(struct kh_leaves *leaves, struct kh_err *err)
{
	SSL_CTX *ctx = new_ctx(TLS_server_method(), groups_down, err);
	unsigned char ticket_keys[KH_TICKET_KEY_BYTES];
	if (!ctx)
		return NULL;
	memcpy(ticket_keys, kh_leaves_ticket_keys(leaves), sizeof ticket_keys);
	bool ok = SSL_CTX_set_tlsext_ticket_keys(ctx, ticket_keys, sizeof ticket_keys) == 1 &&
		  SSL_CTX_set_num_tickets(ctx, 1) == 1;
	OPENSSL_cleanse(ticket_keys, sizeof ticket_keys);
	if (!ok) {
		kh_err_openssl(err, KH_ERR_INTERNAL, "TLS context");
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* tickets alone */
	SSL_CTX_set_timeout(ctx, TICKET_LIFE_S);
	SSL_CTX_set_client_hello_cb(ctx, on_client_hello, NULL);
	SSL_CTX_set_msg_callback(ctx, on_tls_message);
	SSL_CTX_set_cert_cb(ctx, on_certificate, leaves);
	(void)SSL_CTX_set_session_ticket_cb(ctx, NULL, on_ticket, NULL);
	SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
	return ctx;
}

/* ---- towards upstreams ---- */

static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
	struct kh_stream *s = SSL_get_app_data(ssl);
	if (s && s->sessions && s->session_key)
		(void)kh_sessions_put(s->sessions, kh_slice_str(s->session_key), session);
	return 0; /* the session stays OpenSSL's */
}

/* The names that a certificate is for: the first few, escaped; heap. */
static char *list_names(X509 *cert)
{
	enum { NAMES_SHOWN = 4, NAME_SHOWN_BYTES = 64 };
	GENERAL_NAMES *names =
		cert ? X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL) : NULL;
	struct kh_buf text;
	int shown = 0;
	kh_buf_init(&text, NAMES_SHOWN * (KH_ESC_MAX_BYTES + 8));
	for (int i = 0; names && i < sk_GENERAL_NAME_num(names) && shown < NAMES_SHOWN; i++) {
		int type = 0;
		const ASN1_STRING *name =
			GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
		if (type != GEN_DNS)
			continue;
		size_t len = (size_t)ASN1_STRING_length(name);
		struct kh_slice shortened = kh_slice_sub(
			kh_slice_of(ASN1_STRING_get0_data(name), len), 0, NAME_SHOWN_BYTES);
		kh_buf_printf(&text, "%s%s", shown++ ? ", " : "", kh_esc(shortened));
	}
	GENERAL_NAMES_free(names);
	char *list = kh_slice_dup(kh_buf_view(&text));
	kh_buf_fini(&text);
	return list;
}

static void note_refusal(struct handshake *h, X509_STORE_CTX *ctx, const char *fault)
{
	char subject[256] = "";
	int depth = X509_STORE_CTX_get_error_depth(ctx);
	/* There is no chain yet where what was sent is not even looked at. */
	STACK_OF(X509) *chain = X509_STORE_CTX_get0_chain(ctx);
	if (!chain)
		chain = X509_STORE_CTX_get0_untrusted(ctx);
	X509 *cert = fault ? sk_X509_value(chain, depth) : X509_STORE_CTX_get_current_cert(ctx);
	if (cert)
		X509_NAME_oneline(X509_get_subject_name(cert), subject, sizeof subject);
	h->verify_error = X509_STORE_CTX_get_error(ctx);
	h->verify_depth = depth;
	h->verify_fault = fault;
	h->verify_subject = strdup(kh_esc_str(subject));
	h->verify_names = list_names(X509_STORE_CTX_get0_cert(ctx));
}

/* Notes what was refused, where it is refused first; changes nothing about it. */
static int on_verify_step(int ok, X509_STORE_CTX *ctx)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct kh_stream *s = ssl ? SSL_get_app_data(ssl) : NULL;
	if (!ok && s && s->handshake && s->handshake->verify_error == X509_V_OK)
		note_refusal(s->handshake, ctx, NULL);
	return ok;
}

static int on_verify(X509_STORE_CTX *ctx, void *arg)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct kh_stream *s = ssl ? SSL_get_app_data(ssl) : NULL;
	const char *fault = NULL;
	int depth = 0;
	(void)arg;
	int ok = kh_verify_chain(ctx, &fault, &depth);
	if (fault && s && s->handshake)
		note_refusal(s->handshake, ctx, fault);
	kh_stream_forget_chain(X509_STORE_CTX_get0_untrusted(ctx));
	return ok;
}

SSL_CTX *kh_tls_up_ctx(struct kh_roots *roots, struct kh_err *err)
{
	SSL_CTX *ctx = new_ctx(TLS_client_method(), groups_up, err);
	if (!ctx)
		return NULL;
	if (SSL_CTX_set_app_data(ctx, roots) != 1 ||
	    SSL_CTX_set_alpn_protos(ctx, alpn_http11, sizeof alpn_http11) != 0) {
		kh_err_openssl(err, KH_ERR_INTERNAL, "TLS context");
		SSL_CTX_free(ctx);
		return NULL;
	}
	SSL_CTX_set_max_cert_list(ctx, KH_LIMIT_TLS_CHAIN_BYTES);
	SSL_CTX_set_msg_callback(ctx, kh_stream_on_flight);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, on_verify_step);
	SSL_CTX_set_cert_verify_callback(ctx, on_verify, NULL);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ctx, on_new_session);
	return ctx;
}

struct kh_roots *kh_tls_ctx_roots(const SSL_CTX *ctx)
{
	return SSL_CTX_get_app_data(ctx);
}
