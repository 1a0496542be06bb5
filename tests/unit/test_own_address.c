/* test_own_address.c - the host's own addresses are recognised, and nobody else's */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <keyhole/net/guard.h>

enum { YES = 40, NO, NOT_HERE };

static struct kh_sockaddr v4(const char *text)
{
	struct kh_sockaddr addr = { .len = sizeof addr.v4 };
	addr.v4.sin_family = AF_INET;
	assert_int_equal(inet_pton(AF_INET, text, &addr.v4.sin_addr), 1);
	addr.v4.sin_port = htons(443);
	return addr;
}

static struct kh_sockaddr v6(const char *text)
{
	struct kh_sockaddr addr = { .len = sizeof addr.v6 };
	addr.v6.sin6_family = AF_INET6;
	assert_int_equal(inet_pton(AF_INET6, text, &addr.v6.sin6_addr), 1);
	return addr;
}

/* One more address of the loopback interface, which is up afterwards. */
static bool add_v4(int fd, const char *alias, const char *text, const char *mask)
{
	struct ifreq request = { 0 };
	struct kh_sockaddr addr = v4(text), bits = v4(mask);
	(void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", alias);
	memcpy(&request.ifr_addr, &addr.v4, sizeof addr.v4);
	if (ioctl(fd, SIOCSIFADDR, &request) < 0)
		return false;
	memcpy(&request.ifr_netmask, &bits.v4, sizeof bits.v4);
	if (ioctl(fd, SIOCSIFNETMASK, &request) < 0)
		return false;
	request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
	return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

static bool add_v6(const char *text)
{
	struct kh_sockaddr addr = v6(text);
	struct in6_ifreq request = { .ifr6_addr = addr.v6.sin6_addr, .ifr6_prefixlen = 128 };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	request.ifr6_ifindex = (int)if_nametoindex("lo");
	bool ok = fd >= 0 && ioctl(fd, SIOCSIFADDR, &request) == 0;
	(void)close(fd);
	return ok;
}

static bool write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	(void)close(fd);
	return ok;
}

/* An address that the kernel still examines is nobody's yet: it does so in the background. */
static bool settles_v6(void)
{
	for (int i = 0; i < 500; i++) {
		char line[128];
		unsigned flags;
		bool settled = false;
		FILE *addresses = fopen("/proc/self/net/if_inet6", "re");
		while (addresses && fgets(line, sizeof(line), addresses))
			if (strncmp(line, "2a001234", 8) == 0 &&
			    sscanf(line, "%*s %*s %*s %*s %x", &flags) == 1)
				settled = (flags & IFA_F_TENTATIVE) == 0;
		if (addresses)
			(void)fclose(addresses);
		if (settled)
			return true;
		(void)usleep(10000);
	}
	return false;
}

/* A network namespace with 11.22.33.44, its secondary 11.22.33.45, and 2a00:1234::1. */
static bool make_addresses(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return false;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool ok = fd >= 0 && add_v4(fd, "lo", "127.0.0.1", "255.0.0.0") &&
		  add_v4(fd, "lo:1", "11.22.33.44", "255.255.255.0") &&
		  add_v4(fd, "lo:2", "11.22.33.45", "255.255.255.0") && add_v6("2a00:1234::1") &&
		  settles_v6();
	(void)close(fd);
	return ok;
}

/* kh_guard_is_own in such a namespace. Return: NOT_HERE where none can be made. */
static int ask(const struct kh_sockaddr *addr, bool nonlocal_bind)
{
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (!make_addresses() ||
		    (nonlocal_bind && !write_to("/proc/sys/net/ipv4/ip_nonlocal_bind", "1")))
			_exit(NOT_HERE);
		_exit(kh_guard_is_own(addr) ? YES : NO);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void expect(const struct kh_sockaddr *addr, bool nonlocal_bind, int answer)
{
	int got = ask(addr, nonlocal_bind);
	if (got == NOT_HERE) {
		print_message("no network namespace can be made here\n");
		skip();
	}
	assert_int_equal(got, answer);
}

static void test_an_own_address_is_recognised_in_both_families(void **state)
{
	struct kh_sockaddr primary = v4("11.22.33.44"), global = v6("2a00:1234::1");
	(void)state;
	expect(&primary, false, YES);
	expect(&global, false, YES);
}

static void test_a_secondary_address_is_own_too(void **state)
{
	struct kh_sockaddr secondary = v4("11.22.33.45");
	(void)state;
	expect(&secondary, false, YES);
}

static void test_a_neighbour_is_not_own(void **state)
{
	struct kh_sockaddr near = v4("11.22.34.46"), far = v4("8.8.8.8"), six = v6("2a00:1234::2");
	(void)state;
	expect(&near, false, NO);
	expect(&far, false, NO);
	expect(&six, false, NO);
}

static void test_where_anything_can_be_bound_others_are_not_taken_for_own(void **state)
{
	struct kh_sockaddr primary = v4("11.22.33.44"), far = v4("8.8.8.8");
	(void)state;
	expect(&far, true, NO);
	expect(&primary, true, YES);
}

static void test_the_guard_names_its_class_and_an_exception_opens_it(void **state)
{
	struct kh_sockaddr mapped = v6("::ffff:127.0.0.1"), lo = v4("127.0.0.1");
	struct kh_cidr allow = { .family = 4, .addr = { 127 }, .prefix_bits = 8 };
	(void)state;
	assert_true(kh_guard_is_own(&lo));
	assert_string_equal(kh_guard_refuses(&lo, NULL, 0), "loopback");
	assert_null(kh_guard_refuses(&lo, &allow, 1));
	assert_null(kh_guard_refuses(&mapped, &allow, 1));
}

/* A sandbox can have many connections open, and some calls fail then. */
static void test_where_the_kernel_can_not_be_asked_an_address_counts_as_own(void **state)
{
	struct kh_sockaddr far = v4("8.8.8.8"), six = v6("2a00:1234::2");
	(void)state;
	for (int i = 0; i < 2; i++) {
		const struct kh_sockaddr *addr = i == 0 ? &far : &six;
		int status;
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			struct rlimit none = { 0, 0 };
			if (setrlimit(RLIMIT_NOFILE, &none) != 0)
				_exit(NOT_HERE);
			_exit(kh_guard_is_own(addr) ? YES : NO);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), YES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_own_address_is_recognised_in_both_families),
		cmocka_unit_test(test_where_the_kernel_can_not_be_asked_an_address_counts_as_own),
		cmocka_unit_test(test_a_secondary_address_is_own_too),
		cmocka_unit_test(test_a_neighbour_is_not_own),
		cmocka_unit_test(test_where_anything_can_be_bound_others_are_not_taken_for_own),
		cmocka_unit_test(test_the_guard_names_its_class_and_an_exception_opens_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
