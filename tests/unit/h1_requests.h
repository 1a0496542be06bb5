/* h1_requests.h - requests in a line, for the codec */
#ifndef KEYHOLE_TESTS_H1_REQUESTS_H
#define KEYHOLE_TESTS_H1_REQUESTS_H

#include "h1_drive.h"

#define H "Host: a.example\r\n"
#define HOST_LOG "  Host=a.example\n"

static inline void reads(const char *bytes, const char *expected)
{
	drive_expect(KH_H1_REQUESTS, NULL, kh_slice_str(bytes), false, expected);
}

#define refuses(code, bytes) drive_refused(KH_H1_REQUESTS, NULL, KH_SLICE(bytes), KH_ERR_##code)

#endif
