/*
 * load.c - a load generator that speaks to a proxy's Unix socket
 *
 *	load --unix PATH --to HOST:PORT --ca FILE [--connections N] [--seconds S | --requests R]
 *
 * N clients: each connects, asks for a tunnel (CONNECT), shakes hands, and sends one request after
 * another. At the end one JSON object: requests, errors, requests a second, times in microseconds.
 *
 *	--tcp HOST:PORT     the proxy's address instead of --unix
 *	--direct HOST:PORT  no CONNECT: the address of an origin, or of a proxy that does TLS
 *	--direct-unix PATH  the same on a Unix socket
 *	--plain             no TLS
 *	--method M --path P --body BYTES --field "name: value"    (POST /echo, 1024)
 *	--new-tunnels       one request a tunnel; times are from connect(2) on
 *	--events            also: how late the events of the origin's /sse are
 *	--websocket         one upgrade a connection (--path), then messages of --body bytes, each
 *	                    echoed and counted as a request
 *	--h2 N              HTTP/2, N requests under way on each connection
 *	--grpc              … each a unary call: a message of --body bytes, trailers in the answer
 *	--socks             SOCKS5 instead of CONNECT
 *	--hold              one request a connection, which then stays open, idle; a line {"held":N}
 *	                    when all of them are there
 *	--warmup S          seconds that don't count
 *	--milliseconds MS --warmup-ms MS   the same, finer
 *	--mark              a line {"warm":true} when the warm-up is over
 *	--timeout S         patience with one request (30)
 *	--ids PREFIX        /PREFIX-N behind the path, and x-id: PREFIX-N
 *	--log FILE          "got ID STATUS" and "lost ID", a line each (with --ids)
 */
#include <errno.h>
#include <signal.h>
#include <sys/un.h>

#include <event2/event.h>

#include "load.h"

enum {
	MOST_CONNECTIONS = 65536,
	MOST_BODY = 256 * 1024 * 1024,
	MOST_MS = 600000,
	MOST_STREAMS = 1000,
	HOLD_AT_ONCE = 16
};

static void print_report(const struct load *load, double seconds)
{
	static const char *const names[] = {
#define LOAD_NAME(name, text) text,
		LOAD_FAULTS(LOAD_NAME)
#undef LOAD_NAME
	};
	const struct bench_times *t = &load->times, *e = &load->event_times;
	const char *comma = "";

	printf("{\"requests\":%" PRIu64 ",\"seconds\":%.3f,\"per_second\":%.1f,\"statuses\":{",
	       t->count, seconds, (double)t->count / seconds);
	for (unsigned i = 0; i < STATUSES; i++) {
		if (load->statuses[i] == 0)
			continue;
		printf("%s\"%u\":%" PRIu64, comma, i, load->statuses[i]);
		comma = ",";
	}
	printf("},\"errors\":{");
	comma = "";
	for (unsigned i = 0; i < LOAD_FAULT_COUNT; i++) {
		if (load->faults[i] == 0)
			continue;
		printf("%s\"%s\":%" PRIu64, comma, names[i], load->faults[i]);
		comma = ",";
	}
	printf("},\"p50_us\":%" PRIu64 ",\"p99_us\":%" PRIu64 ",\"max_us\":%" PRIu64
	       ",\"bytes\":%" PRIu64 ",\"sent_bytes\":%" PRIu64 ",\"tunnels\":%" PRIu64,
	       bench_quantile(t, 0.5), bench_quantile(t, 0.99), t->most, load->bytes,
	       load->sent_bytes, load->tunnels);
	if (load->events)
		printf(",\"events\":%" PRIu64 ",\"event_p50_us\":%" PRIu64
		       ",\"event_p99_us\":%" PRIu64,
		       e->count, bench_quantile(e, 0.5), bench_quantile(e, 0.99));
	printf("}\n");
	(void)fflush(stdout);
}

static void set_unix(struct load *load, const char *path)
{
	struct sockaddr_un *to = (struct sockaddr_un *)(void *)&load->to;

	if (strlen(path) >= sizeof(to->sun_path))
		bench_die("load: %s: too long for a socket's path", path);
	to->sun_family = AF_UNIX;
	memcpy(to->sun_path, path, strlen(path) + 1);
	load->to_len = sizeof(*to);
}

