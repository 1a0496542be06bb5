/*
 * body_form.c - a member of an application/x-www-form-urlencoded content
 *
 * Servers part members at '&', some at ';' too; they undo escapes and '+', some drop blanks around
 * a name or cut it at '[' or NUL, and some take '.', '-' and blanks for '_', or fold case. What any
 * of them could read as the name must be exactly the name, and stand there once.
 */
#include <string.h>

#include "body_internal.h"

void kh_body_form_init(struct kh_body_form *form, const char *name)
{
	*form = (struct kh_body_form){ .wanted = name };
}

static char fold(char c)
{
	return c == '.' || c == '-' || c == ' ' ? '_' : kh_lower(c);
}

static void begin_member(struct kh_body_form *form, bool after_semicolon)
{
	form->in_value = form->ours = form->cut = form->odd = false;
	form->after_semicolon = after_semicolon;
	form->blanks = form->hex_left = 0;
	form->name.len = 0;
}

static void add(struct kh_body_form *form, char c)
{
	if (form->name.len < sizeof(form->name.text))
		form->name.text[form->name.len] = c;
	form->name.len++;
}

/* A byte of the name, decoded. Blanks count once something stands behind them. */
static void take(struct kh_body_form *form, unsigned char c)
{
	if (form->cut)
		return;
	if (c == '\0' || (c == '[' && form->name.len > 0)) {
		form->cut = form->odd = true;
	} else if (c == ' ' || (c >= '\t' && c <= '\r')) {
		form->odd = true;
		form->blanks += form->name.len > 0 && form->blanks < sizeof(form->name.text);
	} else {
		for (; form->blanks > 0; form->blanks--)
			add(form, ' ');
		add(form, (char)c);
	}
}

/* Is it the name to some reader? *exactly: and to all. */
static bool is_wanted(const struct kh_body_form *form, bool *exactly)
{
	size_t len = strlen(form->wanted);
	if (form->name.len != len || len > sizeof(form->name.text))
		return false;
	*exactly = !form->odd;
	for (size_t i = 0; i < len; i++) {
		if (fold(form->name.text[i]) != fold(form->wanted[i]))
			return false;
		*exactly = *exactly && form->name.text[i] == form->wanted[i];
	}
	return true;
}

static enum kh_body_step fault(const char **why, const char *text)
{
	*why = text;
	return KH_BODY_FAULT;
}

/* `c` ends the name: '=', or a separator. */
static enum kh_body_step end_name(struct kh_body_form *form, unsigned char c, const char **why)
{
	bool exactly = false;
	if (form->hex_left > 0)
		form->odd = true; /* half an escape */
	if (!is_wanted(form, &exactly))
		return KH_BODY_KEEP;
	if (form->filled || !exactly || form->after_semicolon)
		return fault(why, "the member stands in it twice, or in a spelling that not all "
				  "servers read alike");
	if (c != '=')
		return fault(why, "the member has no value there");
	form->filled = form->ours = true;
	return KH_BODY_FILL;
}

static enum kh_body_step name_byte(struct kh_body_form *form, unsigned char c, const char **why)
{
	int digit = kh_hex_value((char)c);
	if (c == '=' || c == '&' || c == ';') {
		enum kh_body_step step = end_name(form, c, why);
		form->in_value = c == '=';
		if (c != '=')
			begin_member(form, c == ';');
		return step;
	}
	if (form->hex_left > 0 && digit >= 0) {
		form->byte = (unsigned char)(form->byte << 4 | digit);
		if (--form->hex_left == 0) {
			form->odd = true; /* a name needs no escape */
			take(form, form->byte);
		}
	} else if (form->hex_left > 0) {
		return fault(why, "an escape in it is not '%' and two hex digits");
	} else if (c == '%') {
		form->hex_left = 2;
		form->byte = 0;
	} else {
		take(form, c == '+' ? ' ' : c);
	}
	return KH_BODY_KEEP;
}

enum kh_body_step kh_body_form_byte(struct kh_body_form *form, unsigned char c, const char **why)
{
	if (!form->in_value)
		return name_byte(form, c, why);
	bool ours = form->ours;
	if (c == ';' && ours)
		return fault(why, "the member's value holds a ';', at which some servers part it");
	if (c == '&' || c == ';') {
		begin_member(form, c == ';');
		return KH_BODY_KEEP;
	}
	return ours ? KH_BODY_DROP : KH_BODY_KEEP;
}

size_t kh_body_form_plain(const struct kh_body_form *form, struct kh_slice rest)
{
	size_t n = 0;
	while (form->in_value && !form->ours && n < rest.len && rest.ptr[n] != '&' &&
	       rest.ptr[n] != ';')
		n++;
	return n;
}

bool kh_body_form_end(struct kh_body_form *form, const char **why)
{
	if (!form->in_value && end_name(form, '&', why) == KH_BODY_FAULT)
		return false;
	if (!form->filled)
		*why = "the member that the credential goes into is not in it";
	return form->filled;
}
