/* admin_facts.h - what keeper and worker tell each other for whoever looks at the daemon (`admin`)
 */
#ifndef KEYHOLE_ADMIN_ADMIN_FACTS_H
#define KEYHOLE_ADMIN_ADMIN_FACTS_H

#include <keyhole/base/wire.h>

/* Where `keyhole ctl` looks when it is not told. */
#define KH_ADMIN_SOCKET "/run/keyhole/admin/s"

/* What a caller may ask of the keeper, by way of the worker. */
enum kh_admin_verb { KH_ADMIN_RELOAD = 1, KH_ADMIN_DRAIN };

/* What only the keeper knows. Strings may be NULL. */
struct kh_admin_facts {
	uint32_t pid;	 /* the keeper's */
	uint32_t starts; /* of workers */
	uint64_t started_ms, loaded_ms;
	uint64_t reloads, failed_reloads;
	uint64_t failed_ms; /* when the last one failed; 0: none has since it was loaded */
	char *failure;	    /* why */
	char *config_path;
	char *config_hash; /* of the file's bytes: SHA-256, hexadecimal */
	char *journal_path;
	uint32_t states_left_out; /* of credentials; there was no more room */
	char *credentials;	  /* their states, a JSON array: not in the message, but in a sealed
				     file that comes with it */
};

bool kh_admin_facts_put(struct kh_buf *out, const struct kh_admin_facts *facts);
/* Return: false: it is not what a keeper sends; `out` is to be finished in any case. */
bool kh_admin_facts_take(struct kh_slice body, struct kh_admin_facts *out);
/* `to` is to be finished in any case. */
bool kh_admin_facts_copy(struct kh_admin_facts *to, const struct kh_admin_facts *from);
void kh_admin_facts_fini(struct kh_admin_facts *facts);

#endif
