/*
 * main.c - keyhole-init, PID 1 of a sandbox: arguments, start-up, the event loop
 *
 * It is a static binary, so that it runs in any root. It binds its ports, drops all privileges
 * (privilege.c), and only then starts the command. It holds no secret, and nothing depends on its
 * honesty: the proxy checks whatever it relays. It has one thread and one epoll set, and allocates
 * no memory after the start.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keyhole/sandbox/init.h>
#include <keyhole/base/limits.h>

#include "init_internal.h"
#include "names.h"

enum { FILTERS_MOST = 2 };

static int epoll_fd = -1;

__attribute__((format(printf, 1, 0))) static void complain(const char *fmt, va_list args)
{
	char line[512] = "keyhole-init: ";
	size_t used = strlen(line);
	int n = vsnprintf(line + used, sizeof(line) - used - 1, fmt, args);
	if (n < 0)
		return;
	used += (size_t)n < sizeof(line) - used - 1 ? (size_t)n : sizeof(line) - used - 2;
	line[used++] = '\n';
	ssize_t ignored = write(STDERR_FILENO, line, used);
	(void)ignored;
}

void init_complain(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	complain(fmt, args);
	va_end(args);
}

void init_die(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	complain(fmt, args);
	va_end(args);
	_exit(KH_INIT_FAILED);
}

static bool tell_epoll(int operation, int fd, struct init_watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };
	return epoll_ctl(epoll_fd, operation, fd, &event) == 0;
}

bool init_watch_add(int fd, struct init_watch *watch, uint32_t events)
{
	return tell_epoll(EPOLL_CTL_ADD, fd, watch, events);
}

bool init_watch_change(int fd, struct init_watch *watch, uint32_t events)
{
	return tell_epoll(EPOLL_CTL_MOD, fd, watch, events);
}

void init_watch_end(int fd)
{
	(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static int number(const char *option, const char *text, long least, long most)
{
	char *end = NULL;
	errno = 0;
	long value = text ? strtol(text, &end, 10) : -1;
	if (!text || errno || end == text || *end || value < least || value > most)
		init_die("%s wants a number from %ld to %ld", option, least, most);
	return (int)value;
}

static unsigned long large(const char *option, const char *text)
{
	char *end = NULL;
	errno = 0;
	unsigned long value = text ? strtoul(text, &end, 10) : 0;
	if (!text || errno || end == text || *end || value == 0)
		init_die("%s wants a number above 0", option);
	return value;
}

struct arguments {
	int port, control;
	const char *socket, *bound, *variables, *connect, *directory;
	const char *filters[FILTERS_MOST]; /* in the order in which they are loaded */
	size_t n_filters;
	bool capture, change_user, hold;
	bool uplink; /* by this descriptor, -1: brought */
	int uplink_fd;
	uint16_t ports[KH_LIMIT_INIT_PORTS];
	size_t n_ports;
	unsigned uid, gid, host_uid, host_gid;
	bool become;
	unsigned apart; /* 0: not */
	struct init_command command;
};

static void parse_stdio(const char *text, int fds[3])
{
	if (!text || sscanf(text, "%d,%d,%d", &fds[0], &fds[1], &fds[2]) != 3)
		init_die("--stdio wants three descriptors: IN,OUT,ERR");
}

static void parse_tty(const char *text, bool tty[3])
{
	for (; text && *text; text++) {
		if (*text < '0' || *text > '2')
			init_die("--tty wants some of the digits 012");
		tty[*text - '0'] = true;
	}
}

static void parse_become(const char *text, struct arguments *out)
{
	if (!text || sscanf(text, "%u:%u", &out->host_uid, &out->host_gid) != 2 || !out->host_uid ||
	    !out->host_gid)
		init_die("--become wants UID:GID, neither of them 0");
	out->become = true;
}

/*
 * Looked at before anything of the command's runs. What is below a mount that is missing has the
 * same numbers as what was to be mounted on it, so that it is a mount is asked for as well. Each
 * was made once: where all of them lie where they should, none was led elsewhere by a link.
 */
