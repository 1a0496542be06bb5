/*
 * env.c - http://keyhole.internal/env: the placeholders that a sandbox holds
 *
 * For a sandbox that was not started with them: `eval "$(curl -s http://keyhole.internal/env)"`.
 * Each sandbox gets only its own.
 */

#include <keyhole/config/config.h>

#include "pages_internal.h"

struct page {
	struct kh_buf *out;
	bool json;
	bool any;
};

/* A value has no quotes: alphabets and prefixes have none. */
static bool put_variable(const char *variable, const char *value, void *arg)
{
	struct page *page = arg;

	if (!page->json)
		return kh_buf_printf(page->out, "export %s='%s'\n", variable, value);
	bool ok = kh_buf_append_char(page->out, page->any ? ',' : '{');
	page->any = true;
	return ok && kh_json_string(page->out, kh_slice_str(variable)) &&
	       kh_buf_append_char(page->out, ':') && kh_json_string(page->out, kh_slice_str(value));
}

bool kh_page_put_env(struct kh_buf *out, const struct kh_exchange *x, bool json, struct kh_err *err)
{
	struct page page = { .out = out, .json = json };

	if (!kh_placeholders_each(x->gen->config, x->tenant,
				  kh_listener_placeholder_name(x->listener), put_variable, &page,
				  err)) {
		if (err->code == KH_ERR_NONE)
			kh_err_set(err, KH_ERR_NO_MEMORY, "the page does not fit");
		return false;
	}
	return !json || kh_buf_append_str(out, page.any ? "}\n" : "{}\n");
}
