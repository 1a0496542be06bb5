/* admin_routes.c - the routes of the admin server, who may use each, and the short answers */

#include "admin_internal.h"

#include <string.h>

#include <keyhole/base/escape.h>

#include <keyhole/loop/loop.h>

enum {
	BY_OWNER = 1 << KH_CALLER_OWNER,
	BY_GRANTED = 1 << KH_CALLER_GRANTED,
	BY_STRANGER = 1 << KH_CALLER_STRANGER,
	BY_TCP = 1 << KH_CALLER_TCP,
	BY_ANYBODY = BY_OWNER | BY_GRANTED | BY_STRANGER | BY_TCP,
};

static const char TEXT[] = "text/plain; charset=utf-8";
static const char METRICS[] = "text/plain; version=0.0.4; charset=utf-8";

void kh_admin_put_error(struct kh_admin_answer *out, uint16_t status, const char *text)
{
	out->status = status;
	out->type = "application/json";
	kh_buf_clear(&out->content);
	(void)(kh_buf_append_str(&out->content, "{\"error\":") &&
	       kh_json_string(&out->content, kh_slice_str(text)) &&
	       kh_buf_append_str(&out->content, "}\n"));
}

void kh_admin_put_done(struct kh_admin_answer *out, bool ok, const char *text)
{
	(void)(kh_buf_printf(&out->content, "{\"ok\":%s,\"text\":", ok ? "true" : "false") &&
	       kh_json_string(&out->content, kh_slice_str(text ? text : "")) &&
	       kh_buf_append_str(&out->content, "}\n"));
}

bool kh_admin_may_see_tenant(const struct kh_admin_request *request, uint16_t tenant)
{
	return request->caller == KH_CALLER_OWNER ||
	       (request->caller == KH_CALLER_GRANTED &&
		kh_admin_may_see(&request->gen->config->admin, request->uid, tenant));
}

uint64_t kh_admin_sum(const struct kh_worker *worker, enum kh_count_index what)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < worker->n_loops; i++)
		sum += kh_counter_get(&worker->loops[i]->counts.n[what]);
	return sum;
}

bool kh_admin_is_ready(const struct kh_worker *worker, const char **why)
{
	*why = NULL;
	if (atomic_load(&worker->draining))
		*why = "it drains: what runs is finished, nothing new is taken";
	else if (kh_journal_is_held(worker->journal))
		*why = "the journal was moved, deleted or replaced, so nothing is forwarded";
	else if (kh_admin_sum(worker, KH_COUNT_JOURNAL_FAILING) > 0)
		*why = "the journal can't be written, so nothing is forwarded";
	return *why == NULL;
}

static bool healthz(const struct kh_admin_request *request, struct kh_admin_answer *out)
{
	(void)request;
	out->type = TEXT;
	return kh_buf_append_str(&out->content, "ok\n");
}

static bool readyz(const struct kh_admin_request *request, struct kh_admin_answer *out)
{
	const char *why;
	out->type = TEXT;
	if (kh_admin_is_ready(request->admin->worker, &why))
		return kh_buf_append_str(&out->content, "ready\n");
	out->status = 503;
	return kh_buf_printf(&out->content, "not ready: %s\n", why);
}

static bool metrics(const struct kh_admin_request *request, struct kh_admin_answer *out)
{
	out->type = METRICS;
	return kh_admin_put_metrics(request, &out->content);
}

static bool status(const struct kh_admin_request *request, struct kh_admin_answer *out)
{
	return kh_admin_put_status(request, &out->content);
}

static bool sandboxes(const struct kh_admin_request *request, struct kh_admin_answer *out)
{
	return kh_admin_put_sandboxes(request, &out->content);
}

static bool reload(const struct kh_admin_request *request, struct kh_admin_answer *out)
{
	(void)request;
	out->verb = KH_ADMIN_RELOAD;
	return true;
}

static bool drain(const struct kh_admin_request *request, struct kh_admin_answer *out)
{
	(void)request;
	out->verb = KH_ADMIN_DRAIN;
	return true;
}

