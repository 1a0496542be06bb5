/* verify_internal.h - the verification of upstreams, as a context uses it and a test does */
#ifndef KEYHOLE_TLS_VERIFY_INTERNAL_H
#define KEYHOLE_TLS_VERIFY_INTERNAL_H

#include "tls_internal.h"

/* Sets the expected name, and how names are matched. Return: false: nothing was set. */
bool kh_verify_configure(X509_VERIFY_PARAM *param, const struct kh_host *host);
/* The whole verification. Return: 1: valid. 0: the context's error says why; if that is
 * X509_V_ERR_APPLICATION_VERIFICATION, `fault` (a constant) and `depth` do. */
int kh_verify_chain(X509_STORE_CTX *ctx, const char **fault, int *depth);
/* Checks the keys that a server sent, before anything is verified by them. Return: which is too
 * costly, a constant; NULL: none. */
const char *kh_verify_cost_fault(STACK_OF(X509) * sent, int *depth);
/* Checks a chain that OpenSSL has verified (leaf first, trust anchor last). Return: what is wrong,
 * a constant; NULL: nothing. */
const char *kh_verify_chain_fault(STACK_OF(X509) * chain, int *depth);

#endif
