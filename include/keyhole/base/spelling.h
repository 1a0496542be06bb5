/* spelling.h - the other texts that a server may read in a text */
#ifndef KEYHOLE_BASE_SPELLING_H
#define KEYHOLE_BASE_SPELLING_H

#include <keyhole/base/slice.h>

/*
 * Servers decode more than RFC 3986 asks for. Some undo escapes twice (%2561 is 'a'), some take an
 * overlong UTF-8 form for its character (%C0%AE is '.'), some fold full-width letters (U+FF0E is
 * '.'), some cut a name at NUL, and most compare names without case. The functions here give the
 * reading of the most forgiving server. A denial is asked about that reading too; an allowance must
 * hold in it as well. Carriers, overrides, conditions, trailers and both codecs share them, so that
 * no two places take the same bytes for different names.
 */

/* One character: how many bytes it takes in the text, and the byte that it stands for. */
struct kh_character {
	size_t width;
	unsigned char byte;
};

/* A '+' is a blank in a form and in most servers' queries, and a plus sign in a path. */
enum kh_plus { KH_PLUS_IS_PLUS = 0, KH_PLUS_IS_BLANK };

/* The character at `at`, which is below text.len. Escapes are undone as often as they are there. */
struct kh_character kh_spelling_at(struct kh_slice text, size_t at, enum kh_plus plus);
/* The ASCII character that case folding, NFKC or Windows' best fit make of this one; 0: none. */
unsigned char kh_spelling_ascii(uint32_t code);
/* No escape and no byte above ASCII: the text has this one reading. */
bool kh_spelling_is_plain(struct kh_slice text);

/* One character of a name as names are compared: in lower case; '_', '.', '[' and a blank are '-',
 * as CGI and PHP have it. */
char kh_spelling_fold(char c);

/*
 * Is this field's name `name` to some server? Case does not count, and neither does which character
 * stands where `name` has one that is neither letter nor digit (CGI, lighttpd, WSGI: all are '_').
 */
bool kh_spelling_is_field(struct kh_slice field, struct kh_slice name);

/* A blank around a name, which some server trims. */
bool kh_spelling_is_blank(char c);
/* What some server takes off in front of a parameter's name: also a bracket (qs, Rack) and a '!'
 * (Spring). */
bool kh_spelling_is_front(char c);

/* The same for one that comes from a query or a form, still escaped. Blanks around it do not count,
 * nor what follows a NUL. A '[' is read in both ways: what follows it does not count ("v[]",
 * "v[0]"), and it is a '_' ("access[token", which PHP reads so because no ']' closes it). What is
 * in front of it is read in all ways: as many brackets and '!' are taken off as there are, or
 * fewer. */
bool kh_spelling_is_parameter(struct kh_slice parameter, struct kh_slice name);
/* And for one of a form that is decoded already (kh_form_name). */
bool kh_spelling_is_form_name(struct kh_slice decoded, struct kh_slice name);
/* And for one that is decoded already, as a member of JSON. */
bool kh_spelling_is_member(struct kh_slice member, struct kh_slice name);

/*
 * Values of fields. Some servers trim blanks beyond ASCII as well (in UTF-8 or Latin-1), take
 * quotes off and what a '\\' escapes for itself, and leave out the parameters that follow a ';'.
 */
struct kh_character kh_spelling_in_field(struct kh_slice value, size_t at);
/* How much of a value is read: all, up to its parameters, or, as some read a media type, up to a
 * blank as well. */
enum kh_value_end { KH_VALUE_WHOLE = 0, KH_VALUE_TO_PARAMETERS, KH_VALUE_TO_BLANK };
/* That part of it, without blanks and quotes around it. */
struct kh_slice kh_spelling_of_value(struct kh_slice value, enum kh_value_end end);
/* Is the value, or a part of a list, that word to some server? Is the word anywhere in it? */
bool kh_spelling_is_value(struct kh_slice value, struct kh_slice word);
bool kh_spelling_has_word(struct kh_slice value, struct kh_slice word);

/* A parameter's name decoded, for those who compare it with many: without what is around it or
 * after a NUL. Nothing in front of it fills the buffer: of brackets and '!' only the one right
 * before the name is kept, which may be read as its first character. What does not fit into `room`
 * is left out, and belongs to a name longer than any that is looked for. Return: bytes written. */
size_t kh_spelling_of_parameter(struct kh_slice parameter, char *out, size_t room);
/* The two rules by which a name is decoded into a buffer byte by byte. `c` adds nothing: a blank in
 * front, or one of many in a row, of which no name has two. `c` takes the place of what is there:
 * all of it is in front of the name. */
bool kh_spelling_fills_no_name(struct kh_slice decoded, char c);
bool kh_spelling_replaces_front(struct kh_slice decoded, char c);
/* What kh_spelling_is_parameter says, of a name that is decoded so. */
bool kh_spelling_is_decoded(struct kh_slice decoded, struct kh_slice name);
/* Bytes before a decoded parameter's name that some servers take off: brackets, `!`, blanks. */
size_t kh_spelling_front(struct kh_slice decoded);
/* A whole text in that form, for those who look for a word anywhere in it: nothing around it or
 * after a NUL is left out. Escapes are undone; a '+' is itself. */
size_t kh_spelling_of_text(struct kh_slice text, char *out, size_t room);

#endif
