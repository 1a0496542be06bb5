/* dns_server.h - a nameserver for tests: UDP and TCP on one loopback port, on the test's own loop
 */
#ifndef KEYHOLE_TESTS_DNS_SERVER_H
#define KEYHOLE_TESTS_DNS_SERVER_H

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <event2/event.h>

#include <keyhole/base/slice.h>

enum { RR_A = 1, RR_CNAME = 5, RR_AAAA = 28 };

/* What is said to a question of this name and type. */
struct record {
	const char *name;
	uint16_t type;	   /* RR_A, RR_AAAA */
	const char *value; /* addresses joined by blanks; "" for an empty answer */
	uint32_t ttl;
	uint8_t rcode;
	bool silent;	     /* nothing is said at all */
	bool truncated;	     /* over UDP: TC, and nothing else */
	const char *cname;   /* a CNAME in front */
	uint32_t many;	     /* so many A records, 198.51.0.x */
	bool wrong_question; /* answers as if another name had been asked */
};

struct dns_server {
	struct event_base *base;
	const struct record *records;
	size_t n_records;
	int udp, tcp;
	uint16_t port;
	struct event *on_udp, *on_tcp;
	unsigned questions; /* all */
	unsigned over_tcp;
	unsigned edns;
	char names[2048]; /* every name asked, each with a blank behind it */
};

static inline size_t dns_put16(uint8_t *at, unsigned v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
	return 2;
}

static inline size_t dns_put_name(uint8_t *at, const char *name)
{
	size_t len = 0;
	while (*name) {
		size_t label = strcspn(name, ".");
		at[len++] = (uint8_t)label;
		memcpy(at + len, name, label);
		len += label;
		name += label + (name[label] == '.');
	}
	at[len++] = 0;
	return len;
}

static inline size_t dns_put_rr(uint8_t *at, const char *owner, unsigned type, uint32_t ttl,
				const uint8_t *data, size_t data_len)
{
	size_t len = dns_put_name(at, owner);
	len += dns_put16(at + len, type);
	len += dns_put16(at + len, 1);
	len += dns_put16(at + len, ttl >> 16);
	len += dns_put16(at + len, ttl & 0xffff);
	len += dns_put16(at + len, (unsigned)data_len);
	memcpy(at + len, data, data_len);
	return len + data_len;
}

static inline const struct record *dns_find(const struct dns_server *s, const char *name,
					    unsigned type)
{
	for (size_t i = 0; i < s->n_records; i++) {
		if (s->records[i].type == type && strcasecmp(s->records[i].name, name) == 0)
			return &s->records[i];
	}
	return NULL;
}

static inline unsigned dns_put_values(const struct record *r, const char *owner, uint8_t *out,
				      size_t *len)
{
	char copy[512], *save = NULL;
	uint8_t data[16];
	unsigned n = 0;
	for (uint32_t i = 0; i < r->many; i++, n++) {
		const uint8_t address[4] = { 198, 51, 0, (uint8_t)i };
		*len += dns_put_rr(out + *len, owner, RR_A, r->ttl, address, 4);
	}
	snprintf(copy, sizeof copy, "%s", r->value ? r->value : "");
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		int family = r->type == RR_A ? AF_INET : AF_INET6;
		assert_int_equal(inet_pton(family, word, data), 1);
		*len += dns_put_rr(out + *len, owner, r->type, r->ttl, data,
				   r->type == RR_A ? 4 : 16);
		n++;
	}
	return n;
}

