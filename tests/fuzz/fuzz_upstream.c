/*
 * fuzz_upstream.c - what an upstream may answer to our ClientHello
 *
 * The input is all that it says; then the connection ends. The corpus holds whole flights of
 * TLS 1.2, in which the certificates come in the clear and are verified before anything is signed,
 * so names, extensions and chains of the fuzzer's making reach the verification and its words.
 */
#include <stdlib.h>
#include <sys/mman.h>
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
static struct kh_host host;
static SSL_CTX *ctx;

static void make_world(void)
{
	struct kh_ca *ca = kh_ca_new(NULL);
	struct kh_roots *roots = kh_roots_new();
	int fd = memfd_create("roots", MFD_CLOEXEC);
	base = event_base_new();
	require(base && ca && roots && fd >= 0);
	struct kh_slice pem = kh_ca_pem(ca);
	require(write(fd, pem.ptr, pem.len) == (ssize_t)pem.len);
	require(kh_roots_load(roots, &fd, 1, NULL));
	require(kh_host_parse(&host, KH_SLICE("api.example.com"), NULL));
	close(fd);
	kh_ca_free(ca);
	ctx = kh_tls_up_ctx(roots, NULL);
	require(ctx != NULL);
}

static void on_event(struct kh_stream *stream, unsigned events, void *arg)
{
	unsigned *failed = arg;
	const struct kh_err *err = kh_stream_error(stream);
	require(events == KH_STREAM_HANDSHAKE_FAILED);
	require(err->code == KH_ERR_TLS_CERTIFICATE || err->code == KH_ERR_TLS_PROTOCOL ||
		err->code == KH_ERR_UP_CLOSED);
	for (const char *c = err->text; *c; c++)
		require(*c >= 0x20 && *c < 0x7f);
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
	require(stream && kh_stream_connect_tls(stream, ctx, &host, NULL, NULL, 5000));
	(void)!write(fds[1], data, size);
	require(shutdown(fds[1], SHUT_WR) == 0);
	for (int i = 0; i < 16 && !failed; i++)
		require(event_base_loop(base, EVLOOP_ONCE) >= 0);
	require(failed == 1);
	kh_stream_free(stream);
	close(fds[1]);
	return 0;
}
