/* cleanup.h - cleanup attributes: a function's local resources are released when it returns, unless
 * they are stolen */
#ifndef KEYHOLE_BASE_CLEANUP_H
#define KEYHOLE_BASE_CLEANUP_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define kh_cleanup(fn) __attribute__((cleanup(fn)))
#define kh_auto_free kh_cleanup(kh_cleanup_free)
#define kh_auto_close kh_cleanup(kh_cleanup_close)

static inline void kh_cleanup_free(void *slot)
{
	free(*(void **)slot);
}

/* Closes *fd unless it is -1; keeps errno. */
static inline void kh_cleanup_close(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;
		(void)close(*fd);
		errno = saved;
		*fd = -1;
	}
}

/* Returns the pointer or descriptor and clears the variable, so that its cleanup does nothing. */
static inline void *kh_steal_ptr_impl(void *slot)
{
	void **p = slot, *value = *p;
	*p = NULL;
	return value;
}
#define kh_steal_ptr(slot) kh_steal_ptr_impl((void *)(slot))

static inline int kh_steal_fd(int *slot)
{
	int fd = *slot;
	*slot = -1;
	return fd;
}

/* Defines `<free_fn>_slot(type **)` around `free_fn(type *)`, for kh_cleanup(<free_fn>_slot). */
#define KH_DEFINE_CLEANUP(type, free_fn) \
	static inline void free_fn##_slot(type **slot) \
	{ \
		if (*slot) \
			free_fn(*slot); \
		*slot = NULL; \
	}

#endif
