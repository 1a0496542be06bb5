/*
 * screen.c - makes a terminal readable again after an agent may have written to it
 *
 * Restoring the terminal's modes (termios) is not enough. The terminal emulator has a state of its
 * own, which escape sequences change. So that state is reset before keyhole writes its own lines.
 * The palette is not reset: the same sequences may have set the user's theme, which would be lost.
 * So if an agent made the default colour invisible, keyhole's lines can't be seen, and neither can
 * the shell's prompt.
 */
#include <keyhole/base/screen.h>

#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/escape.h>

enum { NARROW = 16, DOUBTED = 40, USUAL = 80, WIDEST = 10000, TABULATOR = 8 };
static const char onward[] = "\n > ";

/* A serial line has no size of its own, nor have the terminals of some CI systems. */
static size_t columns_of_variable(void)
{
	const char *text = getenv("COLUMNS");
	uint64_t columns;
	bool known = text && kh_slice_to_u64(kh_slice_str(text), &columns) && columns > 0 &&
		     columns <= WIDEST;
	return known ? (size_t)columns : USUAL;
}

static bool doubts_columns;

void kh_screen_doubt_columns(void)
{
	doubts_columns = true;
}

size_t kh_screen_columns(int fd)
{
	struct winsize size = { 0 };
	if (!isatty(fd))
		return 0;
	bool known = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
	size_t columns = known ? size.ws_col : columns_of_variable();
	if (doubts_columns && columns > DOUBTED)
		columns = DOUBTED;
	return columns < NARROW ? NARROW : columns;
}

/* ---- the state of the emulator ---- */

/*
 * ?1047l moves no cursor, unlike ?1049l where the alternate screen is not shown. DECSTBM moves it
 * to the corner, so it is saved and restored around that; with it come attributes and wrap as they
 * were, so these are set afterwards. LNM, KAM: else Enter would be two characters, or no key one.
 * A VT52 knows nothing of all that, so it is left first. A terminal that passes on to a printer
 * what it gets does nothing else with it but end that (MC), so this comes next. What ESC V guards
 * no ESC[J erases, until DECSCA takes its place. What a mouse, the window or a theme would type is
 * for whoever asked for it.
 *
 * Each screen has keyboard flags of its own (kitty's protocol), so these are set back on both sides
 * of ?1047l: all that were kept go, then those that are in force. XTMODKEYS is set back as a whole,
 * and by its number for who knows only that. A terminal that ignores the > reads the two as SGR,
 * which is set back after them.
 *
 * Older consoles of Linux show what a DCS holds. So that of DECUDK comes before ESC 8: ESC[J then
 * erases it. Some terminals save an open link with the cursor, so the link is closed after ESC 8.
 */
static const char reset[] =
	"\x18\x1b\\"	    /* CAN, ST: what was not finished */
	"\x1b<"		    /* from a VT52's sequences to ours */
	"\x1b[4i\x1b[?4i"   /* MC: nothing goes to a printer */
	"\x1b[0$}\x1b[0$~"  /* the screen and not the status line; none */
	"\x1b[0\"q"	    /* DECSCA: nothing is guarded */
	"\x1b[?2026l"	    /* show what is written at once */
	"\x1b[<99u\x1b[=0u" /* kitty's keyboard flags */
	"\x1b[?1047l"	    /* the main screen */
	"\x1b[<99u\x1b[=0u"
	"\x1b"
	"7\x1bP0;1|\x1b\\" /* DECUDK: no key has a text of its own */
	"\x1b[?69l\x1b[r\x1b"
	"8"			    /* no margins */
	"\x1b[2l\x1b[4l\x1b[20l"    /* KAM, IRM, LNM */
	"\x1b[?5l\x1b[?7h\x1b[?25h" /* DECSCNM: not inverted; wrap; show the cursor */
	"\x1b[?1l\x1b>"		    /* DECCKM, DECKPNM: what the arrows and the keypad type */
	/* mouse, focus, pasting */
	"\x1b[?9;1000;1001;1002;1003;1004;1005;1006;1015;1016;2004l"
	/* a theme that changes, a window that does; keys as Windows has them */
	"\x1b[?2031l\x1b[?2048l\x1b[?9001l"
	"\x1b[>m\x1b[>4m"	       /* XTMODKEYS: modifyOtherKeys and its like */
	"\x1b[?5W"		       /* a tabulator stop every 8 columns */
	"\x1b[m\x1b(B\x0f\x1b%G"       /* attributes; ASCII, in G0; UTF-8 */
	"\x1b]8;;\x1b\\\x1b]22;\x1b\\" /* no link; the usual pointer */
	"\x1b]7;\x1b\\"		       /* no current folder: where a new window would begin */
	"\x1b[?67l"		       /* DECBKM: the key of Backspace types DEL */
	"\x1b#5\x1b[J"		       /* single width; nothing after the cursor */
	"\x1b[?67h";		       /* it types BS: only where that is what erases */

