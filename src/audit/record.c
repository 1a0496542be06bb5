/*
 * record.c - the bodies of records
 *
 * A body is a line up to where the journal adds `seq`, `prev` and `hash`. Every text that a sandbox
 * or an upstream chose passes kh_json_string and is cut, both as received and as escaped, so that
 * the lengths below always add up to less than KH_LIMIT_RECORD_BYTES. Fields have the names of the
 * OpenTelemetry HTTP semantic conventions where there is one, in a flat object; docs/audit.md has
 * them all.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>

#include <keyhole/base/clock.h>
#include <keyhole/base/encode.h>
#include <keyhole/base/escape.h>

#include "audit_internal.h"

/* Most bytes of a text as it came; twice as many may be written. */
enum {
	CUT_NAME = 64,	 /* tenant, sandbox, credential, method, query name */
	CUT_NAMES = 260, /* credentials: four names */
	CUT_ID = 32,
	CUT_RULE = 384,
	CUT_LIST = 192,
	CUT_LIMIT = 192,
	CUT_DETAIL = 384,
	CUT_TLS = 16,
	CUT_REASONS = 1536,
	/* A part of the query without "=" is shown when it can only be a word. */
	CUT_WORD = 24,
	QUERY_NAMES_BYTES = 768,
};

static bool put(struct kh_buf *body, const char *text)
{
	return kh_buf_append_str(body, text);
}

static bool put_u64(struct kh_buf *body, const char *key, uint64_t value)
{
	return put(body, key) && kh_buf_append_u64(body, value);
}

/* `key` and at most `most` bytes of `text`, fewer where escapes would make it more than twice that
 * long. *taken: how many went in. */
static bool put_cut(struct kh_buf *body, const char *key, struct kh_slice text, size_t most,
		    size_t *taken)
{
	size_t start, len = text.len < most ? text.len : most;

	if (!put(body, key))
		return false;
	start = kh_buf_len(body);
	for (;; len -= len / 4 + 1) {
		/* Not through the middle of a character. */
		size_t whole = len;

		while (whole < text.len && whole > 0 && len - whole < 3 &&
		       ((unsigned char)text.ptr[whole] & 0xc0) == 0x80)
			whole--;
		if (!kh_json_string(body, kh_slice_of(text.ptr, whole)))
			return false;
		*taken = whole;
		if (kh_buf_len(body) - start <= 2 * most + 2)
			return true;
		kh_buf_truncate(body, start);
	}
}

/* A text that ends in "…" when it was cut; nothing for an empty one. */
static bool put_text(struct kh_buf *body, const char *key, struct kh_slice text, size_t most)
{
	size_t taken;

	if (text.len == 0)
		return true;
	if (!put_cut(body, key, text, most, &taken))
		return false;
	if (taken == text.len)
		return true;
	kh_buf_truncate(body, kh_buf_len(body) - 1);
	return put(body, "\xe2\x80\xa6\"");
}

static bool put_str(struct kh_buf *body, const char *key, const char *text, size_t most)
{
	return put_text(body, key, kh_slice_str(text), most);
}

bool kh_record_begin(struct kh_buf *body, const char *event)
{
	char now[KH_TIME_BYTES];

	kh_clock_format(kh_clock_wall_ms(), now);
	return put(body, "{\"event\":\"") && put(body, event) && put(body, "\",\"time\":\"") &&
	       put(body, now) && put(body, "\"");
}

static bool put_time(struct kh_buf *body, const char *key, uint64_t wall_ms)
{
	char text[KH_TIME_BYTES];

	kh_clock_format(wall_ms, text);
	return put(body, key) && put(body, text) && put(body, "\"");
}

static bool put_answer(struct kh_buf *body, const struct kh_audit_open *r)
{
	return !r->answer || (put_str(body, ",\"answer\":", r->answer, CUT_NAME) &&
			      put_u64(body, ",\"answer.uid\":", r->answer_uid) &&
			      put_time(body, ",\"answer.time\":\"", r->answer_ms));
}

static bool put_path(struct kh_buf *body, struct kh_slice path)
{
	size_t taken;

	if (path.len == 0)
		return true;
	if (!put_cut(body, ",\"url.path\":", path, KH_LIMIT_AUDIT_PATH_BYTES, &taken))
		return false;
	return taken == path.len || put_u64(body, ",\"url.path_bytes\":", path.len);
}

