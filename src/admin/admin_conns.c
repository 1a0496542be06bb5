/*
 * admin_conns.c - what happens to all connections of the admin server: timeouts, the keeper's
 * answers, events for watchers, a handover
 */

#include "admin_conn_internal.h"

#include <sys/socket.h>

#include <keyhole/base/clock.h>

void kh_admin_conns_tick(struct kh_admin *admin, uint64_t now_ms)
{
	struct kh_node *next;

	/* What is done to one ends that one at most. */
	for (struct kh_node *node = admin->conns.next; node != &admin->conns; node = next) {
		struct kh_admin_conn *conn = kh_container_of(node, struct kh_admin_conn, link);
		next = node->next;
		if (now_ms < conn->deadline_ms ||
		    (conn->state == WATCHING && kh_buf_len(&conn->out) == 0))
			continue;
		if (conn->state == READING && conn->begun) {
			conn->close = true;
			kh_admin_conn_refuse(conn, 408, "the request did not come in time");
			kh_admin_conn_turn(conn);
		} else {
			kh_admin_conn_free(conn);
		}
	}
}

static bool counts(const struct kh_admin_conn *conn, enum kh_admin_caller caller, bool watching)
{
	return conn->caller == caller && (!watching || conn->watch);
}

static unsigned held_by(struct kh_admin *admin, enum kh_admin_caller caller, uid_t uid,
			bool watching)
{
	unsigned n = 0;
	for (struct kh_node *node = admin->conns.next; node != &admin->conns; node = node->next) {
		struct kh_admin_conn *conn = kh_container_of(node, struct kh_admin_conn, link);
		n += counts(conn, caller, watching) && conn->uid == uid;
	}
	return n;
}

/* What goes first is smaller. A client that asks sends its request as soon as it is connected. */
static unsigned rank(const struct kh_admin_conn *conn)
{
	if (conn->state != READING)
		return 3;
	return conn->begun ? 1 : conn->asked ? 2 : 0;
}

/* The one of a user's that goes first: the oldest that has asked nothing, that has not ended what
 * it asks, that asks nothing more, or the oldest. */
static struct kh_admin_conn *first_to_go(struct kh_admin *admin, enum kh_admin_caller caller,
					 uid_t uid, bool watching)
{
	struct kh_admin_conn *first = NULL;
	for (struct kh_node *node = admin->conns.next; node != &admin->conns; node = node->next) {
		struct kh_admin_conn *conn = kh_container_of(node, struct kh_admin_conn, link);
		if (counts(conn, caller, watching) && conn->uid == uid &&
		    (!first || rank(conn) < rank(first)))
			first = conn;
	}
	return first;
}

bool kh_admin_conns_make_room(struct kh_admin *admin, enum kh_admin_caller caller, uid_t uid,
			      bool watching)
{
	unsigned own = held_by(admin, caller, uid, watching), most = own;
	uid_t whose = uid;
	for (struct kh_node *node = admin->conns.next; node != &admin->conns; node = node->next) {
		struct kh_admin_conn *conn = kh_container_of(node, struct kh_admin_conn, link);
		if (!counts(conn, caller, watching) || conn->uid == whose || conn->uid == uid)
			continue;
		unsigned n = held_by(admin, caller, conn->uid, watching);
		if (n > most) {
			most = n;
			whose = conn->uid;
		}
	}
	/* Behind the port all users look like one: there a newcomer is as good as any other. */
	bool gives = whose != uid || caller == KH_CALLER_TCP;
	struct kh_admin_conn *conn = gives ? first_to_go(admin, caller, whose, watching) : NULL;
	if (conn)
		kh_admin_conn_free(conn);
	return conn != NULL;
}

/* Return: NULL: nobody does any more. */
static struct kh_admin_conn *waits_for(struct kh_admin *admin, uint32_t ref)
{
	for (struct kh_node *node = admin->conns.next; node != &admin->conns; node = node->next) {
		struct kh_admin_conn *conn = kh_container_of(node, struct kh_admin_conn, link);
		if (conn->state == WAITING && conn->ref == ref)
			return conn;
	}
	return NULL;
}

