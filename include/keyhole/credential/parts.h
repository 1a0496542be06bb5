/* parts.h - the parts of a credential's value that are as valuable as the whole */
#ifndef KEYHOLE_CREDENTIAL_PARTS_H
#define KEYHOLE_CREDENTIAL_PARTS_H

#include <keyhole/config/config.h>

/*
 * Calls `use` with the value and with each such part: the keys of an AWS account (id, secret,
 * token), the password of a `basic` value that is user:password, the lines of a private key, the
 * decoded bytes of an `hmac` key. `line`: it is a line of a private key. To be called while the
 * value's pages are open; the parts are views, or in memory that is wiped. Return: false: `use`
 * returned false, or there is no memory.
 */
bool kh_parts_each(const struct kh_credential_config *credential, struct kh_slice value,
		   bool (*use)(struct kh_slice part, bool line, void *arg), void *arg);

/* So many lines of a value are searched for (src/keeper/fingerprints.c). A private key that keyhole
 * signs with has at most about 110. */
enum { KH_PARTS_LINES_MOST = 128 };

/* Return: how many lines of private keys are in it. */
size_t kh_parts_lines(const struct kh_credential_config *credential, struct kh_slice value);

/* Is the value, or the password in it, so easy to guess that it is not searched for in requests? */
bool kh_parts_guessable(const struct kh_credential_config *credential, struct kh_slice value);

#endif
