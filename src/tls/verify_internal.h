/* verify_internal.h - the verification of upstreams, as a context uses it and a test does */
#ifndef KEYHOLE_TLS_VERIFY_INTERNAL_H
#define KEYHOLE_TLS_VERIFY_INTERNAL_H

#include "tls_internal.h"

/* Whom to expect, and how names are matched. Return: false: nothing was set. */
bool kh_verify_configure(X509_VERIFY_PARAM *param, const struct kh_host *host);
/* All of the verification. Return: 1: it holds. 0: the context says why; or `fault`, a constant,
 * and `depth` do, with the context's error X509_V_ERR_APPLICATION_VERIFICATION. */
int kh_verify_chain(X509_STORE_CTX *ctx, const char **fault, int *depth);
/* What is wrong with a chain that OpenSSL has verified (leaf first, anchor last), NULL: nothing. */
const char *kh_verify_chain_fault(STACK_OF(X509) * chain, int *depth);

#endif
