/*
 * placeholder_check.c - placeholders in what leaves a sandbox
 *
 * A sandbox's own placeholder may be where authentication is removed because a credential goes in.
 * Anywhere else in the head that is sent it is refused. Another sandbox's placeholder is refused
 * everywhere. Content is searched while it is forwarded: a placeholder in it is noted for the
 * journal, or refused if the rule says so.
 */

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/cleanup.h>

#include "exchange_internal.h"
#include "placeholder_check.h"

enum { FOUND_BYTES = 160 };

/* ---- placeholders ---- */

struct look {
	const struct kh_exchange *x;
	bool goes;	/* this text leaves */
	bool misplaced; /* `mark` is one that is not to be there */
	bool foreign, own;
	struct kh_mark mark;
	struct kh_mark held[KH_RULE_CREDENTIALS + 1]; /* the sandbox's own */
	size_t n_held;
};

/* Drawn once for each configuration. */
static const struct kh_owner_tag *own_tags(const struct kh_exchange *x)
{
	struct kh_acceptor *acceptor = x->side->acceptor;
	const struct kh_config *config = x->gen->config;

	if (acceptor->tags_of != x->gen->number + 1U) {
		for (size_t i = 0; i < x->gen->recogniser.n_keys; i++)
			kh_owner_tag_make(&acceptor->tags[i], &config->placeholder_keys[i],
					  config->tenants[x->tenant].name,
					  kh_listener_placeholder_name(x->listener));
		acceptor->tags_of = x->gen->number + 1U;
	}
	return acceptor->tags;
}

static bool is_own(const struct kh_exchange *x, const struct kh_mark *mark)
{
	return kh_mark_is_of(mark, &own_tags(x)[mark->key]);
}

static bool is_named(const struct kh_exchange *x, const struct kh_mark *mark, size_t index)
{
	const struct kh_recogniser *r = &x->gen->recogniser;

	return kh_mark_is_named(mark, &r->names[index * r->n_keys + mark->key]);
}

/* "the placeholder of github"; of its own only, of others no name is told. */
static const char *describe(const struct kh_exchange *x, const struct kh_mark *mark, char *out,
			    size_t size)
{
	const struct kh_config *config = x->gen->config;

	if (!is_own(x, mark))
		return "a placeholder that is not this sandbox's";
	for (size_t i = 0; i < config->n_credentials; i++)
		if (is_named(x, mark, i)) {
			(void)snprintf(out, size, "the placeholder of %s",
				       config->credentials[i].name);
			return out;
		}
	return "a placeholder";
}

static bool look_for_marks(struct kh_slice text, void *arg)
{
	struct look *look = arg;
	struct kh_mark mark;

	for (size_t at = 0; kh_marks_find(look->x->gen->recogniser.marks, text, &at, &mark);) {
		bool own = is_own(look->x, &mark);
		if (own && !look->goes) {
			if (look->n_held < sizeof(look->held) / sizeof(look->held[0]))
				look->held[look->n_held++] = mark;
			continue;
		}
		look->mark = mark;
		look->misplaced = true;
		return false;
	}
	return true;
}

/* Return: false with `err`. */
static bool look_at(struct look *look, struct kh_slice text, bool goes, const char *where,
		    struct kh_slice name, struct kh_err *err)
{
	char what[128];

	look->goes = goes;
	look->misplaced = false;
	if (kh_recognise_each_reading(text, look_for_marks, look))
		return true;
	if (!look->misplaced)
		return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory to look into the request");
	const struct kh_exchange *x = look->x;
	return kh_err_set(
		err, KH_ERR_EXFILTRATION,
		"%s %s contains %s, which is replaced where its credential goes and is of "
		"no use elsewhere: leave it out",
		where, kh_esc(name), describe(x, &look->mark, what, sizeof(what)));
}

