/* log.h - the operator's log, on standard error; the audit is separate (audit.h) */
#ifndef KEYHOLE_BASE_LOG_H
#define KEYHOLE_BASE_LOG_H

#include <keyhole/base/slice.h>

enum kh_log_level { KH_LOG_ERROR = 0, KH_LOG_WARN, KH_LOG_INFO, KH_LOG_DEBUG };

/* The least severe level that is written; KH_LOG_INFO until set. */
void kh_log_set_level(enum kh_log_level level);
enum kh_log_level kh_log_get_level(void);
/* "error" "warn" "info" "debug". Return: false for any other name. */
bool kh_log_level_parse(struct kh_slice name, enum kh_log_level *out);
/* The role at the start of each line ("keeper", "worker"). The pointer is kept, so the text must
 * live as long as the process. */
void kh_log_set_role(const char *role);
/*
 * Writes one line with one write(2) to standard error: `keyhole: role: level: text`. The caller
 * passes bytes of others through kh_esc first, and never a secret. A line over 1 KiB is cut. Errors
 * of the write are ignored; errno is kept.
 */
void kh_log(enum kh_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * From now on lines are kept in memory, until kh_log_release was called as often. For code that
 * must not wait for a reader of standard error (it holds a lock that others wait for, or does work
 * that must be done even if the terminal is stopped). Lines beyond KH_LIMIT_LOG_HELD_BYTES are
 * dropped, and their number is logged. A child that is forked meanwhile writes at once. For
 * single-threaded programs.
 */
void kh_log_hold(void);
void kh_log_release(void);
/* Releases, however often it was held. */
void kh_log_release_all(void);
/* An agent may have written to the terminal: reset it (screen.h) before the next line. */
void kh_log_reset_screen(void);
/* From now on lines longer than the terminal is wide are broken into rows (screen.h), so that text
 * of an agent can't look like the start of a line. For processes that may ask whether standard
 * error is a terminal. */
void kh_log_fold(void);
/* Writes one line, which ends in a newline, as it is and in order with the others. */
void kh_log_line(const char *line, size_t len);
/* The same, but the line is never broken into rows: the terminal wraps it, so that it can be copied
 * as one. For text in which an agent can't have chosen a blank: what it chose then begins a row,
 * but reads as no sentence. */
void kh_log_line_whole(const char *line, size_t len);

#define kh_log_error(...) kh_log(KH_LOG_ERROR, __VA_ARGS__)
#define kh_log_warn(...) kh_log(KH_LOG_WARN, __VA_ARGS__)
#define kh_log_info(...) kh_log(KH_LOG_INFO, __VA_ARGS__)
#define kh_log_debug(...) \
	do { \
		if (kh_log_get_level() >= KH_LOG_DEBUG) \
			kh_log(KH_LOG_DEBUG, __VA_ARGS__); \
	} while (0)

#endif
