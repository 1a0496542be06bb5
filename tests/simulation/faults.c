/* faults.c - what keyhole asks of the system fails when it is told to */
/* wrap: malloc calloc realloc reallocarray aligned_alloc strdup mmap kh_log */

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <keyhole/base/log.h>

#include "simulation.h"

struct sim_fault_plan sim_faults[SIM_FAULTS];
static bool is_on;

bool sim_fails(enum sim_fault what)
{
	struct sim_fault_plan *plan = &sim_faults[what];

	if (!is_on || ++plan->asked != plan->fails_at)
		return false;
	plan->failed = true;
	sim_trace("fails: %s", what == SIM_FAULT_ALLOCATION ? "an allocation"
			       : what == SIM_FAULT_CALL	    ? "a system call"
							    : "the journal");
	return true;
}

bool sim_faults_set(bool on)
{
	bool before = is_on;

	is_on = on;
	return before;
}

void sim_fault_arm(enum sim_fault what, uint64_t n)
{
	sim_faults[what].fails_at = sim_faults[what].asked + n;
	sim_faults[what].failed = false;
}

void sim_faults_reset(void)
{
	memset(sim_faults, 0, sizeof(sim_faults));
}

static bool no_memory(void)
{
	if (!sim_fails(SIM_FAULT_ALLOCATION))
		return false;
	errno = ENOMEM;
	return true;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	return no_memory() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
	return no_memory() ? NULL : __real_calloc(n, size);
}

void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size)
{
	return no_memory() ? NULL : __real_realloc(at, size);
}

void *__real_reallocarray(void *at, size_t n, size_t size);
void *__wrap_reallocarray(void *at, size_t n, size_t size);
void *__wrap_reallocarray(void *at, size_t n, size_t size)
{
	return no_memory() ? NULL : __real_reallocarray(at, n, size);
}

void *__real_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return no_memory() ? NULL : __real_aligned_alloc(align, size);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
	return no_memory() ? NULL : __real_strdup(text);
}

void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (sim_fails(SIM_FAULT_CALL)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(at, len, prot, flags, fd, offset);
}

/* The operator's log is a part of the trace. */
void __wrap_kh_log(enum kh_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void __wrap_kh_log(enum kh_log_level level, const char *fmt, ...)
{
	char text[600];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	sim_trace("log %d: %s", (int)level, text);
}