static void expect(const char *text)
{
	unsigned long long dev, ino;
	int at = 0;
	struct stat st;
	struct statx more = { 0 };
	if (!text || sscanf(text, "%llu:%llu:%n", &dev, &ino, &at) != 2 || text[at] != '/')
		init_die("--expect wants DEV:INO:PATH");
	int fd = open(text + at, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	bool seen = fd >= 0 && fstat(fd, &st) == 0 &&
		    statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &more) == 0;
	if (seen && !(more.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT))
		init_die("the kernel does not tell what is mounted (Linux 5.8 or newer is needed)");
	if (!seen || !(more.stx_attributes & STATX_ATTR_MOUNT_ROOT) ||
	    (ino != 0 && (st.st_dev != dev || st.st_ino != ino)))
		init_die("%s was replaced in that moment (is another sandbox at work in the same "
			 "folder?)",
			 text + at);
	close(fd);
}

static void parse_user(const char *text, struct arguments *out)
{
	if (!text || sscanf(text, "%u:%u", &out->uid, &out->gid) != 2)
		init_die("--user wants UID:GID");
	out->change_user = true;
}

static void parse_filter(const char *path, struct arguments *out)
{
	if (!path || out->n_filters == FILTERS_MOST)
		init_die("--seccomp wants a file, %d at most", FILTERS_MOST);
	out->filters[out->n_filters++] = path;
}

static void parse_ports(const char *text, struct arguments *out)
{
	out->capture = true;
	while (text && *text) {
		char *end = NULL;
		unsigned long port = strtoul(text, &end, 10);
		if (end == text || (*end && *end != ',') || port < 1 || port > 65535 ||
		    out->n_ports == KH_LIMIT_INIT_PORTS)
			init_die("--capture wants up to %d ports with commas between",
				 KH_LIMIT_INIT_PORTS);
		out->ports[out->n_ports++] = (uint16_t)port;
		text = *end ? end + 1 : end;
	}
	if (out->n_ports == 0)
		init_die("--capture wants ports");
}

static void parse_names(const char *text)
{
	unsigned address[4], bits;
	int end = 0;
	if (!text ||
	    sscanf(text, "%3u.%3u.%3u.%3u/%2u%n", &address[0], &address[1], &address[2],
		   &address[3], &bits, &end) != 5 ||
	    text[end] || bits < KH_INIT_NAMES_LEAST_BITS || bits > KH_INIT_NAMES_MOST_BITS)
		init_die("--names wants ADDRESS/BITS, BITS from %d to %d", KH_INIT_NAMES_LEAST_BITS,
			 KH_INIT_NAMES_MOST_BITS);
	init_names_set_range(address[0] << 24 | address[1] << 16 | address[2] << 8 | address[3],
			     bits);
}

static void parse(int argc, char **argv, struct arguments *out)
{
	*out = (struct arguments){
		.port = KH_INIT_PORT,
		.control = -1,
		.socket = KH_INIT_SOCKET,
		.command.stdio = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO },
	};
	int i = 1;
	for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (strcmp(argv[i], "--port") == 0)
			out->port = number("--port", value, 1, 65535);
		else if (strcmp(argv[i], "--control") == 0)
			out->control = number("--control", value, 0, INT_MAX);
		else if (strcmp(argv[i], "--socket") == 0 && value)
			out->socket = value;
		else if (strcmp(argv[i], "--connect") == 0 && value)
			out->connect = value;
		else if (strcmp(argv[i], "--uplink") == 0)
			out->uplink = true, out->uplink_fd = number("--uplink", value, -1, INT_MAX);
		else if (strcmp(argv[i], "--stdio") == 0)
			parse_stdio(value, out->command.stdio);
		else if (strcmp(argv[i], "--capture") == 0)
			parse_ports(value, out);
		else if (strcmp(argv[i], "--names") == 0)
			parse_names(value);
		else if (strcmp(argv[i], "--user") == 0)
			parse_user(value, out);
		else if (strcmp(argv[i], "--bound") == 0 && value)
			out->bound = value;
		else if (strcmp(argv[i], "--seccomp") == 0)
			parse_filter(value, out);
		else if (strcmp(argv[i], "--become") == 0)
			parse_become(value, out);
		else if (strcmp(argv[i], "--apart") == 0)
			out->apart = (unsigned)number("--apart", value, 1, 65534);
		else if (strcmp(argv[i], "--expect") == 0)
			expect(value);
		else if (strcmp(argv[i], "--environ") == 0 && value)
			out->variables = value;
		else if (strcmp(argv[i], "--directory") == 0 && value)
			out->directory = value;
		else if (strcmp(argv[i], "--hold") == 0)
			out->hold = number("--hold", value, 0, 1) == 1;
		else if (strcmp(argv[i], "--memory") == 0)
			out->command.memory_bytes = large("--memory", value);
		else if (strcmp(argv[i], "--pids") == 0)
			out->command.pids = large("--pids", value);
		else if (strcmp(argv[i], "--writable") == 0 && value)
			init_landlock_place(value);
		else if (strcmp(argv[i], "--tty") == 0)
			parse_tty(value, out->command.tty);
		else if (strcmp(argv[i], "--engine-tty") == 0)
			out->command.own_tty = true, parse_tty(value, out->command.tty);
		else
			init_die("%s: no such option", argv[i]);
	}
	if (i + 1 >= argc)
		init_die("no command (put it after --)");
	if (out->uplink && !out->apart)
		init_die("--uplink wants --apart");
	out->command.apart = out->apart != 0;
	out->command.argv = argv + i + 1;
}

