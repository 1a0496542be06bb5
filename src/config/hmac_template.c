/*
 * hmac_template.c - the templates of what an HMAC signs, and of the fields that it goes into
 *
 * A template is text with words in braces.
 */
#include <keyhole/config/signing.h>

static const struct {
	struct kh_slice text;
	enum kh_hmac_word word;
	bool in_sign, in_field;
} words[] = {
	{ KH_SLICE_INIT("{method}"), KH_HMAC_WORD_METHOD, true, false },
	{ KH_SLICE_INIT("{target}"), KH_HMAC_WORD_TARGET, true, false },
	{ KH_SLICE_INIT("{path}"), KH_HMAC_WORD_PATH, true, false },
	{ KH_SLICE_INIT("{query}"), KH_HMAC_WORD_QUERY, true, false },
	{ KH_SLICE_INIT("{host}"), KH_HMAC_WORD_HOST, true, false },
	{ KH_SLICE_INIT("{timestamp}"), KH_HMAC_WORD_TIMESTAMP, true, true },
	{ KH_SLICE_INIT("{nonce}"), KH_HMAC_WORD_NONCE, true, true },
	{ KH_SLICE_INIT("{body}"), KH_HMAC_WORD_BODY, true, false },
	{ KH_SLICE_INIT("{body_sha256}"), KH_HMAC_WORD_BODY_SHA256, true, true },
	{ KH_SLICE_INIT("{body_sha256_base64}"), KH_HMAC_WORD_BODY_SHA256_BASE64, true, true },
	{ KH_SLICE_INIT("{signature}"), KH_HMAC_WORD_SIGNATURE, false, true },
};
enum { N_WORDS = sizeof(words) / sizeof(*words) };

/* The same with a word's place in the table; N_WORDS: it is none. */
static bool next(struct kh_slice *rest, struct kh_slice *text, size_t *index)
{
	*index = N_WORDS;
	if (rest->len == 0)
		return false;
	for (size_t i = 0; i < N_WORDS; i++)
		if (kh_slice_has_prefix(*rest, words[i].text))
			*index = i;
	size_t end = *index < N_WORDS ? words[*index].text.len : kh_slice_find(*rest, '{', 1);
	*text = kh_slice_sub(*rest, 0, end);
	*rest = kh_slice_sub(*rest, end, rest->len);
	return true;
}

bool kh_hmac_template_next(struct kh_slice *rest, struct kh_slice *piece, enum kh_hmac_word *word)
{
	size_t i;
	bool more = next(rest, piece, &i);

	*word = i < N_WORDS ? words[i].word : KH_HMAC_WORD_NONE;
	return more;
}

const char *kh_hmac_template_fault(const char *text, int is_field)
{
	struct kh_slice rest = kh_slice_str(text), piece;
	size_t i;

	if (rest.len == 0 || rest.len > KH_HMAC_TEMPLATE_BYTES)
		return "a template has 1 to 1024 characters";
	for (size_t at = 0; at < rest.len; at++)
		if ((rest.ptr[at] < 0x20 && (is_field || rest.ptr[at] != '\n')) ||
		    rest.ptr[at] > 0x7e)
			return is_field ? "a template must be printable ASCII"
					: "a template must be printable ASCII and line ends";
	if (is_field && kh_slice_trim(rest).len != rest.len)
		return "a template must not begin or end with a blank";
	while (next(&rest, &piece, &i)) {
		if (i == N_WORDS && piece.ptr[0] == '{')
			return is_field ? "{ begins one of {signature} {timestamp} {nonce} "
					  "{body_sha256} {body_sha256_base64}"
					: "{ begins one of {method} {target} {path} {query} {host} "
					  "{timestamp} {nonce} {body} {body_sha256} "
					  "{body_sha256_base64}";
		if (i < N_WORDS && (is_field ? !words[i].in_field : !words[i].in_sign))
			return is_field ? "this word can't be used in a field"
					: "{signature} can be used only in a field";
	}
	return NULL;
}

bool kh_hmac_template_has(const char *text, enum kh_hmac_word from, enum kh_hmac_word to)
{
	struct kh_slice rest = kh_slice_str(text), piece;
	enum kh_hmac_word word;

	while (kh_hmac_template_next(&rest, &piece, &word))
		if (word >= from && word <= to)
			return true;
	return false;
}

const char *kh_hmac_config_fault(const struct kh_hmac_config *config)
{
	bool has_signature = false;

	if (!config->sign)
		return "`sign` is missing: the template of what is signed";
	if (kh_hmac_template_fault(config->sign, false))
		return kh_hmac_template_fault(config->sign, false);
	for (size_t i = 0; i < config->n_fields; i++) {
		const char *why = kh_hmac_template_fault(config->fields[i].text, true);
		if (why)
			return why;
		has_signature = has_signature ||
				kh_hmac_template_has(config->fields[i].text, KH_HMAC_WORD_SIGNATURE,
						     KH_HMAC_WORD_SIGNATURE);
	}
	return has_signature ? NULL : "one of `header` must hold {signature}";
}
