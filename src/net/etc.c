/* etc.c - the texts of resolv.conf and hosts, parsed strictly */
#include "net_internal.h"

#include <stdlib.h>

enum { DNS_PORT = 53 };

void kh_ip_to_sockaddr(const struct kh_ip *ip, uint16_t port, struct kh_sockaddr *out)
{
	*out = (struct kh_sockaddr){ 0 };
	if (ip->family == 4) {
		out->v4.sin_family = AF_INET;
		out->v4.sin_port = htons(port);
		memcpy(&out->v4.sin_addr, ip->addr, 4);
		out->len = sizeof out->v4;
	} else {
		out->v6.sin6_family = AF_INET6;
		out->v6.sin6_port = htons(port);
		memcpy(&out->v6.sin6_addr, ip->addr, 16);
		out->len = sizeof out->v6;
	}
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The next line, without its comment; false at the end. */
static bool next_line(struct kh_slice *text, struct kh_slice *line)
{
	if (text->len == 0)
		return false;
	size_t end = kh_slice_find(*text, '\n', 0);
	*line = kh_slice_sub(*text, 0, end);
	*text = kh_slice_sub(*text, end + (end < text->len), text->len);
	line->len = kh_slice_find(*line, '#', 0);
	return true;
}

/* The next word; false at the end of the line. */
static bool next_word(struct kh_slice *line, struct kh_slice *word)
{
	size_t at = 0;
	while (at < line->len && is_blank(line->ptr[at]))
		at++;
	size_t end = at;
	while (end < line->len && !is_blank(line->ptr[end]))
		end++;
	*word = kh_slice_sub(*line, at, end);
	*line = kh_slice_sub(*line, end, line->len);
	return word->len > 0;
}

static bool parse_ip(struct kh_slice word, struct kh_ip *out)
{
	struct kh_host host;
	if (!kh_host_parse(&host, word, NULL))
		return false;
	if (host.kind != KH_HOST_IPV4 && host.kind != KH_HOST_IPV6)
		return false;
	*out = (struct kh_ip){ .family = host.kind == KH_HOST_IPV4 ? 4 : 6 };
	memcpy(out->addr, host.addr, host.kind == KH_HOST_IPV4 ? 4 : 16);
	return true;
}

/* ---- resolv.conf ---- */

/* "timeout:5" → 5, within the bounds that resolv.conf(5) has. */
static void read_option(struct kh_slice word, struct kh_slice name, uint64_t most, unsigned *out)
{
	uint64_t value;
	if (kh_slice_has_prefix(word, name) &&
	    kh_slice_to_u64(kh_slice_sub(word, name.len, word.len), &value) && value > 0)
		*out = (unsigned)(value < most ? value : most);
}

static void read_options(struct kh_resolv_conf *out, struct kh_slice line)
{
	struct kh_slice word;
	while (next_word(&line, &word)) {
		read_option(word, KH_SLICE("timeout:"), 30, &out->timeout_s);
		read_option(word, KH_SLICE("attempts:"), 5, &out->attempts);
		if (kh_slice_eq(word, KH_SLICE("rotate")))
			out->rotate = true;
	}
}

static void read_nameserver(struct kh_resolv_conf *out, struct kh_slice line)
{
	struct kh_slice word;
	struct kh_ip ip;
	if (out->n_servers < KH_NAMESERVERS_MOST && next_word(&line, &word) && parse_ip(word, &ip))
		kh_ip_to_sockaddr(&ip, DNS_PORT, &out->servers[out->n_servers++]);
}

void kh_resolv_conf_parse(struct kh_resolv_conf *out, struct kh_slice text)
{
	struct kh_slice line, word;
	*out = (struct kh_resolv_conf){ 0 };
	while (next_line(&text, &line)) {
		line.len = kh_slice_find(line, ';', 0);
		if (!next_word(&line, &word))
			continue;
		if (kh_slice_eq(word, KH_SLICE("nameserver")))
			read_nameserver(out, line);
		else if (kh_slice_eq(word, KH_SLICE("options")))
			read_options(out, line);
	}
	if (out->n_servers == 0)
		read_nameserver(out, KH_SLICE("127.0.0.1"));
}

/* ---- hosts ---- */

struct host_entry {
	uint32_t name_at; /* in `names` */
	uint32_t order;	  /* in the file */
	uint16_t name_len;
	struct kh_ip ip;
};

struct kh_hosts {
	char *names; /* the text in lower case */
	struct host_entry *list;
	size_t count, room;
};

static bool add_entry(struct kh_hosts *hosts, struct kh_slice name, const struct kh_ip *ip)
{
	if (name.len > KH_HOST_MAX_BYTES)
		return true;
	if (hosts->count == hosts->room) {
		size_t room = hosts->room ? hosts->room * 2 : 16;
		struct host_entry *list = realloc(hosts->list, room * sizeof *list);
		if (!list)
			return false;
		hosts->list = list;
		hosts->room = room;
	}
	hosts->list[hosts->count] = (struct host_entry){
		.name_at = (uint32_t)(name.ptr - hosts->names),
		.order = (uint32_t)hosts->count,
		.name_len = (uint16_t)name.len,
		.ip = *ip,
	};
	hosts->count++;
	return true;
}

static int compare_names(struct kh_slice a, struct kh_slice b)
{
	size_t least = a.len < b.len ? a.len : b.len;
	int order = least ? memcmp(a.ptr, b.ptr, least) : 0;
	return order ? order : (a.len > b.len) - (a.len < b.len);
}

static struct kh_slice name_of(const struct kh_hosts *hosts, const struct host_entry *e)
{
	return kh_slice_of(hosts->names + e->name_at, e->name_len);
}

static int compare_entries(const void *a, const void *b, void *arg)
{
	const struct host_entry *x = a, *y = b;
	int order = compare_names(name_of(arg, x), name_of(arg, y));
	return order ? order : (x->order > y->order) - (x->order < y->order);
}

static bool read_lines(struct kh_hosts *hosts, struct kh_slice text)
{
	struct kh_slice line, word;
	struct kh_ip ip;
	while (next_line(&text, &line)) {
		if (!next_word(&line, &word) || !parse_ip(word, &ip))
			continue;
		while (next_word(&line, &word)) {
			if (!add_entry(hosts, word, &ip))
				return false;
		}
	}
	return true;
}

struct kh_hosts *kh_hosts_new(struct kh_slice text)
{
	struct kh_hosts *hosts = calloc(1, sizeof *hosts);
	if (!hosts || text.len > UINT32_MAX) {
		free(hosts);
		return NULL;
	}
	hosts->names = malloc(text.len + 1);
	if (!hosts->names) {
		free(hosts);
		return NULL;
	}
	for (size_t i = 0; i < text.len; i++)
		hosts->names[i] = kh_lower(text.ptr[i]);
	if (!read_lines(hosts, kh_slice_of(hosts->names, text.len))) {
		kh_hosts_free(hosts);
		return NULL;
	}
	if (hosts->count > 1)
		qsort_r(hosts->list, hosts->count, sizeof *hosts->list, compare_entries, hosts);
	return hosts;
}

void kh_hosts_free(struct kh_hosts *hosts)
{
	if (!hosts)
		return;
	free(hosts->names);
	free(hosts->list);
	free(hosts);
}

size_t kh_hosts_find(const struct kh_hosts *hosts, struct kh_slice name, struct kh_ip *out,
		     size_t most)
{
	size_t low = 0, high = hosts->count, n = 0;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (compare_names(name_of(hosts, &hosts->list[middle]), name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < hosts->count && n < most; low++) {
		if (!kh_slice_eq(name_of(hosts, &hosts->list[low]), name))
			break;
		out[n++] = hosts->list[low].ip;
	}
	return n;
}