/* Two credentials that clients look for in one variable have one placeholder. */
static bool is_for(const struct kh_exchange *x, const struct kh_mark *mark, size_t index)
{
	const struct kh_config *config = x->gen->config;
	const char *variable = config->credentials[index].env_name;

	if (is_named(x, mark, index))
		return true;
	for (size_t i = 0; variable && i < config->n_credentials; i++)
		if (config->credentials[i].env_name &&
		    strcmp(config->credentials[i].env_name, variable) == 0 && is_named(x, mark, i))
			return true;
	return false;
}

/* The sandbox's placeholder for that credential among those that stood there? */
static bool holds(const struct look *look, size_t index)
{
	const struct kh_credential_config *credential = &look->x->gen->config->credentials[index];
	bool signs = credential->placement && credential->placement->kind == KH_PLACEMENT_SIGV4;

	for (size_t i = 0; i < look->n_held; i++)
		if (signs || is_for(look->x, &look->held[i], index))
			return true; /* a key's id has no room for a name */
	return false;
}

/* Is this where the value goes? */
static bool is_place(const struct kh_injected *one, struct kh_slice field)
{
	const struct kh_placement *placement = one->credential->placement;

	if (placement && placement->kind == KH_PLACEMENT_SIGV4)
		return kh_slice_eq_nocase(field, KH_SLICE("authorization"));
	return kh_credential_sets_field(one->credential, field);
}

static bool is_parameter(const struct kh_injected *one, struct kh_slice name)
{
	const struct kh_placement *placement = one->credential->placement;

	switch (kh_placement_kind_of(placement)) {
	case KH_PLACEMENT_SIGV4:
		return kh_carrier_is_named(name, KH_SLICE("X-Amz-Credential"));
	case KH_PLACEMENT_QUERY:
		return kh_carrier_is_named(name, kh_slice_str(placement->name));
	case KH_PLACEMENT_NONE:
	case KH_PLACEMENT_FIELDS:
	case KH_PLACEMENT_COOKIE:
	case KH_PLACEMENT_BODY:
	case KH_PLACEMENT_HMAC:
	case KH_PLACEMENT_MTLS:
	case KH_PLACEMENT_KINDS:
		break;
	}
	return false;
}

static void note_held(const struct look *look, size_t i, bool *seen)
{
	seen[i] = seen[i] || holds(look, look->x->injection.list[i].index);
}

static bool look_at_fields(struct look *look, bool *seen, struct kh_err *err)
{
	const struct kh_exchange *x = look->x;
	bool takes_out = x->injection.count > 0;
	struct kh_slice for_us = kh_auth_field(x->side);

	for (size_t f = 0; f < x->message->n_fields; f++) {
		const struct kh_field *field = &x->message->fields[f];
		bool protocols =
			kh_slice_eq_nocase(field->name, KH_SLICE("sec-websocket-protocol"));
		bool goes = protocols ? !takes_out || !kh_carrier_is_among_protocols(x->message)
				      : kh_request_forwards(x, field);
		if (!look_at(look, field->name, true, "the name of", KH_SLICE("a field"), err))
			return false;
		look->n_held = 0;
		if (kh_slice_eq_nocase(field->name, for_us))
			continue;
		if (!look_at(look, field->value, goes, "the field", field->name, err))
			return false;
		for (size_t i = 0; look->n_held > 0 && i < x->injection.count; i++)
			if (is_place(&x->injection.list[i], field->name))
				note_held(look, i, seen);
	}
	return true;
}

static bool look_at_query(struct look *look, bool *seen, struct kh_err *err)
{
	const struct kh_exchange *x = look->x;
	struct kh_slice rest = x->target.query, name, value;

	while (rest.ptr && kh_query_next(&rest, &name, &value)) {
		bool goes = !kh_request_drops_parameter(x, name);
		look->n_held = 0;
		for (size_t i = 0; i < x->injection.count; i++)
			goes = goes && !is_parameter(&x->injection.list[i], name);
		if (!look_at(look, name, true, "the query's", KH_SLICE("parameter"), err) ||
		    !look_at(look, value, goes, "the query's parameter", name, err))
			return false;
		for (size_t i = 0; look->n_held > 0 && i < x->injection.count; i++)
			if (is_parameter(&x->injection.list[i], name))
				note_held(look, i, seen);
	}
	return true;
}