/* "?acl" and "?uploads" say what is asked; "?c2VjcmV0" may be anything, a key among them. */
static bool is_word(struct kh_slice s)
{
	if (s.len > CUT_WORD)
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!(s.ptr[i] >= 'a' && s.ptr[i] <= 'z') && s.ptr[i] != '-' && s.ptr[i] != '_')
			return false;
	return true;
}

/* Names only. What has no name (no "=", and no plain word) is counted, never shown. */
static bool put_query(struct kh_buf *body, struct kh_slice query)
{
	uint64_t unshown = 0;
	size_t shown = 0, start = kh_buf_len(body);

	while (query.len > 0) {
		size_t end = kh_slice_find(query, '&', 0);
		struct kh_slice part = kh_slice_sub(query, 0, end);
		struct kh_slice name = kh_slice_sub(part, 0, kh_slice_find(part, '=', 0));

		query = kh_slice_sub(query, end + 1, query.len);
		if (part.len == 0)
			continue;
		if ((name.len == part.len && !is_word(name)) || name.len == 0 ||
		    shown == KH_LIMIT_AUDIT_QUERY_NAMES ||
		    kh_buf_len(body) - start > QUERY_NAMES_BYTES) {
			unshown++;
			continue;
		}
		if (!put_text(body, shown++ ? "," : ",\"url.query.names\":[", name, CUT_NAME))
			return false;
	}
	if (shown > 0 && !put(body, "]"))
		return false;
	return unshown == 0 || put_u64(body, ",\"url.query.unshown\":", unshown);
}

static bool put_rule(struct kh_buf *body, const struct kh_audit_open *r)
{
	size_t taken;

	if (!put_str(body, ",\"rule\":", r->rule, CUT_RULE))
		return false;
	if (!r->rule_file || r->rule_where.line == 0)
		return true;
	/* The line goes into the string, behind the name. */
	if (!put_cut(body, ",\"rule_at\":", kh_slice_str(r->rule_file), CUT_LIST, &taken))
		return false;
	kh_buf_truncate(body, kh_buf_len(body) - 1);
	return put(body, ":") && kh_buf_append_u64(body, r->rule_where.line) && put(body, "\"");
}

static bool put_what(struct kh_buf *body, const struct kh_audit_open *r)
{
	if (!put_str(body, ",\"id\":", r->id, CUT_ID) ||
	    !put_str(body, ",\"tenant\":", r->tenant, CUT_NAME) ||
	    !put_str(body, ",\"sandbox\":", r->sandbox, CUT_NAME))
		return false;
	if (r->peer_pid && (!put_u64(body, ",\"peer.pid\":", r->peer_pid) ||
			    !put_u64(body, ",\"peer.uid\":", r->peer_uid)))
		return false;
	if (!put_str(body, ",\"client.address\":", r->client, CUT_NAME) ||
	    !put_str(body, ",\"via\":", r->via, CUT_NAME) ||
	    !put_str(body, ",\"tunnel\":", r->tunnel, CUT_NAME))
		return false;
	if (!put_text(body, ",\"http.request.method\":", r->method, CUT_NAME))
		return false;
	if (r->version && !put_str(body, ",\"network.protocol.version\":", r->version, CUT_NAME))
		return false;
	if (r->scheme != KH_SCHEME_NONE &&
	    !put_str(body, ",\"url.scheme\":", kh_scheme_name(r->scheme), CUT_NAME))
		return false;
	if (r->authority && r->authority->host.kind != KH_HOST_NONE &&
	    (!put_text(body, ",\"server.address\":", kh_host_view(&r->authority->host),
		       KH_HOST_MAX_BYTES) ||
	     !put_u64(body, ",\"server.port\":", r->authority->port)))
		return false;
	return put_path(body, r->path) && put_query(body, r->query) &&
	       put_str(body, ",\"gen_ai.request.model\":", r->model, KH_LIMIT_MODEL_BYTES) &&
	       put_rule(body, r) && put_str(body, ",\"denied_by\":", r->denied_by, CUT_NAME) &&
	       put_str(body, ",\"would_deny\":", r->would_deny, CUT_NAME) &&
	       put_str(body, ",\"would_deny.rule\":", r->would_rule, CUT_RULE) &&
	       put_str(body, ",\"would_deny.limit\":", r->would_limit, CUT_LIMIT) &&
	       put_answer(body, r) && put_str(body, ",\"credential\":", r->credential, CUT_NAMES) &&
	       put_str(body, ",\"stripped\":", r->stripped, CUT_LIST);
}

