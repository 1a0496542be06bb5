/*
 * recognise.c - real credentials in what leaves a sandbox
 *
 * A real one never leaves, wherever it goes and whatever the rules say. A sandbox that sees which
 * of its requests hold one could find a value out by trying. So a request that holds one goes the
 * way of any other up to where it would leave: one that is refused before gets the same answer as
 * without, after the same work. Only where it would leave is it refused for what it holds, and how
 * often that may happen is bounded. The journal always says which requests held one.
 *
 * A text is read as it is and, three times over, with the escapes of what was read before undone.
 */

#include <stdio.h>
#include <stdlib.h>

#include <keyhole/base/cleanup.h>
#include <keyhole/base/clock.h>
#include <keyhole/base/guess.h>
#include <keyhole/credential/fingerprints.h>

#include "exchange_internal.h"
#include "placeholder_check.h"

enum { READINGS = 4 };

bool kh_each_reading(struct kh_slice text, bool (*fn)(struct kh_slice text, void *arg), void *arg)
{
	kh_auto_free char *undone = NULL;

	for (int i = 0; i < READINGS; i++) {
		if (!fn(text, arg))
			return false;
		if (text.len == 0 ||
		    (!memchr(text.ptr, '%', text.len) && !memchr(text.ptr, '\\', text.len)))
			return true;
		char *next = malloc(text.len);
		if (!next)
			return false;
		size_t len = kh_mark_unescape(text, next);
		free(undone);
		undone = next;
		text = kh_slice_of(undone, len);
		if (len == 0)
			return true;
	}
	return true;
}

/* What is sought, and where it was found first. */
struct secrets {
	struct kh_fingerprints *prints;
	struct kh_print_search *search; /* of the text that is looked through */
	unsigned candidates;		/* of all texts */
	const char *where;		/* NULL: nowhere */
	struct kh_slice name;
	uint16_t index;
};

static bool add_reading(struct kh_slice text, void *arg)
{
	struct secrets *s = arg;

	kh_prints_find(s->prints, text, s->search);
	return true;
}

/* Return: false: no memory. *holds: this text does. */
static bool look_through(struct secrets *s, struct kh_slice text, const char *where,
			 struct kh_slice name, bool *holds, struct kh_err *err)
{
	struct kh_print_search search = { .candidates = s->candidates };

	s->search = &search;
	bool ok = kh_each_reading(text, add_reading, s);
	s->search = NULL;
	s->candidates = search.candidates;
	*holds = search.found;
	if (*holds && !s->where) {
		s->where = where;
		s->name = name;
		s->index = search.index;
	}
	return ok || kh_err_set(err, KH_ERR_NO_MEMORY, "no memory to look into the request");
}

/* A host is in small letters, in which values are known too, and may have a value's pieces in its
 * labels. */
static bool look_through_host(struct secrets *s, struct kh_slice host, struct kh_slice name,
			      bool *holds, struct kh_err *err)
{
	char joined[KH_HOST_MAX_BYTES];
	size_t len = 0;
	bool split;

	*holds = false;
	if (host.len < KH_GUESS_WINDOW_BYTES || host.len > sizeof(joined))
		return true;
	for (size_t i = 0; i < host.len; i++)
		if (host.ptr[i] != '.')
			joined[len++] = host.ptr[i];
	if (!look_through(s, host, "the", name, holds, err) ||
	    !look_through(s, kh_slice_of(joined, len), "the", name, &split, err))
		return false;
	*holds = *holds || split;
	return true;
}

static void say_found(const struct secrets *s, struct kh_err *err)
{
	kh_err_set(err, KH_ERR_EXFILTRATION,
		   "%s %s holds a real credential, which stays on the host: nothing of this "
		   "request was sent",
		   s->where, kh_esc(s->name));
}

/* A line for the log, which is written when the answer has gone. */
struct notice {
	struct kh_deferred_free deferred_free;
	char text[256];
};

static void write_notice(struct kh_deferred_free *deferred_free)
{
	struct notice *notice = kh_container_of(deferred_free, struct notice, deferred_free);

	kh_log_warn("%s", notice->text);
	free(notice);
}

