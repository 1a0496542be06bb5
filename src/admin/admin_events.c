/*
 * admin_events.c - /v1/events: a stream of decisions, one JSON object per line
 *
 * While there is a reader, the admin thread polls each event thread's ring (events.h) a few times a
 * second. The tenant of a decision is stored beside its record, so that a record which a caller may
 * not see is not even read. For each decision the configuration in force says whether the caller
 * may see that tenant.
 */

#include "admin_internal.h"

#include <stdlib.h>
#include <string.h>

#include <keyhole/base/encode.h>
#include <keyhole/loop/loop.h>

struct kh_admin_watch {
	enum kh_admin_caller caller;
	uid_t uid;
	char *tenant, *sandbox;		    /* NULL: any */
	bool denied;			    /* refusals only */
	uint64_t lost;			    /* and not told of yet */
	struct kh_admin_listener *listener; /* not NULL: it is shown questions instead */
	bool lost_some; /* nobody knows how many of them he would have been shown */
};

/* --- what is asked for ------------------------------------------------------------------------ */

void kh_admin_watch_free(struct kh_admin_watch *watch)
{
	if (!watch)
		return;
	kh_admin_listener_free(watch->listener);
	free(watch->tenant);
	free(watch->sandbox);
	free(watch);
}

struct kh_admin_watch *kh_admin_watch_of(struct kh_admin_listener *listener)
{
	struct kh_admin_watch *watch = calloc(1, sizeof(*watch));

	if (watch)
		watch->listener = listener;
	return watch;
}

/* A query's value, on the heap. Return: NULL when it is none. */
static char *unescape(struct kh_slice value)
{
	char *out = malloc(value.len + 1);
	size_t n = 0;

	for (size_t i = 0; out && i < value.len; i++) {
		int byte = (unsigned char)value.ptr[i];
		if (byte > 0x7e)
			byte = -1;
		if (byte == '%') {
			byte = kh_percent_byte(value, i);
			i += 2;
		}
		if (byte <= 0) {
			free(out);
			return NULL;
		}
		out[n++] = (char)byte;
	}
	if (out)
		out[n] = '\0';
	return out;
}

static bool take_text(char **to, struct kh_slice value)
{
	if (*to || value.len == 0)
		return false;
	*to = unescape(value);
	return *to != NULL;
}

/* "tenant=acme&denied=true" */
static bool take_query(struct kh_admin_watch *watch, struct kh_slice query)
{
	while (query.len > 0) {
		size_t end = kh_slice_find(query, '&', 0);
		struct kh_slice part = kh_slice_sub(query, 0, end);
		size_t equals = kh_slice_find(part, '=', 0);
		struct kh_slice name = kh_slice_sub(part, 0, equals),
				value = kh_slice_sub(part, equals + 1, part.len);
		bool ok = false;

		query = kh_slice_sub(query, end + 1, query.len);
		if (kh_slice_eq(name, KH_SLICE("tenant")))
			ok = take_text(&watch->tenant, value);
		else if (kh_slice_eq(name, KH_SLICE("sandbox")))
			ok = take_text(&watch->sandbox, value);
		else if (kh_slice_eq(name, KH_SLICE("denied")))
			ok = kh_slice_eq(value, KH_SLICE("true")) && (watch->denied = true);
		if (!ok)
			return false;
	}
	return true;
}

static bool may_see(const struct kh_admin_watch *watch, const struct kh_config *config,
		    struct kh_slice tenant)
{
	const struct kh_admin_config *admin = &config->admin;

	if (watch->caller == KH_CALLER_OWNER)
		return true;
	/* Of the few that are his, and not of all that there are. */
	for (size_t i = 0; i < admin->n_grants; i++)
		for (size_t j = 0;
		     admin->grants[i].uid == watch->uid && j < admin->grants[i].n_tenants; j++) {
			uint16_t index = admin->grants[i].tenants[j];
			if (kh_slice_eq(tenant, kh_slice_str(config->tenants[index].name)))
				return true;
		}
	return false;
}

static bool is_tenant(const struct kh_config *config, const char *name)
{
	for (size_t i = 0; i < config->n_tenants; i++)
		if (strcmp(config->tenants[i].name, name) == 0)
			return true;
	return false;
}

/* Each event thread has its ring from now on. */
static bool make_rings(struct kh_admin *admin)
{
	const struct kh_worker *worker = admin->worker;

	for (unsigned i = 0; i < worker->n_loops; i++) {
		if (atomic_load(&worker->loops[i]->events))
			continue;
		struct kh_events *events = kh_events_new();
		if (!events)
			return false;
		atomic_store_explicit(&worker->loops[i]->events, events, memory_order_release);
	}
	return true;
}

bool kh_admin_events(const struct kh_admin_request *request, struct kh_admin_answer *out)
{
	struct kh_admin *admin = request->admin;
	const struct kh_config *config = request->gen->config;

	if (admin->n_watching[request->caller] >= KH_LIMIT_EVENTS_READERS &&
	    !kh_admin_conns_make_room(admin, request->caller, request->uid, true)) {
		kh_admin_put_error(out, 503, "too many watch already");
		return true;
	}
	struct kh_admin_watch *watch = calloc(1, sizeof(*watch));
	if (!watch || !make_rings(admin)) {
		free(watch);
		return false;
	}
	watch->caller = request->caller;
	watch->uid = request->uid;
	if (!take_query(watch, request->query)) {
		kh_admin_put_error(out, 400,
				   "what to watch is tenant=NAME, sandbox=ID and denied=true");
	} else if (watch->tenant && (!is_tenant(config, watch->tenant) ||
				     !may_see(watch, config, kh_slice_str(watch->tenant)))) {
		/* One that is hidden and one that is not there are the same. */
		kh_admin_put_error(out, 404, "there is no tenant of that name that you may see");
	} else {
		out->type = "application/x-ndjson";
		out->watch = watch;
		return true;
	}
	kh_admin_watch_free(watch);
	return true;
}

