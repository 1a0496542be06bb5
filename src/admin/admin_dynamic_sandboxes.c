/*
 * admin_dynamic_sandboxes.c - sandboxes that are added and removed through the admin socket
 *
 * A request is JSON. This process parses all of it, and the narrowing in it, which is YAML: only
 * locked-in processes may read what others wrote. The keeper gets names and numbers, which it
 * checks again, and the narrowing as bytes, which it only stores. The answer to the caller waits
 * for the keeper's result.
 *
 * A caller that may not use a tenant is told nothing about it, not even whether it exists.
 */

#include "admin_internal.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/json_load.h>
#include <keyhole/base/nearest.h>
#include <keyhole/base/worker_messages.h>

#include <keyhole/loop/dynamic_sandboxes.h>

KH_DEFINE_CLEANUP(json_t, json_decref)
#define kh_auto_json kh_cleanup(json_decref_slot)

static bool refuse(struct kh_admin_answer *out, uint16_t status, const char *text)
{
	kh_admin_put_error(out, status, text);
	return false;
}

static bool refuse_with(struct kh_admin_answer *out, uint16_t status, struct kh_err *err)
{
	return refuse(out, status, err->text);
}

/* --- who may ------------------------------------------------------------------------------------
 */

/* Return: false: it is refused. */
static bool may_use(const struct kh_admin_request *request, const char *tenant,
		    struct kh_admin_answer *out)
{
	struct kh_err err = KH_ERR_INIT;
	int index = kh_config_tenant(request->gen->config, tenant);

	if (index >= 0 && kh_admin_may_see_tenant(request, (uint16_t)index))
		return true;
	if (request->caller == KH_CALLER_OWNER) {
		struct kh_nearest nearest;
		char hint[KH_NEAREST_BYTES];
		kh_nearest_init(&nearest, kh_slice_str(tenant));
		for (size_t i = 0; i < request->gen->config->n_tenants; i++)
			kh_nearest_offer(&nearest, request->gen->config->tenants[i].name);
		kh_err_set(&err, KH_ERR_USAGE, "no tenant is called \"%s\"%s", kh_esc_str(tenant),
			   kh_nearest_hint(&nearest, hint));
		return refuse_with(out, 404, &err);
	}
	kh_err_set(&err, KH_ERR_USAGE, "user %u may not do this for that tenant (admin.allow)",
		   (unsigned)request->uid);
	return refuse_with(out, 403, &err);
}

/* Who may connect to the socket. Return: false: it is refused. */
static bool settle_owner(const struct kh_admin_request *request, bool said,
			 struct kh_dynamic_sandbox_wish *wish, struct kh_admin_answer *out)
{
	uid_t daemon = request->admin->owner;
	struct kh_err err = KH_ERR_INIT;

	if (!said && daemon == 0 && request->uid != 0)
		wish->owner = request->uid;
	enum kh_dynamic_sandbox_verdict verdict =
		kh_dynamic_sandbox_judge(request->gen->config, daemon, wish, &err);
	return verdict == KH_DYNAMIC_SANDBOX_ALLOWED ||
	       refuse_with(out, verdict == KH_DYNAMIC_SANDBOX_DENIED ? 403 : 422, &err);
}

/* --- the narrowing ------------------------------------------------------------------------------
 */

/* Presets are files, and this process opens none. */
static const char NO_PRESETS[] = "no folder (a daemon reads none here: write their rules out)";

static bool encode_narrowing(struct kh_rules *rules, struct kh_dynamic_sandbox_wish *wish,
			     struct kh_admin_answer *out)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_buf bytes;

	kh_buf_init(&bytes, KH_LIMIT_NARROWING_BYTES);
	bool fits = kh_snapshot_encode_narrow(rules, &bytes);
	struct kh_narrowing *made = fits ? kh_narrowing_new(rules, &err) : NULL;
	if (made) {
		wish->narrow_len = kh_buf_len(&bytes);
		wish->narrow = malloc(wish->narrow_len);
		if (wish->narrow)
			memcpy(wish->narrow, kh_buf_view(&bytes).ptr, wish->narrow_len);
	}
	kh_buf_fini(&bytes);
	if (!fits) {
		kh_rules_fini(rules);
		return refuse(out, 413, "narrow: it is too long: about 500 rules are possible");
	}
	if (!made)
		return refuse_with(out, 422, &err);
	kh_narrowing_unref(made);
	wish->narrowed = true;
	return wish->narrow || refuse(out, 500, "no memory");
}

