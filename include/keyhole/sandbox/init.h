/* init.h - the protocol between launcher and keyhole-init; plain C, for both sides */
#ifndef KEYHOLE_SANDBOX_INIT_H
#define KEYHOLE_SANDBOX_INIT_H

#include <stdint.h>

/*
 * keyhole-init [--port N] [--socket PATH] [--control FD | --connect PATH | --uplink FD]
 *              [--stdio IN,OUT,ERR]
 *              [--tty FDS | --engine-tty FDS] [--capture PORTS] [--user UID:GID] [--seccomp FILE]
 *              [--writable PATH]… [--memory BYTES] [--pids N] [--environ FILE] [--hold 1]
 *              [--become UID:GID] [--apart UID] [--expect DEV:INO:PATH]… [--directory PATH]
 *              -- CMD…
 *
 *   --port     the port on 127.0.0.1 where it listens (3128)
 *   --socket   the Unix socket that each connection is relayed to (/run/keyhole/s)
 *   --control  an inherited SOCK_SEQPACKET descriptor to the launcher; without it, there is no
 *              launcher
 *   --connect  a SOCK_SEQPACKET socket on which the launcher listens and passes the descriptors of
 *              --control and --stdio: for engines that let it inherit no descriptors
 *   --uplink   an inherited SOCK_SEQPACKET descriptor over which it gets the same descriptors, and
 *              later each connection to the proxy that it asks for. It then makes the socket
 *              --socket itself. -1: another process brings the descriptor. Needs --apart
 *   --stdio    inherited descriptors that become the command's standard input, output and error
 *   --tty      those of them that are to be a terminal made inside the sandbox: "01", "012"
 *   --engine-tty  those that are to be the engine's terminal, which is its own standard input
 *   --capture  answers DNS on 127.0.0.1:53 with addresses of its own, and relays connections to
 *              them on these ports ("80,443") as CONNECT name:port; the same for literal addresses
 *              if the namespace allows a local route (CAP_NET_ADMIN)
 *   --names    the range of those addresses, ADDRESS/BITS, instead of 127.64.0.0/10
 *   --user     the command's uid and gid, in a second user namespace that is made after the ports
 *              are bound (needs CAP_SETFCAP in the first one if it was started as uid 0 there)
 *   --seccomp  a file with a classic BPF filter, loaded before the command is started. At most
 *              twice; they are loaded in this order
 *   --writable a path below which the command may write; Landlock forbids writing anywhere else (if
 *              the kernel has it; without any --writable nothing is limited). Several times
 *   --memory   the most bytes that a process of the command may have mapped (RLIMIT_AS)
 *   --pids     the most processes and threads in its user namespace, including keyhole-init
 *   --hold     with --control: sends READY and waits for GO, so that the launcher can put it into
 *              control groups first; and ends with its parent
 *   --become   its uid and gid on the host after its ports are bound, without other groups, if it
 *              was started as the host's uid 0 (needs CAP_SETUID and CAP_SETGID)
 *   --apart    for an engine with a kernel of its own: this otherwise unused uid becomes
 *              keyhole-init's real and saved uid, so that the command can't signal it. It also
 *              owns /dev, in which only the standard devices are left (needs CAP_SETUID and
 *              CAP_CHOWN)
 *   --expect   start nothing unless there is a mount at this path, and it is this file (INO 0: any
 *              file), since a path may have been replaced before it was mounted. Several times
 *   --environ  a file with the command's whole environment: NAME=VALUE, each ended by a NUL
 *   --directory  the folder that the command starts in; without it, the one that keyhole-init was
 *              started in. No link of /proc that leads to an open file (/proc/self/fd/3,
 *              /proc/1/root) is followed on the way there, since the text may be an image's
 *
 * (It adds --bound itself when it executes itself again: main.c.)
 *
 * keyhole-init --bring
 *
 * The other process of `--uplink -1`, for an engine whose program can pass in a terminal, or
 * descriptors, but not both. The first process writes KH_INIT_MARK to the terminal when it waits;
 * this one passes its own standard input to it, and ends.
 *
 * In every case keyhole-init has dropped all capabilities when the command starts.
 *
 * It exits with the command's own status (128+n for signal n); 126: the command can't be executed;
 * 127: it does not exist; 125: keyhole-init itself failed. It ends, and every process of the
 * sandbox with it, when the command ends or the launcher closes its end of the control socket.
 */
enum {
	KH_INIT_PORT = 3128,
	KH_INIT_NAMES_LEAST_BITS = 8,
	KH_INIT_NAMES_MOST_BITS = 18,
	KH_INIT_FAILED = 125,
	KH_INIT_NOT_EXECUTABLE = 126,
	KH_INIT_NOT_FOUND = 127,
};
#define KH_INIT_SOCKET "/run/keyhole/s"
/* What is in this folder is copied into the command's home before it starts, file by file, where
 * nothing has that name there. It may be absent. */
#define KH_INIT_HOME_FILES "/etc/keyhole/home"

/*
 * One struct per datagram, in both directions. With --tty the init sends TERMINAL with the master
 * (SCM_RIGHTS) and does not start the command until GO. The launcher trusts nothing that comes from
 * inside.
 */
enum kh_init_type {
	KH_INIT_TERMINAL = 1, /* I→L with the pseudo-terminal's master */
	KH_INIT_STARTED,      /* I→L the command was executed */
	KH_INIT_NO_EXEC,      /* I→L value: errno; it could not be executed */
	KH_INIT_EXITED,	      /* I→L value: the wait status */
	KH_INIT_GO, /* L→I start the command: the terminal, or the control groups, are ready */
	KH_INIT_SIGNAL,	   /* L→I value: for the command's process group */
	KH_INIT_PUBLISHED, /* L→I value: a port inside, with KH_INIT_CLIENT_FDS descriptors */
	KH_INIT_READY,	   /* I→L with --hold: waits for GO */
	KH_INIT_TYPED,	   /* L→I value: a signal from the engine's terminal, for its foreground
			      processes */
	KH_INIT_HEARD,	   /* I→L value: a SIGNAL that has been sent to the command */
	KH_INIT_MET,	/* L→I over --connect and --uplink: the control socket, and the command's
			   input, output, error */
	KH_INIT_LINKED, /* L→I over --uplink: a connection to the proxy, or value: errno. Any
			   datagram I→L requests one */
};
enum { KH_INIT_MARK = 6 };  /* ACK, which neither terminals nor error messages contain */
enum { KH_INIT_GIVEN = 4 }; /* descriptors with MET */
/*
 * With PUBLISHED: a stream socket for a client, and a socket for the notice. The notice is one
 * byte. The init sends it when the server has closed its side and all of its bytes are in the
 * stream socket, before it shuts that down; also if no server listens. A stream that ends without a
 * notice was cut off.
 */
enum { KH_INIT_CLIENT_FDS = 2 };

struct kh_init_message {
	uint32_t type;
	int32_t value;
};

#endif
