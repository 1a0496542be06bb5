/* handshakes.c - TLS: a handshake is a wait that ends well, badly, or not in time */
/* wrap: kh_stream_accept_tls kh_stream_connect_tls kh_stream_offer_h2 kh_stream_is_h2 */
/* wrap: kh_stream_is_tls kh_stream_lacks_protocol kh_stream_tls_version kh_stream_is_resumed */
/* wrap: kh_stream_leaf_ready kh_stream_send_no_ticket kh_stream_sni_mismatch kh_stream_free */
/* wrap: kh_tls_down_ctx kh_tls_up_ctx SSL_CTX_free kh_leaves_has kh_leaves_had kh_leaves_put */

#include <tls/stream_internal.h>

#include "simulation.h"

enum { HANDSHAKES = 128 };

struct shake {
	struct kh_stream *stream; /* NULL: nobody's */
	bool up, done, failed;
	bool offers_h2, h2;
	bool wants_leaf; /* and waits for kh_stream_leaf_ready */
	bool has_leaf, refused;
	bool lacks_protocol;
	struct kh_host host;
	uint64_t deadline_us;
};

static struct shake shakes[HANDSHAKES];
static bool leaf_known[SIM_HOSTS];

static struct shake *find(const struct kh_stream *stream)
{
	for (size_t i = 0; stream && i < HANDSHAKES; i++)
		if (shakes[i].stream == stream)
			return &shakes[i];
	return NULL;
}

static struct shake *find_or_make(struct kh_stream *stream)
{
	struct shake *shake = find(stream);

	for (size_t i = 0; !shake && i < HANDSHAKES; i++) {
		if (shakes[i].stream)
			continue;
		shake = &shakes[i];
		*shake = (struct shake){ .stream = stream, .done = true };
	}
	SIM_CHECK(shake, "too many handshakes");
	return shake;
}

static bool begin(struct kh_stream *stream, bool up, const struct kh_host *host,
		  uint32_t timeout_ms)
{
	if (sim_fails(SIM_FAULT_ALLOCATION))
		return false;
	struct shake *shake = find_or_make(stream);
	bool h2 = shake->h2;

	*shake = (struct shake){ .stream = stream,
				 .up = up,
				 .h2 = h2,
				 .host = *host,
				 .deadline_us = sim_time_now_us() + (uint64_t)timeout_ms * 1000 };
	stream->state = STREAM_LEAF; /* neither read nor written until it is over */
	stream->side = up ? STREAM_UP : STREAM_DOWN;
	return true;
}

bool __wrap_kh_stream_accept_tls(struct kh_stream *stream, SSL_CTX *ctx, struct kh_slice prefix,
				 const struct kh_host *host, uint32_t timeout_ms);
bool __wrap_kh_stream_accept_tls(struct kh_stream *stream, SSL_CTX *ctx, struct kh_slice prefix,
				 const struct kh_host *host, uint32_t timeout_ms)
{
	(void)ctx;
	SIM_CHECK(prefix.len > 0 && prefix.ptr[0] == 0x16, "TLS begins with something else");
	return begin(stream, false, host, timeout_ms);
}

bool __wrap_kh_stream_connect_tls(struct kh_stream *stream, SSL_CTX *ctx,
				  const struct kh_host *host, struct kh_sessions *sessions,
				  const char *session_key, uint32_t timeout_ms);
bool __wrap_kh_stream_connect_tls(struct kh_stream *stream, SSL_CTX *ctx,
				  const struct kh_host *host, struct kh_sessions *sessions,
				  const char *session_key, uint32_t timeout_ms)
{
	(void)ctx;
	(void)sessions;
	(void)session_key;
	sim_journal_allows(sim_host_of(kh_slice_str(host->text)), "a handshake");
	return begin(stream, true, host, timeout_ms);
}

void __wrap_kh_stream_offer_h2(struct kh_stream *stream);
void __wrap_kh_stream_offer_h2(struct kh_stream *stream)
{
	struct shake *shake = find(stream);

	shake->offers_h2 = true;
	shake->h2 = !sim_one_in(3);
}

