/* pipes.c - connections: what either end says arrives in pieces, late, or not at all */
/* wrap: kh_stream_new kh_stream_is_alive kh_stream_has_news close */

#include <errno.h>
#include <unistd.h>

#include "simulation.h"

enum { PIPE_BYTES = 4 << 20, USUAL_ROOM = 256 * 1024, LEAST_ROOM = 256 };

struct sim_pipe sim_pipes[SIM_PIPES];

struct kh_stream *__real_kh_stream_new(struct event_base *base, int fd, kh_stream_cb *cb,
				       void *arg);
struct kh_stream *__wrap_kh_stream_new(struct event_base *base, int fd, kh_stream_cb *cb,
				       void *arg);
bool __wrap_kh_stream_is_alive(struct kh_stream *stream);
bool __wrap_kh_stream_has_news(struct kh_stream *stream);
int __real_close(int fd);
int __wrap_close(int fd);

/* ---- keyhole's end ---- */

static void let_go(struct sim_pipe *pipe)
{
	SIM_CHECK(pipe->given && !pipe->closed, "a connection is closed twice");
	pipe->closed = true;
	pipe->stream = NULL;
	sim_trace("%s %d: keyhole closes", pipe->up ? "up" : "down", (int)(pipe - sim_pipes));
}

static ssize_t pipe_read(void *arg, void *bytes, size_t room)
{
	struct sim_pipe *pipe = arg;
	struct kh_slice in = kh_buf_view(&pipe->in);
	size_t n = in.len < room ? in.len : room;

	SIM_CHECK(!pipe->closed, "a connection is read after its end");
	if (pipe->reset || sim_fails(SIM_FAULT_CALL)) {
		errno = ECONNRESET;
		return -1;
	}
	if (n == 0 && pipe->ended)
		return 0;
	if (n == 0) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(bytes, in.ptr, n);
	kh_buf_consume(&pipe->in, n);
	return (ssize_t)n;
}

/* No value of a credential goes anywhere in the clear but to its host (HTTP/2 compresses its heads:
 * upstreams.c looks into those). */
static void look_for_values(struct sim_pipe *pipe, const char *bytes, size_t len)
{
	char seen[sizeof(pipe->tail) * 2];
	size_t mark = strlen(sim_value_mark);
	size_t head = len < sizeof(pipe->tail) ? len : sizeof(pipe->tail);
	bool allowed = pipe->up && (pipe->host == SIM_HOST_KEY || pipe->host == SIM_HOST_OTHER ||
				    pipe->host == SIM_HOST_SHARED || pipe->host == SIM_HOST_MODELS);

	memcpy(seen, pipe->tail, pipe->tail_len);
	memcpy(seen + pipe->tail_len, bytes, head);
	SIM_CHECK(allowed || (!memmem(seen, pipe->tail_len + head, sim_value_mark, mark) &&
			      !memmem(bytes, len, sim_value_mark, mark)),
		  "a credential's value goes %s", pipe->up ? sim_host_names[pipe->host] : "down");
	size_t keep = mark - 1;
	if (len >= keep) {
		memcpy(pipe->tail, bytes + len - keep, keep);
		pipe->tail_len = keep;
	} else {
		memcpy(pipe->tail, seen, pipe->tail_len);
		size_t all = pipe->tail_len + len, left = all < keep ? all : keep;
		memmove(pipe->tail, seen + all - left, left);
		pipe->tail_len = left;
	}
}

static ssize_t pipe_write(void *arg, const void *bytes, size_t len)
{
	struct sim_pipe *pipe = arg;
	size_t used = kh_buf_len(&pipe->out);
	size_t n = used >= pipe->room ? 0 : pipe->room - used;

	SIM_CHECK(!pipe->closed && !pipe->shut, "a connection is written to after its end");
	if (pipe->reset || sim_fails(SIM_FAULT_CALL)) {
		errno = EPIPE;
		return -1;
	}
	n = len < n ? len : n;
	if (n == 0) {
		errno = EAGAIN;
		return -1;
	}
	bool before = sim_faults_set(false);
	if (pipe->up && !pipe->h2)
		sim_journal_allows(pipe->host, "bytes");
	look_for_values(pipe, bytes, n);
	if (!pipe->far_gone)
		SIM_CHECK(kh_buf_append(&pipe->out, bytes, n), "a pipe is full");
	pipe->wrote += n;
	(void)sim_faults_set(before);
	return (ssize_t)n;
}

static unsigned pipe_ready(const void *arg)
{
	const struct sim_pipe *pipe = arg;

	if (pipe->reset)
		return KH_STREAM_READABLE | KH_STREAM_WRITABLE;
	return (kh_buf_len(&pipe->in) || pipe->ended ? KH_STREAM_READABLE : 0u) |
	       (kh_buf_len(&pipe->out) < pipe->room ? KH_STREAM_WRITABLE : 0u);
}

static void pipe_shutdown(void *arg)
{
	struct sim_pipe *pipe = arg;

	pipe->shut = true;
}

static void pipe_close(void *arg)
{
	let_go(arg);
}

static const struct kh_pipe_ops pipe_ops = {
	.read = pipe_read,
	.write = pipe_write,
	.ready = pipe_ready,
	.shutdown = pipe_shutdown,
	.close = pipe_close,
};

