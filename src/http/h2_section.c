/* h2_section.c - collects a field section field by field as nghttp2 decodes it, up to the caps */
#include "h2_internal.h"

#include <keyhole/base/block.h>

enum { USUAL_BYTES = 1024 };

bool kh_h2_section_begin(struct kh_h2 *h2, bool is_request)
{
	struct kh_h2_section *section = h2->section;

	if (!section) {
		size_t size = sizeof(*section);
		section = h2->section = kh_block_get(&size);
		if (!section)
			return false;
		kh_buf_init(&section->text, KH_LIMIT_HEAD_BYTES);
		kh_buf_init(&section->cookie, KH_LIMIT_FIELD_BYTES);
	}
	if (!kh_buf_reserve(&section->text, USUAL_BYTES))
		return false;
	kh_buf_clear(&section->cookie);
	kh_buf_clear(&section->text);
	section->n_fields = 0;
	memset(section->pseudo, 0, sizeof(section->pseudo));
	section->decoded_bytes = 0;
	section->is_request = is_request;
	section->too_large = false;
	section->wrong = NULL;
	return true;
}

/* Between sections nothing is kept that a connection at rest would hold for hours. */
void kh_h2_section_rest(struct kh_h2 *h2)
{
	if (!h2->section)
		return;
	kh_buf_fini(&h2->section->text);
	kh_buf_fini(&h2->section->cookie);
	kh_block_give(h2->section);
	h2->section = NULL;
}

bool kh_h2_section_is_tunnel(const struct kh_h2_section *section)
{
	const struct kh_h2_part *method = &section->pseudo[KH_H2_METHOD];
	struct kh_slice text = kh_buf_view(&section->text);

	return section->pseudo[KH_H2_PROTOCOL].name_len == 0 && method->name_len > 0 &&
	       kh_slice_eq(kh_slice_sub(text, method->value, method->value + method->value_len),
			   KH_SLICE("CONNECT"));
}

static struct kh_h2_part *pseudo_slot(struct kh_h2_section *section, struct kh_slice name)
{
	static const struct kh_slice names[] = {
		[KH_H2_METHOD] = KH_SLICE_INIT(":method"),
		[KH_H2_SCHEME] = KH_SLICE_INIT(":scheme"),
		[KH_H2_AUTHORITY] = KH_SLICE_INIT(":authority"),
		[KH_H2_PATH] = KH_SLICE_INIT(":path"),
		[KH_H2_PROTOCOL] = KH_SLICE_INIT(":protocol"),
		[KH_H2_STATUS] = KH_SLICE_INIT(":status"),
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (kh_slice_eq(name, names[i]))
			return (i == KH_H2_STATUS) == section->is_request ? NULL
									  : &section->pseudo[i];
	return NULL;
}

static const char *pseudo_wrong(const struct kh_h2_section *section, const struct kh_h2_part *part)
{
	if (!part)
		return "a pseudo-field that does not belong there";
	if (part->name_len > 0)
		return "a pseudo-field is there twice";
	if (section->n_fields > 0 || kh_buf_len(&section->cookie) > 0)
		return "a pseudo-field after other fields";
	return NULL;
}

static bool put_text(struct kh_h2_section *section, struct kh_h2_part *part, struct kh_slice name,
		     struct kh_slice value)
{
	size_t at = kh_buf_len(&section->text);

	if (name.len + value.len > KH_LIMIT_FIELD_BYTES ||
	    !kh_buf_append_slice(&section->text, name) ||
	    !kh_buf_append_slice(&section->text, value))
		return false;
	*part = (struct kh_h2_part){ .name = (uint32_t)at,
				     .name_len = (uint32_t)name.len,
				     .value = (uint32_t)(at + name.len),
				     .value_len = (uint32_t)value.len };
	return true;
}

static void add_field(struct kh_h2_section *section, struct kh_slice name, struct kh_slice value)
{
	if (section->n_fields == KH_LIMIT_FIELDS ||
	    !put_text(section, &section->fields[section->n_fields], name, value))
		section->too_large = true;
	else
		section->n_fields++;
}

/* A blank at a crumb's end would not be one any more within the whole. */
static void add_crumb(struct kh_h2_section *section, struct kh_slice value)
{
	struct kh_buf *cookie = &section->cookie;

	if (value.len == 0 || kh_slice_trim(value).len != value.len)
		section->wrong = "a cookie crumb that is empty or has a blank at either end";
	else if ((kh_buf_len(cookie) > 0 && !kh_buf_append_str(cookie, "; ")) ||
		 !kh_buf_append_slice(cookie, value))
		section->too_large = true;
}

void kh_h2_section_join_cookies(struct kh_h2_section *section)
{
	if (kh_buf_len(&section->cookie) > 0)
		add_field(section, KH_SLICE("cookie"), kh_buf_view(&section->cookie));
	kh_buf_clear(&section->cookie);
}

/* Once something is wrong, what follows is only counted. */
bool kh_h2_section_add(struct kh_h2_section *section, struct kh_slice name, struct kh_slice value)
{
	enum { OVERHEAD = 32 }; /* RFC 9113 §6.5.2 */

	section->decoded_bytes += name.len + value.len + OVERHEAD;
	if (section->decoded_bytes > KH_LIMIT_H2_DECODED_BYTES)
		return false;
	if (section->wrong || section->too_large)
		return true;
	if (name.len == 0) {
		section->wrong = "a field name is empty";
	} else if (name.ptr[0] == ':') {
		struct kh_h2_part *part = pseudo_slot(section, name);

		section->wrong = pseudo_wrong(section, part);
		if (!section->wrong && !put_text(section, part, name, value))
			section->too_large = true;
	} else if (section->is_request && kh_slice_eq(name, KH_SLICE("cookie"))) {
		add_crumb(section, value);
	} else {
		add_field(section, name, value);
	}
	return true;
}
