/* dynamic_sandbox.c - encodes and decodes messages about dynamic sandboxes, and checks their values
 */
#include <keyhole/config/dynamic_sandbox.h>

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/limits.h>

#include "config_internal.h"

const char *kh_dynamic_sandbox_check_id(struct kh_slice id)
{
	return kh_value_check_id(id);
}

bool kh_dynamic_sandbox_parse_ttl(struct kh_slice text, uint64_t *out_ms, struct kh_err *err)
{
	if (!kh_value_duration(text, out_ms))
		return kh_err_set(err, KH_ERR_USAGE,
				  "ttl: \"%s\" is no duration such as 90s, 30m or 2h",
				  kh_esc(text));
	return (*out_ms >= KH_LIMIT_DYNAMIC_SANDBOX_TTL_LEAST_MS &&
		*out_ms <= KH_LIMIT_DYNAMIC_SANDBOX_TTL_MOST_MS) ||
	       kh_err_set(err, KH_ERR_USAGE, "ttl: \"%s\" is not between 1s and 365 days (8760h)",
			  kh_esc(text));
}

bool kh_dynamic_sandbox_parse_mode(struct kh_slice text, mode_t *out, struct kh_err *err)
{
	return kh_value_mode(text, out) ||
	       kh_err_set(err, KH_ERR_USAGE, "mode: \"%s\" is no octal mode such as 0660",
			  kh_esc(text));
}

struct kh_slice kh_dynamic_sandbox_name(const char *tenant, const char *id,
					char room[KH_DYNAMIC_SANDBOX_NAME_BYTES])
{
	int n = snprintf(room, KH_DYNAMIC_SANDBOX_NAME_BYTES, "%s/%s", tenant, id);
	size_t len = n < 0 ? 0 : (size_t)n;
	return kh_slice_of(room, len < KH_DYNAMIC_SANDBOX_NAME_BYTES
					 ? len
					 : KH_DYNAMIC_SANDBOX_NAME_BYTES - 1);
}

bool kh_dynamic_sandbox_wish_put(struct kh_buf *out, const struct kh_dynamic_sandbox_wish *wish)
{
	return kh_wire_put_str(out, wish->tenant) && kh_wire_put_str(out, wish->id) &&
	       kh_wire_put_u32(out, wish->owner) && kh_wire_put_u32(out, wish->mode) &&
	       kh_wire_put_u64(out, wish->ttl_ms) && kh_wire_put_u32(out, wish->pid) &&
	       kh_wire_put_u32(out, wish->asker) && kh_wire_put_u32(out, wish->asker_pid) &&
	       kh_wire_put_u8(out, wish->narrowed) &&
	       kh_wire_put_bytes(out, kh_slice_of(wish->narrow, wish->narrow_len));
}

static bool is_owner(uid_t daemon, uid_t asker)
{
	return asker == 0 || asker == daemon;
}

bool kh_dynamic_sandbox_may_use(const struct kh_config *config, uid_t daemon, uid_t asker,
				const char *tenant)
{
	int index = kh_config_tenant(config, tenant);
	return index >= 0 && (is_owner(daemon, asker) ||
			      kh_admin_may_see(&config->admin, asker, (uint16_t)index));
}

enum kh_dynamic_sandbox_verdict kh_dynamic_sandbox_judge(const struct kh_config *config,
							 uid_t daemon,
							 const struct kh_dynamic_sandbox_wish *wish,
							 struct kh_err *err)
{
	bool owner = is_owner(daemon, wish->asker),
	     unset = wish->owner == KH_DYNAMIC_SANDBOX_NO_UID;

	if (!kh_dynamic_sandbox_may_use(config, daemon, wish->asker, wish->tenant)) {
		kh_err_set(err, KH_ERR_USAGE,
			   "user %u may not do this for that tenant (admin.allow)",
			   (unsigned)wish->asker);
		return KH_DYNAMIC_SANDBOX_DENIED;
	}
	if (!owner && !unset && wish->owner != wish->asker) {
		kh_err_set(err, KH_ERR_USAGE, "owner: user %u may give it to himself alone",
			   (unsigned)wish->asker);
		return KH_DYNAMIC_SANDBOX_DENIED;
	}
	/* Only root gives files away. */
	if (daemon == 0 || ((unset || wish->owner == daemon) && (owner || (wish->mode & 0066))))
		return KH_DYNAMIC_SANDBOX_ALLOWED;
	kh_err_set(
		err, KH_ERR_USAGE,
		"the daemon is no root and can't give the socket to another user (ask for a mode "
		"such as 0666 or 0660, or let the daemon be root)");
	return KH_DYNAMIC_SANDBOX_IMPOSSIBLE;
}

