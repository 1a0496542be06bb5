/* h1_head.c - parses one line of a head (RFC 9112 §3, §4, §5). Control bytes were refused before.
 */
#include "h1_internal.h"

#include "chars.h"

/* "HTTP/" DIGIT "." DIGIT, nothing else. */
static bool is_version(struct kh_slice s)
{
	return s.len == 8 && memcmp(s.ptr, "HTTP/", 5) == 0 && kh_is_digit(s.ptr[5]) &&
	       s.ptr[6] == '.' && kh_is_digit(s.ptr[7]);
}

static bool is_known_version(struct kh_slice s)
{
	return s.ptr[5] == '1' && (s.ptr[7] == '0' || s.ptr[7] == '1');
}

const char *kh_h1_head_request_line(struct kh_slice line, size_t *method_len, size_t *target_len,
				    uint8_t *minor, bool *version_bad)
{
	size_t first = kh_slice_find(line, ' ', 0);
	size_t second = kh_slice_find(line, ' ', first + 1);

	*version_bad = false;
	if (!kh_chars_are_token(kh_slice_sub(line, 0, first)))
		return "the method is not a token";
	if (first == line.len || second >= line.len)
		return "the request line is not 'method target version', joined by single spaces";
	if (second == first + 1)
		return "the request target is empty";
	for (size_t i = first + 1; i < second; i++)
		if ((unsigned char)line.ptr[i] < 0x21 || (unsigned char)line.ptr[i] > 0x7e)
			return "the request target contains a byte that no URI has";
	struct kh_slice version = kh_slice_sub(line, second + 1, line.len);
	if (!is_version(version))
		return "the request line does not end in 'HTTP/1.1' or 'HTTP/1.0'";
	if (!is_known_version(version)) {
		*version_bad = true;
		return "the version is neither HTTP/1.1 nor HTTP/1.0";
	}
	*method_len = first;
	*target_len = second - first - 1;
	*minor = (uint8_t)(version.ptr[7] - '0');
	return NULL;
}

const char *kh_h1_head_status_line(struct kh_slice line, struct kh_message *message)
{
	enum { CODE = 9, REASON = 13 }; /* "HTTP/1.1 200 " */

	if (!is_version(kh_slice_sub(line, 0, 8)) || !is_known_version(line))
		return "the status line does not begin with 'HTTP/1.1' or 'HTTP/1.0'";
	if (line.len < REASON || line.ptr[8] != ' ' || line.ptr[12] != ' ')
		return "the status line is not 'version status reason'";
	for (size_t i = CODE; i < CODE + 3; i++)
		if (!kh_is_digit(line.ptr[i]))
			return "the status is not a number of three digits";
	int status = (line.ptr[CODE] - '0') * 100 + (line.ptr[CODE + 1] - '0') * 10 +
		     (line.ptr[CODE + 2] - '0');
	if (status < 100 || status > 599)
		return "the status is not between 100 and 599";
	message->minor = (uint8_t)(line.ptr[7] - '0');
	message->status = (uint16_t)status;
	return NULL;
}

const char *kh_h1_head_field(struct kh_slice line, struct kh_field *out)
{
	size_t colon = 0;

	if (line.ptr[0] == ' ' || line.ptr[0] == '\t')
		return "a line begins with a blank (obsolete line folding)";
	while (colon < line.len && kh_is_tchar(line.ptr[colon]))
		colon++;
	if (colon == line.len)
		return "a field line has no colon";
	if (line.ptr[colon] != ':')
		return line.ptr[colon] == ' ' || line.ptr[colon] == '\t'
			       ? "a blank in a field name or before its colon"
			       : "a field name contains a byte that no token has";
	if (colon == 0)
		return "a field name is empty";
	out->name = kh_slice_of(line.ptr, colon);
	out->value = kh_slice_trim(kh_slice_sub(line, colon + 1, line.len));
	return NULL;
}
