/* guess.h - a cautious estimate, without a dictionary, of how hard a text is to guess */
#ifndef KEYHOLE_BASE_GUESS_H
#define KEYHOLE_BASE_GUESS_H

#include <stdbool.h>

#include <keyhole/base/slice.h>

/*
 * The estimate is that of the run of 16 bytes that is hardest to guess. Each byte counts by its
 * kind (a digit 3.3 bits, a letter 4.7). It counts less if it follows from the byte before (a
 * common pair of letters in words, a repetition, a sequence). A text of fewer than 16 bytes, or
 * with no 16 bytes that have enough different values, counts 0.
 *
 * Why 48 bits: at 3,000 requests a second with 1,000 guesses each, a search takes three years. A
 * random token has far more: 16 random characters of base 62 count about 70.
 */
enum { KH_GUESS_WINDOW_BYTES = 16, KH_GUESS_LEAST_BITS = 48 };

/* The estimate in bits. *at (may be NULL): the offset of the hardest 16 bytes, set only if the
 * result is not 0. Keeps no copy of the text. */
unsigned kh_guess_bits(struct kh_slice text, size_t *at);

static inline bool kh_guess_is_hard(struct kh_slice text)
{
	return kh_guess_bits(text, NULL) >= KH_GUESS_LEAST_BITS;
}

#endif
