/* placeholder_internal.h - deriving texts from a key, to make placeholders and to recognise them */
#ifndef KEYHOLE_CREDENTIAL_PLACEHOLDER_INTERNAL_H
#define KEYHOLE_CREDENTIAL_PLACEHOLDER_INTERNAL_H

#include <keyhole/credential/placeholder.h>

/* A stream of bytes: HMAC-SHA256 of the seed and a counter. */
struct kh_derive {
	uint8_t seed[32];
	uint32_t counter;
	uint8_t block[32];
	size_t left;
};
/* `label` keeps the streams of one key apart; the words follow it, each with its length, so that no
 * two lists are one. */
void kh_derive_begin(struct kh_derive *derived, const struct kh_placeholder_key *key,
		     const char *label, const char *const *words, size_t n_words);
/* `len` characters of the alphabet, each as likely as every other. */
void kh_derive_text(struct kh_derive *derived, char *out, size_t len, struct kh_slice alphabet);

struct kh_mark_form {
	struct kh_slice alphabet; /* of mark and parts */
	uint8_t mark;		  /* bytes of the mark, the sandbox's part, the credential's */
	uint8_t owner;
	uint8_t name;
};
extern const struct kh_mark_form kh_mark_forms[KH_MARK_CLASSES];
void kh_mark_make(char *out, const struct kh_placeholder_key *key, enum kh_mark_class class);

#endif
