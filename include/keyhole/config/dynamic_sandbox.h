/* dynamic_sandbox.h - dynamic sandboxes, which are added and removed while the daemon runs */
#ifndef KEYHOLE_CONFIG_DYNAMIC_SANDBOX_H
#define KEYHOLE_CONFIG_DYNAMIC_SANDBOX_H

#include <sys/types.h>

#include <keyhole/base/err.h>
#include <keyhole/base/wire.h>

/*
 * The configuration does not name a dynamic sandbox: it is added and removed through the admin
 * socket. The keeper makes its socket, in a folder that holds nothing else, keeps it open, and
 * remembers the sandbox until it is removed. Workers come and go, and each new one is told of all
 * dynamic sandboxes. A tenant and an id identify a sandbox. A number, which is never reused, tells
 * later ones of the same name apart.
 *
 * The worker parses the narrowing, since a worker may be taken over; the keeper stores it as bytes
 * that it does not parse (kh_snapshot_encode_narrow). The keeper checks everything else again. It
 * must trust the worker only about who asked for the sandbox.
 */

/* As the owner of the socket: the daemon's user. */
#define KH_DYNAMIC_SANDBOX_NO_UID ((uid_t)-1)

/* A request for a dynamic sandbox, which the keeper keeps. It owns its strings and bytes. */
struct kh_dynamic_sandbox_wish {
	char *tenant, *id;
	uid_t owner;	 /* of the socket */
	mode_t mode;	 /* of the socket */
	uint64_t ttl_ms; /* 0: it stays until it is removed */
	uint32_t pid;	 /* the sandbox is removed when this process ends; 0: not so */
	uid_t asker;	 /* the caller's uid, as the worker says */
	uint32_t asker_pid;
	bool narrowed;
	char *narrow; /* `narrow_len` bytes of kh_snapshot_encode_narrow */
	size_t narrow_len;
};

bool kh_dynamic_sandbox_wish_put(struct kh_buf *out, const struct kh_dynamic_sandbox_wish *wish);
/* Checks every bound, but does not parse the narrowing. Return: false: a worker sends no such
 * message. The caller calls kh_dynamic_sandbox_wish_fini on `out` in either case. */
bool kh_dynamic_sandbox_wish_take(struct kh_slice body, struct kh_dynamic_sandbox_wish *out);
void kh_dynamic_sandbox_wish_fini(struct kh_dynamic_sandbox_wish *wish);

/* May the caller have this sandbox, with that owner and mode? `daemon`: the keeper's user. Worker
 * and keeper both call this. `err` says why not. */
enum kh_dynamic_sandbox_verdict {
	KH_DYNAMIC_SANDBOX_DENIED = 0, /* the caller may not */
	KH_DYNAMIC_SANDBOX_IMPOSSIBLE, /* this daemon can't give the socket away, since it does not
					  run as root */
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

/* Why this can't be a sandbox's id (or a tenant's name), a literal; NULL: it can. The id is also
 * used as a folder's name. */
const char *kh_dynamic_sandbox_check_id(struct kh_slice id);
/* Parses "2h", within the bounds of limits.h. */
bool kh_dynamic_sandbox_parse_ttl(struct kh_slice text, uint64_t *out_ms, struct kh_err *err);
/* Parses "0660". */
bool kh_dynamic_sandbox_parse_mode(struct kh_slice text, mode_t *out, struct kh_err *err);
/* The key in maps of dynamic sandboxes: "tenant/id", which is unique. A view of `room`. */
enum { KH_DYNAMIC_SANDBOX_NAME_BYTES = 2 * 64 + 2 };
struct kh_slice kh_dynamic_sandbox_name(const char *tenant, const char *id,
					char room[KH_DYNAMIC_SANDBOX_NAME_BYTES]);

/* The result of adding or removing a dynamic sandbox. */
enum kh_dynamic_sandbox_result {
	KH_DYNAMIC_SANDBOX_OK = 1,
	KH_DYNAMIC_SANDBOX_UNKNOWN, /* no such sandbox, or no such tenant */
	KH_DYNAMIC_SANDBOX_EXISTS,  /* it exists already */
	KH_DYNAMIC_SANDBOX_FULL,    /* the limit is reached */
	KH_DYNAMIC_SANDBOX_BUSY,    /* not possible now; try again */
	KH_DYNAMIC_SANDBOX_REFUSED, /* the request is not allowed or not possible */
	KH_DYNAMIC_SANDBOX_FAILED,  /* a system call failed */
	KH_DYNAMIC_SANDBOX_RESULTS,
};

/* A dynamic sandbox, as the keeper describes it to a worker. */
struct kh_dynamic_sandbox_card {
	uint64_t number;
	char *tenant, *id, *path;
	uint64_t expires_ms; /* wall clock; 0: never */
	bool narrowed;
	bool suspect;		/* the worker that had it added ended unexpectedly */
	struct kh_slice narrow; /* a view of the message */
};
/* Return: false: a keeper sends no such message. The caller calls kh_dynamic_sandbox_card_fini on
 * `out` in either case. */
bool kh_dynamic_sandbox_card_take(struct kh_slice body, struct kh_dynamic_sandbox_card *out);
bool kh_dynamic_sandbox_card_put(struct kh_buf *out, const struct kh_dynamic_sandbox_card *card);
void kh_dynamic_sandbox_card_fini(struct kh_dynamic_sandbox_card *card);

#endif
