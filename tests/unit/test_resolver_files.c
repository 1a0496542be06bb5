/* test_resolver_files.c - the host's own word: pins, hosts, resolv.conf, and changes of them */
#include "resolver_world.h"

static void test_literals_pins_and_the_hosts_file_ask_nobody(void **state)
{
	struct kh_pin pins[2] = { { .host = host_of("api.example.com"), .tenant = KH_NO_TENANT },
				  { .host = host_of("192.0.2.200"), .tenant = KH_NO_TENANT } };
	(void)state;
	assert_true(kh_sockaddr_parse(&pins[0].addr, KH_SLICE("127.0.0.1:9443"), 0, NULL));
	assert_true(kh_sockaddr_parse(&pins[1].addr, KH_SLICE("[::1]:9444"), 0, NULL));
	struct kh_config pinned = config;
	pinned.pins = pins;
	pinned.n_pins = 2;
	kh_resolver_configure(resolver, &pinned);
	struct result r = resolve("api.example.com", 443);
	expect(&r, "127.0.0.1:9443");
	assert_true(r.addresses.pinned);
	r = resolve("192.0.2.200", 443);
	expect(&r, "[::1]:9444");
	assert_true(r.addresses.pinned);
	r = resolve("192.0.2.201", 443);
	expect(&r, "192.0.2.201:443");
	assert_false(r.addresses.pinned);
	r = resolve("2001:db8::7", 443);
	expect(&r, "[2001:db8::7]:443");
	r = resolve("static.test", 443);
	expect(&r, "[2001:db8::10]:443 192.0.2.10:443");
	r = resolve("static2.test", 443);
	expect(&r, "192.0.2.10:443");
	r = resolve("localhost", 443);
	expect(&r, "127.0.0.1:443");
	r = resolve("x.localhost", 443);
	expect(&r, "[::1]:443 127.0.0.1:443");
	assert_int_equal(dns.questions, 0);
	(void)resolve("commented.test", 443);
	(void)resolve("static3.test", 443);
	assert_int_equal(dns.questions, 4);
	kh_resolver_configure(resolver, &config);
}

static void test_a_nameserver_that_is_not_there_is_an_error_and_not_a_wait(void **state)
{
	struct kh_sockaddr nobody;
	struct kh_config other = config;
	(void)state;
	/* A port that was free a moment ago. */
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof addr;
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	close(fd);
	nobody = (struct kh_sockaddr){ .v4 = addr, .len = sizeof addr };
	other.nameservers = &nobody;
	kh_resolver_configure(resolver, &other);
	struct result r = resolve("both.test", 443);
	if (r.err.code != KH_ERR_DNS_ERROR)
		fail_msg("%s", r.err.text);
	/* And back again: the servers follow the configuration. */
	kh_resolver_configure(resolver, &config);
	r = resolve("both.test", 443);
	assert_int_equal(r.addresses.count, 5);
}

static void test_a_reload_asks_the_new_nameservers_what_is_open(void **state)
{
	static const struct record mute[] = {
		{ "both.test", RR_A, "", 30, 0, true, 0, NULL, 0, 0 },
		{ "both.test", RR_AAAA, "", 30, 0, true, 0, NULL, 0, 0 },
	};
	struct dns_server old;
	struct kh_sockaddr server;
	struct kh_config other = config;
	struct result r = { 0 };
	struct kh_host host = host_of("both.test");
	char text[64];
	(void)state;
	dns_start(&old, base, mute, 2);
	snprintf(text, sizeof text, "127.0.0.1:%u", old.port);
	assert_true(kh_sockaddr_parse(&server, kh_slice_str(text), 53, NULL));
	other.nameservers = &server;
	kh_resolver_configure(resolver, &other);
	assert_non_null(kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &r));
	turn_until(&old.questions, 2, 1000);
	assert_int_equal(r.calls, 0);
	kh_resolver_configure(resolver, &config);
	turn_until(&r.calls, 1, 500);
	assert_int_equal(r.calls, 1);
	assert_int_equal(r.addresses.count, 5);
	dns_stop(&old);
}

