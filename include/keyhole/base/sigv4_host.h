/* sigv4_host.h - what an AWS host says of itself: the service and the region that it serves */
#ifndef KEYHOLE_BASE_SIGV4_HOST_H
#define KEYHOLE_BASE_SIGV4_HOST_H

#include <keyhole/base/slice.h>

enum { KH_SIGV4_NAME_BYTES = 64 }; /* a region's or a service's name, and a NUL */
/* Lower-case letters, digits, '-' and '_', as regions and services are called. */
bool kh_sigv4_is_name(struct kh_slice text);
/* As AWS calls its regions: us-east-1 (for which most services without a region in their names
 * sign), us-gov-west-1, ap-southeast-3, eusc-de-east-1. */
bool kh_sigv4_is_region(struct kh_slice name);

/* Is it one of AWS's own names, which say what they serve ("bucket.s3.eu-west-1.amazonaws.com")? */
bool kh_sigv4_host_is_known(struct kh_slice host);
/* Of such a host: empty where it names none. */
struct kh_slice kh_sigv4_host_region(struct kh_slice host);
struct kh_slice kh_sigv4_host_service(struct kh_slice host);
/* Does this host serve that? A host that names no region takes any that is called as AWS's are: a
 * sandbox must not get a signing key for each name that it thinks of. What is no name of AWS's fits
 * nothing. */
bool kh_sigv4_host_fits_region(struct kh_slice host, struct kh_slice region);
bool kh_sigv4_host_fits_service(struct kh_slice host, struct kh_slice service);

#endif
