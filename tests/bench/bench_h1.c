/*
 * bench_h1.c - nanoseconds of CPU to read one typical request head of about 1 KiB
 *
 *   cc -O2 -std=c17 -D_GNU_SOURCE -Iinclude tests/bench/bench_h1.c build/libkeyhole.a -o bench_h1
 */
#include <stdio.h>
#include <time.h>

#include <keyhole/http/h1.h>

static const char head[] =
	"POST /v1/messages?beta=true HTTP/1.1\r\n"
	"Host: api.example.com\r\n"
	"Accept: application/json\r\n"
	"Accept-Encoding: gzip, deflate, br, zstd\r\n"
	"Accept-Language: *\r\n"
	"Connection: keep-alive\r\n"
	"Content-Length: 0\r\n"
	"Content-Type: application/json\r\n"
	"User-Agent: agent-cli/2.1.3 (external, cli) node/24.1.0 linux x64 like a browser "
	"(KHTML, like Gecko) Version/17.0 Safari/605.1.15 and some more words to be as long\r\n"
	"x-api-key: sk-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	"abcdefghijklmnopqrstuvwxyzABCDEF\r\n"
	"x-features: interleaved-output-2025-05-14,fine-grained-tool-streaming-2025-05-14,"
	"context-management-2025-06-27,prompt-caching-scope-2026-01-05,effort-2025-11-24\r\n"
	"x-runtime: node; v24.1.0; linux; x64; retry-count=0; timeout=600; package=0.70.1\r\n"
	"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
	"\r\n";

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Return: the best of ten rounds. */
static double measure(struct kh_h1 *h1, bool release)
{
	enum { ROUNDS = 10, HEADS = 100000 };
	double best = 0;

	for (int round = 0; round < ROUNDS; round++) {
		double start = now();

		for (int i = 0; i < HEADS; i++) {
			struct kh_slice in = { head, sizeof(head) - 1 }, body;

			bool whole = kh_h1_feed(h1, &in, &body) == KH_H1_HEAD;

			whole = kh_h1_feed(h1, &in, &body) == KH_H1_END && whole;
			if (!whole)
				return -1;
			if (release)
				kh_h1_release(h1);
		}
		double each = (now() - start) / HEADS;
		if (round == 0 || each < best)
			best = each;
	}
	return best;
}

int main(void)
{
	struct kh_h1 *h1 = kh_h1_new(KH_H1_REQUESTS);

	if (!h1)
		return 1;
	printf("head of %zu bytes: %.0f ns", sizeof(head) - 1, measure(h1, false));
	printf(", %.0f ns when memory is given back behind each\n", measure(h1, true));
	kh_h1_free(h1);
	return 0;
}
