/* pages_internal.h - the pages of http://keyhole.internal/ */
#ifndef KEYHOLE_EXCHANGE_PAGES_INTERNAL_H
#define KEYHOLE_EXCHANGE_PAGES_INTERNAL_H

#include "exchange_internal.h"

/* 200 rules, their credentials and their limits fit many times over. */
enum { KH_PAGE_BYTES = 1024 * 1024 };

/* Is application/json named before any text? */
bool kh_page_wants_json(const struct kh_message *message);
/* ,"name":"value" */
void kh_page_member(struct kh_buf *out, const char *name, struct kh_slice value);

/* env.c: this sandbox's placeholders, as lines for a shell or as an object. */
bool kh_page_put_env(struct kh_buf *out, const struct kh_exchange *x, bool json,
		     struct kh_err *err);
/* dry_run_page.c: /why?url=URL[&method=METHOD][&model=NAME]. Return: false with `err`: that is no
 * request.
 */
bool kh_page_put_dry_run(struct kh_buf *out, const struct kh_exchange *x, bool json,
			 struct kh_err *err);

#endif
