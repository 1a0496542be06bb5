/* snapshot.c - the worker's part of a configuration as bytes, and back
 *
 * The keeper writes it into a sealed memfd, the worker reads it. The worker gets no source of a
 * secret and no path but the listeners' own, which name them. The decoder trusts nothing, although
 * its writer is trusted: rules and hosts travel as the text that they were made of and pass the
 * same parsers again, and every index and enum is checked against what was read before it.
 */
#include <stdlib.h>
#include <string.h>

#include "snapshot_internal.h"

enum {
	MAGIC = 0x4b485332, /* "KHS2" */
	MOST_LISTED = KH_SNAPSHOT_LISTED,
};

/* ---- out ---- */

static bool put_cidr(struct kh_buf *out, const struct kh_cidr *range)
{
	return kh_wire_put_u8(out, range->family) && kh_wire_put_u8(out, range->prefix_bits) &&
	       kh_wire_put_bytes(out, kh_slice_of(range->addr, sizeof(range->addr)));
}

static bool put_cidrs(struct kh_buf *out, const struct kh_cidr *list, size_t n)
{
	bool ok = kh_wire_put_u32(out, (uint32_t)n);
	for (size_t i = 0; ok && i < n; i++)
		ok = put_cidr(out, &list[i]);
	return ok;
}

static bool put_sockaddr(struct kh_buf *out, const struct kh_sockaddr *addr)
{
	return kh_wire_put_bytes(out, kh_slice_of(&addr->any, addr->len));
}

bool kh_put_pattern(struct kh_buf *out, const struct kh_host_pattern *pattern)
{
	return kh_wire_put_u8(out, (uint8_t)pattern->match) &&
	       kh_wire_put_bytes(out, kh_host_view(&pattern->host)) &&
	       put_cidr(out, &pattern->range);
}

static bool put_listener(struct kh_buf *out, const struct kh_listener_config *listener)
{
	return kh_wire_put_u16(out, listener->tenant) && kh_wire_put_str(out, listener->sandbox) &&
	       /* Not to be opened: it is the listener's identity over reloads. */
	       kh_wire_put_str(out, listener->name) && kh_put_where(out, &listener->where) &&
	       kh_wire_put_u8(out, (uint8_t)listener->kind) &&
	       kh_wire_put_u32(out, listener->vsock_cid) &&
	       kh_wire_put_u32(out, (uint32_t)(listener->token + 1)) &&
	       kh_wire_put_u8(out, listener->narrowed) &&
	       (!listener->narrowed || kh_put_rules(out, &listener->narrow)) &&
	       kh_put_limits(out, listener->limits);
}

static bool put_proxy(struct kh_buf *out, const struct kh_proxy_config *proxy)
{
	bool there = proxy->host.kind != KH_HOST_NONE;
	bool ok = kh_wire_put_u8(out, there);
	if (!ok || !there)
		return ok;
	ok = kh_wire_put_bytes(out, kh_host_view(&proxy->host)) &&
	     kh_wire_put_u16(out, proxy->port) && kh_wire_put_str(out, proxy->username) &&
	     kh_wire_put_u8(out, proxy->resolve_locally) && kh_put_where(out, &proxy->where) &&
	     kh_wire_put_u32(out, (uint32_t)proxy->n_no_proxy);
	for (size_t i = 0; ok && i < proxy->n_no_proxy; i++)
		ok = kh_put_pattern(out, &proxy->no_proxy[i]);
	return ok;
}

static bool put_upstream(struct kh_buf *out, const struct kh_config *config)
{
	bool ok = kh_wire_put_u8(out, config->upstream_system_roots) &&
		  kh_wire_put_u8(out, config->upstream_http2) &&
		  kh_wire_put_u32(out, (uint32_t)config->n_pins);
	for (size_t i = 0; ok && i < config->n_pins; i++)
		ok = kh_wire_put_bytes(out, kh_host_view(&config->pins[i].host)) &&
		     put_sockaddr(out, &config->pins[i].addr);
	ok = ok && put_cidrs(out, config->allow_addresses, config->n_allow_addresses);
	ok = ok && kh_wire_put_u32(out, (uint32_t)config->n_nameservers);
	for (size_t i = 0; ok && i < config->n_nameservers; i++)
		ok = put_sockaddr(out, &config->nameservers[i]);
	return ok && put_proxy(out, &config->proxy) &&
	       kh_wire_put_u8(out, config->country_db.named) &&
	       kh_wire_put_u8(out, config->asn_db.named);
}