/* --- what is shown ---------------------------------------------------------------------------- */

static bool is_for(const struct kh_admin_watch *watch, const struct kh_config *config,
		   const struct kh_event *event)
{
	return (!watch->tenant || kh_slice_eq(event->tenant, kh_slice_str(watch->tenant))) &&
	       (!watch->sandbox || kh_slice_eq(event->sandbox, kh_slice_str(watch->sandbox))) &&
	       (!watch->denied ||
		kh_slice_has_prefix(event->record, KH_SLICE("{\"event\":\"deny\""))) &&
	       may_see(watch, config, event->tenant);
}

bool kh_admin_put_line(struct kh_buf *out, struct kh_slice line, const char *end)
{
	size_t before = kh_buf_len(out), len = line.len + strlen(end);

	if (before + len > KH_LIMIT_EVENTS_WAITING_BYTES)
		return false;
	if (kh_h1_put_chunk_head(out, len) && kh_buf_append_slice(out, line) &&
	    kh_buf_append_str(out, end) && kh_buf_append_str(out, "\r\n"))
		return true;
	kh_buf_truncate(out, before);
	return false;
}

/* Return: nothing is left to be told, or it has been. */
static bool tell_lost(struct kh_admin_watch *watch, struct kh_buf *out)
{
	char line[64];

	if (watch->lost == 0 && !watch->lost_some)
		return true;
	if (watch->lost_some)
		(void)snprintf(line, sizeof(line), "{\"event\":\"lost\",\"count\":null}");
	else
		(void)snprintf(line, sizeof(line), "{\"event\":\"lost\",\"count\":%llu}",
			       (unsigned long long)watch->lost);
	if (!kh_admin_put_line(out, kh_slice_str(line), "\n"))
		return false;
	watch->lost = 0;
	watch->lost_some = false;
	return true;
}

static void show(struct kh_admin_watch *watch, const struct kh_config *config,
		 const struct kh_event *event, struct kh_buf *out)
{
	if (is_for(watch, config, event) &&
	    (!tell_lost(watch, out) || !kh_admin_put_line(out, event->record, "}\n")))
		watch->lost++;
}

/* Some found no room in a ring; whose they were is not known. */
static void note_lost(struct kh_admin_watch *watch, uint64_t lost)
{
	if (watch->caller == KH_CALLER_OWNER && !watch->tenant && !watch->sandbox && !watch->denied)
		watch->lost += lost;
	else
		watch->lost_some = true;
}

struct shown {
	const struct kh_config *config;
	const struct kh_event *event; /* NULL: so many were lost */
	uint64_t lost;
};

static void show_one(struct kh_admin_watch *watch, struct kh_buf *out, const void *arg)
{
	const struct shown *shown = arg;

	if (watch->listener && !shown->event && shown->lost == 0)
		kh_admin_listener_show(watch->listener, out);
	else if (watch->listener)
		; /* it has asked for no events */
	else if (shown->event)
		show(watch, shown->config, shown->event, out);
	else if (shown->lost > 0)
		note_lost(watch, shown->lost);
	else
		(void)tell_lost(watch, out);
}

/* No more than a ring holds at a time, so that nothing else of this thread waits long. */
static void look_into(struct kh_admin *admin, const struct kh_config *config,
		      struct kh_events *events)
{
	struct kh_event event;
	struct shown shown = { .config = config, .event = &event };
	size_t bytes = 0;

	while (bytes < KH_LIMIT_EVENTS_RING_BYTES &&
	       kh_events_take(events, &admin->event_room, &event)) {
		bytes += event.record.len;
		kh_admin_conns_show(admin, show_one, &shown);
	}
	shown = (struct shown){ .lost = kh_events_lost(events) };
	if (shown.lost > 0)
		kh_admin_conns_show(admin, show_one, &shown);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
	struct kh_admin *admin = arg;
	const struct kh_worker *worker = admin->worker;
	static const struct shown rest = { .event = NULL };

	(void)fd;
	(void)what;
	pthread_mutex_lock(&admin->lock);
	struct kh_generation *gen = kh_generation_ref(admin->gen);
	pthread_mutex_unlock(&admin->lock);
	for (unsigned i = 0; i < worker->n_loops; i++) {
		struct kh_events *events = atomic_load(&worker->loops[i]->events);
		if (events)
			look_into(admin, gen->config, events);
	}
	kh_admin_conns_show(admin, show_one, &rest);
	kh_generation_unref(gen);
	kh_admin_conns_shown(admin);
}

void kh_admin_events_watched(struct kh_admin *admin, bool watched)
{
	static const struct timeval pause = { .tv_usec = KH_LIMIT_EVENTS_MS * 1000L };
	const struct kh_worker *worker = admin->worker;

	for (unsigned i = 0; i < worker->n_loops; i++) {
		struct kh_events *events = atomic_load(&worker->loops[i]->events);
		if (events && watched)
			kh_events_skip(events);
		if (events)
			atomic_store(&events->watched, watched);
	}
	if (watched && !admin->look) {
		kh_buf_init(&admin->event_room, KH_LIMIT_EVENTS_RING_BYTES);
		admin->look = event_new(admin->base, -1, EV_PERSIST, on_look, admin);
		if (admin->look)
			(void)event_add(admin->look, &pause);
	} else if (!watched && admin->look) {
		event_free(admin->look);
		admin->look = NULL;
		kh_buf_fini(&admin->event_room);
	}
}
