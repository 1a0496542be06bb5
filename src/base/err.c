/* err.c - error texts, built in place and bounded */
#include <keyhole/base/err.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/escape.h>

#ifdef KH_LINT
#undef kh_err_set
#undef kh_err_sys
#undef kh_err_wrap
#endif

struct err_row {
	int status;
	const char *token;
	const char *reason;
};

static const struct err_row rows[KH_ERR_COUNT] = {
#define KH_ERR_ROW(code, status, token, reason) [KH_ERR_##code] = { status, token, reason },
	KH_ERR_TABLE(KH_ERR_ROW)
#undef KH_ERR_ROW
};

static const struct err_row *row(enum kh_err_code code)
{
	/* A code out of the table can only be a bug of ours: answered as one. */
	return &rows[(unsigned)code < KH_ERR_COUNT ? code : KH_ERR_INTERNAL];
}

int kh_err_status(enum kh_err_code code)
{
	return row(code)->status;
}

bool kh_err_is_policy(enum kh_err_code code)
{
	return row(code)->status == 403;
}

bool kh_err_is_refusal(enum kh_err_code code, int status)
{
	return (kh_err_is_policy(code) || code == KH_ERR_LIMIT) && status == kh_err_status(code);
}

enum kh_err_code kh_err_of_reason(const char *reason, size_t len)
{
	for (int code = KH_ERR_NONE + 1; code < KH_ERR_COUNT; code++)
		if (strlen(rows[code].reason) == len && memcmp(rows[code].reason, reason, len) == 0)
			return (enum kh_err_code)code;
	return KH_ERR_NONE;
}

const char *kh_err_proxy_status(enum kh_err_code code)
{
	return row(code)->token;
}

const char *kh_err_reason(enum kh_err_code code)
{
	return row(code)->reason;
}

/* A text under construction: what does not fit is cut, and the cut is marked. */
struct text {
	char bytes[KH_ERR_TEXT_BYTES];
	size_t len;
	bool cut;
};

static void add_text(struct text *text, const char *fmt, va_list args)
	__attribute__((format(printf, 2, 0)));

static void add_text(struct text *text, const char *fmt, va_list args)
{
	size_t room = sizeof(text->bytes) - text->len;
	int need = vsnprintf(text->bytes + text->len, room, fmt, args);
	if (need < 0)
		text->bytes[text->len] = 0;
	else
		text->len += (size_t)need < room ? (size_t)need : room - 1;
	text->cut = text->cut || (need >= 0 && (size_t)need >= room);
}

static void add_str(struct text *text, const char *str)
{
	size_t room = sizeof(text->bytes) - text->len - 1;
	size_t len = strnlen(str, room);
	memcpy(text->bytes + text->len, str, len);
	text->len += len;
	text->bytes[text->len] = 0;
	text->cut = text->cut || str[len];
}

/* Through a copy, since an argument may point into the old text. */
static void finish(struct kh_err *err, const struct text *text)
{
	memcpy(err->text, text->bytes, text->len + 1);
	kh_esc_clean(err->text);
	if (text->cut)
		kh_esc_mark_cut(err->text);
}

static void finish_anew(struct kh_err *err, enum kh_err_code code, int sys, const struct text *text)
{
	err->code = code;
	err->sys = sys;
	err->retry_after_s = 0;
	finish(err, text);
}

bool kh_err_set(struct kh_err *err, enum kh_err_code code, const char *fmt, ...)
{
	if (!err)
		return false;
	struct text text;
	text.len = 0;
	text.cut = false;
	va_list args;
	va_start(args, fmt);
	add_text(&text, fmt, args);
	va_end(args);
	finish_anew(err, code, 0, &text);
	return false;
}

bool kh_err_sys(struct kh_err *err, enum kh_err_code code, int sys, const char *fmt, ...)
{
	if (!err)
		return false;
	int saved = errno;
	struct text text;
	text.len = 0;
	text.cut = false;
	va_list args;
	va_start(args, fmt);
	add_text(&text, fmt, args);
	va_end(args);
	add_str(&text, ": ");
	add_str(&text, strerror(sys));
	finish_anew(err, code, sys, &text);
	errno = saved;
	return false;
}

bool kh_err_wrap(struct kh_err *err, const char *fmt, ...)
{
	if (!err)
		return false;
	struct text text;
	text.len = 0;
	text.cut = false;
	va_list args;
	va_start(args, fmt);
	add_text(&text, fmt, args);
	va_end(args);
	if (err->text[0]) {
		add_str(&text, ": ");
		add_str(&text, err->text);
	}
	finish(err, &text);
	return false;
}
