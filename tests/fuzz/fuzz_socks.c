/*
 * fuzz_socks.c - SOCKS5 as a sandbox may speak it
 *
 * The first byte says whether a password is asked for, whether it holds, and in what pieces the
 * rest comes. All at once and in pieces give the same; a target is a host that its own parser takes
 * for itself; nothing is answered but whole messages.
 */
#include <stdlib.h>
#include <string.h>

#include <downstream/socks.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

struct outcome {
	enum kh_socks_event last;
	struct kh_authority target;
	size_t taken;
	struct kh_buf out;
};

static void check_target(const struct kh_authority *target)
{
	struct kh_host again;

	require(target->port != 0 && target->host.kind != KH_HOST_NONE);
	require(strlen(target->host.text) == target->host.len);
	require(kh_host_parse(&again, kh_host_view(&target->host), NULL));
	require(kh_host_eq(&again, &target->host));
}

/* `piece`: how many bytes more are seen at a time. */
static void run(struct outcome *o, bool password, bool holds, const uint8_t *data, size_t size,
		size_t piece)
{
	struct kh_socks socks = { .with_password = password };
	size_t seen = 0;

	*o = (struct outcome){ .last = KH_SOCKS_NEED_MORE };
	kh_buf_init(&o->out, 256);
	for (;;) {
		struct kh_err err = KH_ERR_INIT;
		struct kh_slice in = kh_slice_of(data + o->taken, seen - o->taken);
		size_t before = in.len;
		o->last = kh_socks_feed(&socks, &in, &o->out, &err);
		require(in.len <= before && in.ptr + in.len == (const char *)data + seen);
		require((o->last == KH_SOCKS_ERROR) == (err.code != KH_ERR_NONE));
		require(o->last != KH_SOCKS_NEED_MORE || in.len == before);
		o->taken += before - in.len;
		if (o->last == KH_SOCKS_LOGIN) {
			require(password && socks.user.len < 256 && socks.password.len < 256);
			require(kh_socks_login(&socks, holds, &o->out));
			if (!holds)
				break;
		}
		if (o->last == KH_SOCKS_REQUEST || o->last == KH_SOCKS_ERROR)
			break;
		if (o->last == KH_SOCKS_NEED_MORE) {
			if (seen == size)
				break;
			seen = size - seen < piece ? size : seen + piece;
		}
	}
	if (o->last == KH_SOCKS_REQUEST) {
		o->target = socks.target;
		check_target(&o->target);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole, pieces;

	if (size == 0)
		return 0;
	bool password = data[0] & 1, holds = data[0] & 2;
	run(&whole, password, holds, data + 1, size - 1, size);
	run(&pieces, password, holds, data + 1, size - 1, 1 + (size_t)(data[0] >> 2));
	require(whole.last == pieces.last || whole.last == KH_SOCKS_ERROR);
	require(whole.last != KH_SOCKS_REQUEST ||
		(whole.taken == pieces.taken && kh_authority_eq(&whole.target, &pieces.target)));
	require(kh_slice_eq(kh_buf_view(&whole.out), kh_buf_view(&pieces.out)));
	kh_buf_fini(&whole.out);
	kh_buf_fini(&pieces.out);
	return 0;
}
