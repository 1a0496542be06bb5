/* h2_flooded.h - a connection that is fed bytes, and how it ends */
#ifndef KEYHOLE_TESTS_H2_FLOODED_H
#define KEYHOLE_TESTS_H2_FLOODED_H

#include "h2_drive.h"

#define GET ":method=GET|:scheme=https|:authority=a.example|:path=/"

enum { CALM = 11, PROTOCOL = 1, PADDED = 8 };

struct flood {
	struct drive d;
	struct kh_buf raw;
};

static inline void flood_init(struct flood *f)
{
	drive_init(&f->d, KH_H2_SERVER);
	f->d.answers = true;
	raw_begin(&f->raw, KH_H2_SERVER);
}

/* Return: the connection lives. */
static inline bool flood_feed(struct flood *f)
{
	(void)drive_feed(&f->d, kh_buf_view(&f->raw), 4096);
	drive_drain(&f->d);
	kh_buf_clear(&f->raw);
	return !kh_h2_error(f->d.h2);
}

/* Broken, said so, and nothing of it is left over. */
static inline void flood_refused(struct flood *f, unsigned code)
{
	char expected[32];

	assert_false(flood_feed(f));
	snprintf(expected, sizeof(expected), "GOAWAY %u\n", code);
	assert_non_null(strstr(kh_buf_cstr(&f->d.sent), expected));
	assert_int_equal(f->d.counts[KH_H2_ERROR], 1);
	assert_true(kh_h2_is_over(f->d.h2));
	assert_non_null(kh_h2_error(f->d.h2));
	drive_fini(&f->d);
	kh_buf_fini(&f->raw);
}

#endif
