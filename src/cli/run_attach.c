/*
 * run_attach.c - `keyhole run` with a daemon that is already running
 *
 * Instead of starting its own keeper and worker, the run asks that daemon for a dynamic sandbox,
 * which ends with the process that asked: a launcher that is killed leaves nothing behind. The
 * answer contains what a private daemon tells its launcher (CA, placeholders).
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/config/config.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/file.h>
#include <keyhole/base/json_load.h>

#include "ctl_client.h"
#include "ctl_trust.h"
#include "run_internal.h"

static json_t *wish(const struct kh_run_attach *attach, const char *id)
{
	json_t *root = json_pack("{s:s, s:s, s:b}", "tenant", attach->tenant, "id", id, "hold", 1);
	/* Started by root, the sandbox is somebody else. */
	if (root && geteuid() == 0 &&
	    json_object_set_new(root, "owner", json_integer(KH_SANDBOX_HOST_UID)) != 0) {
		json_decref(root);
		root = NULL;
	}
	return root;
}

/* --- what is taken from the answer --------------------------------------------------------------
 */

enum { VALUE_MOST = 4096, PEM_MOST = 256 * 1024 };

/* `lines`: of several. */
static bool is_plain(const char *text, size_t most, bool lines)
{
	size_t len = text ? strnlen(text, most + 1) : 0;
	for (size_t i = 0; i < len; i++)
		if (!(text[i] > ' ' && text[i] < 0x7f) &&
		    !(lines && (text[i] == ' ' || text[i] == '\n')))
			return false;
	return len > 0 && len <= most;
}

/* Is it where a credential of the configuration has its placeholder? Any other variable could be
 * one by which a program is steered. */
static bool is_expected(const struct kh_config *config, const char *variable)
{
	for (size_t i = 0; i < config->n_credentials; i++) {
		const struct kh_credential_config *c = &config->credentials[i];
		bool aws = c->placement && c->placement->kind == KH_PLACEMENT_SIGV4;
		if (aws ? strcmp(variable, "AWS_ACCESS_KEY_ID") == 0 ||
				    strcmp(variable, "AWS_SECRET_ACCESS_KEY") == 0
			: c->env_name && strcmp(c->env_name, variable) == 0)
			return true;
	}
	return false;
}

static bool take_placeholders(const struct kh_config *config, json_t *env, struct kh_ready *ready,
			      struct kh_err *err)
{
	ready->placeholders = calloc(json_object_size(env) + 1, sizeof(*ready->placeholders));
	for (void *at = json_object_iter(env); at && ready->placeholders;
	     at = json_object_iter_next(env, at)) {
		const char *variable = json_object_iter_key(at);
		const char *value = json_string_value(json_object_iter_value(at));
		if (!is_expected(config, variable))
			return kh_err_set(err, KH_ERR_CONFIG,
					  "the daemon's answer sets the variable %s, which no "
					  "credential of the configuration has (was the file "
					  "changed, and the daemon not reloaded?)",
					  kh_esc_str(variable));
		if (!is_plain(value, VALUE_MOST, false))
			return kh_err_set(err, KH_ERR_CONFIG,
					  "the daemon's answer has no placeholder for %s",
					  kh_esc_str(variable));
		struct kh_ready_placeholder *p = &ready->placeholders[ready->n_placeholders++];
		p->env_name = strdup(variable);
		p->value = strdup(value);
		if (!p->env_name || !p->value)
			return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	}
	return ready->placeholders || kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
}

/* The one place where the configuration says that the daemon makes it. */
static bool take_folder(struct kh_run_attach *attach, const char *named, uid_t server,
			struct kh_err *err)
{
	bool absent;
	attach->folder = kh_strf("%s/%s/%s", attach->base, attach->tenant, attach->id);
	if (!attach->folder)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	attach->held =
		kh_ctl_hold_folder(attach->base, attach->tenant, attach->id, server, &absent, err);
	if (attach->held < 0)
		return false;
	return (named && kh_ctl_leads_to(named, attach->held)) ||
	       kh_err_set(err, KH_ERR_CONFIG,
			  "the daemon's answer says that the sandbox's folder is %s, and the "
			  "configuration that it is %s: nothing is mounted (is the daemon's "
			  "configuration another one?)",
			  named ? kh_esc_str(named) : "nowhere", kh_esc_str(attach->folder));
}

