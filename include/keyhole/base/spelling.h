/* spelling.h - the other ways in which a server may read a text */
#ifndef KEYHOLE_BASE_SPELLING_H
#define KEYHOLE_BASE_SPELLING_H

#include <keyhole/base/slice.h>

/*
 * Servers decode more than RFC 3986 asks for. Some undo escapes twice (%2561 is 'a'), some take an
 * overlong UTF-8 form for its character (%C0%AE is '.'), some fold full-width letters (U+FF0E is
 * '.'), some cut a name at NUL, and most compare names without case. The functions here give the
 * reading of the most lenient server. A rule that denies is asked about that reading too; a rule
 * that allows must also allow that reading. Carriers, overrides, conditions, trailers and both
 * codecs share these functions, so that no two of them take the same bytes for different names.
 */

/* One character: how many bytes of the text it takes, and the byte that it stands for. */
struct kh_character {
	size_t width;
	unsigned char byte;
};

/* A '+' is a blank in a form and in most servers' queries, and a plus sign in a path. */
enum kh_plus { KH_PLUS_IS_PLUS = 0, KH_PLUS_IS_BLANK };

/* The character at `at`, which is below text.len. Nested escapes are undone too. */
struct kh_character kh_spelling_at(struct kh_slice text, size_t at, enum kh_plus plus);
/* The ASCII character that case folding, NFKC or Windows' best-fit mapping turns this code point
 * into; 0: none. */
unsigned char kh_spelling_ascii(uint32_t code);
/* Has it neither an escape nor a byte above ASCII? Then all servers decode it alike. */
bool kh_spelling_is_plain(struct kh_slice text);

/* One character of a name, folded for comparison: lower case; '_', '.', '[' and a blank become '-',
 * as CGI and PHP take them for one another. */
char kh_spelling_fold(char c);

/*
 * Does some server take `field` for the name of the field `name`? Case does not count, nor does
 * which character is in the place of one of `name` that is neither letter nor digit (CGI, lighttpd
 * and WSGI turn each into '_').
 */
bool kh_spelling_is_field(struct kh_slice field, struct kh_slice name);

/* Is it a blank that some server trims around a name? */
bool kh_spelling_is_blank(char c);
/* Is it a character that some server drops before a parameter's name: a blank, a bracket (qs,
 * Rack), a '!' (Spring) or a '?' (URLSearchParams drops the one that begins a query, so that "??v"
 * is v)? */
bool kh_spelling_is_front(char c);

/* The same for a parameter's name from a query or a form, still escaped. Blanks around it and
 * everything after a NUL do not count. A '[' is read in two ways: it ends the name ("v[]", "v[0]"),
 * and it is a '_' ("access[token", as PHP reads it if no ']' follows). Any number of brackets, '!',
 * '?' and blanks before the name may be dropped. */
bool kh_spelling_is_parameter(struct kh_slice parameter, struct kh_slice name);
/* The same for a name of a form that is decoded already (kh_form_name). */
bool kh_spelling_is_form_name(struct kh_slice decoded, struct kh_slice name);
/* The same for the decoded name of a JSON member. */
bool kh_spelling_is_member(struct kh_slice member, struct kh_slice name);

/*
 * Values of fields. Some servers also trim blanks beyond ASCII (in UTF-8 or Latin-1), drop quotes,
 * take the character after a '\\' for itself, and ignore parameters after a ';'. The character at
 * `at`, which is below value.len.
 */
struct kh_character kh_spelling_in_field(struct kh_slice value, size_t at);
/* How much of a value counts: all, or up to its parameters, or up to a blank as well, as some
 * servers read a media type. */
enum kh_value_end { KH_VALUE_WHOLE = 0, KH_VALUE_TO_PARAMETERS, KH_VALUE_TO_BLANK };
/* That part of the value, without blanks and quotes around it; a view. */
struct kh_slice kh_spelling_of_value(struct kh_slice value, enum kh_value_end end);
/* Does some server take the value, or this element of a list, for that word? Does the word occur
 * anywhere in it? */
bool kh_spelling_is_value(struct kh_slice value, struct kh_slice word);
bool kh_spelling_has_word(struct kh_slice value, struct kh_slice word);

/* Decodes a parameter's name, for comparison with many names: without what is around it and after a
 * NUL. Of the brackets, '!' and '?' before the name only the last is kept, which a server may read
 * as its first character; so they can't fill the buffer. What does not fit into `room` is dropped:
 * no name that is searched is so long. Return: bytes written. */
size_t kh_spelling_of_parameter(struct kh_slice parameter, char *out, size_t room);
/* The two rules for decoding a name into a buffer byte by byte. fills_no_name: `c` is skipped (a
 * blank in front, or more than two in a row, which no name has). replaces_front: `c` replaces all
 * of `decoded`, since that is in front of the name. */
bool kh_spelling_fills_no_name(struct kh_slice decoded, char c);
bool kh_spelling_replaces_front(struct kh_slice decoded, char c);
/* As kh_spelling_is_parameter, for a name that was decoded in this way. */
bool kh_spelling_is_decoded(struct kh_slice decoded, struct kh_slice name);
/* How many bytes at the beginning of a decoded name some servers drop: brackets, '!', '?', blanks.
 */
size_t kh_spelling_front(struct kh_slice decoded);
/* Decodes and folds a whole text, for a search of a word anywhere in it: nothing around it or after
 * a NUL is left out, and a '+' is itself. What does not fit into `room` is dropped. Return: bytes
 * written. */
size_t kh_spelling_of_text(struct kh_slice text, char *out, size_t room);

#endif
