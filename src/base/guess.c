/* guess.c - how hard a text is to guess */
#include <keyhole/base/guess.h>

#include <stdint.h>
#include <string.h>

#include <keyhole/base/escape.h>
#include <keyhole/base/secret.h>

enum { WINDOW = KH_GUESS_WINDOW_BYTES, DIFFERENT_LEAST = 7 };

/* Tenths of a bit. */
enum { FOLLOWS = 10, COMMON_PAIR = 15, SIGN = 20, DIGIT = 33, LETTER = 47, BYTE = 60 };

/* The letters that most often come after each one, in English words and names: nine pairs in ten of
 * a text, and three in ten of random letters. */
static const char *const after[26] = {
	"bcdgilmnprstuvy", "aeilorsuy", "acehiklortu",	 "adeiorsuy",	    "acdeilmnprstvwx",
	"aefiloru",	   "aehilnoru", "aeiortu",	 "acdefglmnorstvz", "aeou",
	"aeinsy",	   "adeiloty",	"abeimopsu",	 "acdeginost",	    "bcdfklmnoprstuvw",
	"aehiloprtu",	   "u",		"acdeiklmnosty", "acehikopstuw",    "aehiorstuy",
	"bcdegilmnprst",   "aeio",	"aehinor",	 "acept",	    "aeilmost",
	"aeioz",
};

static bool is_letter(unsigned char c)
{
	return kh_is_alpha((char)c);
}

static unsigned cost(unsigned char before, unsigned char c)
{
	int step = (int)c - (int)before;

	if (step >= -1 && step <= 1)
		return FOLLOWS;
	if (c >= '0' && c <= '9')
		return DIGIT;
	if (is_letter(c) && is_letter(before))
		return strchr(after[(before | 0x20) - 'a'], c | 0x20) ? COMMON_PAIR : LETTER;
	if (is_letter(c))
		return LETTER;
	return c >= 0x20 && c < 0x7f ? SIGN : BYTE;
}

unsigned kh_guess_bits(struct kh_slice text, size_t *at)
{
	const unsigned char *bytes = (const unsigned char *)text.ptr;
	uint8_t seen[256] = { 0 };
	unsigned sum = 0, different = 0, most = 0;

	for (size_t i = 0; i < text.len; i++) {
		sum += cost(i ? bytes[i - 1] : 0, bytes[i]);
		different += seen[bytes[i]]++ == 0;
		if (i >= WINDOW) {
			size_t gone = i - WINDOW;
			sum -= cost(gone ? bytes[gone - 1] : 0, bytes[gone]);
			different -= --seen[bytes[gone]] == 0;
		}
		if (i + 1 < WINDOW || different < DIFFERENT_LEAST || sum <= most)
			continue;
		most = sum;
		if (at)
			*at = i + 1 - WINDOW;
	}
	kh_secret_wipe(seen, sizeof(seen));
	return most / 10;
}
