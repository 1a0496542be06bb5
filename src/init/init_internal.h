/* init_internal.h - the parts of keyhole-init, which use only static memory */
#ifndef KEYHOLE_INIT_INTERNAL_H
#define KEYHOLE_INIT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/limits.h>

/* One entry of the epoll set; must live as long as its descriptor is watched. */
struct init_watch {
	void (*ready)(struct init_watch *watch, uint32_t events);
	void *owner;
};
/* Return: false with errno. */
bool init_watch_add(int fd, struct init_watch *watch, uint32_t events);
/* Changes the events of an entry. Return: false with errno. */
bool init_watch_change(int fd, struct init_watch *watch, uint32_t events);
/* Call it before the descriptor is closed: close(2) alone does not end the watch while another
 * process has the same socket (the command before its exec, and whoever passed the socket in). */
void init_watch_end(int fd);

/* One line to standard error: "keyhole-init: …". */
void init_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void init_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* loopback.c */
/* Return: false with errno where lo is down and stays so. */
bool init_loopback_up(void);
/* Return: a non-blocking listener on 127.0.0.1, -1 with errno. */
int init_loopback_listen(uint16_t port);

/* Redirects connections to all addresses to this host, by a local route; if the kernel supports
 * none, by addresses of lo with wide networks (only IPv4). Also adds a second IPv4 address, without
 * which getaddrinfo assumes that there is no IPv4. Return: false with errno: the namespace does not
 * allow it. */
bool init_loopback_catch(void);

/* dial.c */
enum init_dialled {
	INIT_DIAL_NOBODY, /* the port is closed, or there is no such address */
	INIT_DIAL_FAILED, /* failed otherwise: unknown whether a server listens */
	INIT_DIAL_WAITS,  /* in progress: the descriptor becomes writable at the end */
	INIT_DIAL_THERE,
};
/* Starts to connect to this port of 127.0.0.1 or ::1. Return: WAITS, and *fd is the caller's;
 * NOBODY or FAILED, and *fd is -1. init_dial_look tells how it goes on. */
enum init_dialled init_dial(uint16_t port, bool is_v6, int *fd);
enum init_dialled init_dial_look(int fd, bool is_v6);

/* relay.c */
/* `nofile`: the most descriptors that this process may have. */
void init_relay_start(const char *socket_path, unsigned long nofile);
/* Takes ownership of the listener. `captured`: its clients use no proxy (capture.c). */
void init_relay_listen(int listener, bool captured);
/* Takes ownership of a stream socket, which is relayed to a server on this port inside, and of the
 * socket for the notice (KH_INIT_PUBLISHED). */
void init_relay_publish(int fd, int notice, uint16_t port);
/* Is there a published connection whose server has not ended? */
bool init_relay_serves(void);
/* Servers are about to be killed: sends no more notices. */
void init_relay_cut(void);
/* Continues work that a turn of the loop left over. Return: how long the loop may sleep, in
 * milliseconds; -1: for ever. */
int init_relay_turn(void);
/* Are there bytes from inside that the proxy has not got yet? */
bool init_relay_pending(void);

/* capture.c */
/* Where a captured connection was meant to go. */
struct init_target {
	unsigned place; /* of the name (names.h); 0: a literal address */
	uint16_t port;
	bool is_v6;
	unsigned char address[16];
};
/* The sockets that were bound before the privileges were dropped. */
struct init_bound {
	int proxy;	      /* 127.0.0.1:3128 */
	int dns_udp, dns_tcp; /* -1: nothing is captured */
	int local;	      /* of a name (uplink.c); -1 */
	int ports[2 * KH_LIMIT_INIT_PORTS];
	size_t n_ports;
};
/* Binds DNS, and listeners on these ports; exits on failure. */
void init_capture_bind(const uint16_t *ports, size_t n_ports, struct init_bound *out);
void init_capture_start(const struct init_bound *bound);
/* The target of a captured connection. Return: false: its address has no name (any more), or is the
 * sandbox's own. */
bool init_capture_target(int fd, struct init_target *out);
/* Writes the CONNECT request for a target. Return: its length; 0: no room. */
size_t init_capture_head(const struct init_target *target, char *out, size_t room);

/* privilege.c; each exits on failure */
/* Changes uid and gid for good, without other groups. */
void init_privilege_become(unsigned uid, unsigned gid);
/* Enters a child user namespace as this uid and gid; with `groups`, also a cgroup namespace, whose
 * root is this process's current group. */
