/* screen.h - a terminal that somebody reads, after an agent may have written to it */
#ifndef KEYHOLE_BASE_SCREEN_H
#define KEYHOLE_BASE_SCREEN_H

#include <keyhole/base/slice.h>

/* How wide the terminal is, at least 16. Return: 0 where the descriptor is no terminal. */
size_t kh_screen_columns(int fd);
/*
 * What ends each state that bytes of an agent can leave in a terminal and that changes how later
 * text looks: an unfinished sequence, the alternate screen, margins, insertion, no automatic wrap,
 * colours, character sets, and what stands on the screen after the cursor. The cursor stays where
 * it is. Empty under TERM=dumb, which knows no sequences.
 */
struct kh_slice kh_screen_reset_text(void);
/* Writes that to a terminal, or nothing where that is none. Never waits. */
void kh_screen_reset(int fd);
/*
 * One line, broken into rows before the terminal breaks it: each further row begins with " > ".
 * Tabulators become spaces, since the terminal's own stops may be anywhere.
 */
void kh_screen_fold(struct kh_slice text, size_t columns,
		    void (*put)(void *arg, const char *bytes, size_t len), void *arg);

#endif