/* Two or three descriptors per connection: as many as this process may have; the command gets its
 * own limit back. */
static unsigned long raise_nofile(struct init_command *command)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		init_die("reading the limit of descriptors: %s", strerror(errno));
	command->nofile_soft = limit.rlim_cur;
	command->nofile_hard = limit.rlim_max;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		limit.rlim_cur = command->nofile_soft;
	return limit.rlim_cur;
}

static void loop(void)
{
	enum { EVENTS = 256, FINISHING_MS = 10 };
	static struct epoll_event events[EVENTS];
	for (;;) {
		int sleep_ms = init_relay_turn();
		if (init_command_turn())
			sleep_ms = 0;
		if (init_command_finish())
			sleep_ms =
				sleep_ms >= 0 && sleep_ms < FINISHING_MS ? sleep_ms : FINISHING_MS;
		int n = epoll_wait(epoll_fd, events, EVENTS, sleep_ms);
		if (n < 0 && errno != EINTR)
			init_die("waiting for events: %s", strerror(errno));
		for (int i = 0; i < n; i++) {
			struct init_watch *watch = events[i].data.ptr;
			watch->ready(watch, events[i].events);
		}
	}
}

static void bind_all(const struct arguments *args, struct init_bound *out)
{
	*out = (struct init_bound){ .dns_udp = -1, .dns_tcp = -1, .local = -1 };
	if (!init_loopback_up())
		init_die("bringing lo up: %s", strerror(errno));
	out->proxy = init_loopback_listen((uint16_t)args->port);
	if (out->proxy < 0)
		init_die("listening on 127.0.0.1:%d: %s", args->port, strerror(errno));
	if (args->uplink)
		out->local = init_uplink_listen(args->socket, args->apart);
	if (args->capture)
		init_capture_bind(args->ports, args->n_ports, out);
}

/* ---- the second start ---- */

static void let_through(int fd)
{
	if (fd >= 0 && fcntl(fd, F_SETFD, 0) != 0)
		init_die("descriptor %d: %s", fd, strerror(errno));
}

/*
 * A process's files in /proc belong to uid 0 of the user namespace in which its image was started
 * where that namespace has such a uid: in the first one that is the agent's own. So the image is
 * started anew in the second, with what was bound: `--bound PROXY,UDP,TCP,PORT…`. Where it is
 * --apart that is of no use: the kernel has other rules, and hardening.c is for those.
 */
