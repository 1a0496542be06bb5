/* time.c - libevent and the clocks: time passes, and events happen, when the scheduler says so */
/* wrap: event_assign event_new event_free event_add event_del event_active */
/* wrap: event_base_new_with_config event_base_free kh_clock_mono_ms kh_clock_mono_us */
/* wrap: kh_clock_wall_ms getrandom RAND_bytes */

#include <event2/event.h>
#include <event2/event_struct.h>

#include "simulation.h"

enum { MOST_ARMED = 512 };

struct armed {
	struct event *event;
	bool timed;
	uint64_t due_us;
	uint64_t period_us; /* of one that persists */
};

static struct armed armed[MOST_ARMED];
static size_t n_armed;
static struct event *active; /* event_active */
static uint64_t now_us;
static const uint64_t begin_us = UINT64_C(1000000000000);
static int the_base;
static uint64_t noise;

uint64_t sim_now_ms(void)
{
	return now_us / 1000;
}

uint64_t sim_time_now_us(void)
{
	return now_us;
}

void sim_time_set_us(uint64_t us)
{
	now_us = us > now_us ? us : now_us;
}

void sim_time_reset(void)
{
	now_us = begin_us;
	n_armed = 0;
	active = NULL;
	noise = 1;
}

size_t sim_time_armed(void)
{
	return n_armed;
}

/* ---- the clocks ---- */

uint64_t __wrap_kh_clock_mono_ms(void);
uint64_t __wrap_kh_clock_mono_ms(void)
{
	return now_us / 1000;
}

uint64_t __wrap_kh_clock_mono_us(void);
uint64_t __wrap_kh_clock_mono_us(void)
{
	return now_us;
}

uint64_t __wrap_kh_clock_wall_ms(void);
uint64_t __wrap_kh_clock_wall_ms(void)
{
	return UINT64_C(1800000000000) + now_us / 1000;
}

/* ---- what else differs from run to run ---- */

/* Not of the seed: some of it is asked for once in the life of a process. */
static void fill(unsigned char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		noise = noise * 6364136223846793005u + 1442695040888963407u;
		bytes[i] = (unsigned char)(noise >> 56);
	}
}

ssize_t __wrap_getrandom(void *bytes, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t len, unsigned flags)
{
	(void)flags;
	fill(bytes, len);
	return (ssize_t)len;
}

int __wrap_RAND_bytes(unsigned char *bytes, int len);
int __wrap_RAND_bytes(unsigned char *bytes, int len)
{
	fill(bytes, (size_t)len);
	return 1;
}

/* ---- events ---- */

struct event_base *__wrap_event_base_new_with_config(const struct event_config *config);
struct event_base *__wrap_event_base_new_with_config(const struct event_config *config)
{
	(void)config;
	return (void *)&the_base;
}

void __wrap_event_base_free(struct event_base *base);
void __wrap_event_base_free(struct event_base *base)
{
	(void)base;
}

int __wrap_event_assign(struct event *event, struct event_base *base, evutil_socket_t fd,
			short what, event_callback_fn fn, void *arg);
int __wrap_event_assign(struct event *event, struct event_base *base, evutil_socket_t fd,
			short what, event_callback_fn fn, void *arg)
{
	*event = (struct event){ .ev_fd = fd, .ev_events = what, .ev_base = base };
	event->ev_evcallback.evcb_cb_union.evcb_callback = fn;
	event->ev_evcallback.evcb_arg = arg;
	return 0;
}

struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
			       event_callback_fn fn, void *arg);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
			       event_callback_fn fn, void *arg)
{
	struct event *event = malloc(sizeof(*event));

	if (event)
		(void)__wrap_event_assign(event, base, fd, what, fn, arg);
	return event;
}

static struct armed *find(const struct event *event)
{
	for (size_t i = 0; i < n_armed; i++)
		if (armed[i].event == event)
			return &armed[i];
	return NULL;
}

int __wrap_event_del(struct event *event);
int __wrap_event_del(struct event *event)
{
	struct armed *at = find(event);

	if (at)
		*at = armed[--n_armed];
	if (active == event)
		active = NULL;
	return 0;
}

void __wrap_event_free(struct event *event);
void __wrap_event_free(struct event *event)
{
	(void)__wrap_event_del(event);
	free(event);
}

int __wrap_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after)
{
	struct armed *at = find(event);
	uint64_t us = after ? (uint64_t)after->tv_sec * 1000000 + (uint64_t)after->tv_usec : 0;

	/* It keeps a heap of its own. */
	if (!at && after && sim_fails(SIM_FAULT_ALLOCATION))
		return -1;
	SIM_CHECK(at || n_armed < MOST_ARMED, "too many events are armed");
	if (!at)
		at = &armed[n_armed++];
	*at = (struct armed){ event, after != NULL, now_us + us,
			      (event->ev_events & EV_PERSIST) ? us : 0 };
	return 0;
}

void __wrap_event_active(struct event *event, int what, short calls);
void __wrap_event_active(struct event *event, int what, short calls)
{
	(void)what;
	(void)calls;
	active = event;
}

uint64_t sim_time_next_us(void)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < n_armed; i++)
		if (armed[i].timed && armed[i].due_us < next)
			next = armed[i].due_us;
	return next;
}

static void run(struct event *event, short what)
{
	/* Without memory for other rules a worker ends, on purpose. */
	bool before = sim_faults_set(sim.loop->gen == sim.worker.current);

	event->ev_evcallback.evcb_cb_union.evcb_callback(event->ev_fd, what,
							 event->ev_evcallback.evcb_arg);
	(void)sim_faults_set(before);
}

static struct armed *pick_due(void)
{
	struct armed *due[MOST_ARMED];
	size_t n = 0;

	for (size_t i = 0; i < n_armed; i++)
		if (armed[i].timed && armed[i].due_us <= now_us)
			due[n++] = &armed[i];
	return n ? due[sim_below(n)] : NULL;
}

bool sim_time_run_one(struct kh_loop *loop)
{
	bool mail = active == loop->wake || loop->mail;
	struct armed *due = pick_due();

	if (mail && (!due || sim_one_in(2))) {
		active = NULL;
		run(loop->wake, EV_READ);
		return true;
	}
	if (!due)
		return false;
	struct event *event = due->event;
	if (due->period_us)
		due->due_us = now_us + due->period_us;
	else
		*due = armed[--n_armed];
	run(event, EV_TIMEOUT);
	return true;
}
