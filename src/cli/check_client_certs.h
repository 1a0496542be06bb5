/* check_client_certs.h - checks client certificates and their keys, if both are in files */
#ifndef KEYHOLE_CLI_CHECK_CLIENT_CERTS_H
#define KEYHOLE_CLI_CHECK_CLIENT_CERTS_H

struct kh_config;
struct kh_diagnostics;

/* Reports an error for each pair that the daemon would refuse. Skips files that do not exist or
 * that this user can't read. Warns of a certificate that is a CA's. */
void kh_check_client_certs(const struct kh_config *config, struct kh_diagnostics *diags);

#endif
