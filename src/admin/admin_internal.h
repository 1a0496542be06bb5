/* admin_internal.h - the parts of the admin server: its thread, its connections, its answers */
#ifndef KEYHOLE_ADMIN_ADMIN_INTERNAL_H
#define KEYHOLE_ADMIN_ADMIN_INTERNAL_H

#include <event2/event.h>

#include <keyhole/admin/admin_facts.h>
#include <keyhole/config/dynamic_sandbox.h>
#include <keyhole/http/h1.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/list.h>
#include <keyhole/base/worker_messages.h>
#include <keyhole/net/listener.h>

#include <keyhole/admin/admin.h>

/* Who calls, by the socket and the kernel's word for the peer. */
enum kh_admin_caller {
	KH_CALLER_OWNER = 0, /* root, the daemon's own user */
	KH_CALLER_GRANTED,   /* of admin.allow */
	KH_CALLER_STRANGER,
	KH_CALLER_TCP,
	KH_CALLERS,
};

struct kh_admin_watch;
struct kh_admin_listener;
/* What the keeper says of a dynamic sandbox that was asked for. */
struct kh_admin_dynamic_sandbox_done {
	struct kh_admin_dynamic_sandbox_done *next;
	uint32_t ref;
	enum kh_dynamic_sandbox_result result;
	char *text; /* why not */
	bool added;
	/* With `added` and KH_DYNAMIC_SANDBOX_OK: */
	char *tenant, *id, *path;
	uint64_t expires_ms, number;
	/* Of one that was removed: what became of its requests. */
	uint64_t fates[KH_FATES];
};

struct kh_admin {
	struct kh_worker *worker;
	pthread_t thread;
	bool started;
	uid_t owner;	   /* the daemon's user */
	uint64_t began_ms; /* this process, by the wall's clock */
	struct event_base *base;
	struct event *wake, *tick;
	int wake_fd;
	int statm;	  /* /proc/self/statm, opened before the lock-in; -1: it is not there */
	int fd_count;	  /* /proc/self/fd, which says how many there are; likewise */
	uint64_t stop_ms; /* it ends, at the latest then; 0: it goes on */
	struct kh_admin_acceptor {
		int fd; /* -1: none */
		enum kh_listener_kind kind;
		struct event *event;
		bool rests; /* there was no descriptor to be had */
	} acceptors[2];
	struct kh_node conns; /* struct kh_admin_conn.link */
	unsigned n_conns[KH_CALLERS];
	unsigned n_watching[KH_CALLERS]; /* of those, who watch decisions */
	struct event *look;		 /* into the rings (events.h); NULL: nobody watches */
	struct kh_buf event_room;
	uint32_t last_ref;
	uint32_t verb_ref; /* the keeper was asked, and answers, whoever waits for it; 0: it was not
			    */

	/* Mail from the main thread, under the lock. */
	pthread_mutex_t lock;
	struct kh_generation *gen; /* in force: a reference */
	struct kh_admin_facts facts;
	struct kh_admin_acceptor new_acceptors[2];
	bool has_new_acceptors, retire, stop, has_done, done_ok;
	bool is_behind; /* the thread accepts where an ADMIN before the last one said */
	uint32_t done_ref;
	char *done_text;
	struct kh_admin_dynamic_sandbox_done *dynamic_sandbox_done; /* the first of them first */
};

/* A request that is whole, and the answer to it. */
struct kh_admin_request {
	struct kh_admin *admin;
	enum kh_admin_caller caller;
	int fd; /* the connection */
	uid_t uid;
	pid_t pid;
	struct kh_slice rest;	     /* of the path, where a route takes any */
	struct kh_generation *gen;   /* a reference */
	struct kh_admin_facts facts; /* a copy */
	struct kh_slice content;     /* what it brought */
	struct kh_slice query;	     /* after the "?" */
};

struct kh_admin_answer {
	uint16_t status;
	const char *type;  /* of the content */
	const char *allow; /* with 405 */
	struct kh_buf content;
	enum kh_admin_verb verb;      /* not 0: the keeper's answer is awaited */
	struct kh_admin_watch *watch; /* not NULL: the answer goes on, line by line */
	/* Likewise, with the message's body; 0: nothing is asked. */
	enum kh_worker_msg_to_keeper ask;
	struct kh_buf ask_body;
	bool holds; /* a sandbox is asked for that ends with the caller's process */
};

/* Ends the thread's loop if it is to stop and nobody is there who waits for an answer. */
void kh_admin_end_when_done(struct kh_admin *admin);

/* admin_conn.c */
void kh_admin_conn_new(struct kh_admin *admin, int fd, enum kh_admin_caller caller,
		       const struct kh_peer *peer);
/* admin_conns.c: all of them */
void kh_admin_conns_tick(struct kh_admin *admin, uint64_t now_ms);
/* All places of that kind of caller are taken, and a user wants one: the user who has the most
 * gives one up, if that is somebody else who has more. On the port, whose users nobody knows, the
 * newcomer gets the place of the oldest that has asked nothing. `watching`: of those who watch
 * decisions. Return: false when nobody has. */
bool kh_admin_conns_make_room(struct kh_admin *admin, enum kh_admin_caller caller, uid_t uid,
			      bool watching);
