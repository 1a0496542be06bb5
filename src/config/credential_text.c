/* credential_text.c - describes a credential for people: where it goes and where it may go, never a
 * value */
#include <arpa/inet.h>
#include <string.h>

#include "config_internal.h"

/* A list in a line of text: more than these are counted. */
enum { SHOWN = 8 };

static bool put_rest(struct kh_buf *out, size_t n)
{
	return n <= SHOWN || kh_buf_printf(out, " and %zu more", n - SHOWN);
}

bool kh_credential_put_kind(struct kh_buf *out, const struct kh_credential_config *credential)
{
	const struct kh_placement *placement = credential->placement;
	if (!placement)
		return kh_buf_append_str(out, credential->of_proxy	? "upstream.proxy"
					      : credential->of_listener ? "listener"
									: "none");
	bool ok = kh_buf_append_str(out, placement->key);
	bool names = placement->key && strcmp(placement->key, "header") == 0;
	for (size_t i = 0; ok && names && i < placement->n_fields; i++)
		ok = kh_buf_append_str(out, i ? ", " : " ") &&
		     kh_buf_append_str(out, placement->fields[i].name);
	if (ok && placement->pointer)
		ok = kh_buf_append_char(out, ' ') && kh_buf_append_str(out, placement->pointer);
	if (ok && placement->name)
		ok = kh_buf_append_char(out, ' ') && kh_buf_append_str(out, placement->name);
	return ok;
}

static bool put_host(struct kh_buf *out, const struct kh_host_pattern *pattern)
{
	if (pattern->match == KH_MATCH_SUFFIX && !kh_buf_append_str(out, "*."))
		return false;
	if (pattern->match == KH_MATCH_EXACT || pattern->match == KH_MATCH_SUFFIX)
		return kh_buf_append_slice(out, kh_host_view(&pattern->host));
	/* One address: no credential has a range. */
	char text[INET6_ADDRSTRLEN];
	int family = pattern->range.family == 4 ? AF_INET : AF_INET6;
	return inet_ntop(family, pattern->range.addr, text, sizeof(text)) &&
	       kh_buf_append_str(out, text);
}

static bool put_list(struct kh_buf *out, const char *before, char *const *list, size_t n)
{
	bool ok = true;
	for (size_t i = 0; ok && i < n && i < SHOWN; i++)
		ok = kh_buf_append_str(out, i ? ", " : before) && kh_buf_append_str(out, list[i]);
	return ok && put_rest(out, n);
}

bool kh_credential_put_binding(struct kh_buf *out, const struct kh_credential_config *credential)
{
	bool ok = true;
	for (size_t i = 0; ok && i < credential->n_hosts && i < SHOWN; i++)
		ok = kh_buf_append_str(out, i ? ", " : "") && put_host(out, &credential->hosts[i]);
	return ok && put_rest(out, credential->n_hosts) &&
	       put_list(out, "; paths ", credential->paths, credential->n_paths) &&
	       put_list(out, "; methods ", credential->methods, credential->n_methods);
}
