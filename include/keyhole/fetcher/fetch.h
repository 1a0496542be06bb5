/* fetch.h - requests to a token endpoint, in a process of its own that has neither the CA key nor a
 * private key */
#ifndef KEYHOLE_FETCHER_FETCH_H
#define KEYHOLE_FETCHER_FETCH_H

#include <keyhole/config/config.h>
#include <keyhole/base/channel.h>
#include <keyhole/base/fetch_url.h>
#include <keyhole/http/message.h>
#include <keyhole/base/wire.h>

/* The two messages between keeper and fetcher (channel.h), and what each end accepts. */
enum kh_fetch_msg {
	KH_FETCH_MSG_ORDER = 49,  /* keeper → fetcher: kh_fetch_order_put; fds: its files */
	KH_FETCH_MSG_ANSWER = 50, /* fetcher → keeper: kh_fetch_answer_put */
};
#define KH_FETCH_MSG_TO_FETCHER_SET KH_CHANNEL_BIT(KH_FETCH_MSG_ORDER)
#define KH_FETCH_MSG_TO_KEEPER_SET KH_CHANNEL_BIT(KH_FETCH_MSG_ANSWER)

/*
 * ORDER: one request to one host, over verified TLS. Its descriptors: a sealed snapshot of the
 * settings of `upstream` (without rules, tenants and credentials), resolv.conf, hosts, then the
 * trust roots.
 */
enum { KH_FETCH_FIELDS = 8 };
struct kh_fetch_order {
	uint32_t timeout_ms; /* for everything together */
	char *user;	     /* worker_user, or NULL */
	struct kh_host host;
	uint16_t port;
	bool post; /* else GET */
	/* Views: of the caller's texts in kh_fetch_order_put, of `body` in kh_fetch_order_take. */
	struct kh_slice target;
	struct kh_field fields[KH_FETCH_FIELDS];
	size_t n_fields;
	struct kh_slice body;
	struct kh_slice proxy_auth; /* value of Proxy-Authorization; empty: none */
};
bool kh_fetch_order_put(struct kh_buf *out, const struct kh_fetch_order *order);
/* Return: false: malformed. The caller frees `user` in either case. */
bool kh_fetch_order_take(struct kh_slice body, struct kh_fetch_order *out);

/* An error code of RFC 6749 §5.2 and similar. All others are KH_FETCH_ERROR_OTHER, since an
 * endpoint's own words may repeat what it was sent. */
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

/* ANSWER, sent once. It has no free text of the endpoint. */
struct kh_fetch_answer {
	bool ok;	 /* the endpoint answered, and its answer was read */
	uint16_t status; /* HTTP status; 0: there was no response */
	uint64_t date_s; /* from the Date field, since the epoch; 0: none */
	enum kh_fetch_error error;
	struct kh_slice token;	 /* access_token or token; visible ASCII */
	uint64_t lifetime_s;	 /* expires_in; 0: none */
	uint64_t expires_s;	 /* expires_at, since the epoch; 0: none */
	struct kh_slice refresh; /* refresh_token */
	uint64_t id;		 /* of an installation; 0: none */
	struct kh_slice why;	 /* if not `ok`: why, in keyhole's words */
};
bool kh_fetch_answer_put(struct kh_buf *out, const struct kh_fetch_answer *answer);
bool kh_fetch_answer_take(struct kh_slice body, struct kh_fetch_answer *out);
/* Reads the JSON of an endpoint. `out` is zeroed, except that `status` (and `date_s`) are set. Its
 * slices are views of `store`, an empty wiping buffer. Return: false: see out->why. No I/O. */
bool kh_fetch_answer_read(struct kh_fetch_answer *out, struct kh_slice json, struct kh_buf *store);

/* The main function of `keyhole fetcher`, which the keeper executes. Return: exit status. */
int kh_fetcher_main(void);

#endif
