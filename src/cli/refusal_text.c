/* refusal_text.c - for each reason of a refusal, why a new rule would not allow the request */
#include "refusal_text.h"

#include <stddef.h>
#include <string.h>

#include <keyhole/net/guard.h>

const char *kh_refusal_text(enum kh_err_code code)
{
	switch (code) {
	case KH_ERR_NO_RULE:
	case KH_ERR_NONE:
		return NULL;
	case KH_ERR_DENIED_BY_RULE:
		return "a rule denies it: change that rule if you want it";
	case KH_ERR_CLIENT_AUTH:
		return "it carried authentication of the client's own: set a credential, or decide "
		       "on client_auth: pass";
	case KH_ERR_EXFILTRATION:
		return "it contained a real credential, which must not leave";
	case KH_ERR_SANDBOX_HELD:
		return "the sandbox had sent real credentials, and was held";
	case KH_ERR_PLACEHOLDER_MISSING:
		return "its credential wants the placeholder, which was not there";
	case KH_ERR_TUNNEL_ONLY:
		return "the rule there passes an unread tunnel on, and no request";
	case KH_ERR_REQUEST_TOO_COMPLEX:
		return "deciding on it would take too many steps";
	case KH_ERR_MODEL_UNREADABLE:
		return "its model can't be told";
	case KH_ERR_ADDRESS_PROHIBITED:
		return kh_refusal_address_text(NULL);
	case KH_ERR_GEO_PROHIBITED:
		return "geo keeps sandboxes from that address";
	case KH_ERR_CREDENTIAL_BINDING:
		return "its credential is not bound to it";
	case KH_ERR_CREDENTIAL_PLACE:
		return "its credential can't be put in its place";
	case KH_ERR_UPGRADE_UNSUPPORTED:
		return "it asked for another protocol: a WebSocket may need websocket: true";
	case KH_ERR_PROXY_AUTH:
		return "the client did not log in to its listener";
	case KH_ERR_REQUEST_MALFORMED:
	case KH_ERR_REQUEST_URI_TOO_LONG:
	case KH_ERR_REQUEST_HEAD_TOO_LARGE:
	case KH_ERR_METHOD_UNSUPPORTED:
	case KH_ERR_VERSION_UNSUPPORTED:
	case KH_ERR_AUTHORITY_MISMATCH:
	case KH_ERR_PROTOCOL_UNKNOWN:
	case KH_ERR_EXPECTATION_FAILED:
	case KH_ERR_NO_PAGE:
		return "it was no request that keyhole forwards";
	case KH_ERR_DOWN_TLS:
		return "the client ended the TLS handshake: it does not trust the CA, or did "
		       "not need the connection";
	case KH_ERR_DECIDED_ANEW: /* it went on under another id */
	case KH_ERR_INTERNAL:
	case KH_ERR_NO_MEMORY:
	case KH_ERR_SYSTEM:
	case KH_ERR_CONFIG:
	case KH_ERR_USAGE:
	case KH_ERR_CONTENT_TOO_LARGE:
	case KH_ERR_REQUEST_TIMEOUT:
	case KH_ERR_LIMIT:
	case KH_ERR_LIMIT_SPENT:
	case KH_ERR_TUNNEL_LIFETIME:
	case KH_ERR_NAME_NOT_FOUND:
	case KH_ERR_DNS_ERROR:
	case KH_ERR_DNS_TIMEOUT:
	case KH_ERR_CONNECT_REFUSED:
	case KH_ERR_CONNECT_TIMEOUT:
	case KH_ERR_UNREACHABLE:
	case KH_ERR_TLS_CERTIFICATE:
	case KH_ERR_TLS_PROTOCOL:
	case KH_ERR_TLS_TIMEOUT:
	case KH_ERR_UP_PROXY:
	case KH_ERR_UP_CLOSED:
	case KH_ERR_RESPONSE_MALFORMED:
	case KH_ERR_RESPONSE_HEAD_TOO_LARGE:
	case KH_ERR_RESPONSE_INCOMPLETE:
	case KH_ERR_WEBSOCKET_DOWN:
	case KH_ERR_WEBSOCKET_UP:
	case KH_ERR_IDLE:
	case KH_ERR_RESPONSE_TIMEOUT:
	case KH_ERR_CREDENTIAL_UNAVAILABLE:
	case KH_ERR_AUDIT_UNAVAILABLE:
	case KH_ERR_LEAF_UNAVAILABLE:
	case KH_ERR_DRAINING:
	case KH_ERR_DOWN_CLOSED:
	case KH_ERR_ABORTED:
	case KH_ERR_COUNT:
		break;
	}
	return NULL;
}

bool kh_refusal_address(const char *host, uint16_t port, struct kh_slice detail,
			struct kh_host *out)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_sockaddr known;
	struct kh_host parsed;
	if (kh_host_parse(&parsed, kh_slice_str(host), &err) &&
	    kh_guard_known(&parsed, port, &known))
		return kh_host_of_sockaddr(out, &known);
	/* "NAME: ADDRESS:PORT is a private address, …" */
	for (size_t at = 0; at < detail.len;) {
		size_t end = kh_slice_find(detail, ' ', at);
		if (kh_sockaddr_parse(&known, kh_slice_sub(detail, at, end), port, &err))
			return kh_host_of_sockaddr(out, &known);
		at = end + 1;
	}
	return false;
}

const char *kh_refusal_address_class(const char *host, uint16_t port, struct kh_slice detail,
				     const struct kh_cidr *allow, size_t n_allow)
{
	static const char *const metadata[] = { "metadata.google.internal", "metadata.goog",
						"metadata.tencentyun.com",
						"instance-data.ec2.internal" };
	struct kh_sockaddr known;
	struct kh_host address;
	for (size_t i = 0; i < sizeof(metadata) / sizeof(metadata[0]); i++)
		if (strcmp(host, metadata[i]) == 0)
			return "metadata";
	if (!kh_refusal_address(host, port, detail, &address))
		return NULL;
	kh_host_sockaddr(&address, port, &known);
	return kh_guard_refuses(&known, allow, n_allow);
}

const char *kh_refusal_address_text(const char *class_name)
{
	if (class_name && strcmp(class_name, "metadata") == 0)
		return "it is the metadata service of a cloud, which gives out keys of this "
		       "machine. No option opens it, and no sandbox should reach it";
	return "the address guard keeps sandboxes from such addresses (see "
	       "upstream.allow_addresses)";
}
