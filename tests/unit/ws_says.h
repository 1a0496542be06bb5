/* ws_says.h - frames of a WebSocket, and what they are read as */
#ifndef KEYHOLE_TESTS_WS_SAYS_H
#define KEYHOLE_TESTS_WS_SAYS_H

#include "ws_drive.h"

static struct kh_buf in;

static inline int set_up(void **state)
{
	(void)state;
	kh_buf_init(&in, DRIVE_BYTES);
	return 0;
}

static inline int tear_down(void **state)
{
	(void)state;
	kh_buf_fini(&in);
	return 0;
}

static const enum kh_ws_side sides[] = { KH_WS_MASKED, KH_WS_BARE };

/* What `in` says, from this side; then it is empty. */
static inline void says(enum kh_ws_side side, const char *want)
{
	char *log = drive_ws(side, kh_buf_view(&in));

	assert_string_equal(log, want);
	free(log);
	kh_buf_clear(&in);
}

/* The error alone, whatever came before it. */
static inline void fails(enum kh_ws_side side, unsigned code, const char *text)
{
	char *log = drive_ws(side, kh_buf_view(&in)), *error = strstr(log, "ERROR"), want[160];

	assert_non_null(error);
	snprintf(want, sizeof(want), "ERROR %u %s\n", code, text);
	assert_string_equal(error, want);
	free(log);
	kh_buf_clear(&in);
}

#endif
