/* init_internal.h - the parts of keyhole-init; static memory only, nothing grows */
#ifndef KEYHOLE_INIT_INTERNAL_H
#define KEYHOLE_INIT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <keyhole/base/limits.h>

/* One entry of the epoll set; lives as long as its descriptor is watched. */
struct init_watch {
	void (*ready)(struct init_watch *watch, uint32_t events);
	void *owner;
};
/* Return: false with errno. */
bool init_watch_add(int fd, struct init_watch *watch, uint32_t events);
/* Of one that was added: other events. Return: false with errno. */
bool init_watch_change(int fd, struct init_watch *watch, uint32_t events);
/* Before its descriptor is closed, which alone ends nothing while somebody else has the same
 * socket: the command before its exec, and whoever handed it in. */
void init_watch_end(int fd);

/* One line to standard error: "keyhole-init: …". */
void init_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void init_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* loopback.c */
/* Return: false with errno where lo is down and stays so. */
bool init_loopback_up(void);
/* Return: a non-blocking listener on 127.0.0.1, -1 with errno. */
int init_loopback_listen(uint16_t port);

/* Connections to every address there is end here, by a local route, and where the kernel takes none
 * by addresses of lo with wide networks (IPv4 alone); and there is a second address of IPv4,
 * without which getaddrinfo takes it that there is no IPv4. Return: false with errno where the
 * namespace does not allow it. */
bool init_loopback_catch(void);

/* dial.c */
enum init_dialled {
	INIT_DIAL_NOBODY, /* the port is refused, or there is no such address */
	INIT_DIAL_FAILED, /* whether somebody listens there is not known */
	INIT_DIAL_WAITS,  /* the descriptor becomes writable when there is an answer */
	INIT_DIAL_THERE,
};
/* A socket on its way to the server on this port of 127.0.0.1 or ::1. Return: WAITS, with *fd the
 * caller's; NOBODY or FAILED, with -1. */
enum init_dialled init_dial(uint16_t port, bool is_v6, int *fd);
enum init_dialled init_dial_look(int fd, bool is_v6);

/* relay.c */
/* `nofile`: how many descriptors this process may have. */
void init_relay_start(const char *socket_path, unsigned long nofile);
/* Takes the listener over. `captured`: who connects does not know of a proxy (capture.c). */
void init_relay_listen(int listener, bool captured);
/* Takes over a stream socket, whose bytes are for a server on this port inside, and the socket for
 * the notice (KH_INIT_PUBLISHED). */
void init_relay_publish(int fd, int notice, uint16_t port);
/* Is the end of a published connection's server still to come? */
bool init_relay_serves(void);
/* Servers are about to be killed: from now on no notice is sent of any end. */
void init_relay_cut(void);
/* Goes on with what one turn of the loop left. Return: how long the loop may sleep, ms, -1: for
 * ever. */
int init_relay_turn(void);
/* Is anything that was sent from inside still on its way to the proxy? */
bool init_relay_pending(void);

/* capture.c */
/* Where a captured connection was meant to go. */
struct init_target {
	unsigned place; /* of the name (names.h); 0: a literal address */
	uint16_t port;
	bool is_v6;
	unsigned char address[16];
};
/* What was bound while that was allowed. */
struct init_bound {
	int proxy;	      /* 127.0.0.1:3128 */
	int dns_udp, dns_tcp; /* -1: nothing is captured */
	int local;	      /* of a name (uplink.c); -1 */
	int ports[2 * KH_LIMIT_INIT_PORTS];
	size_t n_ports;
};
/* DNS, and listeners on these ports; ends the init where that can't be. */
void init_capture_bind(const uint16_t *ports, size_t n_ports, struct init_bound *out);
void init_capture_start(const struct init_bound *bound);
/* Return: false for an address that stands for nothing (any more), and for the sandbox's own. */
bool init_capture_target(int fd, struct init_target *out);
/* What asks the proxy for it: a CONNECT. Return: its length, 0: no room. */
size_t init_capture_head(const struct init_target *target, char *out, size_t room);

