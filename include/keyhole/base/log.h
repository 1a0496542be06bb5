/* log.h - what the operator reads; the audit (audit.h) is another thing */
#ifndef KEYHOLE_BASE_LOG_H
#define KEYHOLE_BASE_LOG_H

#include <keyhole/base/slice.h>

enum kh_log_level { KH_LOG_ERROR = 0, KH_LOG_WARN, KH_LOG_INFO, KH_LOG_DEBUG };

/* The lowest level that is written; KH_LOG_INFO until set. */
void kh_log_set_level(enum kh_log_level level);
enum kh_log_level kh_log_get_level(void);
/* "error" "warn" "info" "debug". Return: false for any other name. */
bool kh_log_level_parse(struct kh_slice name, enum kh_log_level *out);
/* The word in front of each line ("keeper", "worker"); a pointer that lasts. */
void kh_log_set_role(const char *role);
/*
 * One write(2) to standard error, one line: `keyhole: role: level: text`. Hostile bytes pass kh_esc
 * first; a secret never comes here. Errors of the write are ignored.
 */
void kh_log(enum kh_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * From here on no line is written but kept, until kh_log_release has been called as often: nobody
 * has to read for us to go on (a lock that others wait for, work that must be done whatever becomes
 * of a terminal). Lines beyond KH_LIMIT_LOG_HELD_BYTES are counted, and the count is said. A child
 * that is forked meanwhile writes at once. For programs of one thread.
 */
void kh_log_hold(void);
void kh_log_release(void);
/* However often it has been held. */
void kh_log_release_all(void);
/* An agent wrote to the terminal: it is set back (screen.h) before the next line that goes to it.
 */
void kh_log_reset_screen(void);
/* From here on a line that is longer than the terminal is wide is broken into rows (screen.h), so
 * that a name in it begins no row. For processes that may ask what standard error is. */
void kh_log_fold(void);
/* A whole line as it is, in the order of the others. */
void kh_log_line(const char *line, size_t len);

#define kh_log_error(...) kh_log(KH_LOG_ERROR, __VA_ARGS__)
#define kh_log_warn(...) kh_log(KH_LOG_WARN, __VA_ARGS__)
#define kh_log_info(...) kh_log(KH_LOG_INFO, __VA_ARGS__)
#define kh_log_debug(...) \
	do { \
		if (kh_log_get_level() >= KH_LOG_DEBUG) \
			kh_log(KH_LOG_DEBUG, __VA_ARGS__); \
	} while (0)

#endif
