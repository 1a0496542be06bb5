/* admin_dynamic_sandbox_done.c - reports the keeper's result for a dynamic sandbox to the caller
 * that waits for it */

#include "admin_internal.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/credential/credential.h>
#include <keyhole/base/escape.h>
#include <keyhole/base/worker_messages.h>
#include <keyhole/tls/tls.h>

#include <keyhole/loop/dynamic_sandboxes.h>

KH_DEFINE_CLEANUP(json_t, json_decref)
#define kh_auto_json kh_cleanup(json_decref_slot)

/* --- what is answered ---------------------------------------------------------------------------
 */

static uint16_t status_of(const struct kh_admin_dynamic_sandbox_done *done)
{
	switch (done->result) {
	case KH_DYNAMIC_SANDBOX_OK:
		return done->added ? 201 : 200;
	case KH_DYNAMIC_SANDBOX_UNKNOWN:
		return 404;
	case KH_DYNAMIC_SANDBOX_EXISTS:
		return 409;
	case KH_DYNAMIC_SANDBOX_FULL:
	case KH_DYNAMIC_SANDBOX_BUSY:
		return 503;
	case KH_DYNAMIC_SANDBOX_REFUSED:
		return 422;
	case KH_DYNAMIC_SANDBOX_FAILED:
	case KH_DYNAMIC_SANDBOX_RESULTS:
		break;
	}
	return 500;
}

static bool put_member(struct kh_buf *out, const char *name, struct kh_slice value)
{
	return kh_buf_printf(out, "%s\"%s\":", kh_buf_len(out) > 1 ? "," : "", name) &&
	       kh_json_string(out, value);
}

static bool set_variable(const char *variable, const char *value, void *arg)
{
	return json_object_set_new(arg, variable, json_string(value)) == 0;
}

/* What the sandbox's environment is to have: the variables that clients look for, and in each a
 * placeholder of this sandbox's. */
static bool put_placeholders(struct kh_buf *out, const struct kh_config *config, const char *tenant,
			     const char *id)
{
	int index = kh_config_tenant(config, tenant);
	kh_auto_json json_t *env = json_object();

	if (!env || (index >= 0 &&
		     !kh_placeholders_each(config, (uint16_t)index, id, set_variable, env, NULL)))
		return false;
	kh_auto_free char *text = json_dumps(env, JSON_COMPACT);
	return text && kh_buf_append_str(out, ",\"env\":") && kh_buf_append_str(out, text);
}

static bool put_issuer(struct kh_buf *out, const struct kh_worker *worker,
		       const struct kh_generation *gen, const char *tenant)
{
	int index = kh_config_tenant(gen->config, tenant);
	if (index < 0)
		return false;
	struct kh_leaves *leaves = kh_worker_leaves(worker, gen, (uint16_t)index);
	kh_cleanup(kh_buf_fini) struct kh_buf pem;
	kh_buf_init(&pem, KH_LIMIT_CHANNEL_BYTES);
	return kh_leaves_put_trusted(leaves, &pem) && put_member(out, "ca", kh_buf_view(&pem));
}

static bool put_added(struct kh_admin *admin, enum kh_admin_caller caller,
		      const struct kh_admin_dynamic_sandbox_done *done, struct kh_buf *content)
{
	char until[KH_TIME_BYTES];
	const char *slash = strrchr(done->path, '/');
	struct kh_slice folder = kh_slice_of(done->path, slash ? (size_t)(slash - done->path) : 0);

	pthread_mutex_lock(&admin->lock);
	struct kh_generation *gen = kh_generation_ref(admin->gen);
	kh_auto_free char *journal = caller == KH_CALLER_OWNER && admin->facts.journal_path
					     ? strdup(admin->facts.journal_path)
					     : NULL;
	pthread_mutex_unlock(&admin->lock);
	kh_clock_format(done->expires_ms, until);
	bool ok = kh_buf_append_str(content, "{") &&
		  put_member(content, "tenant", kh_slice_str(done->tenant)) &&
		  put_member(content, "id", kh_slice_str(done->id)) &&
		  put_member(content, "listener", kh_slice_str(done->path)) &&
		  put_member(content, "directory", folder) &&
		  (done->expires_ms ? put_member(content, "expires", kh_slice_str(until))
				    : kh_buf_append_str(content, ",\"expires\":null")) &&
		  (!journal || put_member(content, "journal", kh_slice_str(journal))) &&
		  put_placeholders(content, gen->config, done->tenant, done->id) &&
		  put_issuer(content, admin->worker, gen, done->tenant) &&
		  kh_buf_append_str(content, "}\n");
	kh_generation_unref(gen);
	return ok;
}

