/* check_client_certs.h - client certificates and their keys, as far as they stand in files */
#ifndef KEYHOLE_CLI_CHECK_CLIENT_CERTS_H
#define KEYHOLE_CLI_CHECK_CLIENT_CERTS_H

struct kh_config;
struct kh_diagnostics;

/* A pair that the daemon would refuse is an error. Of files that are not here, or that are not this
 * user's to read, nothing is said. */
void kh_check_pairs(const struct kh_config *config, struct kh_diagnostics *diags);

#endif
