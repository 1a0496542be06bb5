/* init.h - what the launcher and keyhole-init tell each other; plain C, for both sides */
#ifndef KEYHOLE_SANDBOX_INIT_H
#define KEYHOLE_SANDBOX_INIT_H

#include <stdint.h>

/*
 * keyhole-init [--port N] [--socket PATH] [--control FD | --connect PATH | --uplink FD]
 *              [--stdio IN,OUT,ERR]
 *              [--tty FDS | --engine-tty FDS] [--capture PORTS] [--user UID:GID] [--seccomp FILE]
 *              [--writable PATH]… [--memory BYTES] [--pids N] [--environ FILE] [--hold 1]
 *              [--become UID:GID] [--apart UID] [--expect DEV:INO:PATH]… -- CMD…
 *
 *   --port     where it listens on 127.0.0.1 (3128)
 *   --socket   the Unix socket that each connection is relayed to (/run/keyhole/s)
 *   --control  an inherited SOCK_SEQPACKET descriptor to the launcher; without it, it works alone
 *   --connect  a SOCK_SEQPACKET socket at which the launcher listens, where it is given what
 *              --control and --stdio name: for engines that hand no descriptors on
 *   --uplink   an inherited SOCK_SEQPACKET descriptor, by which it is given the same, and from then
 *              on each connection to the proxy that it asks for: --socket is a name that it makes
 *              itself. -1: another process brings the descriptor. Wants --apart
 *   --stdio    inherited descriptors that become the command's standard input, output and error
 *   --tty      those of them that are to be a terminal made inside the sandbox: "01", "012"
 *   --engine-tty  those that are to be the terminal that the engine gave it: its own standard input
 *   --capture  answers DNS on 127.0.0.1:53 with addresses of its own, and relays connections to
 *              them on these ports ("80,443") as CONNECT name:port; the same for literal addresses
 *              where the namespace lets a local route be made (CAP_NET_ADMIN)
 *   --user     who the command is: a uid of a second user namespace, made when the ports are bound
 *              (needs CAP_SETFCAP in the first where that has started it as uid 0)
 *   --seccomp  a filter, classic BPF, loaded before the command is started. Twice at most, in this
 *              order
 *   --writable the command may write here and nowhere else, by Landlock (where the kernel has it;
 *              without any --writable it limits nothing). Several times.
 *   --memory   the most that a process of the command may have mapped (RLIMIT_AS)
 *   --pids     the most processes and threads in its user namespace, keyhole-init among them
 *   --hold     with --control: says READY, and goes on at GO, in the control groups that it has
 *              been put into by then; and ends with its parent
 *   --become   who it is on the host from when its ports are bound: uid and gid, no other group
 *              (needs CAP_SETUID and CAP_SETGID), where it was started as the host's root
 *   --apart    where the kernel inside is one of the engine's own: this uid, which is nobody's
 * else, is keyhole-init's real and saved one, so that the command can't signal it, and who has
 *              /dev, in which only the devices of every sandbox are left (needs CAP_SETUID and
 *              CAP_CHOWN)
 *   --expect   a mount lies at this path, and it is that file (INO 0: whichever), or nothing is
 *              started: what was mounted by its name, and on what, may have been replaced. Several
 *              times.
 *   --environ  the command's variables, and no others: NAME=VALUE, each with a NUL behind it
 *
 * keyhole-init --bring
 *
 * The other process of `--uplink -1`, for an engine whose program can't hand in a terminal and
 * anything else with it: the first writes KH_INIT_MARK to the terminal when it waits, and this one
 * gives it its own standard input, and ends.
 *
 * Whatever it is started with, it has no capability any more when the command starts.
 *
 * It exits with the command's own status (128+n for signal n), 126 where the command can't be
 * executed, 127 where it isn't there, 125 where the init itself failed. It ends, and with it every
 * process of the sandbox, when the command ends or the launcher's end of the control socket closes.
 */
enum {
	KH_INIT_PORT = 3128,
	KH_INIT_FAILED = 125,
	KH_INIT_NOT_EXECUTABLE = 126,
	KH_INIT_NOT_FOUND = 127,
};
#define KH_INIT_SOCKET "/run/keyhole/s"

/*
 * One struct a datagram, in both directions. With --tty the init sends TERMINAL with the master by
 * SCM_RIGHTS and starts nothing until GO. The launcher trusts nothing that comes from inside.
 */
enum kh_init_type {
	KH_INIT_TERMINAL = 1, /* I→L with the pseudo-terminal's master */
	KH_INIT_STARTED,      /* I→L the command was executed */
	KH_INIT_NO_EXEC,      /* I→L value: errno; it could not be */
	KH_INIT_EXITED,	      /* I→L value: the wait status */
	KH_INIT_GO,	      /* L→I the terminal is set up: start */
	KH_INIT_SIGNAL,	      /* L→I value: for the command's process group */
	KH_INIT_PUBLISHED,    /* L→I value: a port inside, with KH_INIT_CLIENT_FDS descriptors */
	KH_INIT_READY,	      /* I→L with --hold: GO is waited for */
	KH_INIT_TYPED, /* L→I value: a signal that the engine's terminal makes, for its foreground
			*/
	KH_INIT_HEARD, /* I→L value: a SIGNAL, which the command has been sent */
	KH_INIT_MET,   /* L→I over --connect and --uplink: the control socket, and the command's
			  input, output, error */
	KH_INIT_LINKED, /* L→I over --uplink: a connection to the proxy, or errno as the value. Any
			   datagram I→L asks for one */
};
enum { KH_INIT_MARK = 6 };  /* ACK, which neither a terminal nor a program's complaint has */
enum { KH_INIT_GIVEN = 4 }; /* descriptors with MET */
/*
 * With PUBLISHED: a stream socket for a client, and a socket for the notice. The init sends one
 * byte as the notice when the server has ended its side and all of its bytes are in the stream
 * socket, before it ends that one; and where nobody listens inside. A stream that ends without a
 * notice was cut off.
 */
enum { KH_INIT_CLIENT_FDS = 2 };

struct kh_init_message {
	uint32_t type;
	int32_t value;
};

#endif
