/*
 * fuzz_host.c - hosts, ranges and socket addresses
 *
 * What is taken must be canonical: made of few bytes, stable under another reading, and no spelling
 * that the C library would dial as another address.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <keyhole/base/host.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static bool is_canonical_byte(char c)
{
	return (c >= 'a' && c <= 'z') || kh_is_digit(c) || c == '.' || c == '-' || c == '_' ||
	       c == ':';
}

static void check_host(struct kh_slice text)
{
	struct kh_host host, again;
	struct kh_err err = KH_ERR_INIT;
	if (!kh_host_parse(&host, text, &err)) {
		require(host.kind == KH_HOST_NONE && err.text[0] &&
			strlen(err.text) < sizeof(err.text));
		return;
	}
	require(host.len > 0 && host.len == strlen(host.text));
	for (size_t i = 0; i < host.len; i++)
		require(is_canonical_byte(host.text[i]));
	struct in_addr v4;
	if (host.kind == KH_HOST_NAME)
		require(inet_aton(host.text, &v4) == 0);
	else
		require(inet_pton(host.kind == KH_HOST_IPV4 ? AF_INET : AF_INET6, host.text,
				  again.addr) == 1);
	require(kh_host_parse(&again, kh_host_view(&host), NULL) && kh_host_eq(&host, &again));
}

static void check_range(struct kh_slice text)
{
	struct kh_cidr range;
	if (kh_cidr_parse(&range, text, NULL))
		require(kh_cidr_has(&range, range.family, range.addr));
	else
		require(range.family == 0);
}

static void check_sockaddr(struct kh_slice text)
{
	struct kh_sockaddr addr, again;
	char shown[KH_SOCKADDR_TEXT_BYTES];
	bool ok = kh_sockaddr_parse(&addr, text, 443, NULL);
	kh_sockaddr_format(&addr, shown);
	if (ok)
		require(kh_sockaddr_parse(&again, kh_slice_str(shown), 0, NULL) &&
			again.len == addr.len && memcmp(&again.any, &addr.any, addr.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_slice text = kh_slice_of(data, size);
	check_host(text);
	check_range(text);
	check_sockaddr(text);
	return 0;
}