bool __wrap_kh_stream_is_h2(const struct kh_stream *stream);
bool __wrap_kh_stream_is_h2(const struct kh_stream *stream)
{
	const struct shake *shake = find(stream);

	return shake && shake->done && shake->h2;
}

bool __wrap_kh_stream_is_tls(const struct kh_stream *stream);
bool __wrap_kh_stream_is_tls(const struct kh_stream *stream)
{
	return sim_handshake_is_done(stream);
}

bool __wrap_kh_stream_lacks_protocol(const struct kh_stream *stream);
bool __wrap_kh_stream_lacks_protocol(const struct kh_stream *stream)
{
	const struct shake *shake = find(stream);

	return shake && shake->lacks_protocol;
}

const char *__wrap_kh_stream_tls_version(const struct kh_stream *stream);
const char *__wrap_kh_stream_tls_version(const struct kh_stream *stream)
{
	return sim_handshake_is_done(stream) ? "TLSv1.3" : NULL;
}

bool __wrap_kh_stream_is_resumed(const struct kh_stream *stream);
bool __wrap_kh_stream_is_resumed(const struct kh_stream *stream)
{
	(void)stream;
	return false;
}

void __wrap_kh_stream_leaf_ready(struct kh_stream *stream, bool found);
void __wrap_kh_stream_leaf_ready(struct kh_stream *stream, bool found)
{
	struct shake *shake = find(stream);

	if (!shake || !shake->wants_leaf)
		return;
	shake->wants_leaf = false;
	shake->has_leaf = found;
	shake->refused = !found;
}

void __wrap_kh_stream_send_no_ticket(struct kh_stream *stream);
void __wrap_kh_stream_send_no_ticket(struct kh_stream *stream)
{
	(void)stream;
}

const char *__wrap_kh_stream_sni_mismatch(const struct kh_stream *stream);
const char *__wrap_kh_stream_sni_mismatch(const struct kh_stream *stream)
{
	(void)stream;
	return NULL;
}

void __real_kh_stream_free(struct kh_stream *stream);
void __wrap_kh_stream_free(struct kh_stream *stream);
void __wrap_kh_stream_free(struct kh_stream *stream)
{
	struct shake *shake = find(stream);

	if (shake)
		shake->stream = NULL;
	__real_kh_stream_free(stream);
}

/* ---- what a handshake would need ---- */

SSL_CTX *__wrap_kh_tls_down_ctx(struct kh_leaves *leaves, struct kh_err *err);
SSL_CTX *__wrap_kh_tls_down_ctx(struct kh_leaves *leaves, struct kh_err *err)
{
	(void)leaves;
	(void)err;
	return (SSL_CTX *)(void *)&shakes;
}

SSL_CTX *__wrap_kh_tls_up_ctx(struct kh_roots *roots, struct kh_err *err);
SSL_CTX *__wrap_kh_tls_up_ctx(struct kh_roots *roots, struct kh_err *err)
{
	(void)roots;
	(void)err;
	return (SSL_CTX *)(void *)&shakes;
}

void __wrap_SSL_CTX_free(SSL_CTX *ctx);
void __wrap_SSL_CTX_free(SSL_CTX *ctx)
{
	(void)ctx;
}

bool __wrap_kh_leaves_has(struct kh_leaves *leaves, const struct kh_host *host);
bool __wrap_kh_leaves_has(struct kh_leaves *leaves, const struct kh_host *host)
{
	int index = sim_host_of(kh_slice_str(host->text));

	(void)leaves;
	return index >= 0 && leaf_known[index];
}

bool __wrap_kh_leaves_had(struct kh_leaves *leaves, const struct kh_host *host);
bool __wrap_kh_leaves_had(struct kh_leaves *leaves, const struct kh_host *host)
{
	(void)leaves;
	(void)host;
	return false;
}

bool __wrap_kh_leaves_put(struct kh_leaves *leaves, const struct kh_host *host, struct kh_slice der,
			  struct kh_err *err);
