/*
 * fuzz_form_name.c - a name in a form, decoded byte by byte, against a slow, obvious reading
 *
 * The reference keeps all that was decoded, and drops no blank. What it reads as a name that is
 * looked for, the decoder has to read so as well, however long the name is: no number of blanks or
 * escapes hides one. And the decoder finds none that the reference does not, as long as all of the
 * name has found room.
 */
#include <stdlib.h>

#include <keyhole/credential/body.h>
#include <keyhole/base/spelling.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES = 4096 };

static void require(bool what)
{
	if (!what)
		abort();
}

/* The escape at the end of the text, if there is one, becomes what it stands for. */
static bool undo_one(char *text, size_t *len)
{
	const char *end = text + *len;
	int high = *len >= 3 && end[-3] == '%' ? kh_hex_value(end[-2]) : -1;
	int low = high >= 0 ? kh_hex_value(end[-1]) : -1;
	if (low < 0)
		return false;
	*len -= 2;
	text[*len - 1] = (char)(high * 16 + low);
	return true;
}

static size_t decode(struct kh_slice in, char *text)
{
	size_t len = 0;
	for (size_t i = 0; i < in.len; i++) {
		text[len++] = (char)(in.ptr[i] == '+' ? ' ' : in.ptr[i]);
		while (undo_one(text, &len))
			;
	}
	return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const wanted[] = { "access_token", "private_token", "token", "a" };
	static char text[INPUT_BYTES];
	struct kh_form_name name;
	if (size > INPUT_BYTES)
		return 0;
	struct kh_slice in = kh_slice_of(data, size);
	kh_form_name_begin(&name);
	for (size_t i = 0; i < in.len; i++) {
		kh_form_name_byte(&name, in.ptr[i]);
		require(name.len <= sizeof(name.text));
	}
	struct kh_slice all = kh_slice_of(text, decode(in, text));
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		struct kh_slice one = kh_slice_str(wanted[i]);
		bool is = kh_form_name_is(&name, one), should = kh_spelling_is_member(all, one);
		require(is || !should);
		require(!is || should || name.full);
	}
	return 0;
}
