/* log.c - one line, one write, to standard error */
#include <keyhole/base/log.h>

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include <keyhole/base/escape.h>

/* Room for an error's text with context in front; what is longer is cut with a mark. */
enum { LINE_BYTES = 1024 };

static atomic_int lowest = KH_LOG_INFO;
static _Atomic(const char *) who = NULL;

static const char *const names[] = {
	[KH_LOG_ERROR] = "error",
	[KH_LOG_WARN] = "warn",
	[KH_LOG_INFO] = "info",
	[KH_LOG_DEBUG] = "debug",
};
enum { N_LEVELS = sizeof(names) / sizeof(names[0]) };

void kh_log_set_level(enum kh_log_level level)
{
	atomic_store_explicit(&lowest, (int)level, memory_order_relaxed);
}

enum kh_log_level kh_log_get_level(void)
{
	return (enum kh_log_level)atomic_load_explicit(&lowest, memory_order_relaxed);
}

bool kh_log_level_parse(struct kh_slice name, enum kh_log_level *out)
{
	for (unsigned i = 0; i < N_LEVELS; i++) {
		if (kh_slice_eq(name, kh_slice_str(names[i]))) {
			*out = (enum kh_log_level)i;
			return true;
		}
	}
	return false;
}

void kh_log_set_role(const char *role)
{
	atomic_store_explicit(&who, role, memory_order_release);
}

/* How much of vsnprintf's answer is there. */
static size_t written(int need, size_t room)
{
	if (need < 0)
		return 0;
	return (size_t)need < room ? (size_t)need : room - 1;
}

void kh_log(enum kh_log_level level, const char *fmt, ...)
{
	if (level > kh_log_get_level() || (unsigned)level >= N_LEVELS)
		return;
	int saved = errno;
	char line[LINE_BYTES];
	const char *role = atomic_load_explicit(&who, memory_order_acquire);
	size_t len = written(snprintf(line, sizeof(line), "keyhole: %s%s%s: ", role ? role : "",
				      role ? ": " : "", names[level]),
			     sizeof(line));
	va_list args;
	va_start(args, fmt);
	int need = vsnprintf(line + len, sizeof(line) - len, fmt, args);
	va_end(args);
	bool cut = need >= 0 && (size_t)need >= sizeof(line) - len;
	len += written(need, sizeof(line) - len);
	line[len] = 0;
	kh_esc_clean(line);
	if (cut)
		memcpy(line + len - 3, "...", 3);
	line[len++] = '\n'; /* over the NUL: there is always that place */
	ssize_t ignored = write(STDERR_FILENO, line, len);
	(void)ignored;
	errno = saved;
}
