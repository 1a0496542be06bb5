/* derive.c - derives texts from the daemon's placeholder key: marks, and the parts that say whose
 * they are */
#include "placeholder_internal.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <keyhole/base/buf.h>
#include <keyhole/base/wire.h>

enum {
	PLACE_BYTES = 4096,
	LABEL_BYTES = PLACE_BYTES + 256,
};

const struct kh_mark_form kh_mark_forms[KH_MARK_CLASSES] = {
	/* 42, 33 and 14 bits */
	[KH_MARK_LETTERS] = { KH_SLICE_INIT("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 9, 7, 3 },
	/* 40, 33 and 13 bits */
	[KH_MARK_DIGITS] = { KH_SLICE_INIT("0123456789"), 12, 10, 4 },
};

static void hmac(const uint8_t key[32], const void *bytes, size_t len, uint8_t out[32])
{
	unsigned n = 0;

	/* No allocation that fails without a bug in the library: then nothing is known again, and
	   the text is of zeros, which no alphabet hides. */
	if (!HMAC(EVP_sha256(), key, 32, bytes, len, out, &n) || n != 32)
		memset(out, 0, 32);
}

void kh_derive_begin(struct kh_derive *derived, const struct kh_placeholder_key *key,
		     const char *label, const char *const *words, size_t n_words)
{
	struct kh_buf text;

	kh_buf_init(&text, LABEL_BYTES);
	bool fits = kh_wire_put_str(&text, label);
	for (size_t i = 0; fits && i < n_words; i++)
		fits = kh_wire_put_str(&text, words[i]);
	struct kh_slice view = kh_buf_view(&text);
	hmac(key->bytes, view.ptr, view.len, derived->seed);
	kh_buf_fini(&text);
	derived->counter = 0;
	derived->left = 0;
}

static uint8_t next_byte(struct kh_derive *derived)
{
	if (derived->left == 0) {
		uint8_t count[4] = { (uint8_t)(derived->counter >> 24),
				     (uint8_t)(derived->counter >> 16),
				     (uint8_t)(derived->counter >> 8), (uint8_t)derived->counter };
		hmac(derived->seed, count, sizeof(count), derived->block);
		derived->counter++;
		derived->left = sizeof(derived->block);
	}
	return derived->block[sizeof(derived->block) - derived->left--];
}

/* Bytes past the last whole multiple of the alphabet are drawn again. */
void kh_derive_text(struct kh_derive *derived, char *out, size_t len, struct kh_slice alphabet)
{
	size_t fair = 256 - 256 % alphabet.len;

	while (len > 0) {
		uint8_t byte = next_byte(derived);
		if (byte >= fair)
			continue;
		*out++ = alphabet.ptr[byte % alphabet.len];
		len--;
	}
}

bool kh_placeholder_key_of_place(const struct kh_placeholder_key *user, const char *place,
				 struct kh_placeholder_key *out)
{
	struct kh_derive derived;

	if (strlen(place) > PLACE_BYTES)
		return false;
	kh_derive_begin(&derived, user, "keyhole place", &place, 1);
	memcpy(out->bytes, derived.seed, sizeof(out->bytes));
	return true;
}

void kh_mark_make(char *out, const struct kh_placeholder_key *key, enum kh_mark_class class)
{
	const struct kh_mark_form *form = &kh_mark_forms[class];
	struct kh_derive derived;

	kh_derive_begin(&derived, key, "keyhole mark", NULL, 0);
	kh_derive_text(&derived, out, form->mark, form->alphabet);
}

void kh_owner_tag_make(struct kh_owner_tag *out, const struct kh_placeholder_key *key,
		       const char *tenant, const char *sandbox)
{
	const char *words[] = { tenant, sandbox };
	struct kh_derive derived;

	memset(out, 0, sizeof(*out));
	kh_derive_begin(&derived, key, "keyhole sandbox", words, 2);
	for (size_t i = 0; i < KH_MARK_CLASSES; i++)
		kh_derive_text(&derived, out->text[i], kh_mark_forms[i].owner,
			       kh_mark_forms[i].alphabet);
}

void kh_name_tag_make(struct kh_name_tag *out, const struct kh_placeholder_key *key,
		      const char *credential)
{
	struct kh_derive derived;

	memset(out, 0, sizeof(*out));
	kh_derive_begin(&derived, key, "keyhole credential", &credential, 1);
	for (size_t i = 0; i < KH_MARK_CLASSES; i++)
		kh_derive_text(&derived, out->text[i], kh_mark_forms[i].name,
			       kh_mark_forms[i].alphabet);
}
