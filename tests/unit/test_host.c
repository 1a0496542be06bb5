/* test_host.c - a host has one reading, and every other spelling is refused */
#include "unit.h"

#include <arpa/inet.h>
#include <stdio.h>

#include <keyhole/base/host.h>
#include <keyhole/http/target.h>

#define BYTES63 "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0"

static const struct {
	struct kh_slice text;
	enum kh_host_kind kind;
	const char *canonical;
} good[] = {
	{ KH_SLICE_INIT("example.com"), KH_HOST_NAME, "example.com" },
	{ KH_SLICE_INIT("API.Example.COM"), KH_HOST_NAME, "api.example.com" },
	{ KH_SLICE_INIT("localhost"), KH_HOST_NAME, "localhost" },
	{ KH_SLICE_INIT("a"), KH_HOST_NAME, "a" },
	{ KH_SLICE_INIT("xn--bcher-kva.example"), KH_HOST_NAME, "xn--bcher-kva.example" },
	{ KH_SLICE_INIT("_dmarc.example.com"), KH_HOST_NAME, "_dmarc.example.com" },
	{ KH_SLICE_INIT("a_b-c.d"), KH_HOST_NAME, "a_b-c.d" },
	{ KH_SLICE_INIT("1.2.3.4.example"), KH_HOST_NAME, "1.2.3.4.example" },
	{ KH_SLICE_INIT("3com.com"), KH_HOST_NAME, "3com.com" },
	{ KH_SLICE_INIT("1a"), KH_HOST_NAME, "1a" },
	{ KH_SLICE_INIT("0xg"), KH_HOST_NAME, "0xg" },
	{ KH_SLICE_INIT("0x1.example"), KH_HOST_NAME, "0x1.example" },
	{ KH_SLICE_INIT(BYTES63 ".a"), KH_HOST_NAME, BYTES63 ".a" },
	{ KH_SLICE_INIT("0.0.0.0"), KH_HOST_IPV4, "0.0.0.0" },
	{ KH_SLICE_INIT("127.0.0.1"), KH_HOST_IPV4, "127.0.0.1" },
	{ KH_SLICE_INIT("255.255.255.255"), KH_HOST_IPV4, "255.255.255.255" },
	{ KH_SLICE_INIT("10.20.30.40"), KH_HOST_IPV4, "10.20.30.40" },
	{ KH_SLICE_INIT("::"), KH_HOST_IPV6, "::" },
	{ KH_SLICE_INIT("::1"), KH_HOST_IPV6, "::1" },
	{ KH_SLICE_INIT("0:0:0:0:0:0:0:1"), KH_HOST_IPV6, "::1" },
	{ KH_SLICE_INIT("2001:DB8::00a"), KH_HOST_IPV6, "2001:db8::a" },
	{ KH_SLICE_INIT("::ffff:127.0.0.1"), KH_HOST_IPV6, "::ffff:127.0.0.1" },
	{ KH_SLICE_INIT("::ffff:7f00:1"), KH_HOST_IPV6, "::ffff:127.0.0.1" },
	{ KH_SLICE_INIT("64:ff9b::a9fe:a9fe"), KH_HOST_IPV6, "64:ff9b::a9fe:a9fe" },
};

