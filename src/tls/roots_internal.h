/* roots_internal.h - what an upstream handshake takes from the roots */
#ifndef KEYHOLE_TLS_ROOTS_INTERNAL_H
#define KEYHOLE_TLS_ROOTS_INTERNAL_H

#include "tls_internal.h"

/* A reference for the caller and the number of this load; NULL: not loaded yet. */
X509_STORE *kh_roots_get(struct kh_roots *roots, unsigned long *generation);

/* roots_list.c: the certificates of a load, which are read as a store asks for them. */
struct kh_roots_list;
struct kh_roots_list *kh_roots_list_new(void);
void kh_roots_list_free(struct kh_roots_list *list);
/* Those of a PEM file; `store` is the one that they are for. At least one of a file is read wholly.
 * Return: how many were added; *broken grows by those that can't be read, which are left out: that
 * trusts less, not more. */
unsigned kh_roots_list_add(struct kh_roots_list *list, struct kh_slice pem, X509_STORE *store,
			   unsigned *broken);
/* From here on `store` finds them. The list is the store's, also where this fails (no memory). */
bool kh_roots_list_serve(struct kh_roots_list *list, X509_STORE *store);

#endif
