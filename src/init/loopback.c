/* loopback.c - sets up lo, the only interface of the sandbox, and listens on it */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <unistd.h>

#include "init_internal.h"

static bool up(int fd)
{
	struct ifreq request = { .ifr_name = "lo" };
	if (ioctl(fd, SIOCGIFFLAGS, &request) != 0)
		return false;
	if (request.ifr_flags & IFF_UP)
		return true;
	request.ifr_flags |= IFF_UP;
	return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

bool init_loopback_up(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	bool done = up(fd);
	int saved = errno;
	close(fd);
	errno = saved;
	return done;
}

int init_loopback_listen(uint16_t port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	int on = 1;
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) != 0 ||
	    listen(fd, SOMAXCONN) != 0) {
		int saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

/* ---- routes and addresses (rtnetlink) ---- */

struct request {
	struct nlmsghdr header;
	union {
		struct rtmsg route;
		struct ifaddrmsg address;
	} body;
	char attributes[64];
};

static void put(struct request *request, unsigned short type, const void *data, size_t len)
{
	struct rtattr *attribute =
		(struct rtattr *)(void *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));
	attribute->rta_type = type;
	attribute->rta_len = (unsigned short)RTA_LENGTH(len);
	memcpy(RTA_DATA(attribute), data, len);
	request->header.nlmsg_len =
		(unsigned)(NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(attribute->rta_len));
}

static bool ask(int fd, const struct request *request)
{
	if (send(fd, request, request->header.nlmsg_len, 0) < 0)
		return false;
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char rest[256];
	} answer;
	ssize_t n = recv(fd, &answer, sizeof(answer), 0);
	if (n < (ssize_t)(sizeof(answer.header) + sizeof(answer.error)) ||
	    answer.header.nlmsg_type != NLMSG_ERROR) {
		errno = EPROTO;
		return false;
	}
	errno = -answer.error.error;
	return answer.error.error == 0;
}

/* `source` is what a connection there comes from. */
static bool catch_family(int fd, unsigned char family, const void *source, size_t len)
{
	struct request request = {
		.header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
			    .nlmsg_type = RTM_NEWROUTE,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE },
		.body.route = { .rtm_family = family,
				.rtm_table = RT_TABLE_LOCAL,
				.rtm_protocol = RTPROT_STATIC,
				.rtm_scope = RT_SCOPE_HOST,
				.rtm_type = RTN_LOCAL },
	};
	unsigned lo = if_nametoindex("lo");
	put(&request, RTA_OIF, &lo, sizeof(lo));
	put(&request, RTA_PREFSRC, source, len);
	return ask(fd, &request);
}

/* Of an address of lo the whole network is local. */
static bool add_address(int fd, uint32_t ip, unsigned char prefix_bits)
{
	struct request request = {
		.header = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifaddrmsg)),
			    .nlmsg_type = RTM_NEWADDR,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE },
		.body.address = { .ifa_family = AF_INET,
				  .ifa_prefixlen = prefix_bits,
				  .ifa_scope = RT_SCOPE_HOST,
				  .ifa_index = if_nametoindex("lo") },
	};
	struct in_addr address = { htonl(ip) };
	put(&request, IFA_LOCAL, &address, sizeof(address));
	put(&request, IFA_ADDRESS, &address, sizeof(address));
	return ask(fd, &request);
}

/* gVisor's kernel takes addresses, but no local route. Three networks are every address that a
 * connection can be made to: all below the multicast ones. */
static bool catch_by_addresses(int fd)
{
	return add_address(fd, INADDR_LOOPBACK + 1, 1) && /* 0.0.0.0/1 */
	       add_address(fd, 0x80000001, 2) &&	  /* 128.0.0.0/2 */
	       add_address(fd, 0xc0000001, 3);		  /* 192.0.0.0/3 */
}

/*
 * The address beside 127.0.0.1: a host that has no other has no IPv4 for glibc's getaddrinfo, and
 * who asks it for IPv4 alone, where there is some (AI_ADDRCONFIG), is told that there is no such
 * name.
 */
static bool catch_v4(int fd)
{
	struct in_addr source = { htonl(INADDR_LOOPBACK) };
	if (catch_family(fd, AF_INET, &source, sizeof(source)))
		return add_address(fd, INADDR_LOOPBACK + 1, 8);
	return errno == EOPNOTSUPP && catch_by_addresses(fd);
}

bool init_loopback_catch(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return false;
	struct in6_addr v6 = IN6ADDR_LOOPBACK_INIT;
	bool done = catch_v4(fd);
	done = catch_family(fd, AF_INET6, &v6, sizeof(v6)) && done;
	int saved = errno;
	close(fd);
	errno = saved;
	return done;
}