static void set_address(struct load *load, const char *text)
{
	struct kh_sockaddr to;
	struct kh_err err = KH_ERR_INIT;

	if (!kh_sockaddr_parse(&to, kh_slice_str(text), 0, &err))
		bench_die("load: %s", err.text);
	memcpy(&load->to, &to.any, to.len);
	load->to_len = to.len;
}

static void set_authority(struct load *load, const char *text)
{
	struct kh_err err = KH_ERR_INIT;
	int n;

	if (!kh_authority_parse(&load->authority, kh_slice_str(text), 0, &err))
		bench_die("load: --to %s: %s", text, err.text);
	n = snprintf(load->authority_text, sizeof(load->authority_text), "%s", text);
	if (n < 0 || (size_t)n >= sizeof(load->authority_text))
		bench_die("load: --to %s: too long", text);
}

static void set_tls(struct load *load, const char *ca)
{
	static const unsigned char h2[] = { 2, 'h', '2' };

	load->tls = SSL_CTX_new(TLS_client_method());
	if (!load->tls || SSL_CTX_load_verify_file(load->tls, ca) != 1)
		bench_die("load: --ca %s: no certificate can be read", ca);
	if (load->h2 > 0 && SSL_CTX_set_alpn_protos(load->tls, h2, sizeof(h2)) != 0)
		bench_die("load: no memory");
	SSL_CTX_set_verify(load->tls, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(load->tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
					    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

/* A gRPC message is a flag, four bytes of length, and that many bytes. */
static void set_body(struct load *load)
{
	enum { PREFIX_BYTES = 5 };
	size_t prefix = load->grpc ? PREFIX_BYTES : 0, len = (size_t)load->body_bytes;

	load->body = malloc(prefix + len + 1);
	if (!load->body)
		bench_die("load: no memory");
	memset(load->body, 'x', prefix + len);
	for (size_t i = 0; i < prefix; i++)
		load->body[i] = (char)((uint64_t)len >> (8 * (PREFIX_BYTES - 1 - i)));
	load->body_bytes += prefix;
	snprintf(load->length_text, sizeof(load->length_text), "%" PRIu64, load->body_bytes);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)event_base_loopbreak(arg);
}

/* What was counted so far was the warm-up. */
static void on_warm(evutil_socket_t fd, short what, void *arg)
{
	struct load *load = arg;

	(void)fd;
	(void)what;
	memset(&load->times, 0, sizeof(load->times));
	memset(&load->event_times, 0, sizeof(load->event_times));
	memset(load->statuses, 0, sizeof(load->statuses));
	memset(load->faults, 0, sizeof(load->faults));
	load->bytes = load->sent_bytes = load->tunnels = 0;
	load->warm_us = kh_clock_mono_us();
	if (load->mark) {
		printf("{\"warm\":true}\n");
		(void)fflush(stdout);
	}
}

static struct event *timer(struct load *load, event_callback_fn callback, void *arg, uint64_t ms)
{
	struct timeval in = { .tv_sec = (time_t)(ms / 1000),
			      .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
	struct event *event = evtimer_new(load->base, callback, arg);

	if (!event || event_add(event, &in) != 0)
		bench_die("load: no events");
	return event;
}

static void run(struct load *load, uint64_t connections, uint64_t warmup_ms, uint64_t ms)
{
	struct event *end = timer(load, on_end, load->base, warmup_ms + ms), *warm = NULL,
		     *term = evsignal_new(load->base, SIGTERM, on_end, load->base);

	load->conns = calloc(connections, sizeof(struct load_conn *));
	load->n_conns = connections;
	if (!load->conns || !term || event_add(term, NULL) != 0)
		bench_die("load: no events");
	load->warm_us = kh_clock_mono_us();
	if (warmup_ms > 0 || load->mark)
		warm = timer(load, on_warm, load, warmup_ms);
	for (uint64_t i = 0; i < connections; i++) {
		load->conns[i] = load_conn_new(load);
		if (!load->conns[i])
			bench_die("load: no memory for %" PRIu64 " connections", connections);
	}
	/* Those that are to be held come one after the other, a few at a time. */
	for (uint64_t i = 0; i < (load->hold ? HOLD_AT_ONCE : connections); i++)
		load_conn_begin_next(load);
	(void)event_base_dispatch(load->base);
	load->ended = true;
	print_report(load, (double)(kh_clock_mono_us() - load->warm_us) / 1e6);
	for (uint64_t i = 0; i < connections; i++)
		load_conn_free(load->conns[i]);
	free(load->conns);
	event_free(end);
	event_free(term);
	if (warm)
		event_free(warm);
}

int main(int argc, char **argv)
{
	static struct load load;
	const char *unix_path = NULL, *tcp = NULL, *direct = NULL, *direct_unix = NULL, *to = NULL,
		   *ca = NULL, *log = NULL;
	uint64_t connections = 1, seconds = 0, ms = 0, warmup = 0, warmup_ms = 0, timeout = 30;
	bool plain = false;
	const struct bench_option options[] = {
		{ .name = "--unix", .text = &unix_path },
		{ .name = "--tcp", .text = &tcp },
		{ .name = "--direct", .text = &direct },
		{ .name = "--direct-unix", .text = &direct_unix },
		{ .name = "--to", .text = &to },
		{ .name = "--ca", .text = &ca },
		{ .name = "--method", .text = &load.method },
		{ .name = "--path", .text = &load.path },
		{ .name = "--field", .text = &load.field },
		{ .name = "--ids", .text = &load.ids },
		{ .name = "--log", .text = &log },
		{ .name = "--connections", .number = &connections },
		{ .name = "--seconds", .number = &seconds },
		{ .name = "--requests", .number = &load.most },
		{ .name = "--warmup", .number = &warmup },
		{ .name = "--milliseconds", .number = &ms },
		{ .name = "--warmup-ms", .number = &warmup_ms },
		{ .name = "--timeout", .number = &timeout },
		{ .name = "--body", .number = &load.body_bytes },
		{ .name = "--plain", .flag = &plain },
		{ .name = "--new-tunnels", .flag = &load.new_tunnels },
		{ .name = "--events", .flag = &load.events },
		{ .name = "--hold", .flag = &load.hold },
		{ .name = "--websocket", .flag = &load.websocket },
		{ .name = "--mark", .flag = &load.mark },
		{ .name = "--h2", .number = &load.h2 },
		{ .name = "--grpc", .flag = &load.grpc },
		{ .name = "--socks", .flag = &load.socks },
		{ .name = NULL },
	};

	load.method = "POST";
	load.path = "/echo";
	load.body_bytes = 1024;
	bench_options(argc, argv, options,
		      "usage: load --unix PATH --to HOST:PORT --ca FILE [--connections N] "
		      "[--seconds S | --requests R] …");
	ms += seconds * 1000;
	warmup_ms += warmup * 1000;
	if (!to || !unix_path + !tcp + !direct + !direct_unix != 3 || plain == (ca != NULL) ||
	    connections == 0 || connections > MOST_CONNECTIONS || load.body_bytes > MOST_BODY ||
	    (ms == 0 && load.most == 0) || (log && !load.ids) || load.h2 > MOST_STREAMS ||
	    (load.h2 > 0 && (plain || load.new_tunnels || load.websocket || load.events)) ||
	    (load.grpc && load.h2 == 0))
		bench_die("load: one of --unix, --tcp, --direct, --direct-unix; --to; --ca or "
			  "--plain; --seconds or --requests; --ids with --log; --grpc with --h2");
	(void)signal(SIGPIPE, SIG_IGN);
	if (ms == 0)
		ms = MOST_MS; /* should the requests never end */
	load.timeout_ms = timeout * 1000;
	load.direct = direct || direct_unix;
	set_authority(&load, to);
	if (unix_path || direct_unix)
		set_unix(&load, unix_path ? unix_path : direct_unix);
	else
		set_address(&load, tcp ? tcp : direct);
	if (ca)
		set_tls(&load, ca);
	set_body(&load);
	load.log = log ? fopen(log, "ae") : NULL;
	load.base = event_base_new();
	if (!load.base || (log && !load.log))
		bench_die("load: %s", strerror(errno));
	run(&load, connections, warmup_ms, ms);
	free(load.body);
	if (load.log)
		(void)fclose(load.log);
	SSL_CTX_free(load.tls);
	event_base_free(load.base);
	return 0;
}
