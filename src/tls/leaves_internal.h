/* leaves_internal.h - what the down side's context takes from the leaves */
#ifndef KEYHOLE_TLS_LEAVES_INTERNAL_H
#define KEYHOLE_TLS_LEAVES_INTERNAL_H

#include "tls_internal.h"

/* Name, HMAC and AES key of OpenSSL's own ticket format. */
enum { KH_TICKET_KEY_BYTES = 80 };

EVP_PKEY *kh_leaves_key(const struct kh_leaves *leaves);
const unsigned char *kh_leaves_ticket_keys(const struct kh_leaves *leaves);
/* Unique in this process. */
uint64_t kh_leaves_number(const struct kh_leaves *leaves);
/* References for the caller; `issuer` is NULL where none is known. *left_s: for how many more
 * seconds the leaf may be presented. Return: false: no leaf. */
bool kh_leaves_get(struct kh_leaves *leaves, const struct kh_host *host, X509 **leaf, X509 **issuer,
		   long *left_s);

#endif
