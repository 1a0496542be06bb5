/*
 * sessions.c - upstream TLS sessions, for resumption
 *
 * A resumed session is not verified again. So its key contains everything that the verification
 * depended on: the host, the load of the trust roots, and the pool's own key. A TLS 1.3 ticket is
 * used once (RFC 8446 §C.4); a TLS 1.2 session stays.
 *
 * A session is kept encoded (i2d_SSL_SESSION): its ticket and the server's own certificate. As
 * OpenSSL has it, it also holds the whole chain that the server sent, which need not lead anywhere
 * and may have 100 KB.
 */
#include "sessions_internal.h"

#include <time.h>

#include <keyhole/base/limits.h>
#include <keyhole/base/lru.h>

/* Servers send two tickets a connection or so; connections made at the same time want one each. */
enum { TICKETS_PER_KEY = 4, LONGEST_S = 24 * 3600 };

struct encoded {
	unsigned char *der; /* of OpenSSL's heap */
	int len;
};

struct bundle {
	struct encoded list[TICKETS_PER_KEY]; /* oldest first */
	unsigned count;
};

struct kh_sessions {
	struct kh_lru *bundles;
};

/* It holds the secret that resumes the session. */
static void drop(struct encoded *one)
{
	OPENSSL_clear_free(one->der, (size_t)one->len);
	*one = (struct encoded){ NULL, 0 };
}

static void drop_bundle(void *value)
{
	struct bundle *bundle = value;
	for (unsigned i = 0; i < bundle->count; i++)
		drop(&bundle->list[i]);
	free(bundle);
}

struct kh_sessions *kh_sessions_new(size_t most)
{
	struct kh_sessions *sessions = calloc(1, sizeof *sessions);
	if (!sessions)
		return NULL;
	sessions->bundles = kh_lru_new(most, drop_bundle);
	if (!sessions->bundles) {
		free(sessions);
		return NULL;
	}
	return sessions;
}

void kh_sessions_free(struct kh_sessions *sessions)
{
	if (!sessions)
		return;
	kh_lru_free(sessions->bundles);
	free(sessions);
}

/* The certificate was verified when the session began; its days may have ended since. */
static bool is_fresh(SSL_SESSION *session)
{
	long age = (long)time(NULL) - SSL_SESSION_get_time(session);
	const X509 *peer = SSL_SESSION_get0_peer(session);
	return age >= 0 && age < SSL_SESSION_get_timeout(session) && age < LONGEST_S &&
	       SSL_SESSION_is_resumable(session) && peer &&
	       X509_cmp_current_time(X509_get0_notAfter(peer)) > 0;
}

SSL_SESSION *kh_sessions_take(struct kh_sessions *sessions, struct kh_slice key)
{
	struct bundle *bundle = kh_lru_get(sessions->bundles, key);
	SSL_SESSION *session = NULL;
	while (bundle && !session && bundle->count > 0) {
		struct encoded *youngest = &bundle->list[bundle->count - 1];
		const unsigned char *der = youngest->der;
		session = d2i_SSL_SESSION(NULL, &der, youngest->len);
		if (session && is_fresh(session) &&
		    SSL_SESSION_get_protocol_version(session) < TLS1_3_VERSION)
			break;
		drop(youngest);
		bundle->count--;
		if (session && !is_fresh(session)) {
			SSL_SESSION_free(session);
			session = NULL;
		}
	}
	if (bundle && bundle->count == 0)
		free(kh_lru_take(sessions->bundles, key));
	return session;
}

static bool encode(SSL_SESSION *session, struct encoded *out)
{
	int len = i2d_SSL_SESSION(session, NULL);
	if (len <= 0 || len > KH_LIMIT_TLS_SESSION_BYTES)
		return false;
	out->len = i2d_SSL_SESSION(session, &out->der);
	return out->len > 0;
}

static struct bundle *bundle_of(struct kh_sessions *sessions, struct kh_slice key)
{
	struct bundle *bundle = kh_lru_get(sessions->bundles, key);
	if (bundle)
		return bundle;
	bundle = calloc(1, sizeof *bundle);
	if (bundle && kh_lru_put(sessions->bundles, key, bundle))
		return bundle;
	free(bundle);
	return NULL;
}

bool kh_sessions_put(struct kh_sessions *sessions, struct kh_slice key, SSL_SESSION *session)
{
	struct encoded one = { NULL, 0 };
	if (!encode(session, &one))
		return false;
	struct bundle *bundle = bundle_of(sessions, key);
	if (!bundle) {
		drop(&one);
		return false;
	}
	if (bundle->count == TICKETS_PER_KEY) {
		drop(&bundle->list[0]);
		memmove(bundle->list, bundle->list + 1,
			(TICKETS_PER_KEY - 1) * sizeof bundle->list[0]);
		bundle->count--;
	}
	bundle->list[bundle->count++] = one;
	return true;
}
