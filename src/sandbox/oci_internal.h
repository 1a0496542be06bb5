/* oci_internal.h - a bundle's configuration */
#ifndef KEYHOLE_SANDBOX_OCI_INTERNAL_H
#define KEYHOLE_SANDBOX_OCI_INTERNAL_H

#include "engine.h"

#define KH_OCI_CONFIG "config.json"

/* What the runtime makes read-only. */
enum kh_oci_seal {
	KH_OCI_SEAL_NONE,
	KH_OCI_SEAL_DEV,
	KH_OCI_SEAL_ALL, /* the root as well */
};
/* Makes the text of config.json for a root that is already mounted (mount_plan.c). Heap. Return:
 * NULL with `err`. */
char *kh_oci_config(const struct kh_plan *plan, enum kh_oci_seal seal, struct kh_err *err);

#endif
