/* net_internal.h - private to src/net: parsers of resolv.conf and hosts, and DNS queries */
#ifndef KEYHOLE_NET_INTERNAL_H
#define KEYHOLE_NET_INTERNAL_H

#include <keyhole/net/resolver.h>

struct kh_ip {
	uint8_t family; /* 4 or 6 */
	uint8_t addr[16];
};

/* ---- etc.c: texts that the keeper has read; nothing is opened ---- */

void kh_ip_to_sockaddr(const struct kh_ip *ip, uint16_t port, struct kh_sockaddr *out);

enum { KH_NAMESERVERS_MOST = 8 };

struct kh_resolv_conf {
	struct kh_sockaddr servers[KH_NAMESERVERS_MOST];
	size_t n_servers;
	unsigned timeout_s; /* 0: not said */
	unsigned attempts;  /* 0: not said */
	bool rotate;
};

/* resolv.conf(5): nameserver and options; unknown lines are skipped. Search lists are not read.
 * Without a nameserver line it is 127.0.0.1, as in libc. */
void kh_resolv_conf_parse(struct kh_resolv_conf *out, struct kh_slice text);

/* hosts(5), with an index. */
struct kh_hosts;
struct kh_hosts *kh_hosts_new(struct kh_slice text); /* NULL: no memory */
void kh_hosts_free(struct kh_hosts *hosts);
/* Up to `most` addresses in the order of the file. Return: how many. */
size_t kh_hosts_find(const struct kh_hosts *hosts, struct kh_slice name, struct kh_ip *out,
		     size_t most);

/* ---- dns.c: c-ares on libevent ---- */

struct kh_dns;

/* `status` is c-ares' (ARES_SUCCESS …). May be called from inside kh_dns_ask. */
typedef void kh_dns_cb(void *arg, uint8_t family, int status, const struct kh_ip *list, size_t n,
		       uint32_t ttl_s);

struct kh_dns *kh_dns_new(struct event_base *base, const struct kh_resolv_conf *conf,
			  struct kh_err *err);
void kh_dns_free(struct kh_dns *dns); /* open questions are answered with ARES_EDESTRUCTION */
/* Asks for A and AAAA: the callback is called twice, once per family. */
/* How many sockets may be open for what one call of kh_dns_ask asks, and for nothing else; 0: all
 * of them share a few. */
size_t kh_dns_sockets_of_a_name(void);
void kh_dns_ask(struct kh_dns *dns, const char *name, kh_dns_cb *cb, void *arg);
/* Open questions are answered with ARES_ECANCELLED. */
void kh_dns_set_servers(struct kh_dns *dns, const struct kh_sockaddr *servers, size_t n);

#endif
