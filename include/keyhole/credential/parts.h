/* parts.h - of a credential's value, what is worth as much as the whole */
#ifndef KEYHOLE_CREDENTIAL_PARTS_H
#define KEYHOLE_CREDENTIAL_PARTS_H

#include <keyhole/config/config.h>

/*
 * Runs `use` on the value and on each part of it: the keys of an AWS account (id, secret, token),
 * the password of a `basic` value that is user:password, the lines of a private key, the bytes
 * that the text of an `hmac` key stands for. `line`: it is a line of a private key. To be called
 * while the value's page is open; the parts are views, or in memory that is wiped. Return: false:
 * `use` said so, or there is no memory.
 */
bool kh_parts_each(const struct kh_credential_config *credential, struct kh_slice value,
		   bool (*use)(struct kh_slice part, bool line, void *arg), void *arg);

/* Is the value so easy to guess, or the password in it, that it is not looked for? */
bool kh_parts_guessable(const struct kh_credential_config *credential, struct kh_slice value);

#endif
