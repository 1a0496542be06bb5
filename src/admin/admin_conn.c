/*
 * admin_conn.c - a connection to the admin socket or the metrics port: HTTP/1.1
 *
 * One request at a time: it is read whole, by the same strict codec that reads sandboxes; then the
 * answer is written before more is read. A request, an answer and an idle connection each have a
 * deadline that received bytes do not extend, so that a client that sends a byte at a time is cut
 * off as early as a silent one. A streamed answer (/v1/events, /v1/questions) lasts as long as its
 * reader keeps up.
 */

#include "admin_conn_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/worker_messages.h>

enum { IN_BYTES = 16 * 1024, HEAD_BYTES = 1024 };

static unsigned watching(const struct kh_admin *admin)
{
	unsigned n = 0;
	for (int i = 0; i < KH_CALLERS; i++)
		n += admin->n_watching[i];
	return n;
}

void kh_admin_conn_unwatch(struct kh_admin_conn *conn)
{
	if (!conn->watch)
		return;
	kh_admin_watch_free(conn->watch);
	conn->watch = NULL;
	conn->admin->n_watching[conn->caller]--;
	if (watching(conn->admin) == 0)
		kh_admin_events_watched(conn->admin, false);
}

void kh_admin_conn_free(struct kh_admin_conn *conn)
{
	struct kh_admin *admin = conn->admin;

	kh_list_remove(&conn->link);
	kh_admin_conn_unwatch(conn);
	admin->n_conns[conn->caller]--;
	if (conn->event)
		event_free(conn->event);
	(void)close(conn->fd);
	if (conn->h1)
		kh_h1_free(conn->h1);
	kh_buf_fini(&conn->in);
	kh_buf_fini(&conn->content);
	kh_buf_fini(&conn->out);
	free(conn);
	kh_admin_end_when_done(admin);
}

void kh_admin_conn_wait(struct kh_admin_conn *conn, enum kh_admin_state state, unsigned ms)
{
	conn->state = state;
	conn->deadline_ms = kh_clock_mono_ms() + ms;
}

/* Return: false without memory. */
static bool put_answer(struct kh_admin_conn *conn, const struct kh_admin_answer *answer)
{
	char length[24];
	struct kh_slice content = kh_buf_view(&answer->content);

	(void)snprintf(length, sizeof(length), "%zu", content.len);
	return kh_h1_put_status_line(&conn->out, answer->status,
				     kh_slice_str(kh_h1_reason(answer->status))) &&
	       kh_h1_put_field(&conn->out, KH_SLICE("content-type"), kh_slice_str(answer->type)) &&
	       kh_h1_put_field(&conn->out, KH_SLICE("content-length"), kh_slice_str(length)) &&
	       kh_h1_put_field(&conn->out, KH_SLICE("cache-control"), KH_SLICE("no-store")) &&
	       (!answer->allow ||
		kh_h1_put_field(&conn->out, KH_SLICE("allow"), kh_slice_str(answer->allow))) &&
	       (!conn->close ||
		kh_h1_put_field(&conn->out, KH_SLICE("connection"), KH_SLICE("close"))) &&
	       kh_h1_put_end(&conn->out) &&
	       (conn->head_only || kh_buf_append_slice(&conn->out, content));
}

void kh_admin_conn_answer(struct kh_admin_conn *conn, struct kh_admin_answer *answer)
{
	kh_admin_conn_wait(conn, WRITING, KH_LIMIT_ADMIN_ANSWER_MS);
	kh_buf_clear(&conn->out);
	if (!put_answer(conn, answer)) {
		kh_buf_clear(&conn->out);
		conn->close = true;
	}
	kh_buf_fini(&answer->content);
}

void kh_admin_conn_refuse(struct kh_admin_conn *conn, uint16_t status, const char *text)
{
	struct kh_admin_answer answer = { .status = status };

	kh_buf_init(&answer.content, HEAD_BYTES);
	kh_admin_put_error(&answer, status, text);
	kh_admin_conn_answer(conn, &answer);
}

