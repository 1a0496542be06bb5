/*
 * h1_write.c - writes heads and chunks from their parts
 *
 * The last check before the wire: a part that a reader could take for more than one (a line end in
 * a value, a blank in a target, a name that is no token) is never written, whatever its origin.
 */
#include <keyhole/http/h1.h>

#include <keyhole/base/encode.h>

#include "chars.h"

/* Joins parts with one reservation, so that a line is written whole or not at all. */
static bool put(struct kh_buf *out, const struct kh_slice *parts, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += parts[i].len;
	char *at = kh_buf_reserve(out, len);
	if (!at)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (parts[i].len > 0)
			memcpy(at, parts[i].ptr, parts[i].len);
		at += parts[i].len;
	}
	kh_buf_commit(out, len);
	return true;
}
#define PUT(out, ...) \
	put(out, (const struct kh_slice[]){ __VA_ARGS__ }, \
	    sizeof((const struct kh_slice[]){ __VA_ARGS__ }) / sizeof(struct kh_slice))

static bool is_target(struct kh_slice target)
{
	for (size_t i = 0; i < target.len; i++)
		if ((unsigned char)target.ptr[i] < 0x21 || (unsigned char)target.ptr[i] > 0x7e)
			return false;
	return target.len > 0;
}

static bool is_clean(struct kh_slice s)
{
	return kh_chars_clean_run(s.ptr, s.len) == s.len;
}

bool kh_h1_put_request_line(struct kh_buf *out, struct kh_slice method, struct kh_slice target)
{
	if (!kh_chars_are_token(method) || !is_target(target))
		return false;
	return PUT(out, method, KH_SLICE(" "), target, KH_SLICE(" HTTP/1.1\r\n"));
}

bool kh_h1_put_status_line(struct kh_buf *out, uint16_t status, struct kh_slice reason)
{
	char code[] = { (char)('0' + status / 100), (char)('0' + status / 10 % 10),
			(char)('0' + status % 10) };

	if (status < 100 || status > 599 || !is_clean(reason))
		return false;
	return PUT(out, KH_SLICE("HTTP/1.1 "), kh_slice_of(code, sizeof(code)), KH_SLICE(" "),
		   reason, KH_SLICE("\r\n"));
}

bool kh_h1_put_field(struct kh_buf *out, struct kh_slice name, struct kh_slice value)
{
	if (!kh_chars_are_token(name) || !is_clean(value))
		return false;
	return PUT(out, name, KH_SLICE(": "), value, KH_SLICE("\r\n"));
}

bool kh_h1_put_end(struct kh_buf *out)
{
	return PUT(out, KH_SLICE("\r\n"));
}

bool kh_h1_put_chunk_head(struct kh_buf *out, size_t len)
{
	char text[sizeof(len) * 2 + 2];
	size_t at = sizeof(text);

	if (len == 0)
		return false;
	text[--at] = '\n';
	text[--at] = '\r';
	for (; len > 0; len >>= 4)
		text[--at] = kh_hex_digits[len & 0xf];
	return PUT(out, kh_slice_of(text + at, sizeof(text) - at));
}

bool kh_h1_put_last_chunk(struct kh_buf *out, const struct kh_field *trailers, size_t n)
{
	size_t before = kh_buf_len(out);
	bool ok = PUT(out, KH_SLICE("0\r\n"));

	for (size_t i = 0; ok && i < n; i++)
		ok = kh_h1_put_field(out, trailers[i].name, trailers[i].value);
	ok = ok && kh_h1_put_end(out);
	if (!ok)
		kh_buf_truncate(out, before);
	return ok;
}

/* RFC 9110 §15 and the registry. */
const char *kh_h1_reason(uint16_t status)
{
	static const struct {
		uint16_t status;
		const char *reason;
	} phrases[] = {
		{ 100, "Continue" },
		{ 101, "Switching Protocols" },
		{ 102, "Processing" },
		{ 103, "Early Hints" },
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 203, "Non-Authoritative Information" },
		{ 204, "No Content" },
		{ 205, "Reset Content" },
		{ 206, "Partial Content" },
		{ 207, "Multi-Status" },
		{ 208, "Already Reported" },
		{ 226, "IM Used" },
		{ 300, "Multiple Choices" },
		{ 301, "Moved Permanently" },
		{ 302, "Found" },
		{ 303, "See Other" },
		{ 304, "Not Modified" },
		{ 305, "Use Proxy" },
		{ 307, "Temporary Redirect" },
		{ 308, "Permanent Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 402, "Payment Required" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" },
		{ 407, "Proxy Authentication Required" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 411, "Length Required" },
		{ 412, "Precondition Failed" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 417, "Expectation Failed" },
		{ 421, "Misdirected Request" },
		{ 422, "Unprocessable Content" },
		{ 423, "Locked" },
		{ 424, "Failed Dependency" },
		{ 425, "Too Early" },
		{ 426, "Upgrade Required" },
		{ 428, "Precondition Required" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 451, "Unavailable For Legal Reasons" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
		{ 506, "Variant Also Negotiates" },
		{ 507, "Insufficient Storage" },
		{ 508, "Loop Detected" },
		{ 511, "Network Authentication Required" },
	};

	for (size_t i = 0; i < sizeof(phrases) / sizeof(*phrases); i++)
		if (phrases[i].status == status)
			return phrases[i].reason;
	return "";
}
