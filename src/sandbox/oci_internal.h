/* oci_internal.h - a bundle's configuration */
#ifndef KEYHOLE_SANDBOX_OCI_INTERNAL_H
#define KEYHOLE_SANDBOX_OCI_INTERNAL_H

#include "engine.h"

/* The text of config.json for a root that is laid already (lay.c). `seal`: the runtime is to make
 * the root read-only as well. Heap. Return: NULL. */
char *kh_oci_config(const struct kh_plan *plan, bool seal, struct kh_err *err);

#endif
