/* guess.h - how hard a text is to guess: a cautious estimate, without a dictionary */
#ifndef KEYHOLE_BASE_GUESS_H
#define KEYHOLE_BASE_GUESS_H

#include <stdbool.h>

#include <keyhole/base/slice.h>

/*
 * The estimate is that of the hardest run of 16 bytes in the text. Each byte counts by its kind (a
 * digit 3.3 bits, a letter 4.7), less where it follows from the one before (a pair of letters that
 * words are made of, a repetition, a sequence). A text of fewer than 16 bytes, or of few different
 * bytes, counts nothing.
 *
 * 48 bits: at 3,000 requests a second with 1,000 guesses each, a search takes three years. A random
 * token has far more: 16 characters of base 62 count about 70.
 */
enum { KH_GUESS_WINDOW_BYTES = 16, KH_GUESS_LEAST_BITS = 48 };

/* In bits. *at (which may be NULL): where its hardest 16 bytes begin. It keeps no copy. */
unsigned kh_guess_bits(struct kh_slice text, size_t *at);

static inline bool kh_guess_is_hard(struct kh_slice text)
{
	return kh_guess_bits(text, NULL) >= KH_GUESS_LEAST_BITS;
}

#endif
