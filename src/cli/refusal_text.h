/* refusal_text.h - for each reason of a refusal, why a new rule would not allow the request */
#ifndef KEYHOLE_CLI_REFUSAL_TEXT_H
#define KEYHOLE_CLI_REFUSAL_TEXT_H

#include <keyhole/base/err.h>
#include <keyhole/base/host.h>
#include <keyhole/base/slice.h>

/* A sentence without its end, in which "it" is the request. Return: NULL: a rule would let it pass,
 * or did, and something else failed. */
const char *kh_refusal_text(enum kh_err_code code);

/* The address that a refused request was for: the host itself, what its name resolves to, or the
 * one in `detail`, the journal's words about an address that was refused. Return: false: none is
 * known.
 */
bool kh_refusal_address(const char *host, uint16_t port, struct kh_slice detail,
			struct kh_host *out);
/* The class of an address that the guard refuses whatever the rules are. `allow`: addresses that it
 * lets pass. Return: NULL: none is known, or it may be connected to. */
const char *kh_refusal_address_class(const char *host, uint16_t port, struct kh_slice detail,
				     const struct kh_cidr *allow, size_t n_allow);
/* Why the guard refuses an address of this class (NULL: it isn't known), as kh_refusal_text. */
const char *kh_refusal_address_text(const char *class_name);

#endif
