/*
 * host.c - the one parser of hosts
 *
 * If two parsers read a host differently, a rule could be asked about one host and the connection
 * made to another. So there is one parser. It repairs nothing, and its result is the only form in
 * which a host is passed on.
 */
#include <keyhole/base/host.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <keyhole/base/escape.h>

enum { MAX_LABEL_BYTES = 63 };

static bool refuse(struct kh_err *err, struct kh_slice text, const char *why)
{
	return kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "host \"%s\": %s", kh_esc(text), why);
}

/* A canonical dotted quad: four decimal numbers up to 255 without leading zeros. */
static bool parse_quad(struct kh_slice text, uint8_t addr[4])
{
	size_t at = 0;
	for (unsigned part = 0; part < 4; part++) {
		size_t end = kh_slice_find(text, '.', at);
		struct kh_slice digits = kh_slice_sub(text, at, end);
		uint64_t value;
		if (digits.len > 3 || !kh_slice_to_u64(digits, &value) || value > 255)
			return false;
		if (digits.len > 1 && digits.ptr[0] == '0')
			return false;
		addr[part] = (uint8_t)value;
		if ((end == text.len) != (part == 3))
			return false;
		at = end + 1;
	}
	return true;
}

static bool parse_v6(struct kh_slice text, uint8_t addr[16])
{
	char copy[INET6_ADDRSTRLEN];
	if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.ptr, 0, text.len))
		return false;
	memcpy(copy, text.ptr, text.len);
	copy[text.len] = 0;
	return inet_pton(AF_INET6, copy, addr) == 1;
}

/* The last label is a number as WHATWG's URL parser sees it: then other programs would read an
 * IPv4 address where we read a name. */
static bool ends_in_number(struct kh_slice text)
{
	size_t from = text.len;
	while (from > 0 && text.ptr[from - 1] != '.')
		from--;
	struct kh_slice last = kh_slice_sub(text, from, text.len);
	if (last.len >= 2 && last.ptr[0] == '0' && kh_lower(last.ptr[1]) == 'x') {
		for (size_t i = 2; i < last.len; i++)
			if (kh_hex_value(last.ptr[i]) < 0)
				return false;
		return true;
	}
	for (size_t i = 0; i < last.len; i++)
		if (!kh_is_digit(last.ptr[i]))
			return false;
	return last.len > 0;
}

static bool is_name_byte(char c)
{
	return kh_is_alpha(c) || kh_is_digit(c) || c == '-' || c == '_';
}

/* NULL when it is a name, else what is wrong with it. */
static const char *name_fault(struct kh_slice text)
{
	if (text.len > KH_HOST_MAX_BYTES)
		return "longer than 253 bytes";
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] != '.' && !is_name_byte(text.ptr[i]))
			return "a name is made of letters, digits, '-', '_' and '.' (an "
			       "internationalised one is written in its xn-- form)";
	for (size_t at = 0; at <= text.len;) {
		size_t end = kh_slice_find(text, '.', at);
		struct kh_slice label = kh_slice_sub(text, at, end);
		if (label.len == 0)
			return end == text.len ? "ends in a dot" : "an empty label";
		if (label.len > MAX_LABEL_BYTES)
			return "a label of more than 63 bytes";
		if (label.ptr[0] == '-' || label.ptr[label.len - 1] == '-')
			return "a label that begins or ends with a hyphen";
		at = end + 1;
	}
	return NULL;
}

static void set_text(struct kh_host *out, struct kh_slice text)
{
	for (size_t i = 0; i < text.len; i++)
		out->text[i] = kh_lower(text.ptr[i]);
	out->text[text.len] = 0;
	out->len = (uint8_t)text.len;
}

bool kh_host_parse(struct kh_host *out, struct kh_slice text, struct kh_err *err)
{
	*out = (struct kh_host){ .kind = KH_HOST_NONE };
	if (text.len == 0)
		return kh_err_set(err, KH_ERR_REQUEST_MALFORMED, "the host is empty");
	if (kh_slice_find(text, ':', 0) < text.len) {
		uint8_t addr[16];
		if (!parse_v6(text, addr))
			return refuse(err, text, "not an IPv6 address");
		char canonical[INET6_ADDRSTRLEN];
		if (!inet_ntop(AF_INET6, addr, canonical, sizeof(canonical)))
			return refuse(err, text, "not an IPv6 address");
		out->kind = KH_HOST_IPV6;
		memcpy(out->addr, addr, sizeof(addr));
		set_text(out, kh_slice_str(canonical));
		return true;
	}
	if (parse_quad(text, out->addr)) {
		out->kind = KH_HOST_IPV4;
		set_text(out, text);
		return true;
	}
	memset(out->addr, 0, sizeof(out->addr)); /* half a quad */
	const char *fault = name_fault(text);
	if (fault)
		return refuse(err, text, fault);
	if (ends_in_number(text))
		return refuse(err, text,
			      "ends in a number without being an IPv4 address in its plain form");
	out->kind = KH_HOST_NAME;
	set_text(out, text);
	return true;
}