/* The head of an answer that goes on, in chunks, to a reader that has them. */
static void begin_watch(struct kh_admin_conn *conn, struct kh_admin_answer *answer)
{
	kh_buf_clear(&conn->out);
	kh_buf_fini(&answer->content);
	if (!kh_h1_put_status_line(&conn->out, 200, kh_slice_str(kh_h1_reason(200))) ||
	    !kh_h1_put_field(&conn->out, KH_SLICE("content-type"), kh_slice_str(answer->type)) ||
	    !kh_h1_put_field(&conn->out, KH_SLICE("cache-control"), KH_SLICE("no-store")) ||
	    !kh_h1_put_field(&conn->out, KH_SLICE("transfer-encoding"), KH_SLICE("chunked")) ||
	    !kh_h1_put_field(&conn->out, KH_SLICE("connection"), KH_SLICE("close")) ||
	    !kh_h1_put_end(&conn->out)) {
		kh_admin_watch_free(answer->watch);
		kh_buf_clear(&conn->out);
		conn->close = true;
		kh_admin_conn_wait(conn, WRITING, KH_LIMIT_ADMIN_ANSWER_MS);
		return;
	}
	conn->watch = answer->watch;
	conn->sent_bytes = 0;
	kh_admin_conn_wait(conn, WATCHING, KH_LIMIT_ADMIN_ANSWER_MS);
	if (watching(conn->admin) == 0)
		kh_admin_events_watched(conn->admin, true);
	conn->admin->n_watching[conn->caller]++;
}

/* Return: the keeper has been asked. */
static bool ask_keeper(struct kh_admin_conn *conn, enum kh_admin_verb verb)
{
	struct kh_admin *admin = conn->admin;
	struct kh_buf body;

	if (++admin->last_ref == 0)
		admin->last_ref = 1;
	kh_buf_init(&body, sizeof(uint32_t));
	bool ok = kh_wire_put_u8(&body, (uint8_t)verb) &&
		  kh_channel_send(&admin->worker->channel, KH_WORKER_MSG_VERB, admin->last_ref,
				  kh_buf_view(&body), NULL, 0, NULL);
	kh_buf_fini(&body);
	if (ok)
		conn->ref = admin->verb_ref = admin->last_ref;
	return ok;
}

/* Of these any number may be under way: each has its own answer. */
static bool ask_about_dynamic_sandbox(struct kh_admin_conn *conn,
				      const struct kh_admin_answer *answer)
{
	struct kh_admin *admin = conn->admin;

	if (++admin->last_ref == 0)
		admin->last_ref = 1;
	conn->ref = admin->last_ref;
	conn->holds = answer->holds;
	return kh_channel_send(&admin->worker->channel, answer->ask, conn->ref,
			       kh_buf_view(&answer->ask_body), NULL, 0, NULL);
}