static const struct kh_slice bad[] = {
	/* nothing, and labels that are nothing */
	KH_SLICE_INIT(""),
	KH_SLICE_INIT("."),
	KH_SLICE_INIT(".."),
	KH_SLICE_INIT("example.com."),
	KH_SLICE_INIT("example.com.."),
	KH_SLICE_INIT(".example.com"),
	KH_SLICE_INIT("a..b"),
	/* hyphens at a label's edge */
	KH_SLICE_INIT("-a.example"),
	KH_SLICE_INIT("a-.example"),
	KH_SLICE_INIT("a.-"),
	KH_SLICE_INIT("-"),
	/* what splits, hides or ends a host elsewhere */
	KH_SLICE_INIT("a.example\0.evil.example"),
	KH_SLICE_INIT("\0"),
	KH_SLICE_INIT("a.example "),
	KH_SLICE_INIT(" a.example"),
	KH_SLICE_INIT("a example"),
	KH_SLICE_INIT("a.example\t"),
	KH_SLICE_INIT("a.example\r\n"),
	KH_SLICE_INIT("a%2eexample"),
	KH_SLICE_INIT("%61.example"),
	KH_SLICE_INIT("user@a.example"),
	KH_SLICE_INIT("a.example/"),
	KH_SLICE_INIT("a.example?"),
	KH_SLICE_INIT("a.example#"),
	KH_SLICE_INIT("a.example\\b"),
	KH_SLICE_INIT("a.example:443"),
	KH_SLICE_INIT("a.example:"),
	KH_SLICE_INIT("a,b"),
	KH_SLICE_INIT("a;b"),
	KH_SLICE_INIT("*.example"),
	KH_SLICE_INIT("a~b"),
	KH_SLICE_INIT("a!"),
	KH_SLICE_INIT("\x7f"),
	/* bytes above ASCII: fullwidth letters and dots fold to ASCII in other programs */
	KH_SLICE_INIT("b\xc3\xbc"
		      "cher.example"),
	KH_SLICE_INIT("a\xe3\x80\x82"
		      "example"), /* ideographic full stop */
	KH_SLICE_INIT("\xef\xbd\x85xample.com"),
	KH_SLICE_INIT("a\xad.example"),
	/* other spellings of 127.0.0.1, and numbers in the last place */
	KH_SLICE_INIT("127.1"),
	KH_SLICE_INIT("127.0.1"),
	KH_SLICE_INIT("2130706433"),
	KH_SLICE_INIT("017700000001"),
	KH_SLICE_INIT("0x7f000001"),
	KH_SLICE_INIT("0X7F000001"),
	KH_SLICE_INIT("0x7f.1"),
	KH_SLICE_INIT("0x7f.0x0.0x0.0x1"),
	KH_SLICE_INIT("0177.0.0.1"),
	KH_SLICE_INIT("127.0.0.01"),
	KH_SLICE_INIT("127.0.0.001"),
	KH_SLICE_INIT("127.0.0.1."),
	KH_SLICE_INIT("127.0.0.256"),
	KH_SLICE_INIT("127.0.0.0x1"),
	KH_SLICE_INIT("127.0.0.0x"),
	KH_SLICE_INIT("1.2.3.4.5"),
	KH_SLICE_INIT("1.2.3"),
	KH_SLICE_INIT("0"),
	KH_SLICE_INIT("00000000.0.0.0"),
	KH_SLICE_INIT("4294967297.0.0.1"),
	KH_SLICE_INIT("example.1"),
	KH_SLICE_INIT("example.0x"),
	KH_SLICE_INIT("example.0xff"),
	KH_SLICE_INIT("foo.09"),
	KH_SLICE_INIT("+127.0.0.1"),
	KH_SLICE_INIT("127.0.0.1,"),
	/* IPv6 */
	KH_SLICE_INIT("[::1]"),
	KH_SLICE_INIT("[::1"),
	KH_SLICE_INIT("::1]"),
	KH_SLICE_INIT("::1%lo"),
	KH_SLICE_INIT("fe80::1%25eth0"),
	KH_SLICE_INIT("fe80::1%1"),
	KH_SLICE_INIT(":"),
	KH_SLICE_INIT(":::"),
	KH_SLICE_INIT("1::2::3"),
	KH_SLICE_INIT("12345::"),
	KH_SLICE_INIT("::1\0"),
	KH_SLICE_INIT("::1 "),
	KH_SLICE_INIT(" ::1"),
	KH_SLICE_INIT("::g"),
	KH_SLICE_INIT("0:0:0:0:0:0:0:0:1"),
	KH_SLICE_INIT("::ffff:127.0.0.256"),
	KH_SLICE_INIT("::ffff:0x7f.0.0.1"),
	KH_SLICE_INIT("0000000000000000000000000000000000000000000000000::1"),
	/* too long */
	KH_SLICE_INIT(BYTES63 "x.example"),
};

static void one_spelling_is_taken_and_put_into_canonical_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct kh_host host;
		struct kh_err err = KH_ERR_INIT;
		if (!kh_host_parse(&host, good[i].text, &err))
			fail_msg("%s", err.text);
		assert_int_equal(host.kind, good[i].kind);
		assert_string_equal(host.text, good[i].canonical);
		assert_int_equal(host.len, strlen(host.text));
		/* Reading the canonical form gives the same again. */
		struct kh_host again;
		assert_true(kh_host_parse(&again, kh_host_view(&host), NULL));
		assert_true(kh_host_eq(&host, &again));
		assert_memory_equal(&host.addr, &again.addr, sizeof(host.addr));
	}
}