bool __wrap_kh_leaves_put(struct kh_leaves *leaves, const struct kh_host *host, struct kh_slice der,
			  struct kh_err *err)
{
	int index = sim_host_of(kh_slice_str(host->text));

	(void)leaves;
	(void)der;
	(void)err;
	if (index >= 0)
		leaf_known[index] = true;
	return index >= 0;
}

/* ---- its end ---- */

bool sim_handshake_is_done(const struct kh_stream *stream)
{
	const struct shake *shake = find(stream);

	return shake && shake->deadline_us && shake->done;
}

void sim_handshake_want_h2(struct kh_stream *stream, bool h2)
{
	find_or_make(stream)->h2 = h2;
}

static void report(struct shake *shake, unsigned event)
{
	bool before = sim_faults_set(true);

	(void)kh_stream_report(shake->stream, event);
	(void)sim_faults_set(before);
}

static void fail(struct shake *shake, const char *why)
{
	struct kh_stream *stream = shake->stream;

	sim_trace("handshake fails: %s", why);
	kh_err_set(kh_stream_err(stream),
		   shake->refused ? KH_ERR_LEAF_UNAVAILABLE
		   : shake->up	  ? KH_ERR_TLS_PROTOCOL
				  : KH_ERR_DOWN_TLS,
		   "%s", why);
	stream->state = STREAM_FAILED;
	shake->failed = true;
	shake->lacks_protocol = shake->up && sim_one_in(2);
	report(shake, KH_STREAM_HANDSHAKE_FAILED);
}

static struct sim_pipe *pipe_of(const struct kh_stream *stream)
{
	for (size_t i = 0; i < SIM_PIPES; i++)
		if (sim_pipes[i].used && sim_pipes[i].stream == stream)
			return &sim_pipes[i];
	return NULL;
}

static void finish(struct shake *shake)
{
	struct sim_pipe *pipe = pipe_of(shake->stream);

	shake->done = true;
	shake->stream->state = STREAM_PLAIN;
	sim_trace("handshake with %s is done%s", shake->host.text, shake->h2 ? ", for HTTP/2" : "");
	if (pipe)
		pipe->h2 = shake->h2;
	if (pipe && !pipe->up)
		sim_sandbox_has_tls(pipe);
	report(shake, KH_STREAM_HANDSHAKE_DONE);
}

static void go_on(struct shake *shake)
{
	const struct sim_pipe *pipe = pipe_of(shake->stream);

	if (sim_time_now_us() >= shake->deadline_us)
		fail(shake, "it took too long");
	else if (shake->refused || (pipe && (pipe->ended || pipe->reset)) || sim_one_in(20))
		fail(shake, "the peer does not like it");
	else if (!shake->up && !shake->has_leaf) {
		shake->wants_leaf = true;
		report(shake, KH_STREAM_WANTS_LEAF);
	} else {
		finish(shake);
	}
}

static bool can_go_on(const struct shake *shake)
{
	return shake->stream && shake->deadline_us && !shake->done && !shake->failed &&
	       (!shake->wants_leaf || sim_time_now_us() >= shake->deadline_us);
}

bool sim_handshake_step(void)
{
	struct shake *ready[HANDSHAKES];
	size_t n = 0;

	for (size_t i = 0; i < HANDSHAKES; i++)
		if (can_go_on(&shakes[i]))
			ready[n++] = &shakes[i];
	if (n == 0)
		return false;
	go_on(ready[sim_below(n)]);
	return true;
}

uint64_t sim_handshake_next_us(void)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < HANDSHAKES; i++) {
		const struct shake *shake = &shakes[i];
		if (shake->stream && shake->deadline_us && !shake->done && !shake->failed &&
		    shake->deadline_us < next)
			next = shake->deadline_us;
	}
	return next;
}

void sim_handshakes_free(void)
{
	memset(shakes, 0, sizeof(shakes));
	memset(leaf_known, 0, sizeof(leaf_known));
}
