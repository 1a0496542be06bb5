/*
 * inject.c - all credentials that go into one request: which ones, into which fields, into the
 * target
 *
 * A target with a value in it is written like a head with one: while the pages are open, into a
 * wiping buffer. If the client has a parameter of that name, ours takes its place, for servers to
 * which the order matters. Other parameters that some server could take for that name are dropped.
 */
#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/encode.h>
#include <keyhole/http/target.h>

#include "credential_internal.h"

void kh_injection_fini(struct kh_injection *injection)
{
	for (size_t i = 0; i < injection->count; i++) {
		kh_secret_unref(injection->list[i].secret);
		free(injection->list[i].scope);
	}
	*injection = (struct kh_injection){ .count = 0 };
}

static void append(struct kh_injection *injection, const struct kh_config *config, uint16_t index)
{
	struct kh_injected *one = &injection->list[injection->count++];

	one->index = index;
	one->credential = &config->credentials[index];
}

void kh_injection_choose(struct kh_injection *injection, const struct kh_config *config,
			 uint16_t tenant, const struct kh_decision *decision)
{
	const struct kh_rule *rule = decision->rule;
	size_t from = 0, to = decision->bare ? 0 : rule->n_credentials;

	kh_injection_fini(injection);
	while (!rule->all_credentials && from < to &&
	       !kh_credential_is_present(&config->credentials[rule->credentials[from]], tenant))
		from++;
	if (!rule->all_credentials && to > 0) {
		from = from == to ? 0 : from;
		to = from + 1;
	}
	for (; from < to; from++)
		append(injection, config, rule->credentials[from]);
}

void kh_injection_choose_again(struct kh_injection *injection, const struct kh_injection *had,
			       const struct kh_config *config, uint16_t tenant,
			       const struct kh_decision *decision)
{
	const struct kh_rule *rule = decision->rule;
	bool is_one_of = !decision->bare && !rule->all_credentials && had->count == 1;

	for (size_t i = 0; is_one_of && i < rule->n_credentials; i++) {
		const char *name = config->credentials[rule->credentials[i]].name;
		if (strcmp(name, had->list[0].credential->name) != 0)
			continue;
		kh_injection_fini(injection);
		append(injection, config, rule->credentials[i]);
		return;
	}
	kh_injection_choose(injection, config, tenant, decision);
}

const char *kh_injection_binding_fault(const struct kh_injection *injection,
				       const struct kh_request_view *request,
				       const struct kh_credential_config **which)
{
	for (size_t i = 0; i < injection->count; i++) {
		const char *fault =
			kh_credential_binding_fault(injection->list[i].credential, request);

		*which = injection->list[i].credential;
		if (fault)
			return fault;
	}
	return NULL;
}

/* NULL: none of that name is among them. */
static const struct kh_credential_config *find_named(const struct kh_injection *injection,
						     const char *name)
{
	for (size_t i = 0; i < injection->count; i++)
		if (strcmp(injection->list[i].credential->name, name) == 0)
			return injection->list[i].credential;
	return NULL;
}

bool kh_injection_is_kept(const struct kh_injection *injection, const struct kh_injection *chosen,
			  uint16_t tenant, const struct kh_request_view *request)
{
	for (size_t i = 0; i < injection->count; i++) {
		const struct kh_credential_config *had = injection->list[i].credential;
		const struct kh_credential_config *has = find_named(chosen, had->name);
		if (!has || !kh_credential_is_for(has, tenant) ||
		    kh_credential_binding_fault(has, request) ||
		    (has->placeholder.required && !had->placeholder.required))
			return false;
	}
	return true;
}

bool kh_injection_sets_field(const struct kh_injection *injection, struct kh_slice name)
{
	for (size_t i = 0; i < injection->count; i++)
		if (kh_credential_sets_field(injection->list[i].credential, name))
			return true;
	return false;
}

static enum kh_placement_kind kind_of(const struct kh_injected *one)
{
	return kh_placement_kind_of(one->credential->placement);
}

bool kh_injection_put_fields(const struct kh_injection *injection, struct kh_buf *out,
			     struct kh_err *err)
{
	for (size_t i = 0; i < injection->count; i++) {
		const struct kh_injected *one = &injection->list[i];

		if (kind_of(one) == KH_PLACEMENT_FIELDS &&
		    !kh_credential_put_fields(one->credential, one->secret, out, err))
			return false;
	}
	return kh_credential_put_cookies(injection, out, err);
}

/* ---- the target ---- */

bool kh_injection_sets_target(const struct kh_injection *injection)
{
	for (size_t i = 0; i < injection->count; i++)
		if (kh_placement_is_in_target(injection->list[i].credential->placement))
			return true;
	return false;
}

static bool too_long(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_REQUEST_URI_TOO_LONG,
			  "the target does not fit into what may be sent upstream");
}

struct target {
	const struct kh_injection *injection;
	struct kh_buf *out;
	bool put[KH_RULE_CREDENTIALS];
	bool any; /* a parameter is there already */
	const char *fault;
};

