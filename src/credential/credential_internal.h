/* credential_internal.h - what the files of this folder share */
#ifndef KEYHOLE_CREDENTIAL_INTERNAL_H
#define KEYHOLE_CREDENTIAL_INTERNAL_H

#include <keyhole/credential/credential.h>
#include <keyhole/base/spelling.h>

/* header.c: the Cookie field of all that are one; nothing where none is. */
bool kh_credential_put_cookies(const struct kh_injection *injection, struct kh_buf *out,
			       struct kh_err *err);

/* carriers.c: is a parameter taken out of a query? `with_companions`: beside a signature. */
bool kh_carrier_goes(struct kh_slice name, bool with_companions);
bool kh_carrier_is_signature(struct kh_slice name);

/* inject.c: appends bytes percent-encoded; all but RFC 3986's unreserved. */
bool kh_put_percent(struct kh_buf *out, struct kh_slice bytes);

#endif