static void every_other_spelling_is_refused(void **state)
{
	(void)state;
	static const struct kh_host none = { .kind = KH_HOST_NONE };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kh_host host;
		memset(&host, 0x5a, sizeof(host));
		struct kh_err err = KH_ERR_INIT;
		if (kh_host_parse(&host, bad[i], &err))
			fail_msg("taken: row %zu, \"%s\"", i, host.text);
		assert_int_equal(err.code, KH_ERR_REQUEST_MALFORMED);
		assert_true(err.text[0] != 0);
		/* Who forgets to look at the answer has a host that matches nothing. */
		assert_int_equal(host.kind, KH_HOST_NONE);
		assert_memory_equal(host.addr, none.addr, sizeof(none.addr));
		assert_false(kh_host_eq(&host, &host));
	}
}

static void lengths_end_at_253_and_63(void **state)
{
	(void)state;
	char text[300];
	struct kh_host host;
	for (size_t len = 1; len < sizeof(text); len++) {
		for (size_t i = 0; i < len; i++)
			text[i] = i % 50 == 49 && i + 1 < len ? '.' : 'a';
		bool ok = kh_host_parse(&host, kh_slice_of(text, len), NULL);
		assert_int_equal(ok, len <= KH_HOST_MAX_BYTES);
		memset(text, 'b', len);
		ok = kh_host_parse(&host, kh_slice_of(text, len), NULL);
		assert_int_equal(ok, len <= 63);
	}
}

/* A byte is let through in a name only when it is on the list, wherever it stands. */
static void every_byte_is_judged_at_every_place(void **state)
{
	(void)state;
	for (int c = 0; c < 256; c++) {
		for (size_t at = 0; at < 9; at++) {
			char text[] = "abc.defgh";
			text[at] = (char)c;
			struct kh_host host;
			bool ok = kh_host_parse(&host, kh_slice_of(text, 9), NULL);
			bool letter = c < 0x80 &&
				      (kh_is_alpha((char)c) || kh_is_digit((char)c) || c == '_');
			bool edge = at == 0 || at == 2 || at == 4 || at == 8 || at == 3;
			bool want = letter || (c == '-' && !(edge && at != 3));
			if (c == '.')
				want = at != 0 && at != 2 && at != 4 && at != 8;
			/* "abc" and "defgh" meet at the place of the dot: one label, no edge */
			assert_int_equal(ok, want);
		}
	}
}

/* For any bytes that are taken: the canonical form is made of few bytes, and stable. */
static void what_is_taken_is_canonical(void **state)
{
	(void)state;
	static const char alphabet[] = "aZ09.-_:xf1%[]/ \0\xff";
	uint32_t seed = 99;
	unsigned taken = 0;
	for (int round = 0; round < 300000; round++) {
		char text[12];
		size_t len = 0;
		do {
			seed = seed * 1664525u + 1013904223u;
			text[len++] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
		} while (len < sizeof(text) && (seed >> 8) % 8);
		struct kh_host host, again;
		if (!kh_host_parse(&host, kh_slice_of(text, len), NULL))
			continue;
		taken++;
		assert_true(host.len > 0 && host.len == strlen(host.text));
		for (size_t i = 0; i < host.len; i++) {
			char c = host.text[i];
			assert_true((c >= 'a' && c <= 'z') || kh_is_digit(c) || c == '.' ||
				    c == '-' || c == '_' || c == ':');
			assert_true(c != ':' || host.kind == KH_HOST_IPV6);
		}
		struct in_addr v4;
		/* What the C library takes for IPv4 in any spelling is never a name to us. */
		if (host.kind == KH_HOST_NAME)
			assert_int_equal(inet_aton(host.text, &v4), 0);
		assert_true(kh_host_parse(&again, kh_host_view(&host), NULL));
		assert_true(kh_host_eq(&host, &again));
	}
	assert_true(taken > 1000);
}

static void equal_means_same_kind_and_text(void **state)
{
	(void)state;
	struct kh_host a, b, none = { .kind = KH_HOST_NONE };
	assert_true(kh_host_parse(&a, KH_SLICE("A.example"), NULL));
	assert_true(kh_host_parse(&b, KH_SLICE("a.EXAMPLE"), NULL));
	assert_true(kh_host_eq(&a, &b));
	assert_true(kh_host_parse(&b, KH_SLICE("aa.example"), NULL));
	assert_false(kh_host_eq(&a, &b));
	assert_true(kh_host_parse(&a, KH_SLICE("::ffff:1.2.3.4"), NULL));
	assert_true(kh_host_parse(&b, KH_SLICE("1.2.3.4"), NULL));
	assert_false(kh_host_eq(&a, &b));
	assert_false(kh_host_eq(&none, &none));
}

