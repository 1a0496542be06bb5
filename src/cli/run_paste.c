/*
 * run_paste.c - prints words to paste, on a terminal that may be too narrow for them
 *
 * They are one line, which the terminal breaks where its edge is, so that it can be copied as one.
 * They have no blank that the sandbox chose, so a row that begins within them is no sentence. But a
 * host that is broken reads as another host: a sandbox chooses how long the methods in front of it
 * are. So where the host would not fit into the row, the line is broken before it as a shell has it
 * ('…'\ and a newline), which may be pasted as well.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/log.h>
#include <keyhole/base/screen.h>
#include <keyhole/base/slice.h>

#include "run_internal.h"

enum { ROW_BYTES = 1024, MARKS = 3 /* the quotes and the backslash of a row that goes on */ };

/* Where the URL begins that is in single quotes, and where its host ends. */
static const char *find_url(const char *words, const char **host_end)
{
	const char *scheme = strstr(words, "://"), *quote = strchr(words, '\'');
	if (!scheme || !quote || quote > scheme)
		return NULL;
	const char *url = scheme;
	while (url > quote + 1 && url[-1] != ' ')
		url--;
	*host_end = scheme + 3 + strcspn(scheme + 3, "/'");
	return url;
}

static void print_row(const char *row)
{
	kh_log_line_whole(row, strlen(row));
}

void kh_run_paste_print(const char *before, const char *words)
{
	static const char name[] = "keyhole: ";
	const char *host_end = NULL, *url = find_url(words, &host_end);
	size_t columns = kh_screen_columns(STDERR_FILENO), begun = strlen(name) + strlen(before);
	char row[ROW_BYTES];
	if (columns == 0 || !url || begun + (size_t)(host_end - words) <= columns) {
		kh_cli_complain_whole("%s%s", before, words);
		return;
	}
	bool after_quote = url[-1] == '\'';
	kh_cli_complain_whole("%s%.*s%s\\", before, (int)(url - words) - after_quote, words,
			      after_quote ? "" : "'");
	/* One that no row has room for goes on in the next, with marks at both ends. */
	for (; (size_t)(host_end - url) + 1 > columns; url += columns - MARKS) {
		(void)snprintf(row, sizeof(row), "'%.*s'\\\n", (int)(columns - MARKS), url);
		print_row(row);
	}
	(void)snprintf(row, sizeof(row), "'%s\n", url);
	print_row(row);
}