static void dispatch(struct kh_admin_conn *conn, const struct kh_message *message)
{
	struct kh_admin *admin = conn->admin;
	struct kh_admin_request request = { .admin = admin,
					    .caller = conn->caller,
					    .fd = conn->fd,
					    .uid = conn->uid,
					    .pid = conn->pid,
					    .content = kh_buf_view(&conn->content) };
	struct kh_admin_answer answer = { .status = 500, .type = "application/json" };

	pthread_mutex_lock(&admin->lock);
	request.gen = kh_generation_ref(admin->gen);
	bool ok = kh_admin_facts_copy(&request.facts, &admin->facts);
	pthread_mutex_unlock(&admin->lock);
	conn->head_only = kh_slice_eq(message->method, KH_SLICE("HEAD"));
	conn->close = conn->close || !message->keep_alive;
	kh_buf_init(&answer.content, KH_LIMIT_ADMIN_ANSWER_BYTES);
	kh_buf_init(&answer.ask_body, KH_LIMIT_CHANNEL_BYTES / 8 * 7);
	if (ok)
		kh_admin_answer(&request, conn->head_only ? KH_SLICE("GET") : message->method,
				message->target, &answer);
	kh_admin_facts_fini(&request.facts);
	kh_generation_unref(request.gen);
	if (answer.verb && admin->verb_ref) {
		answer.verb = 0;
		kh_admin_put_error(&answer, 409, "another reload or drain is under way");
	}
	if (answer.verb && ask_keeper(conn, answer.verb)) {
		kh_buf_fini(&answer.content);
		kh_admin_conn_wait(conn, WAITING, KH_LIMIT_ADMIN_ANSWER_MS);
		return;
	}
	if (answer.verb)
		kh_admin_put_error(&answer, 503, "the keeper can't be asked");
	if (answer.ask && ask_about_dynamic_sandbox(conn, &answer)) {
		kh_buf_fini(&answer.content);
		kh_buf_fini(&answer.ask_body);
		kh_admin_conn_wait(conn, WAITING, KH_LIMIT_ADMIN_ANSWER_MS);
		return;
	}
	if (answer.ask)
		kh_admin_put_error(&answer, 503, "the keeper can't be asked");
	kh_buf_fini(&answer.ask_body);
	if (answer.watch && !conn->head_only && message->minor > 0) {
		begin_watch(conn, &answer);
		return;
	}
	kh_admin_watch_free(answer.watch);
	if (answer.watch && !conn->head_only)
		kh_admin_put_error(&answer, 400, "events come in chunks, which HTTP/1.0 has not");
	kh_admin_conn_answer(conn, &answer);
}

/* One event of the codec. Return: false when there is nothing more to take now. */
static bool take(struct kh_admin_conn *conn)
{
	struct kh_slice in = kh_buf_view(&conn->in), body;
	size_t before = in.len;
	enum kh_h1_event event = kh_h1_feed(conn->h1, &in, &body);
	bool fits = event != KH_H1_BODY || kh_buf_append_slice(&conn->content, body);

	kh_buf_consume(&conn->in, before - in.len);
	if (!conn->begun && !kh_h1_is_idle(conn->h1)) {
		conn->begun = conn->asked = true;
		kh_admin_conn_wait(conn, READING, KH_LIMIT_ADMIN_REQUEST_MS);
	}
	if (event == KH_H1_ERROR) {
		const struct kh_err *err = kh_h1_error(conn->h1);
		conn->close = true;
		kh_admin_conn_refuse(conn, (uint16_t)kh_err_status(err->code), err->text);
	} else if (!fits) {
		conn->close = true;
		kh_admin_conn_refuse(conn, 413, "a request brings 64 KiB at most");
	} else if (event == KH_H1_HEAD && kh_h1_message(conn->h1)->expect_continue) {
		static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
		(void)send(conn->fd, go_on, sizeof(go_on) - 1, MSG_NOSIGNAL);
	} else if (event == KH_H1_END) {
		conn->begun = false;
		dispatch(conn, kh_h1_message(conn->h1));
		kh_buf_clear(&conn->content);
	}
	return event != KH_H1_NEED_MORE && conn->state == READING;
}

