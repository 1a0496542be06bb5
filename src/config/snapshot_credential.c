/* snapshot_credential.c - the credentials in a snapshot, and back: names, bindings, and their parts
 */
#include <keyhole/limits.h>

#include "snapshot_internal.h"

static bool put_texts(struct kh_buf *out, char *const *list, size_t n)
{
	bool ok = kh_wire_put_u32(out, (uint32_t)n);
	for (size_t i = 0; ok && i < n; i++)
		ok = kh_wire_put_str(out, list[i]);
	return ok;
}

bool kh_put_credential(struct kh_buf *out, const struct kh_credential_config *credential)
{
	bool ok = kh_wire_put_str(out, credential->name) && kh_put_where(out, &credential->where) &&
		  kh_wire_put_str(out, credential->preset) &&
		  kh_wire_put_str(out, credential->env_name) &&
		  kh_wire_put_str(out, credential->placeholder_prefix) &&
		  kh_wire_put_str(out, credential->placeholder_alphabet) &&
		  kh_put_stand_in(out, &credential->stand_in) &&
		  kh_wire_put_u8(out, credential->by_tenant) &&
		  kh_wire_put_u8(out, credential->by_repository) &&
		  kh_wire_put_u8(out, credential->renewable) &&
		  kh_wire_put_u8(out, credential->present) &&
		  kh_wire_put_u8(out, credential->of_proxy) &&
		  kh_wire_put_u8(out, credential->of_listener) &&
		  kh_put_placement(out, credential->placement) &&
		  kh_wire_put_u8(out, credential->allow_short) &&
		  put_texts(out, credential->paths, credential->n_paths) &&
		  put_texts(out, credential->methods, credential->n_methods) &&
		  kh_wire_put_u32(out, (uint32_t)credential->n_hosts);
	for (size_t i = 0; ok && i < credential->n_hosts; i++)
		ok = kh_put_pattern(out, &credential->hosts[i]);
	return ok;
}

/* One at most, of a proxy that is there, and for it alone. */
static void check_proxy_password(struct kh_snapshot_in *in,
				 const struct kh_credential_config *credential)
{
	const struct kh_config *config = in->config;
	struct kh_host_pattern own = kh_host_pattern_of(&config->proxy.host);
	if (kh_config_proxy_password(config) != credential - config->credentials ||
	    !config->proxy.username || credential->placement || credential->n_hosts != 1 ||
	    !kh_host_pattern_covers(&own, &credential->hosts[0]))
		in->r.bad = true;
}

/* A binding that was lost on the way would bind to nothing: each text is looked at again. */
static void read_paths(struct kh_snapshot_in *in, struct kh_credential_config *credential)
{
	uint32_t n = kh_wire_count(&in->r, KH_SNAPSHOT_LISTED);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		char **slot =
			kh_in_add(in, &credential->paths, &credential->n_paths, sizeof(*slot));
		if (!slot)
			return;
		*slot = kh_in_text(in);
		struct kh_buf normal;
		kh_buf_init(&normal, KH_LIMIT_LINE_BYTES);
		if (!*slot || kh_binding_path_fault(kh_slice_str(*slot), &normal) ||
		    !kh_slice_eq(kh_buf_view(&normal), kh_slice_str(*slot)))
			in->r.bad = true;
		kh_buf_fini(&normal);
	}
}

static void read_methods(struct kh_snapshot_in *in, struct kh_credential_config *credential)
{
	uint32_t n = kh_wire_count(&in->r, KH_SNAPSHOT_LISTED);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		char **slot =
			kh_in_add(in, &credential->methods, &credential->n_methods, sizeof(*slot));
		if (!slot)
			return;
		*slot = kh_in_text(in);
		if (!*slot || kh_binding_method_fault(kh_slice_str(*slot)))
			in->r.bad = true;
	}
}

void kh_in_credential(struct kh_snapshot_in *in, struct kh_credential_config *credential)
{
	credential->name = kh_in_text(in);
	credential->where = kh_in_where(in);
	credential->preset = kh_wire_str(&in->r);
	credential->env_name = kh_wire_str(&in->r);
	credential->placeholder_prefix = kh_wire_str(&in->r);
	credential->placeholder_alphabet = kh_wire_str(&in->r);
	credential->stand_in = kh_in_stand_in(in);
	credential->by_tenant = kh_in_flag(in);
	credential->by_repository = kh_in_flag(in);
	credential->renewable = kh_in_flag(in);
	credential->present = kh_in_flag(in);
	credential->of_proxy = kh_in_flag(in);
	credential->of_listener = kh_in_flag(in);
	credential->placement = kh_in_placement(in);
	credential->allow_short = kh_in_flag(in);
	read_paths(in, credential);
	read_methods(in, credential);
	uint32_t n = kh_wire_count(&in->r, KH_SNAPSHOT_LISTED);
	for (uint32_t i = 0; i < n && !in->r.bad; i++) {
		struct kh_host_pattern *slot =
			kh_in_add(in, &credential->hosts, &credential->n_hosts, sizeof(*slot));
		if (slot)
			*slot = kh_in_pattern(in);
		if (slot && slot->match == KH_MATCH_ANY)
			in->r.bad = true;
	}
	if (credential->of_proxy) {
		check_proxy_password(in, credential);
		return;
	}
	if (credential->of_listener) {
		if (credential->n_hosts != 0 || credential->placement)
			in->r.bad = true;
		return;
	}
	/* Nowhere to go, or no place in a request: no such credential was ever accepted. */
	if (credential->n_hosts == 0 || !credential->placement)
		in->r.bad = true;
}
