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
/* Adds the certificates of a PEM file for `store`. At least one per file is decoded completely.
 * Return: how many were added; *broken is increased by those that can't be read. Leaving them out
 * trusts less, not more. */
unsigned kh_roots_list_add(struct kh_roots_list *list, struct kh_slice pem, X509_STORE *store,
			   unsigned *broken);
/* `store` finds them from now on. It takes ownership of the list, also if this fails (no
 * memory). */
bool kh_roots_list_serve(struct kh_roots_list *list, X509_STORE *store);

#endif