static bool read_yaml(struct kh_slice yaml, struct kh_dynamic_sandbox_wish *wish,
		      struct kh_admin_answer *out)
{
	struct kh_diagnostics diags = { 0 };
	struct kh_rules rules;
	bool ok = kh_narrow_parse("narrow", yaml, NO_PRESETS, &rules, &diags);

	if (!ok) {
		struct kh_buf lines;
		kh_buf_init(&lines, KH_LIMIT_CHANNEL_BYTES);
		kh_diagnostics_put(&diags, &lines);
		if (kh_buf_len(&lines) > 0)
			kh_buf_truncate(&lines, kh_buf_len(&lines) - 1);
		kh_admin_put_error(out, 422, kh_buf_cstr(&lines));
		kh_buf_fini(&lines);
	}
	kh_diagnostics_fini(&diags);
	return ok && encode_narrowing(&rules, wish, out);
}

/* Text: a file as it stands. A list: its rules; JSON is YAML. */
static bool read_narrow(const json_t *narrow, struct kh_dynamic_sandbox_wish *wish,
			struct kh_admin_answer *out)
{
	if (json_is_string(narrow))
		return read_yaml(kh_slice_of(json_string_value(narrow), json_string_length(narrow)),
				 wish, out);
	if (!json_is_array(narrow))
		return refuse(out, 400,
			      "narrow: expected a list of rules, or a file's text with the key "
			      "\"narrow\"");
	kh_auto_json json_t *whole = json_pack("{s:O}", "narrow", narrow);
	kh_auto_free char *text = whole ? json_dumps(whole, 0) : NULL;
	return text ? read_yaml(kh_slice_str(text), wish, out) : refuse(out, 500, "no memory");
}

/* --- what is asked for --------------------------------------------------------------------------
 */

static bool read_id(const char *what, const json_t *value, char **slot, struct kh_admin_answer *out)
{
	struct kh_err err = KH_ERR_INIT;
	struct kh_slice text = kh_slice_of(json_string_value(value), json_string_length(value));
	const char *why = kh_dynamic_sandbox_check_id(text);

	if (!json_is_string(value)) {
		kh_err_set(&err, KH_ERR_USAGE, "%s: %s", what,
			   value ? "expected text" : "is missing");
		return refuse_with(out, 400, &err);
	}
	if (why) {
		kh_err_set(&err, KH_ERR_USAGE, "%s: \"%s\" %s", what,
			   kh_esc(kh_slice_sub(text, 0, 80)), why);
		return refuse_with(out, 422, &err);
	}
	*slot = kh_slice_dup(text);
	return *slot || refuse(out, 500, "no memory");
}

static bool expect(bool what, const char *text, struct kh_admin_answer *out)
{
	return what || refuse(out, 400, text);
}

static bool read_rest(const struct kh_admin_request *request, const json_t *root,
		      struct kh_dynamic_sandbox_wish *wish, struct kh_admin_answer *out)
{
	const json_t *ttl = json_object_get(root, "ttl"), *mode = json_object_get(root, "mode"),
		     *owner = json_object_get(root, "owner"), *hold = json_object_get(root, "hold"),
		     *narrow = json_object_get(root, "narrow");
	struct kh_err err = KH_ERR_INIT;

	if (!expect(!ttl || json_is_string(ttl), "ttl: expected text such as \"2h\"", out) ||
	    !expect(!mode || json_is_string(mode), "mode: expected text such as \"0660\"", out) ||
	    !expect(!hold || json_is_boolean(hold), "hold: expected true or false", out) ||
	    !expect(!owner || (json_is_integer(owner) && json_integer_value(owner) >= 0 &&
			       json_integer_value(owner) < UINT32_MAX),
		    "owner: expected a user's number", out))
		return false;
	if ((ttl && !kh_dynamic_sandbox_parse_ttl(
			    kh_slice_of(json_string_value(ttl), json_string_length(ttl)),
			    &wish->ttl_ms, &err)) ||
	    (mode && !kh_dynamic_sandbox_parse_mode(
			     kh_slice_of(json_string_value(mode), json_string_length(mode)),
			     &wish->mode, &err)))
		return refuse_with(out, 422, &err);
	if (owner)
		wish->owner = (uid_t)json_integer_value(owner);
	if (json_is_true(hold)) {
		if (request->pid <= 0)
			return refuse(out, 422, "hold: the daemon can't see who asks");
		if (kh_admin_peer_has_ended(request->fd))
			return refuse(out, 422, KH_ADMIN_PEER_ENDED);
		wish->pid = (uint32_t)request->pid;
		out->holds = true;
	}
	return settle_owner(request, owner != NULL, wish, out) &&
	       (!narrow || read_narrow(narrow, wish, out));
}

