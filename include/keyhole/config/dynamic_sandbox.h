/* dynamic_sandbox.h - guests: sandboxes that come and go while the daemon runs */
#ifndef KEYHOLE_GUEST_H
#define KEYHOLE_GUEST_H

#include <sys/types.h>

#include <keyhole/base/err.h>
#include <keyhole/base/wire.h>

/*
 * A guest is a sandbox that the configuration does not name: it is added and removed by the admin
 * socket. The keeper makes its socket, in a folder that holds nothing else, keeps that open, and
 * remembers who it is for as long as it lives; workers come and go, and are told of all guests
 * anew. Its tenant and id say which one it is; a number, which is never given twice, which of
 * several in a row.
 *
 * Its narrowing is read by the worker, which may be taken over, and is kept by the keeper as bytes
 * that it does not look into (kh_narrow_encode). All else the keeper checks anew. Who asks it has
 * from the worker alone.
 */

/* Of the socket's owner: the daemon's user. */
#define KH_GUEST_NO_UID ((uid_t)-1)

/* What somebody asks for; and what the keeper remembers of it. Strings and bytes are its own. */
struct kh_guest_wish {
	char *tenant, *id;
	uid_t owner;	 /* of the socket */
	mode_t mode;	 /* of the socket */
	uint64_t ttl_ms; /* 0: it stays until it is removed */
	uint32_t pid;	 /* it ends with that process; 0: it does not */
	uid_t asker;	 /* who asks, as the worker says */
	uint32_t asker_pid;
	bool narrowed;
	char *narrow; /* `narrow_len` bytes of kh_narrow_encode */
	size_t narrow_len;
};

bool kh_guest_wish_put(struct kh_buf *out, const struct kh_guest_wish *wish);
/* Every bound is checked, the narrowing alone is not read. Return: false: it is not what a worker
 * sends; `out` is to be finished in any case. */
bool kh_guest_wish_take(struct kh_slice body, struct kh_guest_wish *out);
void kh_guest_wish_fini(struct kh_guest_wish *wish);

/* May its asker have it, with that owner and mode? `daemon`: the user that the keeper is. Worker
 * and keeper both ask this. */
enum kh_guest_verdict {
	KH_GUEST_DENIED = 0, /* the asker may not */
	KH_GUEST_IMPOSSIBLE, /* this daemon can't */
	KH_GUEST_ALLOWED,
};
struct kh_config;
enum kh_guest_verdict kh_guest_judge(const struct kh_config *config, uid_t daemon,
				     const struct kh_guest_wish *wish, struct kh_err *err);
/* May that user add and remove sandboxes of the tenant? */
bool kh_guest_may_use(const struct kh_config *config, uid_t daemon, uid_t asker,
		      const char *tenant);

/* Why this can't be a sandbox's id (or a tenant's name); NULL: it can. It is a folder's name too.
 */
const char *kh_guest_check_id(struct kh_slice id);
/* "2h", within the bounds. */
bool kh_guest_parse_ttl(struct kh_slice text, uint64_t *out_ms, struct kh_err *err);
/* "0660". */
bool kh_guest_parse_mode(struct kh_slice text, mode_t *out, struct kh_err *err);
/* By which maps of guests know it: "tenant/id", which no other pair gives. */
enum { KH_GUEST_NAME_BYTES = 2 * 64 + 2 };
struct kh_slice kh_guest_name(const char *tenant, const char *id, char room[KH_GUEST_NAME_BYTES]);

/* What became of a question about a guest. */
enum kh_guest_result {
	KH_GUEST_OK = 1,
	KH_GUEST_UNKNOWN, /* there is none of that name; or no such tenant */
	KH_GUEST_EXISTS,  /* there is one */
	KH_GUEST_FULL,	  /* there are as many as there may be */
	KH_GUEST_BUSY,	  /* not now */
	KH_GUEST_REFUSED, /* what was asked for can't be */
	KH_GUEST_FAILED,  /* the system would not */
	KH_GUEST_RESULTS,
};

/* A guest, as the keeper shows it to a worker. */
struct kh_guest_card {
	uint64_t number;
	char *tenant, *id, *path;
	uint64_t expires_ms; /* by the wall's clock; 0: never */
	bool narrowed;
	bool suspect;		/* the worker that had it added ended unexpectedly */
	struct kh_slice narrow; /* of the message */
};
/* Return: false: it is not what a keeper sends; `out` is to be finished in any case. */
bool kh_guest_card_take(struct kh_slice body, struct kh_guest_card *out);
bool kh_guest_card_put(struct kh_buf *out, const struct kh_guest_card *card);
void kh_guest_card_fini(struct kh_guest_card *card);

#endif