/* Return: length of the answer; 0: silence. */
static inline size_t dns_answer(struct dns_server *s, const uint8_t *q, size_t q_len, bool tcp,
				uint8_t *out)
{
	char name[256] = "";
	size_t at = 12, len = 0;
	assert_true(q_len > 16);
	while (at < q_len && q[at]) {
		snprintf(name + len, sizeof name - len, "%s%.*s", len ? "." : "", q[at],
			 (const char *)q + at + 1);
		len = strlen(name);
		at += q[at] + 1u;
	}
	size_t question_end = at + 5;
	unsigned type = (unsigned)(q[at + 1] << 8 | q[at + 2]);
	s->questions++;
	s->over_tcp += tcp;
	s->edns += q[11] == 1;
	snprintf(s->names + strlen(s->names), sizeof s->names - strlen(s->names), "%s ", name);

	const struct record *r = dns_find(s, name, type);
	if (r && r->silent)
		return 0;
	memcpy(out, q, question_end);
	out[2] = (uint8_t)(0x81 | (r && r->truncated && !tcp ? 2 : 0));
	out[3] = (uint8_t)(0x80 | (r ? r->rcode : 3));
	memset(out + 6, 0, 6);
	len = question_end;
	if (!r || (r->truncated && !tcp))
		return len;
	const char *owner = r->name;
	unsigned n = 0;
	if (r->wrong_question) {
		out[13] ^= 1;
	}
	if (r->cname) {
		uint8_t target[256];
		size_t target_len = dns_put_name(target, r->cname);
		len += dns_put_rr(out + len, owner, RR_CNAME, r->ttl, target, target_len);
		owner = r->cname;
		n++;
	}
	n += dns_put_values(r, owner, out, &len);
	dns_put16(out + 6, n);
	return len;
}

static inline void dns_on_udp(evutil_socket_t fd, short what, void *arg)
{
	uint8_t q[2048], out[8192];
	struct sockaddr_storage from;
	socklen_t from_len = sizeof from;
	(void)what;
	ssize_t n = recvfrom(fd, q, sizeof q, MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
	if (n <= 0)
		return;
	size_t len = dns_answer(arg, q, (size_t)n, false, out);
	if (len > 0)
		(void)sendto(fd, out, len, 0, (struct sockaddr *)&from, from_len);
}

struct dns_client {
	struct dns_server *server;
	struct event *event;
};

/* One question a connection, which comes in one piece: enough for a test. */
static inline void dns_on_tcp_client(evutil_socket_t fd, short what, void *arg)
{
	struct dns_client *client = arg;
	uint8_t q[2048], out[8192 + 2];
	(void)what;
	ssize_t n = recv(fd, q, sizeof q, MSG_DONTWAIT);
	if (n > 2) {
		assert_int_equal(n, 2 + (q[0] << 8 | q[1]));
		size_t len = dns_answer(client->server, q + 2, (size_t)n - 2, true, out + 2);
		dns_put16(out, (unsigned)len);
		if (len > 0)
			(void)!write(fd, out, len + 2);
	}
	event_free(client->event);
	close(fd);
	free(client);
}

static inline void dns_on_tcp(evutil_socket_t fd, short what, void *arg)
{
	(void)what;
	int accepted = accept(fd, NULL, NULL);
	if (accepted < 0)
		return;
	struct dns_client *client = calloc(1, sizeof *client);
	assert_non_null(client);
	client->server = arg;
	client->event =
		event_new(client->server->base, accepted, EV_READ, dns_on_tcp_client, client);
	event_add(client->event, NULL);
}

static inline void dns_start(struct dns_server *s, struct event_base *base,
			     const struct record *records, size_t n)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof addr;
	*s = (struct dns_server){ .base = base, .records = records, .n_records = n };
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 50; i++) { /* a port that is free for both */
		s->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		s->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		addr.sin_port = 0;
		assert_int_equal(bind(s->udp, (struct sockaddr *)&addr, sizeof addr), 0);
		assert_int_equal(getsockname(s->udp, (struct sockaddr *)&addr, &len), 0);
		if (bind(s->tcp, (struct sockaddr *)&addr, sizeof addr) == 0)
			break;
		close(s->udp);
		close(s->tcp);
	}
	assert_int_equal(listen(s->tcp, 16), 0);
	s->port = ntohs(addr.sin_port);
	s->on_udp = event_new(base, s->udp, EV_READ | EV_PERSIST, dns_on_udp, s);
	s->on_tcp = event_new(base, s->tcp, EV_READ | EV_PERSIST, dns_on_tcp, s);
	event_add(s->on_udp, NULL);
	event_add(s->on_tcp, NULL);
}

static inline void dns_stop(struct dns_server *s)
{
	event_free(s->on_udp);
	event_free(s->on_tcp);
	close(s->udp);
	close(s->tcp);
}

#endif
