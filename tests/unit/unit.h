/* unit.h - what every unit test includes, in the order that cmocka wants */
#ifndef KEYHOLE_TESTS_UNIT_H
#define KEYHOLE_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <keyhole/slice.h>

/* Bytes of a view against a literal, NULs included. */
#define assert_slice_equal(view, literal) \
	do { \
		struct kh_slice got_ = (view), want_ = KH_SLICE(literal); \
		assert_int_equal(got_.len, want_.len); \
		if (want_.len) \
			assert_memory_equal(got_.ptr, want_.ptr, want_.len); \
	} while (0)

#endif
