/* ctl_client.h - sends one request to a daemon's admin socket */
#ifndef KEYHOLE_CLI_CTL_CLIENT_H
#define KEYHOLE_CLI_CTL_CLIENT_H

#include <sys/types.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/err.h>

/* A daemon's answer: its status, and its content up to the buffer's cap. */
struct kh_ctl_answer {
	uint16_t status;
	uid_t server; /* the user who runs the server */
	struct kh_buf content;
};

/* All of these refuse a server that can't be trusted (ctl_trust.h). */

/* *there: does a server listen there to which we may connect? Return: false with `err`: there is
 * one that can't be trusted. */
bool kh_ctl_find(const char *socket_path, bool *there, struct kh_err *err);
void kh_ctl_answer_init(struct kh_ctl_answer *answer);
void kh_ctl_answer_fini(struct kh_ctl_answer *answer);
/* Blocks until the answer is complete, or a timeout. Return: false with `err`: no server answers,
 * or not with HTTP. */
bool kh_ctl_ask(const char *socket_path, const char *method, const char *target,
		struct kh_slice content, struct kh_ctl_answer *out, struct kh_err *err);

/* The same for a streaming answer: `take` gets each line, without its line end, as it comes, until
 * it returns false or the daemon ends the answer. Return: false with `err`: no server answers, not
 * with HTTP, or with another answer than lines, which is then in *out. */
bool kh_ctl_follow(const char *socket_path, const char *target,
		   bool (*take)(void *arg, struct kh_slice line), void *arg,
		   struct kh_ctl_answer *out, struct kh_err *err);

/* A streaming answer for a caller that also waits for something else: `fd` is readable when there
 * is something to take. */
struct kh_ctl_stream {
	int fd;
	struct kh_h1 *h1;
	struct kh_ctl_answer answer;
};
enum kh_ctl_heard {
	KH_CTL_FAILED = 0, /* as kh_ctl_follow: no lines, or no HTTP */
	KH_CTL_MORE,	   /* it goes on */
	KH_CTL_OVER,	   /* the daemon, or `take`, has ended it */
};
/* Connects and asks. Return: false with `err`; there is nothing to close. */
bool kh_ctl_stream_open(struct kh_ctl_stream *stream, const char *socket_path, const char *target,
			struct kh_err *err);
/* Takes what is there, as kh_ctl_follow does; blocks if nothing is. With another answer than lines,
 * OVER, and it is in stream->answer. */
enum kh_ctl_heard kh_ctl_stream_take(struct kh_ctl_stream *stream,
				     bool (*take)(void *arg, struct kh_slice line), void *arg,
				     struct kh_err *err);
void kh_ctl_stream_close(struct kh_ctl_stream *stream);

#endif
