/*
 * body_form.c - finds a member of application/x-www-form-urlencoded content
 *
 * Servers split members at '&', some at ';' too. They undo escapes and '+'. Some drop blanks around
 * a name or cut it at '[' or NUL. Some take '.', '-', '[' and blanks for '_', or fold case
 * (form_name.c, spelling.h). Each name that any of them could take for the wanted one must be
 * spelled exactly so, and must occur only once.
 */
#include "body_internal.h"

void kh_body_form_init(struct kh_body_form *form, const char *name)
{
	*form = (struct kh_body_form){ .wanted = name };
}

static void begin_member(struct kh_body_form *form, bool after_semicolon)
{
	form->in_value = form->ours = form->odd = false;
	form->after_semicolon = after_semicolon;
	form->hex_left = 0;
	form->bytes = 0;
	kh_form_name_begin(&form->name);
}

/* Is it the name to some reader? *exactly: and to all. */
static bool is_wanted(const struct kh_body_form *form, bool *exactly)
{
	struct kh_slice wanted = kh_slice_str(form->wanted);
	/* As many bytes: nothing was taken off. */
	*exactly = !form->odd && form->bytes == wanted.len &&
		   kh_slice_eq(kh_form_name_text(&form->name), wanted);
	return kh_form_name_is(&form->name, wanted);
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
		return fault(why, "an escape in it is not '%' and two hex digits");
	if (!is_wanted(form, &exactly))
		return KH_BODY_KEEP;
	if (form->filled || !exactly || form->after_semicolon)
		return fault(why, "the member is in it twice, or in a spelling that not all "
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
	if (form->hex_left > 0 && digit < 0)
		return fault(why, "an escape in it is not '%' and two hex digits");
	if (form->hex_left > 0)
		form->hex_left--;
	else if (c == '%')
		form->hex_left = 2;
	/* A name needs neither escapes nor blanks. */
	form->odd = form->odd || c == '%' || c == '+' || kh_spelling_is_blank((char)c);
	form->bytes++;
	kh_form_name_byte(&form->name, (char)c);
	return KH_BODY_KEEP;
}

enum kh_body_step kh_body_form_byte(struct kh_body_form *form, unsigned char c, const char **why)
{
	if (!form->in_value)
		return name_byte(form, c, why);
	bool ours = form->ours;
	if (c == ';' && ours)
		return fault(why,
			     "the member's value contains a ';', at which some servers part it");
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
