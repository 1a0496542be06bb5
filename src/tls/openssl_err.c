/* openssl_err.c - OpenSSL's error queue as one line of text */
#include <keyhole/base/err.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>

#include <keyhole/base/escape.h>

#ifdef KH_LINT
#undef kh_err_openssl
#endif

enum { REASONS_SHOWN = 3 };

/* One entry as ": reason (data)". Data may quote what a peer or a file said. */
static void append_reason(char *text, size_t size, size_t *len, unsigned long code,
			  const char *data, int flags)
{
	const char *reason = ERR_reason_error_string(code);
	char number[32];
	if (!reason) {
		(void)snprintf(number, sizeof number, "error %08lx", code);
		reason = number;
	}
	bool with_data = data && (flags & ERR_TXT_STRING) && data[0];
	int n = snprintf(text + *len, size - *len, "%s%s%s%s%s", *len ? "; " : "", reason,
			 with_data ? " (" : "", with_data ? kh_esc_str(data) : "",
			 with_data ? ")" : "");
	if (n > 0)
		*len = *len + (size_t)n < size ? *len + (size_t)n : size - 1;
}

/* The queue's oldest entry is the cause, the later ones are the callers that passed it on. */
static void drain(char *text, size_t size)
{
	size_t len = 0;
	const char *data = NULL;
	int flags = 0;
	unsigned long code;
	text[0] = '\0';
	for (unsigned shown = 0; (code = ERR_get_error_all(NULL, NULL, NULL, &data, &flags)) != 0;
	     shown++) {
		if (shown < REASONS_SHOWN)
			append_reason(text, size, &len, code, data, flags);
	}
}

bool kh_err_openssl(struct kh_err *err, enum kh_err_code code, const char *fmt, ...)
{
	char reasons[KH_ERR_TEXT_BYTES];
	char what[KH_ERR_TEXT_BYTES];
	drain(reasons, sizeof reasons);

	va_list args;
	va_start(args, fmt);
	(void)vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	return kh_err_set(err, code, "%s%s%s", what, reasons[0] ? ": " : "", reasons);
}