static void an_error_shows_no_raw_byte(void **state)
{
	(void)state;
	struct kh_host host;
	struct kh_err err = KH_ERR_INIT;
	assert_false(kh_host_parse(&host, KH_SLICE("a\x1b[2J\n\"b"), &err));
	for (const char *c = err.text; *c; c++)
		assert_true(*c >= 0x20 && *c < 0x7f);
	assert_non_null(strstr(err.text, "a\\x1b[2J\\x0a\\\"b"));
}

static void ranges_are_first_address_and_prefix(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int family; /* 0: refused */
		int bits;
	} table[] = {
		{ "10.0.0.0/8", 4, 8 },
		{ "0.0.0.0/0", 4, 0 },
		{ "127.0.0.1", 4, 32 },
		{ "127.0.0.1/32", 4, 32 },
		{ "192.168.128.0/17", 4, 17 },
		{ "fd00::/8", 6, 8 },
		{ "::/0", 6, 0 },
		{ "::1", 6, 128 },
		{ "2001:db8::/33", 6, 33 },
		{ "10.0.0.1/8", 0, 0 },
		{ "192.168.128.0/16", 0, 0 },
		{ "10.0.0.0/33", 0, 0 },
		{ "10.0.0.0/", 0, 0 },
		{ "10.0.0.0/08", 0, 0 },
		{ "10.0.0.0/+8", 0, 0 },
		{ "10.0.0.0/-1", 0, 0 },
		{ "10.0.0.0/8 ", 0, 0 },
		{ "10.0.0.0/8/8", 0, 0 },
		{ "10.0.0/8", 0, 0 },
		{ "010.0.0.0/8", 0, 0 },
		{ "fd00::/129", 0, 0 },
		{ "fd00::1/64", 0, 0 },
		{ "[fd00::]/8", 0, 0 },
		{ "", 0, 0 },
		{ "/8", 0, 0 },
		{ "example.com", 0, 0 },
		{ "example.com/8", 0, 0 },
		{ "10.0.0.0/4294967304", 0, 0 },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct kh_cidr range;
		bool ok = kh_cidr_parse(&range, kh_slice_str(table[i].text), NULL);
		if (ok != (table[i].family != 0))
			fail_msg("\"%s\"", table[i].text);
		assert_int_equal(range.family, table[i].family);
		assert_int_equal(range.prefix_bits, table[i].bits);
	}
}

/* Against a reading of every bit. */
static void a_range_holds_what_shares_its_prefix(void **state)
{
	(void)state;
	uint32_t seed = 5;
	for (int family = 4; family <= 6; family += 2) {
		unsigned bits = family == 4 ? 32 : 128;
		for (unsigned prefix = 0; prefix <= bits; prefix++) {
			for (int round = 0; round < 40; round++) {
				struct kh_cidr range = { .family = (uint8_t)family,
							 .prefix_bits = (uint8_t)prefix };
				uint8_t addr[16];
				for (unsigned i = 0; i < 16; i++) {
					seed = seed * 1664525u + 1013904223u;
					range.addr[i] = addr[i] = (uint8_t)(seed >> 24);
				}
				for (unsigned bit = prefix; bit < bits; bit++)
					range.addr[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
				assert_true(kh_cidr_has(&range, (uint8_t)family, addr));
				assert_false(kh_cidr_has(&range, (uint8_t)(10 - family), addr));
				if (prefix == 0)
					continue;
				seed = seed * 1664525u + 1013904223u;
				unsigned flip = (seed >> 16) % prefix;
				addr[flip / 8] ^= (uint8_t)(0x80u >> flip % 8);
				assert_false(kh_cidr_has(&range, (uint8_t)family, addr));
			}
		}
	}
	struct kh_cidr nothing = { 0 }, broken = { .family = 4, .prefix_bits = 200 };
	uint8_t zero[16] = { 0 };
	assert_false(kh_cidr_has(&nothing, 4, zero));
	assert_false(kh_cidr_has(&nothing, 0, zero));
	assert_false(kh_cidr_has(&broken, 4, zero));
}

static void socket_addresses_are_read_strictly(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint16_t port;
		const char *want; /* NULL: refused */
	} table[] = {
		{ "127.0.0.1:9443", 443, "127.0.0.1:9443" },
		{ "127.0.0.1", 443, "127.0.0.1:443" },
		{ "127.0.0.1", 0, NULL },
		{ "127.0.0.1:53", 0, "127.0.0.1:53" },
		{ "[::1]:53", 443, "[::1]:53" },
		{ "[::1]", 443, "[::1]:443" },
		{ "[2001:DB8::1]:1", 443, "[2001:db8::1]:1" },
		{ "127.0.0.1:65535", 0, "127.0.0.1:65535" },
		{ "127.0.0.1:65536", 443, NULL },
		{ "127.0.0.1:0", 443, NULL },
		{ "127.0.0.1:0443", 443, NULL },
		{ "127.0.0.1:", 443, NULL },
		{ "127.0.0.1:+1", 443, NULL },
		{ "127.0.0.1:1 ", 443, NULL },
		{ "127.0.0.1:1:1", 443, NULL },
		{ "::1", 443, NULL },
		{ "::1:53", 443, NULL },
		{ "[::1", 443, NULL },
		{ "[::1]53", 443, NULL },
		{ "[::1]:", 443, NULL },
		{ "[[::1]]:53", 443, NULL },
		{ "[127.0.0.1]:53", 443, NULL },
		{ "[fe80::1%lo]:53", 443, NULL },
		{ "localhost:53", 443, NULL },
		{ "127.1:53", 443, NULL },
		{ ":53", 443, NULL },
		{ "", 443, NULL },
		{ "[]:1", 443, NULL },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct kh_sockaddr addr;
		bool ok =
			kh_sockaddr_parse(&addr, kh_slice_str(table[i].text), table[i].port, NULL);
		if (ok != (table[i].want != NULL))
			fail_msg("\"%s\"", table[i].text);
		char text[KH_SOCKADDR_TEXT_BYTES];
		kh_sockaddr_format(&addr, text);
		assert_string_equal(text, ok ? table[i].want : "?");
		assert_int_equal(addr.len != 0, ok);
	}
}

