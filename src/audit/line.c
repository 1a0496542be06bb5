/* line.c - one line of the journal: its form, its hash, its id */
#include <errno.h>
#include <unistd.h>

#include <keyhole/base/encode.h>

#include "audit_internal.h"

const char kh_audit_genesis_hex[KH_HASH_HEX + 1] =
	"0000000000000000000000000000000000000000000000000000000000000000";

bool kh_digest_init(struct kh_digest *digest, struct kh_err *err)
{
	digest->md = EVP_MD_fetch(NULL, "SHA256", NULL);
	digest->ctx = EVP_MD_CTX_new();
	if (digest->md && digest->ctx)
		return true;
	kh_digest_fini(digest);
	return kh_err_set(err, KH_ERR_INTERNAL, "journal: SHA-256 is not to be had from OpenSSL");
}

void kh_digest_fini(struct kh_digest *digest)
{
	EVP_MD_CTX_free(digest->ctx);
	EVP_MD_free(digest->md);
	digest->ctx = NULL;
	digest->md = NULL;
}

bool kh_digest_begin(struct kh_digest *digest)
{
	return EVP_DigestInit_ex2(digest->ctx, digest->md, NULL) == 1;
}

bool kh_digest_add(struct kh_digest *digest, struct kh_slice bytes)
{
	return EVP_DigestUpdate(digest->ctx, bytes.ptr, bytes.len) == 1;
}

bool kh_digest_peek(const struct kh_digest *digest, char hex[KH_HASH_HEX + 1])
{
	uint8_t hash[KH_HASH_BYTES];
	EVP_MD_CTX *copy = EVP_MD_CTX_new();
	bool ok = copy && EVP_MD_CTX_copy_ex(copy, digest->ctx) == 1 &&
		  EVP_DigestFinal_ex(copy, hash, NULL) == 1;

	EVP_MD_CTX_free(copy);
	if (ok)
		kh_hex_encode(hash, sizeof(hash), hex);
	return ok;
}

bool kh_digest_end(struct kh_digest *digest, char hex[KH_HASH_HEX + 1])
{
	uint8_t hash[KH_HASH_BYTES];

	if (EVP_DigestFinal_ex(digest->ctx, hash, NULL) != 1)
		return false;
	kh_hex_encode(hash, sizeof(hash), hex);
	return true;
}

bool kh_checkpoint_holds(int fd, const struct kh_checkpoint *checkpoint)
{
	static const char end[] = "\"}\n";
	enum { TAIL_BYTES = KH_HASH_HEX + sizeof(end) - 1 };
	char hex[KH_HASH_HEX + 1], there[TAIL_BYTES];
	ssize_t n;

	if (checkpoint->end < TAIL_BYTES)
		return false;
	kh_hex_encode(checkpoint->hash, KH_HASH_BYTES, hex);
	do
		n = pread(fd, there, sizeof(there), (off_t)(checkpoint->end - TAIL_BYTES));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(there) && memcmp(there, hex, KH_HASH_HEX) == 0 &&
	       memcmp(there + KH_HASH_HEX, end, sizeof(end) - 1) == 0;
}

static bool is_hash(struct kh_slice s)
{
	if (s.len != KH_HASH_HEX)
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!kh_is_digit(s.ptr[i]) && !(s.ptr[i] >= 'a' && s.ptr[i] <= 'f'))
			return false;
	return true;
}

/* Takes `"tail` off the end of *s, or leaves it. */
static bool chop(struct kh_slice *s, struct kh_slice tail)
{
	if (s->len < tail.len || memcmp(s->ptr + s->len - tail.len, tail.ptr, tail.len) != 0)
		return false;
	s->len -= tail.len;
	return true;
}

static bool chop_hash(struct kh_slice *s, struct kh_slice *hash)
{
	if (s->len < KH_HASH_HEX)
		return false;
	*hash = kh_slice_of(s->ptr + s->len - KH_HASH_HEX, KH_HASH_HEX);
	s->len -= KH_HASH_HEX;
	return is_hash(*hash);
}