bool kh_host_eq(const struct kh_host *a, const struct kh_host *b)
{
	if (a->kind == KH_HOST_NONE || a->kind != b->kind)
		return false;
	return kh_slice_eq(kh_host_view(a), kh_host_view(b));
}

/* A number as it is written once: no sign, no leading zero, not above `most`. */
static bool parse_plain(struct kh_slice text, uint64_t most, uint64_t *out)
{
	if (text.len > 1 && text.ptr[0] == '0')
		return false;
	return kh_slice_to_u64(text, out) && *out <= most;
}

bool kh_host_port_parse(struct kh_host *host, uint16_t *port, struct kh_slice text,
			uint16_t default_port)
{
	bool bracketed = text.len > 0 && text.ptr[0] == '[';
	size_t end = kh_slice_find(text, bracketed ? ']' : ':', 0);
	struct kh_slice name = kh_slice_sub(text, bracketed, end);
	struct kh_slice rest = kh_slice_sub(text, end + bracketed, text.len);
	uint64_t number = default_port;

	if (bracketed && end == text.len)
		return false;
	if (rest.len > 0 && (rest.ptr[0] != ':' ||
			     !parse_plain(kh_slice_sub(rest, 1, rest.len), UINT16_MAX, &number)))
		return false;
	*port = (uint16_t)number;
	return number != 0 && kh_host_parse(host, name, NULL) &&
	       bracketed == (host->kind == KH_HOST_IPV6);
}

static bool zero_behind(const uint8_t *addr, unsigned bits, unsigned prefix)
{
	for (unsigned bit = prefix; bit < bits; bit++)
		if (addr[bit / 8] & (0x80u >> bit % 8))
			return false;
	return true;
}

bool kh_cidr_parse(struct kh_cidr *out, struct kh_slice text, struct kh_err *err)
{
	*out = (struct kh_cidr){ .family = 0 };
	size_t slash = kh_slice_find(text, '/', 0);
	struct kh_slice address = kh_slice_sub(text, 0, slash);
	struct kh_cidr range = { .family = 0 };
	if (parse_quad(address, range.addr)) {
		range.family = 4;
	} else {
		memset(range.addr, 0, sizeof(range.addr));
		if (parse_v6(address, range.addr))
			range.family = 6;
	}
	if (!range.family)
		return kh_err_set(err, KH_ERR_CONFIG,
				  "\"%s\" is no address range (as 10.0.0.0/8 or fd00::/8)",
				  kh_esc(text));
	unsigned bits = range.family == 4 ? 32 : 128;
	uint64_t prefix = bits;
	if (slash < text.len &&
	    !parse_plain(kh_slice_sub(text, slash + 1, text.len), bits, &prefix))
		return kh_err_set(err, KH_ERR_CONFIG, "\"%s\": the prefix must be 0 to %u",
				  kh_esc(text), bits);
	if (!zero_behind(range.addr, bits, (unsigned)prefix))
		return kh_err_set(err, KH_ERR_CONFIG,
				  "\"%s\": bits after the prefix are set (write the range's first "
				  "address)",
				  kh_esc(text));
	range.prefix_bits = (uint8_t)prefix;
	*out = range;
	return true;
}

bool kh_cidr_has(const struct kh_cidr *range, uint8_t family, const uint8_t *addr)
{
	if ((family != 4 && family != 6) || range->family != family)
		return false;
	unsigned bits = range->prefix_bits;
	if (bits > (family == 4 ? 32u : 128u))
		return false;
	if (memcmp(range->addr, addr, bits / 8) != 0)
		return false;
	unsigned mask = bits % 8 ? 0xffu & ~(0xffu >> bits % 8) : 0;
	return mask == 0 || ((range->addr[bits / 8] ^ addr[bits / 8]) & mask) == 0;
}

static bool set_v4(struct kh_sockaddr *out, struct kh_slice address, uint16_t port)
{
	uint8_t addr[4];
	if (!parse_quad(address, addr))
		return false;
	out->v4.sin_family = AF_INET;
	out->v4.sin_port = htons(port);
	memcpy(&out->v4.sin_addr, addr, sizeof(addr));
	out->len = sizeof(out->v4);
	return true;
}