/* The scalars that the worker needs, in one order for both ways. */
struct scalars {
	uint32_t *slot[32];
	size_t n;
};

static struct scalars scalars_of(struct kh_config *c)
{
	struct kh_timeouts *t = &c->timeouts;
	return (struct scalars){ .slot = { &t->header, &t->handshake, &t->connect, &t->resolve,
					   &t->response, &t->idle_down, &t->idle_up, &t->stall,
					   &t->total, &t->websocket, &t->tunnel_idle, &t->tunnel,
					   &t->drain, &t->handover, &c->max_connections,
					   &c->max_exchanges, &c->leaves_per_second, &c->threads },
				 .n = 18 };
}

bool kh_config_encode(const struct kh_config *config, struct kh_buf *out)
{
	struct kh_config copy = *config;
	struct scalars scalars = scalars_of(&copy);
	bool ok = kh_wire_put_u32(out, MAGIC) && kh_wire_put_u32(out, (uint32_t)config->n_files);
	for (size_t i = 0; ok && i < config->n_files; i++)
		ok = kh_wire_put_str(out, config->files[i]);
	for (size_t i = 0; ok && i < scalars.n; i++)
		ok = kh_wire_put_u32(out, *scalars.slot[i]);
	ok = ok && kh_wire_put_u64(out, config->held_content) &&
	     kh_wire_put_u8(out, (uint8_t)config->durability) &&
	     kh_wire_put_u8(out, (uint8_t)config->log_level) &&
	     kh_wire_put_str(out, config->worker_user) && kh_put_stand_in_keys(out, config) &&
	     put_upstream(out, config) && kh_wire_put_u32(out, (uint32_t)config->n_credentials);
	for (size_t i = 0; ok && i < config->n_credentials; i++)
		ok = kh_put_credential(out, &config->credentials[i]);
	ok = ok && kh_put_geo(out, config->site_geo) && kh_put_rules(out, &config->site) &&
	     kh_put_limits(out, config->site_limits) &&
	     kh_wire_put_u32(out, (uint32_t)config->n_tenants);
	for (size_t i = 0; ok && i < config->n_tenants; i++)
		ok = kh_wire_put_str(out, config->tenants[i].name) &&
		     kh_put_where(out, &config->tenants[i].where) &&
		     kh_wire_put_u8(out, config->tenants[i].mode == KH_MODE_OBSERVE) &&
		     put_cidrs(out, config->tenants[i].allow_addresses,
			       config->tenants[i].n_allow_addresses) &&
		     kh_put_geo(out, config->tenants[i].geo) &&
		     kh_put_limits(out, config->tenants[i].limits) &&
		     kh_put_rules(out, &config->tenants[i].rules);
	ok = ok && kh_wire_put_u32(out, (uint32_t)config->n_listeners);
	for (size_t i = 0; ok && i < config->n_listeners; i++)
		ok = put_listener(out, &config->listeners[i]);
	return ok && kh_put_grants(out, &config->admin);
}

/* ---- in ---- */

static struct kh_cidr cidr(struct kh_snapshot_in *in)
{
	struct kh_cidr range = { .family = kh_wire_u8(&in->r) };
	range.prefix_bits = kh_wire_u8(&in->r);
	struct kh_slice addr = kh_wire_bytes(&in->r);
	if (addr.len != sizeof(range.addr)) {
		in->r.bad = true;
		return (struct kh_cidr){ 0 };
	}
	memcpy(range.addr, addr.ptr, sizeof(range.addr));
	unsigned bits = range.family == 4 ? 32 : range.family == 6 ? 128 : 0;
	/* Bits behind the prefix are zero, as kh_cidr_parse has it. */
	bool clean = range.prefix_bits <= bits;
	for (unsigned i = range.prefix_bits; clean && i < 128; i++)
		clean = !(range.addr[i / 8] & (0x80 >> i % 8));
	if (!clean)
		in->r.bad = true;
	return range;
}

static struct kh_host host(struct kh_snapshot_in *in)
{
	struct kh_slice name = kh_wire_bytes(&in->r);
	struct kh_host made = { 0 };
	if (in->r.bad || !kh_host_parse(&made, name, NULL) ||
	    !kh_slice_eq(name, kh_host_view(&made)))
		in->r.bad = true;
	return made;
}