static bool put_value(struct kh_slice value, void *arg)
{
	struct target *t = arg;

	if (!kh_percent_encode(t->out, value, ""))
		t->fault = "no room for it in the request's target";
	return t->fault == NULL;
}

static bool put_parameter(struct target *t, size_t i, struct kh_err *err)
{
	const struct kh_injected *one = &t->injection->list[i];
	const char *name = one->credential->placement->name;

	t->put[i] = true;
	t->fault = NULL;
	if ((t->any && !kh_buf_append_char(t->out, '&')) || !kh_buf_append_str(t->out, name) ||
	    !kh_buf_append_char(t->out, '='))
		t->fault = "no room for it in the request's target";
	t->any = true;
	if (!t->fault && kh_secret_expose(one->secret, put_value, t))
		return true;
	return kh_err_set(err, KH_ERR_CREDENTIAL_UNAVAILABLE, "credential %s: %s",
			  one->credential->name, t->fault ? t->fault : "its page can't be read");
}

/* Which of ours is named so? Return: an index, `count` for none. */
static size_t ours(const struct kh_injection *injection, struct kh_slice name)
{
	size_t i = 0;

	while (i < injection->count &&
	       (kind_of(&injection->list[i]) != KH_PLACEMENT_QUERY ||
		!kh_carrier_is_named(name,
				     kh_slice_str(injection->list[i].credential->placement->name))))
		i++;
	return i;
}

/* A signature of the client's (ours is none) takes along what only means something beside it. */
static bool is_signed(const struct kh_injection *injection, struct kh_slice query)
{
	struct kh_slice name, value;

	while (kh_query_next(&query, &name, &value))
		if (kh_carrier_is_signature(name) && ours(injection, name) == injection->count)
			return true;
	return false;
}

/* As in carriers.c: of the separators around what was taken out the '&' stays. */
static bool put_query(struct target *t, struct kh_slice query, struct kh_err *err)
{
	struct kh_slice rest = query, name, value;
	bool with_companions = is_signed(t->injection, query);
	char separator = '&';

	while (kh_query_next(&rest, &name, &value)) {
		size_t len = value.ptr == name.ptr + name.len ? name.len : name.len + 1 + value.len;
		size_t i = ours(t->injection, name);
		char behind = rest.ptr ? name.ptr[len] : '&';

		if (i < t->injection->count) {
			if (!t->put[i] && !put_parameter(t, i, err))
				return false;
			separator = '&';
		} else if (kh_carrier_goes(name, with_companions)) {
			separator = separator == '&' ? '&' : behind;
		} else if ((t->any && !kh_buf_append_char(t->out, separator)) ||
			   !kh_buf_append(t->out, name.ptr, len)) {
			return too_long(err);
		} else {
			t->any = true;
			separator = behind;
		}
	}
	for (size_t i = 0; i < t->injection->count; i++)
		if (kind_of(&t->injection->list[i]) == KH_PLACEMENT_QUERY && !t->put[i] &&
		    !put_parameter(t, i, err))
			return false;
	return true;
}

bool kh_injection_put_target(const struct kh_injection *injection, struct kh_slice raw,
			     struct kh_buf *out, struct kh_err *err)
{
	size_t before = kh_buf_len(out), mark = kh_slice_find(raw, '?', 0);
	struct target t = { .injection = injection, .out = out };

	if (injection->count == 0)
		return kh_buf_append_slice(out, raw) || too_long(err);
	if (!kh_injection_sets_target(injection))
		return kh_carrier_strip_query(out, raw) || too_long(err);
	if (!out->wipe)
		return kh_err_set(err, KH_ERR_INTERNAL,
				  "the target is not written into a wiping buffer");
	if (raw.len == 0 || raw.ptr[0] != '/')
		return kh_err_set(err, KH_ERR_CREDENTIAL_BINDING,
				  "a request for '*' has no query, and a credential goes into it");
	if (!kh_buf_append_slice(out, kh_slice_sub(raw, 0, mark)) || !kh_buf_append_char(out, '?'))
		return too_long(err);
	/* Without a '?' there is nothing to step through. */
	if (put_query(&t,
		      mark < raw.len ? kh_slice_sub(raw, mark + 1, raw.len)
				     : (struct kh_slice){ 0 },
		      err))
		return true;
	kh_buf_truncate(out, before);
	return false;
}

const struct kh_injected *kh_injection_body(const struct kh_injection *injection)
{
	for (size_t i = 0; i < injection->count; i++)
		if (kind_of(&injection->list[i]) == KH_PLACEMENT_BODY)
			return &injection->list[i];
	return NULL;
}

const char *kh_injection_names(const struct kh_injection *injection, char *out, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < injection->count && used < size; i++) {
		int n = snprintf(out + used, size - used, "%s%s", i ? "," : "",
				 injection->list[i].credential->name);
		used += n > 0 ? (size_t)n : 0;
	}
	return injection->count > 0 ? out : NULL;
}
