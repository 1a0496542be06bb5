/* sigv4_host.h - the service and the region of an AWS host, by its name */
#ifndef KEYHOLE_BASE_SIGV4_HOST_H
#define KEYHOLE_BASE_SIGV4_HOST_H

#include <keyhole/base/slice.h>

enum { KH_SIGV4_NAME_BYTES = 64 }; /* a region's or a service's name, and a NUL */
/* Is it 1 to KH_SIGV4_NAME_BYTES - 1 lower-case letters, digits, '-' and '_', as names of regions
 * and services are? */
bool kh_sigv4_is_name(struct kh_slice text);
/* Does it have the form of AWS's names of regions: us-east-1 (which most services without a region
 * in their host names sign for), us-gov-west-1, ap-southeast-3, eusc-de-east-1? */
bool kh_sigv4_is_region(struct kh_slice name);

/* Is it a host under one of AWS's own domains, whose names say what they serve
 * ("bucket.s3.eu-west-1.amazonaws.com")? */
bool kh_sigv4_host_is_known(struct kh_slice host);
/* The region and the service of such a host; empty: it names none. Views of `host`, or static. */
struct kh_slice kh_sigv4_host_region(struct kh_slice host);
struct kh_slice kh_sigv4_host_service(struct kh_slice host);
/* Does this host serve that region, that service? A host that names no region fits any text with
 * the form of AWS's regions, and no other text, so that a sandbox does not get a signing key for
 * each name that it invents. A host that is not AWS's fits nothing. */
bool kh_sigv4_host_fits_region(struct kh_slice host, struct kh_slice region);
bool kh_sigv4_host_fits_service(struct kh_slice host, struct kh_slice service);

#endif
