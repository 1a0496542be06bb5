/* complain.c - error messages of all subcommands, and suggestions for mistyped names */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>
#include <keyhole/base/nearest.h>

#include "cli_internal.h"

static void complain(void (*put)(const char *line, size_t len), const char *fmt, va_list args)
{
	char line[1024] = "keyhole: ";
	size_t used = strlen(line);
	int n = vsnprintf(line + used, sizeof(line) - used - 1, fmt, args);
	if (n < 0)
		return;
	used += (size_t)n;
	if (used > sizeof(line) - 2) {
		kh_esc_mark_cut(line);
		used = strlen(line);
	}
	line[used++] = '\n';
	/* Where standard error is shut there is nobody left to tell. */
	put(line, used);
}

void kh_cli_complain(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	complain(kh_log_line, fmt, args);
	va_end(args);
}

void kh_cli_complain_whole(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	complain(kh_log_line_whole, fmt, args);
	va_end(args);
}

void kh_cli_complain_err(const struct kh_err *err)
{
	kh_cli_complain("%s", err->text[0] ? err->text : "failed without saying why");
}

const char *kh_cli_nearest(const char *typed, const char *const *names, size_t n)
{
	struct kh_nearest nearest;
	kh_nearest_init(&nearest, kh_slice_str(typed));
	for (size_t i = 0; i < n; i++)
		kh_nearest_offer(&nearest, names[i]);
	return nearest.best;
}