static bool read_wish(const struct kh_admin_request *request, json_t *root,
		      struct kh_dynamic_sandbox_wish *wish, struct kh_admin_answer *out)
{
	static const char *const known[] = { "tenant", "id",	"narrow", "ttl",
					     "mode",   "owner", "hold" };
	struct kh_err err = KH_ERR_INIT;

	for (void *at = json_object_iter(root); at; at = json_object_iter_next(root, at)) {
		bool found = false;
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			found = found || strcmp(json_object_iter_key(at), known[i]) == 0;
		if (found)
			continue;
		kh_err_set(&err, KH_ERR_USAGE,
			   "\"%s\": no such member (tenant, id, narrow, ttl, mode, owner, hold)",
			   kh_esc(kh_slice_sub(kh_slice_str(json_object_iter_key(at)), 0, 80)));
		return refuse_with(out, 400, &err);
	}
	return read_id("tenant", json_object_get(root, "tenant"), &wish->tenant, out) &&
	       may_use(request, wish->tenant, out) &&
	       read_id("id", json_object_get(root, "id"), &wish->id, out) &&
	       read_rest(request, root, wish, out);
}

bool kh_admin_dynamic_sandbox_add(const struct kh_admin_request *request,
				  struct kh_admin_answer *out)
{
	struct kh_dynamic_sandbox_wish wish = { .owner = KH_DYNAMIC_SANDBOX_NO_UID,
						.mode = 0600,
						.asker = request->uid,
						.asker_pid = request->pid > 0
								     ? (uint32_t)request->pid
								     : 0 };
	json_error_t why;
	kh_auto_json json_t *root = kh_json_load(request->content, JSON_REJECT_DUPLICATES, &why);

	if (!json_is_object(root)) {
		struct kh_err err = KH_ERR_INIT;
		kh_err_set(&err, KH_ERR_USAGE, "expected a JSON object with tenant and id%s%s",
			   root ? "" : ": ", root ? "" : kh_esc_str(why.text));
		(void)refuse_with(out, 400, &err);
	} else if (read_wish(request, root, &wish, out)) {
		if (kh_dynamic_sandbox_wish_put(&out->ask_body, &wish))
			out->ask = KH_WORKER_MSG_DYNAMIC_SANDBOX_ADD;
		else
			(void)refuse(out, 500, "no memory");
	}
	kh_dynamic_sandbox_wish_fini(&wish);
	return true;
}

/* /v1/sandboxes/TENANT/ID */
bool kh_admin_dynamic_sandbox_remove(const struct kh_admin_request *request,
				     struct kh_admin_answer *out)
{
	size_t slash = kh_slice_find(request->rest, '/', 0);
	struct kh_slice first = kh_slice_sub(request->rest, 0, slash);
	struct kh_slice second = kh_slice_sub(request->rest, slash + 1, request->rest.len);

	if (kh_dynamic_sandbox_check_id(first) || kh_dynamic_sandbox_check_id(second)) {
		(void)refuse(out, 422,
			     "expected /v1/sandboxes/TENANT/ID, each 1 to 64 letters, digits, '-', "
			     "'.' and '_'");
		return true;
	}
	kh_auto_free char *tenant = kh_slice_dup(first);
	kh_auto_free char *id = kh_slice_dup(second);
	if (!tenant || !id)
		return false;
	if (!may_use(request, tenant, out))
		return true;
	if (!kh_wire_put_str(&out->ask_body, tenant) || !kh_wire_put_str(&out->ask_body, id) ||
	    !kh_wire_put_u64(&out->ask_body, 0) || !kh_wire_put_u32(&out->ask_body, request->uid) ||
	    !kh_wire_put_u32(&out->ask_body, request->pid > 0 ? (uint32_t)request->pid : 0))
		return false;
	out->ask = KH_WORKER_MSG_DYNAMIC_SANDBOX_REMOVE;
	return true;
}
