/*
 * recorded.c - turns a request of a journal into a request again
 *
 * It is decided as `keyhole explain` decides one, with only what its record has: no field, no value
 * in the query, no model, and, if its size is not recorded, content of unlimited length. So no rule
 * that asks for one of these matches; recorded_decide.c says what follows from that.
 */
#include <keyhole/exchange/recorded.h>

enum { URL_BYTES = 64 * 1024 };

/* For a value that is not recorded: no pattern but '*' means it. */
#define NO_VALUE "not.recorded"

static bool is_plain(struct kh_slice name)
{
	for (size_t i = 0; i < name.len; i++)
		if (name.ptr[i] <= ' ' || name.ptr[i] > '~')
			return false;
	return name.len > 0;
}

static bool put_query(struct kh_buf *out, const struct kh_recorded *of, const char *value)
{
	bool ok = true, first = true;
	for (size_t i = 0; ok && i < of->n_query_names; i++) {
		if (!is_plain(of->query_names[i]))
			continue;
		ok = kh_buf_append_str(out, first ? "" : "&") &&
		     kh_buf_append_slice(out, of->query_names[i]) && kh_buf_append_char(out, '=') &&
		     kh_buf_append_str(out, value);
		first = false;
	}
	return ok;
}

/* May there be a parameter of which not even the name is known? */
static bool has_nameless(const struct kh_recorded *of)
{
	for (size_t i = 0; i < of->n_query_names; i++)
		if (!is_plain(of->query_names[i]))
			return true;
	return of->query_unshown > 0;
}

static bool put_url(struct kh_buf *out, const struct kh_recorded *of)
{
	bool v6 = kh_slice_find(of->host, ':', 0) < of->host.len;
	if (!kh_buf_append_slice(out, of->scheme) || !kh_buf_append_str(out, v6 ? "://[" : "://") ||
	    !kh_buf_append_slice(out, of->host) ||
	    !kh_buf_printf(out, v6 ? "]:%llu" : ":%llu", (unsigned long long)of->port))
		return false;
	return of->tunnel || (kh_buf_append_slice(out, of->path) &&
			      (of->n_query_names == 0 ||
			       (kh_buf_append_char(out, '?') && put_query(out, of, NO_VALUE))));
}

/* Some value of a parameter of that name has another method, host or path decided. */
static bool may_override(const struct kh_recorded_question *question)
{
	static const char *const values[] = { "/1", "DELETE", "a.example" };
	const struct kh_recorded *of = question->of;
	const struct kh_message nothing = { .framing = KH_FRAMING_NONE };
	bool may = kh_overrides_any(&question->ask.overrides) ||
		   (question->nameless && of->n_query_names == KH_LIMIT_AUDIT_QUERY_NAMES);
	struct kh_buf query;
	kh_buf_init(&query, URL_BYTES);
	for (size_t i = 0; !may && of->n_query_names > 0 && i < sizeof(values) / sizeof(values[0]);
	     i++) {
		struct kh_overrides found;
		kh_buf_clear(&query);
		may = !put_query(&query, of, values[i]);
		kh_overrides_read(&found, &nothing, kh_buf_view(&query));
		may = may || kh_overrides_any(&found);
	}
	kh_buf_fini(&query);
	return may;
}

static void put_fields(struct kh_dry_run *ask, const struct kh_recorded *of)
{
	for (size_t at = 0; at < of->stripped.len;) {
		size_t comma = kh_slice_find(of->stripped, ',', at);
		struct kh_slice name = kh_slice_sub(of->stripped, at, comma);
		bool in_query = false;
		for (size_t i = 0; i < of->n_query_names; i++)
			in_query = in_query || kh_slice_eq(name, of->query_names[i]);
		if (!in_query && is_plain(name))
			(void)kh_dry_run_field(ask, name, KH_SLICE(NO_VALUE));
		at = comma + 1;
	}
	if (!of->websocket)
		return;
	(void)kh_dry_run_field(ask, KH_SLICE("connection"), KH_SLICE("upgrade"));
	(void)kh_dry_run_field(ask, KH_SLICE("upgrade"), KH_SLICE("websocket"));
}

static bool is_hidden(struct kh_slice text)
{
	return kh_slice_eq(text, KH_SLICE("(hidden)")) || kh_slice_eq(text, KH_SLICE("/(hidden)"));
}

/* A host with a '/' in it, or a path with a '?', would have been read as something else. */
static bool is_as_recorded(const struct kh_recorded_question *question)
{
	const struct kh_recorded *of = question->of;
	const struct kh_dry_run *ask = &question->ask;
	struct kh_host host;
	return kh_host_parse(&host, of->host, NULL) && kh_host_eq(&host, &ask->authority.host) &&
	       of->port == ask->authority.port &&
	       (ask->tunnel || kh_slice_eq(ask->target.raw_path, of->path));
}

/* What is not known must not pass for what is known to be absent. */
static void leave_open(struct kh_recorded_question *question)
{
	struct kh_request_view *view = &question->ask.view;
	view->has_length = true;
	view->length = question->of->has_size ? question->of->size : UINT64_MAX;
	if (view->model_state == KH_MODEL_UNREAD)
		view->model_state = KH_MODEL_NONE;
	question->unclear = (question->of->path_is_cut ? KH_NEEDS_PATH : 0) |
			    (may_override(question) ? KH_NEEDS_OVERRIDE : 0);
}

bool kh_recorded_ask(struct kh_recorded_question *out, const struct kh_recorded *of,
		     struct kh_err *err)
{
	*out = (struct kh_recorded_question){ .of = of, .nameless = has_nameless(of) };
	kh_dry_run_init(&out->ask);
	kh_buf_init(&out->url, URL_BYTES);
	if (of->host.len == 0 || of->port == 0 ||
	    (!of->tunnel && (of->method.len == 0 || of->path.len == 0)))
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "it was not read as a request");
	if (is_hidden(of->method) || is_hidden(of->host) || is_hidden(of->path))
		return kh_err_set(err, KH_ERR_EXFILTRATION,
				  "a part of it is hidden: it held a real credential");
	if (!put_url(&out->url, of))
		return kh_err_set(err, KH_ERR_REQUEST_URI_TOO_LONG, "it is too long");
	put_fields(&out->ask, of);
	if (of->model.len > 0 && !is_hidden(of->model) && is_plain(of->model))
		kh_dry_run_model(&out->ask, of->model);
	struct kh_slice url = kh_buf_view(&out->url);
	struct kh_slice authority = kh_slice_sub(url, of->scheme.len + 3, url.len);
	if (!kh_dry_run_ask(&out->ask, of->tunnel ? KH_SLICE("CONNECT") : of->method,
			    of->tunnel ? authority : url, err))
		return false;
	if (out->ask.tunnel != of->tunnel || !is_as_recorded(out))
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "it was not read as a request");
	if (!of->tunnel)
		leave_open(out);
	return true;
}

void kh_recorded_fini(struct kh_recorded_question *question)
{
	kh_dry_run_fini(&question->ask);
	kh_buf_fini(&question->url);
}

bool kh_recorded_has_one_reading(const struct kh_recorded_question *question)
{
	const struct kh_request_view *view = &question->ask.view;
	uint8_t v4[2][4];
	return !question->unclear && !view->path_slashed.ptr && !view->path_decoded.ptr &&
	       !view->path_cuts && !view->overrides &&
	       (view->host->kind != KH_HOST_IPV6 || kh_address_carried(view->host->addr, v4) == 0);
}