void kh_admin_put_dynamic_sandbox_done(struct kh_admin *admin, enum kh_admin_caller caller,
				       const struct kh_admin_dynamic_sandbox_done *done,
				       struct kh_admin_answer *out)
{
	if (done->result != KH_DYNAMIC_SANDBOX_OK) {
		kh_admin_put_error(out, status_of(done), done->text ? done->text : "it failed");
		return;
	}
	out->status = status_of(done);
	bool ok = done->added
			  ? put_added(admin, caller, done, &out->content)
			  : kh_buf_printf(&out->content,
					  "{\"ok\":true,\"text\":\"removed\",\"requests\":{"
					  "\"allow\":%llu,\"deny\":%llu,\"would_deny\":%llu}}\n",
					  (unsigned long long)done->fates[KH_FATE_ALLOW],
					  (unsigned long long)done->fates[KH_FATE_DENY],
					  (unsigned long long)done->fates[KH_FATE_WOULD_DENY]);
	if (!ok)
		kh_admin_put_error(out, 500, "no memory for the answer");
}

/* --- what the keeper says -----------------------------------------------------------------------
 */

static void free_done(struct kh_admin_dynamic_sandbox_done *done)
{
	free(done->text);
	free(done->tenant);
	free(done->id);
	free(done->path);
	free(done);
}

static void deliver(struct kh_admin *admin, struct kh_admin_dynamic_sandbox_done *done)
{
	struct kh_admin_dynamic_sandbox_done **at = &admin->dynamic_sandbox_done;

	pthread_mutex_lock(&admin->lock);
	while (*at)
		at = &(*at)->next;
	*at = done;
	pthread_mutex_unlock(&admin->lock);
	kh_admin_wake(admin);
}

bool kh_admin_take_dynamic_sandbox_done(struct kh_worker *worker,
					const struct kh_channel_message *message)
{
	struct kh_wire_reader r = { .rest = message->body };
	struct kh_admin_dynamic_sandbox_done *done = calloc(1, sizeof(*done));

	if (!done || !worker->admin) {
		free(done);
		return worker->admin != NULL;
	}
	uint8_t result = kh_wire_u8(&r);
	done->ref = message->ref;
	done->result = (enum kh_dynamic_sandbox_result)result;
	done->text = kh_wire_str(&r);
	done->tenant = kh_wire_str(&r);
	done->id = kh_wire_str(&r);
	done->path = kh_wire_str(&r);
	done->expires_ms = kh_wire_u64(&r);
	done->number = kh_wire_u64(&r);
	done->added = done->path != NULL;
	if (!kh_wire_done(&r) || result == 0 || result >= KH_DYNAMIC_SANDBOX_RESULTS ||
	    message->n_fds != 0 ||
	    (result == KH_DYNAMIC_SANDBOX_OK && (!done->path || !done->tenant || !done->id))) {
		free_done(done);
		return false;
	}
	deliver(worker->admin, done);
	return true;
}

void kh_admin_dynamic_sandbox_is_gone(struct kh_worker *worker, uint32_t ref,
				      const struct kh_listener_stats *listener_stats)
{
	struct kh_admin_dynamic_sandbox_done *done = calloc(1, sizeof(*done));

	if (!done) /* who asked waits in vain */
		return;
	done->ref = ref;
	done->result = KH_DYNAMIC_SANDBOX_OK;
	for (int i = 0; listener_stats && i < KH_FATES; i++)
		done->fates[i] = atomic_load(&listener_stats->fates[i]);
	deliver(worker->admin, done);
}

/* Nobody knows of it: whoever asked went away before it was answered. */
static void take_back(struct kh_admin *admin, const struct kh_admin_dynamic_sandbox_done *done)
{
	struct kh_buf body;

	kh_buf_init(&body, KH_LIMIT_CHANNEL_BYTES / 8);
	if (kh_wire_put_str(&body, done->tenant) && kh_wire_put_str(&body, done->id) &&
	    kh_wire_put_u64(&body, done->number) &&
	    kh_wire_put_u32(&body, KH_DYNAMIC_SANDBOX_NO_UID) && kh_wire_put_u32(&body, 0))
		(void)kh_channel_send(&admin->worker->channel, KH_WORKER_MSG_DYNAMIC_SANDBOX_REMOVE,
				      0, kh_buf_view(&body), NULL, 0, NULL);
	kh_buf_fini(&body);
}

void kh_admin_dynamic_sandboxes_wake(struct kh_admin *admin)
{
	pthread_mutex_lock(&admin->lock);
	struct kh_admin_dynamic_sandbox_done *done = admin->dynamic_sandbox_done;
	admin->dynamic_sandbox_done = NULL;
	pthread_mutex_unlock(&admin->lock);
	while (done) {
		struct kh_admin_dynamic_sandbox_done *next = done->next;
		if (!kh_admin_conns_dynamic_sandbox_done(admin, done) && done->added &&
		    done->result == KH_DYNAMIC_SANDBOX_OK)
			take_back(admin, done);
		free_done(done);
		done = next;
	}
}

void kh_admin_dynamic_sandboxes_free(struct kh_admin *admin)
{
	while (admin->dynamic_sandbox_done) {
		struct kh_admin_dynamic_sandbox_done *next = admin->dynamic_sandbox_done->next;
		free_done(admin->dynamic_sandbox_done);
		admin->dynamic_sandbox_done = next;
	}
}