/* The keeper has answered. */
void kh_admin_conns_done(struct kh_admin *admin, uint32_t ref, bool ok, const char *text);
/* Calls `show` for each that watches, with what is written to it. */
void kh_admin_conns_show(struct kh_admin *admin,
			 void (*show)(struct kh_admin_watch *watch, struct kh_buf *out,
				      const void *arg),
			 const void *arg);
/* That was all for now: it is sent. */
void kh_admin_conns_shown(struct kh_admin *admin);
/* Another process answers from here on, or none, but only whoever connects anew: a connection ends
 * with what was asked on it, at once if all of that is answered, and in KH_LIMIT_ADMIN_LAST_MS if
 * nothing was asked yet. */
void kh_admin_conns_retire(struct kh_admin *admin);

/* admin_events.c */
bool kh_admin_events(const struct kh_admin_request *request, struct kh_admin_answer *out);
void kh_admin_watch_free(struct kh_admin_watch *watch);
/* One that is shown questions and no events. Takes the listener over. Return: NULL without memory:
 * it is still the caller's. */
struct kh_admin_watch *kh_admin_watch_of(struct kh_admin_listener *listener);
/* A line as a chunk: `line`, then `end`. Return: false: the reader has too much to read already, or
 * no memory; nothing was put. */
bool kh_admin_put_line(struct kh_buf *out, struct kh_slice line, const char *end);

/* admin_questions.c */
bool kh_admin_questions(const struct kh_admin_request *request, struct kh_admin_answer *out);
bool kh_admin_question_answer(const struct kh_admin_request *request, struct kh_admin_answer *out);
/* What is new since the last call. */
void kh_admin_listener_show(struct kh_admin_listener *listener, struct kh_buf *out);
void kh_admin_listener_free(struct kh_admin_listener *listener); /* NULL is fine */
/* The first one watches from now on; the last one has gone. */
void kh_admin_events_watched(struct kh_admin *admin, bool watched);
/* … about a dynamic sandbox. Return: nobody waits for it any more. */
bool kh_admin_conns_dynamic_sandbox_done(struct kh_admin *admin,
					 const struct kh_admin_dynamic_sandbox_done *done);
void kh_admin_conns_end(struct kh_admin *admin);

/* admin_dynamic_sandboxes.c: what may be asked about dynamic sandboxes, and what is answered.
 * Return: false without memory. */
bool kh_admin_dynamic_sandbox_add(const struct kh_admin_request *request,
				  struct kh_admin_answer *out);
bool kh_admin_dynamic_sandbox_remove(const struct kh_admin_request *request,
				     struct kh_admin_answer *out);
/* admin_dynamic_sandbox_done.c */
void kh_admin_put_dynamic_sandbox_done(struct kh_admin *admin, enum kh_admin_caller caller,
				       const struct kh_admin_dynamic_sandbox_done *done,
				       struct kh_admin_answer *out);
/* admin_peer.c */
/* The process that connected has ended, and its pid may be another's. Also of one of which the
 * kernel tells nothing; false before Linux 6.5. */
bool kh_admin_peer_has_ended(int fd);
#define KH_ADMIN_PEER_ENDED "hold: the process that connected has ended"

/* On the admin thread: the mail about dynamic sandboxes is delivered. */
void kh_admin_dynamic_sandboxes_wake(struct kh_admin *admin);
void kh_admin_dynamic_sandboxes_free(struct kh_admin *admin);
void kh_admin_wake(const struct kh_admin *admin);

/* admin_routes.c */
void kh_admin_answer(struct kh_admin_request *request, struct kh_slice method,
		     struct kh_slice target, struct kh_admin_answer *out);
/* {"error":"…"} */
void kh_admin_put_error(struct kh_admin_answer *out, uint16_t status, const char *text);
void kh_admin_put_done(struct kh_admin_answer *out, bool ok, const char *text);
bool kh_admin_may_see_tenant(const struct kh_admin_request *request, uint16_t tenant);
/* Is it ready for sandboxes? Else *why says why not. */
bool kh_admin_is_ready(const struct kh_worker *worker, const char **why);

/* admin_metrics.c, admin_status.c: false without memory */
bool kh_admin_put_metrics(const struct kh_admin_request *request, struct kh_buf *out);
bool kh_admin_put_status(const struct kh_admin_request *request, struct kh_buf *out);
/* admin_credentials.c: families of metrics; `states` is kh_admin_facts.credentials. */
bool kh_admin_put_credential_values(const char *states, struct kh_buf *out);
bool kh_admin_put_sandboxes(const struct kh_admin_request *request, struct kh_buf *out);
/* By what the keeper knows of the credentials' values (`states`): of each name, is any ready?
 * Return: NULL without memory, or if nothing is known. */
struct json_t;
struct json_t *kh_admin_credential_status(const struct kh_admin_request *request);
void kh_admin_credential_status_free(struct json_t *states);
/* Is a value there? A credential of which the keeper has told nothing counts as it was at the
 * start.
 */
bool kh_admin_credential_is_ready(struct kh_generation *gen, size_t index,
				  const struct json_t *states);
uint64_t kh_admin_sum(const struct kh_worker *worker, enum kh_count_index what);

#endif