/* "192.0.2.1:443" and "[2001:db8::1]:443" as address and port. */
static bool put_peer(struct kh_buf *body, const char *peer)
{
	struct kh_slice address = kh_slice_str(peer), port = { NULL, 0 };
	size_t colon = address.len;
	uint64_t number;

	while (colon > 0 && kh_is_digit(address.ptr[colon - 1]))
		colon--;
	if (colon > 1 && address.ptr[colon - 1] == ':' &&
	    (address.ptr[0] == '[' || kh_slice_find(address, ':', 0) == colon - 1)) {
		port = kh_slice_sub(address, colon, address.len);
		address.len = colon - 1;
	}
	if (address.len > 2 && address.ptr[0] == '[' && address.ptr[address.len - 1] == ']')
		address = kh_slice_sub(address, 1, address.len - 1);
	if (!put_text(body, ",\"network.peer.address\":", address, CUT_NAME))
		return false;
	return !kh_slice_to_u64(port, &number) || put_u64(body, ",\"network.peer.port\":", number);
}

static bool put_tls(struct kh_buf *body, const char *tls)
{
	struct kh_slice version = kh_slice_str(tls);

	if (kh_slice_has_prefix(version, KH_SLICE("TLSv")))
		version = kh_slice_sub(version, 4, version.len);
	return put_text(body, ",\"tls.protocol.version\":", version, CUT_TLS);
}

static bool put_websocket(struct kh_buf *body, const struct kh_audit_websocket *w)
{
	return !w || (put_u64(body, ",\"websocket.close.code\":", w->close_code) &&
		      put_str(body, ",\"websocket.close.by\":", w->close_by, CUT_NAME) &&
		      put_u64(body, ",\"websocket.up.messages\":", w->up_messages) &&
		      put_u64(body, ",\"websocket.down.messages\":", w->down_messages));
}

static bool put_how(struct kh_buf *body, const struct kh_audit_close *r)
{
	if (r->status && !put_u64(body, ",\"http.response.status_code\":", r->status))
		return false;
	if (r->reason != KH_ERR_NONE &&
	    !put_str(body, ",\"reason\":", kh_err_reason(r->reason), CUT_NAME))
		return false;
	return put_str(body, ",\"detail\":", r->detail, CUT_DETAIL) &&
	       put_str(body, ",\"limit\":", r->limit, CUT_LIMIT) &&
	       put_str(body, ",\"would_deny\":", r->would_deny, CUT_NAME) &&
	       put_str(body, ",\"would_deny.rule\":", r->would_rule, CUT_RULE) &&
	       put_str(body, ",\"would_deny.limit\":", r->would_limit, CUT_LIMIT) &&
	       (!r->withheld || put(body, ",\"withheld\":true")) &&
	       put_str(body, ",\"placeholders\":", r->placeholders, CUT_LIMIT) &&
	       put_u64(body, ",\"http.request.body.size\":", r->up_bytes) &&
	       put_u64(body, ",\"http.response.body.size\":", r->down_bytes) &&
	       put_u64(body, ",\"duration_ms\":", r->duration_ms) &&
	       (r->first_byte_ms == 0 || put_u64(body, ",\"first_byte_ms\":", r->first_byte_ms)) &&
	       put_websocket(body, r->websocket) && put_peer(body, r->peer) &&
	       put_str(body, ",\"geo.country.iso_code\":", r->country, CUT_NAME) &&
	       (r->asn == 0 || put_u64(body, ",\"as.number\":", r->asn)) && put_tls(body, r->tls) &&
	       (!r->reused || put(body, ",\"reused\":true")) &&
	       (r->retries == 0 || put_u64(body, ",\"retries\":", r->retries));
}

void kh_batch_init(struct kh_batch *batch)
{
	kh_buf_init(&batch->bytes, KH_LIMIT_BATCH_BYTES);
	batch->count = 0;
}

void kh_batch_fini(struct kh_batch *batch)
{
	kh_buf_fini(&batch->bytes);
	batch->count = 0;
}

/*
 * A record is made in place: behind room for its length, which is filled in at the end. What was
 * begun and did not fit is taken back.
 */
struct slot {
	struct kh_buf *bytes;
	size_t before;
};

static bool slot_open(struct slot *slot, struct kh_batch *batch)
{
	uint32_t room = 0;

	slot->bytes = &batch->bytes;
	slot->before = kh_buf_len(&batch->bytes);
	return kh_buf_append(slot->bytes, &room, sizeof(room));
}

