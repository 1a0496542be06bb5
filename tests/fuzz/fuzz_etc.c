/*
 * fuzz_etc.c - the texts of resolv.conf and hosts
 *
 * The hosts index is held against a plain walk through the same text.
 */
#include <net/net_internal.h>

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void check_resolv_conf(struct kh_slice text)
{
	struct kh_resolv_conf conf;
	kh_resolv_conf_parse(&conf, text);
	require(conf.n_servers >= 1 && conf.n_servers <= KH_NAMESERVERS_MOST);
	require(conf.timeout_s <= 30 && conf.attempts <= 5);
	for (size_t i = 0; i < conf.n_servers; i++) {
		int family = conf.servers[i].any.sa_family;
		require(family == AF_INET || family == AF_INET6);
		require(family == AF_INET ? conf.servers[i].v4.sin_port == htons(53)
					  : conf.servers[i].v6.sin6_port == htons(53));
	}
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* How many lines of the text give this name an address. */
static size_t walk(struct kh_slice text, struct kh_slice name)
{
	size_t found = 0;
	for (size_t at = 0, end; at < text.len; at = end + 1) {
		struct kh_host host = { 0 };
		bool first = true;
		end = kh_slice_find(text, '\n', at);
		size_t stop = kh_slice_find(kh_slice_sub(text, at, end), '#', 0) + at;
		for (size_t word = at, past; word < stop; word = past) {
			while (word < stop && is_blank(text.ptr[word]))
				word++;
			for (past = word; past < stop && !is_blank(text.ptr[past]); past++)
				;
			struct kh_slice w = kh_slice_sub(text, word, past);
			if (w.len == 0)
				break;
			if (first && (!kh_host_parse(&host, w, NULL) || host.kind == KH_HOST_NAME))
				break;
			if (!first && kh_slice_eq_nocase(w, name))
				found++;
			first = false;
		}
	}
	return found;
}

static void check_hosts(struct kh_slice text)
{
	enum { MOST = 8 };
	struct kh_ip out[MOST];
	struct kh_hosts *hosts = kh_hosts_new(text);
	require(hosts != NULL);
	/* The first few words of the text, each as a name. */
	size_t at = 0;
	for (int i = 0; i < 16 && at < text.len; i++) {
		char lower[KH_HOST_MAX_BYTES];
		while (at < text.len && (is_blank(text.ptr[at]) || text.ptr[at] == '\n'))
			at++;
		size_t end = at;
		while (end < text.len && !is_blank(text.ptr[end]) && text.ptr[end] != '\n' &&
		       text.ptr[end] != '#')
			end++;
		struct kh_slice name = kh_slice_sub(text, at, end);
		at = end + 1;
		if (name.len == 0 || name.len > sizeof lower)
			continue;
		for (size_t k = 0; k < name.len; k++)
			lower[k] = kh_lower(name.ptr[k]);
		size_t got = kh_hosts_find(hosts, kh_slice_of(lower, name.len), out, MOST);
		size_t wanted = walk(text, name);
		require(got == (wanted < MOST ? wanted : MOST));
		for (size_t k = 0; k < got; k++)
			require(out[k].family == 4 || out[k].family == 6);
	}
	kh_hosts_free(hosts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kh_slice text = kh_slice_of(data, size);
	check_resolv_conf(text);
	check_hosts(text);
	return 0;
}
