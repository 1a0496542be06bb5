/* oci_internal.h - a bundle's configuration */
#ifndef KEYHOLE_SANDBOX_OCI_INTERNAL_H
#define KEYHOLE_SANDBOX_OCI_INTERNAL_H

#include "engine.h"

/* The text of config.json for a root that is laid already (lay.c). Heap. Return: NULL. */
char *kh_oci_config(const struct kh_plan *plan, struct kh_err *err);

#endif
