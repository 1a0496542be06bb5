/*
 * run_attach.c - `keyhole run` with a daemon that runs already
 *
 * Instead of a keeper and a worker of its own the run asks that daemon for a sandbox, which ends
 * with the process that asked: a launcher that is killed leaves nothing behind. What a private
 * daemon tells its launcher (the CA, stand-ins) stands in the answer.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <keyhole/cleanup.h>
#include <keyhole/escape.h>
#include <keyhole/file.h>

#include "ctl_client.h"
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

static char *copy(const json_t *answer, const char *name)
{
	const char *text = json_string_value(json_object_get(answer, name));
	return text ? strdup(text) : NULL;
}

static bool take_placeholders(json_t *env, struct kh_ready *ready)
{
	ready->placeholders = calloc(json_object_size(env) + 1, sizeof(*ready->placeholders));
	for (void *at = json_object_iter(env); at && ready->placeholders;
	     at = json_object_iter_next(env, at)) {
		struct kh_ready_placeholder *p = &ready->placeholders[ready->n_placeholders++];
		const char *value = json_string_value(json_object_iter_value(at));
		p->env_name = strdup(json_object_iter_key(at));
		p->value = value ? strdup(value) : NULL;
		if (!p->env_name || !p->value)
			return false;
	}
	return ready->placeholders != NULL;
}

static bool take(struct kh_run_attach *attach, const json_t *answer, struct kh_ready *ready)
{
	attach->folder = copy(answer, "directory");
	ready->ca_pem = copy(answer, "ca");
	ready->audit_path = copy(answer, "journal");
	ready->ok = true;
	return attach->folder && attach->folder[0] == '/' && ready->ca_pem &&
	       take_placeholders(json_object_get(answer, "env"), ready);
}

bool kh_run_attach(struct kh_run_attach *attach, const char *id, struct kh_ready *ready,
		   struct kh_err *err)
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
		struct kh_slice content = kh_buf_view(&got.content);
		json_t *answer = json_loadb(content.ptr, content.len, 0, NULL);
		const char *error = json_string_value(json_object_get(answer, "error"));
		attach->added = got.status == 201;
		if (!attach->added)
			ok = kh_err_set(err, KH_ERR_CONFIG,
					"the daemon at %s gives no sandbox: %s (--audit FILE "
					"starts a private one)",
					kh_esc_str(attach->socket),
					error ? kh_esc_str(error) : "no reason given");
		else if (!take(attach, answer, ready))
			ok = kh_err_set(err, KH_ERR_SYSTEM,
					"the answer of the daemon at %s is not understood",
					kh_esc_str(attach->socket));
		json_decref(answer);
	}
	kh_ctl_answer_fini(&got);
	return ok;
}

/* A daemon that is no more has ended it already. */
void kh_run_detach(struct kh_run_attach *attach)
{
	struct kh_ctl_answer got;
	struct kh_err err = KH_ERR_INIT;
	kh_auto_free char *target =
		attach->added ? kh_strf("/v1/sandboxes/%s/%s", attach->tenant, attach->id) : NULL;
	attach->added = false;
	if (!target)
		return;
	kh_ctl_answer_init(&got);
	if (kh_ctl_ask(attach->socket, "DELETE", target, kh_slice_str(NULL), &got, &err) &&
	    got.status == 200) {
		struct kh_slice content = kh_buf_view(&got.content);
		json_t *answer = json_loadb(content.ptr, content.len, 0, NULL);
		const json_t *requests = json_object_get(answer, "requests");
		json_int_t allowed = json_integer_value(json_object_get(requests, "allow")) +
				     json_integer_value(json_object_get(requests, "would_deny"));
		attach->counted = requests != NULL;
		attach->calls = (uint64_t)allowed;
		attach->denials = (uint64_t)json_integer_value(json_object_get(requests, "deny"));
		json_decref(answer);
	}
	kh_ctl_answer_fini(&got);
}

void kh_run_attach_fini(struct kh_run_attach *attach)
{
	free(attach->socket);
	free(attach->tenant);
	free(attach->id);
	free(attach->folder);
	*attach = (struct kh_run_attach){ .socket = NULL };
}