void kh_admin_conns_done(struct kh_admin *admin, uint32_t ref, bool ok, const char *text)
{
	struct kh_admin_conn *conn = waits_for(admin, ref);
	struct kh_admin_answer answer = { .status = ok ? 200 : 422, .type = "application/json" };

	if (!conn)
		return;
	kh_buf_init(&answer.content, 8 * KH_LIMIT_CHANNEL_BYTES);
	kh_admin_put_done(&answer, ok, text);
	kh_admin_conn_answer(conn, &answer);
	kh_admin_conn_turn(conn);
}

bool kh_admin_conns_dynamic_sandbox_done(struct kh_admin *admin,
					 const struct kh_admin_dynamic_sandbox_done *done)
{
	struct kh_admin_conn *conn = waits_for(admin, done->ref);
	struct kh_admin_answer answer = { .status = 500, .type = "application/json" };

	if (!conn)
		return false;
	kh_buf_init(&answer.content, 8 * KH_LIMIT_CHANNEL_BYTES);
	/* What the keeper watches is this process only if it still runs now. */
	if (done->added && conn->holds && kh_admin_peer_has_ended(conn->fd)) {
		kh_admin_put_error(&answer, 422, KH_ADMIN_PEER_ENDED);
		kh_admin_conn_answer(conn, &answer);
		kh_admin_conn_turn(conn);
		return false;
	}
	kh_admin_put_dynamic_sandbox_done(admin, conn->caller, done, &answer);
	kh_admin_conn_answer(conn, &answer);
	kh_admin_conn_turn(conn);
	return true;
}

void kh_admin_conns_show(struct kh_admin *admin,
			 void (*show)(struct kh_admin_watch *watch, struct kh_buf *out,
				      const void *arg),
			 const void *arg)
{
	for (struct kh_node *node = admin->conns.next; node != &admin->conns; node = node->next) {
		struct kh_admin_conn *conn = kh_container_of(node, struct kh_admin_conn, link);
		bool idle = kh_buf_len(&conn->out) == 0;
		if (!conn->watch)
			continue;
		show(conn->watch, &conn->out, arg);
		if (!idle || kh_buf_len(&conn->out) == 0)
			continue;
		conn->sent_bytes = 0;
		kh_admin_conn_wait(conn, WATCHING, KH_LIMIT_ADMIN_ANSWER_MS);
	}
}

void kh_admin_conns_shown(struct kh_admin *admin)
{
	struct kh_node *next;

	for (struct kh_node *node = admin->conns.next; node != &admin->conns; node = next) {
		struct kh_admin_conn *conn = kh_container_of(node, struct kh_admin_conn, link);
		next = node->next;
		if (conn->watch && kh_buf_len(&conn->out) > 0)
			kh_admin_conn_turn(conn);
	}
}

/* Nothing was asked on it that is not answered. */
static bool rests(const struct kh_admin_conn *conn)
{
	char byte;

	return conn->state == READING && !conn->begun &&
	       recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

/* Its request may be on the way. */
static bool is_new(const struct kh_admin_conn *conn)
{
	return conn->state == READING && !conn->asked && !conn->close;
}

void kh_admin_conns_retire(struct kh_admin *admin)
{
	struct kh_node *next;

	for (struct kh_node *node = admin->conns.next; node != &admin->conns; node = next) {
		struct kh_admin_conn *conn = kh_container_of(node, struct kh_admin_conn, link);
		bool newcomer = is_new(conn);
		next = node->next;
		conn->close = true;
		if (rests(conn) && newcomer) {
			kh_admin_conn_wait(conn, READING, KH_LIMIT_ADMIN_LAST_MS);
		} else if (rests(conn) && conn->asked) {
			kh_admin_conn_free(conn);
		} else if (conn->watch) {
			kh_admin_conn_unwatch(conn);
			(void)kh_h1_put_last_chunk(&conn->out, NULL, 0);
			kh_admin_conn_wait(conn, WRITING, KH_LIMIT_ADMIN_ANSWER_MS);
			kh_admin_conn_turn(conn);
		}
	}
}

void kh_admin_conns_end(struct kh_admin *admin)
{
	struct kh_node *next;

	for (struct kh_node *node = admin->conns.next; node != &admin->conns; node = next) {
		next = node->next;
		kh_admin_conn_free(kh_container_of(node, struct kh_admin_conn, link));
	}
}