/* As the worker is locked in: an open(2) of any kind would end the process. */
static void test_nothing_is_opened_once_the_resolver_is_made(void **state)
{
	static const char *const names[] = { "both.test",  "nowhere.test", "broken.test",
					     "large.test", "mute6.test",   "static.test",
					     "localhost",  "single",	   "192.0.2.1" };
	int status = 0;
	(void)state;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
		const int calls[] = { SCMP_SYS(open),	SCMP_SYS(openat), SCMP_SYS(openat2),
				      SCMP_SYS(creat),	SCMP_SYS(stat),	  SCMP_SYS(newfstatat),
				      SCMP_SYS(access), SCMP_SYS(execve) };
		event_reinit(base);
		for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
			(void)seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, calls[i], 0);
		if (seccomp_load(filter) < 0)
			_exit(1);
		for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
			struct result r = { 0 };
			struct kh_host host;
			if (!kh_host_parse(&host, kh_slice_str(names[i]), NULL) ||
			    !kh_resolver_lookup(resolver, &host, 443, 3000, on_result, &r))
				_exit(2);
			turn_until(&r.calls, 1, 6000);
			if (r.calls != 1 || (i == 0 && r.addresses.count != 5))
				_exit(3);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		fail_msg("killed by signal %d", WTERMSIG(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_resolv_conf_is_read_as_it_is_written(void **state)
{
	struct kh_resolv_conf conf;
	char text[KH_SOCKADDR_TEXT_BYTES];
	(void)state;
	kh_resolv_conf_parse(&conf, KH_SLICE("# comment\n"
					     "nameserver 192.0.2.53\n"
					     "  nameserver\t2001:db8::53 # behind\r\n"
					     "nameserver nonsense\n"
					     "; nameserver 192.0.2.54\n"
					     "search a.example b.example\n"
					     "options ndots:5 timeout:2 attempts:9 rotate edns0\n"
					     "nameserver 192.0.2.55"));
	assert_int_equal(conf.n_servers, 3);
	kh_sockaddr_format(&conf.servers[0], text);
	assert_string_equal(text, "192.0.2.53:53");
	kh_sockaddr_format(&conf.servers[1], text);
	assert_string_equal(text, "[2001:db8::53]:53");
	kh_sockaddr_format(&conf.servers[2], text);
	assert_string_equal(text, "192.0.2.55:53");
	assert_int_equal(conf.timeout_s, 2);
	assert_int_equal(conf.attempts, 5); /* as far as the manual goes */
	assert_true(conf.rotate);
	kh_resolv_conf_parse(&conf, KH_SLICE(""));
	assert_int_equal(conf.n_servers, 1);
	kh_sockaddr_format(&conf.servers[0], text);
	assert_string_equal(text, "127.0.0.1:53");
	/* More than there is room for. */
	char many[4096] = "";
	for (int i = 0; i < 40; i++)
		snprintf(many + strlen(many), sizeof many - strlen(many), "nameserver 192.0.2.%d\n",
			 i);
	kh_resolv_conf_parse(&conf, kh_slice_str(many));
	assert_int_equal(conf.n_servers, KH_NAMESERVERS_MOST);
}

static void test_a_large_hosts_file_is_found_in(void **state)
{
	size_t size = 3 * 1000 * 1000, len = 0;
	char *text = malloc(size);
	struct kh_ip ip;
	(void)state;
	for (int i = 0; i < 60000; i++)
		len += (size_t)snprintf(text + len, size - len, "10.%d.%d.%d n%d.test\n", i >> 16,
					i >> 8 & 255, i & 255, i);
	struct kh_hosts *hosts = kh_hosts_new(kh_slice_of(text, len));
	free(text);
	assert_non_null(hosts);
	for (int i = 0; i < 60000; i += 997) {
		char name[32];
		snprintf(name, sizeof name, "n%d.test", i);
		assert_int_equal(kh_hosts_find(hosts, kh_slice_str(name), &ip, 1), 1);
		assert_int_equal(ip.addr[3], i & 255);
	}
	assert_int_equal(kh_hosts_find(hosts, KH_SLICE("n60000.test"), &ip, 1), 0);
	assert_int_equal(kh_hosts_find(hosts, KH_SLICE(""), &ip, 1), 0);
	kh_hosts_free(hosts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_literals_pins_and_the_hosts_file_ask_nobody),
		T(test_a_nameserver_that_is_not_there_is_an_error_and_not_a_wait),
		T(test_a_reload_asks_the_new_nameservers_what_is_open),
		T(test_nothing_is_opened_once_the_resolver_is_made),
		cmocka_unit_test(test_resolv_conf_is_read_as_it_is_written),
		cmocka_unit_test(test_a_large_hosts_file_is_found_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
