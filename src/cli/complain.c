/* complain.c - error messages of all subcommands, and suggestions for mistyped names */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/log.h>
#include <keyhole/base/slice.h>

#include "cli_internal.h"

void kh_cli_complain(const char *fmt, ...)
{
	char line[1024] = "keyhole: ";
	size_t used = strlen(line);
	va_list args;
	va_start(args, fmt);
	int n = vsnprintf(line + used, sizeof(line) - used - 1, fmt, args);
	va_end(args);
	if (n < 0)
		return;
	used += (size_t)n;
	if (used > sizeof(line) - 2) {
		kh_esc_mark_cut(line);
		used = strlen(line);
	}
	line[used++] = '\n';
	/* Where standard error is shut there is nobody left to tell. */
	kh_log_line(line, used);
}

void kh_cli_complain_err(const struct kh_err *err)
{
	kh_cli_complain("%s", err->text[0] ? err->text : "failed without saying why");
}

enum { NAME_MOST = 64 };

/* Levenshtein's distance, one row at a time; longer words are simply far. */
static size_t distance(const char *a, const char *b)
{
	size_t la = strlen(a), lb = strlen(b);
	if (la >= NAME_MOST || lb >= NAME_MOST)
		return NAME_MOST;
	size_t row[NAME_MOST];
	for (size_t j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t above = row[j];
			size_t best = diagonal + (kh_lower(a[i - 1]) != kh_lower(b[j - 1]));
			if (above + 1 < best)
				best = above + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
			diagonal = above;
		}
	}
	return row[lb];
}

const char *kh_cli_nearest(const char *typed, const char *const *names, size_t n)
{
	const char *best = NULL;
	size_t least = NAME_MOST;
	for (size_t i = 0; i < n; i++) {
		size_t d = distance(typed, names[i]);
		if (d < least) {
			least = d;
			best = names[i];
		}
	}
	/* Further than half of the word is a guess that helps nobody. */
	return best && least <= 1 + strlen(best) / 3 ? best : NULL;
}
