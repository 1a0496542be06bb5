/* ctl_client.c - sends one request to a daemon's admin socket: HTTP/1.1, by keyhole's own codec */
#include "ctl_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>
#include <keyhole/http/h1.h>
#include <keyhole/base/limits.h>

#include "ctl_trust.h"

enum { PATIENCE_S = 60, HEAD_BYTES = 1024, READ_BYTES = 16 * 1024 };

void kh_ctl_answer_init(struct kh_ctl_answer *answer)
{
	*answer = (struct kh_ctl_answer){ .status = 0 };
	kh_buf_init(&answer->content, KH_LIMIT_ADMIN_ANSWER_BYTES);
}

void kh_ctl_answer_fini(struct kh_ctl_answer *answer)
{
	kh_buf_fini(&answer->content);
}

static const char *hint_for(int why)
{
	if (why == ENOENT || why == ECONNREFUSED)
		return " (is a daemon running whose configuration has `admin: { unix: … }`? "
		       "--socket says where)";
	return why == EACCES ? " (its configuration says who may: admin.allow)" : "";
}

static int reach(const char *path, struct kh_err *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	if (strlen(path) >= sizeof(at.sun_path)) {
		kh_err_set(err, KH_ERR_USAGE, "ctl: \"%s\": too long for a Unix socket's path",
			   kh_esc_str(path));
		return -1;
	}
	memcpy(at.sun_path, path, strlen(path));
	kh_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0)
		return kh_steal_fd(&fd);
	int why = errno;
	kh_err_set(err, KH_ERR_SYSTEM, "ctl: %s %s: %s%s",
		   why == EACCES ? "you may not connect to" : "no daemon answers at",
		   kh_esc_str(path), strerror(why), hint_for(why));
	return -1;
}

bool kh_ctl_find(const char *path, bool *there, struct kh_err *err)
{
	uid_t server;
	kh_auto_close int fd = reach(path, NULL);
	*there = fd >= 0;
	return fd < 0 || kh_ctl_judge_server(fd, path, &server, err);
}

static bool ask(int fd, const char *method, const char *target, struct kh_slice content,
		struct kh_err *err)
{
	char length[24];
	kh_cleanup(kh_buf_fini) struct kh_buf head;
	kh_buf_init(&head, HEAD_BYTES + content.len);
	(void)snprintf(length, sizeof(length), "%zu", content.len);
	if (!kh_h1_put_request_line(&head, kh_slice_str(method), kh_slice_str(target)) ||
	    !kh_h1_put_field(&head, KH_SLICE("host"), KH_SLICE("keyhole")) ||
	    !kh_h1_put_field(&head, KH_SLICE("content-length"), kh_slice_str(length)) ||
	    !kh_h1_put_field(&head, KH_SLICE("connection"), KH_SLICE("close")) ||
	    !kh_h1_put_end(&head) || !kh_buf_append_slice(&head, content))
		return kh_err_set(err, KH_ERR_USAGE, "ctl: \"%s\" can't be asked for",
				  kh_esc_str(target));
	while (kh_buf_len(&head) > 0) {
		struct kh_slice rest = kh_buf_view(&head);
		ssize_t n = send(fd, rest.ptr, rest.len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "ctl: asking the daemon");
		kh_buf_consume(&head, (size_t)n);
	}
	return true;
}

enum taken { TAKEN_MORE = 1, TAKEN_WHOLE, TAKEN_BAD };

static enum taken take(struct kh_h1 *h1, struct kh_slice in, struct kh_ctl_answer *out)
{
	for (;;) {
		struct kh_slice body;
		switch (kh_h1_feed(h1, &in, &body)) {
		case KH_H1_NEED_MORE:
			return TAKEN_MORE;
		case KH_H1_HEAD:
			out->status = kh_h1_message(h1)->status;
			break;
		case KH_H1_BODY:
			if (!kh_buf_append_slice(&out->content, body))
				return TAKEN_BAD;
			break;
		case KH_H1_END:
			return TAKEN_WHOLE;
		case KH_H1_ERROR:
			return TAKEN_BAD;
		}
	}
}

static bool hear(int fd, struct kh_h1 *h1, struct kh_ctl_answer *out, struct kh_err *err)
{
	char bytes[READ_BYTES];
	enum taken taken = TAKEN_MORE;
	while (taken == TAKEN_MORE) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "ctl: the daemon's answer");
		if (n == 0)
			return kh_err_set(err, KH_ERR_SYSTEM,
					  "ctl: the daemon closed the connection before it had "
					  "answered (try again)");
		taken = take(h1, kh_slice_of(bytes, (size_t)n), out);
	}
	return taken == TAKEN_WHOLE ||
	       kh_err_set(err, KH_ERR_SYSTEM, "ctl: what answers there is no keyhole");
}

