/* socks.h - SOCKS5 (RFC 1928, RFC 1929), as a server: bytes in, messages out */
#ifndef KEYHOLE_DOWNSTREAM_SOCKS_H
#define KEYHOLE_DOWNSTREAM_SOCKS_H

#include <keyhole/http/target.h>

/* The first byte of a connection that speaks it. */
enum { KH_SOCKS_VERSION = 5 };

/* REP of RFC 1928 §6. */
enum kh_socks_reply {
	KH_SOCKS_SUCCEEDED = 0,
	KH_SOCKS_FAILURE = 1,
	KH_SOCKS_NOT_ALLOWED = 2,
	KH_SOCKS_NETWORK_UNREACHABLE = 3,
	KH_SOCKS_HOST_UNREACHABLE = 4,
	KH_SOCKS_REFUSED = 5,
	KH_SOCKS_TTL_EXPIRED = 6,
	KH_SOCKS_COMMAND_UNSUPPORTED = 7,
	KH_SOCKS_ADDRESS_UNSUPPORTED = 8,
};

enum kh_socks_event {
	KH_SOCKS_NEED_MORE = 1,
	KH_SOCKS_AGREED,  /* on a method: its answer was put; the next message is awaited */
	KH_SOCKS_LOGIN,	  /* `user` and `password` are set; kh_socks_login says whether they hold */
	KH_SOCKS_REQUEST, /* CONNECT to `target`: kh_socks_put_reply is due, then the tunnel begins
			   */
	KH_SOCKS_ERROR,	  /* `err` says why; what the protocol has as an answer was put */
};

/* Reads one message after the other, each once it is whole. No socket, no memory of its own. */
struct kh_socks {
	bool with_password; /* RFC 1929 is asked for; else no authentication */
	enum {
		KH_SOCKS_AT_GREETING = 0,
		KH_SOCKS_AT_LOGIN,
		KH_SOCKS_AT_VERDICT, /* kh_socks_login is due */
		KH_SOCKS_AT_REQUEST,
		KH_SOCKS_AT_END,
	} at;
	struct kh_slice user, password; /* views of what was fed, until it moves */
	struct kh_authority target;
};

/*
 * Takes at most one message off the front of *in. Strict: another version than 5, no methods, a
 * reserved byte that is not zero, port 0, and a name that kh_host_parse refuses (empty, NUL,
 * blanks, more than 253 bytes) are errors; so is every command but CONNECT (COMMAND_UNSUPPORTED). A
 * name that is an address's text is that address. After ERROR and REQUEST nothing more is read.
 */
enum kh_socks_event kh_socks_feed(struct kh_socks *socks, struct kh_slice *in, struct kh_buf *out,
				  struct kh_err *err);
/* The answer to a login. Return: false without memory. */
bool kh_socks_login(struct kh_socks *socks, bool holds, struct kh_buf *out);
/* The answer to a request; the bound address in it is 0.0.0.0:0, since it is nobody's affair. */
bool kh_socks_put_reply(struct kh_buf *out, enum kh_socks_reply reply);
/* As which reply a refusal or a failure is told. */
enum kh_socks_reply kh_socks_reply_for(enum kh_err_code code);

#endif
