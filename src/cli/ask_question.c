/*
 * ask_question.c - shows a question of `keyhole ask`, so that its host can't be taken for another
 *
 * The agent chose the method and the URL, and may know how wide the terminal is. If the terminal
 * broke a long question, its rows would look like other questions, or the host would end at the
 * edge. So a question that is longer than a row is broken here: each further row begins with " > ",
 * the URL begins in a row of its own, and the last row before the keys has the host once more.
 */
#include "ask_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/cleanup.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/limits.h>
#include <keyhole/base/screen.h>

#define ONWARD " > "
#define HOST "  host: "

enum { ROOM = 4 * KH_LIMIT_QUESTION_BYTES + 64, USUAL = 80, KEYS_BYTES = 128 };

/* The daemon writes visible ASCII only. Whoever sits in its place may not. */
static bool make_visible(const char *text, struct kh_buf *out)
{
	bool ok = true;
	for (const char *c = text; ok && *c; c++)
		ok = *c >= ' ' && *c <= '~'
			     ? kh_buf_append_char(out, *c)
			     : kh_buf_printf(out, "\\x%c%c", kh_hex_digits[(unsigned char)*c >> 4],
					     kh_hex_digits[*c & 15]);
	return ok;
}

static void put(void *arg, const char *bytes, size_t len)
{
	(void)arg;
	(void)fwrite(bytes, 1, len, stdout);
}

void kh_ask_question_put(const char *text)
{
	struct kh_buf visible kh_cleanup(kh_buf_fini);
	kh_buf_init(&visible, ROOM);
	if (make_visible(text, &visible))
		put(NULL, kh_buf_view(&visible).ptr, kh_buf_len(&visible));
}

/* Its end if there is no room for all of it: who a name belongs to is at its end. */
static void put_host(struct kh_slice url, size_t columns)
{
	size_t scheme = 0;
	while (scheme < url.len &&
	       !kh_slice_has_prefix(kh_slice_sub(url, scheme, url.len), KH_SLICE("://")))
		scheme++;
	struct kh_slice host = kh_slice_sub(url, scheme + 3, url.len);
	size_t len = 0, room = columns - strlen(HOST);
	while (len < host.len && !memchr("/?#", host.ptr[len], 3))
		len++;
	host = kh_slice_sub(host, 0, len);
	bool cut = host.len > room;
	if (cut)
		host = kh_slice_sub(host, host.len - (room - 3), host.len);
	if (host.len > 0)
		(void)printf("\n" HOST "%s%.*s", cut ? "..." : "", (int)host.len, host.ptr);
}

void kh_ask_question_show(unsigned id, const char *request, const char *keys)
{
	struct kh_buf visible kh_cleanup(kh_buf_fini);
	size_t columns = kh_screen_columns(STDOUT_FILENO);
	kh_buf_init(&visible, ROOM);
	if ((id && !kh_buf_printf(&visible, "%u ", id)) || !make_visible(request, &visible))
		return;
	struct kh_slice all = kh_buf_view(&visible);
	size_t url = all.len; /* a method has no blank */
	while (url > 0 && all.ptr[url - 1] != ' ')
		url--;
	if (columns == 0 || all.len + strlen(keys) <= columns) {
		(void)printf("%.*s%s\n", (int)all.len, all.ptr, keys);
		return;
	}
	if (all.len <= columns) {
		put(NULL, all.ptr, all.len);
	} else {
		kh_screen_fold(kh_slice_sub(all, 0, url), columns, put, NULL);
		(void)fputs("\n" ONWARD, stdout);
		kh_screen_fold(kh_slice_sub(all, url, all.len), columns - strlen(ONWARD), put,
			       NULL);
		put_host(kh_slice_sub(all, url, all.len), columns);
	}
	if (*keys)
		(void)fputs("\n" ONWARD, stdout);
	kh_screen_fold(kh_slice_str(keys), columns - strlen(ONWARD), put, NULL);
	(void)putchar('\n');
}

void kh_ask_question_keys(unsigned seconds, size_t more)
{
	char text[KEYS_BYTES], others[32] = "";
	size_t columns = kh_screen_columns(STDOUT_FILENO);
	columns = columns ? columns : USUAL;
	if (more > 0)
		(void)snprintf(others, sizeof(others), ", %zu more", more);
	(void)snprintf(text, sizeof(text),
		       "  y: once  r: for this run, any query  n: no (or Enter)   %2us left%s",
		       seconds, others);
	/* A row that the terminal breaks would not be overwritten by the next one, and what is
	 * asked would be gone from the screen. */
	if (strlen(text) >= columns)
		(void)snprintf(text, sizeof(text), "  y/r/n  %2us", seconds);
	(void)printf("\r%s\x1b[K", text);
}
