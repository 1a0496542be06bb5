/*
 * placeholder.c - what the sandbox holds in place of a key
 *
 * Of the real one's length and shape, since clients check both, and random, so that it is known
 * when it turns up where it should not.
 */
#include <keyhole/credential.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include <keyhole/limits.h>

static const char letters_and_digits[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

enum {
	LEAST_RANDOM = 16,
	LEAST_ALPHABET = 10, /* 16 digits: 53 bits */
};

static bool draw(uint8_t *bytes, size_t len, struct kh_err *err)
{
	while (len > 0) {
		ssize_t got = getrandom(bytes, len, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return kh_err_sys(err, KH_ERR_SYSTEM, errno, "getrandom");
		bytes += got;
		len -= (size_t)got;
	}
	return true;
}

/* Every character as likely as every other: bytes past the last whole multiple are drawn again. */
static bool fill(char *to, size_t len, struct kh_slice alphabet, struct kh_err *err)
{
	uint8_t pool[64];
	size_t left = 0, fair = 256 - 256 % alphabet.len;

	while (len > 0) {
		if (left == 0) {
			if (!draw(pool, sizeof(pool), err))
				return false;
			left = sizeof(pool);
		}
		uint8_t byte = pool[--left];
		if (byte >= fair)
			continue;
		*to++ = alphabet.ptr[byte % alphabet.len];
		len--;
	}
	return true;
}

/* Visible ASCII, each character once, enough of them that 16 can't be guessed. */
static bool is_alphabet(struct kh_slice s)
{
	bool seen[128] = { false };

	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if (c < 0x21 || c > 0x7e || seen[c])
			return false;
		seen[c] = true;
	}
	return s.len >= LEAST_ALPHABET;
}

char *kh_placeholder_new(const struct kh_credential_config *credential, size_t real_len,
			 struct kh_err *err)
{
	struct kh_slice prefix = kh_slice_str(credential->placeholder_prefix);
	struct kh_slice alphabet = kh_slice_str(credential->placeholder_alphabet);

	if (alphabet.len == 0)
		alphabet = kh_slice_str(letters_and_digits);
	if (!is_alphabet(alphabet)) {
		kh_err_set(err, KH_ERR_CONFIG,
			   "credential %s: a placeholder's alphabet is at least %d visible "
			   "characters, each of them once",
			   credential->name, LEAST_ALPHABET);
		return NULL;
	}
	if (prefix.len > KH_LIMIT_SECRET_BYTES || real_len > KH_LIMIT_SECRET_BYTES) {
		kh_err_set(err, KH_ERR_CONFIG, "credential %s: too long for a placeholder",
			   credential->name);
		return NULL;
	}
	size_t random = real_len > prefix.len + LEAST_RANDOM ? real_len - prefix.len : LEAST_RANDOM;
	char *text = malloc(prefix.len + random + 1);
	if (!text) {
		kh_err_set(err, KH_ERR_NO_MEMORY, "credential %s: no memory", credential->name);
		return NULL;
	}
	if (prefix.len > 0)
		memcpy(text, prefix.ptr, prefix.len);
	if (!fill(text + prefix.len, random, alphabet, err)) {
		free(text);
		return NULL;
	}
	text[prefix.len + random] = '\0';
	return text;
}