bool kh_placeholder_check(const struct kh_exchange *x, struct kh_err *err)
{
	struct look look = { .x = x };
	bool seen[KH_RULE_CREDENTIALS] = { false };

	if (!x->gen->recogniser.marks)
		return true;
	if (!look_at(&look, x->message->method, true, "the", KH_SLICE("method"), err) ||
	    !look_at(&look, x->target.raw_path, true, "the", KH_SLICE("path"), err) ||
	    !look_at_query(&look, seen, err) || !look_at_fields(&look, seen, err))
		return false;
	for (size_t i = 0; i < x->injection.count; i++) {
		const struct kh_injected *one = &x->injection.list[i];
		if (one->credential->placeholder.required &&
		    kh_placement_shows_placeholder(one->credential->placement) && !seen[i])
			return kh_err_set(
				err, KH_ERR_PLACEHOLDER_MISSING,
				"credential %s goes into requests that carry this "
				"sandbox's placeholder in its place, and this one does "
				"not%s%s",
				one->credential->name,
				one->credential->env_name ? ": it is in the variable " : "",
				one->credential->env_name ? one->credential->env_name : "");
	}
	return true;
}

bool kh_placeholder_settle(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_err why = KH_ERR_INIT;

	if (kh_placeholder_check(x, &why))
		return true;
	if (why.code != KH_ERR_NO_MEMORY && kh_exchange_observe(x, why.code, x->decision.rule))
		return true;
	*err = why;
	return false;
}

bool kh_placeholder_trailer_may_go(const struct kh_exchange *x, const struct kh_field *field,
				   struct kh_err *err)
{
	struct look look = { .x = x };

	return kh_recognise_none_in_trailer(x, field, err) &&
	       (!x->gen->recogniser.marks ||
		(look_at(&look, field->name, true, "the name of", KH_SLICE("a field"), err) &&
		 look_at(&look, field->value, true, "the field", field->name, err)));
}

/* ---- content ---- */

struct kh_content_look {
	struct kh_mark_scan scan;
	/* What a WebSocket's control frames hold, which come between pieces of a message and are no
	   part of it; NULL: none held anything. */
	struct kh_mark_scan *controls;
	unsigned left_alone; /* placeholders of the sandbox's own that a value replaces there */
	char found[FOUND_BYTES];
};

void kh_content_look_free(struct kh_content_look *look)
{
	if (look)
		free(look->controls);
	free(look);
}

size_t kh_content_look_kept_bytes(const struct kh_content_look *look)
{
	return look ? sizeof(*look) + (look->controls ? sizeof(*look->controls) : 0) : 0;
}

/* The name of the credential where it is the sandbox's own. */
static const char *short_name(const struct kh_exchange *x, const struct kh_mark *mark)
{
	const struct kh_config *config = x->gen->config;

	if (mark->len > 0 && !is_own(x, mark))
		return "(another's)";
	for (size_t i = 0; mark->len > 0 && i < config->n_credentials; i++)
		if (is_named(x, mark, i))
			return config->credentials[i].name;
	return "(unknown)";
}

static bool has_refusal(const struct kh_decision *decision)
{
	return decision->rule && decision->rule->placeholder_refuse;
}

/* The rule that refuses placeholders in content: the one that it began under, or the one in force
 * by now. NULL: neither does. */
static const struct kh_rule *refusing_rule(const struct kh_exchange *x)
{
	return has_refusal(&x->decision)	  ? x->decision.rule
	       : has_refusal(&x->ruling.decision) ? x->ruling.decision.rule
						  : NULL;
}