void init_privilege_user(unsigned uid, unsigned gid, bool groups);
/* No capability in any set, and no new privileges. */
void init_privilege_drop(void);
/* Sets RLIMIT_CORE to 1, also for children, so that a crash starts no handler on the host; if that
 * is allowed. */
void init_privilege_core(void);
/* Loads a seccomp filter (classic BPF) from a file. */
void init_privilege_filter(const char *path);

/* hardening.c */
/* For an engine with its own kernel: makes `uid` the real and saved uid, which decide who may
 * signal this process, and the owner of /dev; gives the engine's terminal a name there (own_tty).
 * Exits on failure. */
void init_hardening(unsigned uid, bool own_tty);
/* In the command's process: sets all uids to the effective one. Return: false with errno. */
bool init_hardening_no_more(void);

/* directory.c */
/* Makes this folder the current one. `own_kernel`: the kernel is the engine's. Exits on failure,
 * and where the folder is not in the sandbox's root. Return: false: this user may not enter it, and
 * there is another one to try (`last` is not set). */
bool init_directory_enter(const char *path, bool own_kernel, bool last);
/* PWD names it. */
void init_directory_name(const char *path);

/* environ.c */
/* Makes the variables in this file the command's whole environment. */
void init_environ(const char *path);

/* uplink.c */
/* Takes ownership of the descriptor; -1: waits until another process brings it. */
void init_uplink_take(int fd);
/* The process that brings it (--bring). */
_Noreturn void init_uplink_bring(void);
/* Return: a listener at this path, to which everybody inside may connect; it and its folder belong
 * to `uid`. Exits on failure. */
int init_uplink_listen(const char *path, unsigned uid);
/* As init_control_connect, over the uplink. Afterwards connections may be requested. */
int init_uplink_rendezvous(int stdio[3]);
bool init_uplink_present(void);
enum init_linked {
	INIT_LINK_WAITS, /* no answer yet; the loop wakes up when it comes */
	INIT_LINK_AGAIN, /* try again after a pause */
	INIT_LINK_REFUSED,
	INIT_LINK_THERE,
};
/* Requests a connection to the proxy, or takes it when it has come; one at a time. THERE: *fd is
 * the caller's. */
enum init_linked init_uplink_connect(int *fd);

/* control.c */
/* Connects to the launcher, and gets the command's descriptors. Return: the control socket. */
int init_control_connect(const char *path, int stdio[3]);
/* Receives them on `from`; `way` names it in messages. */
int init_control_receive(int from, const char *way, int stdio[3]);
void init_control_start(int fd);
/* Says READY and returns at GO. */
void init_control_hold(int fd);
/* `pass`: a descriptor to send along; -1: none. Does nothing without a launcher. */
void init_control_send(uint32_t type, int value, int pass);
bool init_control_present(void);

/* landlock.c */
/* Adds a path that the command may write to; the string must stay valid. */
void init_landlock_place(const char *path);
/* Makes the ruleset, if there are such paths and the kernel has Landlock. `socket_path`: the
 * proxy's socket, which may be connected to. */
void init_landlock_prepare(const char *socket_path);
/* In the command's process. Return: false with errno. */
bool init_landlock_enter(void);

/* ---- home.c ---- */

/* In the command's process. What can't be made is complained of, and the command starts. */
void init_home_fill(void);

/* command.c */
struct init_command {
	char **argv;
	int stdio[3];
	bool tty[3];
	bool hold;    /* wait for GO, if there is a launcher */
	bool own_tty; /* the terminal is the init's own standard input */
	bool apart;   /* the init has other uids than the command (hardening.c) */
	unsigned long memory_bytes, pids; /* of the command; 0: no limit */
	unsigned long nofile_soft,
		nofile_hard; /* the original limits, which the command gets back */
};
/* Blocks and watches the signals, and starts the command (with a terminal: at GO). */
void init_command_prepare(const struct init_command *wanted);
void init_command_go(void);
bool init_command_signal(int signo);
/* Does what the kernel would do for a key of the engine's terminal: signals the foreground
 * processes. */
void init_command_typed(int signo);
/* Reaps some ended processes. Return: there may be more. */
bool init_command_turn(void);
/* Exits once the command has ended and the relay is done. Return: the command has ended. */
bool init_command_finish(void);

#endif
