/* admin_facts.h - what the keeper tells the worker about itself, for the admin server */
#ifndef KEYHOLE_ADMIN_ADMIN_FACTS_H
#define KEYHOLE_ADMIN_ADMIN_FACTS_H

#include <keyhole/base/wire.h>

/* The socket that `keyhole ctl` uses by default. */
#define KH_ADMIN_SOCKET "/run/keyhole/admin/s"

/* What a caller may ask the keeper to do, through the worker. */
enum kh_admin_verb { KH_ADMIN_RELOAD = 1, KH_ADMIN_DRAIN };

/* What only the keeper knows. Times are wall-clock milliseconds. Strings are on the heap and may be
 * NULL. */
struct kh_admin_facts {
	uint32_t pid;	 /* the keeper's */
	uint32_t starts; /* how many workers it has started */
	uint64_t started_ms, loaded_ms;
	uint64_t reloads, failed_reloads;
	uint64_t failed_ms; /* when the last reload failed; 0: none has failed since loaded_ms */
	char *failure;	    /* why that reload failed */
	char *config_path;
	char *config_hash; /* SHA-256 of the configuration file, in hex */
	char *journal_path;
	uint32_t credentials_left_out; /* credentials that found no room in `credentials` */
	char *credentials; /* states of the credentials, a JSON array. It is not in the message but
			      in a sealed memfd that comes with it */
};

bool kh_admin_facts_put(struct kh_buf *out, const struct kh_admin_facts *facts);
/* All but `credentials`. Return: false: the body is malformed. The caller calls kh_admin_facts_fini
 * on `out` in either case. */
bool kh_admin_facts_take(struct kh_slice body, struct kh_admin_facts *out);
/* A deep copy. Return: false without memory. The caller calls kh_admin_facts_fini on `to` in either
 * case. */
bool kh_admin_facts_copy(struct kh_admin_facts *to, const struct kh_admin_facts *from);
void kh_admin_facts_fini(struct kh_admin_facts *facts);

#endif
