/* hello.h - what a ClientHello says before anybody answers it */
#ifndef KEYHOLE_TLS_HELLO_H
#define KEYHOLE_TLS_HELLO_H

#include <keyhole/base/host.h>

enum kh_hello_status { KH_HELLO_NEED_MORE = 1, KH_HELLO_GOT, KH_HELLO_BAD };

struct kh_hello {
	struct kh_host sni; /* kind NONE: no SNI */
	bool encrypted;	    /* it has an encrypted ClientHello (ECH, ESNI) or a GREASE one */
};

/*
 * Reads the TLS records (RFC 8446 §5.1) that a connection begins with, up to the end of the
 * ClientHello (§4.1.2) in them, which may be spread over several; later records are not looked at.
 * It is strict: every length must match exactly, no extension may appear twice, nothing else may
 * share the last record, and server_name (RFC 6066 §3) must be one host_name in the form of host.h
 * and not an address; all within KH_LIMIT_HELLO_BYTES. It keeps no state: after NEED_MORE, call it
 * again with all bytes from the first one on. BAD sets `err`.
 */
enum kh_hello_status kh_hello_read(struct kh_hello *out, struct kh_slice bytes, struct kh_err *err);

/* How long the ClientHello is that these bytes begin, as its header says; its record may hold it
 * only in part. 0: they are too few to tell. SIZE_MAX: no client begins so. */
size_t kh_hello_length(struct kh_slice bytes);

/* A fatal alert record (RFC 8446 §6), unencrypted, for a refusal before keys are established. */
enum { KH_ALERT_BYTES = 7 };
enum kh_alert {
	KH_ALERT_ACCESS_DENIED = 49,
	KH_ALERT_DECODE_ERROR = 50,
	KH_ALERT_INTERNAL_ERROR = 80,
	KH_ALERT_UNRECOGNIZED_NAME = 112,
};
void kh_alert_format(enum kh_alert alert, unsigned char out[KH_ALERT_BYTES]);

#endif
