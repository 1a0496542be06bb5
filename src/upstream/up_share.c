/*
 * up_share.c - what comes from an upstream is work of the sandbox that it is for
 *
 * A server can make small pieces of an answer, and a sandbox may have thousands of connections to
 * it. So what is read is charged to the sandbox's share of the turn (work_share.h). When that is
 * spent, the connection is not read, and waits in line with the sandbox's other connections.
 *
 * So is the CPU time of a handshake with the server, which chooses what it costs. Each step waits
 * until the sandbox has some of its share left.
 *
 * A server may also send on a connection that is kept and that nobody uses. What comes on all of
 * these together is one share of the turn. Who begins to use one of them leaves their line.
 *
 * Nothing that was read over HTTP/1 is left over: only the next read waits. The codec of HTTP/2
 * stops in the middle.
 */

#include "upstream_internal.h"

/* All users of an HTTP/2 connection are of one sandbox. */
struct kh_work_share *kh_up_share(const struct kh_up *up)
{
	const struct kh_up_user *user = up->only.user;

	if (up->mux)
		user = kh_list_is_empty(&up->mux->streams)
			       ? NULL
			       : kh_container_of(up->mux->streams.next, struct kh_up_h2, link)
					 ->stream.user;
	if (!user && up->mux)
		return &up->loop->ups->of_nobody;
	return user ? user->work : NULL;
}

size_t kh_up_may_do(struct kh_up *up)
{
	struct kh_work_share *share = kh_up_share(up);

	if (kh_up_is_in_line(up))
		return 0;
	if (!share)
		return KH_LIMIT_WORK_SHARE;
	size_t left = kh_work_share_left(share);
	if (left == 0)
		kh_work_share_wait(share, &up->line);
	return left;
}

void kh_up_mux_go_on_later(struct kh_up *up)
{
	struct kh_work_share *share = kh_up_share(up);

	if (share)
		kh_work_share_wait(share, &up->line);
	else
		kh_loop_call(up->loop, KH_LOOP_NEXT, &up->mux->next);
}

void kh_up_on_line(struct kh_work_place *line)
{
	struct kh_up *up = kh_container_of(line, struct kh_up, line);

	if (up->state == KH_UP_HANDSHAKE)
		kh_stream_go_on(up->leg.stream);
	else if (up->mux)
		kh_up_mux_go_on(up);
	else
		kh_up_on_stream(up->leg.stream, KH_STREAM_READABLE, up);
}

/* ---- handshakes ---- */

/* What is read after the handshake asks for itself. */
static bool may_read(void *arg)
{
	struct kh_up *up = arg;

	return up->state != KH_UP_HANDSHAKE || kh_up_may_do(up) > 0;
}

static void did_compute(void *arg, uint64_t cpu_ns)
{
	const struct kh_up *up = arg;
	struct kh_work_share *share = up->state == KH_UP_HANDSHAKE ? kh_up_share(up) : NULL;

	if (share)
		kh_work_share_charge(share,
				     KH_LIMIT_WORK_PER_READ + (size_t)(cpu_ns / KH_LIMIT_WORK_NS));
}

void kh_up_charge_handshake(struct kh_up *up)
{
	static const struct kh_stream_gate gate = { .may_read = may_read,
						    .did_compute = did_compute };

	kh_stream_set_gate(up->leg.stream, &gate);
}

void kh_up_leave_line(struct kh_up *up)
{
	if (!kh_up_is_in_line(up))
		return;
	kh_work_place_leave(&up->line);
	kh_up_mux_go_on_later(up);
}

void kh_up_wait_anew(struct kh_up *up)
{
	struct kh_work_share *share = kh_up_share(up);

	if (share)
		kh_work_share_wait(share, &up->line);
}