/* Takes `head` off the front of *s, or leaves it. */
static bool skip(struct kh_slice *s, struct kh_slice head)
{
	if (s->len < head.len || memcmp(s->ptr, head.ptr, head.len) != 0)
		return false;
	*s = kh_slice_of(s->ptr + head.len, s->len - head.len);
	return true;
}

static bool take_event(struct kh_slice *rest, struct kh_slice *event)
{
	size_t n = 0;

	if (!skip(rest, KH_SLICE("{\"event\":\"")))
		return false;
	while (n < rest->len && rest->ptr[n] >= 'a' && rest->ptr[n] <= 'z')
		n++;
	*event = kh_slice_of(rest->ptr, n);
	*rest = kh_slice_of(rest->ptr + n, rest->len - n);
	return n > 0 && skip(rest, KH_SLICE("\",\"time\":\""));
}

bool kh_line_parse(struct kh_line *out, struct kh_slice line)
{
	struct kh_slice rest = line, digits;

	if (!chop(&rest, KH_SLICE("\"}")) || !chop_hash(&rest, &out->hash) ||
	    !chop(&rest, KH_SLICE(",\"hash\":\"")))
		return false;
	out->hashed = rest;
	if (!chop(&rest, KH_SLICE("\"")) || !chop_hash(&rest, &out->prev) ||
	    !chop(&rest, KH_SLICE(",\"prev\":\"")))
		return false;
	digits = kh_slice_of(rest.ptr + rest.len, 0);
	while (rest.len > 0 && digits.len < 20 && kh_is_digit(rest.ptr[rest.len - 1])) {
		rest.len--;
		digits.ptr--;
		digits.len++;
	}
	if (!kh_slice_to_u64(digits, &out->seq) || !chop(&rest, KH_SLICE(",\"seq\":")))
		return false;
	/* One spelling of a number, or a line could be changed without a trace in what it says. */
	if (digits.ptr[0] == '0')
		return false;
	return take_event(&rest, &out->event);
}

bool kh_line_is_sound(struct kh_digest *digest, const struct kh_line *line)
{
	char hex[KH_HASH_HEX + 1];

	return kh_digest_begin(digest) && kh_digest_add(digest, line->hashed) &&
	       kh_digest_end(digest, hex) && memcmp(hex, line->hash.ptr, KH_HASH_HEX) == 0;
}

/* Past the event and the time, which all records begin with: what follows the time's quote. */
static bool skip_time(struct kh_slice *line)
{
	static const char form[] = "0000-00-00T00:00:00.000Z\"";
	enum { FORM_BYTES = sizeof(form) - 1 };
	struct kh_slice event;

	if (!take_event(line, &event) || line->len < FORM_BYTES)
		return false;
	for (size_t i = 0; i < FORM_BYTES; i++)
		if (form[i] == '0' ? !kh_is_digit(line->ptr[i]) : line->ptr[i] != form[i])
			return false;
	*line = kh_slice_of(line->ptr + FORM_BYTES, line->len - FORM_BYTES);
	return true;
}

bool kh_line_id(struct kh_slice line, uint64_t *id)
{
	uint64_t value = 0;

	*id = 0;
	if (!skip_time(&line) || !skip(&line, KH_SLICE(",\"id\":\"x")) || line.len < 17 ||
	    line.ptr[16] != '"')
		return false;
	for (size_t i = 0; i < 16; i++) {
		int digit = kh_hex_value(line.ptr[i]);

		if (digit < 0 || kh_lower(line.ptr[i]) != line.ptr[i])
			return false;
		value = value << 4 | (uint64_t)digit;
	}
	*id = value;
	return value != 0;
}

bool kh_line_is_known(const struct kh_line *line)
{
	static const char *const events[] = { "start", "open",	    "close",   "deny",	"denials",
					      "stop",  "recovered", "aborted", "joined" };

	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++)
		if (kh_slice_eq(line->event, kh_slice_str(events[i])))
			return true;
	return false;
}

