/* admin_conn_internal.h - a connection of the admin server, for the files that walk all connections
 */
#ifndef KEYHOLE_ADMIN_ADMIN_CONN_INTERNAL_H
#define KEYHOLE_ADMIN_ADMIN_CONN_INTERNAL_H

#include "admin_internal.h"

enum kh_admin_state {
	READING = 1,
	WAITING, /* for the keeper */
	WRITING,
	WATCHING, /* the answer goes on */
};

struct kh_admin_conn {
	struct kh_node link;
	struct kh_admin *admin;
	int fd;
	enum kh_admin_caller caller;
	uid_t uid;
	pid_t pid;
	enum kh_admin_state state;
	struct event *event;
	short watched;
	uint64_t deadline_ms;
	uint32_t ref; /* WAITING */
	bool holds;   /* likewise: as in the answer */
	bool begun;   /* a request's first byte is there */
	bool asked;   /* one was, at some time */
	bool close;
	bool head_only;
	struct kh_admin_watch *watch; /* WATCHING */
	size_t sent_bytes;	      /* likewise, since the deadline was set */
	struct kh_h1 *h1;
	struct kh_buf in;
	struct kh_buf content; /* of the request */
	struct kh_buf out;
};

/* It is in this state from now on, for so long at most. */
void kh_admin_conn_wait(struct kh_admin_conn *conn, enum kh_admin_state state, unsigned ms);
/* What is to be written; `answer` is used up. It goes out with the next turn. */
void kh_admin_conn_answer(struct kh_admin_conn *conn, struct kh_admin_answer *answer);
void kh_admin_conn_refuse(struct kh_admin_conn *conn, uint16_t status, const char *text);
/* It is shown no more decisions. */
void kh_admin_conn_unwatch(struct kh_admin_conn *conn);
/* The last thing that whatever touches a connection does: it may be gone after it. */
void kh_admin_conn_turn(struct kh_admin_conn *conn);
void kh_admin_conn_free(struct kh_admin_conn *conn);

#endif
