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

#define kh_log_error(...) kh_log(KH_LOG_ERROR, __VA_ARGS__)
#define kh_log_warn(...) kh_log(KH_LOG_WARN, __VA_ARGS__)
#define kh_log_info(...) kh_log(KH_LOG_INFO, __VA_ARGS__)
#define kh_log_debug(...) \
	do { \
		if (kh_log_get_level() >= KH_LOG_DEBUG) \
			kh_log(KH_LOG_DEBUG, __VA_ARGS__); \
	} while (0)

#endif
