/* fetch.h - asking a token endpoint, in a process of its own that holds no key */
#ifndef KEYHOLE_FETCHER_FETCH_H
#define KEYHOLE_FETCHER_FETCH_H

#include <keyhole/config/config.h>
#include <keyhole/base/channel.h>
#include <keyhole/base/fetch_url.h>
#include <keyhole/http/message.h>
#include <keyhole/base/wire.h>

/* The two messages of its channel (channel.h), and what each end takes. */
enum kh_fetch_msg {
	KH_FETCH_MSG_ORDER = 49,  /* keeper → fetcher: kh_fetch_order_put; fds: its files */
	KH_FETCH_MSG_ANSWER = 50, /* fetcher → keeper: kh_fetch_answer_put */
};
#define KH_FETCH_MSG_TO_FETCHER_SET KH_CHANNEL_BIT(KH_FETCH_MSG_ORDER)
#define KH_FETCH_MSG_TO_KEEPER_SET KH_CHANNEL_BIT(KH_FETCH_MSG_ANSWER)

/*
 * What the fetcher is told (ORDER): one request to one host, over verified TLS, and nothing else.
 * Its files: a snapshot of how upstreams are reached (sealed; without rules, tenants and
 * credentials), resolv.conf, hosts, then the trust roots.
 */
enum { KH_FETCH_FIELDS = 8 };
struct kh_fetch_order {
	uint32_t timeout_ms; /* for all of it */
	char *user;	     /* worker_user, or NULL */
	struct kh_host host;
	uint16_t port;
	bool post; /* else GET */
	/* Views: of the caller's for putting, of what was read for taking. */
	struct kh_slice target;
	struct kh_field fields[KH_FETCH_FIELDS];
	size_t n_fields;
	struct kh_slice body;
	struct kh_slice proxy_auth; /* value of Proxy-Authorization; empty: none */
};
bool kh_fetch_order_put(struct kh_buf *out, const struct kh_fetch_order *order);
/* Return: false: it is none. `user` is the caller's to free. */
bool kh_fetch_order_take(struct kh_slice body, struct kh_fetch_order *out);

/* An error of RFC 6749 §5.2 and its kin. Others are KH_FETCH_ERROR_OTHER: an endpoint's own words
 * may repeat what it was told. */
enum kh_fetch_error {
	KH_FETCH_ERROR_NONE = 0,
	KH_FETCH_ERROR_INVALID_REQUEST,
	KH_FETCH_ERROR_INVALID_CLIENT,
	KH_FETCH_ERROR_INVALID_GRANT,
	KH_FETCH_ERROR_UNAUTHORIZED_CLIENT,
	KH_FETCH_ERROR_UNSUPPORTED_GRANT_TYPE,
	KH_FETCH_ERROR_INVALID_SCOPE,
	KH_FETCH_ERROR_ACCESS_DENIED,
	KH_FETCH_ERROR_SERVER_ERROR,
	KH_FETCH_ERROR_TEMPORARILY_UNAVAILABLE,
	KH_FETCH_ERROR_OTHER,
	KH_FETCH_ERRORS,
};
const char *kh_fetch_error_name(enum kh_fetch_error error); /* "invalid_grant" */

/* What it says (ANSWER), once. Nothing in it is free text of the endpoint's. */
struct kh_fetch_answer {
	bool ok;	 /* the endpoint answered, and its answer was read */
	uint16_t status; /* of HTTP; 0: there was none */
	uint64_t date_s; /* the endpoint's clock; 0: it does not say */
	enum kh_fetch_error error;
	struct kh_slice token;	 /* access_token, token; visible ASCII */
	uint64_t lifetime_s;	 /* expires_in; 0: it does not say */
	uint64_t expires_s;	 /* expires_at, since the epoch; 0 */
	struct kh_slice refresh; /* refresh_token */
	uint64_t id;		 /* of an installation; 0 */
	struct kh_slice why;	 /* not ok: in our own words */
};
bool kh_fetch_answer_put(struct kh_buf *out, const struct kh_fetch_answer *answer);
bool kh_fetch_answer_take(struct kh_slice body, struct kh_fetch_answer *out);
/* Reads the JSON of an endpoint into what `store` (wiping) keeps. Return: false: `out->why`. Pure.
 */
bool kh_fetch_answer_read(struct kh_fetch_answer *out, struct kh_slice json, struct kh_buf *store);

/* `keyhole fetcher`, exec'd by the keeper. Return: exit status. */
int kh_fetcher_main(void);

#endif