bool kh_ctl_ask(const char *socket_path, const char *method, const char *target,
		struct kh_slice content, struct kh_ctl_answer *out, struct kh_err *err)
{
	kh_auto_close int fd = reach(socket_path, err);
	if (fd < 0 || !kh_ctl_judge_server(fd, socket_path, &out->server, err) ||
	    !ask(fd, method, target, content, err))
		return false;
	struct kh_h1 *h1 = kh_h1_new(KH_H1_RESPONSES);
	if (!h1)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "ctl: no memory");
	kh_h1_expect_response_to(h1, kh_slice_str(method));
	bool ok = hear(fd, h1, out, err);
	kh_h1_free(h1);
	return ok;
}

/* --- an answer that goes on ------------------------------------------------------------------- */

struct follow {
	bool (*take)(void *arg, struct kh_slice line);
	void *arg;
	struct kh_ctl_answer *out;
	bool over; /* one was enough */
};

/* What has come whole, a line at a time. */
static void give_lines(struct follow *f)
{
	while (!f->over) {
		struct kh_slice all = kh_buf_view(&f->out->content);
		size_t end = kh_slice_find(all, '\n', 0);
		if (end >= all.len)
			return;
		f->over = !f->take(f->arg, kh_slice_sub(all, 0, end));
		kh_buf_consume(&f->out->content, end + 1);
	}
}

/* Of what has come. */
static enum kh_ctl_heard hear_some(int fd, struct kh_h1 *h1, struct follow *f, struct kh_err *err)
{
	char bytes[READ_BYTES];
	ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
	if (n < 0 && errno == EINTR)
		return KH_CTL_MORE;
	if (n < 0 && errno != EAGAIN) {
		kh_err_sys(err, KH_ERR_SYSTEM, errno, "ctl: the daemon's answer");
		return KH_CTL_FAILED;
	}
	if (n < 0 && f->out->status == 200)
		return KH_CTL_MORE; /* nothing happens there */
	if (n <= 0) {
		kh_err_set(err, KH_ERR_SYSTEM, "ctl: the daemon did not answer (try again)");
		return f->out->status == 200 ? KH_CTL_OVER : KH_CTL_FAILED;
	}
	enum taken taken = take(h1, kh_slice_of(bytes, (size_t)n), f->out);
	if (f->out->status == 200)
		give_lines(f);
	if (f->over || taken == TAKEN_WHOLE)
		return KH_CTL_OVER;
	if (taken == TAKEN_BAD) {
		kh_err_set(err, KH_ERR_SYSTEM, "ctl: what answers there is no keyhole");
		return KH_CTL_FAILED;
	}
	return KH_CTL_MORE;
}

bool kh_ctl_stream_open(struct kh_ctl_stream *stream, const char *socket_path, const char *target,
			struct kh_err *err)
{
	*stream = (struct kh_ctl_stream){ .fd = -1 };
	kh_ctl_answer_init(&stream->answer);
	kh_auto_close int fd = reach(socket_path, err);
	if (fd < 0 || !kh_ctl_judge_server(fd, socket_path, &stream->answer.server, err) ||
	    !ask(fd, "GET", target, kh_slice_str(NULL), err))
		return false;
	stream->h1 = kh_h1_new(KH_H1_RESPONSES);
	if (!stream->h1)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "ctl: no memory");
	kh_h1_expect_response_to(stream->h1, KH_SLICE("GET"));
	stream->fd = kh_steal_fd(&fd);
	return true;
}

enum kh_ctl_heard kh_ctl_stream_take(struct kh_ctl_stream *stream,
				     bool (*take_line)(void *arg, struct kh_slice line), void *arg,
				     struct kh_err *err)
{
	struct follow f = { .take = take_line, .arg = arg, .out = &stream->answer };
	return hear_some(stream->fd, stream->h1, &f, err);
}

void kh_ctl_stream_close(struct kh_ctl_stream *stream)
{
	if (stream->fd >= 0)
		(void)close(stream->fd);
	if (stream->h1)
		kh_h1_free(stream->h1);
	kh_ctl_answer_fini(&stream->answer);
	*stream = (struct kh_ctl_stream){ .fd = -1 };
}

bool kh_ctl_follow(const char *socket_path, const char *target,
		   bool (*take_line)(void *arg, struct kh_slice line), void *arg,
		   struct kh_ctl_answer *out, struct kh_err *err)
{
	struct kh_ctl_stream stream;
	struct kh_err last = KH_ERR_INIT;
	enum kh_ctl_heard heard = KH_CTL_MORE;
	if (!kh_ctl_stream_open(&stream, socket_path, target, err))
		return false;
	while (heard == KH_CTL_MORE)
		heard = kh_ctl_stream_take(&stream, take_line, arg, &last);
	if (heard == KH_CTL_FAILED)
		*err = last;
	kh_ctl_answer_fini(out);
	*out = stream.answer;
	kh_ctl_answer_init(&stream.answer);
	kh_ctl_stream_close(&stream);
	return heard == KH_CTL_OVER;
}
