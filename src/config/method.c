/*
 * method.c - the methods that servers know
 *
 * A rule may name any method: a private server may have more. A mistyped method is valid in HTTP,
 * but its rule would never match a request. So the reader of a rule reports a method that is not in
 * this list.
 */
#include "config_internal.h"

static const char *const methods[] = {
	/* HTTP: RFC 9110, RFC 5789, QUERY */
	"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY",
	/* WebDAV and its extensions, as IANA's registry of methods has them */
	"ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "LABEL", "LINK", "LOCK",
	"MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE",
	"ORDERPATCH", "PROPFIND", "PROPPATCH", "REBIND", "REPORT", "SEARCH", "UNBIND", "UNCHECKOUT",
	"UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL",
	/* UPnP, caches, Vault, Icecast, RPC over HTTP */
	"M-SEARCH", "NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE", "PURGE", "BAN", "LIST", "SOURCE",
	"RPC_IN_DATA", "RPC_OUT_DATA"
};
enum { N_METHODS = sizeof(methods) / sizeof(methods[0]) };

bool kh_method_is_known(struct kh_slice method)
{
	for (size_t i = 0; i < N_METHODS; i++)
		if (kh_slice_eq(method, kh_slice_str(methods[i])))
			return true;
	return false;
}

const char *kh_method_hint(struct kh_slice method, char out[KH_NEAREST_BYTES])
{
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, method);
	for (size_t i = 0; i < N_METHODS; i++)
		kh_nearest_offer(&nearest, methods[i]);
	return kh_nearest_hint(&nearest, out);
}
