/*
 * recognise.c - real credentials in what leaves a sandbox
 *
 * A real credential never leaves, to whatever host and whatever the rules say. But a sandbox that
 * sees which of its requests hold one could find a value by trying. So such a request is processed
 * like any other up to where it would be sent. If it is refused before, it gets the same answer as
 * without the credential, after the same work: the lists of fingerprints are opened once for it and
 * compared with as many places, whether it has a candidate or not. Only where it would be sent is
 * it refused for what it holds, and how often that may happen is limited. The journal always says
 * which requests held one.
 *
 * A text is searched as it is and, three times, with one more level of escapes undone.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/guess.h>
#include <keyhole/credential/fingerprints.h>

#include "exchange_internal.h"
#include "placeholder_check.h"

enum { READINGS = 4 };

/* A text with its escapes undone. */
struct reading {
	struct reading *before;
	char bytes[];
};

static void free_readings(struct reading *last)
{
	while (last) {
		struct reading *before = last->before;
		free(last);
		last = before;
	}
}

/* Those that were made are put in front of *made, for the caller to free. */
static bool each_reading(struct kh_slice text, struct reading **made,
			 bool (*fn)(struct kh_slice text, void *arg), void *arg)
{
	for (int i = 0; i < READINGS; i++) {
		if (!fn(text, arg))
			return false;
		if (text.len == 0 ||
		    (!memchr(text.ptr, '%', text.len) && !memchr(text.ptr, '\\', text.len)))
			return true;
		struct reading *next = malloc(sizeof(*next) + text.len);
		if (!next)
			return false;
		next->before = *made;
		*made = next;
		size_t len = kh_mark_unescape(text, next->bytes);
		text = kh_slice_of(next->bytes, len);
		if (len == 0)
			return true;
	}
	return true;
}

bool kh_recognise_each_reading(struct kh_slice text, bool (*fn)(struct kh_slice text, void *arg),
			       void *arg)
{
	struct reading *made = NULL;
	bool ok = each_reading(text, &made, fn, arg);

	free_readings(made);
	return ok;
}

/* What a text is, of one request. A field's name is IN_FIELDS and twice its number, and its value
 * the next. */
enum {
	IN_TEXT,
	IN_HANDSHAKE,
	IN_HOST,
	IN_HOST_AS_SENT, /* in the target */
	IN_AUTHORITY,
	IN_METHOD,
	IN_TARGET,
	IN_FIELDS
};

/* A search through texts that live as long as it does. */
struct look {
	struct kh_fingerprints *fingerprints; /* a reference */
	struct reading *readings;
	uint32_t subject; /* of the text that is gone through */
	size_t n_joined;
	char joined[2][KH_HOST_MAX_BYTES]; /* hosts without their dots */
	struct kh_fingerprint_search search;
};

/* Return: false: there is nothing to look for. */
static bool begin_look(struct look *look, struct kh_worker *worker)
{
	look->fingerprints = kh_worker_fingerprints(worker);
	if (!look->fingerprints)
		return false;
	look->readings = NULL;
	look->n_joined = 0;
	kh_fingerprint_search_begin(&look->search, look->fingerprints);
	return true;
}

static void end_look(struct look *look)
{
	free_readings(look->readings);
	kh_fingerprints_unref(look->fingerprints);
}

static bool add_reading(struct kh_slice text, void *arg)
{
	struct look *look = arg;

	kh_fingerprint_search_add(&look->search, text, look->subject);
	return true;
}

/* Return: false: no memory. */
static bool look_through(struct look *look, struct kh_slice text, uint32_t subject,
			 struct kh_err *err)
{
	look->subject = subject;
	return each_reading(text, &look->readings, add_reading, look) ||
	       kh_err_set(err, KH_ERR_NO_MEMORY, "no memory to look into the request");
}

/* A host is in small letters, in which values are known too, and may have a value's pieces in its
 * labels. Two in one search. */
static bool look_through_host(struct look *look, struct kh_slice host, uint32_t subject,
			      struct kh_err *err)
{
	size_t len = 0;

	if (host.len < KH_GUESS_WINDOW_BYTES || host.len > sizeof(look->joined[0]) ||
	    look->n_joined == sizeof(look->joined) / sizeof(look->joined[0]))
		return true;
	char *joined = look->joined[look->n_joined++];
	for (size_t i = 0; i < host.len; i++)
		if (host.ptr[i] != '.')
			joined[len++] = host.ptr[i];
	return look_through(look, host, subject, err) &&
	       look_through(look, kh_slice_of(joined, len), subject, err);
}

/* Where one was found, for the operator and the journal. */
struct finding {
	const char *where; /* NULL: nowhere */
	struct kh_slice name;
	uint16_t index;
};

/* A field's name that holds one is not said where its value does too. */
static struct finding found_in_field(const struct look *look, const struct kh_field *field,
				     uint32_t name)
{
	const struct kh_fingerprint_search *search = &look->search;
	struct finding found = { "the name of", KH_SLICE("a field"), search->index };

	if (search->subject == name)
		return found;
	found.where = "the field";
	found.name = kh_fingerprint_search_holds(search, name) ? KH_SLICE("(hidden)") : field->name;
	return found;
}

