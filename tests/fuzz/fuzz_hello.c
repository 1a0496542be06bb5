/*
 * fuzz_hello.c - what a sandbox may say first inside its tunnel, as far as a whole ClientHello
 *
 * The input is the prefix that the handshake begins with; then the connection ends. No handshake
 * can be completed so; every one must fail, once, with a word about why.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>

#include <keyhole/tls/ca.h>
#include <keyhole/tls/tls.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static struct event_base *base;
static SSL_CTX *ctx;
static struct kh_host host;

static void make_world(void)
{
	struct kh_buf der;
	struct kh_ca *ca = kh_ca_new(NULL);
	struct kh_leaves *leaves = kh_leaves_new(NULL);
	base = event_base_new();
	require(base && ca && leaves && kh_host_parse(&host, KH_SLICE("api.example.com"), NULL));
	kh_buf_init(&der, 8192);
	require(kh_ca_sign(ca, kh_leaves_spki(leaves), &host, KH_CA_LEAF_S, &der, NULL) &&
		kh_leaves_set_issuer(leaves, kh_ca_der(ca), NULL) &&
		kh_leaves_put(leaves, &host, kh_buf_view(&der), NULL));
	kh_buf_fini(&der);
	kh_ca_free(ca);
	ctx = kh_tls_down_ctx(leaves, NULL);
	require(ctx != NULL);
}

static void on_event(struct kh_stream *stream, unsigned events, void *arg)
{
	unsigned *failed = arg;
	require(events == KH_STREAM_HANDSHAKE_FAILED);
	require(kh_stream_error(stream)->code == KH_ERR_DOWN_TLS);
	require(kh_stream_error(stream)->text[0] != '\0');
	++*failed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned failed = 0;
	int fds[2];
	if (!ctx)
		make_world();
	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	struct kh_stream *stream = kh_stream_new(base, fds[0], on_event, &failed);
	require(stream && kh_stream_accept_tls(stream, ctx, kh_slice_of(data, size), &host, 5000));
	close(fds[1]);
	for (int i = 0; i < 8 && !failed; i++)
		require(event_base_loop(base, EVLOOP_ONCE) >= 0);
	require(failed == 1);
	const char *sni = kh_stream_sni_mismatch(stream);
	for (; sni && *sni; sni++)
		require(*sni >= 0x20 && *sni < 0x7f);
	kh_stream_free(stream);
	return 0;
}