static bool slot_close(struct slot *slot, struct kh_batch *batch, bool ok)
{
	size_t len = kh_buf_len(slot->bytes) - slot->before;
	uint32_t body;

	if (!ok || len < sizeof(body) || len - sizeof(body) > KH_LIMIT_RECORD_BYTES) {
		kh_buf_truncate(slot->bytes, slot->before);
		return false;
	}
	body = (uint32_t)(len - sizeof(body));
	memcpy(slot->bytes->data + slot->bytes->head + slot->before, &body, sizeof(body));
	batch->last = slot->before + sizeof(body);
	batch->count++;
	return true;
}

struct kh_slice kh_batch_last(const struct kh_batch *batch)
{
	struct kh_slice all = kh_buf_view(&batch->bytes);

	return batch->count > 0 ? kh_slice_sub(all, batch->last, all.len) : kh_slice_of(all.ptr, 0);
}

bool kh_batch_put(struct kh_batch *batch, struct kh_slice body)
{
	struct slot slot;
	bool ok = slot_open(&slot, batch) && kh_buf_append_slice(&batch->bytes, body);

	return slot_close(&slot, batch, ok);
}

bool kh_audit_open(struct kh_batch *batch, const struct kh_audit_open *record)
{
	struct slot slot;
	bool ok = slot_open(&slot, batch) && kh_record_begin(slot.bytes, "open") &&
		  put_what(slot.bytes, record);

	return slot_close(&slot, batch, ok);
}

bool kh_audit_close(struct kh_batch *batch, const struct kh_audit_close *record)
{
	struct slot slot;
	bool ok = slot_open(&slot, batch) && kh_record_begin(slot.bytes, "close") &&
		  put_str(slot.bytes, ",\"id\":", record->id, CUT_ID) &&
		  put_how(slot.bytes, record) &&
		  put(slot.bytes, record->complete ? ",\"complete\":true" : ",\"complete\":false");

	return slot_close(&slot, batch, ok);
}

bool kh_audit_deny(struct kh_batch *batch, const struct kh_audit_open *what,
		   const struct kh_audit_close *how)
{
	struct slot slot;
	bool ok = slot_open(&slot, batch) && kh_record_begin(slot.bytes, "deny") &&
		  put_what(slot.bytes, what) && put_how(slot.bytes, how);

	return slot_close(&slot, batch, ok);
}

/* The count is in front of every text: it is found without a JSON parser. */
bool kh_audit_denials(struct kh_batch *batch, const struct kh_audit_denials *record)
{
	struct slot slot;
	bool ok = slot_open(&slot, batch) && kh_record_begin(slot.bytes, "denials") &&
		  put_u64(slot.bytes, ",\"count\":", record->count) &&
		  put_time(slot.bytes, ",\"since\":\"", record->since_ms) &&
		  put_time(slot.bytes, ",\"until\":\"", record->until_ms) &&
		  put_str(slot.bytes, ",\"tenant\":", record->tenant, CUT_NAME) &&
		  put_str(slot.bytes, ",\"sandbox\":", record->sandbox, CUT_NAME) &&
		  put_str(slot.bytes, ",\"reasons\":", record->reasons, CUT_REASONS);

	return slot_close(&slot, batch, ok);
}

void kh_batch_drop_last(struct kh_batch *batch)
{
	kh_buf_truncate(&batch->bytes, batch->last - sizeof(uint32_t));
	batch->last = 0;
	batch->count--;
}

/*
 * Ids count up from a random place: 64 bits leave lives of billions of exchanges room enough not
 * to meet.
 */
static atomic_uint_fast64_t next_id;
static pthread_once_t next_id_once = PTHREAD_ONCE_INIT;

static void choose_first_id(void)
{
	uint64_t first;

	/* Fails only where the call itself is forbidden; two clocks are then told apart enough. */
	if (getrandom(&first, sizeof(first), 0) != (ssize_t)sizeof(first))
		first = kh_clock_wall_ms() << 24 ^ kh_clock_mono_us();
	atomic_store(&next_id, first);
}

void kh_id_format(uint64_t id, char out[KH_EXCHANGE_ID_BYTES])
{
	out[0] = 'x';
	for (int i = 16; i > 0; i--, id >>= 4)
		out[i] = kh_hex_digits[id & 15];
	out[17] = '\0';
}

void kh_exchange_id(char out[KH_EXCHANGE_ID_BYTES])
{
	(void)pthread_once(&next_id_once, choose_first_id);
	kh_id_format(atomic_fetch_add_explicit(&next_id, 1, memory_order_relaxed), out);
}