static struct finding found_in_request(const struct look *look, const struct kh_message *message)
{
	static const struct finding places[] = {
		[IN_TEXT] = { "a", KH_SLICE_INIT("text"), 0 },
		[IN_HANDSHAKE] = { "the", KH_SLICE_INIT("name of the handshake"), 0 },
		[IN_HOST] = { "the", KH_SLICE_INIT("host"), 0 },
		[IN_HOST_AS_SENT] = { "the", KH_SLICE_INIT("host"), 0 },
		[IN_AUTHORITY] = { "the", KH_SLICE_INIT(":authority"), 0 },
		[IN_METHOD] = { "the", KH_SLICE_INIT("method"), 0 },
		[IN_TARGET] = { "the", KH_SLICE_INIT("path or query"), 0 },
	};
	uint32_t subject = look->search.subject;

	if (!look->search.found)
		return (struct finding){ NULL, KH_SLICE(""), UINT16_MAX };
	if (subject >= IN_FIELDS) {
		uint32_t n = (subject - IN_FIELDS) / 2;
		return found_in_field(look, &message->fields[n], IN_FIELDS + 2 * n);
	}
	struct finding found = places[subject];
	found.index = look->search.index;
	return found;
}

static void say_found(const struct finding *found, struct kh_err *err)
{
	kh_err_set(err, KH_ERR_EXFILTRATION,
		   "%s %s contains a real credential, which stays on the host: nothing of this "
		   "request was sent",
		   found->where, kh_esc(found->name));
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

static void log_found(const struct kh_exchange *x, const struct finding *found)
{
	const struct kh_config *config = x->gen->config;
	uint16_t index = found->index;
	struct notice *notice =
		kh_acceptor_may_log(x->side->acceptor) ? calloc(1, sizeof(*notice)) : NULL;

	if (!notice)
		return;
	(void)snprintf(notice->text, sizeof(notice->text), "%s: sandbox %s sends %s%s in %s %s",
		       x->id, x->listener->sandbox,
		       index < config->n_credentials
			       ? "the value of credential "
			       : "a secret that is no longer configured, or nearly one of "
				 "many,",
		       index < config->n_credentials ? config->credentials[index].name : "",
		       found->where, kh_esc(found->name));
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
	return kh_recognise_each_reading(text, is_easy, NULL) ? text : KH_SLICE("(hidden)");
}

static bool look_through_fields(const struct kh_exchange *x, struct look *look, struct kh_err *err)
{
	struct kh_slice for_us = kh_auth_field(x->side);
	bool ok = true;

	for (size_t i = 0; ok && i < x->message->n_fields; i++) {
		const struct kh_field *field = &x->message->fields[i];
		uint32_t name = IN_FIELDS + 2 * (uint32_t)i;
		ok = look_through(look, field->name, name, err) &&
		     (kh_slice_eq_nocase(field->name, for_us) ||
		      look_through(look, field->value, name + 1, err));
	}
	return ok;
}

/* The part of the target from which the host was made: of absolute-form, and in base-URL mode. */
static struct kh_slice host_in_target(const struct kh_exchange *x)
{
	struct kh_slice target = x->message->target;
	const char *before = x->base_url ? "/to/" : x->target.absolute ? "://" : NULL;
	const char *at = before && target.len
				 ? memmem(target.ptr, target.len, before, strlen(before))
				 : NULL;
	if (!at)
		return KH_SLICE("");
	size_t from = (size_t)(at - target.ptr) + strlen(before), end = from;
	while (end < target.len && target.ptr[end] != '/' && target.ptr[end] != '?')
		end++;
	return kh_slice_sub(target, from, end);
}

/* The host is made of one of these texts and is in lower case, in which a value may not be found.
 */
static bool holds_where_host_is_from(const struct kh_exchange *x,
				     const struct kh_fingerprint_search *search)
{
	bool holds = kh_fingerprint_search_holds(search, IN_HOST_AS_SENT) ||
		     kh_fingerprint_search_holds(search, IN_AUTHORITY);

	for (size_t i = 0; i < x->message->n_fields; i++)
		if (kh_slice_eq_nocase(x->message->fields[i].name, KH_SLICE("host")))
			holds = holds || kh_fingerprint_search_holds(
						 search, IN_FIELDS + 2 * (uint32_t)i + 1);
	return holds;
}

/* That of a tunnel was looked through when it began. What its handshake named instead of it is only
 * said in the journal. */
static bool look_through_hosts(const struct kh_exchange *x, struct look *look, struct kh_err *err)
{
	const struct kh_down_side *side = x->side;

	if (side->tunnel && side->other_name &&
	    !look_through_host(look, kh_slice_str(side->other_name), IN_HANDSHAKE, err))
		return false;
	return ((side->tunnel && !x->base_url) ||
		look_through_host(look, kh_host_view(&x->authority.host), IN_HOST, err)) &&
	       look_through(look, host_in_target(x), IN_HOST_AS_SENT, err);
}

void kh_down_look_at_host(struct kh_down_side *side)
{
	struct kh_slice host = kh_host_view(&side->authority.host);
	struct look look;

	side->host_holds = false;
	if (host.len < KH_GUESS_WINDOW_BYTES || !begin_look(&look, side->loop->worker))
		return;
	/* Without memory nobody knows, and nothing goes there. */
	bool ok = look_through_host(&look, host, IN_HOST, NULL);
	kh_fingerprint_search_settle(&look.search);
	side->host_holds = !ok || look.search.found;
	side->host_index = look.search.index;
	end_look(&look);
}

const struct kh_authority *kh_authority_hidden(void)
{
	static const struct kh_authority hidden = {
		.host = { .kind = KH_HOST_NAME, .len = sizeof("(hidden)") - 1, .text = "(hidden)" },
	};

	return &hidden;
}

bool kh_recognise_in_text(struct kh_worker *worker, struct kh_slice text, bool refused)
{
	char joined[sizeof(((struct kh_err *)NULL)->text)];
	size_t len = 0;
	struct look look;

	if (text.len < KH_GUESS_WINDOW_BYTES || !begin_look(&look, worker))
		return false;
	for (size_t i = 0; i < text.len && len < sizeof(joined); i++)
		if (text.ptr[i] != '.')
			joined[len++] = text.ptr[i];
	bool ok = look_through(&look, text, IN_TEXT, NULL) &&
		  look_through(&look, kh_slice_of(joined, len), IN_TEXT, NULL);
	if (refused || kh_fingerprint_search_has_candidates(&look.search))
		kh_fingerprint_search_settle(&look.search);
	bool holds = !ok || look.search.found;
	end_look(&look);
	return holds;
}

/* The lists are opened now where there are candidates, or where the answer is keyhole's own in any
 * case; else when it is refused (kh_recognise_even_out), or never. */
static void settle_look(struct kh_exchange *x, struct look *look)
{
	x->longest_text = look->search.longest;
	x->held_against = kh_fingerprint_search_has_candidates(&look->search) || x->page;
	if (x->held_against)
		kh_fingerprint_search_settle(&look->search);
}

/* `whole`: all texts were gone through; else nobody knows what is in the others. */
static void take_findings(struct kh_exchange *x, const struct look *look, bool whole)
{
	const struct kh_down_side *side = x->side;
	const struct kh_fingerprint_search *search = &look->search;
	bool tunneled = side->tunnel && !x->base_url;
	struct finding found = found_in_request(look, x->message);
	struct kh_err why = KH_ERR_INIT;

	x->host_hidden =
		!whole ||
		(tunneled ? side->host_holds : kh_fingerprint_search_holds(search, IN_HOST)) ||
		holds_where_host_is_from(x, search);
	x->method_hidden = !whole || kh_fingerprint_search_holds(search, IN_METHOD);
	x->target_hidden = !whole || kh_fingerprint_search_holds(search, IN_TARGET);
	if (tunneled && side->host_holds && !found.where)
		found = (struct finding){ "the", KH_SLICE("host"), side->host_index };
	x->recognised = found.where != NULL;
	if (!x->recognised)
		return;
	say_found(&found, &why);
	kh_exchange_note(x, why.code, why.text);
	log_found(x, &found);
}

bool kh_recognise_request(struct kh_exchange *x, struct kh_err *err)
{
	const struct kh_message *message = x->message;
	struct look look;

	if (!begin_look(&look, x->side->loop->worker))
		return true;
	/* A method may be any token (RFC 9110 §9.1), and a key often is one. The target as it came:
	 * also of one that could not be read. */
	bool ok = look_through_hosts(x, &look, err) && look_through_fields(x, &look, err) &&
		  (!message->h2 || look_through(&look, message->host, IN_AUTHORITY, err)) &&
		  look_through(&look, message->method, IN_METHOD, err) &&
		  look_through(&look, message->target, IN_TARGET, err);
	settle_look(x, &look);
	take_findings(x, &look, ok);
	end_look(&look);
	return ok;
}

void kh_recognise_even_out(struct kh_exchange *x)
{
	struct look look;

	/* What had a candidate begins a look as well, for nothing. */
	if (!begin_look(&look, x->side->loop->worker))
		return;
	look.search.longest = x->longest_text;
	if (!x->held_against)
		kh_fingerprint_search_settle(&look.search);
	x->held_against = true;
	end_look(&look);
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
	struct kh_listener_stats *listener_stats = x->side->acceptor->listener_stats;

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
	struct look look;

	if (!begin_look(&look, x->side->loop->worker))
		return true;
	bool ok = look_through(&look, field->name, IN_FIELDS, err) &&
		  look_through(&look, field->value, IN_FIELDS + 1, err);
	if (ok && kh_fingerprint_search_has_candidates(&look.search))
		kh_fingerprint_search_settle(&look.search);
	if (ok && look.search.found) {
		struct finding found = found_in_field(&look, field, IN_FIELDS);
		say_found(&found, err);
		log_found(x, &found);
		count_recognition(x->side->acceptor->listener_stats);
		ok = false;
	}
	end_look(&look);
	return ok;
}
