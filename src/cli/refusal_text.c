/* refusal_text.c - why no new rule opens what was refused for a reason */
#include "refusal_text.h"

#include <stddef.h>

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
		return "it held a real credential, which must not leave";
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
		return "the address guard keeps sandboxes from such addresses (see "
		       "upstream.allow_addresses)";
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