/* privilege.c; each ends the init where it can't be done */
/* For good, without another group. */
void init_privilege_become(unsigned uid, unsigned gid);
/* Into a user namespace below, as this uid and gid; and into one of control groups, in which the
 * one that this process is in now is the top, where `groups`. */
void init_privilege_user(unsigned uid, unsigned gid, bool groups);
/* No capability in any set, and no new privileges. */
void init_privilege_drop(void);
/* No handler of the host's is started by a crash: the limit of core files is 1, also of what is
 * started from here, where it may be that. */
void init_privilege_core(void);
/* Loads a filter out of a file: classic BPF as seccomp takes it. */
void init_privilege_filter(const char *path);

/* hardening.c */
/* Where the kernel inside is one of the engine's own: this uid is who it is for those who would
 * signal it, and who has /dev, where a terminal of the engine's gets a name; ends the init where it
 * can't be done. */
void init_hardening(unsigned uid, bool own_tty);
/* In the command's process: all its uids are the effective one. Return: false with errno. */
bool init_hardening_no_more(void);

/* environ.c */
/* The command's variables are those of this file, and no others. */
void init_environ(const char *path);

/* uplink.c */
/* Takes the descriptor over; -1: waits for who brings it. */
void init_uplink_take(int fd);
/* In the process that brings it. */
_Noreturn void init_uplink_bring(void);
/* Return: a listener at this name, for everybody inside; it and its folder belong to this uid. Ends
 * the init where that can't be. */
int init_uplink_listen(const char *path, unsigned uid);
/* What init_control_connect gives, over it; from then on connections may be asked for. */
int init_uplink_meet(int stdio[3]);
bool init_uplink_present(void);
enum init_linked {
	INIT_LINK_WAITS, /* the loop is woken when there is an answer */
	INIT_LINK_AGAIN, /* after a pause */
	INIT_LINK_REFUSED,
	INIT_LINK_THERE,
};
/* One connection to the proxy at a time: asks for it, and takes it when it is there. */
enum init_linked init_uplink_connect(int *fd);

/* control.c */
/* Asks the launcher for the control socket and the command's descriptors. */
int init_control_connect(const char *path, int stdio[3]);
/* Receives them there; `way` names it for messages. */
int init_control_receive(int from, const char *way, int stdio[3]);
void init_control_start(int fd);
/* Says READY and returns at GO. */
void init_control_hold(int fd);
/* `pass` is a descriptor to send along, -1: none. Quietly nothing where there is no launcher. */
void init_control_send(uint32_t type, int value, int pass);
bool init_control_present(void);

/* landlock.c */
/* One more place that the command may write to; the path must live on. */
void init_landlock_place(const char *path);
/* Makes the rules, where there are places and the kernel knows Landlock. `socket_path` is the
 * proxy's, which may be connected to. */
void init_landlock_prepare(const char *socket_path);
/* In the command's process. Return: false with errno. */
bool init_landlock_enter(void);

/* command.c */
struct init_command {
	char **argv;
	int stdio[3];
	bool tty[3];
	bool hold;				/* until GO, where there is a launcher */
	bool own_tty;				/* it is the init's own standard input */
	bool apart;				/* the init has other uids than it (hardening.c) */
	unsigned long memory_bytes, pids;	/* of the command, 0: no limit of ours */
	unsigned long nofile_soft, nofile_hard; /* as they were: the command gets them back */
};
/* Blocks the signals, watches them, and starts the command (with a terminal: at GO). */
void init_command_prepare(const struct init_command *wanted);
void init_command_go(void);
bool init_command_signal(int signo);
/* What the kernel would do where the engine's terminal is not known to it. */
void init_command_typed(int signo);
/* Waits for some of those that have ended. Return: there may be more. */
bool init_command_turn(void);
/* Ends the init once the command has ended and the relay is done. Return: the command has ended. */
bool init_command_finish(void);

#endif