static _Noreturn void start_again(int argc, char **argv, const struct init_bound *bound)
{
	static char option[] = "--bound", list[8 * (3 + 2 * KH_LIMIT_INIT_PORTS)];
	size_t used = (size_t)snprintf(list, sizeof(list), "%d,%d,%d", bound->proxy, bound->dns_udp,
				       bound->dns_tcp);
	let_through(bound->proxy);
	let_through(bound->dns_udp);
	let_through(bound->dns_tcp);
	for (size_t i = 0; i < bound->n_ports; i++) {
		let_through(bound->ports[i]);
		used += (size_t)snprintf(list + used, sizeof(list) - used, ",%d", bound->ports[i]);
	}
	char **again = calloc((size_t)argc + 3, sizeof(*again));
	if (again) {
		again[0] = argv[0];
		again[1] = option;
		again[2] = list;
		for (int i = 1; i < argc; i++)
			again[i + 2] = argv[i];
		execv(argv[0][0] == '/' ? argv[0] : "/proc/self/exe", again);
	}
	init_die("starting again: %s", strerror(errno));
}

static int next_number(const char **text)
{
	char *end = NULL;
	long fd = strtol(*text, &end, 10);
	if (end == *text || (*end && *end != ',') || fd < -1 || fd > INT_MAX)
		init_die("--bound wants descriptors");
	*text = *end ? end + 1 : end;
	if (fd >= 0 && fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
		init_die("--bound %ld: %s", fd, strerror(errno));
	return (int)fd;
}

static void take_bound(const char *text, struct init_bound *out)
{
	*out = (struct init_bound){ .proxy = next_number(&text), .local = -1 };
	out->dns_udp = next_number(&text);
	out->dns_tcp = next_number(&text);
	while (*text) {
		if (out->n_ports == sizeof(out->ports) / sizeof(out->ports[0]))
			init_die("--bound: too many");
		out->ports[out->n_ports++] = next_number(&text);
	}
}

/* ---- the whole ---- */

/* In this order: what needs a privilege, then none is left, then the command may run. */
static void start(struct arguments *args, const struct init_bound *bound)
{
	init_privilege_drop();
	/* Neither the agent's ptrace nor /proc/1/mem reaches in. Set here, since a change of
	 * namespace or uid, and an exec, set it back. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		init_die("making itself undumpable: %s", strerror(errno));
	/* Its parent is of the engine's, and nobody else would miss it. */
	if (args->hold && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
		init_die("ending with its parent: %s", strerror(errno));
	init_privilege_core();
	unsigned long nofile = raise_nofile(&args->command);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		init_die("epoll: %s", strerror(errno));
	init_relay_start(args->socket, nofile);
	init_relay_listen(bound->proxy, false);
	if (bound->local >= 0)
		init_relay_listen(bound->local, false);
	init_capture_start(bound);
	init_landlock_prepare(args->socket);
	if (args->variables)
		init_environ(args->variables);
	if (args->directory)
		init_directory_name(args->directory);
	for (size_t i = 0; i < args->n_filters; i++)
		init_privilege_filter(args->filters[i]);
}

int main(int argc, char **argv)
{
	struct arguments args;
	struct init_bound bound;
	if (argc == 2 && strcmp(argv[1], "--bring") == 0)
		init_uplink_bring();
	parse(argc, argv, &args);
	if (args.uplink)
		init_uplink_take(args.uplink_fd);
	if (args.bound) {
		take_bound(args.bound, &bound);
	} else {
		/* As whoever the engine would have entered it as, or else as the command's user. */
		bool entered =
			!args.directory ||
			init_directory_enter(args.directory, args.apart != 0, !args.change_user);
		bind_all(&args, &bound);
		if (args.hold)
			init_control_hold(args.control);
		if (args.change_user) {
			if (args.become)
				init_privilege_become(args.host_uid, args.host_gid);
			if (args.apart)
				init_hardening(args.apart, args.command.own_tty);
			init_privilege_user(args.uid, args.gid, args.hold);
			if (!entered)
				(void)init_directory_enter(args.directory, args.apart != 0, true);
			init_privilege_drop();
			if (!args.apart)
				start_again(argc, argv, &bound);
		}
	}
	start(&args, &bound);
	if (args.connect)
		args.control = init_control_connect(args.connect, args.command.stdio);
	if (args.uplink)
		args.control = init_uplink_rendezvous(args.command.stdio);
	if (args.control >= 0)
		init_control_start(args.control);
	init_command_prepare(&args.command);
	loop();
}