static struct kh_sockaddr address(struct kh_snapshot_in *in)
{
	struct kh_slice bytes = kh_wire_bytes(&in->r);
	struct kh_sockaddr addr = { 0 };
	if (bytes.len == sizeof(addr.v4) || bytes.len == sizeof(addr.v6)) {
		memcpy(&addr.any, bytes.ptr, bytes.len);
		addr.len = (socklen_t)bytes.len;
	}
	sa_family_t due = addr.len == sizeof(addr.v4) ? AF_INET : AF_INET6;
	if (addr.len == 0 || addr.any.sa_family != due)
		in->r.bad = true;
	return addr;
}

struct kh_host_pattern kh_in_pattern(struct kh_snapshot_in *in)
{
	struct kh_host_pattern made = { 0 };
	uint8_t match = kh_wire_u8(&in->r);
	struct kh_slice name = kh_wire_bytes(&in->r);
	made.range = cidr(in);
	if (match == KH_MATCH_EXACT || match == KH_MATCH_SUFFIX) {
		if (!kh_host_parse(&made.host, name, NULL) || made.host.kind != KH_HOST_NAME ||
		    made.range.family != 0)
			in->r.bad = true;
	} else if (name.len != 0 || (match == KH_MATCH_RANGE) != (made.range.family != 0) ||
		   match == KH_MATCH_NOTHING || match > KH_MATCH_RANGE) {
		in->r.bad = true;
	}
	made.match = in->r.bad ? KH_MATCH_NOTHING : (enum kh_host_match)match;
	return made;
}

static void read_proxy(struct kh_snapshot_in *in)
{
	struct kh_proxy_config *proxy = &in->config->proxy;
	if (!kh_in_flag(in))
		return;
	proxy->host = host(in);
	proxy->port = kh_wire_u16(&in->r);
	proxy->username = kh_wire_str(&in->r);
	proxy->resolve_locally = kh_in_flag(in);
	proxy->where = kh_in_where(in);
	if (proxy->port == 0 ||
	    (proxy->username && kh_value_check_username(kh_slice_str(proxy->username))))
		in->r.bad = true;
	uint32_t n = kh_wire_count(&in->r, MOST_LISTED);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_host_pattern *slot =
			kh_in_add(in, &proxy->no_proxy, &proxy->n_no_proxy, sizeof(*slot));
		if (slot)
			*slot = kh_in_pattern(in);
	}
}

static void read_cidrs(struct kh_snapshot_in *in, struct kh_cidr **list, size_t *count)
{
	uint32_t n = kh_wire_count(&in->r, MOST_LISTED);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_cidr *slot = kh_in_add(in, list, count, sizeof(*slot));
		if (slot)
			*slot = cidr(in);
		if (slot && slot->family == 0)
			in->r.bad = true;
	}
}

static void read_upstream(struct kh_snapshot_in *in)
{
	struct kh_config *config = in->config;
	config->upstream_system_roots = kh_in_flag(in);
	config->upstream_http2 = kh_in_flag(in);
	uint32_t n = kh_wire_count(&in->r, MOST_LISTED);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_pin *pin = kh_in_add(in, &config->pins, &config->n_pins, sizeof(*pin));
		if (!pin)
			break;
		pin->host = host(in);
		pin->addr = address(in);
	}
	read_cidrs(in, &config->allow_addresses, &config->n_allow_addresses);
	n = kh_wire_count(&in->r, MOST_LISTED);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_sockaddr *slot =
			kh_in_add(in, &config->nameservers, &config->n_nameservers, sizeof(*slot));
		if (slot)
			*slot = address(in);
	}
	read_proxy(in);
	config->country_db.named = kh_in_flag(in);
	config->asn_db.named = kh_in_flag(in);
}

static void read_tenants(struct kh_snapshot_in *in)
{
	struct kh_config *config = in->config;
	uint32_t n = kh_wire_count(&in->r, UINT16_MAX);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_tenant_config *tenant =
			kh_in_add(in, &config->tenants, &config->n_tenants, sizeof(*tenant));
		if (!tenant)
			break;
		tenant->name = kh_in_text(in);
		tenant->where = kh_in_where(in);
		tenant->mode = kh_in_flag(in) ? KH_MODE_OBSERVE : KH_MODE_ENFORCE;
		read_cidrs(in, &tenant->allow_addresses, &tenant->n_allow_addresses);
		tenant->geo = kh_in_geo(in);
		tenant->limits = kh_in_limits(in);
		kh_in_rules(in, &tenant->rules);
	}
}