/* Where the string ends that begins at `at`: its second quote, or the line's end. */
static size_t string_end(struct kh_slice line, size_t at)
{
	for (at++; at < line.len && line.ptr[at] != '"'; at++)
		at += line.ptr[at] == '\\';
	return at < line.len ? at : line.len;
}

/* Past the value that begins at `at`: the comma or the brace of the line's own object. */
static size_t value_end(struct kh_slice line, size_t at)
{
	unsigned depth = 0;

	for (; at < line.len; at++) {
		char c = line.ptr[at];

		if (c == '"')
			at = string_end(line, at);
		else if (c == '{' || c == '[')
			depth++;
		else if (depth == 0 && (c == ',' || c == '}'))
			break;
		else if (c == '}' || c == ']')
			depth--;
	}
	return at < line.len ? at : line.len;
}

/* The value of the line's own member of that name; the empty view when there is none. */
static struct kh_slice member(struct kh_slice line, const char *name)
{
	for (size_t at = 1; at < line.len && line.ptr[at] == '"';) {
		size_t quote = string_end(line, at), value = quote + 2;

		if (value >= line.len || line.ptr[quote + 1] != ':')
			break;
		size_t end = value_end(line, value);
		if (kh_slice_eq(kh_slice_sub(line, at + 1, quote), kh_slice_str(name)))
			return kh_slice_sub(line, value, end);
		at = end + 1;
	}
	return (struct kh_slice){ "", 0 };
}

bool kh_line_number(struct kh_slice line, const char *name, uint64_t *out)
{
	struct kh_slice value = member(line, name);

	for (size_t i = 0; i < value.len; i++)
		if (!kh_is_digit(value.ptr[i]))
			return false;
	return kh_slice_to_u64(value, out);
}

bool kh_line_is_true(struct kh_slice line, const char *name)
{
	return kh_slice_eq(member(line, name), KH_SLICE("true"));
}

bool kh_line_is_refusal(struct kh_slice line)
{
	struct kh_slice reason = member(line, "reason");
	uint64_t status;

	/* In quotes, and none of ours has any inside. */
	return reason.len > 2 && kh_line_number(line, "http.response.status_code", &status) &&
	       status < 1000 &&
	       kh_err_is_refusal(kh_err_of_reason(reason.ptr + 1, reason.len - 2), (int)status);
}

struct kh_slice kh_line_hex(struct kh_slice line, const char *name)
{
	struct kh_slice value = member(line, name);

	if (value.len != KH_HASH_HEX + 2 || value.ptr[0] != '"' ||
	    !is_hash(kh_slice_sub(value, 1, 1 + KH_HASH_HEX)))
		return (struct kh_slice){ "", 0 };
	return kh_slice_sub(value, 1, 1 + KH_HASH_HEX);
}

bool kh_line_has_form(const struct kh_line *line, struct kh_slice text)
{
	static const struct kh_slice exchanges[] = { KH_SLICE_INIT("open"), KH_SLICE_INIT("close"),
						     KH_SLICE_INIT("deny") };
	struct kh_slice rest = text;
	uint64_t id, count;

	if (!skip_time(&rest))
		return false;
	/* None of ours has an escape: a reader that decodes it would find another reason. */
	struct kh_slice reason = member(text, "reason");
	if (reason.len > 0 && memchr(reason.ptr, '\\', reason.len))
		return false;
	/* Nowhere else, in no event: readers that look for it by its name would find it. */
	if (member(text, "id").len > 0 && !kh_line_id(text, &id))
		return false;
	for (size_t i = 0; i < sizeof(exchanges) / sizeof(*exchanges); i++)
		if (kh_slice_eq(line->event, exchanges[i]))
			return kh_line_id(text, &id);
	if (!kh_slice_eq(line->event, KH_SLICE("aborted")) || kh_line_id(text, &id))
		return true;
	return skip(&rest, KH_SLICE(",\"count\":")) && kh_line_number(text, "count", &count) &&
	       count > 0;
}