/* Beside a value that goes into the content, one that does not belong there is refused when all of
 * it has come (an eager scan stops by itself, before). */
static bool refuses(const struct kh_exchange *x)
{
	return refusing_rule(x) && !x->content_look->scan.ended;
}

static bool note_mark(const struct kh_mark *mark, void *arg)
{
	const struct kh_exchange *x = arg;
	struct kh_content_look *look = x->content_look;
	const char *name = short_name(x, mark);
	size_t used = strlen(look->found), len = strlen(name);

	if (look->left_alone > 0 && is_own(x, mark)) {
		look->left_alone--;
		return true;
	}
	const char *there = strstr(look->found, name);
	if (there && (there == look->found || there[-1] == ',') &&
	    (there[len] == ',' || !there[len]))
		return !refuses(x);
	if (used + len + 2 < sizeof(look->found))
		(void)snprintf(look->found + used, sizeof(look->found) - used, "%s%s",
			       used ? "," : "", name);
	return !refuses(x);
}

static unsigned places_in_content(const struct kh_exchange *x)
{
	unsigned n = 0;

	for (size_t i = 0; i < x->injection.count; i++)
		n += x->injection.list[i].credential->placement &&
		     x->injection.list[i].credential->placement->kind == KH_PLACEMENT_BODY;
	return n;
}

static bool no_memory(struct kh_err *err)
{
	return kh_err_set(err, KH_ERR_NO_MEMORY, "no memory to look into the content");
}

static void begin_scan(const struct kh_exchange *x, struct kh_mark_scan *scan)
{
	scan->marks = x->gen->recogniser.marks;
}

static bool begin_look(struct kh_exchange *x, struct kh_err *err)
{
	if (x->content_look)
		return true;
	x->content_look = calloc(1, sizeof(*x->content_look));
	if (!x->content_look)
		return no_memory(err);
	x->content_look->left_alone = places_in_content(x);
	begin_scan(x, &x->content_look->scan);
	return true;
}

static bool is_looked_for(const struct kh_exchange *x, struct kh_slice piece)
{
	return x->gen->recogniser.marks && !x->tunnel && piece.len > 0;
}

static bool feed(struct kh_exchange *x, struct kh_mark_scan *scan, struct kh_slice piece,
		 struct kh_err *err)
{
	const struct kh_rule *rule = refusing_rule(x);

	scan->eager = rule && places_in_content(x) == 0;
	if (kh_mark_scan_feed(scan, piece, note_mark, x))
		return true;
	return kh_err_set(err, KH_ERR_EXFILTRATION,
			  "a placeholder is in the content, which the rule '%s' refuses "
			  "(placeholder: refuse): leave it out",
			  rule ? rule->text : "");
}

bool kh_content_look_at(struct kh_exchange *x, struct kh_slice piece, struct kh_err *err)
{
	return !is_looked_for(x, piece) ||
	       (begin_look(x, err) && feed(x, &x->content_look->scan, piece, err));
}

bool kh_content_look_at_control(struct kh_exchange *x, struct kh_slice payload, struct kh_err *err)
{
	struct kh_content_look *look;

	if (!is_looked_for(x, payload))
		return true;
	if (!begin_look(x, err))
		return false;
	look = x->content_look;
	if (!look->controls) {
		look->controls = calloc(1, sizeof(*look->controls));
		if (!look->controls)
			return no_memory(err);
		begin_scan(x, look->controls);
	}
	return feed(x, look->controls, payload, err);
}

static void end_scan(struct kh_exchange *x, struct kh_mark_scan *scan)
{
	if (scan && !scan->eager && !scan->ended)
		(void)kh_mark_scan_end(scan, note_mark, x);
}

const char *kh_placeholder_found_in_content(struct kh_exchange *x)
{
	struct kh_content_look *look = x->content_look;

	if (!look)
		return NULL;
	end_scan(x, &look->scan);
	end_scan(x, look->controls);
	return look->found[0] ? look->found : NULL;
}