static void read_listeners(struct kh_snapshot_in *in)
{
	struct kh_config *config = in->config;
	uint32_t n = kh_wire_count(&in->r, MOST_LISTED);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_listener_config *listener =
			kh_in_add(in, &config->listeners, &config->n_listeners, sizeof(*listener));
		if (!listener)
			break;
		listener->owner = (uid_t)-1;
		listener->group = (gid_t)-1;
		listener->mode = 0600;
		listener->tenant = kh_wire_u16(&in->r);
		listener->sandbox = kh_in_text(in);
		listener->name = kh_in_text(in);
		listener->where = kh_in_where(in);
		uint8_t kind = kh_wire_u8(&in->r);
		listener->vsock_cid = kh_wire_u32(&in->r);
		uint32_t token = kh_wire_u32(&in->r);
		listener->kind = (enum kh_listener_kind)(kind <= KH_LISTEN_TCP ? kind : 0);
		listener->token = -1;
		if (listener->tenant >= config->n_tenants || kind > KH_LISTEN_TCP ||
		    token > config->n_credentials ||
		    (token > 0) != (listener->kind == KH_LISTEN_TCP))
			in->r.bad = true;
		else
			listener->token = (int32_t)token - 1;
		/* Never open to whoever comes by TCP, and never with another's secret. */
		if (listener->token >= 0 && !config->credentials[listener->token].of_listener)
			in->r.bad = true;
		listener->narrowed = kh_in_flag(in);
		if (listener->narrowed)
			kh_in_narrowing(in, &listener->narrow);
		listener->limits = kh_in_limits(in);
	}
}

static void read_all(struct kh_snapshot_in *in)
{
	struct kh_config *config = in->config;
	if (kh_wire_u32(&in->r) != MAGIC)
		in->r.bad = true;
	uint32_t n = kh_wire_count(&in->r, MOST_LISTED);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		char **slot = kh_in_add(in, &config->files, &config->n_files, sizeof(*slot));
		if (slot)
			*slot = kh_in_text(in);
	}
	struct scalars scalars = scalars_of(config);
	for (size_t i = 0; i < scalars.n; i++)
		*scalars.slot[i] = kh_wire_u32(&in->r);
	config->held_content = kh_wire_u64(&in->r);
	uint8_t durability = kh_wire_u8(&in->r), level = kh_wire_u8(&in->r);
	if (durability > KH_DURABILITY_SYNCED || level > KH_LOG_DEBUG)
		in->r.bad = true;
	config->durability = durability ? KH_DURABILITY_SYNCED : KH_DURABILITY_WRITTEN;
	config->log_level = (enum kh_log_level)level;
	config->worker_user = kh_wire_str(&in->r);
	kh_in_stand_in_keys(in);
	read_upstream(in);
	n = kh_wire_count(&in->r, UINT16_MAX);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_credential_config *credential = kh_in_add(
			in, &config->credentials, &config->n_credentials, sizeof(*credential));
		if (credential)
			kh_in_credential(in, credential);
	}
	/* One without the other would make a proxy's answer to nobody. */
	if (!in->config->proxy.username != (kh_config_proxy_password(in->config) < 0))
		in->r.bad = true;
	config->site_geo = kh_in_geo(in);
	kh_in_rules(in, &config->site);
	config->site_limits = kh_in_limits(in);
	read_tenants(in);
	read_listeners(in);
	kh_in_grants(in, &config->admin);
}

struct kh_config *kh_config_decode(struct kh_slice bytes, struct kh_err *err)
{
	struct kh_snapshot_in in = { .r = { .rest = bytes },
				     .config = calloc(1, sizeof(struct kh_config)) };
	if (!in.config) {
		(void)kh_err_set(err, KH_ERR_NO_MEMORY, "snapshot: out of memory");
		return NULL;
	}
	read_all(&in);
	if (kh_wire_done(&in.r))
		return in.config;
	kh_config_free(in.config);
	(void)kh_err_set(err, KH_ERR_INTERNAL, "snapshot: damaged, or of another version");
	return NULL;
}