static bool take(struct kh_run_attach *attach, const struct kh_config *config, const json_t *answer,
		 uid_t server, struct kh_ready *ready, struct kh_err *err)
{
	const char *ca = json_string_value(json_object_get(answer, "ca"));
	if (!is_plain(ca, PEM_MOST, true))
		return kh_err_set(err, KH_ERR_SYSTEM,
				  "the answer of the daemon at %s is not understood",
				  kh_esc_str(attach->socket));
	if (!take_folder(attach, json_string_value(json_object_get(answer, "directory")), server,
			 err) ||
	    !take_placeholders(config, json_object_get(answer, "env"), ready, err))
		return false;
	/* Whether this user may know of it is what the daemon says. */
	bool tells = json_is_string(json_object_get(answer, "journal"));
	ready->ca_pem = strdup(ca);
	ready->audit_path = tells ? strdup(config->audit_path) : NULL;
	ready->ok = ready->ca_pem && (!tells || ready->audit_path);
	return ready->ok || kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
}

bool kh_run_attach(struct kh_run_attach *attach, const struct kh_config *config, const char *id,
		   struct kh_ready *ready, struct kh_err *err)
{
	struct kh_ctl_answer got;
	json_t *root = wish(attach, id);
	kh_auto_free char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	json_decref(root);
	attach->id = strdup(id);
	if (!text || !attach->id)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "run: no memory");
	kh_ctl_answer_init(&got);
	bool ok =
		kh_ctl_ask(attach->socket, "POST", "/v1/sandboxes", kh_slice_str(text), &got, err);
	if (ok) {
		json_t *answer = kh_json_load(kh_buf_view(&got.content), 0, NULL);
		const char *error = json_string_value(json_object_get(answer, "error"));
		attach->added = got.status == 201;
		if (!attach->added)
			ok = kh_err_set(err, KH_ERR_CONFIG,
					"the daemon at %s gives no sandbox: %s (--audit FILE "
					"starts a private one)",
					kh_esc_str(attach->socket),
					error ? kh_esc_str(error) : "no reason given");
		else
			ok = take(attach, config, answer, got.server, ready, err);
		json_decref(answer);
	}
	kh_ctl_answer_fini(&got);
	return ok;
}

bool kh_run_detach(struct kh_run_attach *attach)
{
	struct kh_ctl_answer got;
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *target =
		attach->added ? kh_strf("/v1/sandboxes/%s/%s", attach->tenant, attach->id) : NULL;
	bool was_there = !attach->added;
	attach->added = false;
	if (!target)
		return was_there;
	kh_ctl_answer_init(&got);
	if (kh_ctl_ask(attach->socket, "DELETE", target, kh_slice_str(NULL), &got, &err) &&
	    got.status == 200) {
		was_there = true;
		json_t *answer = kh_json_load(kh_buf_view(&got.content), 0, NULL);
		const json_t *requests = json_object_get(answer, "requests");
		json_int_t allowed = json_integer_value(json_object_get(requests, "allow")) +
				     json_integer_value(json_object_get(requests, "would_deny"));
		attach->counted = requests != NULL;
		attach->calls = (uint64_t)allowed;
		attach->denials = (uint64_t)json_integer_value(json_object_get(requests, "deny"));
		json_decref(answer);
	}
	kh_ctl_answer_fini(&got);
	return was_there;
}

void kh_run_attach_fini(struct kh_run_attach *attach)
{
	free(attach->socket);
	free(attach->tenant);
	free(attach->id);
	free(attach->base);
	free(attach->folder);
	kh_cleanup_close(&attach->held);
	*attach = (struct kh_run_attach){ .held = -1 };
}