static void host_and_port_are_read_strictly(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint16_t usual;
		const char *host; /* NULL: refused */
		uint16_t port;
	} table[] = {
		{ "a.example", 443, "a.example", 443 },
		{ "A.example:8443", 443, "a.example", 8443 },
		{ "127.0.0.1:1", 443, "127.0.0.1", 1 },
		{ "[::1]", 443, "::1", 443 },
		{ "[2001:DB8::00a]:65535", 0, "2001:db8::a", 65535 },
		{ "a.example", 0, NULL, 0 },
		{ "[::1]", 0, NULL, 0 },
		{ "", 443, NULL, 0 },
		{ ":443", 443, NULL, 0 },
		{ "a.example:", 443, NULL, 0 },
		{ "a.example:0", 443, NULL, 0 },
		{ "a.example:0443", 443, NULL, 0 },
		{ "a.example:65536", 443, NULL, 0 },
		{ "a.example:443:443", 443, NULL, 0 },
		{ "::1", 443, NULL, 0 },
		{ "2001:db8::1:443", 443, NULL, 0 },
		{ "[::1", 443, NULL, 0 },
		{ "[", 443, NULL, 0 },
		{ "[]", 443, NULL, 0 },
		{ "[]:1", 443, NULL, 0 },
		{ "[::1]443", 443, NULL, 0 },
		{ "[::1]:", 443, NULL, 0 },
		{ "[[::1]]:1", 443, NULL, 0 },
		{ "[::1%lo]:1", 443, NULL, 0 },
		{ "[a.example]:1", 443, NULL, 0 },
		{ "[127.0.0.1]:1", 443, NULL, 0 },
		{ "127.1:1", 443, NULL, 0 },
		{ "me@a.example:1", 443, NULL, 0 },
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct kh_host host;
		uint16_t port = 0;
		bool ok = kh_host_port_parse(&host, &port, kh_slice_str(table[i].text),
					     table[i].usual);
		struct kh_authority same;
		if (ok != (table[i].host != NULL) ||
		    ok != kh_authority_parse(&same, kh_slice_str(table[i].text), table[i].usual,
					     NULL))
			fail_msg("\"%s\"", table[i].text);
		if (ok) {
			assert_true(kh_host_eq(&host, &same.host) && port == same.port);
			assert_string_equal(host.text, table[i].host);
			assert_int_equal(port, table[i].port);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_spelling_is_taken_and_put_into_canonical_form),
		cmocka_unit_test(every_other_spelling_is_refused),
		cmocka_unit_test(lengths_end_at_253_and_63),
		cmocka_unit_test(every_byte_is_judged_at_every_place),
		cmocka_unit_test(what_is_taken_is_canonical),
		cmocka_unit_test(equal_means_same_kind_and_text),
		cmocka_unit_test(an_error_shows_no_raw_byte),
		cmocka_unit_test(ranges_are_first_address_and_prefix),
		cmocka_unit_test(a_range_holds_what_shares_its_prefix),
		cmocka_unit_test(socket_addresses_are_read_strictly),
		cmocka_unit_test(host_and_port_are_read_strictly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
