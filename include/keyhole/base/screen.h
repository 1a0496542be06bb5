/* screen.h - makes a terminal readable again after an agent may have written to it */
#ifndef KEYHOLE_BASE_SCREEN_H
#define KEYHOLE_BASE_SCREEN_H

#include <keyhole/base/slice.h>

/* The terminal's width in columns, at least 16. If the terminal does not know it, it is the
 * variable COLUMNS; if that is no number of 1 to 10,000, it is 80. Return: 0: `fd` is no terminal.
 */
size_t kh_screen_columns(int fd);
/* Somebody else may have set the size of a terminal: from now on none counts as wider than 40
 * columns, so that no narrower window breaks our rows for us. */
void kh_screen_doubt_columns(void);
/*
 * The escape sequences that undo every state in which an agent's output can leave a terminal, if
 * that state changes how later text looks: an unfinished sequence, the alternate screen, margins,
 * insert mode, no automatic wrap, colours, character sets, links, and text after the cursor. Keys
 * type what they did: Backspace what `fd`, the terminal, takes for it. The cursor stays. Empty if
 * TERM=dumb, which knows no sequences. Static.
 */
struct kh_slice kh_screen_reset_text(int fd);
/* Writes that text to `fd` if it is a terminal. Never blocks. */
void kh_screen_reset(int fd);
/*
 * Breaks one line into rows before the terminal would, between words where it can; each further
 * row begins with " > ". Tabs
 * become spaces, since the terminal's tab stops may be anywhere. `put` gets the result in pieces.
 */
void kh_screen_fold(struct kh_slice text, size_t columns,
		    void (*put)(void *arg, const char *bytes, size_t len), void *arg);

#endif