struct kh_stream *__wrap_kh_stream_new(struct event_base *base, int fd, kh_stream_cb *cb, void *arg)
{
	SIM_CHECK(fd >= SIM_FD && fd < SIM_FD + SIM_PIPES, "a stream of an unknown descriptor");
	struct sim_pipe *pipe = &sim_pipes[fd - SIM_FD];
	SIM_CHECK(pipe->given && !pipe->closed && !pipe->stream, "a descriptor is used twice");
	pipe->stream = kh_stream_new_over(base, &pipe_ops, pipe, cb, arg);
	return pipe->stream;
}

int __wrap_close(int fd)
{
	if (fd < SIM_FD)
		return __real_close(fd);
	let_go(&sim_pipes[fd - SIM_FD]);
	return 0;
}

static struct sim_pipe *pipe_of(const struct kh_stream *stream)
{
	for (size_t i = 0; i < SIM_PIPES; i++)
		if (sim_pipes[i].used && sim_pipes[i].stream == stream)
			return &sim_pipes[i];
	sim_fail("a stream that is none of ours");
}

bool __wrap_kh_stream_has_news(struct kh_stream *stream)
{
	const struct sim_pipe *pipe = pipe_of(stream);

	return pipe->reset || pipe->ended || kh_buf_len(&pipe->in) > 0;
}

bool __wrap_kh_stream_is_alive(struct kh_stream *stream)
{
	return !__wrap_kh_stream_has_news(stream) && !pipe_of(stream)->shut;
}

/* ---- the far end ---- */

static void free_pipe(struct sim_pipe *pipe)
{
	if (pipe->far && pipe->up)
		sim_upstream_free(pipe);
	else if (pipe->far)
		sim_sandbox_free(pipe);
	kh_buf_fini(&pipe->coming);
	kh_buf_fini(&pipe->in);
	kh_buf_fini(&pipe->out);
	pipe->used = false;
}

/* Nobody has anything to read any more. */
static bool is_over(const struct sim_pipe *pipe)
{
	return pipe->used && pipe->closed && kh_buf_len(&pipe->out) == 0;
}

struct sim_pipe *sim_pipe_new(bool up)
{
	for (size_t i = 0; i < SIM_PIPES; i++)
		if (is_over(&sim_pipes[i]))
			free_pipe(&sim_pipes[i]);
	for (size_t i = 0; i < SIM_PIPES; i++) {
		struct sim_pipe *pipe = &sim_pipes[i];
		if (pipe->used)
			continue;
		*pipe = (struct sim_pipe){ .used = true, .up = up, .given = true, .host = -1 };
		pipe->room = sim_one_in(4) ? LEAST_ROOM + sim_below(4096) : USUAL_ROOM;
		kh_buf_init(&pipe->coming, PIPE_BYTES);
		kh_buf_init(&pipe->in, PIPE_BYTES);
		kh_buf_init(&pipe->out, PIPE_BYTES);
		return pipe;
	}
	return NULL;
}

int sim_pipe_fd(const struct sim_pipe *pipe)
{
	return SIM_FD + (int)(pipe - sim_pipes);
}

void sim_pipe_changed(struct sim_pipe *pipe)
{
	bool before = sim_faults_set(false);

	if (pipe->stream)
		kh_stream_pipe_changed(pipe->stream);
	(void)sim_faults_set(before);
}

void sim_pipe_say(struct sim_pipe *pipe, const void *bytes, size_t len)
{
	if (!pipe->end_coming && !pipe->closed)
		SIM_CHECK(kh_buf_append(&pipe->coming, bytes, len), "a pipe is full");
}

void sim_pipe_end(struct sim_pipe *pipe)
{
	pipe->end_coming = true;
}

void sim_pipe_reset(struct sim_pipe *pipe)
{
	pipe->reset = pipe->end_coming = pipe->ended = pipe->far_gone = true;
	kh_buf_clear(&pipe->coming);
	kh_buf_clear(&pipe->in);
	kh_buf_clear(&pipe->out);
	sim_pipe_changed(pipe);
}

bool sim_pipe_can_deliver(const struct sim_pipe *pipe)
{
	return pipe->used && !pipe->closed && !pipe->reset &&
	       (kh_buf_len(&pipe->coming) > 0 || (pipe->end_coming && !pipe->ended));
}

void sim_pipe_deliver(struct sim_pipe *pipe)
{
	struct kh_slice bytes = kh_buf_view(&pipe->coming);
	size_t n = bytes.len;

	if (n > 1 && sim_one_in(3))
		n = 1 + sim_below(n < 64 || sim_one_in(2) ? n : 64);
	SIM_CHECK(kh_buf_append(&pipe->in, bytes.ptr, n), "a pipe is full");
	kh_buf_consume(&pipe->coming, n);
	if (kh_buf_len(&pipe->coming) == 0 && pipe->end_coming && (n == 0 || sim_one_in(2)))
		pipe->ended = true;
	sim_trace("%s %d: %zu bytes arrive%s", pipe->up ? "up" : "down", (int)(pipe - sim_pipes), n,
		  pipe->ended ? ", and the end" : "");
	sim_pipe_changed(pipe);
}

void sim_pipes_free(void)
{
	for (size_t i = 0; i < SIM_PIPES; i++) {
		if (sim_pipes[i].used)
			free_pipe(&sim_pipes[i]);
	}
}