enum { ONLY_WITH_BS = 6 };

static bool bs_erases(int fd)
{
	struct termios modes;

	return tcgetattr(fd, &modes) == 0 && modes.c_cc[VERASE] == '\b';
}

struct kh_slice kh_screen_reset_text(int fd)
{
	const char *term = getenv("TERM");
	bool dumb = term && strcmp(term, "dumb") == 0;
	size_t len = sizeof(reset) - 1 - (bs_erases(fd) ? 0 : ONLY_WITH_BS);

	return dumb ? (struct kh_slice){ 0 } : kh_slice_of(reset, len);
}

/* By an open file of our own, since others who have the caller's would have its flags as well;
 * another user's terminal can't be opened. */
void kh_screen_reset(int fd)
{
	struct kh_slice text = kh_screen_reset_text(fd);
	char path[32];
	if (text.len == 0 || !isatty(fd))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	kh_auto_close int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	if (own >= 0 || poll(&p, 1, 0) > 0)
		(void)!write(own >= 0 ? own : fd, text.ptr, text.len);
}

/* ---- rows ---- */

/* Not less than a terminal takes for it. */
static size_t column_after(size_t column, uint32_t c)
{
	return c == '\t' ? (column / TABULATOR + 1) * TABULATOR : column + (c < 0x80 ? 1 : 2);
}

/* Where the row that begins with `text` ends: after the last blank between words that fits, else
 * after the last character that does. What stands between backquotes is a command, and counts as
 * one word.
 */
static size_t row_end(struct kh_slice text, size_t column, size_t columns)
{
	bool quoted = false, begun = false;
	size_t blank = 0, at = 0;
	while (at < text.len) {
		uint32_t c = 0;
		size_t len =
			kh_utf8_decode((const unsigned char *)text.ptr + at, text.len - at, &c);
		column = column_after(column, c);
		if (column > columns)
			return blank ? blank : at;
		at += len ? len : 1;
		if (c == ' ' && begun && !quoted)
			blank = at;
		quoted = quoted != (c == '`');
		begun = begun || (c != ' ' && c != '\t');
	}
	return at;
}

void kh_screen_fold(struct kh_slice text, size_t columns,
		    void (*put)(void *arg, const char *bytes, size_t len), void *arg)
{
	static const char blank[TABULATOR + 1] = "        ";
	for (size_t column = 0; text.len > 0; column = sizeof(onward) - 2) {
		size_t end = row_end(text, column, columns);
		for (size_t at = 0; at < end;) {
			uint32_t c = 0;
			size_t len = kh_utf8_decode((const unsigned char *)text.ptr + at,
						    text.len - at, &c);
			len = len ? len : 1;
			size_t after = column_after(column, c);
			if (c == '\t')
				put(arg, blank, after - column);
			else
				put(arg, text.ptr + at, len);
			column = after;
			at += len;
		}
		if (end < text.len)
			put(arg, onward, sizeof(onward) - 1);
		text = kh_slice_sub(text, end, text.len);
	}
}