static bool set_v6(struct kh_sockaddr *out, struct kh_slice address, uint16_t port)
{
	uint8_t addr[16];
	if (!parse_v6(address, addr))
		return false;
	out->v6.sin6_family = AF_INET6;
	out->v6.sin6_port = htons(port);
	memcpy(&out->v6.sin6_addr, addr, sizeof(addr));
	out->len = sizeof(out->v6);
	return true;
}

bool kh_sockaddr_parse(struct kh_sockaddr *out, struct kh_slice text, uint16_t default_port,
		       struct kh_err *err)
{
	memset(out, 0, sizeof(*out));
	bool bracketed = text.len > 0 && text.ptr[0] == '[';
	size_t end = kh_slice_find(text, bracketed ? ']' : ':', 0);
	struct kh_slice address = kh_slice_sub(text, bracketed ? 1 : 0, end);
	struct kh_slice rest = kh_slice_sub(text, end + (bracketed ? 1 : 0), text.len);

	uint64_t port = default_port;
	bool port_ok = port != 0;
	if (rest.len)
		port_ok = rest.ptr[0] == ':' &&
			  parse_plain(kh_slice_sub(rest, 1, rest.len), 65535, &port) && port != 0;
	if (bracketed && end == text.len)
		port_ok = false; /* the bracket is never shut */
	if (port_ok && (bracketed ? set_v6(out, address, (uint16_t)port)
				  : set_v4(out, address, (uint16_t)port)))
		return true;
	memset(out, 0, sizeof(*out));
	return kh_err_set(err, KH_ERR_CONFIG,
			  "\"%s\" is no address and port (as 127.0.0.1:%u or [::1]:%u)",
			  kh_esc(text), default_port ? default_port : 443u,
			  default_port ? default_port : 443u);
}

void kh_sockaddr_format(const struct kh_sockaddr *addr, char out[KH_SOCKADDR_TEXT_BYTES])
{
	char text[INET6_ADDRSTRLEN] = "?";
	if (addr->any.sa_family == AF_INET) {
		(void)inet_ntop(AF_INET, &addr->v4.sin_addr, text, sizeof(text));
		(void)snprintf(out, KH_SOCKADDR_TEXT_BYTES, "%s:%u", text,
			       (unsigned)ntohs(addr->v4.sin_port));
	} else if (addr->any.sa_family == AF_INET6) {
		(void)inet_ntop(AF_INET6, &addr->v6.sin6_addr, text, sizeof(text));
		(void)snprintf(out, KH_SOCKADDR_TEXT_BYTES, "[%s]:%u", text,
			       (unsigned)ntohs(addr->v6.sin6_port));
	} else {
		(void)snprintf(out, KH_SOCKADDR_TEXT_BYTES, "%s", text);
	}
}

void kh_host_sockaddr(const struct kh_host *host, uint16_t port, struct kh_sockaddr *out)
{
	*out = (struct kh_sockaddr){ 0 };
	if (host->kind == KH_HOST_IPV6) {
		out->v6.sin6_family = AF_INET6;
		out->v6.sin6_port = htons(port);
		memcpy(&out->v6.sin6_addr, host->addr, 16);
		out->len = sizeof(out->v6);
	} else if (host->kind == KH_HOST_IPV4) {
		out->v4.sin_family = AF_INET;
		out->v4.sin_port = htons(port);
		memcpy(&out->v4.sin_addr, host->addr, 4);
		out->len = sizeof(out->v4);
	}
}

bool kh_host_of_sockaddr(struct kh_host *out, const struct kh_sockaddr *addr)
{
	char text[INET6_ADDRSTRLEN];
	const void *bytes = addr->any.sa_family == AF_INET ? (const void *)&addr->v4.sin_addr
							   : (const void *)&addr->v6.sin6_addr;
	return inet_ntop(addr->any.sa_family, bytes, text, sizeof(text)) &&
	       kh_host_parse(out, kh_slice_str(text), NULL);
}

bool kh_sockaddr_eq(const struct kh_sockaddr *a, const struct kh_sockaddr *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (a->any.sa_family == AF_INET)
		return a->v4.sin_port == b->v4.sin_port &&
		       a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->any.sa_family == AF_INET6 && a->v6.sin6_port == b->v6.sin6_port &&
	       IN6_ARE_ADDR_EQUAL(&a->v6.sin6_addr, &b->v6.sin6_addr);
}

bool kh_sockaddr_is_loopback(const struct kh_sockaddr *addr)
{
	return addr->any.sa_family == AF_INET ? (ntohl(addr->v4.sin_addr.s_addr) >> 24) == 127
					      : addr->any.sa_family == AF_INET6 &&
							IN6_IS_ADDR_LOOPBACK(&addr->v6.sin6_addr);
}
