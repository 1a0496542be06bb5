/* dynamic_sandbox.h - dynamic sandboxes: sandboxes that come and go while the daemon runs */
#ifndef KEYHOLE_CONFIG_DYNAMIC_SANDBOX_H
#define KEYHOLE_CONFIG_DYNAMIC_SANDBOX_H

#include <sys/types.h>

#include <keyhole/base/err.h>
#include <keyhole/base/wire.h>

/*
 * A dynamic sandbox is a sandbox that the configuration does not name: it is added and removed by
 * the admin socket. The keeper makes its socket, in a folder that holds nothing else, keeps that
 * open, and remembers who it is for as long as it lives; workers come and go, and are told of all
 * dynamic sandboxes anew. Its tenant and id say which one it is; a number, which is never given
 * twice, which of several in a row.
 *
 * Its narrowing is read by the worker, which may be taken over, and is kept by the keeper as bytes
 * that it does not look into (kh_snapshot_encode_narrow). All else the keeper checks anew. Who asks
 * it has from the worker alone.
 */

/* Of the socket's owner: the daemon's user. */
#define KH_DYNAMIC_SANDBOX_NO_UID ((uid_t)-1)

/* What somebody asks for; and what the keeper remembers of it. Strings and bytes are its own. */
struct kh_dynamic_sandbox_wish {
	char *tenant, *id;
	uid_t owner;	 /* of the socket */
	mode_t mode;	 /* of the socket */
	uint64_t ttl_ms; /* 0: it stays until it is removed */
	uint32_t pid;	 /* it ends with that process; 0: it does not */
	uid_t asker;	 /* who asks, as the worker says */
	uint32_t asker_pid;
	bool narrowed;
	char *narrow; /* `narrow_len` bytes of kh_snapshot_encode_narrow */
	size_t narrow_len;
};

bool kh_dynamic_sandbox_wish_put(struct kh_buf *out, const struct kh_dynamic_sandbox_wish *wish);
/* Every bound is checked, the narrowing alone is not read. Return: false: it is not what a worker
 * sends; `out` is to be finished in any case. */
bool kh_dynamic_sandbox_wish_take(struct kh_slice body, struct kh_dynamic_sandbox_wish *out);
void kh_dynamic_sandbox_wish_fini(struct kh_dynamic_sandbox_wish *wish);

/* May its asker have it, with that owner and mode? `daemon`: the user that the keeper is. Worker
 * and keeper both ask this. */
enum kh_dynamic_sandbox_verdict {
	KH_DYNAMIC_SANDBOX_DENIED = 0, /* the asker may not */
	KH_DYNAMIC_SANDBOX_IMPOSSIBLE, /* this daemon can't */
	KH_DYNAMIC_SANDBOX_ALLOWED,
};
struct kh_config;
enum kh_dynamic_sandbox_verdict kh_dynamic_sandbox_judge(const struct kh_config *config,
							 uid_t daemon,
							 const struct kh_dynamic_sandbox_wish *wish,
							 struct kh_err *err);
/* May that user add and remove sandboxes of the tenant? */
bool kh_dynamic_sandbox_may_use(const struct kh_config *config, uid_t daemon, uid_t asker,
				const char *tenant);

/* Why this can't be a sandbox's id (or a tenant's name); NULL: it can. It is a folder's name too.
 */
const char *kh_dynamic_sandbox_check_id(struct kh_slice id);
/* "2h", within the bounds. */
bool kh_dynamic_sandbox_parse_ttl(struct kh_slice text, uint64_t *out_ms, struct kh_err *err);
/* "0660". */
bool kh_dynamic_sandbox_parse_mode(struct kh_slice text, mode_t *out, struct kh_err *err);
/* By which maps of dynamic sandboxes know it: "tenant/id", which no other pair gives. */
enum { KH_DYNAMIC_SANDBOX_NAME_BYTES = 2 * 64 + 2 };
struct kh_slice kh_dynamic_sandbox_name(const char *tenant, const char *id,
					char room[KH_DYNAMIC_SANDBOX_NAME_BYTES]);

/* What became of a question about a dynamic sandbox. */
enum kh_dynamic_sandbox_result {
	KH_DYNAMIC_SANDBOX_OK = 1,
	KH_DYNAMIC_SANDBOX_UNKNOWN, /* there is none of that name; or no such tenant */
	KH_DYNAMIC_SANDBOX_EXISTS,  /* there is one */
	KH_DYNAMIC_SANDBOX_FULL,    /* there are as many as there may be */
	KH_DYNAMIC_SANDBOX_BUSY,    /* not now */
	KH_DYNAMIC_SANDBOX_REFUSED, /* what was asked for can't be */
	KH_DYNAMIC_SANDBOX_FAILED,  /* the system would not */
	KH_DYNAMIC_SANDBOX_RESULTS,
};

/* A dynamic sandbox, as the keeper shows it to a worker. */
struct kh_dynamic_sandbox_card {
	uint64_t number;
	char *tenant, *id, *path;
	uint64_t expires_ms; /* by the wall's clock; 0: never */
	bool narrowed;
	bool suspect;		/* the worker that had it added ended unexpectedly */
	struct kh_slice narrow; /* of the message */
};
/* Return: false: it is not what a keeper sends; `out` is to be finished in any case. */
bool kh_dynamic_sandbox_card_take(struct kh_slice body, struct kh_dynamic_sandbox_card *out);
bool kh_dynamic_sandbox_card_put(struct kh_buf *out, const struct kh_dynamic_sandbox_card *card);
void kh_dynamic_sandbox_card_fini(struct kh_dynamic_sandbox_card *card);

#endif
