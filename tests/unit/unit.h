/* unit.h - what every unit test includes, in the order that cmocka wants */
#ifndef KEYHOLE_TESTS_UNIT_H
#define KEYHOLE_TESTS_UNIT_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <keyhole/base/slice.h>

/* Bytes of a view against a literal, NULs included. */
#define assert_slice_equal(view, literal) \
	do { \
		struct kh_slice got_ = (view), want_ = KH_SLICE(literal); \
		assert_int_equal(got_.len, want_.len); \
		if (want_.len) \
			assert_memory_equal(got_.ptr, want_.ptr, want_.len); \
	} while (0)

/* How many descriptors are open. */
static inline int count_fds(void)
{
	int n = 0;
	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			n++;
	return n;
}

#endif