static void log_found(const struct kh_exchange *x, const struct secrets *s)
{
	const struct kh_config *config = x->gen->config;
	uint16_t index = s->index;
	struct notice *notice =
		kh_acceptor_may_log(x->side->door) ? calloc(1, sizeof(*notice)) : NULL;

	if (!notice)
		return;
	(void)snprintf(notice->text, sizeof(notice->text), "%s: sandbox %s sends %s%s in %s %s",
		       x->id, x->side->door->config->sandbox,
		       index < config->n_credentials ? "the value of credential "
						     : "what nearly is one of many credentials",
		       index < config->n_credentials ? config->credentials[index].name : "",
		       s->where, kh_esc(s->name));
	kh_loop_free_later(x->side->loop, &notice->deferred_free, write_notice);
}

struct kh_slice kh_recognise_method_shown(const struct kh_exchange *x)
{
	return x->method_hidden ? KH_SLICE("(hidden)") : x->message->method;
}

static bool is_easy(struct kh_slice text, void *arg)
{
	(void)arg;
	return !kh_guess_is_hard(text);
}

struct kh_slice kh_recognise_text_shown(struct kh_slice text)
{
	return kh_each_reading(text, is_easy, NULL) ? text : KH_SLICE("(hidden)");
}

static bool look_through_fields(const struct kh_exchange *x, struct secrets *s, struct kh_err *err)
{
	struct kh_slice for_us = kh_auth_field(x->side);
	bool ok = true, holds;

	for (size_t i = 0; ok && i < x->message->n_fields; i++) {
		const struct kh_field *field = &x->message->fields[i];
		/* A name that holds one is not said where its value does too. */
		ok = look_through(s, field->name, "the name of", KH_SLICE("a field"), &holds, err);
		struct kh_slice name = holds ? KH_SLICE("(hidden)") : field->name;
		ok = ok && (kh_slice_eq_nocase(field->name, for_us) ||
			    look_through(s, field->value, "the field", name, &holds, err));
	}
	return ok;
}

/* That of a tunnel was looked through when it began. What its handshake named instead of it is only
 * said in the journal. */
static bool look_through_hosts(struct kh_exchange *x, struct secrets *s, struct kh_err *err)
{
	const struct kh_down_side *side = x->side;
	bool holds;

	if (side->tunnel && side->other_name &&
	    !look_through_host(s, kh_slice_str(side->other_name), KH_SLICE("name of the handshake"),
			       &holds, err))
		return false;
	if (!side->tunnel || x->base_url)
		return look_through_host(s, kh_host_view(&x->authority.host), KH_SLICE("host"),
					 &x->host_hidden, err);
	x->host_hidden = side->host_holds;
	if (x->host_hidden && !s->where) {
		s->where = "the";
		s->name = KH_SLICE("host");
		s->index = side->host_index;
	}
	return true;
}

void kh_down_look_at_host(struct kh_down_side *side)
{
	struct secrets s = { .prints = kh_worker_fingerprints(side->loop->worker) };

	side->host_holds = false;
	if (!s.prints)
		return;
	/* Without memory nobody knows, and nothing goes there. */
	if (!look_through_host(&s, kh_host_view(&side->authority.host), KH_SLICE("host"),
			       &side->host_holds, NULL)) {
		side->host_holds = true;
		s.index = UINT16_MAX;
	}
	side->host_index = s.index;
	kh_prints_unref(s.prints);
}

const struct kh_authority *kh_authority_hidden(void)
{
	static const struct kh_authority hidden = {
		.host = { .kind = KH_HOST_NAME, .len = sizeof("(hidden)") - 1, .text = "(hidden)" },
	};

	return &hidden;
}

