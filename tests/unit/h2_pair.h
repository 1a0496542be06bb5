/* h2_pair.h - both sides of an HTTP/2 connection, and what each hears of the other */
#ifndef KEYHOLE_TESTS_H2_PAIR_H
#define KEYHOLE_TESTS_H2_PAIR_H

#include "h2_drive.h"

struct pair {
	struct drive up; /* the client */
	struct drive down;
	struct kh_h2_stream *request;
};

static inline void pair_init(struct pair *p)
{
	drive_init(&p->up, KH_H2_CLIENT);
	drive_init(&p->down, KH_H2_SERVER);
	p->request = NULL;
}

/* One way; by frames or less, so that nothing depends on how it is cut. */
static inline bool carry(struct drive *from, struct drive *to, size_t piece)
{
	(void)kh_h2_drain(from->h2, &from->out);
	struct kh_slice bytes = kh_buf_view(&from->out);
	bool any = bytes.len > 0;

	while (bytes.len > 0) {
		struct kh_slice part = kh_slice_sub(bytes, 0, piece);

		(void)kh_h2_feed(to->h2, part, to->now_ms);
		bytes = kh_slice_sub(bytes, part.len, bytes.len);
	}
	kh_buf_consume(&from->out, kh_buf_len(&from->out));
	return any;
}

static inline void talk(struct pair *p)
{
	for (int i = 0; i < 1000; i++) {
		bool any = carry(&p->up, &p->down, 1000);

		any |= carry(&p->down, &p->up, 77);
		if (!any)
			return;
	}
	fail_msg("they never stop");
}

static inline void pair_fini(struct pair *p)
{
	if (p->request)
		kh_h2_release(p->request);
	drive_fini(&p->up);
	drive_fini(&p->down);
}

static inline void ask(struct pair *p, const char *method, const struct kh_field *fields, size_t n,
		       bool end)
{
	const struct kh_h2_request request = { .method = kh_slice_str(method),
					       .scheme = KH_SLICE("https"),
					       .authority = KH_SLICE("a.example"),
					       .path = KH_SLICE("/") };

	p->request = kh_h2_put_request(p->up.h2, &request, fields, n, 0, end);
	assert_non_null(p->request);
	talk(p);
}

#endif
