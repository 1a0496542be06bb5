/* audit_time.h - times of --since and --until */
#ifndef KEYHOLE_CLI_AUDIT_TIME_H
#define KEYHOLE_CLI_AUDIT_TIME_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A time (RFC 3339; also without an offset, which means UTC, or a day alone, which means its
 * beginning), or a duration before `now_ms`: "10m", "1h30m", "3d". *ms: since the epoch, in whole
 * seconds; 0: before the epoch. Return: false: an error was printed in the name of `command`.
 */
bool kh_audit_time(const char *command, const char *option, const char *text, uint64_t now_ms,
		   uint64_t *ms);

#endif