/* A path that ends with a slash stands for all that begins with it. */
static const struct route {
	const char *path, *method;
	unsigned callers;
	bool (*answer)(const struct kh_admin_request *request, struct kh_admin_answer *out);
	bool asks; /* of `run --ask`, which has no other routes; a daemon has no such */
} routes[] = {
	{ "/healthz", "GET", BY_ANYBODY, healthz, false },
	{ "/readyz", "GET", BY_ANYBODY, readyz, false },
	{ "/metrics", "GET", BY_OWNER | BY_TCP, metrics, false },
	{ "/v1/status", "GET", BY_OWNER | BY_GRANTED, status, false },
	{ "/v1/sandboxes", "GET", BY_OWNER | BY_GRANTED, sandboxes, false },
	{ "/v1/events", "GET", BY_OWNER | BY_GRANTED, kh_admin_events, false },
	{ "/v1/sandboxes", "POST", BY_OWNER | BY_GRANTED, kh_admin_dynamic_sandbox_add, false },
	{ "/v1/sandboxes/", "DELETE", BY_OWNER | BY_GRANTED, kh_admin_dynamic_sandbox_remove,
	  false },
	{ "/v1/reload", "POST", BY_OWNER, reload, false },
	{ "/v1/drain", "POST", BY_OWNER, drain, false },
	{ "/v1/questions", "GET", BY_OWNER, kh_admin_questions, true },
	{ "/v1/questions", "POST", BY_OWNER, kh_admin_question_answer, true },
};

enum { N_ROUTES = sizeof(routes) / sizeof(routes[0]) };

static bool matches(const struct route *route, struct kh_slice path)
{
	struct kh_slice own = kh_slice_str(route->path);
	bool any = own.ptr[own.len - 1] == '/';
	return any ? path.len > own.len && kh_slice_has_prefix(path, own) : kh_slice_eq(path, own);
}

/* With that method where there is one, else with another. */
static const struct route *find(struct kh_slice path, struct kh_slice method, bool asks)
{
	const struct route *found = NULL;
	for (size_t i = 0; i < N_ROUTES; i++) {
		if (routes[i].asks != asks || !matches(&routes[i], path))
			continue;
		if (kh_slice_eq(method, kh_slice_str(routes[i].method)))
			return &routes[i];
		found = &routes[i];
	}
	return found;
}

static const char *methods_of(const struct route *route)
{
	bool get = false, post = false;
	for (size_t i = 0; i < N_ROUTES; i++) {
		bool same = strcmp(routes[i].path, route->path) == 0;
		get = get || (same && strcmp(routes[i].method, "GET") == 0);
		post = post || (same && strcmp(routes[i].method, "POST") == 0);
	}
	if (get)
		return post ? "GET, HEAD, POST" : "GET, HEAD";
	return route->method;
}

void kh_admin_answer(struct kh_admin_request *request, struct kh_slice method,
		     struct kh_slice target, struct kh_admin_answer *out)
{
	const char *query = memchr(target.ptr, '?', target.len);
	struct kh_slice path =
		query ? kh_slice_sub(target, 0, (size_t)(query - target.ptr)) : target;
	request->query = kh_slice_sub(target, path.len + 1, target.len);
	const struct route *route = find(path, method, request->gen->config->ask_ms > 0);
	/* Who may not use a thing is not told more about it; by TCP it is not there at all. */
	if (!route || (request->caller == KH_CALLER_TCP && !(route->callers & BY_TCP))) {
		kh_admin_put_error(out, 404, "there is nothing of that name");
		return;
	}
	if (!(route->callers & (1U << request->caller))) {
		char text[128];
		(void)snprintf(text, sizeof(text), "user %u may not do this (admin.allow)",
			       (unsigned)request->uid);
		kh_admin_put_error(out, 403, text);
		return;
	}
	if (!kh_slice_eq(method, kh_slice_str(route->method))) {
		kh_admin_put_error(out, 405, "not by this method");
		out->allow = methods_of(route);
		return;
	}
	out->status = 200;
	request->rest = kh_slice_sub(path, strlen(route->path), path.len);
	if (!route->answer(request, out))
		kh_admin_put_error(out, 500, "no memory for the answer");
}