bool kh_recognise_in_text(struct kh_worker *worker, struct kh_slice text)
{
	struct secrets s = { .prints = kh_worker_fingerprints(worker) };
	char joined[sizeof(((struct kh_err *)NULL)->text)];
	bool whole = false, split = false, ok = true;
	size_t len = 0;

	if (!s.prints)
		return false;
	for (size_t i = 0; i < text.len && len < sizeof(joined); i++)
		if (text.ptr[i] != '.')
			joined[len++] = text.ptr[i];
	ok = look_through(&s, text, "a", KH_SLICE("text"), &whole, NULL) &&
	     look_through(&s, kh_slice_of(joined, len), "a", KH_SLICE("text"), &split, NULL);
	kh_prints_unref(s.prints);
	return !ok || whole || split;
}

bool kh_recognise_request(struct kh_exchange *x, struct kh_err *err)
{
	struct secrets s = { .prints = kh_worker_fingerprints(x->side->loop->worker) };
	struct kh_slice host = x->message->h2 ? x->message->host : KH_SLICE("");
	struct kh_err why = KH_ERR_INIT;
	bool in_host;

	if (!s.prints)
		return true;
	/* A method may be any token (RFC 9110 §9.1), and a key often is one. The target as it came:
	 * also of one that could not be read. */
	bool ok = look_through_hosts(x, &s, err) && look_through_fields(x, &s, err) &&
		  look_through(&s, host, "the", KH_SLICE(":authority"), &in_host, err) &&
		  look_through(&s, x->message->method, "the", KH_SLICE("method"), &x->method_hidden,
			       err) &&
		  look_through(&s, x->message->target, "the", KH_SLICE("path or query"),
			       &x->target_hidden, err);
	x->recognised = s.where != NULL;
	if (x->recognised) {
		say_found(&s, &why);
		kh_exchange_note(x, why.code, why.text);
		log_found(x, &s);
	}
	kh_prints_unref(s.prints);
	return ok;
}

void kh_recognise_even_out(const struct kh_exchange *x)
{
	struct kh_fingerprints *prints =
		x->recognised ? NULL : kh_worker_fingerprints(x->side->loop->worker);

	if (prints)
		kh_prints_spend(prints);
	kh_prints_unref(prints);
}

/* Of the bound on recognitions one is used up. */
static void count_recognition(struct kh_listener_stats *listener_stats)
{
	uint64_t now = kh_clock_mono_ms(), next;
	uint64_t before = atomic_load(&listener_stats->recognitions_ms);

	do {
		next = (before > now ? before : now) + KH_LIMIT_RECOGNITION_MS;
	} while (!atomic_compare_exchange_weak(&listener_stats->recognitions_ms, &before, next));
}

static bool is_held(struct kh_listener_stats *listener_stats)
{
	return atomic_load(&listener_stats->recognitions_ms) >
	       kh_clock_mono_ms() +
		       (uint64_t)(KH_LIMIT_RECOGNITIONS_BURST - 1) * KH_LIMIT_RECOGNITION_MS;
}

bool kh_recognise_may_leave(struct kh_exchange *x, struct kh_err *err)
{
	struct kh_listener_stats *listener_stats = x->side->door->listener_stats;

	if (is_held(listener_stats))
		return kh_err_set(err, KH_ERR_SANDBOX_HELD,
				  "this sandbox sent real credentials too often, so nothing of it "
				  "leaves for some seconds");
	if (!x->recognised)
		return true;
	count_recognition(listener_stats);
	return kh_err_set(err, KH_ERR_EXFILTRATION, "%s", x->detail);
}

bool kh_recognise_none_in_trailer(const struct kh_exchange *x, const struct kh_field *field,
				  struct kh_err *err)
{
	struct secrets s = { .prints = kh_worker_fingerprints(x->side->loop->worker) };
	bool holds;

	if (!s.prints)
		return true;
	bool ok = look_through(&s, field->name, "the name of", KH_SLICE("a field"), &holds, err) &&
		  look_through(&s, field->value, "the field",
			       holds ? KH_SLICE("(hidden)") : field->name, &holds, err);
	if (ok && s.where) {
		say_found(&s, err);
		log_found(x, &s);
		count_recognition(x->side->door->listener_stats);
		ok = false;
	}
	kh_prints_unref(s.prints);
	return ok;
}