/* Return: false: the connection is over. */
static bool send_some(struct kh_admin_conn *conn)
{
	while (kh_buf_len(&conn->out) > 0) {
		struct kh_slice out = kh_buf_view(&conn->out);
		ssize_t n = send(conn->fd, out.ptr, out.len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		kh_buf_consume(&conn->out, (size_t)n);
		conn->sent_bytes += (size_t)n;
	}
	kh_buf_release(&conn->out);
	return true;
}

/* While nothing waits for it, a reader has all the time there is. */
static bool flush_watch(struct kh_admin_conn *conn)
{
	if (!send_some(conn))
		return false;
	if (kh_buf_len(&conn->out) == 0 || conn->sent_bytes >= KH_LIMIT_EVENTS_PACE_BYTES) {
		conn->sent_bytes = 0;
		kh_admin_conn_wait(conn, WATCHING, KH_LIMIT_ADMIN_ANSWER_MS);
	}
	return true;
}

/* Likewise. */
static bool flush(struct kh_admin_conn *conn)
{
	if (!send_some(conn))
		return false;
	if (kh_buf_len(&conn->out) > 0)
		return true;
	if (conn->close) {
		/* What the client has not read yet would be lost with a reset. */
		(void)shutdown(conn->fd, SHUT_WR);
		return false;
	}
	kh_admin_conn_wait(conn, READING, KH_LIMIT_ADMIN_IDLE_MS);
	return true;
}

static void on_event(evutil_socket_t fd, short what, void *arg);

static bool watch(struct kh_admin_conn *conn)
{
	short wanted = conn->state == WRITING ? EV_WRITE : EV_READ;

	/* Its end is heard of by reading. */
	if (conn->state == WATCHING && kh_buf_len(&conn->out) > 0)
		wanted |= EV_WRITE;

	if (wanted == conn->watched)
		return true;
	if (event_del(conn->event) != 0 ||
	    event_assign(conn->event, conn->admin->base, conn->fd, (short)(wanted | EV_PERSIST),
			 on_event, conn) != 0)
		return false;
	conn->watched = wanted;
	return event_add(conn->event, NULL) == 0;
}

/* The last thing that whatever touches a connection does. */
void kh_admin_conn_turn(struct kh_admin_conn *conn)
{
	for (;;) {
		while (conn->state == READING && take(conn))
			;
		if (conn->state == WATCHING && !flush_watch(conn)) {
			kh_admin_conn_free(conn);
			return;
		}
		if (conn->state != WRITING)
			break;
		if (!flush(conn)) {
			kh_admin_conn_free(conn);
			return;
		}
		if (conn->state == WRITING)
			break;
	}
	if (!watch(conn))
		kh_admin_conn_free(conn);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct kh_admin_conn *conn = arg;
	char bytes[IN_BYTES];

	if (what & EV_READ) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
		bool later = n < 0 && (errno == EAGAIN || errno == EINTR);
		/* While the keeper thinks, or it watches, a client has nothing to say: it is the
		 * end, or too much. */
		if (!later && (n <= 0 || conn->state == WAITING || conn->state == WATCHING ||
			       !kh_buf_append(&conn->in, bytes, (size_t)n))) {
			kh_admin_conn_free(conn);
			return;
		}
	}
	kh_admin_conn_turn(conn);
}

void kh_admin_conn_new(struct kh_admin *admin, int fd, enum kh_admin_caller caller,
		       const struct kh_peer *peer)
{
	struct kh_admin_conn *conn = calloc(1, sizeof(*conn));

	if (!conn) {
		(void)close(fd);
		return;
	}
	conn->admin = admin;
	conn->fd = fd;
	conn->caller = caller;
	conn->uid = peer->uid;
	conn->pid = peer->pid;
	kh_buf_init(&conn->in, 2 * IN_BYTES);
	kh_buf_init(&conn->content, KH_LIMIT_ADMIN_CONTENT_BYTES);
	kh_buf_init(&conn->out, KH_LIMIT_ADMIN_ANSWER_BYTES + (size_t)HEAD_BYTES);
	kh_list_append(&admin->conns, &conn->link);
	admin->n_conns[caller]++;
	kh_admin_conn_wait(conn, READING, KH_LIMIT_ADMIN_REQUEST_MS);
	conn->h1 = kh_h1_new(KH_H1_REQUESTS);
	conn->watched = EV_READ;
	conn->event = event_new(admin->base, fd, EV_READ | EV_PERSIST, on_event, conn);
	if (!conn->h1 || !conn->event || event_add(conn->event, NULL) != 0)
		kh_admin_conn_free(conn);
}