static bool is_id(const char *text)
{
	return text && !kh_dynamic_sandbox_check_id(kh_slice_str(text));
}

static char *copy_bytes(struct kh_slice bytes)
{
	char *copy = malloc(bytes.len + 1);
	if (copy && bytes.len)
		memcpy(copy, bytes.ptr, bytes.len);
	return copy;
}

bool kh_dynamic_sandbox_wish_take(struct kh_slice body, struct kh_dynamic_sandbox_wish *out)
{
	struct kh_wire_reader r = { .rest = body };
	*out = (struct kh_dynamic_sandbox_wish){ .tenant = kh_wire_str(&r) };
	out->id = kh_wire_str(&r);
	out->owner = kh_wire_u32(&r);
	out->mode = kh_wire_u32(&r);
	out->ttl_ms = kh_wire_u64(&r);
	out->pid = kh_wire_u32(&r);
	out->asker = kh_wire_u32(&r);
	out->asker_pid = kh_wire_u32(&r);
	uint8_t narrowed = kh_wire_u8(&r);
	struct kh_slice narrow = kh_wire_bytes(&r);
	out->narrowed = narrowed;
	out->narrow_len = narrow.len;
	out->narrow = narrow.len ? copy_bytes(narrow) : NULL;
	return kh_wire_done(&r) && is_id(out->tenant) && is_id(out->id) && out->mode <= 0777 &&
	       (out->ttl_ms == 0 || (out->ttl_ms >= KH_LIMIT_DYNAMIC_SANDBOX_TTL_LEAST_MS &&
				     out->ttl_ms <= KH_LIMIT_DYNAMIC_SANDBOX_TTL_MOST_MS)) &&
	       out->pid <= INT32_MAX && out->asker_pid <= INT32_MAX && narrowed <= 1 &&
	       narrow.len <= KH_LIMIT_NARROWING_BYTES && (narrow.len > 0) == (narrowed == 1) &&
	       (out->narrow || narrow.len == 0);
}

void kh_dynamic_sandbox_wish_fini(struct kh_dynamic_sandbox_wish *wish)
{
	free(wish->tenant);
	free(wish->id);
	free(wish->narrow);
	*wish = (struct kh_dynamic_sandbox_wish){ 0 };
}

bool kh_dynamic_sandbox_card_put(struct kh_buf *out, const struct kh_dynamic_sandbox_card *card)
{
	return kh_wire_put_u64(out, card->number) && kh_wire_put_str(out, card->tenant) &&
	       kh_wire_put_str(out, card->id) && kh_wire_put_str(out, card->path) &&
	       kh_wire_put_u64(out, card->expires_ms) && kh_wire_put_u8(out, card->narrowed) &&
	       kh_wire_put_u8(out, card->suspect) && kh_wire_put_bytes(out, card->narrow);
}

bool kh_dynamic_sandbox_card_take(struct kh_slice body, struct kh_dynamic_sandbox_card *out)
{
	struct kh_wire_reader r = { .rest = body };
	*out = (struct kh_dynamic_sandbox_card){ .number = kh_wire_u64(&r) };
	out->tenant = kh_wire_str(&r);
	out->id = kh_wire_str(&r);
	out->path = kh_wire_str(&r);
	out->expires_ms = kh_wire_u64(&r);
	uint8_t narrowed = kh_wire_u8(&r), suspect = kh_wire_u8(&r);
	out->narrow = kh_wire_bytes(&r);
	out->narrowed = narrowed;
	out->suspect = suspect;
	return kh_wire_done(&r) && is_id(out->tenant) && is_id(out->id) && out->path &&
	       narrowed <= 1 && suspect <= 1;
}

void kh_dynamic_sandbox_card_fini(struct kh_dynamic_sandbox_card *card)
{
	free(card->tenant);
	free(card->id);
	free(card->path);
	*card = (struct kh_dynamic_sandbox_card){ 0 };
}
